"""Search for the mode of a density: L-BFGS from several starts, and tests of the best end."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.argument_checks import check_count, check_fraction
from inference.common.layout import Layout
from inference.common.target import Target
from inference.initialization.initial_positions import parse_init
from inference.initialization.start_search import StartingPoints, find_starts
from inference.optimization.lbfgs import Ascent, ascend, find_strides, min_rise
from inference.runtime.compiled_program import compile_once

_MAX_OUTWARD_COORDINATES = 16  # coordinates tested for a density that rises without end
_MAX_CLIMBS = 20  # rounds of climbs, each from the higher point found after the last


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Density:
    """The density to be maximized.

    Attributes:
        objective: `"posterior"`, or `"likelihood"` for the density of only data and `factor` sites.
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
        gains: The rise of the log density when a coordinate of `outward` moves twice as far from 0,
            ``(coordinate,)``.
        higher: The highest point that one stride of one steep coordinate reaches from the best end,
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
    places = jnp.append(outward, steep)
    moves = jnp.append(top[outward], strides)
    beyond = lax.map(lambda move: log_density(top.at[move[0]].add(move[1])), (places, moves))
    gains, rises = jnp.split(beyond - ascents.log_density[best], [len(outward)])
    first = jnp.argmax(jnp.where(jnp.isfinite(rises), rises, -jnp.inf))
    higher = top.at[steep[first]].add(strides[first])
    values = target.constrain(layout.unravel(top))
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
    """Climbs from several starts, on the host; starts without a finite density are drawn anew.

    L-BFGS may stop at a point that is a mode only along the steepest coordinates. For example, data
    lie far from 0, and a scale has grown to match. If a stride of one coordinate from there leads
    higher, the climb goes on from the end of the stride.

    Raises:
        ValueError: if no start has a finite log density and gradient.
    """
    limits = np.int32(climb.max_steps), tolerance_of(climb.tolerance, layout)

    def climb_all_from(_: np.ndarray, starts: np.ndarray) -> StartingPoints:
        positions = starts
        for _climb in range(_MAX_CLIMBS):
            arguments = positions, target, layout, density, *limits
            summit = jax.device_get(compile_once(climb_all, *arguments)(*arguments))
            if not may_rise(summit):
                break
            positions = summit.ascents.position.copy()
            positions[summit.best] = summit.higher
        return StartingPoints(starts, summit.ascents.log_density, summit.ascents.gradient, summit)

    init = parse_init(climb.init, target, climb.num_starts, "start")
    numbers = np.arange(climb.num_starts)
    found = find_starts(
        climb_all_from, key, numbers, init, target, layout, noun="climb", needs_all=False
    )
    return found.result


def may_rise(summit: ModeSearchResult) -> bool:
    """Whether a trial move shows that the best end, though converged, is not a mode."""
    best = jax.tree.map(lambda x: x[summit.best], summit.ascents)
    return bool(best.has_converged and min_rise(best.log_density) < summit.rise < np.inf)


def tolerance_of(tolerance: float | None, layout: Layout) -> np.ndarray:
    """The relative tolerance of a climb; by default a little above rounding."""
    eps = float(jnp.finfo(layout.dtype).eps)
    return np.asarray(eps**0.9 if tolerance is None else tolerance, layout.dtype)
