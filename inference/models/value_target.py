"""Target on the values of latent sites, real or discrete, not on unconstrained numbers."""

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

import ppl
from inference.common.layout import Layout
from ppl.common.arguments import Arguments
from ppl.common.foreign_arrays import convert_arguments
from ppl.common.row_order import check_row_orders
from ppl.core.captured_constants import trace_and_fingerprint
from ppl.core.model_pytree import as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.names import nest_by_path
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path
from ppl.transforms.predict import Complete
from ppl.transforms.prior_weights import ParameterError
from ppl.transforms.trace import flatten_sites


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ValueTarget:
    """Target whose positions are the values of the latent sites, not unconstrained numbers.

    It serves guides that are functions, which draw values of sites, and Gibbs sampling.

    Attributes:
        model: The model.
        data: Arguments of the model that are arrays or floats.
        arguments: All other arguments, static.
        shapes: Shape and dtype of the value of each latent site, by path.
        derived: Paths of deterministic sites.
        captured: Fingerprint of the constants that the model captures: other constants need another
            program.
        labels: Path of each site with labels, and a dimension or None for each axis of its value;
            see `ppl.label`.
    """

    model: Callable[..., Any]
    data: list[Any]
    arguments: Arguments = dataclasses.field(metadata={"static": True})
    shapes: tuple[tuple[Path, jax.ShapeDtypeStruct], ...] = dataclasses.field(
        metadata={"static": True}
    )
    derived: tuple[Path, ...] = dataclasses.field(metadata={"static": True})
    captured: tuple[Hashable, ...] = dataclasses.field(metadata={"static": True})
    labels: tuple[tuple[Path, Any], ...] = dataclasses.field(default=(), metadata={"static": True})

    @classmethod
    def of(cls, model: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> "ValueTarget":
        """Target for a model and its arguments.

        Raises:
            ValueError: if the model has no latent site, or has a parameter.
        """
        check_row_orders(model, args, kwargs)
        args, kwargs = convert_arguments(args, kwargs)
        arguments, data = Arguments.split(args, kwargs)
        sites = sites_of(model, args, kwargs)
        shapes = {p: x.value for p, x in sites.items() if x.kind == "latent"}
        if not shapes:
            raise ValueError("the model has no latent site: there is nothing to infer")
        if parameters := _shapes_of("param", model, args, kwargs):
            raise ParameterError(
                f"the model has the parameter {next(iter(parameters))!r}, made by ppl.param: it "
                "has no density, and inference.svi alone finds parameters of models. Put the "
                "values of a fit in its place: ppl.with_params(model, result.model_parameters)."
            )
        if states := _shapes_of("state", model, args, kwargs):
            raise ParameterError(
                f"the model has the state {next(iter(states))!r}, made by ppl.state, which svi "
                "alone carries from step to step. Put the state of a fit in its place: "
                "ppl.with_params(model, result.model_parameters, result.model_state)."
            )
        derived = tuple(p for p, x in sites.items() if x.kind == "deterministic")
        labels = tuple((p, x.labels) for p, x in sites.items() if any(x.labels))
        model = as_pytree(model)
        captured = fingerprint(model, arguments, data)
        return cls(model, data, arguments, tuple(shapes.items()), derived, captured, labels)

    def to(self, args: tuple[Any, ...], kwargs: Any) -> "ValueTarget":
        """Target for this model with other arguments."""
        return ValueTarget.of(self.model, args, kwargs)

    def call(self, function: Callable[..., Any], first: Any) -> Any:
        """Result of a function of `first` and the arguments of the model."""
        args, kwargs = self.arguments.join(self.data)
        return function(first, *args, **kwargs)

    def given(self, values: Mapping[Path, Any]) -> Any:
        """The target on unconstrained space of all other sites, given some values by path."""
        args, kwargs = self.arguments.join(self.data)
        model = ppl.condition(self.model, nest_by_path(dict(values))) if values else self.model
        return ppl.unconstrain(model, *args, **kwargs)

    @property
    def order(self) -> tuple[tuple[Path, bool], ...]:
        """Paths of the latent sites, then of the deterministic ones."""
        return (*((p, False) for p in dict(self.shapes)), *((p, True) for p in self.derived))

    @property
    def position_shapes(self) -> dict[str, Any]:
        """Shapes and dtypes of the values of the latent sites."""
        return nest_by_path(dict(self.shapes))

    @property
    def layout(self) -> Layout:
        """Layout of flat vectors of values."""
        return Layout.of_numbers(self.position_shapes)

    def log_density(self, position: Mapping[str, Any]) -> jax.Array:
        """Log density of values by site, a scalar."""
        return self.call(ppl.log_density(self.model), position)

    def initial(self, key: jax.Array, values: Any = None) -> dict[str, Any]:
        """Zeros, except for the given `values`.

        A guide that is a function has its own starting values, and ignores these.
        """
        return nest_by_path({p: jnp.zeros(x.shape, x.dtype) for p, x in self.shapes}) | (
            values or {}
        )

    def prior(self, key: jax.Array) -> dict[str, Any]:
        """Zeros, as :meth:`initial` gives: a guide that is a function ignores its start."""
        return self.initial(key)

    def constrain(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the latent sites and of the deterministic sites that follow from them."""
        args, kwargs = self.arguments.join(self.data)
        program = trace_model(self.model, random.key(0), args, kwargs)
        run = ModelRun(self.model, program, Complete())
        entries = run.entries(position, "constrain", complete=True)
        records = run.run(run.fit_entries(entries, "constrain"), live_outs=False)[1]
        derived = {path: records[path][0] for path in self.derived}
        return pick(nest_by_path({**entries, **derived}), self._paths)

    def sites(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """Traces of the sites, each with `value`, `distribution` and `log_prob`, for messages."""

        def traced(position: Any) -> dict[str, Any]:
            return self.call(ppl.trace(ppl.condition(self.model, position)), random.key(0)).sites

        return jax.jit(traced)(position)  # traced: outside of jit, a NaN is refused

    @property
    def _paths(self) -> tuple[Path, ...]:
        return (*dict(self.shapes), *self.derived)


def fingerprint(
    function: Callable[..., Any], arguments: Arguments, data: list[Any]
) -> tuple[Hashable, ...]:
    """Fingerprint of the constants that a function of a key and arguments captures."""
    return trace_and_fingerprint(lambda program: None, function, arguments, data)[1]


def _shapes_of(tag: str, model: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Shapes and dtypes of what a model sows under a tag, by name; integers are static."""
    reaped = ppl.reap(model, tag=tag)
    return jax.eval_shape(lambda key: reaped(key, *args, **kwargs), random.key(0))


def sites_of(model: Callable[..., Any], args: Any, kwargs: Any) -> dict[Path, ppl.SiteTrace]:
    """Sites of a model by path, with the shapes and dtypes of their values, in its order."""
    order: list[Path] = []

    def trace(key):
        sites = ppl.trace(model)(key, *args, **kwargs).sites
        order.extend(path for path, _ in flatten_sites(sites))
        return sites

    found = dict(flatten_sites(jax.eval_shape(trace, random.key(0))))  # by name: a pytree's order
    return {path: found[path] for path in order}


def pick(values: Mapping[str, Any], paths: Collection[Path]) -> dict[str, Any]:
    """Values at some paths, as nested dicts."""
    return nest_by_path({path: _value_at(values, path) for path in paths})


def _value_at(values: Any, path: Path) -> Any:
    for name in path:
        values = values[name]
    return values
