"""Search for the mode of a density: L-BFGS from several starts, and tests of the best end."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.argument_checks import check_count, check_fraction
from inference.common.layout import Layout
from inference.common.target import Target
from inference.initialization.initial_positions import MAX_ATTEMPTS, parse_init, starting_points
from inference.initialization.not_finite import ADVICE, attempts, not_finite
from inference.optimization.lbfgs import Ascent, ascend, find_strides, min_rise
from inference.runtime.compiled_program import compile_once

_MAX_OUTWARD_COORDINATES = 16  # coordinates tested for a density that rises without end
_MAX_CLIMBS = 20  # rounds of climbs, each from the higher point found after the last


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Density:
    """The density to be maximized.

    Attributes:
        objective: `"posterior"`, or `"likelihood"` for the factor of data and `factor` sites alone.
        include_jacobian: Whether the density includes the Jacobian determinant of the map from
            unconstrained space.
    """

    objective: str = "posterior"
    include_jacobian: bool = False

    def log_density(self, target: Target, position: Any) -> jax.Array:
        """The log density at a position."""
        if self.include_jacobian:
            return target.log_density(position)
        prior, likelihood = target.prior_and_likelihood(position)
        return likelihood if self.objective == "likelihood" else prior + likelihood


class ModeSearchResult(NamedTuple):
    """The ends of the climbs from several starts, and trial moves from the best end.

    Attributes:
        ascents: The end of each climb, ``(start, ...)``.
        best: Index of the highest end.
        values: The values of sites at the best end.
        outward: The coordinates furthest from 0 at the best end, ``(coordinate,)``.
        gains: The rise of the log density when one of these moves twice as far from 0,
            ``(coordinate,)``.
        higher: The highest point reached from the best end by one stride of one steep coordinate,
            ``(size,)``.
        rise: The rise of the log density from the best end to `higher`.
    """

    ascents: Ascent
    best: jax.Array
    values: dict[str, Any]
    outward: jax.Array
    gains: jax.Array
    higher: jax.Array
    rise: jax.Array


def climb_all(
    positions: jax.Array,
    target: Target,
    layout: Layout,
    density: Density,
    max_steps: jax.Array,
    tolerance: jax.Array,
) -> ModeSearchResult:
    """Climbs from `positions`, ``(start, size)``, and trial moves from the best end."""

    def log_density(flat: jax.Array) -> jax.Array:
        return density.log_density(target, layout.unravel(flat)).astype(layout.dtype)

    def one(position: jax.Array) -> Ascent:
        return ascend(log_density, position, max_steps, tolerance)

    if len(positions) == 1:
        ascents = jax.tree.map(lambda x: x[None], one(positions[0]))
    else:
        ascents = jax.vmap(one)(positions)
    best = jnp.argmax(jnp.where(is_finite(ascents), ascents.log_density, -jnp.inf))
    top = ascents.position[best]
    _, outward = lax.top_k(jnp.abs(top), min(_MAX_OUTWARD_COORDINATES, layout.size))
    steep, strides = find_strides(top, ascents.gradient[best])
    places, moves = jnp.append(outward, steep), jnp.append(top[outward], strides)
    beyond = lax.map(lambda move: log_density(top.at[move[0]].add(move[1])), (places, moves))
    gains, rises = jnp.split(beyond - ascents.log_density[best], [len(outward)])
    first = jnp.argmax(jnp.where(jnp.isfinite(rises), rises, -jnp.inf))
    higher, values = top.at[steep[first]].add(strides[first]), target.constrain(layout.unravel(top))
    return ModeSearchResult(ascents, best, values, outward, gains, higher, rises[first])


def is_finite(ascents: Ascent) -> Any:
    """Whether the ends of climbs have finite log densities and gradients."""
    finite = jnp.isfinite(ascents.gradient).all(-1)
    return finite & jnp.isfinite(ascents.log_density)


class ClimbSettings(NamedTuple):
    """Settings of the climbs; see :func:`inference.optimize`."""

    init: Any
    num_starts: int
    max_steps: int
    tolerance: float | None

    @classmethod
    def of(cls, init: Any, num_starts: Any, max_steps: Any, tolerance: Any) -> "ClimbSettings":
        """The user's settings, checked."""
        num_starts = check_count("num_starts", num_starts, least=1)
        max_steps = check_count("max_steps", max_steps, least=1)
        if tolerance is not None:
            tolerance = check_fraction("tolerance", tolerance, ", or be None")
        return cls(init, num_starts, max_steps, tolerance)


def climb_from_starts(
    key: jax.Array, target: Target, layout: Layout, density: Density, climb: ClimbSettings
) -> ModeSearchResult:
    """Climbs from several starts, on the host; starts that are not finite are drawn anew.

    L-BFGS may stop at a point that is a mode along the steepest coordinates alone, for example
    where data lie far from 0 and a scale has grown to match. So the climb goes on from the end of a
    stride that leads higher.

    Raises:
        ValueError: if no start has a finite log density and gradient.
    """
    limits = np.int32(climb.max_steps), tolerance_of(climb.tolerance, layout)

    def run(_: np.ndarray, positions: np.ndarray) -> tuple[ModeSearchResult, np.ndarray]:
        for _climb in range(_MAX_CLIMBS):
            arguments = positions, target, layout, density, *limits
            summit = jax.device_get(compile_once(climb_all, *arguments)(*arguments))
            if not may_rise(summit):
                break
            positions = summit.ascents.position.copy()
            positions[summit.best] = summit.higher
        return summit, np.asarray(is_finite(summit.ascents))

    return run_from_finite_starts(key, target, layout, density, climb.init, climb.num_starts, run)


def may_rise(summit: ModeSearchResult) -> bool:
    """Whether a trial move shows that the best end, though converged, is no mode."""
    best = jax.tree.map(lambda x: x[summit.best], summit.ascents)
    return bool(best.has_converged and min_rise(best.log_density) < summit.rise < np.inf)


def run_from_finite_starts(
    key: jax.Array,
    target: Target,
    layout: Layout,
    density: Density,
    init: Any,
    num_starts: int,
    run: Callable[[np.ndarray, np.ndarray], tuple[Any, np.ndarray]],
) -> Any:
    """The result of `run` on seeds and positions, from starts that are finite.

    `run` returns a result and whether each start was finite. Starts that are not are drawn anew,
    unless the new positions are the old ones.

    Raises:
        ValueError: if no start has a finite log density and gradient.
    """
    starts = parse_init(init, target, num_starts, "start")
    number, before = np.zeros(num_starts, np.int32), np.zeros(0)
    for _ in range(MAX_ATTEMPTS):
        chains = np.arange(num_starts)
        seeds, positions = starting_points(key, chains, number, starts, target, layout)
        found, finite = run(seeds, positions)
        if finite.all() or np.array_equal(before, positions):
            break
        before, number = positions, number + ~finite
    if not finite.any():
        raise ValueError(
            "there is no starting point where the log density and its gradient are finite, in "
            f"{attempts(int(number[0]) + 1)}. At the last one, "
            f"{'; '.join(_culprits(target, layout, density, positions[0]))}. {ADVICE}"
        )
    return found


def _culprits(target: Target, layout: Layout, density: Density, at: np.ndarray) -> list[str]:
    position = jnp.asarray(at)
    log_density = lambda flat: density.log_density(target, layout.unravel(flat))  # noqa: E731
    value, gradient = jax.value_and_grad(log_density)(position)
    return not_finite(target, layout, position, value, gradient)


def tolerance_of(tolerance: float | None, layout: Layout) -> np.ndarray:
    """The relative tolerance of a climb; by default a little above rounding."""
    eps = float(jnp.finfo(layout.dtype).eps)
    return np.asarray(eps**0.9 if tolerance is None else tolerance, layout.dtype)
