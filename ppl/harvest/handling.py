"""handle: effect handlers with continuations.

`handle(f, handlers)` traces `f` to a jaxpr and evaluates it up to the first effect that has a
handler. The handler gets the rest of the evaluation as a function `k`, and its return value is the
answer of the whole program. Handlers are deep: `k` handles the effects of the rest. Nothing before
an effect is evaluated again when `k` is called again. In each construct:

- jit, and calls that JAX makes by itself: the continuation is the rest of the body, and then the
  rest of the caller.
- cond: the continuation goes into the branches, `lax.switch(i, [branch_i then the rest])`, whose
  answers must have the same type. The rest is traced once for each branch, so the traces multiply
  over conds in a row.
- scan, while, vmap: the rest of one iteration or element is not a function of its own. So the
  handler must call `k` once and return the answer of `k`. The argument of `k` is the result of the
  effect, and the loop stays a loop. `k` returns at once there: code of a handler after its call of
  `k` runs before the rest.
- any other construct (checkpoint, custom_jvp, shard_map ...) cannot be opened: an effect in it is
  an error.

With a state, handlers have no continuation: `handler(state, *operands)` gives the next state and
the result. The program is evaluated in order and keeps its constructs; the state is passed through
jit and cond and carried through loops, their conditions included. Under `vmap` a handler may read
the state but not change it, for there is no order of the elements.

Effects without a handler are performed again, for a `handle` further out; so are the effects of a
handler itself. Where `vmap` turns a cond into a select, the effects of all branches are performed,
as with `jax.debug.print`; its sows are performed only in the branch that an element takes. Without
a state, each effect in a row nests Python's calls deeper: some 150 effects reach Python's limit of
recursion, and belong in a loop.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core, leaf_values
from ppl.harvest.effects import Effect, PerformedEffect, SownEffect, handler_key, read_performed
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.names import fit
from ppl.harvest.program import check_function, trace
from ppl.harvest.rules import wiring_of
from ppl.harvest.state_threading import (
    Finder,
    Handlers,
    StateThreader,
    bind_equation,
    read_arrays,
    start_evaluation,
)
from ppl.harvest.survey import show, struct_of
from ppl.harvest.wirings import Branches, Call

Rest = Callable[[Sequence[Any]], Any]


def handle(f: Callable[..., Any], handlers: Handlers, *, state: Any = None) -> Callable[..., Any]:
    """Give effects of a function a meaning, by deep handlers with continuations or with a state.

    Args:
        f: Any function that JAX can trace.
        handlers: A function for each effect (see `effect`) or tag of sows (see `sown`).
            Without `state`, `handler(k, *operands) -> answer`: `k(result)` is the answer of the
            rest of the program if the effect has this result. A handler may call `k` any number of
            times, also under `vmap`. In a loop, and for an effect under `vmap`, it must call `k`
            once and return the answer.
            With `state`, `handler(state, *operands) -> (state, result)`.
        state: Initial state, a pytree of arrays; None for handlers with continuations. Every
            handler must return a state with the same structure, shapes and dtypes.

    Returns:
        `f` with these effects handled: `(*args, **kwargs) -> answer`. The answer is the result of
        `f` if no handler changes it. With `state`, `(*args, **kwargs) -> (result of f, state)`.

    Raises:
        TypeError: If `handlers` is not a dict of functions by effect; when called, if a result or
            state has another dtype than it must have.
        ValueError: When called, if a result or state has another structure or shape, if the
            branches of a cond have different answers, if a handler does not call `k` exactly once
            where it must, or if it changes the state under `vmap`.
        NotImplementedError: When called, if an effect stands in a construct that cannot be opened.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from ppl.harvest import effect, handle
        >>> amb = effect("amb", lambda xs: xs[0])
        >>> f = lambda xs: 10 * amb(xs) + amb(xs)
        >>> handle(f, {amb: lambda k, xs: jax.vmap(k)(xs).ravel()})(jnp.array([1, 2])).tolist()
        [11, 12, 21, 22]
        >>> tick = effect("tick", lambda: 0)
        >>> count = lambda x: jax.lax.fori_loop(0, 5, lambda i, x: x + tick(), x)
        >>> out, state = handle(count, {tick: lambda n: (n + 1, n)}, state=0)(100)
        >>> out.item(), state.item()
        (110, 5)

    References:
        Plotkin and Pretnar 2013, "Handling algebraic effects".
    """
    check_function("handle", f)
    _check_handlers(handlers)

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def handled(*args: Any, **kwargs: Any) -> Any:
        # Where jit is disabled, while_loop traces its condition twice, which would double effects.
        with jax.disable_jit(False):
            program = trace(f, args, kwargs)
        jaxpr = program.jaxpr
        found = Finder(handlers)

        def finish(outs: Sequence[Any]) -> Any:
            # JAX forwards literals as they are.
            outs = [jax_core.as_aval(x, a) for x, a in zip(outs, program.out_avals, strict=True)]
            return program.unflatten(outs)

        if state is None:
            return ContinuationInterpreter(handlers, found).run(jaxpr, program.inputs, finish)
        threaded = StateThreader(found, functools.partial(_call_with_state, handlers))
        outs, last = threaded.run(jaxpr, program.inputs, _start(state))
        return finish(outs), last

    return handled


def _check_handlers(handlers: Handlers) -> None:
    if not isinstance(handlers, Mapping):
        raise TypeError(f"handle: expected a dict of handlers by effect, got {handlers!r}.")
    for key, handler in handlers.items():
        if not isinstance(key, Effect | SownEffect):
            raise TypeError(
                f"handle: handlers go by effect(...) or sown(tag), got the key {key!r}."
            )
        if not callable(handler):
            raise TypeError(f"handle: the handler of {key} must be a function, got {handler!r}.")


def _start(state: Any) -> Any:
    """Initial state as arrays without weak types, which a loop could not carry."""

    def strong(leaf: Any) -> jax.Array:
        try:
            array = leaf_values.as_array(leaf)
        except TypeError as error:
            raise TypeError(f"handle: state must be a pytree of arrays, got {leaf!r}.") from error
        return jax_core.as_aval(array, jax.ShapeDtypeStruct(array.shape, array.dtype))

    return jax.tree.map(strong, state)


class ContinuationInterpreter:
    """Evaluates a program in continuation-passing style."""

    def __init__(self, handlers: Handlers, found: Finder):
        self._handlers = handlers
        self._found = found

    def run(self, jaxpr: Jaxpr, args: Sequence[Any], rest: Rest) -> Any:
        """Answer of a jaxpr followed by the rest of the program."""
        inner, env = start_evaluation(jaxpr, args)
        return self._run_from(0, inner, env, rest)

    def _run_from(self, start: int, inner: Any, env: dict[Any, Any], rest: Rest) -> Any:
        for i, eqn in enumerate(inner.eqns[start:], start):
            if self._found(eqn):
                k = functools.partial(self._resume, i, inner, env, rest)
                return self._perform(eqn, read_arrays(env, eqn.invars), k)
            bind_equation(env, eqn)
        return rest(read_arrays(env, inner.outvars))

    def _resume(
        self, i: int, inner: Any, env: dict[Any, Any], rest: Rest, outs: Sequence[Any]
    ) -> Any:
        """Answer after equation `i`; perhaps called again, so it leaves `env` unchanged."""
        env = env | dict(zip(inner.eqns[i].outvars, outs, strict=True))
        return self._run_from(i + 1, inner, env, rest)

    def _perform(self, eqn: jex.JaxprEqn, args: list[Any], rest: Rest) -> Any:
        if (key := handler_key(eqn)) is not None:
            at = read_performed(eqn, args)
            if not at.batch_shape:

                def k(result):
                    return rest(at.fit(result))

                return self._handlers[key](k, *at.operands, *at.static)
        match wiring_of(eqn):
            case Call(body, is_transparent=True):
                return self.run(body, args, rest)
            case Branches(bodies):
                return self._cond(eqn, bodies, args, rest)
        once = functools.partial(
            _call_resuming_once, self._handlers, f"a {eqn.primitive.name} loop"
        )
        return rest(StateThreader(self._found, once).open(eqn, args, ())[0])

    def _cond(self, eqn: jex.JaxprEqn, bodies: Sequence[Jaxpr], args: list[Any], rest: Rest) -> Any:
        index, *operands = args
        answers: list[str] = []

        def branch(jaxpr: Jaxpr) -> Callable[..., Any]:
            def call(*operands: Any) -> Any:
                answer = self.run(jaxpr, operands, rest)
                answers.append(_show_type(answer))
                self._check_agree(eqn, answers)
                return answer

            return call

        return lax.switch(index, [branch(body) for body in bodies], *operands)

    def _check_agree(self, eqn: jex.JaxprEqn, answers: list[str]) -> None:
        if answers[-1] != answers[0]:
            raise ValueError(
                f"{self._found(eqn)} in a branch of a cond: the answers of all branches must have "
                f"the same structure, shapes and dtypes, got {answers[0]} of branch 0 and "
                f"{answers[-1]} of branch {len(answers) - 1} (0 is that for False). Let the "
                "handler return an answer like that of its continuation."
            )


def _call_with_state(
    handlers: Handlers, key: Hashable, at: PerformedEffect, operands: tuple[Any, ...], state: Any
) -> tuple[Any, Any]:
    """Call a handler `(state, *operands) -> (state, result)`; the new state must fit the old."""
    answer = handlers[key](state, *operands, *at.static)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(
            f"{at.where}: with a state, its handler must return (state, result), got {answer!r}."
        )
    new, result = answer
    leaves, tree = jax.tree.flatten(state)
    avals = [struct_of(jax.typeof(leaf)) for leaf in leaves]
    fitted = fit(f"{at.where}: the new state", new, tree, avals)
    fitted = [jax_core.as_aval(leaf, aval) for leaf, aval in zip(fitted, avals, strict=True)]
    return jax.tree.unflatten(tree, fitted), result


def _call_resuming_once(
    handlers: Handlers,
    construct: str,
    key: Hashable,
    at: PerformedEffect,
    operands: tuple[Any, ...],
    state: Any,
) -> tuple[Any, Any]:
    """Call a handler that must resume exactly once; the result is the argument of its `k`."""
    answer = object()
    results = []

    def k(result: Any) -> object:
        results.append(result)
        if len(results) > 1:
            raise _misuse_error(at, construct, "it calls k again")
        return answer

    try:
        returned = handlers[key](k, *operands, *at.static)
    except (TypeError, AttributeError) as error:
        if results:
            raise _misuse_error(at, construct, "it uses what k returns") from error
        raise
    if not results:
        raise _misuse_error(at, construct, "it does not call k")
    if returned is not answer:
        raise _misuse_error(at, construct, "it returns something else")
    return state, results[0]


def _misuse_error(at: PerformedEffect, construct: str, fault: str) -> ValueError:
    construct = "vmap" if at.batch_shape else construct
    advice = (
        "Handle it inside of the vmap, as vmap(handle(f, ...))"
        if at.batch_shape
        else "Thread a state instead, with handle(f, handlers, state=...), or unroll the loop in "
        "Python"
    )
    return ValueError(
        f"{at.where} is performed inside of {construct}, where its handler must call k exactly "
        f"once and return what k returns, but {fault}. {advice}."
    )


def _show_type(answer: Any) -> str:
    leaves, tree = jax.tree.flatten(answer)
    return f"{show([jax.typeof(jnp.asarray(leaf)) for leaf in leaves])} as {tree}"
