r"""Pareto smoothed importance sampling: weights that are tamed, and whether they can be trusted.

References:
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

_LEAST_TAIL = 5


class Smoothed(NamedTuple):
    """Smoothed weights and what their tail says.

    Attributes:
        log_weights: ``(draw,)``, neither more nor less normalised than what was smoothed.
        pareto_k: Estimated shape of the tail; of a tail without spread, minus infinity.
    """

    log_weights: jax.Array
    pareto_k: jax.Array


@jax.jit
def psis(log_weights: jax.typing.ArrayLike) -> Smoothed:
    r"""Importance weights :math:`w_s = p(z_s) / q(z_s)` whose largest are smoothed.

    The largest :math:`M = \lceil\min(S / 5, 3\sqrt{S})\rceil` of :math:`S` weights give way to the
    quantiles of a generalised Pareto distribution fitted to them, but none exceeds the largest
    weight there was. Its shape :math:`\hat k` tells what the weights are good for: their mean has
    moments up to order :math:`1 / k`. Above ``largest_pareto_k(S)``, at most 0.7, estimates are off
    by more than their standard error says, and more draws hardly help.

    Args:
        log_weights: ``(draw,)``, up to a constant; minus infinity is a weight of 0.

    Returns:
        The smoothed weights and :math:`\hat k`: NaN for fewer than 21 draws, and infinity where a
        log weight is NaN or plus infinity, or all weights are 0.

    Example:
        >>> log_weights = 0.5 * jax.random.exponential(jax.random.key(0), (4000,))
        >>> smoothed, pareto_k = psis(log_weights)  # Pareto with shape 0.5
        >>> smoothed.shape, bool(abs(pareto_k - 0.5) < 0.15)
        ((4000,), True)

    References:
        Vehtari et al. (2024), section 2 and appendix C.
    """
    raw = jnp.asarray(log_weights, jnp.result_type(log_weights, float))
    if raw.ndim != 1:
        raise ValueError(f"log_weights must be a vector, one for each draw, got {raw.shape}")
    size = raw.size
    num_tail = math.ceil(min(size / 5, 3 * math.sqrt(size)))
    if num_tail < _LEAST_TAIL:
        return Smoothed(raw, jnp.full((), jnp.nan, raw.dtype))
    highest, order = jax.lax.top_k(raw, num_tail + 1)
    tail, cutoff, top = highest[-2::-1], highest[-1], highest[0]
    floor = math.log(float(jnp.finfo(raw.dtype).tiny))
    scaled_tail, scaled_cutoff = (jnp.maximum(x - top, floor) for x in (tail, cutoff))
    excess = -jnp.exp(scaled_tail) * jnp.expm1(scaled_cutoff - scaled_tail)
    shape, scale = fit_pareto(excess)
    is_known = ~jnp.any(jnp.isnan(raw)) & jnp.isfinite(top)
    has_spread = excess[-1] > 0
    levels = (jnp.arange(num_tail, dtype=raw.dtype) + 0.5) / num_tail
    fitted = jnp.log(jnp.exp(scaled_cutoff) + pareto_quantile(levels, shape, scale)) + top
    is_fitted = is_known & has_spread & jnp.isfinite(shape)
    tail = jnp.where(is_fitted, jnp.minimum(fitted, top), tail)
    shape = jnp.where(is_known, jnp.where(has_spread, shape, -jnp.inf), jnp.inf)
    return Smoothed(raw.at[order[-2::-1]].set(tail), shape)


def largest_pareto_k(num_draws: int) -> float:
    r"""The largest shape with reliable estimates, :math:`\min(1 - 1 / \log_{10} S, 0.7)`.

    Example:
        >>> round(largest_pareto_k(100), 2), largest_pareto_k(10_000)
        (0.5, 0.7)

    References:
        Vehtari et al. (2024), section 3.2.4.
    """
    return min(1 - 1 / math.log10(max(num_draws, 2)), 0.7)


def fit_pareto(excess: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""Shape and scale of a generalised Pareto distribution, from ordered draws of it.

    The density is :math:`\sigma^{-1}(1 + k x / \sigma)^{-1 / k - 1}`. With :math:`b = -k / \sigma`
    the likelihood's maximum over the rest is :math:`k(b) = n^{-1}\sum\log(1 - b x_i)`; `b` is its
    mean under a posterior over a grid. The shape is then drawn towards 1/2, as by ten more draws.

    Args:
        excess: ``(draw,)``, ascending, at least 0.

    Returns:
        Shape :math:`k` and scale :math:`\sigma`, scalars. The shape is infinite where a quarter of
        the draws are 0, as where a few are larger than the others by orders of magnitude.

    References:
        Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
        distribution, Technometrics 51; Vehtari et al. (2024), appendix C.
    """
    size = excess.size
    num_points = 30 + math.isqrt(size)
    points = jnp.arange(1, num_points + 1, dtype=excess.dtype) - 0.5
    quartile = excess[int(size / 4 + 0.5) - 1]
    grid = 1 / excess[-1] + (1 - jnp.sqrt(num_points / points)) / (3 * quartile)
    shapes = jnp.mean(jnp.log1p(-grid[:, None] * excess[None]), axis=1)
    log_likelihood = size * (jnp.log(-grid / shapes) - shapes - 1)
    b = jnp.sum(grid * jax.nn.softmax(log_likelihood))
    shape = jnp.mean(jnp.log1p(-b * excess))
    fitted = (size * shape + 5) / (size + 10)
    return jnp.where((quartile > 0) & ~jnp.isnan(fitted), fitted, jnp.inf), -shape / b


def pareto_quantile(level: jax.Array, shape: jax.Array, scale: jax.Array) -> jax.Array:
    r"""The quantile :math:`\sigma((1 - p)^{-k} - 1) / k` of a generalised Pareto distribution."""
    log_survival = jnp.log1p(-level)
    is_small = jnp.abs(shape) < 1e-6
    safe = jnp.where(is_small, 1, shape)
    return scale * jnp.where(is_small, -log_survival, jnp.expm1(-safe * log_survival) / safe)
