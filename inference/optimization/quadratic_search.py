"""Search for the mode of a density of few numbers, by quadratic fits to its values."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Density = Callable[[np.ndarray], np.ndarray]  # (point, size) -> (point,)

_MAX_ROUNDS = 60
_FIRST_SCALE = 0.5  # of a coordinate
_LONGEST = 2.0  # step, in scales
_LEAST_CURVATURE = 0.1  # in scales; below it a direction counts as flat
_LARGEST_CHANGE = 3.0  # factor of a scale in one round
_FRACTIONS = np.array([0.25, 0.5, 1.0])  # of a step
_MAX_FULL_CHANGES = 8  # rounds; then scales change by half, as they may go back and forth
_LEAST_RISE = 0.05  # nats; a round that gains less is the last
_ROUND = 2.0  # factor by which the last scales may be off


class Peak(NamedTuple):
    """A mode and the shape of the density around it, in float64.

    Attributes:
        loc: The mode, ``(size,)``.
        factor: Matrix whose columns are directions that do not interact, each a standard deviation
            long, ``(size, size)``.
        log_density: Log density at the mode.
        num_evaluations: Number of points at which the density was evaluated.
        has_converged: Whether the fits agree with each other.
    """

    loc: np.ndarray
    factor: np.ndarray
    log_density: float
    num_evaluations: int
    has_converged: bool


def find_peak(log_density: Density, start: np.ndarray, factor: np.ndarray | None = None) -> Peak:
    """The mode near a start, by Newton's method on quadratic fits.

    Each fit takes values one standard deviation apart along the axes, and on the diagonals of
    pairs of axes. So rounding errors of the density count little, and its derivatives are not
    needed, whose programs take far longer to compile than its values.

    Args:
        log_density: Log density of each of several points.
        start: Point of finite density.
        factor: Matrix of the first scales, as that of a :class:`Peak`.
    """
    size = start.size
    loc = start.astype(np.float64)
    factor = _FIRST_SCALE * np.eye(size) if factor is None else factor
    best = float(log_density(loc[None])[0])
    design = _design(size)
    num_evaluations = 1
    has_converged = False
    for number in range(_MAX_ROUNDS):
        points = loc + design @ factor.T
        values = log_density(points)
        num_evaluations += len(points)
        if not np.all(np.isfinite(values)):
            loc, best = _better(loc, best, points, values)
            factor = 0.5 * factor
            continue
        gradient, precision = _fit(best, values, size)
        curvature, axes = np.linalg.eigh(precision)
        kept = np.maximum(curvature, _LEAST_CURVATURE)
        step = axes @ (axes.T @ gradient / kept)
        shortened = min(1.0, _LONGEST / max(np.linalg.norm(step), 1e-300))
        fractions = np.unique(np.append(_FRACTIONS * shortened, _FRACTIONS))
        trials = loc + np.outer(fractions, factor @ step)
        num_evaluations += len(trials)
        rises = log_density(trials)
        before = best
        everywhere = np.concatenate([trials, points])
        loc, best = _better(loc, best, everywhere, np.concatenate([rises, values]))
        scale = np.clip(kept**-0.5, 1 / _LARGEST_CHANGE, _LARGEST_CHANGE)
        scale = scale if number < _MAX_FULL_CHANGES else np.sqrt(scale)
        factor = factor @ ((axes * scale) @ axes.T)  # axes that do not interact stay as they are
        is_round = np.all(np.abs(np.log(np.maximum(curvature, 1e-9))) < 2 * np.log(_ROUND))
        if is_round and best - before < _LEAST_RISE:
            has_converged = True
            break
    return Peak(loc, factor, best, num_evaluations, has_converged)


def _design(size: int) -> np.ndarray:
    """Points of a quadratic fit about 0: both ways along each axis, and one of each pair."""
    axes = np.eye(size)
    first, second = np.triu_indices(size, 1)
    return np.concatenate([axes, -axes, axes[first] + axes[second]])


def _fit(center: float, values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and negative Hessian of the quadratic function through the values of a design."""
    up, down, pairs = np.split(values, [size, 2 * size])
    gradient = 0.5 * (up - down)
    hessian = np.diag(up + down - 2 * center)
    first, second = np.triu_indices(size, 1)
    hessian[first, second] = pairs - up[first] - up[second] + center
    hessian[second, first] = hessian[first, second]
    return gradient, -hessian


def _better(
    loc: np.ndarray, best: float, points: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, float]:
    """The best of a point and others; those without a finite density do not count."""
    values = np.where(np.isfinite(values), values, -np.inf)
    i = int(np.argmax(values))
    return (points[i], float(values[i])) if values[i] > best else (loc, best)
