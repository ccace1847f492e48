"""Search for points near divergent transitions where a log density is NaN."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.layout import Layout
from inference.common.target import Target, is_of_values
from inference.drivers.advice import advise
from inference.initialization.initial_positions import parse_init
from inference.initialization.not_finite import not_finite
from inference.models.same_model import latent_draws
from inference.runtime.compiled_program import compile_once
from inference.runtime.jax_settings import numbers_of_any_kind

_NUM_STARTS = 32  # draws near which points are tried; half are ends of divergent transitions
_STEPS = 0.25, 0.5, 1.0, 2.0  # standard deviations from a draw to a point


def find_nan(target: Target, draws: Any, stats: Mapping[str, Any]) -> str | None:
    """Words for a point where the log density is NaN, near the draws of divergent transitions.

    `None` if no transition diverged, no point is found, or draws lack sites that are latent.
    """
    return advise("a point where the log density is NaN", _search, target, draws, stats)


def _search(target: Target, draws: Any, stats: Mapping[str, Any]) -> str | None:
    diverged = np.argwhere(np.asarray(stats.get("is_divergent", False)))
    latent = latent_draws(target.position_shapes, draws)
    if latent is None or not diverged.size or is_of_values(target):
        return None
    everywhere = np.argwhere(np.ones(np.shape(stats["is_divergent"]), bool))

    def spread(x):
        return x[np.linspace(0, len(x) - 1, _NUM_STARTS // 2).astype(int)]

    chosen = np.concatenate([spread(diverged), spread(everywhere)])
    values = jax.tree.map(lambda x: np.asarray(x)[tuple(chosen.T)], latent)
    values = parse_init(values, target, _NUM_STARTS).values
    with numbers_of_any_kind():
        found = compile_once(_log_densities_around, target, values)(target, values)
        points, log_densities = (np.asarray(x) for x in found)
        is_nan = np.isnan(log_densities)
        return _explain(target, points[is_nan][0]) if is_nan.any() else None


def find_nan_near(target: Target, points: np.ndarray) -> str | None:
    """Words for a point where the log density is NaN, near flat positions; `None` if none is."""

    def look() -> str | None:
        layout = Layout.of(target.position_shapes)
        at = jnp.asarray(points, layout.dtype)
        with numbers_of_any_kind():
            program = compile_once(_log_densities_near, target, at, jnp.ones(layout.size))
            found = program(target, at, jnp.ones(layout.size))
            near, log_densities = (np.asarray(x) for x in found)
        is_nan = np.isnan(log_densities)
        return _explain(target, near[is_nan][0]) if is_nan.any() else None

    return advise("a point where the log density is NaN", look)


def explain_nan(make_target: Callable[[], Target], values: Any) -> str | None:
    """Words on why the log density is NaN at values of the latent sites; `None` without any.

    Args:
        make_target: Function that gives the density.
        values: Values by name.
    """

    def look() -> str | None:
        target = make_target()
        latent = latent_draws(target.position_shapes, jax.tree.map(lambda x: x[None, None], values))
        if latent is None:
            return None
        init = parse_init(jax.tree.map(lambda x: x[0], latent), target, 1).values
        layout = Layout.of(target.position_shapes)
        start = target.initial(jax.random.key(0), jax.tree.map(lambda x: x[0], init))
        return _explain(target, layout.ravel(start))

    return advise("a reason why the log density is NaN", look)


def explain_nan_at(target: Target, point: np.ndarray) -> str | None:
    """Words on why the log density is NaN at a flat position; `None` without any."""
    return advise("a reason why the log density is NaN", _explain, target, point)


def _explain(target: Target, point: Any) -> str:
    """Words on why the log density is NaN at a flat position."""
    layout = Layout.of(target.position_shapes)
    with numbers_of_any_kind():
        return not_finite(target, layout, jnp.asarray(point), np.nan, None)[0]


def _log_densities_around(target: Target, values: Any) -> tuple[jax.Array, jax.Array]:
    """Points around positions, flat, and their log densities."""
    layout = Layout.of(target.position_shapes)
    key = jax.random.key(0)
    at = jax.vmap(lambda values: layout.ravel(target.initial(key, values)))(values)
    return _log_densities_near(target, at, jnp.std(at, 0))


def _log_densities_near(
    target: Target, at: jax.Array, scale: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Points near flat positions, by a scale for each coordinate, and their log densities."""
    layout = Layout.of(target.position_shapes)
    key = jax.random.key(0)
    steps = jnp.asarray(_STEPS, at.dtype)[:, None, None] * scale[None, None]
    points = at[None] + steps * jax.random.normal(key, (len(_STEPS), *at.shape), at.dtype)
    points = points.reshape(-1, at.shape[1])

    def log_density(point):
        return target.log_density(layout.unravel(point))

    return points, jax.lax.map(log_density, points)
