"""Distributions of PyMC's random variables, made of PyTensor graphs."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from ppl.common.real_numbers import Identity, Reals
from ppl.doors.pytensor_graphs import Graph
from ppl.harvest.pytrees import register_dataclass

_HALF_LOG_TWO_PI = 0.9189385332046727


@dataclasses.dataclass(frozen=True)
class Integers:
    """Support of a discrete random variable: integers from `low` to `high`, or without an end."""

    low: int | None
    high: int | None
    is_unrestricted: ClassVar[bool] = False
    is_discrete: ClassVar[bool] = True
    event_ndims: ClassVar[int] = 0

    @property
    def description(self) -> str:
        """The ends in words."""
        ends = "..." if self.low is None else self.low, "..." if self.high is None else self.high
        return f"integers {ends[0]} to {ends[1]}"

    def check(self, value: Any) -> jax.Array:
        """Whether each number is an integer between the ends."""
        inside = jnp.asarray(value) == jnp.floor(value)
        inside = inside if self.low is None else inside & (value >= self.low)
        return inside if self.high is None else inside & (value <= self.high)

    def feasible(self, shape: tuple[int, ...] = ()) -> int:
        """A point of the support: the end nearest to 0."""
        del shape
        if self.low is not None:
            return self.low
        return 0 if self.high is None else min(0, self.high)


@dataclasses.dataclass(frozen=True)
class TransformGraphs:
    """Graphs of a transform of PyMC, each of a value or a position and the inputs of the site."""

    name: str
    to_value: Graph
    to_position: Graph
    log_det: Graph


@dataclasses.dataclass(frozen=True)
class TransformBijector:
    """Map from unconstrained space by a transform of PyMC, whose `backward` it is."""

    graphs: TransformGraphs
    inputs: tuple[Any, ...]

    def forward(self, position: Any) -> Any:
        """The value at an unconstrained position."""
        return self.graphs.to_value.one(position, *self.inputs)

    def inverse(self, value: Any) -> Any:
        """The unconstrained position of a value."""
        return self.graphs.to_position.one(value, *self.inputs)

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """The log determinants of the Jacobian."""
        return self.graphs.log_det.one(position, *self.inputs)


@dataclasses.dataclass(frozen=True)
class Image:
    """Support of a random variable with a transform: the image of unconstrained space."""

    bijector: TransformBijector
    event_ndims: int
    is_unrestricted: ClassVar[bool] = False
    is_discrete: ClassVar[bool] = False

    @property
    def description(self) -> str:
        """The name of the transform."""
        return f"the image of PyMC's transform {self.bijector.graphs.name!r}"

    def check(self, value: Any) -> jax.Array:
        """Whether each event is the value at its own position."""
        position = self.bijector.inverse(value)
        again = self.bijector.forward(position)
        tolerance = 100 * jnp.finfo(jnp.result_type(again)).eps * (1 + jnp.abs(value))
        inside = jnp.abs(again - value) <= tolerance
        return jnp.all(inside, tuple(range(inside.ndim - self.event_ndims, inside.ndim)))

    def feasible(self, shape: tuple[int, ...] = ()) -> jax.Array:
        """A point of the support, the value at the position 0, for an event of a shape."""
        value = jax.ShapeDtypeStruct(shape, jnp.result_type(float))
        position = jax.eval_shape(self.bijector.inverse, value)
        return self.bijector.forward(jnp.zeros(position.shape, position.dtype))


@dataclasses.dataclass(frozen=True, eq=False)
class VariableGraphs:
    """Graphs of one random variable of a PyMC model, given its parents and the data.

    Attributes:
        name: Its name.
        family: The name of its family in PyMC.
        event_ndims: How many axes a value has more than its log density.
        log_prob: Log density, of a value and the inputs.
        draw: A draw, of the inputs and a state of each generator.
        num_generators: The number of these states.
        undrawn: Words on why draws are not draws from the density; empty if they are.
        transform: Its transform, or None.
        support: Its support; None if it is the image of the transform.
    """

    name: str
    family: str
    event_ndims: int
    log_prob: Graph
    draw: Graph
    num_generators: int
    undrawn: str
    transform: TransformGraphs | None
    support: Reals | Integers | None


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PyMCDistribution:
    """A random variable of PyMC given its parents.

    Attributes:
        inputs: Values of the parents, and data.
        graphs: Graphs of its density, its draws and its transform.
        batch_shape: Shape of its log density.
        event_shape: Shape of a draw behind the batch.
        dtype: Dtype of a draw.
    """

    inputs: tuple[Any, ...]
    graphs: VariableGraphs = dataclasses.field(metadata={"static": True})
    batch_shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    event_shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    dtype: Any = dataclasses.field(metadata={"static": True})

    @property
    def family_name(self) -> str:
        """The name of the family in PyMC."""
        return f"pymc.{self.graphs.family}"

    @property
    def bijector(self) -> Any:
        """The map from unconstrained space, by PyMC's transform.

        Raises:
            NotImplementedError: If the variable is discrete.
        """
        if self.graphs.transform is not None:
            return TransformBijector(self.graphs.transform, self.inputs)
        if isinstance(self.graphs.support, Integers):
            raise NotImplementedError(f"{self.graphs.family} is discrete.")
        return Identity()

    @property
    def support(self) -> Any:
        """The set of values with positive density, as far as PyMC's transform says it."""
        if self.graphs.support is not None:
            return self.graphs.support
        return Image(self.bijector, self.graphs.event_ndims)

    def log_prob(self, value: Any) -> jax.Array:
        """The log density of each event of a value, by PyMC."""
        terms = self.graphs.log_prob.one(value, *self.inputs)
        num_axes = len(self.batch_shape)
        shape = self.batch_shape + self.event_shape[: terms.ndim - num_axes]
        return jnp.sum(jnp.broadcast_to(terms, shape), tuple(range(num_axes, terms.ndim)))

    def sample(self, key: jax.Array) -> jax.Array:
        """One draw, by PyTensor's JAX backend.

        Raises:
            NotImplementedError: If JAX has not all of its operations, or PyMC draws from another
                distribution, as it does where a transform bounds the density.
        """
        remedy = "Give the value, by ppl.condition say, or start from init='uniform'"
        if self.graphs.undrawn:
            raise NotImplementedError(f"{self.graphs.undrawn}. {remedy}")
        states = [
            {"jax_state": random.bits(random.fold_in(key, i), (2,), np.uint32)}
            for i in range(self.graphs.num_generators)
        ]
        shape = self.batch_shape + self.event_shape
        try:
            value = self.graphs.draw.one(*self.inputs, *states)
        except NotImplementedError as error:
            raise NotImplementedError(
                f"PyMC's family {self.graphs.family} cannot be drawn from in JAX: {error}. {remedy}"
            ) from error
        return jnp.broadcast_to(value, shape)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Normal:
    """Independent normal numbers; a family of its own, as transformations know it by its name.

    Attributes:
        loc: Means.
        scale: Standard deviations, of the same shape.
    """

    loc: Any
    scale: Any
    event_shape: ClassVar[tuple[int, ...]] = ()
    support: ClassVar[Reals] = Reals()
    bijector: ClassVar[Identity] = Identity()

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of a draw."""
        return jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale))

    @property
    def dtype(self) -> Any:
        """Dtype of a draw."""
        return jnp.result_type(self.loc, self.scale)

    def log_prob(self, value: Any) -> jax.Array:
        """The log density of each number, -inf for a scale that is not positive."""
        is_valid = self.scale > 0
        scale = jnp.where(is_valid, self.scale, 1)
        z = (value - self.loc) / scale
        return jnp.where(is_valid, -0.5 * z**2 - jnp.log(scale) - _HALF_LOG_TWO_PI, -jnp.inf)

    def sample(self, key: jax.Array) -> jax.Array:
        """One draw."""
        return self.loc + self.scale * random.normal(key, self.batch_shape, self.dtype)
