"""The Gaussian random walk."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions.common.arrays import align, convert, float_dtype
from distributions.common.linear_algebra import (
    per_event,
    square_sum,
)
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints import (
    Constraint,
    real_vector,
)
from distributions.continuous.normal import Normal
from distributions.core.distribution import Distribution, Shape, full
from distributions.core.standard_form import StandardForm, refuse_weight
from distributions.numerics.cumulative_sum import cumulative_sum
from distributions.numerics.special import LOG_SQRT_TWO_PI, scale_by_reciprocal


@pytree_dataclass(eq=False, repr=False)
class GaussianRandomWalk(Distribution):
    r"""Gaussian random walk: a sum of independent normal steps.

    `x_1` has the distribution `init`, and `x_k` is normal with mean `x_(k-1)` and standard
    deviation `scale` for `k = 2 .. num_steps`.

    Args:
        scale: The standard deviation of a step, positive.
        num_steps: The number of entries.
        init: The distribution of the first entry, over numbers. By default `Normal(0, scale)`: the
            first step starts at 0.

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

    def _align_parameters(self, dtype: Any, batch_ndims: int) -> Any:
        return align(convert(self.scale, dtype), 0, batch_ndims)

    def _as_vectors(self, value: ArrayLike) -> tuple[Array, Array]:
        """The value and the scale, in one dtype and with axes aligned."""
        batch_ndims = max(np.ndim(value) - 1, len(self.batch_shape))
        dtype = float_dtype(value, self.scale, *jax.tree.leaves(self._first))
        x = align(jnp.asarray(value, dtype), 1, batch_ndims)
        return x, self._align_parameters(dtype, batch_ndims)

    def _log_prob(self, value: ArrayLike) -> Array:
        x, scale = self._as_vectors(value)
        return self._log_prob_of_steps(x[..., 0], jnp.diff(x, axis=-1), scale)

    def _log_prob_of_steps(self, first: Array, steps: Array, scale: Array) -> Array:
        squares = -0.5 * square_sum(scale_by_reciprocal(steps, per_event(scale)))
        normalizer = (self.num_steps - 1) * (jnp.log(scale) + LOG_SQRT_TWO_PI)
        return self._first.log_prob(first).astype(steps.dtype) + (squares - normalizer)

    @property
    def has_standard_form(self) -> bool:
        """Whether there is a `standard_form`: always."""
        return True

    def _standard_form(self, centeredness: Any) -> StandardForm:
        """The standard form of the first entry, and standard normal steps."""
        refuse_weight(self, centeredness)
        start = StandardForm(self._first, lambda z: z, lambda x: x)
        if self._first.has_standard_form:
            start = self._first.standard_form()

        def join(first: Array, steps: Array) -> Array:
            first = jnp.broadcast_to(first, steps.shape[:-1])
            return jnp.concatenate([first[..., None], steps], -1)

        def color(z: Any) -> Array:
            z, scale = self._as_vectors(z)
            return cumulative_sum(join(start.forward(z[..., 0]), per_event(scale) * z[..., 1:]))

        def whiten(x: Any) -> Array:
            x, scale = self._as_vectors(x)
            return join(start.inverse(x[..., 0]), jnp.diff(x, axis=-1) / per_event(scale))

        scale = jnp.ones(np.shape(self.scale), self.dtype)
        return StandardForm(_StartAndSteps(scale, self.num_steps, start.base), color, whiten)

    def _sample(self, key: Array, shape: Shape) -> Array:
        first_key, key = random.split(key)
        batch = shape[:-1]
        first = self._first._sample(first_key, batch).astype(self.dtype)[..., None]
        scale = per_event(self._align_parameters(self.dtype, len(batch)))
        steps = scale * random.normal(key, (*batch, self.num_steps - 1), self.dtype)
        return cumulative_sum(jnp.concatenate([first, steps], -1))

    def _moment(self, name: str) -> Array:
        dtype = self.dtype
        batch = self.batch_shape
        first = full(getattr(self._first, name)(), batch, dtype)
        scale = self._align_parameters(dtype, len(batch))
        steps = self.num_steps - 1
        if name == "entropy":
            return first + steps * (0.5 + LOG_SQRT_TWO_PI + jnp.log(scale))
        if name == "variance":
            count = align(jnp.arange(steps + 1, dtype=dtype), 0, len(batch) + 1)
            return first[..., None] + per_event(jnp.square(scale)) * count
        return full(first[..., None], (*batch, steps + 1), dtype)


@pytree_dataclass(eq=False, repr=False)
class _StartAndSteps(GaussianRandomWalk):
    """First entry and steps of a Gaussian random walk, not summed up."""

    def _log_prob(self, value: ArrayLike) -> Array:
        x, scale = self._as_vectors(value)
        return self._log_prob_of_steps(x[..., 0], x[..., 1:], scale)

    def _sample(self, key: Array, shape: Shape) -> Array:
        x = super()._sample(key, shape)
        return jnp.concatenate([x[..., :1], jnp.diff(x, axis=-1)], -1)
