"""with_params: a model or guide with numbers in place of its parameters and its state."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ppl.common.foreign_arrays import convert_arguments
from ppl.core.inside_sums import commutes
from ppl.core.model_pytree import Model, as_pytree, name_of
from ppl.harvest.harvesting import plant, reap
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.survey import show
from ppl.primitives.param import PARAM_VALUE
from ppl.primitives.site_kinds import NEW_STATE, PARAM, STATE


def with_params(
    model: Model, values: Mapping[str, Any] | None, state: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A model or guide whose parameters, made by `param` or `module`, are given numbers.

    Values of parameters that the model does not have are left out. So the values of a fit,
    ``result.model_parameters``, also suit the model before it was conditioned, and parts of it. A
    model with `ppl.state` is also given its state, ``result.model_state``, which stays fixed.

    Args:
        model: A function of a random key.
        values: Values by name on the supports of the parameters, nested as scopes are; None or an
            empty dict for a model that has state alone.
        state: Values of `ppl.state` by name, nested as scopes are.

    Returns:
        A function of the same arguments, without these parameters and without state.

    Raises:
        TypeError: if `values` or `state` is not a dict.
        ValueError: When called, if the model has none of the parameters, if an unused name is
            almost the name of a parameter of the model that has no value, if a value has another
            shape than its parameter, or if a state of the model has no value or another shape.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     loc = ppl.param(0.0, name="loc")
        ...     return ppl.sample(key, dist.Normal(loc, 1.0), name="x")
        >>> fitted, key = ppl.with_params(model, {"loc": 3.0}), jax.random.key(0)
        >>> round(float(fitted(key) - model(key)), 4)
        3.0
    """
    for given in (values, state):
        if not isinstance(given, Mapping | None):
            found = short_repr(given)
            raise TypeError(f"with_params: expected a dict of values by name, got {found}.")
    return Partial(_run, as_pytree(model), dict(values or {}), dict(state or {}))


@commutes
def _run(
    model: Model,
    values: dict[str, Any],
    state: dict[str, Any],
    key: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    args, kwargs = convert_arguments(args, kwargs)
    reaped = [reap(model, tag=tag) for tag in (PARAM_VALUE, PARAM, STATE)]
    found, positions, states = jax.eval_shape(
        lambda key: [f(key, *args, **kwargs) for f in reaped], key
    )
    if states:
        model = Partial(_run_with_state, model, _complete_state(model, state, states))
    plants = _common(values, found)
    if not plants and states and not values:
        return model(key, *args, **kwargs)
    if not plants:
        raise ValueError(
            f"with_params: {name_of(model)} has none of the parameters {_listed(values)}; it has "
            f"{_listed(found)}."
        )
    for name in values.keys() - found.keys():
        rest = [other for other in found if other not in values]
        if close := difflib.get_close_matches(name, rest, 1):
            raise ValueError(
                f"with_params: {name_of(model)} has no parameter {name!r}: did you mean "
                f"{close[0]!r}?"
            )
    planted = Partial(plant(model, tag=PARAM_VALUE), plants)
    # Nothing reads the positions now. They are planted to be parameters no more.
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), _common(positions, plants))
    return plant(planted, tag=PARAM)(zeros, key, *args, **kwargs)


def _run_with_state(model: Model, state: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a model with its state planted, whose next values nothing reads."""
    planted = Partial(plant(model, tag=STATE), state)
    return plant(planted, tag=NEW_STATE)({}, key, *args, **kwargs)


def _complete_state(model: Model, given: Mapping[str, Any], expected: Any) -> dict[str, Any]:
    """The given state, without what the model does not have.

    Raises:
        ValueError: If a part is missing or has another shape.
    """
    remedy = (
        "Give the state of a fit of this model, ppl.with_params(model, result.model_parameters, "
        "result.model_state), or fit it again; ppl.reap(model, tag='state')(key, *args) is the "
        "state that a fit begins with."
    )
    whole = _common(given, expected)
    found = {path: x for path, x in jax.tree_util.tree_leaves_with_path(whole)}
    for path, x in jax.tree_util.tree_leaves_with_path(expected):
        got = found.get(path)
        if got is None or jnp.shape(got) != x.shape:
            part = jax.tree_util.keystr(path, simple=True, separator=".")
            came = "nothing" if got is None else f"shape {jnp.shape(got)}"
            raise ValueError(
                f"with_params: {name_of(model)} has the state {part!r}, expected {show([x])}, got "
                f"{came}; the given state has {_listed(given)}. {remedy}"
            )
    return whole


def _common(values: Any, found: Any) -> Any:
    """The part of nested dicts of values whose names are also in `found`."""
    if not (isinstance(values, Mapping) and isinstance(found, Mapping)):
        return values
    common = {name: _common(x, found[name]) for name, x in values.items() if name in found}
    return {name: x for name, x in common.items() if not isinstance(x, dict) or x}


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names)) or "none"
