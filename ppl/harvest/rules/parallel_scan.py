"""Parallel scan: evaluates the steps of a scan by `vmap` where they do not need one another.

| states                 | method of `Steps` | evaluation                                       |
|------------------------|-------------------|--------------------------------------------------|
| wait for no other step | `at_once`         | all steps by `vmap`                              |
| some wait              | `run_in_parts`    | inputs of the states by `vmap`; a scan of the    |
|                        |                   | states; outputs by `vmap`                        |
| all wait, or too large | `__call__`        | the scan as it stands                            |

Given the values of a Markov chain, its density is a product of independent terms: the state before
a step is the plant of the step before. A loop written step by step is then evaluated as arrays over
time, as a person would write it for speed. Where states do wait, the loop makes the states alone,
and the terms of the density are evaluated after it.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.array_primitives import Kind, array_primitive
from ppl.harvest.construct import may_be_parallel, wiring_of
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.wirings import Branches, Call

# Primitives that are never evaluated by `vmap`: foreign code may refuse it, and the generator draws
# other numbers under it.
_STEP_BY_STEP = {"ffi_call", "pure_callback", "rng_bit_generator"}
# Primitives that repeat elements: a select before them works on each element once.
_REPEATS = {"broadcast_in_dim", "pad", "tile"}
# Kinds whose derivatives may be infinite, as for a singular matrix, or costly.
_MIX = (Kind.MATRIX, Kind.MIXTURE)
_MAX_ELEMENTS = 2**24  # elements that all steps compute together
_MAX_WORK = 4  # work of all branches of a cond, as a multiple of the cheapest branch

Step = Callable[[Any, Any], tuple[Any, Any]]


def rank_states(needs: Mapping[int, Collection[int]]) -> list[list[int]] | None:
    """States ranked by the number of steps that they look back.

    A state needs only states of earlier ranks. The result is None if a state needs itself, perhaps
    by way of others.
    """
    ranks: list[list[int]] = []
    done: set[int] = set()
    while len(done) < len(needs):
        ready = [i for i in needs if i not in done and done.issuperset(needs[i])]
        if not ready:
            return None
        ranks.append(ready)
        done.update(ready)
    return ranks


class Steps:
    """Step of a loop, (carry, inputs) -> (carry, outputs), traced once."""

    def __init__(self, step: Step, carry: Any, inputs: Any):
        """Trace a step; `inputs` hold all steps, along their first axis."""
        first = jax.eval_shape(lambda rows: jax.tree.map(_first, rows), inputs)
        self._jaxpr, shape = jax.make_jaxpr(step, return_shape=True)(carry, first)
        self._tree = jax.tree.structure(shape)
        self._num_carry = len(jax.tree.leaves(carry))

    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, Any]:
        """Evaluation of one step."""
        outs = jax_core.evaluate(self._jaxpr, jax.tree.leaves((carry, inputs)))
        return jax.tree.unflatten(self._tree, outs)

    def at_once(self, carry: Any, inputs: Any, *, reverse: bool) -> tuple[Any, Any] | None:
        """Last carry and stacked outputs, by `vmap`; None if steps must wait for one another."""
        inner, _ = jaxprs.raw(self._jaxpr)
        ranks = self._ranks()
        start = jax.tree.leaves(carry)
        rows = jax.tree.leaves(inputs)
        if ranks is None or not rows or len(rows[0]) * _size(inner) > _MAX_ELEMENTS:
            return None
        known = {self._num_carry + i: x for i, x in enumerate(rows)}
        last: dict[int, Any] = {}
        for rank in ranks:
            for i, after in zip(rank, self._map_steps(rank, known), strict=True):
                first = jax_core.as_aval(start[i], inner.invars[i].aval)[None]
                parts = (after[1:], first) if reverse else (first, after[:-1])
                known[i], last[i] = jnp.concatenate(parts), after[0 if reverse else -1]
        outputs = self._map_steps(range(self._num_carry, len(inner.outvars)), known)
        outs = [*(last[i] for i in range(self._num_carry)), *outputs]
        return jax.tree.unflatten(self._tree, outs)

    def run_in_parts(self, carry: Any, inputs: Any, options: Mapping[str, Any]) -> Any:
        """Last carry and stacked outputs; only the equations of states stay in a loop.

        | equations                           | evaluated                  |
        |-------------------------------------|----------------------------|
        | of states, that read no state       | before the loop, by `vmap` |
        | of states, that read states         | in the loop                |
        | only of outputs, such as densities  | after the loop, by `vmap`  |

        The result is None if no equation is left for after the loop, if `vmap` may not evaluate
        one of these, if the step has effects or no inputs, or if all steps are too large together.
        """
        # Part the equations into those before, in and after the loop.
        inner, consts = jaxprs.raw(self._jaxpr)
        carried = inner.outvars[: self._num_carry]
        outputs = inner.outvars[self._num_carry :]
        states = inner.invars[: self._num_carry]
        scanned = inner.invars[self._num_carry :]
        needed = [eqn for eqn, _ in _find_needed(inner, range(self._num_carry), is_open=False)[0]]

        def may_map(eqn):
            return not _waits(eqn, is_open=False)

        before, looped = _partition_equations(needed, {*scanned, *inner.constvars}, may_map)
        made = _output_variables(needed)
        after, read = _find_needed(inner, range(self._num_carry, len(inner.outvars)), made)
        rows = jax.tree.leaves(inputs)
        too_large = options["length"] * _size(inner) > _MAX_ELEMENTS
        if not after or not rows or too_large or inner.effects:
            return None
        if any(_waits(eqn) for eqn, _ in after):
            return None
        # Variables that the loop hands to the equations after it, and takes from those before.
        late = [v for v in [*states, *_output_variables(looped)] if v in read]
        read |= _variables(carried).union(*(_variables(eqn.invars) for eqn in looped))
        early = [v for v in _output_variables(before) if v in read]
        constants = dict(zip(inner.constvars, consts, strict=True))

        def prepare(rows: Sequence[Any]) -> list[Any]:
            env = constants | dict(zip(scanned, rows, strict=True))
            _bind_all(before, env)
            return [env[v] for v in early]

        def step(carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            known = zip([*states, *scanned, *early], [*carry, *rows], strict=True)
            env = constants | dict(known)
            _bind_all(looped, env)
            new = [jax_core.as_aval(_read(env, v), v.aval) for v in carried]
            return new, [env[v] for v in late]

        def finish(rows: Sequence[Any], found: Sequence[Any]) -> list[Any]:
            known = zip([*scanned, *early, *late], [*rows, *found], strict=True)
            env = constants | dict(known)
            _evaluate_all(after, env)
            return [jax_core.as_aval(_read(env, v), v.aval) for v in outputs]

        # Evaluate the parts.
        rows += jax.vmap(prepare)(rows) if early else []
        pairs = zip(jax.tree.leaves(carry), states, strict=True)
        start = [jax_core.as_aval(x, v.aval) for x, v in pairs]
        last, found = lax.scan(step, start, rows, **options)
        return jax.tree.unflatten(self._tree, [*last, *jax.vmap(finish)(rows, found)])

    def _ranks(self) -> list[list[int]] | None:
        inner, _ = jaxprs.raw(self._jaxpr)
        if any(map(_waits, inner.eqns)):
            return None
        carried = range(self._num_carry)
        ranks = rank_states({i: _find_inputs(inner, [i]).intersection(carried) for i in carried})
        # Each rank evaluates again what it shares with others.
        work = sum(len(_find_needed(inner, rank)[0]) for rank in ranks or [])
        return ranks if work <= 2 * len(inner.eqns) else None

    def _map_steps(self, wanted: Sequence[int], known: Mapping[int, Any]) -> list[Any]:
        """Some results of all steps, from the inputs that they depend on."""
        return jax.vmap(lambda known: _evaluate(self._jaxpr, wanted, known))(known)


def map_elements(fn: Callable[[Any], Any], rows: Any, length: int) -> Any:
    """`vmap` of a function, with all branches of a cond evaluated and one selected."""
    if length:
        first = jax.eval_shape(lambda rows: jax.tree.map(_first, rows), rows)
        jaxpr, shape = jax.make_jaxpr(fn, return_shape=True)(first)
        inner, _ = jaxprs.raw(jaxpr)
        if not inner.effects:
            wanted = range(len(inner.outvars))

            def element(known):
                return _evaluate(jaxpr, wanted, dict(enumerate(known)))

            outs = jax.vmap(element, axis_size=length)(jax.tree.leaves(rows))
            return jax.tree.unflatten(jax.tree.structure(shape), outs)
    return jax.vmap(fn, axis_size=length)(rows)


def _first(rows: jax.Array) -> jax.Array:
    return lax.index_in_dim(rows, 0, keepdims=False)


def _evaluate(jaxpr: Jaxpr, wanted: Sequence[int], args: Mapping[int, Any]) -> list[Any]:
    """Some results of a jaxpr, from the arguments that they depend on."""
    inner, consts = jaxprs.raw(jaxpr)
    env = dict(zip(inner.constvars, consts, strict=True))
    env |= {inner.invars[i]: x for i, x in args.items()}
    _evaluate_all(_find_needed(inner, wanted)[0], env)
    found = [inner.outvars[i] for i in wanted]
    return [jax_core.as_aval(_read(env, v), v.aval) for v in found]


def _evaluate_all(equations: Iterable[tuple[Any, Sequence[int]]], env: dict[Any, Any]) -> None:
    """Evaluate some results of each equation, and add them to `env`."""
    for eqn, outs in equations:
        body = _transparent(eqn)
        branches = _branches(eqn)
        if body is not None and not _is_whole(body, outs):
            needed = _find_inputs(jaxprs.raw(body)[0], outs)
            results = _evaluate(body, outs, {i: _read(env, eqn.invars[i]) for i in needed})
        elif branches:
            operands = [_read(env, v) for v in eqn.invars]
            outs = range(len(eqn.outvars))
            results = _select(eqn, branches, operands)
        else:
            operands = [_read(env, v) for v in eqn.invars]
            outs = range(len(eqn.outvars))
            results = jax_core.bind(eqn, operands)
        env.update(zip((eqn.outvars[i] for i in outs), results, strict=True))


def _bind_all(equations: Iterable[Any], env: dict[Any, Any]) -> None:
    """Evaluate all results of each equation, and add them to `env`."""
    for eqn in equations:
        outs = jax_core.bind(eqn, [_read(env, v) for v in eqn.invars])
        env.update(zip(eqn.outvars, outs, strict=True))


def _partition_equations(
    equations: Iterable[Any], known: set[Any], is_first: Callable[[Any], bool]
) -> tuple[list[Any], list[Any]]:
    """Equations that pass `is_first` and depend only on known variables and one another; others."""
    parts: tuple[list[Any], list[Any]] = [], []
    for eqn in equations:
        is_late = not (_variables(eqn.invars) <= known and is_first(eqn))
        parts[is_late].append(eqn)
        if not is_late:
            known = known | {*eqn.outvars}
    return parts


def _variables(atoms: Iterable[Any]) -> set[Any]:
    return {v for v in atoms if not isinstance(v, jex.Literal)}


def _output_variables(equations: Iterable[Any]) -> list[Any]:
    return [v for eqn in equations for v in eqn.outvars]


def _read(env: Mapping[Any, Any], v: Any) -> Any:
    return v.val if isinstance(v, jex.Literal) else env[v]


def _select(eqn: jex.JaxprEqn, branches: Sequence[Jaxpr], args: Sequence[Any]) -> list[Any]:
    """Results of a cond, selected from the results of all branches."""
    index, *operands = args
    results = [_evaluate_branch(branch, operands, index == i) for i, branch in enumerate(branches)]
    columns = zip(eqn.outvars, *results, strict=True)
    return [lax.select_n(jnp.broadcast_to(index, v.aval.shape), *outs) for v, *outs in columns]


def _evaluate_branch(branch: Jaxpr, operands: Sequence[Any], is_taken: Any) -> list[Any]:
    """Results of a branch; if it is not taken, their derivative, which may be NaN, is stopped.

    The select that stops the derivative would repeat an operand shared by all steps for each step.
    So linear equations, which pick elements of operands, come before the select.
    """
    inner, consts = jaxprs.raw(branch)
    env = dict(zip([*inner.constvars, *inner.invars], [*consts, *operands], strict=True))
    linear, passed, others = _split_branch(inner)
    _bind_all(linear, env)
    env = {v: _stop_untaken_gradient(env[v], is_taken) for v in passed}
    _evaluate_all(others, env)
    return [jax_core.as_aval(_read(env, v), v.aval) for v in inner.outvars]


def _split_branch(branch: Jaxpr) -> tuple[list[Any], list[Any], list[tuple[Any, list[int]]]]:
    """Linear equations of the operands, variables that all others read, and all others."""
    inputs = [*branch.constvars, *branch.invars]
    wanted = range(len(branch.outvars))
    needed = [eqn for eqn, _ in _find_needed(branch, wanted)[0]]
    linear, _ = _partition_equations(needed, {*inputs}, _is_linear)
    others, read = _find_needed(branch, wanted, _output_variables(linear))
    return linear, [v for v in [*inputs, *_output_variables(linear)] if v in read], others


def _stop_untaken_gradient(x: Any, is_taken: Any) -> Any:
    return _differentiate_if(is_taken, x) if _is_inexact(jnp.result_type(x)) else x


@jax.custom_jvp
def _differentiate_if(is_taken: Any, x: Any) -> Any:
    """`x`, whose derivative is 0 unless `is_taken`.

    The value is a choice between `x` and `x`, so a polynomial remains one. Under `vmap` it has the
    axes of `is_taken`, as its tangent has: JAX needs both alike.
    """
    return jnp.where(is_taken, x, x)


@_differentiate_if.defjvp
def _derivative_if(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    is_taken, x = primals
    return _differentiate_if(is_taken, x), jnp.where(is_taken, tangents[1], 0)


def _find_needed(
    jaxpr: Jaxpr, wanted: Iterable[int], given: Iterable[Any] = (), *, is_open: bool = True
) -> tuple[list[tuple[Any, list[int]]], set[Any]]:
    """Dependencies of some results of a jaxpr, where the variables of `given` are known.

    Returns the equations in order, each with the positions of its needed results, and the set of
    needed variables. If `is_open`, a jit needs only operands of its needed results.
    """
    given = {*given}
    variables = {v for v in (jaxpr.outvars[i] for i in wanted) if not isinstance(v, jex.Literal)}
    equations = []
    for eqn in reversed(jaxpr.eqns):
        if outs := [i for i, v in enumerate(eqn.outvars) if v in variables and v not in given]:
            equations.append((eqn, outs))
            operands = range(len(eqn.invars))
            if is_open and (body := _transparent(eqn)) is not None:
                operands = _find_inputs(jaxprs.raw(body)[0], outs)
            read = (eqn.invars[i] for i in operands)
            variables.update(v for v in read if not isinstance(v, jex.Literal))
    return equations[::-1], variables


def _find_inputs(jaxpr: Jaxpr, wanted: Iterable[int]) -> set[int]:
    """Positions of the inputs that some results of a jaxpr depend on."""
    _, variables = _find_needed(jaxpr, wanted)
    return {i for i, v in enumerate(jaxpr.invars) if v in variables}


def _transparent(eqn: jex.JaxprEqn) -> Jaxpr | None:
    """Body of a call that may be evaluated in part, such as jit; None for any other equation."""
    wiring = wiring_of(eqn)
    return wiring.body if isinstance(wiring, Call) and wiring.is_transparent else None


def _is_whole(body: Jaxpr, outs: Iterable[int]) -> bool:
    """Whether a call may be evaluated as it stands: all operands are needed, and no cond is inside.

    JAX then finds the body in its caches.
    """
    inner, _ = jaxprs.raw(body)
    return len(_find_inputs(inner, outs)) == len(inner.invars) and not _has_cond(inner)


def _has_cond(jaxpr: Jaxpr) -> bool:
    eqns = jaxprs.raw(jaxpr)[0].eqns
    return any(_branches(e) or any(map(_has_cond, jax_core.subjaxprs(e))) for e in eqns)


def _branches(eqn: jex.JaxprEqn) -> Sequence[Jaxpr]:
    """Branches of a cond; empty for any other equation."""
    wiring = wiring_of(eqn)
    return wiring.bodies if isinstance(wiring, Branches) else ()


def _waits(eqn: jex.JaxprEqn, is_open: bool = True) -> bool:
    """Whether an equation must be evaluated step by step; `is_open` if `_evaluate` opens it."""
    if eqn.primitive.name in _STEP_BY_STEP or not may_be_parallel(eqn):
        return True
    if eqn.effects or jax_core.draws_by_batch(eqn):
        return True
    branches = _branches(eqn)
    if branches and not (is_open and _is_cheap(eqn, branches)):
        return True
    is_open = is_open and (bool(branches) or _transparent(eqn) is not None)
    return any(_waits(e, is_open) for j in jax_core.subjaxprs(eqn) for e in jaxprs.raw(j)[0].eqns)


def _is_linear(eqn: jex.JaxprEqn) -> bool:
    """Whether a zero cotangent of the results gives zero cotangents of all operands."""
    if not any(_is_inexact(jax_core.dtype_of(v)) for v in eqn.outvars):
        return True
    if (body := _transparent(eqn)) is not None:
        return all(map(_is_linear, jaxprs.raw(body)[0].eqns))
    record = array_primitive(eqn)
    if record.linear is None or record.kind in _MIX or eqn.primitive.name in _REPEATS:
        return False
    _, others = record.split(eqn.invars)
    return not any(_is_inexact(jax_core.dtype_of(v)) for v in others)


def _is_inexact(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.inexact)


def _is_cheap(cond: jex.JaxprEqn, branches: Sequence[Jaxpr]) -> bool:
    """Whether all branches together are little more work than the cheapest one."""
    if cond.params.get("branches_platforms") is not None:
        return False
    work = [1 + _size(branch) for branch in branches]
    return sum(work) <= _MAX_WORK * min(work)


def _size(jaxpr: Jaxpr) -> int:
    """Number of elements that all equations of a jaxpr compute, inner equations included."""
    inner, _ = jaxprs.raw(jaxpr)
    given = sum(_num_elements(eqn.outvars) for eqn in inner.eqns)
    for eqn in inner.eqns:
        bodies = [jaxprs.raw(body)[0] for body in jax_core.subjaxprs(eqn)]
        given += eqn.params.get("length", 1) * sum(map(_size, bodies))
        if _branches(eqn):
            given += sum(_num_elements(_split_branch(body)[1]) for body in bodies)
    return given


def _num_elements(variables: Iterable[Any]) -> int:
    return sum(math.prod(v.aval.shape) for v in variables)
