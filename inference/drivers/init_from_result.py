"""Where chains and fits start that go on from another result, and the spread that it knows of."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.target import Target
from inference.common.threefry import seed_of
from inference.guides.low_rank_normal import GuideMixture
from inference.initialization.initial_positions import Init, NormalStart
from inference.results.optimize_result import OptimizeResult
from inference.results.pathfinder_result import normalize_weights

_MAX_COORDINATES = 2000
_MIN_DRAWS_PER_COORDINATE = 5  # for each coordinate, for a covariance


def choose_starts(
    key: jax.Array, result: Any, target: Target, num_chains: int
) -> Mapping[str, Any]:
    """Values to start chains at, with the chains in front where these differ.

    They are draws of the result, taken by their smoothed weights and without replacement, so that
    chains start at different ones as long as there are as many. That of a chain depends on the key
    and its number alone. All chains start at a mode.

    Raises:
        ValueError: if the result is one of another model.
    """
    is_mode = isinstance(result, OptimizeResult)
    values = result.values if is_mode else jax.tree.map(lambda x: x[0], result.draws)
    _check(values, target, type(result).__name__, 0 if is_mode else 1)
    if is_mode:
        return values
    chosen = _choose_draws(key, _counts(result), num_chains)
    return jax.tree.map(lambda x: np.asarray(x)[chosen], values)


def _counts(result: Any) -> np.ndarray:
    """What each draw counts, ``(draw,)``; of those that are alike, the first counts for all."""
    weights = getattr(result, "weights", None)
    if weights is None:
        log_weights = np.zeros_like(np.asarray(result.log_density))
        if getattr(result, "guide", None) is not None and result.guide.has_density:
            log_weights = np.asarray(result.log_weights)
        weights = normalize_weights(log_weights)
    weights = np.nan_to_num(np.asarray(weights, np.float64)[0])
    draws = jax.tree.leaves(result.draws)
    rows = np.concatenate([np.reshape(x, (weights.size, -1)) for x in draws], 1)
    _, first, same = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    counts = np.zeros_like(weights)
    counts[first] = np.bincount(np.ravel(same), weights)
    return counts


def _choose_draws(key: jax.Array, weights: np.ndarray, num_chains: int) -> np.ndarray:
    """Numbers of draws by their weights, each once as long as there are any left.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir.
    """
    rng = np.random.default_rng([*np.asarray(seed_of(key)), 1])
    with np.errstate(divide="ignore"):
        times = np.log(rng.exponential(size=weights.size)) - np.log(weights)
    order = np.argsort(times, kind="stable")
    known = order[: max(1, np.count_nonzero(weights))]
    return np.resize(known, num_chains)


def _check(values: Any, target: Target, what: str, num_leading: int) -> None:
    """Refuses values that are not those of the model's sites."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    sites = jax.eval_shape(lambda key: target.constrain(target.initial(key)), key)
    expected = {name: x.shape for name, x in named_leaves(sites)}
    found = {name: np.shape(x)[num_leading:] for name, x in named_leaves(values)}
    if found != expected:
        raise ValueError(
            f"init is a {what} of another model or of data of other shapes: it has "
            f"{_list_shapes(found)}, and the model {_list_shapes(expected)}. Pass a result for this model, "
            "or a dict of values for the sites that it shares."
        )


def _list_shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in sorted(shapes.items())) or "nothing"


def covariance_of(result: Any) -> np.ndarray | None:
    """The covariance of flat positions that a result knows, if it is of use as a metric.

    Of several paths it is that of the best alone: within a mode, not between modes.
    """
    guide, parameters = _best_guide(result)
    size = getattr(getattr(parameters, "loc", None), "size", np.inf)
    if not hasattr(guide, "covariance") or size > _MAX_COORDINATES:
        return None
    covariance = np.asarray(guide.covariance(parameters))
    return None if _cholesky(covariance) is None else covariance


def _best_guide(result: Any) -> tuple[Any, Any]:
    """The guide of a result and its parameters, of several paths those of the best."""
    guide: Any = getattr(result, "guide", None)
    parameters: Any = getattr(result, "parameters", None)
    if isinstance(guide, GuideMixture):
        best = int(np.argmax(result.elbos))
        guide, parameters = guide.guide, jax.tree.map(lambda x: x[best], parameters.components)
    return guide, parameters


def _cholesky(covariance: np.ndarray) -> np.ndarray | None:
    """The Cholesky factor, if there is one, in float64."""
    with np.errstate(all="ignore"):
        try:
            factor = np.linalg.cholesky(np.asarray(covariance, np.float64))
        except np.linalg.LinAlgError:
            return None
    return factor if np.isfinite(factor).all() else None


def normal_start(result: Any, target: Target, layout: Layout) -> NormalStart:
    """The normal distribution that a result stands for: that of its guide, or that of its draws.

    Of a point, and of draws that do not spread, it is the place alone.

    Raises:
        ValueError: if the result is one of another model.
    """
    is_mode = isinstance(result, OptimizeResult)
    flat = lambda x: np.reshape(x, (np.prod(np.shape(x)[:2]), *np.shape(x)[2:]))  # noqa: E731
    values = result.values if is_mode else jax.tree.map(flat, result.draws)
    _check(values, target, type(result).__name__, 0 if is_mode else 1)
    covariance = covariance_of(result)
    if is_mode:
        loc, scale = layout.ravel(result.position), None
    elif covariance is not None:
        loc, scale = _best_guide(result)[1].loc, _cholesky(covariance)
    else:
        loc, scale = _moments(result, _positions(values, target, layout))
    scale = None if scale is None else scale.astype(layout.dtype)
    return NormalStart(Init("flat", np.asarray(loc, layout.dtype)[None]), scale)


def _positions(values: Any, target: Target, layout: Layout) -> np.ndarray:
    """Draws on unconstrained space, ``(draw, size)``."""

    def position(values: Any) -> jax.Array:
        return layout.ravel(target.initial(jax.random.key(0), values))

    return np.asarray(jax.jit(jax.vmap(position))(values), np.float64)


def _moments(result: Any, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The mean of draws, and the factor of their covariance, or where they are few the scales."""
    weights = np.ravel(getattr(result, "weights", np.ones(len(positions))))
    weights = np.where(np.isfinite(positions).all(1), np.nan_to_num(weights), 0.0)
    used = weights > 0
    positions, weights = positions[used], weights[used] / np.sum(weights)
    loc = weights @ positions
    guide = getattr(result, "guide", None)
    if guide is not None and not guide.has_density:
        return loc, None
    centered, excess, size = positions - loc, np.sum(weights**2), loc.size
    scale = np.sqrt(weights @ centered**2 / (1 - excess))
    if not np.all(scale > 0):
        return loc, None
    if size > _MAX_COORDINATES or 1 / excess < _MIN_DRAWS_PER_COORDINATE * size:
        return loc, scale
    factor = _cholesky((centered.T * weights) @ centered / (1 - excess))
    return loc, scale if factor is None else factor
