"""State of models and guides, made by `ppl.state`, that a fit carries from step to step."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

import ppl
from inference.common.leaf_names import named_leaves
from ppl.core.model_run import trace_model
from ppl.harvest.harvesting import Harvest, selection
from ppl.harvest.names import nest_by_path
from ppl.harvest.program import Harvester, trace
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import sites_of
from ppl.harvest.survey import Path, Sites, join_scopes, show
from ppl.primitives.site_kinds import NEW_STATE, STATE


class StateValues(NamedTuple):
    """Values of the state of a fit by name.

    Attributes:
        model: State of the model; None if it has none.
        guide: State of the guide; None if it has none.
    """

    model: Any
    guide: Any


@register_dataclass
@dataclasses.dataclass(frozen=True)
class CarriedState:
    """State that a fit carries from step to step.

    Attributes:
        initial: The state before the first step.
    """

    initial: StateValues

    def at(self, target: Any, guide: Any, values: StateValues) -> tuple[Any, Any]:
        """Target and guide with other state."""
        if values.model is not None:
            target = dataclasses.replace(target, model=_replace(target.model, values.model))
        if values.guide is not None:
            guide = dataclasses.replace(guide, state=values.guide)
        return target, guide

    def call(
        self, function: Callable[[Any], Any], at: Any, values: StateValues
    ) -> tuple[Any, StateValues]:
        """Result of a function of `at` that evaluates target and guide, and the next state."""
        program = trace(function, (at,), {})
        updates = Harvester(program, Harvest(selection(NEW_STATE)))
        sites = updates.sites
        self._check(sites)
        out, found = updates.run({})
        new = {p: jax.tree.unflatten(sites[p].site.tree, x) for p, x in found.items()}
        new = nest_by_path(new)
        return program.unflatten(out), StateValues(*(_next(old, new) for old in values))

    def _check(self, updates: Sites) -> None:
        """Checks the next values of the state.

        In front of the shape of a state, an update may have axes of each `vmap` around it, such as
        that over particles, and no others.

        Raises:
            ValueError: if an update is of no state, or of another shape or dtype.
        """
        known = {}
        for part in self.initial:
            known |= dict(named_leaves(part or {}))
        for path, found in updates.items():
            tree = jax.tree.unflatten(found.site.tree, found.avals)
            for name, x in named_leaves(nest_by_path({path: tree})):
                wanted = known.get(name)
                if wanted is None:
                    listed = ", ".join(map(repr, known))
                    raise ValueError(
                        f"ppl.update_state gives a value for {name!r}, which no ppl.state has "
                        f"made; there are {listed}"
                    )
                num_more = x.ndim - wanted.ndim
                is_mapped = 0 <= num_more <= len(found.lead)
                is_like = x.dtype == wanted.dtype and x.shape[num_more:] == wanted.shape
                if not (is_mapped and is_like):
                    own = jax.ShapeDtypeStruct(x.shape[len(found.lead) :], x.dtype)
                    raise ValueError(
                        f"ppl.update_state gives {name!r} {show([own])}, expected "
                        f"{show([wanted])}, as ppl.state has made it"
                    )


def carried_state(target: Any, guide: Any) -> CarriedState | None:
    """State of a target and a guide; None if they have none.

    Raises:
        ValueError: if model and guide have state of one name.
    """
    of_model = _state_in(target.model)
    of_guide = getattr(guide, "state", None)
    if of_model is None and of_guide is None:
        return None
    if {*(of_model or ())} & {*(of_guide or ())}:
        _check_apart(target, guide)
    return CarriedState(StateValues(of_model, of_guide))


def _check_apart(target: Any, guide: Any) -> None:
    """Checks that no state of a model and no state of a guide have one name.

    Raises:
        ValueError: if a name is that of both, or also that of a scope of the other.
    """
    args, kwargs = target.arguments.join(target.data)
    of_model = _sites(_without_state(target.model), args, kwargs, STATE)
    of_guide = _sites(guide.guide, args, kwargs, STATE)
    for path, other in itertools.product(of_model, of_guide):
        shorter = min(path, other, key=len)
        if path[: len(shorter)] == other[: len(shorter)]:
            raise ValueError(
                f"the model and guide {guide!r} both have the state {join_scopes(shorter)!r}: give "
                "them different names"
            )


def initial_state(function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """State of a model or a guide before the first step, by name; None if it has none.

    Raises:
        ValueError: if an update is of a part of a state.
    """
    reaped = ppl.reap(function, tag=STATE, exclusive=True)
    values = reaped(jax.random.key(0), *args, **kwargs)
    if values:
        _check_complete(function, args, kwargs)
    return values or None


def _check_complete(function: Any, args: tuple[Any, ...], kwargs: Any) -> None:
    updates = _sites(function, args, kwargs, NEW_STATE)
    for path, whole in _sites(function, args, kwargs, STATE).items():
        given = updates.get(path, whole)
        missing = [name for name in whole if name not in given]
        if missing and {*given} < {*whole}:
            raise ValueError(
                f"ppl.update_state gives a part of the state {join_scopes(path)!r}, without "
                f"{', '.join(map(repr, missing))}: give all parts, also those that stay as they are"
            )


def _sites(
    function: Any, args: tuple[Any, ...], kwargs: Any, tag: str
) -> dict[Path, tuple[str, ...]]:
    """Names of the parts of each state that `ppl.state` or `ppl.update_state` sows, by path."""
    jaxpr = trace_model(function, None, args, kwargs).jaxpr
    sites = [site for site in sites_of(jaxpr) if site.tag == tag]
    trees = {x.path: jax.tree.unflatten(x.tree, range(x.num_values)) for x in sites}
    return {path: tuple(dict(named_leaves(nest_by_path({path: x})))) for path, x in trees.items()}


def with_state(function: Any, values: Any) -> Any:
    """A model or guide with a state; unchanged if `values` is None."""
    return function if values is None else Partial(_plant_state, function, values)


def _plant_state(function: Any, values: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
    return ppl.plant(function, tag="state")(values, key, *args, **kwargs)


def _state_in(model: Any) -> Any:
    """The state of a model that `with_state` has made, perhaps with parameters around it."""
    if isinstance(model, Partial):
        if model.func is _plant_state:
            return model.args[1]
        return _state_in(model.args[0]) if model.args else None
    return None


def _without_state(model: Any) -> Any:
    """The model that `with_state` was given, perhaps with parameters around it."""
    inner, *rest = model.args
    return (
        inner if model.func is _plant_state else Partial(model.func, _without_state(inner), *rest)
    )


def _replace(model: Any, values: Any) -> Any:
    """A model that `with_state` has made, perhaps with parameters around it, with other state."""
    inner, *rest = model.args
    if model.func is _plant_state:
        return Partial(_plant_state, inner, values)
    return Partial(model.func, _replace(inner, values), *rest)


def _next(old: Any, found: Mapping[Any, Any]) -> Any:
    """The next state: what was updated, and the rest as it was."""
    if not isinstance(old, Mapping):
        return old if old is None else _collapse(old, found)
    return {name: _next(x, found[name]) if name in found else x for name, x in old.items()}


def _collapse(old: Any, new: Any) -> jax.Array:
    """One of several next values: the mean of floats, else the first."""
    old = jnp.asarray(old)
    axes = tuple(range(new.ndim - old.ndim))
    if not axes:
        return new
    if jnp.issubdtype(new.dtype, jnp.floating):
        return jnp.mean(new, axes)
    return new[(0,) * len(axes)]
