"""Search for starting points where the log density is finite: for chains, fits and climbs.

| Starts of               | Start                                                            |
|-------------------------|------------------------------------------------------------------|
| chains, uniform points  | the point of highest log density among the first ten, or the     |
|                         | first finite point after them, drawn nearer to 0                 |
| all others              | the first finite point                                           |

A posterior is small in the cube of uniform points, and outside of it a density may be too steep for
any step size. Ten points find a better place, at the cost of ten evaluations; they still spread
over all modes of similar height.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.layout import Layout
from inference.common.target import Target
from inference.initialization.initial_positions import (
    MAX_ATTEMPTS,
    NUM_CANDIDATES,
    Init,
    starting_points,
    traced_points,
    uniform_start,
)
from inference.initialization.not_finite import not_finite, start_failure

# Log density and gradient at a flat position.
_ValueAndGrad = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


class StartingPoints(NamedTuple):
    """Starting points that have been tried, with the starts in front.

    Attributes:
        position: Flat positions, ``(start, size)``.
        log_density: Log densities, ``(start,)``, or another number that is finite where they are.
        gradient: Gradients, ``(start, size)``; `None` if they need not be finite.
        result: Further results of the trial.
    """

    position: np.ndarray
    log_density: np.ndarray
    gradient: np.ndarray | None = None
    result: Any = None

    @property
    def is_finite(self) -> np.ndarray:
        """Flags of the points that are finite."""
        is_finite = np.isfinite(self.log_density)
        if self.gradient is None:
            return is_finite
        return is_finite & np.all(np.isfinite(self.gradient), -1)

    def explain(self, row: int, target: Target, layout: Layout) -> tuple[str, list[str]]:
        """Words for what has to be finite, and the culprits at one of the points."""
        at = target, layout, self.position[row], self.log_density[row]
        if self.gradient is None:
            return "log density is", not_finite(*at, None)
        return "log density and its gradient are", not_finite(*at, self.gradient[row])


def find_starts(
    evaluate: Callable[[np.ndarray, np.ndarray], StartingPoints],
    key: jax.Array,
    numbers: np.ndarray,
    init: Init,
    target: Target,
    layout: Layout,
    *,
    noun: str = "chain",
    needs_all: bool = True,
    explain: Callable[[StartingPoints], tuple[str, list[str]]] | None = None,
) -> StartingPoints:
    """Finite points to start from: what `evaluate` gave in its last call.

    Args:
        evaluate: Function from seeds ``(start, 2)`` and flat positions ``(start, size)`` to points.
        key: Random key of the run.
        numbers: Number of each start.
        init: Initial positions.
        target: Target with the sites.
        layout: Layout of positions.
        noun: Name of the things that start, for the message; only chains compare several points.
        needs_all: Whether each start must find a finite point, or one start is enough.
        explain: Function that tells what is not finite; by default the log density or its gradient.

    Raises:
        ValueError: if no finite point is found; the message names the sites that are not finite.
    """

    def try_starts(attempts: np.ndarray) -> StartingPoints:
        return evaluate(*starting_points(key, numbers, attempts, init, target, layout))

    compares = noun == "chain" and init.strategy == "uniform"
    num_candidates = NUM_CANDIDATES if compares else 1
    points, is_found, num_attempts = search_starts(try_starts, len(numbers), num_candidates)
    if not (np.all(is_found) if needs_all else np.any(is_found)):
        row = int(np.argmin(is_found))
        who = noun if explain else f"{noun} {int(numbers[row])}"
        why = explain(points) if explain else points.explain(row, target, layout)
        raise ValueError(start_failure(who, num_attempts, *why))
    return points


def search_starts(
    try_starts: Callable[[np.ndarray], StartingPoints], num_starts: int, num_candidates: int
) -> tuple[StartingPoints, np.ndarray, int]:
    """The chosen points, which of them are finite, and the number of attempts.

    Args:
        try_starts: Function from the number of the attempt of each start, ``(start,)``, to points.
            Its last call is for the chosen points.
        num_starts: Number of starts.
        num_candidates: Number of points from which the highest is chosen as a start.
    """
    chosen = np.zeros(num_starts, np.int32)
    best = np.full(num_starts, -np.inf)
    last = None
    for attempt in range(MAX_ATTEMPTS):
        is_open = _is_open(attempt, best, num_candidates)
        attempts = np.where(is_open, attempt, chosen).astype(np.int32)
        points = try_starts(attempts)
        if last is not None and np.array_equal(last, points.position):
            return points, best > -np.inf, attempt  # the points are not random
        last = points.position
        is_better = is_open & points.is_finite & (points.log_density > best)
        chosen = np.where(is_better | (best == -np.inf), attempts, chosen)
        best = np.where(is_better, points.log_density, best)
        if not np.any(_is_open(attempt + 1, best, num_candidates)):
            break
    if np.any(chosen != attempts):
        points = try_starts(chosen)
    return points, best > -np.inf, attempt + 1


def trace_start(
    seed: jax.Array, target: Target, layout: Layout, value_and_grad: _ValueAndGrad
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Uniform start of one chain, with its log density and gradient: a traceable search.

    The start is the same as of :func:`find_starts`. The returned log density is not finite if no
    point has a finite one.
    """

    def goes_on(carry: tuple[jax.Array, Any]) -> jax.Array:
        attempt, (_, best, _) = carry
        return _is_open(attempt, best, NUM_CANDIDATES)

    def look(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        attempt, best = carry
        position = uniform_start(seed, attempt, target, layout)
        here = (position, *value_and_grad(position))
        is_finite = jnp.isfinite(here[1]) & jnp.all(jnp.isfinite(here[2]))
        is_better = is_finite & (here[1] > best[1])
        return attempt + 1, jax.tree.map(partial(jnp.where, is_better), here, best)

    zeros = jnp.zeros(layout.size, layout.dtype)
    nowhere = zeros, jnp.full((), -jnp.inf, layout.dtype), zeros
    return lax.while_loop(goes_on, look, (jnp.int32(0), nowhere))[1]


def trace_first_finite(
    key: jax.Array,
    init: Init,
    target: Target,
    layout: Layout,
    is_finite: Callable[[jax.Array, jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Seed and flat position of one start, the first that is finite: a traceable search.

    The start is the same as of :func:`find_starts`. It is the last that was tried if none is
    finite.

    Args:
        key: Random key of the run.
        init: Initial positions.
        target: Target with the sites.
        layout: Layout of positions.
        is_finite: Function of a seed and a position.
    """

    def start(attempt: jax.Array) -> tuple[jax.Array, jax.Array]:
        seeds, positions = traced_points(key, attempt, init, target, layout)
        return seeds[0], positions[0]

    def goes_on(carry: tuple[jax.Array, jax.Array, Any]) -> jax.Array:
        attempt, is_found, _ = carry
        return ~is_found & (attempt < MAX_ATTEMPTS)

    def look(carry: tuple[jax.Array, jax.Array, Any]) -> tuple[jax.Array, jax.Array, Any]:
        found = start(carry[0])
        return carry[0] + 1, is_finite(*found), found

    begin = jnp.int32(0), jnp.bool_(False), start(jnp.int32(0))
    return lax.while_loop(goes_on, look, begin)[2]


def _is_open(attempt: Any, best: Any, num_candidates: int) -> Any:
    """Whether a start with a best log density, -inf for none, goes on to the next attempt."""
    return (attempt < num_candidates) | ((best == -np.inf) & (attempt < MAX_ATTEMPTS))
