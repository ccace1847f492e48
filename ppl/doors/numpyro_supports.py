"""Supports of NumPyro's distributions and the maps onto them, by this library's protocol."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as npd
from numpyro.distributions import biject_to, constraints


def satisfies(constraint: Any, value: Any) -> jax.Array:
    """Whether each event satisfies a constraint, but for rounding where it is one of arrays."""
    inside = jnp.asarray(constraint(jnp.asarray(value)))
    single = constraint
    while isinstance(single, constraints.independent):
        single = single.base_constraint
    if constraint.is_discrete or not single.event_dim or is_unrestricted(constraint):
        return inside
    try:
        transform = biject_to(constraint)
    except NotImplementedError:
        return inside
    back = transform(transform.inv(value))
    tolerance = float(jnp.finfo(value.dtype).eps) ** 0.5
    close = jnp.abs(back - value) <= tolerance * (1 + jnp.abs(value))
    return inside | close.all(tuple(range(-constraint.event_dim, 0)))


def feasible_like(constraint: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A point that satisfies a constraint, or None where NumPyro knows none."""
    try:
        return jnp.asarray(constraint.feasible_like(jnp.zeros(shape, dtype))).astype(dtype)
    except NotImplementedError:
        return None


def is_unrestricted(constraint: Any) -> bool:
    """Whether all real numbers satisfy a constraint."""
    while isinstance(constraint, constraints.independent):
        constraint = constraint.base_constraint
    reals = (constraints.real, constraints.real_vector, constraints.real_matrix)
    return any(constraint is x for x in reals)


@dataclasses.dataclass(frozen=True)
class Support:
    """Support of a distribution of NumPyro.

    Attributes:
        of: The distribution, a `NumPyroDistribution`.
    """

    of: Any

    @property
    def _constraint(self) -> Any:
        return self.of.rebuild().support

    @property
    def is_unrestricted(self) -> bool:
        """Whether all real numbers belong to it."""
        return is_unrestricted(self._constraint)

    @property
    def is_discrete(self) -> bool:
        """Whether it consists of integers."""
        return self._constraint.is_discrete

    @property
    def event_ndims(self) -> int:
        """The number of axes of an event."""
        return self._constraint.event_dim

    @property
    def description(self) -> str:
        """Words for errors and tables."""
        if self.is_unrestricted:
            return "finite"
        constraint = self._constraint
        while isinstance(constraint, constraints.independent):
            constraint = constraint.base_constraint
        words = re.findall("[A-Z][a-z0-9]*", type(constraint).__name__)
        return f"numpyro.{'_'.join(words).lower()}"

    @property
    def low(self) -> Any:
        """The least integer, or None."""
        return self._bounds()[0]

    @property
    def high(self) -> Any:
        """The largest integer, or None."""
        return self._bounds()[1]

    def _bounds(self) -> tuple[Any, Any]:
        constraint = self._constraint
        if constraint is constraints.boolean:
            return 0, 1
        low, high = (getattr(constraint, f"{x}_bound", None) for x in ("lower", "upper"))
        return (low, high) if constraint.is_discrete and not constraint.event_dim else (None, None)

    def check(self, value: Any) -> jax.Array:
        """Whether each event belongs to it."""
        return self.of.apply(lambda d, x: satisfies(d.support, x), jnp.asarray(value))

    def feasible(self, shape: tuple[int, ...] = ()) -> jax.Array:
        """A point of it for each entry of the batch; `shape` is the shape of an event."""
        of = self.of

        def point(d: Any) -> jax.Array:
            full = (*d.batch_shape, *shape)
            found = feasible_like(d.support, full, of.dtype)
            return jnp.zeros(full, of.dtype) if found is None else found

        return of.apply(point)


@dataclasses.dataclass(frozen=True)
class Bijector:
    """Map from unconstrained space onto the support of a distribution of NumPyro.

    Attributes:
        of: The distribution, a `NumPyroDistribution`.
    """

    of: Any

    def forward(self, position: Any) -> Any:
        """The value at a position."""
        return self.of.apply(lambda d, x: _transform(d)(x), position)

    def inverse(self, value: Any) -> Any:
        """The position of a value."""
        return self.of.apply(lambda d, x: _transform(d).inv(x), value)

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """The log determinant of the Jacobian at each position."""

        def log_det(d: Any, x: Any) -> Any:
            transform = _transform(d)
            return jnp.asarray(transform.log_abs_det_jacobian(x, transform(x)))

        return self.of.apply(log_det, position)


class Identity(Bijector):
    """The map of real numbers: positions are values."""

    def forward(self, position: Any) -> Any:
        """The position."""
        return position

    def inverse(self, value: Any) -> Any:
        """The value."""
        return value

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """Zeros."""
        return jnp.zeros_like(position)


class Exp(Bijector):
    """The map onto positive numbers, under which a scale is a shift of positions."""


def _transform(d: Any) -> Any:
    return biject_to(d.support)


def bijector_onto(constraint: Any, of: Any) -> Bijector:
    """The map onto a constraint, the support of a distribution.

    Raises:
        NotImplementedError: If NumPyro has none.
    """
    transform = biject_to(constraint)
    while isinstance(transform, npd.transforms.IndependentTransform):
        transform = transform.base_transform
    if isinstance(transform, npd.transforms.IdentityTransform):
        return Identity(of)
    return (Exp if isinstance(transform, npd.transforms.ExpTransform) else Bijector)(of)
