"""Indices of data that are out of range: an error, as JAX reads another element in silence."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.analysis.known_indices import OutOfRange, find_out_of_range
from ppl.common.foreign_arrays import convert_arguments
from ppl.core.model_pytree import Model, arguments_by_name, as_written, name_of, split_partial
from ppl.core.model_run import trace_model
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.program import Program
from ppl.harvest.survey import describe
from ppl.transforms.condition import Conditioned, condition
from ppl.transforms.density import log_probs
from ppl.transforms.simulate import simulate
from ppl.transforms.unconstrain import unconstrain

_CHANGE = 0.75  # by which an element that is read out of range grows, to see what depends on it
_TOLERANCE = 1e-5


def check_indices(model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Check that no array of a model is read out of range at an index of its data.

    Args:
        model: A function of a random key, perhaps transformed.
        args: The arguments behind the key.
        kwargs: Keyword arguments.

    Raises:
        ValueError: If the density depends on an element that is read at an index out of range. An
            index that depends on a random value is not looked at, nor is one with a mode.
    """
    # Within jax.jit, the array made here is traced, even if no input is.
    if any(map(jax_core.is_traced, jax.tree.leaves((model, args, dict(kwargs), jnp.zeros(()))))):
        return
    program = _trace(model, args, kwargs)
    for found in [] if program is None else find_out_of_range(program):
        if _matters(found, program, model):
            raise ValueError(_explain(found, model, args, kwargs))


def may_be_out_of_range(model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an array is read out of range at an index of the data, be it used or not."""
    program = _trace(model, args, kwargs)
    return program is not None and bool(find_out_of_range(program))


def _trace(model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program | None:
    """The program of the function that a modeler wrote; None if it cannot be traced."""
    try:
        return trace_model(as_written(model), None, args, kwargs)
    except Exception:
        return None  # Whoever runs the model says what is wrong.


def _matters(found: OutOfRange, program: Any, model: Model) -> bool:
    """Whether a site's density, or a factor, depends on what is read out of range.

    It does not if a mask takes the element's place. If there is no answer, it does.
    """
    key = jax.random.key(0)
    ways: tuple[Callable[..., Any], ...] = (_any_values, lambda model, key: simulate(model)(key))
    for values_of in ways:
        try:
            before = _changed(found, program, model, 0.0)
            after = _changed(found, program, model, _CHANGE)
            values = jax.jit(lambda key, of=values_of, model=before: of(model, key))(key)
            each = [jax.jit(log_probs(changed))(values) for changed in (before, after)]
        except Exception:
            continue
        return any(map(_differ, *map(jax.tree.leaves, each)))
    return True


def _changed(found: OutOfRange, program: Program, model: Model, change: float) -> Model:
    """A model that reads another element where it reads one out of range, and with its data."""
    jaxpr = _with_change(program.jaxpr, found.place, change)
    rest = program.operands[1:]

    def changed(key: jax.Array) -> list[Any]:
        return jax_core.evaluate(jaxpr, [*program.consts, key, *rest])

    for data in _data(model):
        changed = condition(changed, data)
    return changed


def _any_values(model: Model, key: jax.Array) -> Any:
    """Values of continuous latent sites in their supports, whether or not there are draws."""
    target = unconstrain(model)
    return target.constrain(target.initial(key))


def _differ(a: jax.Array, b: jax.Array) -> bool:
    return not np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def _data(model: Model) -> Iterator[Any]:
    """The data of a conditioned model, innermost first."""
    inner = model
    found = []
    while isinstance(inner, jax.tree_util.Partial):
        if isinstance(inner, Conditioned):
            found.append(inner.args[1])
        if not (inner.args and callable(inner.args[0])):
            break
        inner = inner.args[0]
    yield from reversed(found)


def _with_change(jaxpr: Jaxpr, place: tuple[int, ...], change: float) -> Jaxpr:
    """A program with a change of what one equation reads out of range."""
    number, *rest = place
    eqns = list(jaxprs.raw(jaxpr)[0].eqns)
    eqn = eqns[number]
    if not rest:
        new = jax.make_jaxpr(jax.jit(_reader(eqn, change)))(*(v.aval for v in eqn.invars))
        (call,) = jaxprs.raw(new)[0].eqns
        eqns[number] = call.replace(invars=eqn.invars, outvars=eqn.outvars)
    else:
        eqns[number] = _with_change_inside(eqn, tuple(rest), change)
    return jaxprs.with_equations(jaxpr, eqns)


def _with_change_inside(eqn: Any, place: tuple[int, ...], change: float) -> Any:
    """An equation with inner programs, one of which has the change."""
    params = dict(eqn.params)
    if "branches" in params:
        branch, *rest = place
        branches = list(params["branches"])
        branches[branch] = _with_change(branches[branch], tuple(rest), change)
        params["branches"] = tuple(branches)
    else:
        names = [k for k in ("body_jaxpr", "call_jaxpr", "jaxpr") if jaxprs.is_jaxpr(params.get(k))]
        params[names[0]] = _with_change(params[names[0]], place, change)
    return eqn.replace(params=params)


def _reader(eqn: Any, change: float) -> Callable[..., Any]:
    """The read of an equation, with a change of the elements that are out of range."""

    def read(array: jax.Array, *indices: jax.Array) -> jax.Array:
        (value,) = jax_core.bind(eqn, [array, *indices])
        sizes = eqn.params["slice_sizes"]
        if eqn.primitive.name == "dynamic_slice":
            pairs = zip(indices, array.shape, sizes, strict=True)
            is_out = jnp.stack([(i < 0) | (i > n - size) for i, n, size in pairs]).any()
        else:
            numbers = eqn.params["dimension_numbers"]
            axes = map(int, numbers.start_index_map)
            each = [
                (indices[0][..., k] < 0) | (indices[0][..., k] > array.shape[i] - sizes[i])
                for k, i in enumerate(axes)
            ]
            is_out = jnp.stack(each).any(0)
            is_out = jnp.expand_dims(is_out, tuple(map(int, numbers.offset_dims)))
        if jnp.issubdtype(value.dtype, jnp.floating):
            moved = (1.0 + change) * value + change
            return jnp.where(is_out, moved.astype(value.dtype), value)
        if not change or jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return value
        return jnp.where(is_out, (value == 0).astype(value.dtype), value)

    return read


def _explain(
    found: OutOfRange, model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str:
    """Error message: the array, the index, and where it comes from."""
    size = found.shape[found.axis]
    where, source, name = _locate(found, dict(_named_arrays(model, args, kwargs)))
    remedy = "subtract 1 from data that count from 1"
    if source is not None and source.size > 1 and source.min() == 1 and source.max() == size:
        remedy = f"{name} goes from 1 to {size}, so subtract 1 from it"
    return (
        f"{name_of(model)}: {_describe_array(found)} is read out of range: {where}, and "
        f"axis {found.axis} has indices from 0 to {size - 1}. JAX would read another element in "
        f"silence. Indices count from 0: {remedy}. An index that is meant to be out of range needs "
        'a mode, as array.at[index].get(mode="clip") has, or a mask over what it reads.'
    )


def _describe_array(found: OutOfRange) -> str:
    """The site that is read, or the array and the sites that it is made of."""
    size = found.shape[found.axis]
    sites = [path for path, shape in found.sites.items() if size in shape] or list(found.sites)
    if len(sites) == 1 and found.sites[sites[0]] == found.shape:
        return f"site {describe(sites[0])}, of shape {found.shape},"
    if not sites:
        return f"an array of shape {found.shape}"
    names = ", ".join(map(describe, sites))
    plural = "s" if len(sites) > 1 else ""
    return f"an array of shape {found.shape} made of site{plural} {names}"


def _locate(
    found: OutOfRange, named: Mapping[str, np.ndarray]
) -> tuple[str, np.ndarray | None, str]:
    """Words on where an index stands, the array that it stands in, if any, and its name."""
    flat = int(
        np.ravel_multi_index(found.position, found.shape_of_indices) if found.position else 0
    )
    num_indices = int(np.prod(found.shape_of_indices))
    names = []
    for source in found.sources:
        name = next((k for k, x in named.items() if _is_equal(x, source)), "an array of the model")
        names.append(name)
        at = None
        if source.size == num_indices:
            at = np.unravel_index(flat, source.shape)
            at = at if source[at] == found.index else None
        elif (source == found.index).any():
            at = np.unravel_index(int((source == found.index).argmax()), source.shape)
        if at is not None:
            entry = ", ".join(map(str, map(int, at)))
            entry = f"[{entry}]" if entry else ""
            entry = f"entry {entry} of {name}" if name.startswith("an ") else f"{name}{entry}"
            return f"{entry} is {found.index}", source, name
    made = " and ".join(dict.fromkeys(names))
    at = f" at position {list(found.position)}" if found.position else ""
    return f"an index made of {made} is {found.index}{at}", None, ""


def _is_equal(x: np.ndarray, source: np.ndarray) -> bool:
    return x.shape == source.shape and bool(np.all(x == source))


def _named_arrays(
    model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays among the arguments of a model, and among the variables that it uses, by name."""
    named: dict[str, Any] = {}
    try:
        args, kwargs = convert_arguments(args, kwargs)
        named |= arguments_by_name(model, args, kwargs)
    except (TypeError, ValueError):  # A callable without a signature.
        pass
    function, _, _ = split_partial(as_written(model))
    named = {**_variables_of(function), **named}
    for name, value in named.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            if isinstance(leaf, np.ndarray | jax.Array) and not jnp.issubdtype(
                leaf.dtype, jax.dtypes.extended
            ):
                yield f"{name}{jax.tree_util.keystr(path)}", np.asarray(leaf)


def _variables_of(function: Any) -> dict[str, Any]:
    """Globals and variables of closures that a function uses, by name."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    found = {k: function.__globals__[k] for k in code.co_names if k in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            found[name] = cell.cell_contents
    return found
