"""Processes at finitely many times or points: random walks, autoregressions, Gaussian processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions._arrays import align, convert, float_dtype
from distributions._linalg import (
    diagonal,
    last_axis,
    log_diagonal,
    multiply,
    per_event,
    solve,
    square_sum,
)
from distributions._pytree import pytree_dataclass, static
from distributions.constraints import (
    Constraint,
    nonnegative,
    open_interval,
    positive,
    real,
    real_vector,
    symmetric,
)
from distributions.distribution import Distribution, Shape, full
from distributions.family import Family, family
from distributions.real_line import Normal
from distributions.row import parameter
from distributions.special import LOG_SQRT_TWO_PI, scaled


@pytree_dataclass(eq=False, repr=False)
class GaussianRandomWalk(Distribution):
    r"""Random walk with normal steps.

    `x_1` has the distribution `init`, and `x_k` is normal with mean `x_(k-1)` and standard
    deviation `scale` for `k = 2 .. num_steps`.

    Args:
        scale: The standard deviation of a step, positive.
        num_steps: The number of entries.
        init: The distribution of the first entry, of numbers; if none, `Normal(0, scale)`, as of a
            walk whose first step starts at 0.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> walk = dist.GaussianRandomWalk(0.5, 3, dist.Normal(10.0, 1.0))
    >>> round(float(walk.log_prob(jnp.array([10.0, 10.5, 10.0]))), 4)
    -2.3705

    References:
        Harvey, *Forecasting, Structural Time Series Models and the Kalman Filter* (1989),
        section 2.3.
    """

    is_closed: ClassVar[bool] = True

    scale: ArrayLike
    num_steps: int = static()
    init: Distribution | None = None

    def __post_init__(self) -> None:
        """Checks the parameters that are known."""
        Normal(0.0, self.scale)
        steps = self.num_steps
        if not isinstance(steps, int | np.integer) or steps < 1:
            raise ValueError(
                f"GaussianRandomWalk: num_steps must be a positive integer; got {steps!r}"
            )
        object.__setattr__(self, "num_steps", int(steps))
        if self.init is not None and (
            not isinstance(self.init, Distribution) or self.init.event_shape
        ):
            raise ValueError(
                f"GaussianRandomWalk: init must be a distribution of numbers; got {self.init!r}"
            )

    @property
    def _first(self) -> Distribution:
        return Normal(0.0, self.scale) if self.init is None else self.init

    @property
    def support(self) -> Constraint:
        """Real vectors."""
        return real_vector

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent walks."""
        return np.broadcast_shapes(np.shape(self.scale), self._first.batch_shape)

    @property
    def event_shape(self) -> Shape:
        """The number of steps."""
        return (self.num_steps,)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of draws."""
        return float_dtype(self.scale, *jax.tree.leaves(self._first))

    def _aligned(self, dtype: Any, batch_ndims: int) -> Any:
        return align(convert(self.scale, dtype), 0, batch_ndims)

    def _log_prob(self, value: ArrayLike) -> Array:
        batch_ndims = max(np.ndim(value) - 1, len(self.batch_shape))
        dtype = float_dtype(value, self.scale, *jax.tree.leaves(self._first))
        x = align(jnp.asarray(value, dtype), 1, batch_ndims)
        scale = self._aligned(dtype, batch_ndims)
        steps = -0.5 * square_sum(scaled(jnp.diff(x, axis=-1), per_event(scale)))
        normaliser = (self.num_steps - 1) * (jnp.log(scale) + LOG_SQRT_TWO_PI)
        return self._first.log_prob(x[..., 0]).astype(dtype) + (steps - normaliser)

    def _sample(self, key: Array, shape: Shape) -> Array:
        first_key, key = random.split(key)
        batch = shape[:-1]
        first = self._first._sample(first_key, batch).astype(self.dtype)[..., None]
        scale = per_event(self._aligned(self.dtype, len(batch)))
        steps = scale * random.normal(key, (*batch, self.num_steps - 1), self.dtype)
        return jnp.cumsum(jnp.concatenate([first, steps], -1), -1)

    def _moment(self, name: str) -> Array:
        dtype, batch = self.dtype, self.batch_shape
        first = full(getattr(self._first, name)(), batch, dtype)
        scale = self._aligned(dtype, len(batch))
        steps = self.num_steps - 1
        if name == "entropy":
            return first + steps * (0.5 + LOG_SQRT_TWO_PI + jnp.log(scale))
        if name == "variance":
            count = align(jnp.arange(steps + 1, dtype=dtype), 0, len(batch) + 1)
            return first[..., None] + per_event(jnp.square(scale)) * count
        return full(first[..., None], (*batch, steps + 1), dtype)


def _stationary_variance(coefficient, scale):
    return jnp.square(scale) / ((1 - coefficient) * (1 + coefficient))


def _autoregressive_log_prob(x, loc, coefficient, scale, num_steps):
    z = scaled(x - per_event(loc), per_event(scale))
    steps = z[..., 1:] - per_event(coefficient) * z[..., :-1]
    first = (1 - coefficient) * (1 + coefficient)
    square = first * jnp.square(z[..., 0]) + square_sum(steps)
    normaliser = num_steps * (jnp.log(scale) + LOG_SQRT_TWO_PI) - 0.5 * jnp.log(first)
    return -0.5 * square - normaliser


def _autoregressive_sample(key, shape, dtype, loc, coefficient, scale, num_steps):
    z = jnp.moveaxis(random.normal(key, shape, dtype), -1, 0)
    first = z[0] / jnp.sqrt((1 - coefficient) * (1 + coefficient))

    def step(before, z):
        now = coefficient * before + z
        return now, now

    _, others = lax.scan(step, first, z[1:])
    path = jnp.moveaxis(jnp.concatenate([first[None], others]), 0, -1)
    return per_event(loc) + per_event(scale) * path


def _autoregressive_entropy(loc, coefficient, scale, num_steps):
    log_first = jnp.log1p(-coefficient) + jnp.log1p(coefficient)
    return num_steps * (jnp.log(scale) + (0.5 + LOG_SQRT_TWO_PI)) - 0.5 * log_first


@family(
    support=real_vector,
    event_shape=lambda loc, coefficient, scale, num_steps: (num_steps,),
    requires=lambda loc, coefficient, scale, num_steps: (
        None
        if isinstance(num_steps, int) and num_steps > 0
        else f"num_steps must be a positive integer; got {num_steps!r}"
    ),
    log_prob=_autoregressive_log_prob,
    sample=_autoregressive_sample,
    mean=lambda loc, coefficient, scale, num_steps: per_event(loc),
    variance=lambda loc, coefficient, scale, num_steps: per_event(
        _stationary_variance(coefficient, scale)
    ),
    mode=lambda loc, coefficient, scale, num_steps: per_event(loc),
    entropy=_autoregressive_entropy,
)
class AutoRegressive(Family):
    r"""Stationary autoregression of first order.

    `x_k` is normal with mean `loc + coefficient (x_(k-1) - loc)` and standard deviation `scale` for
    `k = 2 .. num_steps`; `x_1` has the stationary distribution that all entries share, normal with
    mean `loc` and variance `scale^2 / (1 - coefficient^2)`.

    Args:
        loc: The stationary mean.
        coefficient: The correlation of neighbours, between -1 and 1.
        scale: The standard deviation of a step, positive.
        num_steps: The number of entries.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> ar = dist.AutoRegressive(0.0, 0.5, 1.0, 3)
    >>> round(float(ar.log_prob(jnp.zeros(3))), 4)
    -2.9007

    References:
        Hamilton, *Time Series Analysis* (1994), section 5.2.
    """

    loc: ArrayLike = parameter(real)
    coefficient: ArrayLike = parameter(open_interval(-1.0, 1.0))
    scale: ArrayLike = parameter(positive)
    num_steps: int = static()


def _factor(kernel, mean_fn, noise):
    unit = jnp.eye(kernel.shape[-1], dtype=kernel.dtype)
    covariance = kernel + align(unit, 2, kernel.ndim - 2) * per_event(noise, 2)
    return jnp.linalg.cholesky(covariance)


def _process_log_prob(x, kernel, mean_fn, noise):
    tril = _factor(kernel, mean_fn, noise)
    square = square_sum(solve(tril, x - mean_fn))
    return -0.5 * square - log_diagonal(tril) - x.shape[-1] * LOG_SQRT_TWO_PI


def _process_sample(key, shape, dtype, kernel, mean_fn, noise):
    z = random.normal(key, shape, dtype)
    return mean_fn + multiply(_factor(kernel, mean_fn, noise), z)


def _process_entropy(kernel, mean_fn, noise):
    n = kernel.shape[-1]
    return log_diagonal(_factor(kernel, mean_fn, noise)) + n * (0.5 + LOG_SQRT_TWO_PI)


@family(
    support=real_vector,
    event_shape=lambda kernel, mean_fn, noise: last_axis(kernel, mean_fn),
    log_prob=_process_log_prob,
    sample=_process_sample,
    mean=lambda kernel, mean_fn, noise: mean_fn,
    variance=lambda kernel, mean_fn, noise: diagonal(kernel) + per_event(noise),
    mode=lambda kernel, mean_fn, noise: mean_fn,
    entropy=_process_entropy,
)
class GaussianProcess(Family):
    r"""Values of a Gaussian process at finitely many points.

    Multivariate normal with mean `m_i = mean_fn(index_points_i)` and covariance
    `K_ij = kernel(index_points_i, index_points_j)`, `observation_noise_variance` more on the
    diagonal.

    What is a function is evaluated once, when the distribution is made, and what is kept is the
    matrix and the vector.

    Args:
        kernel: The covariance of two points, a function; or the matrix, of shape `(..., n, n)`.
        index_points: The points, along the first axis; not needed beside a matrix.
        mean_fn: The mean at a point, a function; or the vector of them, or one number.
        observation_noise_variance: Of independent noise at each point, nonnegative. Without noise,
            a smooth kernel at near points has no Cholesky factor in finite precision: 1e-6 or so of
            its diagonal helps.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> kernel = lambda x, y: jnp.exp(-0.5 * (x - y) ** 2)
    >>> process = dist.GaussianProcess(kernel, jnp.arange(3.0), 0.0, 0.1)
    >>> round(float(process.log_prob(jnp.zeros(3))), 4)
    -2.5023

    References:
        Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), chapter 2.
    """

    kernel: ArrayLike | Callable[[Any, Any], Array] = parameter(symmetric)
    index_points: dataclasses.InitVar[Any] = None
    mean_fn: ArrayLike | Callable[[Any], Array] = parameter(real, event_ndims=1, default=0.0)
    observation_noise_variance: ArrayLike = parameter(nonnegative, default=0.0)

    def __post_init__(self, index_points: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Evaluates the functions at the points."""
        kernel, mean_fn, points = self.kernel, self.mean_fn, index_points
        if points is None and (callable(kernel) or callable(mean_fn)):
            raise ValueError("GaussianProcess: a function needs index_points; got None")
        if callable(kernel):
            rows = jax.vmap(jax.vmap(kernel, (None, 0)), (0, None))
            object.__setattr__(self, "kernel", rows(points, points))
        if callable(mean_fn):
            object.__setattr__(self, "mean_fn", jax.vmap(mean_fn)(points))
        super().__post_init__()
