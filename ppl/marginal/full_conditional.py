"""Full conditionals outside of the named families: on finitely many states, or jointly normal."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.core.model_run import SiteAction, apply_at_site
from ppl.harvest.interpreter import Operands
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester, Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockFactor, BlockMatrix, BlockVector, Shear, half_log_det
from ppl.marginal.completed_square import precision_of
from ppl.marginal.factors import EliminationError
from ppl.marginal.gaussian_integral import GaussianIntegral
from ppl.marginal.quadratic_scores import Score
from ppl.marginal.summation import Summation
from ppl.primitives.site_kinds import RANDOM

_LOG_TWO_PI = math.log(2 * math.pi)


def score_values(
    jaxpr: Any,
    inputs: Sequence[Any],
    plants: Mapping[Path, Sequence[Any]],
    scored: Sequence[Path],
) -> dict[Path, jax.Array]:
    """The scores of some sites of a program at given values of all random sites, each summed."""
    program = Program(jaxpr, list(inputs), [], lambda leaves: leaves)
    action = Score(wanted=frozenset(scored))
    found = Harvester(program, action).run(plants, live_outs=False)[1]
    return {path: jnp.sum(score) for path, score in found.items()}


@dataclasses.dataclass(frozen=True)
class RecordValues(SiteAction):
    """Action that plants values, and records the values of some random sites."""

    wanted: frozenset[Path] = frozenset()
    tags: ClassVar = (RANDOM,)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted."""
        return not planted, False, False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, or the drawn value, and its record."""
        values = operands.values if plant is None else plant
        return values, tuple(values) if site.path in self.wanted else None


@dataclasses.dataclass(frozen=True)
class PlaceValues(RecordValues):
    """Action that records values, and maps what is planted at some sites onto their supports.

    Attributes:
        placed: The sites at which unconstrained positions are planted, with a mask beside them.
        drawn: Sites among these that are drawn where the mask is true.
    """

    placed: frozenset[Path] = frozenset()
    drawn: frozenset[Path] = frozenset()

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if it may be drawn; the distribution of a site that is placed."""
        return not planted or site.path in self.drawn, False, site.path in self.placed

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The value at the planted numbers, the planted value, or the drawn one; its record."""
        if site.path in self.placed:
            numbers, is_drawn = plant
            plant = jax.tree.leaves(apply_at_site(site, operands, [numbers], _place))
            if site.path in self.drawn:
                pairs = zip(operands.values, plant, strict=True)
                plant = [jnp.where(is_drawn, drawn, x) for drawn, x in pairs]
        return super().at(site, operands, plant)


def _place(numbers: jax.Array, d: Any) -> jax.Array:
    """The value at an unconstrained position that is filled with numbers."""
    position = jax.eval_shape(lambda x: distribution_protocol.inverse(d, x), numbers)
    value = distribution_protocol.forward(d, jnp.resize(numbers, position.shape))
    return value.astype(numbers.dtype)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FiniteConditional:
    """The full conditional of a discrete site whose elements are independent given the rest.

    Attributes:
        outcomes: The states, of shape (K,) and of the dtype of the site.
        logits: The log probability of each state, of shape (..., K).
    """

    outcomes: jax.Array
    logits: jax.Array

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the site."""
        return self.logits.shape[:-1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one element."""
        return ()

    @property
    def dtype(self) -> Any:
        """The dtype of the site."""
        return self.outcomes.dtype

    @property
    def probs(self) -> jax.Array:
        """The probability of each state, of shape (..., K)."""
        return jnp.exp(self.logits)

    def sample(self, key: jax.Array, sample_shape: int | Sequence[int] = ()) -> jax.Array:
        """Independent draws, of shape `sample_shape + batch_shape`."""
        shape = *_as_shape(sample_shape), *self.batch_shape
        return self.outcomes[jax.random.categorical(key, self.logits, shape=shape)]

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of each element; minus infinity for a value that is not a state."""
        value = jnp.asarray(value)[..., None]
        is_state = value == jnp.expand_dims(self.outcomes, range(value.ndim - 1))
        return jnp.max(jnp.where(is_state, self.logits, -jnp.inf), -1)


class JointConditional(abc.ABC):
    """The full conditional of a site whose elements depend on one another: one event."""

    def __repr__(self) -> str:
        """The class, and the dtype and the shape of the site."""
        return f"{type(self).__name__}({self.dtype}{list(self.event_shape)})"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Empty: the site is one event."""
        return ()

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of the site."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the site."""
        return self._aval.dtype

    @property
    @abc.abstractmethod
    def _aval(self) -> Any:
        """The abstract value of the site."""

    @abc.abstractmethod
    def _draw(self, key: jax.Array) -> jax.Array:
        """One draw."""

    @abc.abstractmethod
    def _log_prob(self) -> Callable[[jax.Array], jax.Array]:
        """The log probability as a function of one value."""

    def sample(self, key: jax.Array, sample_shape: int | Sequence[int] = ()) -> jax.Array:
        """Independent draws, of shape `sample_shape + event_shape`."""
        shape = _as_shape(sample_shape)
        if not shape:
            return self._draw(key)
        keys = jax.random.split(key, shape)
        return _map_over_front(self._draw, len(shape))(keys)

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of the whole site, with further axes of the value in front."""
        value = jnp.asarray(value)
        num = value.ndim - len(self.event_shape)
        if num < 0 or value.shape[num:] != self.event_shape:
            raise ValueError(
                f"{type(self).__name__}: a value of shape {value.shape} does not end in the shape "
                f"of the site, {self.event_shape}; the elements of the site depend on one another."
            )
        return _map_over_front(self._log_prob(), num)(value)


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class FiniteJointConditional(JointConditional):
    """The full conditional of a discrete site whose elements depend on one another.

    Draws are made by backward sampling, and cost as much as the sum over all states.

    Attributes:
        inputs: The inputs of the program.
        plants: The values of all other random sites.
        summation: The sum over the states of the site.
    """

    inputs: list[Any]
    plants: PathDict
    summation: Summation = dataclasses.field(metadata={"static": True})

    def is_within(self, max_states: int) -> bool:
        """Whether no table of the sum over the states has more than `max_states` states."""
        summation = dataclasses.replace(self.summation, max_states=max_states)
        group = summation.groups[self._path]

        def look() -> jax.Array:
            return summation.log_prob(group, self.inputs, self.plants)

        try:
            jax.eval_shape(look)
        except EliminationError:
            return False
        return True

    @property
    def _path(self) -> Path:
        (path,) = self.summation.sites
        return path

    @property
    def _aval(self) -> Any:
        return self.summation.aval(self._path)

    def _draw(self, key: jax.Array) -> jax.Array:
        return self.summation.draw(key, self.inputs, self.plants)[0][self._path]

    def _log_prob(self) -> Callable[[jax.Array], jax.Array]:
        group = self.summation.groups[self._path]
        scored = [path for path, key in self.summation.groups.items() if key == group]
        log_total = jnp.sum(self.summation.log_prob(group, self.inputs, self.plants))

        def log_prob(value: jax.Array) -> jax.Array:
            plants = {**self.plants, self._path: (value.astype(self.dtype),)}
            scores = score_values(self.summation.jaxpr, self.inputs, plants, scored)
            found = functools.reduce(jnp.add, scores.values()) - log_total
            is_state = jnp.isin(value, jnp.asarray(self.summation.states[self._path]))
            return jnp.where(jnp.all(is_state), found, -jnp.inf)

        return log_prob


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class NormalConditional(JointConditional):
    """The full conditional of a site that is jointly normal given the rest.

    Attributes:
        center: The mean.
        precision: The precision matrix, in blocks.
        factor: Its Cholesky factor.
        integral: The integral over the site, with the layout of the blocks.
    """

    center: BlockVector
    precision: BlockMatrix
    factor: BlockFactor
    integral: GaussianIntegral = dataclasses.field(metadata={"static": True})

    @property
    def _aval(self) -> Any:
        return self.integral.aval(self.integral.sites[0])

    def mean(self) -> jax.Array:
        """The expectation, of the shape of the site."""
        return self._value(self.center)

    def variance(self) -> jax.Array:
        """The variance of each element."""
        return self._value(_diagonal(self.factor.inverse()))

    def _value(self, x: BlockVector) -> jax.Array:
        (value,) = self.integral.layout.values(x).values()
        return value.astype(self.dtype)

    def _draw(self, key: jax.Array) -> jax.Array:
        leaves, tree = jax.tree.flatten(self.center)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        spread = self.factor.solve_transposed(jax.tree.unflatten(tree, noise))
        return self._value(jax.tree.map(jnp.add, self.center, spread))

    def _log_prob(self) -> Callable[[jax.Array], jax.Array]:
        log_det = jnp.sum(half_log_det(self.precision, self.factor))
        constant = log_det - self.integral.layout.num_elements * _LOG_TWO_PI / 2
        mean = self.mean()

        def from_blocks(x):
            return self._value(x)

        into_blocks = jax.linear_transpose(from_blocks, self.center)

        def log_prob(value: jax.Array) -> jax.Array:
            (x,) = into_blocks((value - mean).astype(self.dtype))
            products = jax.tree.map(jnp.multiply, x, self.precision.multiply(x))
            return constant - sum(map(jnp.sum, jax.tree.leaves(products))) / 2

        return log_prob


def _diagonal(matrix: BlockMatrix) -> BlockVector:
    inner, border = (jnp.diagonal(m, axis1=-2, axis2=-1) for m in (matrix.diagonal, matrix.border))
    return BlockVector(inner, border)


def normal_conditional(
    integral: GaussianIntegral,
    inputs: Sequence[Any],
    plants: Mapping[Path, Sequence[Any]],
    make: Callable[..., Any] | None,
) -> Any:
    """The full conditional of a site, from an integral over only this site.

    Args:
        integral: The integral over the site.
        inputs: The inputs of the program.
        plants: The values of all other random sites.
        make: Gives the normal distribution with natural parameters, for independent elements.
    """
    square = integral.complete_square(inputs, plants)
    layout = integral.layout
    precision = square.matrix
    factor = square.factor
    assert isinstance(precision, BlockMatrix)  # as one site is nested in no other
    assert isinstance(factor, BlockFactor)
    if isinstance(square.shear, Shear):
        precision = _without_shear(layout, precision, square.shear)
        factor = precision.factor()
    found = NormalConditional(square.maximum, precision, factor, integral)
    if make is None or (layout.num_elements > 1 and layout.num_plates != layout.num_elements):
        return found
    each = found._value(_diagonal(precision))
    return make(found.mean() * each, -each / 2)


def _without_shear(layout: BlockLayout, matrix: BlockMatrix, shear: Shear) -> BlockMatrix:
    """The precision of elements, from that of their differences from a map of the border."""
    back = Shear(-shear.entries)

    def multiply(x: BlockVector) -> BlockVector:
        found = back.project(matrix.multiply(back.apply(x)))
        return jax.tree.map(jnp.negative, found)

    return precision_of(layout, multiply, matrix.border.dtype)


def finite_conditional(
    summation: Summation, inputs: list[Any], plants: Mapping[Path, Sequence[Any]]
) -> FiniteConditional | FiniteJointConditional | None:
    """The full conditional of a site, from a sum over only this site.

    `None` if its elements depend on one another, and their joint states are too many.
    """
    (path,) = summation.sites
    if not summation.is_apart(path):
        found = FiniteJointConditional(inputs, PathDict(plants), summation)
        return found if found.is_within(summation.max_states) else None
    weights = summation.weigh(path, inputs, plants)
    outcomes = np.asarray(summation.states[path]).astype(summation.aval(path).dtype)
    return FiniteConditional(jnp.asarray(outcomes), jax.nn.log_softmax(weights, -1))


def _as_shape(sample_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (int(sample_shape),) if np.ndim(sample_shape) == 0 else tuple(sample_shape)  # pyright: ignore


def _map_over_front(fn: Callable[..., Any], num: int) -> Callable[..., Any]:
    """A function mapped over some axes in front."""
    for _ in range(num):
        fn = jax.vmap(fn)
    return fn
