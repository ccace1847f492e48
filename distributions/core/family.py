"""The table of families: the decorator `family`, the class `Family` and its fields `parameter`.

A row of the table is a class statement without methods. Its fields are the parameters with their
constraints; the decorator `family` holds the support and the formulas.

The first arguments of a formula depend on its kind; the parameters follow in the order of the
fields:

| formula                                                      | first arguments   |
| ------------------------------------------------------------ | ----------------- |
| `log_prob`, `cdf`, `log_cdf`, `survival`, `log_survival`     | value             |
| `quantile`                                                   | probability       |
| `sample`                                                     | key, shape, dtype |
| `mean`, `variance`, `mode`, `entropy`                        | none              |

- Arrays (or NumPy scalars) have one dtype, and their axes are aligned.
- Values lie in the support.
- A parameter that was not given is None.
- A parameter whose constraint and dtype are integer stays an integer, so that large ones are
  subtracted exactly.

A row gives those formulas that are precise in themselves. Without a formula:

| missing                                | substitute                                          |
| -------------------------------------- | --------------------------------------------------- |
| `log_prob`, `mean`, ..., `entropy`     | none: the method raises NotImplementedError         |
| `cdf`, `survival`, logarithm of either | derived from another one of the four                |
| `quantile`                             | bisection on the distribution function              |
| `sample`                               | quantiles of uniform numbers                        |

Draws that are rounded to a number outside of a support that is an interval are moved inside of it.

Other entries of a row:

| entry               | meaning                                                                  |
| ------------------- | ------------------------------------------------------------------------ |
| `static` field      | no parameter: an integer, or a tuple of integers, in the tree's          |
|                     | structure; formulas get it unchanged                                     |
| `event_shape`       | function of the fields: an event shape that differs from the parameters' |
| `requires`          | function of the fields: the fault of parameters that are valid one by    |
|                     | one, in words, or None                                                   |
| `one_of`            | names of alternative parameters, of which exactly one is given           |
| `increasing`        | names of two parameters, the first less than the second                  |
| `standard`          | the rule of its standard form: `LocationScale`, `ImageOf` or `Factor`    |
| `conjugate`         | the exponential family in which full conditionals may lie                |
| `is_flat`           | the density formula does not look at the value                           |
| `has_finite_slopes` | derivatives are 0 where the density is 0, infinite or NaN, whatever the  |
|                     | formula's are; tracing takes longer                                      |
| `has_steep_ends`    | slopes of the quantile are infinite at 0 and 1: there it is an end of    |
|                     | the support, with a slope of 0, and the formula is not used              |
| `reads_points`      | the density formula takes a `Point` as well as an array, and reads its   |
|                     | logarithms: for densities that are not bounded next to an end            |
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.common.arrays import (
    align,
    as_array,
    convert,
    fault_of_range,
    float_dtype,
    select,
    stack,
)
from distributions.common.point import Point, value_of
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints.base import Constraint
from distributions.core.distribution import Distribution, Shape, full
from distributions.core.distribution_functions import (
    between_ends,
    cumulative_formula,
    evaluate_within_support,
)
from distributions.core.exponential_family import ExponentialFamily
from distributions.core.parameter_checks import (
    as_static,
    check_relations,
    check_shapes,
    check_values,
)
from distributions.core.row import Formula, Parameter, Row
from distributions.core.standard_form import StandardForm
from distributions.core.support_ends import move_inside
from distributions.numerics.special import finite_slopes, open_uniform

T = TypeVar("T")


def parameter(constraint: Constraint, *, event_ndims: int | None = None, **kwargs: Any) -> Any:
    """Dataclass field for a parameter of a family.

    Args:
        constraint: The set of valid parameters.
        event_ndims: The number of trailing axes that belong to one distribution; by default the
            event axes of the constraint.
        **kwargs: `default` and `kw_only`, as for any field of a dataclass.
    """
    ndims = constraint.event_ndims if event_ndims is None else event_ndims
    return dataclasses.field(metadata={"constraint": constraint, "event_ndims": ndims}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(parameter, static))
def family(**row: Any) -> Callable[[type[T]], type[T]]:
    """Declares the decorated class as a family; the arguments are those of `Row`."""

    def declare(cls: type[T]) -> type[T]:
        cls = pytree_dataclass(eq=False, repr=False)(cls)
        cls._row = Row(**row)  # pyright: ignore[reportAttributeAccessIssue]
        cls._parameters = tuple(  # pyright: ignore[reportAttributeAccessIssue]
            Parameter(f.name, f.metadata["constraint"], f.metadata["event_ndims"])
            for f in dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
            if not f.metadata.get("static")
        )
        ndims = tuple(p.event_ndims for p in cls._parameters)  # pyright: ignore[reportAttributeAccessIssue]
        cls._parameter_event_ndims = ndims  # pyright: ignore[reportAttributeAccessIssue]
        for p in cls._parameters:  # pyright: ignore[reportAttributeAccessIssue]
            if hasattr(Distribution, p.name):
                setattr(cls, p.name, _hide_behind_method(p.name))
        return cls

    return declare


def _hide_behind_method(name: str) -> property:
    """Property for a parameter that shares the name of a method: instances show the method."""
    method = getattr(Distribution, name)
    return property(method.__get__, lambda self, value: vars(self).update({name: value}))


class Family(Distribution):
    """A distribution whose family is a row of the table."""

    is_closed: ClassVar[bool] = True

    _row: ClassVar[Row]
    _parameters: ClassVar[tuple[Parameter, ...]]
    _parameter_event_ndims: ClassVar[Shape]

    def __post_init__(self) -> None:
        """Checks on the host the parameters whose values are known."""
        arrays = {p.name for p in self._parameters}
        for name, value in self._fields().items():
            vars(self)[name] = (stack if name in arrays else as_static)(value)
        self._check()

    def _check(self) -> None:
        """Raises ValueError for invalid parameters, with the names of family and parameter."""
        name = type(self).__name__
        fields = self._fields()
        check_values(name, self._row, self._parameters, fields)
        check_shapes(name, self._given(), lambda: (self.batch_shape, self.event_shape))
        check_relations(name, self._row, fields, self._given())

    def _fields(self) -> dict[str, Any]:
        values = vars(self)
        return {f.name: values[f.name] for f in dataclasses.fields(self)}  # pyright: ignore[reportArgumentType]

    def _given(self) -> list[tuple[Parameter, Any]]:
        pairs = ((p, vars(self)[p.name]) for p in self._parameters)
        return [(p, value) for p, value in pairs if value is not None]

    def _event_ranks(self) -> tuple[int, Shape]:
        return 0, self._parameter_event_ndims

    @property
    def _float_dtype(self) -> np.dtype:
        return float_dtype(*(value for _, value in self._given()))

    def _arrays(self, dtype: Any, batch_ndims: int) -> tuple[Any, ...]:
        fields = self._fields()
        for p, value in self._given():
            fields[p.name] = self._array(p, value, dtype, batch_ndims)
        return tuple(fields.values())

    def _array(self, p: Parameter, value: Any, dtype: Any, batch_ndims: int) -> Any:
        """A parameter as formulas get it."""
        return align(convert(value, _dtype(p, value, dtype)), p.event_ndims, batch_ndims)

    def _support(self, *parameters: Any) -> Constraint:
        support = self._row.support
        return support if isinstance(support, Constraint) else support(*parameters)

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        return self._support(*self._fields().values())

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent distributions that the parameters hold."""
        shapes = (
            np.shape(value)[: max(np.ndim(value) - p.event_ndims, 0)] for p, value in self._given()
        )
        return np.broadcast_shapes(*shapes)

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of one distribution."""
        if self._row.event_shape is not None:
            return self._row.event_shape(*self._fields().values())
        ndims = self.support.event_ndims
        events = (
            np.shape(value)[np.ndim(value) - ndims :]
            for p, value in self._given()
            if p.event_ndims and np.ndim(value)
        )
        return np.broadcast_shapes(*events) if ndims else ()

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters, or JAX's default integer for a discrete family."""
        return jnp.result_type(int) if self.support.is_discrete else self._float_dtype

    def _log_prob(self, value: ArrayLike) -> Array:
        event_shape = self.event_shape
        discrete = self.support.is_discrete
        event_ndims = len(event_shape)
        given = [p for _, p in self._given()]
        dtype = float_dtype(*given) if discrete else float_dtype(value, *given)
        batch_ndims = max(np.ndim(value) - event_ndims, len(self.batch_shape))
        x = _as_integer(value) if discrete else as_array(value, dtype)
        return self._score(align(x, event_ndims, batch_ndims), dtype, batch_ndims)

    @property
    def _reads_points(self) -> bool:
        return self._row.reads_points

    def _log_prob_at(self, point: Point) -> Array:
        if not self._reads_points:
            return super()._log_prob_at(point)
        event_ndims = len(self.event_shape)
        given = [p for _, p in self._given()]
        dtype = float_dtype(point.value, *given)
        batch_ndims = max(np.ndim(point.value) - event_ndims, len(self.batch_shape))
        point = point.without_inner()
        point = point.map(lambda x: align(as_array(x, dtype), event_ndims, batch_ndims))
        return self._score(point, dtype, batch_ndims)

    def _score(self, x: Array | Point, dtype: Any, batch_ndims: int) -> Array:
        """The log density of a value, or a point, whose axes are aligned."""
        leaves, tree = jax.tree.flatten(x)
        event_shape = self.event_shape
        number = len(leaves)

        def density(*arrays: Any) -> Array:
            x = jax.tree.unflatten(tree, arrays[:number])
            return self._density(dtype, event_shape, batch_ndims, x, *arrays[number:])

        if self._row.has_finite_slopes:
            density = finite_slopes(density)
        return density(*leaves, *self._arrays(dtype, batch_ndims))

    def _density(
        self, dtype: Any, event_shape: Shape, batch_ndims: int, x: Any, *parameters: Any
    ) -> Array:
        """The log density for a value, or a point, and parameters whose axes are aligned."""
        formula = self._formula("log_prob")
        support = self._support(*parameters)
        event_ndims = len(event_shape)
        value = value_of(x)
        if not support.is_unrestricted:
            inside = support.check(value)
        elif self._row.has_finite_slopes:
            inside = jnp.abs(value) != jnp.inf
        else:
            return formula(x, *parameters)
        if not self._row.is_flat:
            # Outside of the support the formula gets a point of the support, or its gradient would
            # be NaN.
            point = convert(support.feasible(event_shape), value.dtype)
            point = align(point, event_ndims, batch_ndims)
            entries = lax.expand_dims(inside, range(-event_ndims, 0)) if event_ndims else inside
            if isinstance(x, Point):
                x = jax.tree.map(lambda a, b: select(entries, a, b), x, x.beside(point))
            else:
                x = select(entries, x, point)
        log_prob = convert(formula(x, *parameters), dtype)
        # A select, not a sum: NaN outside of the support reaches neither values nor derivatives.
        return select(inside, log_prob, convert(-jnp.inf, dtype))

    @property
    def is_reparameterized(self) -> bool:
        """Whether draws are differentiable functions of the parameters."""
        return self._row.is_reparameterized and not self.support.is_discrete

    @property
    def has_standard_form(self) -> bool:
        """Whether there is a `standard_form`."""
        return self._row.standard is not None

    @property
    def exponential_family(self) -> ExponentialFamily | None:
        """The exponential family in which full conditionals may lie."""
        return self._row.conjugate

    def _standard_form(self, centeredness: Any) -> StandardForm:
        if self._row.standard is None:
            return super()._standard_form(centeredness)
        return self._row.standard.form(self, centeredness)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        formula = cumulative_formula(self._row, name)
        if formula is None:
            self._lacks(name)
        given = [p for _, p in self._given()]
        discrete = self.support.is_discrete
        dtype = float_dtype(*given) if discrete else float_dtype(value, *given)
        batch_ndims = max(np.ndim(value), len(self.batch_shape))
        x = align(jnp.asarray(value, dtype), 0, batch_ndims)
        parameters = self._arrays(dtype, batch_ndims)
        result = evaluate_within_support(name, formula, self._support(*parameters), x, parameters)
        return jnp.broadcast_to(result, np.broadcast_shapes(np.shape(value), self.batch_shape))

    def _quantile(self, q: Array) -> Array:
        if self._row.quantile is None:
            return super()._quantile(q)
        dtype = float_dtype(q, *(p for _, p in self._given()))
        batch_ndims = max(q.ndim, len(self.batch_shape))
        parameters = self._arrays(dtype, batch_ndims)
        formula = self._row.quantile
        if self._row.has_steep_ends:
            formula = between_ends(formula, self._support(*parameters))
        x = formula(align(q.astype(dtype), 0, batch_ndims), *parameters)
        shape = np.broadcast_shapes(q.shape, self.batch_shape)
        return jnp.broadcast_to(jnp.where((q >= 0) & (q <= 1), x, jnp.nan), shape)

    def _sample(self, key: Array, shape: Shape) -> Array:
        dtype = self._float_dtype
        parameters = self._arrays(dtype, len(shape) - len(self.event_shape))
        if self._row.sample is None:
            draw = self._quantile(open_uniform(key, shape, dtype))
        else:
            if not self._row.is_reparameterized:
                parameters = _without_slopes(type(self).__name__, parameters)
            draw = self._row.sample(key, shape, dtype, *parameters)
        return move_inside(convert(draw, self.dtype), self._support(*parameters))

    def _moment(self, name: str) -> Array:
        event = () if name == "entropy" else self.event_shape
        parameters = self._arrays(self._float_dtype, len(self.batch_shape))
        dtype = self.dtype if name == "mode" else self._float_dtype
        return full(self._formula(name)(*parameters), self.batch_shape + event, dtype)

    def _formula(self, name: str) -> Formula:
        formula = getattr(self._row, name)
        if formula is None:
            self._lacks(name)
        return formula


def _dtype(p: Parameter, value: Any, dtype: Any) -> Any:
    """The dtype of a parameter in formulas: the given `dtype`, or JAX's default integer."""
    if not p.constraint.is_discrete:
        return dtype
    integer = jnp.result_type(int)
    if not isinstance(value, int) and not jnp.issubdtype(jnp.result_type(value), jnp.integer):
        return dtype
    return dtype if fault_of_range(value) else integer


def _as_integer(value: ArrayLike) -> Array:
    x = jnp.asarray(value)
    return x.astype(int) if x.dtype == bool else x


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _without_slopes(family: str, parameters: Any) -> Any:
    """Parameters of a sampler whose draws jump: their derivatives are refused."""
    return parameters


@_without_slopes.defjvp
def _refuse_slopes(family: str, primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        f"{family}: a draw has no derivative by the parameters: it is made by choices that jump as "
        "they move. Draw with jax.lax.stop_gradient(parameters), and differentiate log_prob of the "
        "draw in its place, as inference.svi does for a guide."
    )
