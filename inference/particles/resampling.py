"""Resampling of weighted particles: ancestors whose expected offspring are the weights."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

Scheme = Callable[..., jax.Array]


def systematic(key: jax.Array, log_weights: Any, num: int | None = None) -> jax.Array:
    r"""Systematic resampling: evenly spaced points, shifted together by one uniform number.

    A particle of normalized weight :math:`W` has :math:`\lfloor nW \rfloor` offspring or one more,
    :math:`nW` on average. In float32 a cumulative weight is right to some 10 parts in
    :math:`10^8`, so that the mean number of offspring of one of a million particles is right to
    about 0.1; a particle without weight has none, whatever the rounding.

    Args:
        key: Random key.
        log_weights: Vector of log weights, ``(num_particles,)``, not normalized. NaN counts as no
            weight; where no particle has any, all count as equal.
        num: Number of ancestors; `None` for one a particle.

    Returns:
        Indices of particles in ascending order, ``(num,)`` integers.

    Raises:
        ValueError: if the log weights are not a vector with entries.

    Example:
        >>> systematic(jax.random.key(0), jnp.log(jnp.array([0.5, 0.0, 0.5]))).tolist()
        [0, 2, 2]

    References:
        Kitagawa (1996), Monte Carlo filter and smoother, appendix; Carpenter, Clifford and
        Fearnhead (1999), Improved particle filter for nonlinear problems.
    """
    size, weights = _checked(log_weights, num)
    whole, part = _points_below(_cumulative(weights), size)
    shift = random.uniform(key, (), weights.dtype)
    return _ancestors(jnp.where(part > shift, whole + 1, whole), size)


def stratified(key: jax.Array, log_weights: Any, num: int | None = None) -> jax.Array:
    """Stratified resampling: one uniform point in each of `num` intervals of equal weight.

    Arguments, result and rounding are as of :func:`systematic`.

    Example:
        >>> stratified(jax.random.key(0), jnp.log(jnp.array([0.5, 0.0, 0.5])), 2).tolist()
        [0, 2]

    References:
        Kitagawa (1996), Monte Carlo filter and smoother, appendix.
    """
    size, weights = _checked(log_weights, num)
    whole, part = _points_below(_cumulative(weights), size)
    shifts = random.uniform(key, (size,), weights.dtype)
    is_below = part > shifts[jnp.minimum(whole, size - 1)]
    return _ancestors(jnp.where(is_below, whole + 1, whole), size)


def multinomial(key: jax.Array, log_weights: Any, num: int | None = None) -> jax.Array:
    """Multinomial resampling: independent ancestors, drawn with the weights.

    Arguments and result are as of :func:`systematic`, but for the order, which is random.

    Example:
        >>> weights = jnp.log(jnp.array([0.5, 0.0, 0.5]))
        >>> jnp.unique(multinomial(jax.random.key(0), weights, 100)).tolist()
        [0, 2]

    References:
        Gordon, Salmond and Smith (1993), Novel approach to nonlinear/non-Gaussian Bayesian state
        estimation.
    """
    size, weights = _checked(log_weights, num)
    return _independent(key, weights, size)


def residual(key: jax.Array, log_weights: Any, num: int | None = None) -> jax.Array:
    r"""Residual resampling: :math:`\lfloor nW \rfloor` offspring each, the others multinomial.

    Arguments and result are as of :func:`systematic`, but for the order: the certain offspring
    come first.

    Example:
        >>> residual(jax.random.key(0), jnp.log(jnp.array([0.5, 0.0, 0.5])), 4).tolist()
        [0, 0, 2, 2]

    References:
        Liu and Chen (1998), Sequential Monte Carlo methods for dynamic systems.
    """
    size, weights = _checked(log_weights, num)
    expected = weights / _cumulative(weights)[-1] * float(size)
    copies = jnp.floor(expected).astype(jnp.int32)
    # Rounding of the sum of weights may make a copy too many.
    certain = jnp.minimum(jnp.cumsum(copies), size)
    rest = expected - jnp.floor(expected)
    rest = jnp.where(jnp.any(rest > 0), rest, weights)
    drawn = _independent(key, rest, size)
    return jnp.where(jnp.arange(size) < certain[-1], _ancestors(certain, size), drawn)


SCHEMES: dict[str, Scheme] = {
    scheme.__name__: scheme for scheme in (systematic, stratified, multinomial, residual)
}


def _checked(log_weights: Any, num: int | None) -> tuple[int, jax.Array]:
    """Number of ancestors; weights, the largest of which is 1."""
    log_weights = jnp.asarray(log_weights)
    if log_weights.ndim != 1 or not log_weights.size:
        raise ValueError(
            "log_weights must be a vector with one entry a particle, got an array of shape "
            f"{log_weights.shape}; use jax.vmap for several sets of particles"
        )
    log_weights = log_weights.astype(jnp.result_type(log_weights, jnp.float32))
    log_weights = jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
    largest = jnp.max(log_weights)
    # Equal to the largest: also where that is infinite.
    weights = jnp.where(log_weights == largest, 1, jnp.exp(log_weights - largest))
    return log_weights.size if num is None else num, weights


def _cumulative(weights: jax.Array) -> jax.Array:
    """Cumulative weights that grow at positive weights only, and nowhere fall.

    A parallel sum rounds each prefix in its own way: neighbors may differ where no weight is
    added, and fall where a little is.
    """
    return lax.cummax(jnp.where(weights > 0, jnp.cumsum(weights), 0))


def _points_below(cumulative: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Cumulative weights in units of intervals between points: whole numbers and fractions."""
    scaled = cumulative / cumulative[-1] * float(size)
    whole = jnp.floor(scaled)
    return whole.astype(jnp.int32), scaled - whole


def _ancestors(offspring: jax.Array, size: int) -> jax.Array:
    """Ancestors in ascending order, of cumulative numbers of offspring, the last one `size`."""
    ends = jnp.zeros(size, jnp.int32).at[offspring].add(1, mode="drop")
    return jnp.cumsum(ends)


def _independent(key: jax.Array, weights: jax.Array, size: int) -> jax.Array:
    cumulative = _cumulative(weights)
    points = random.uniform(key, (size,), weights.dtype) * cumulative[-1]
    drawn = jnp.searchsorted(cumulative, points, side="right").astype(jnp.int32)
    # A point may round to the sum of weights, which no cumulative weight exceeds.
    last = jnp.argmax(cumulative).astype(jnp.int32)
    return jnp.minimum(drawn, last)
