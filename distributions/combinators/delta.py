"""The distribution of a constant."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.wrapper import as_batch
from distributions.common.arrays import common_dtype, float_dtype, promote, select, stack
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints import Constraint, extended_real
from distributions.constraints.atoms import Constant
from distributions.core.distribution import Distribution, Shape
from distributions.core.distribution_functions import ENDS
from distributions.core.parameter_checks import check_parameter
from distributions.core.row import Parameter


@pytree_dataclass(eq=False, repr=False)
class Delta(Distribution):
    r"""The distribution of a constant: all mass at `loc`.

    `p(x) = exp(log_density)` at `x = loc`, and 0 elsewhere: a mass, not a density. The distribution
    is discrete if `loc` holds integers. With floating numbers it is not, but has no map from
    unconstrained space either.

    Args:
        loc: The constant.
        log_density: The value of `log_prob` at `loc`; unless it is 0, the law is not normalized.
        event_ndims: The number of last axes of `loc` that belong to one draw.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Delta(2.0).log_prob(jnp.array([2.0, 1.0])))
    [  0. -inf]

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 1.2.
    """

    is_closed: ClassVar[bool] = True

    loc: ArrayLike
    log_density: ArrayLike = 0.0
    event_ndims: int = static(default=0)

    def __post_init__(self) -> None:
        """Checks the shapes."""
        for name in ("loc", "log_density"):
            object.__setattr__(self, name, stack(getattr(self, name)))
            check_parameter("Delta", Parameter(name, extended_real, 0), getattr(self, name))
        if not isinstance(self.event_ndims, int | np.integer):
            raise ValueError(f"Delta: event_ndims must be an integer; got {self.event_ndims!r}")
        if not 0 <= self.event_ndims <= np.ndim(self.loc):
            most = np.ndim(self.loc)
            got = self.event_ndims
            raise ValueError(
                f"Delta: event_ndims must be from 0 to {most}, the axes of loc; got {got}"
            )
        try:
            _ = self.batch_shape
        except ValueError:
            shapes = f"loc {np.shape(self.loc)}, log_density {np.shape(self.log_density)}"
            raise ValueError(
                f"Delta: log_density must broadcast with the batch axes of loc; got {shapes}"
            ) from None

    @property
    def support(self) -> Constraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The constant alone."""
        return Constant(self.loc, self.event_ndims)

    @property
    def is_reparameterized(self) -> bool:
        """Always true: a draw is the parameter."""
        return True

    def _event_ranks(self) -> tuple[int, Shape]:
        return 0, (self.event_ndims, 0)

    @property
    def batch_shape(self) -> Shape:
        """The axes of `loc` in front of the event axes, broadcast with `log_density`."""
        shape = np.shape(self.loc)
        own = shape[: len(shape) - self.event_ndims]
        return np.broadcast_shapes(own, np.shape(self.log_density))

    @property
    def event_shape(self) -> Shape:
        """The last axes of `loc`."""
        shape = np.shape(self.loc)
        return shape[len(shape) - self.event_ndims :]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of `loc`."""
        return common_dtype(self.loc)

    def _log_prob(self, value: ArrayLike) -> Array:
        (log_density,) = promote(self.log_density, dtype=float_dtype(self.loc, self.log_density))
        inside = jnp.asarray(self.support.check(value))
        shape = np.broadcast_shapes(inside.shape, log_density.shape)
        return select(
            jnp.broadcast_to(inside, shape), jnp.broadcast_to(log_density, shape), -jnp.inf
        )

    def _sample(self, key: Array, shape: Shape) -> Array:
        return jnp.broadcast_to(jnp.asarray(self.loc, self.dtype), shape)

    def _moment(self, name: str) -> Array:
        loc = jnp.asarray(self.loc, float_dtype(self.loc))
        if name == "entropy":
            return jnp.zeros(self.batch_shape, loc.dtype)
        moment = jnp.zeros_like(loc) if name == "variance" else loc
        return as_batch(moment, self.batch_shape, self.event_ndims)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        value, loc = promote(value, self.loc)
        before, after = ENDS[name]
        reached = select(value >= loc, after, jnp.asarray(before, value.dtype))
        return as_batch(select(jnp.isnan(value), jnp.nan, reached), self.batch_shape)

    def _quantile(self, q: Array) -> Array:
        q, loc = promote(q, self.loc)
        return as_batch(select((q >= 0) & (q <= 1), loc, jnp.nan), self.batch_shape)
