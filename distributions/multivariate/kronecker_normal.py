"""The multivariate normal distribution with a Kronecker product as covariance."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import align, convert, float_dtype, stack
from distributions.common.eigenvectors import eigh
from distributions.common.linear_algebra import (
    diagonal,
    gram,
    last_axis,
    log_diagonal,
    matmul,
    multiply,
    per_event,
    solve,
    square_sum,
)
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint, positive, real, real_vector
from distributions.core.distribution import Distribution, Shape, full
from distributions.core.parameter_checks import check_parameter
from distributions.core.row import Parameter
from distributions.core.standard_form import StandardForm, refuse_weight
from distributions.multivariate.multivariate_normal import MultivariateNormal
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _each_axis(
    apply: Callable[[Array, Array], Array], matrices: tuple[Array, ...], x: Array
) -> Array:
    """Applies each matrix along its axis of the grid of entries."""
    batch = x.shape[:-1]
    sizes = tuple(matrix.shape[-1] for matrix in matrices)
    grid = x.reshape(*batch, *sizes)
    for k, matrix in enumerate(matrices):
        axis = len(batch) + k
        last = jnp.moveaxis(grid, axis, -1)
        others = (1,) * (len(sizes) - 1)
        matrix = matrix.reshape(*matrix.shape[:-2], *others, *matrix.shape[-2:])
        grid = jnp.moveaxis(apply(matrix, last), -1, axis)
    return grid.reshape(*grid.shape[: len(batch)], -1)


@jax.custom_jvp
def _eigenvectors(matrix: Array) -> Array:
    return eigh(matrix)[1]


@_eigenvectors.defjvp
def _eigenvectors_jvp(primals: Any, tangents: Any) -> NoReturn:
    # Eigenvectors of equal eigenvalues have no derivatives.
    raise NotImplementedError(
        "KroneckerNormal: with noise_scale the log density has, in the factors, first derivatives "
        "only"
    )


def _eigenvalues(matrices: tuple[Array, ...], vectors: tuple[Array, ...]) -> Array:
    """The eigenvalues of the Kronecker product, given the eigenvectors of its factors."""
    each = [diagonal(matmul(v.mT, matmul(s, v))) for s, v in zip(matrices, vectors, strict=True)]
    product = each[0]
    for values in each[1:]:
        product = product[..., :, None] * values[..., None, :]
        product = product.reshape(*product.shape[:-2], -1)
    return product


@jax.custom_jvp
def _noisy_log_density(x: Array, matrices: tuple[Array, ...], variance: Array) -> Array:
    """The log density without its constant; `variance` is added to the Kronecker product."""
    vectors = tuple(map(_eigenvectors, matrices))
    values = _eigenvalues(matrices, vectors) + variance[..., None]
    turned = _each_axis(lambda v, x: multiply(v.mT, x), vectors, x)
    return -0.5 * jnp.sum(jnp.square(turned) / values + jnp.log(values), -1)


@_noisy_log_density.defjvp
def _noisy_log_density_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The derivative with eigenvectors and the solution `a` of `C a = x` held constant."""
    x, matrices, variance = primals
    vectors = tuple(map(_eigenvectors, matrices))
    values = _eigenvalues(matrices, vectors) + variance[..., None]
    turned = _each_axis(lambda v, x: multiply(v.mT, x), vectors, x) / values
    a = _each_axis(multiply, vectors, turned)

    def surrogate(x, matrices, variance):
        product = _each_axis(multiply, matrices, a) + variance[..., None] * a
        values = _eigenvalues(matrices, vectors) + variance[..., None]
        return -0.5 * (jnp.sum(a * (2 * x - product), -1) + jnp.sum(jnp.log(values), -1))

    return jax.jvp(surrogate, primals, tangents)


@pytree_dataclass(eq=False, repr=False)
class KroneckerNormal(Distribution):
    r"""Multivariate normal distribution whose covariance is a Kronecker product.

    Normal vectors with mean `loc` and covariance `S_1 x S_2 x ...`, the Kronecker product of
    `S_k = L_k L_k^T` with `scale_trils = (L_1, L_2, ...)`. The entries are values on a grid, the
    last coordinate running fastest. The product is never formed: for matrices of `n_k` rows a
    density takes `O(n sum_k n_k)` operations, with `n` the product of the `n_k`.

    With `noise_scale`, independent noise of that standard deviation is added to each value. The
    density then uses the eigenvectors of the `S_k`, and its second derivatives in the factors are
    an error.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        scale_trils: Cholesky factors, each of shape `(..., n_k, n_k)`.
        noise_scale: The standard deviation of the noise, positive; by default there is no noise.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.KroneckerNormal(0.0, scale_trils=(jnp.eye(2), 2 * jnp.eye(3)))
    >>> round(float(normal.log_prob(jnp.zeros(6))), 4)
    -9.6725

    References:
        Saatci, *Scalable Inference for Structured Gaussian Process Models* (2011), chapter 5.
    """

    is_closed: ClassVar[bool] = True

    loc: ArrayLike
    _: KW_ONLY
    scale_trils: tuple[ArrayLike, ...]
    noise_scale: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Checks the factors, and that the mean fits."""
        object.__setattr__(self, "scale_trils", tuple(self.scale_trils))
        if not self.scale_trils:
            raise ValueError("KroneckerNormal: scale_trils must not be empty")
        for tril in self.scale_trils:
            MultivariateNormal(0.0, scale_tril=tril)
        object.__setattr__(self, "noise_scale", stack(self.noise_scale))
        noise = () if self.noise_scale is None else np.shape(self.noise_scale)
        self._check_numbers()
        try:
            _ = last_axis(self.loc, np.broadcast_to(0, self.event_shape)), self.batch_shape
        except ValueError:
            shapes = ", ".join(str(np.shape(tril)) for tril in self.scale_trils)
            raise ValueError(
                f"KroneckerNormal: the shapes do not fit: loc {np.shape(self.loc)}, "
                f"scale_trils {shapes}, noise_scale {noise}"
            ) from None

    def _check_numbers(self) -> None:
        check_parameter("KroneckerNormal", Parameter("loc", real, 0), self.loc)
        if self.noise_scale is not None:
            noise = Parameter("noise_scale", positive, 0)
            check_parameter("KroneckerNormal", noise, self.noise_scale)

    @property
    def support(self) -> Constraint:
        """Real vectors."""
        return real_vector

    def _event_ranks(self) -> tuple[int, Shape]:
        return 0, (1, 2, 0)

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent vectors."""
        trils = (np.shape(tril)[:-2] for tril in self.scale_trils)
        noise = () if self.noise_scale is None else np.shape(self.noise_scale)
        return np.broadcast_shapes(np.shape(self.loc)[:-1], *trils, noise)

    @property
    def event_shape(self) -> Shape:
        """The product of the numbers of rows."""
        return (math.prod(self._sizes),)

    @property
    def _sizes(self) -> Shape:
        return tuple(np.shape(tril)[-1] for tril in self.scale_trils)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of draws."""
        return float_dtype(*jax.tree.leaves(self))

    def _each_axis(self, apply: Callable[[Array, Array], Array], x: Array) -> Array:
        trils = tuple(align(jnp.asarray(tril, x.dtype), 2, x.ndim - 1) for tril in self.scale_trils)
        return _each_axis(apply, trils, x)

    @property
    def has_standard_form(self) -> bool:
        """Whether there is a `standard_form`: not with noise, for eigenvectors have no slopes."""
        return self.noise_scale is None

    def _standard_form(self, centeredness: Any) -> StandardForm:
        """Independent standard normals, times each factor along its axis."""
        refuse_weight(self, centeredness)
        if self.noise_scale is not None:
            raise NotImplementedError(
                "KroneckerNormal has no factor that can be differentiated, with noise_scale."
            )

        def loc(x: Array) -> Array:
            return align(convert(self.loc, x.dtype), 1, x.ndim - 1)

        def color(z: Any) -> Array:
            z = self._as_vectors(z)
            return loc(z) + self._each_axis(multiply, z)

        def whiten(x: Any) -> Array:
            x = self._as_vectors(x)
            return self._each_axis(solve, x - loc(x))

        return StandardForm(None, color, whiten)

    def _as_vectors(self, x: ArrayLike) -> Array:
        batch_ndims = max(np.ndim(x) - 1, len(self.batch_shape))
        return align(jnp.asarray(x, float_dtype(x, *jax.tree.leaves(self))), 1, batch_ndims)

    def _noise(self, dtype: Any, batch_ndims: int) -> Array:
        noise = jnp.asarray(self.noise_scale, dtype)
        return noise.reshape((1,) * (batch_ndims - noise.ndim) + noise.shape)

    def _noisy_log_density(self, x: Array) -> Array:
        """The log density, in units of the greatest entries: their squares would overflow."""
        noise = self._noise(x.dtype, x.ndim - 1)
        trils = [align(jnp.asarray(tril, x.dtype), 2, x.ndim - 1) for tril in self.scale_trils]
        sizes = [lax.stop_gradient(jnp.max(jnp.abs(tril), (-2, -1))) for tril in trils]
        trils = [tril / per_event(size, 2) for tril, size in zip(trils, sizes, strict=True)]
        product = functools.reduce(operator.mul, sizes)
        unit = jnp.maximum(product, lax.stop_gradient(noise))
        trils[0] = trils[0] * per_event(product / unit, 2)
        covariance = tuple(map(gram, trils)), jnp.square(noise / unit)
        n = x.shape[-1]
        density = _noisy_log_density(x / per_event(unit), *covariance)
        return density - n * (jnp.log(unit) + LOG_SQRT_TWO_PI)

    def _half_log_det(self, dtype: Any) -> Array:
        n = self.event_shape[0]
        ndim = len(self.batch_shape)
        if self.noise_scale is not None:
            return -self._noisy_log_density(jnp.zeros((*self.batch_shape, n), dtype))
        trils = (align(jnp.asarray(tril, dtype), 2, ndim) for tril in self.scale_trils)
        terms = [n // tril.shape[-1] * log_diagonal(tril) for tril in trils]
        return functools.reduce(operator.add, terms) + n * LOG_SQRT_TWO_PI

    def _log_prob(self, value: ArrayLike) -> Array:
        x = self._as_vectors(value)
        dtype = x.dtype
        batch_ndims = x.ndim - 1
        x = x - align(convert(self.loc, dtype), 1, batch_ndims)
        if self.noise_scale is not None:
            return self._noisy_log_density(x)
        z = self._each_axis(solve, x)
        normalizer = align(self._half_log_det(dtype), 0, batch_ndims)
        return -0.5 * square_sum(z) - normalizer

    def _sample(self, key: Array, shape: Shape) -> Array:
        key, noise_key = random.split(key)
        z = self._each_axis(multiply, random.normal(key, shape, self.dtype))
        if self.noise_scale is not None:
            noise = self._noise(self.dtype, len(shape) - 1)
            z = z + noise[..., None] * random.normal(noise_key, shape, self.dtype)
        return align(convert(self.loc, self.dtype), 1, len(shape) - 1) + z

    def _moment(self, name: str) -> Array:
        dtype = self.dtype
        batch = self.batch_shape
        shape = self.event_shape
        if name == "entropy":
            return full(self._half_log_det(dtype) + 0.5 * shape[0], batch, dtype)
        if name == "variance":
            ones = jnp.ones((*batch, *shape), dtype)
            variance = self._each_axis(lambda tril, x: multiply(jnp.square(tril), x), ones)
            if self.noise_scale is None:
                return variance
            return variance + jnp.square(self._noise(dtype, len(batch)))[..., None]
        return full(align(convert(self.loc, dtype), 1, len(batch)), batch + shape, dtype)
