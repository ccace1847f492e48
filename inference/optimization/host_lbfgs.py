"""L-BFGS on the host, from several starts in step: fast where its program is compiled for one run.

The program of a line search takes ten times as long to compile as a gradient.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

_MEMORY = 20  # correction pairs
_MAX_HALVINGS = 25
_LEAST_SHARE = 1e-4  # of the expected rise, in the line search
_LEAST_PAIRS = 3  # before an estimate of the rise to the mode counts
_LEAST_CURVATURE = 1e-10
_ROUNDING = 16  # units in the last place of a log density

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Ends(NamedTuple):
    """Ends of climbs.

    Attributes:
        positions: The points, ``(climb, size)``.
        heights: The log densities, ``(climb,)``.
        have_converged: Whether modes are estimated to be hardly higher, ``(climb,)``.
    """

    positions: np.ndarray
    heights: np.ndarray
    have_converged: np.ndarray


def climb_in_step(
    evaluate: Evaluate, starts: np.ndarray, *, tolerance: float, eps: float, max_steps: int
) -> Ends:
    """Ends of ascents by L-BFGS, with steps that are halved until they lead uphill.

    Args:
        evaluate: Log densities and gradients, of ``(climb, size)``.
        starts: The starts, ``(climb, size)``.
        tolerance: An ascent ends where its mode is estimated to be at most so many nats higher.
        eps: Relative rounding error of the log densities.
        max_steps: The largest number of steps.

    References:
        Nocedal and Wright (2006), Numerical Optimization, algorithms 3.1, 7.4 and 7.5.
    """
    at = _at(evaluate, starts)
    pairs: list[_Pair] = []
    num_pairs = np.zeros(len(starts), int)
    has_failed = np.isneginf(at.height)
    has_converged = np.zeros(len(starts), bool)
    for _ in range(max_steps):
        step = _direction(pairs, at.slope)
        rise = np.sum(step * at.slope, axis=1)
        slack = _ROUNDING * eps * np.maximum(np.abs(at.height), 1)
        is_near = (num_pairs >= _LEAST_PAIRS) & (rise / 2 <= np.maximum(tolerance, slack))
        has_converged |= ~has_failed & (is_near | ~at.slope.any(axis=1))
        is_active = ~has_converged & ~has_failed
        if not is_active.any():
            break
        length = np.where(num_pairs > 0, 1.0, 1 / np.maximum(np.linalg.norm(step, axis=1), 1))
        there, is_higher = _search_line(evaluate, at, step, length * is_active, rise, slack)
        has_failed |= is_active & ~is_higher & (num_pairs == 0)
        pair = _Pair.of(there.x - at.x, at.slope - there.slope)
        is_lost = is_active & ~is_higher  # and begins again without its pairs
        pairs = [x.without(is_lost) for x in pairs[1 - _MEMORY :]] + [pair]
        num_pairs = np.where(is_lost, 0, num_pairs + (pair.inverse > 0))
        at = there
    return Ends(at.x, at.height, has_converged)


class _Points(NamedTuple):
    """Points, ``(climb, size)``, with their log densities and gradients."""

    x: np.ndarray
    height: np.ndarray
    slope: np.ndarray


class _Pair(NamedTuple):
    """Steps and changes of minus the gradient, ``(climb, size)``, and inverses of their products.

    The inverse is 0 where the pair does not count.
    """

    step: np.ndarray
    change: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, step: np.ndarray, change: np.ndarray) -> "_Pair":
        product = np.sum(step * change, axis=1)
        sizes = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
        counts = product > _LEAST_CURVATURE * sizes
        return cls(step, change, np.where(counts, 1 / np.where(counts, product, 1), 0))

    def without(self, is_lost: np.ndarray) -> "_Pair":
        return self._replace(inverse=np.where(is_lost, 0, self.inverse))


def _at(evaluate: Evaluate, x: np.ndarray) -> _Points:
    """Points whose log density is minus infinity where it or its gradient is not finite."""
    height, slope = evaluate(x)
    is_possible = np.isfinite(height) & np.all(np.isfinite(slope), axis=1)
    return _Points(
        x, np.where(is_possible, height, -np.inf), np.where(is_possible[:, None], slope, 0)
    )


def _direction(pairs: Sequence[_Pair], slope: np.ndarray) -> np.ndarray:
    """The inverse of minus the Hessian, as estimated from the pairs, times the gradient."""
    found = slope
    shares = []
    scale = np.ones(len(slope))
    for pair in pairs:
        square = np.sum(pair.change**2, axis=1)
        counts = pair.inverse > 0
        scale = np.where(counts, 1 / np.where(counts, pair.inverse * square, 1), scale)
    for pair in reversed(pairs):
        share = pair.inverse * np.sum(pair.step * found, axis=1)
        found = found - share[:, None] * pair.change
        shares.append(share)
    found = scale[:, None] * found
    for pair, share in zip(pairs, reversed(shares), strict=True):
        more = share - pair.inverse * np.sum(pair.change * found, axis=1)
        found = found + more[:, None] * pair.step
    return found


def _search_line(
    evaluate: Evaluate,
    at: _Points,
    step: np.ndarray,
    length: np.ndarray,
    rise: np.ndarray,
    slack: np.ndarray,
) -> tuple[_Points, np.ndarray]:
    """The ends of steps that are halved until they lead uphill, and whether they do."""
    found = at
    is_open = length > 0
    is_higher = np.zeros(len(length), bool)
    for _ in range(_MAX_HALVINGS):
        there = _at(evaluate, at.x + length[:, None] * step)
        is_better = is_open & (there.height >= at.height + _LEAST_SHARE * length * rise - slack)
        found = _Points(
            *(
                np.where(np.expand_dims(is_better, tuple(range(1, a.ndim))), a, b)
                for a, b in zip(there, found, strict=True)
            )
        )
        is_higher |= is_better
        is_open &= ~is_better
        if not is_open.any():
            break
        length = np.where(is_open, length / 2, length)
    return found, is_higher
