"""Points spread over a density of few numbers, with weights: a rule of integration."""

from typing import NamedTuple

import numpy as np

from inference.optimization.quadratic_search import Density, Peak

_PROBE = 2.0  # standard deviations from the mode at which a side's own scale is measured
_WIDTHS = 0.5, 3.0  # least and largest scale of a side
_MAX_FITS = 3  # of the shape to the weights of the points
_WORTH = 0.7  # of the points; above it, the shape fits


class Shape(NamedTuple):
    """Distribution of points: of Student's t with four degrees of freedom along each axis.

    Attributes:
        loc: The center, ``(size,)``.
        factor: Matrix whose columns are the axes, ``(size, size)``.
        sides: Scale of the left and of the right side of each axis, ``(2, size)``.
    """

    loc: np.ndarray
    factor: np.ndarray
    sides: np.ndarray


class SpreadPoints(NamedTuple):
    """Points with weights.

    Attributes:
        points: Points, ``(point, size)``.
        log_density: Log density at each, ``(point,)``.
        log_weights: Log of its density over that by which the points are spread, ``(point,)``. The
            mean of the weights estimates the integral of the density.
    """

    points: np.ndarray
    log_density: np.ndarray
    log_weights: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Weights that sum to 1, ``(point,)``."""
        return np.exp(self.log_weights - np.logaddexp.reduce(self.log_weights))

    @property
    def ess(self) -> float:
        """Effective number of points."""
        return float(1 / np.sum(self.weights**2))


def spread(log_density: Density, peak: Peak, num_points: int, shift: np.ndarray) -> SpreadPoints:
    """Points spread evenly over a density about its mode.

    Along each axis of the peak the two sides have scales of their own, as the density is skewed;
    tails are those of Student's t with four degrees of freedom. Where the points are worth too few,
    center, axes and scales are fitted to their weights, and the points spread anew. Points come
    from a sequence that fills the unit cube evenly, so that errors of smooth integrals fall almost
    as 1 / `num_points`.

    Args:
        log_density: Log density of each of several points.
        peak: The mode.
        num_points: Number of points.
        shift: Number in [0, 1) by which the sequence is moved along each axis, ``(size,)``.
    """
    uniform = _even_sequence(num_points, peak.loc.size, shift)
    shape = Shape(peak.loc, peak.factor, _side_scales(log_density, peak))
    best = found = _place(log_density, shape, uniform)
    for _ in range(_MAX_FITS):
        if best.ess > _WORTH * num_points:
            break
        found = _place(log_density, _fit_shape(found), uniform)
        if found.ess > best.ess:
            best = found
    return best


def _place(log_density: Density, shape: Shape, uniform: np.ndarray) -> SpreadPoints:
    """Points of a shape at points of the unit cube."""
    loc, factor, sides = shape
    share = sides / sides.sum(0)
    is_left = uniform < share[0]
    left = 0.5 * uniform / share[0]
    right = 0.5 + 0.5 * (uniform - share[0]) / share[1]
    quantile = _quantile(np.where(is_left, left, right))
    points = loc + (quantile * np.where(is_left, *sides)) @ factor.T
    log_q = np.sum(_log_t4(quantile) - np.log(sides.mean(0)), axis=1)
    log_q -= np.linalg.slogdet(factor)[1]
    values = log_density(points)
    log_weights = np.where(np.isnan(values), -np.inf, values) - log_q
    return SpreadPoints(points, values, log_weights)


def _fit_shape(points: SpreadPoints) -> Shape:
    """The shape whose center, axes and scales are those of weighted points.

    Weights of few points are evened out, so that all axes have a spread.
    """
    weights = points.weights
    size = points.points.shape[1]
    power = 1.0
    while 1 / np.sum(weights**2) < 5 * size and power > 0.05:
        power *= 0.8
        weights = points.weights**power
        weights = weights / weights.sum()
    loc = weights @ points.points
    offsets = points.points - loc
    covariance = (weights * offsets.T) @ offsets
    values, axes = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    factor = (axes * root) @ axes.T
    along = offsets @ (axes / root) @ axes.T
    sides = []
    for side in (along < 0, along > 0):
        mass = weights @ side
        sides.append(np.sqrt(weights @ (along**2 * side) / np.maximum(mass, 1e-12)))
    return Shape(loc, factor, np.clip(np.stack(sides), *_WIDTHS))


def _side_scales(log_density: Density, peak: Peak) -> np.ndarray:
    """The scale of each side of each axis, ``(2, size)``, by the fall of the density there."""
    steps = _PROBE * peak.factor.T
    values = log_density(np.concatenate([peak.loc - steps, peak.loc + steps]))
    fall = np.where(np.isfinite(values), peak.log_density - values, np.inf)
    scale = _PROBE / np.sqrt(2 * np.maximum(fall, 1e-2))
    return np.clip(scale, *_WIDTHS).reshape(2, -1)


def _even_sequence(num_points: int, size: int, shift: np.ndarray) -> np.ndarray:
    """Points of the unit cube by an additive recurrence (Roberts 2018)."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (size + 1))
    steps = ratio ** -np.arange(1.0, size + 1)
    tiny = np.finfo(float).eps
    points = (shift + np.outer(np.arange(1, num_points + 1), steps)) % 1
    return np.clip(points, tiny, 1 - tiny)


def _quantile(p: np.ndarray) -> np.ndarray:
    """Quantile function of Student's t with four degrees of freedom (Shaw 2006)."""
    root = np.sqrt(4 * p * (1 - p))
    q = np.cos(np.arccos(np.minimum(root, 1)) / 3) / root
    return np.sign(p - 0.5) * 2 * np.sqrt(np.maximum(q - 1, 0))


def _log_t4(x: np.ndarray) -> np.ndarray:
    """Log density of Student's t with four degrees of freedom."""
    return np.log(3 / 8) - 2.5 * np.log1p(x**2 / 4)
