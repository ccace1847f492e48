r"""Pareto smoothed importance sampling (PSIS): smoothed weights, and the diagnostic Pareto k.

References:
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.argument_checks import as_real

_MIN_TAIL_DRAWS = 5  # smallest number of draws to fit a Pareto distribution to
_MIN_STEPS = 16  # smallest spread to fit a shape to, in units in the last place of the log weights
_ROUNDING = 200  # spread by rounding errors, in units in the last place of the log density


class SmoothedWeights(NamedTuple):
    """Smoothed weights, and the shape of their tail.

    Attributes:
        log_weights: Smoothed log weights, ``(draw,)``, normalized as the raw weights are.
        pareto_k: Estimated shape of the tail; minus infinity for a tail without spread.
    """

    log_weights: Any
    pareto_k: Any


def psis(log_weights: jax.typing.ArrayLike) -> SmoothedWeights:
    r"""Pareto smoothed importance weights :math:`w_s = p(z_s) / q(z_s)`, and Pareto k.

    A generalized Pareto distribution is fitted to the largest
    :math:`M = \lceil\min(S / 5, 3\sqrt{S})\rceil` of :math:`S` weights. Quantiles of the fitted
    distribution replace these weights, and are cut off at the largest raw weight. Its shape
    :math:`\hat k` measures the reliability of the weights, which have finite moments up to order
    :math:`1 / k`. If :math:`\hat k` is above ``largest_pareto_k(S)``, which is at most 0.7,
    estimates are less accurate than their standard errors say, and more draws hardly help.

    Args:
        log_weights: Log weights up to a constant, ``(draw,)``; minus infinity is a weight of 0.

    Returns:
        The smoothed log weights and :math:`\hat k`. In these cases the weights are not smoothed:

        - fewer than 21 draws: :math:`\hat k` is NaN;
        - the largest weights are equal up to rounding: :math:`\hat k` is minus infinity;
        - a log weight is NaN or plus infinity, or all weights are 0: :math:`\hat k` is infinite.

    Raises:
        TypeError: if `log_weights` are not real numbers.
        ValueError: if `log_weights` is not a vector, or is empty.

    Example:
        >>> log_weights = 0.5 * jax.random.exponential(jax.random.key(0), (4000,))
        >>> smoothed, pareto_k = psis(log_weights)  # Pareto with shape 0.5
        >>> smoothed.shape, bool(abs(pareto_k - 0.5) < 0.15)
        ((4000,), True)

    References:
        Vehtari et al. (2024), section 2 and appendix C.
    """
    raw = as_real(log_weights)
    if raw is None:
        raise TypeError(f"log_weights must be real numbers, got {log_weights!r}")
    _check(raw)
    return _psis(raw.astype(jnp.result_type(raw, float)))


@jax.jit
def _psis(raw: jax.Array) -> SmoothedWeights:
    size = jnp.max(jnp.where(jnp.isfinite(raw), jnp.abs(raw), 0))

    def put(x, index, values):
        return x.at[index].set(values)

    return _smooth_tail(jnp, raw, put, _MIN_STEPS * jnp.finfo(raw.dtype).eps * size)


def psis_on_host(
    log_weights: np.ndarray, least_spread: float = 0.0, relative_efficiency: float = 1.0
) -> SmoothedWeights:
    r"""PSIS as :func:`psis`, in NumPy and float64, without compilation.

    With a `relative_efficiency` (ESS of the draws divided by their number), the tail has
    :math:`3\sqrt{S / r}` draws.
    """

    def put(x: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
        x[index] = values
        return x

    raw = np.array(log_weights, np.float64)
    _check(raw)
    with np.errstate(all="ignore"):
        return _smooth_tail(np, raw, put, least_spread, relative_efficiency)


def psis_of(log_weights: np.ndarray, log_density: np.ndarray) -> SmoothedWeights:
    """PSIS on the host, with Pareto k minus infinity for weights that differ only by rounding.

    Weights are equal but for rounding if the guide is the posterior. A shape fitted to rounding
    errors means nothing.

    Args:
        log_weights: Log weights, ``(draw,)``.
        log_density: Log density at the draws, ``(draw,)``. Its size sets the rounding error, at the
            draws of larger weights: others may be far out, where it is of any size.
    """
    is_heavy = log_weights >= np.median(log_weights)
    known = np.abs(log_density[is_heavy & np.isfinite(log_density)])
    eps = float(np.finfo(log_weights.dtype).eps)
    return psis_on_host(log_weights, _ROUNDING * eps * np.max(known, initial=1.0))


def _check(raw: Any) -> None:
    if raw.ndim != 1:
        raise ValueError(f"log_weights must be a vector, one for each draw, got {raw.shape}")
    if not raw.size:
        raise ValueError("log_weights must hold the weight of one draw at least, got none")


def _smooth_tail(
    xp: Any,
    raw: Any,
    put: Callable[[Any, Any, Any], Any],
    least_spread: Any,
    relative_efficiency: float = 1.0,
) -> SmoothedWeights:
    """PSIS in the array library `xp`; `put(x, index, values)` sets elements.

    If the largest log weights differ by at most `least_spread`, they count as equal, and Pareto k
    is minus infinity.
    """
    longest = 3 * math.sqrt(raw.size / relative_efficiency)
    num_tail = math.ceil(min(raw.size / 5, longest))
    if num_tail < _MIN_TAIL_DRAWS:
        return SmoothedWeights(raw, xp.full((), xp.nan, raw.dtype))
    order = xp.argsort(raw)[-num_tail - 1 :]
    highest = raw[order]
    tail = highest[1:]
    cutoff = highest[0]
    top = highest[-1]
    is_known = ~xp.any(xp.isnan(raw)) & xp.isfinite(top)
    floor = math.log(float(xp.finfo(raw.dtype).tiny))
    scaled_tail, scaled_cutoff = (xp.maximum(x - top, floor) for x in (tail, cutoff))
    excess = -xp.exp(scaled_tail) * xp.expm1(scaled_cutoff - scaled_tail)
    has_spread = (excess[-1] > 0) & ~(top - cutoff <= least_spread)
    shape, scale = fit_pareto(excess, xp)
    levels = (xp.arange(num_tail, dtype=raw.dtype) + 0.5) / num_tail
    fitted = xp.log(xp.exp(scaled_cutoff) + pareto_quantile(levels, shape, scale, xp)) + top
    is_fitted = is_known & has_spread & xp.isfinite(shape)
    tail = xp.where(is_fitted, xp.minimum(fitted, top), tail)
    shape = xp.where(is_known, xp.where(has_spread, shape, -xp.inf), xp.inf)
    return SmoothedWeights(put(raw, order[1:], tail), shape)


def largest_pareto_k(num_draws: int) -> float:
    r"""Largest Pareto k with reliable estimates, :math:`\min(1 - 1 / \log_{10} S, 0.7)`.

    Example:
        >>> round(largest_pareto_k(100), 2), largest_pareto_k(10_000)
        (0.5, 0.7)

    References:
        Vehtari et al. (2024), section 3.2.4.
    """
    return min(1 - 1 / math.log10(max(num_draws, 2)), 0.7)


def fit_pareto(excess: Any, xp: Any = jnp) -> tuple[Any, Any]:
    r"""Shape and scale of a generalized Pareto distribution: estimator of Zhang and Stephens.

    The density is :math:`\sigma^{-1}(1 + k x / \sigma)^{-1 / k - 1}`, and :math:`b = -k / \sigma`.

    1. Given :math:`b`, the likelihood is largest at :math:`k(b) = n^{-1}\sum\log(1 - b x_i)`.
    2. The estimate of :math:`b` is its posterior mean over a grid, with this profile likelihood.
    3. The shape :math:`k(b)` is shrunk toward 1/2, as by a prior worth ten draws.

    Args:
        excess: Draws in ascending order, at least 0, ``(draw,)``.
        xp: The array library, ``jax.numpy`` or ``numpy``.

    Returns:
        Shape :math:`k` and scale :math:`\sigma`, scalars. The shape is infinite if a quarter of
        the draws are 0, as when a few exceed the others by orders of magnitude.

    References:
        Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
        distribution, Technometrics 51; Vehtari et al. (2024), appendix C.
    """
    size = excess.size
    num_points = 30 + math.isqrt(size)
    points = xp.arange(1, num_points + 1, dtype=excess.dtype) - 0.5
    quartile = excess[int(size / 4 + 0.5) - 1]
    grid = 1 / excess[-1] + (1 - xp.sqrt(num_points / points)) / (3 * quartile)
    shapes = xp.mean(xp.log1p(-grid[:, None] * excess[None]), axis=1)
    log_likelihood = size * (xp.log(-grid / shapes) - shapes - 1)
    weights = xp.exp(log_likelihood - xp.max(log_likelihood))
    b = xp.sum(grid * weights) / xp.sum(weights)
    shape = xp.mean(xp.log1p(-b * excess))
    fitted = (size * shape + 5) / (size + 10)
    return xp.where((quartile > 0) & ~xp.isnan(fitted), fitted, xp.inf), -shape / b


def pareto_quantile(level: Any, shape: Any, scale: Any, xp: Any = jnp) -> Any:
    r"""Quantile :math:`\sigma((1 - p)^{-k} - 1) / k` of a generalized Pareto distribution."""
    log_survival = xp.log1p(-level)
    is_small = xp.abs(shape) < 1e-6
    safe = xp.where(is_small, 1, shape)
    return scale * xp.where(is_small, -log_survival, xp.expm1(-safe * log_survival) / safe)
