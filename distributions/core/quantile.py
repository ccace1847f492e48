"""Quantiles by bisection, differentiable by the implicit function theorem."""

from __future__ import annotations

import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import common_dtype, float_dtype
from distributions.constraints.base import bounds


class HasCdf(Protocol):
    """Distribution of numbers with a distribution function."""

    @property
    def support(self) -> Any:
        """The set of values with positive density."""
        ...

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of independent distributions."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The dtype of draws."""
        ...

    def cdf(self, value: Any, /) -> Array:
        """The probability of a draw of at most `value`."""
        ...

    def log_prob(self, value: Any, /) -> Array:
        """The log density at `value`."""
        ...

    def _exceeds(self, q: Array, value: Array, /) -> Array: ...


def quantile(d: HasCdf, q: Array) -> Array:
    """The least value with `d.cdf(value) >= q`, for a distribution of numbers."""
    shape = np.broadcast_shapes(q.shape, d.batch_shape)
    dtype = float_dtype(q, *jax.tree.leaves(d))
    wide = common_dtype(dtype, jnp.float32)
    q = jnp.broadcast_to(q, shape).astype(wide)
    if d.support.is_discrete:
        return _integer_quantile(d, lax.stop_gradient(q)).astype(d.dtype)
    return _real_quantile(d, q)[0].astype(dtype)


def _bisect(d: HasCdf, q: Array, low: Array, high: Array, value_of: Any) -> Array:
    """The least integer `n` in `(low, high]` with `cdf(value_of(n)) >= q`; `high` without one."""

    def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = low + (high - low) // 2
        exceeds = d._exceeds(q, value_of(middle))
        return jnp.where(exceeds, low, middle), jnp.where(exceeds, middle, high)

    return lax.fori_loop(0, 8 * low.dtype.itemsize, halve, (low, high))[1]


def _integer_quantile(d: HasCdf, q: Array) -> Array:
    low, high = bounds(d.support)
    integer = jnp.result_type(int)
    most = float(jnp.iinfo(integer).max // 4)
    least, end = (
        jnp.broadcast_to(jnp.clip(jnp.asarray(b, q.dtype), -most, most), q.shape).astype(integer)
        for b in (low, high)
    )
    found = _bisect(d, q, least - 1, end + 1, lambda integer: integer)
    return jnp.where((q >= 0) & (q <= 1) & (found <= end), found, least - 1)


@jax.custom_jvp
def _real_quantile(d: HasCdf, q: Array) -> tuple[Array, Array]:
    """Quantile by bisection on the ranks of floating numbers: exact, wherever it lies.

    The two results are equal. The second has slopes of 0 where the density underflows, for second
    derivatives: the large slopes of the first would overflow in them.
    """
    largest = jnp.finfo(q.dtype).max
    low, high = (jnp.broadcast_to(jnp.asarray(b, q.dtype), q.shape) for b in bounds(d.support))
    first, last = (_rank(jnp.clip(bound, -largest, largest)) for bound in (low, high))
    found = _number(_bisect(d, q, first, last, lambda rank: _number(rank, q.dtype)), q.dtype)
    found = jnp.where(q == 0, low, jnp.where(q == 1, high, found))
    found = jnp.where((q >= 0) & (q <= 1), found, jnp.nan)
    return found, found


@_real_quantile.defjvp
def _real_quantile_jvp(primals: Any, tangents: Any) -> Any:
    (d, q), (d_dot, q_dot) = primals, tangents
    value, steady = _real_quantile(d, q)
    _, cdf_dot = jax.jvp(lambda d: d.cdf(steady), (d,), (d_dot,))
    inverse, is_large = _inverse_density(d, steady)
    is_beyond = jnp.abs(steady) == jnp.finfo(steady.dtype).max  # It is clipped: a constant.
    inverse = jnp.where(is_beyond, 0, inverse)
    dot = ((q_dot - cdf_dot) * inverse).astype(value.dtype)
    return (value, steady), (dot, jnp.where(is_large, 0, dot))


def _inverse_density(d: HasCdf, value: Array) -> tuple[Array, Array]:
    """`1 / p(value)`, a large number where that overflows, and whether it is that number.

    Slopes of 0 times it stay 0.
    """
    most = math.log(float(jnp.finfo(value.dtype).max)) - 8
    log_inverse = -d.log_prob(value)
    is_large = log_inverse >= most
    return jnp.exp(jnp.where(is_large, most, log_inverse)), is_large


def _unsigned_dtype(dtype: Any) -> Any:
    return {4: jnp.uint32, 8: jnp.uint64}[np.dtype(dtype).itemsize]


def _rank(x: Array) -> Array:
    """The rank of a floating number among all of its dtype, as an unsigned integer."""
    bits = lax.bitcast_convert_type(x, _unsigned_dtype(x.dtype))
    sign = jnp.asarray(1, bits.dtype) << (8 * bits.dtype.itemsize - 1)
    return jnp.where(bits & sign, ~bits, bits | sign)


def _number(rank: Array, dtype: Any) -> Array:
    """The floating number of a rank: the inverse of `_rank`."""
    sign = jnp.asarray(1, rank.dtype) << (8 * rank.dtype.itemsize - 1)
    return lax.bitcast_convert_type(jnp.where(rank & sign, rank ^ sign, ~rank), dtype)


@jax.custom_jvp
def reparameterize(d: HasCdf, draw: Array) -> Array:
    """A draw of a distribution of numbers, with the derivatives of a quantile.

    Derivatives are implicit, by `cdf(draw) = const` (Figurnov, Mohamed and Mnih 2018, equation 5),
    for a draw of any sampler.
    """
    return draw


@reparameterize.defjvp
def _reparameterize_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (d, draw), (d_dot, _) = primals, tangents
    _, cdf_dot = jax.jvp(lambda d: d.cdf(draw), (d,), (d_dot,))
    return draw, (-cdf_dot * _inverse_density(d, draw)[0]).astype(draw.dtype)
