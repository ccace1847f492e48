"""The evaluation of a program with effects in order, with a state from effect to effect."""

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from ppl.harvest import _jax, _jaxprs
from ppl.harvest._effect import Performed, key_of, performed, where_of

Handlers = Mapping[Any, Callable[..., Any]]
Act = Callable[[Any, Performed, tuple[Any, ...], Any], tuple[Any, Any]]


class Finder:
    """Finds the effects in a program that have a handler; each jaxpr is walked once."""

    def __init__(self, handlers: Handlers):
        self._handlers = handlers
        self._memo: dict[int, tuple[Any, tuple[str, ...]]] = {}

    def __call__(self, eqn: Any) -> str:
        """What errors call the handled effects in an equation, at any depth; empty for none."""
        return ", ".join(self._in_equation(eqn))

    def _in_equation(self, eqn: Any) -> tuple[str, ...]:
        if not _jax.has_effect(eqn):
            return ()
        if (key := key_of(eqn)) is not None:
            return (where_of(eqn),) if key in self._handlers else ()
        return _distinct(where for jaxpr in _jax.subjaxprs(eqn) for where in self._inside(jaxpr))

    def _inside(self, jaxpr: Any) -> tuple[str, ...]:
        if id(jaxpr) not in self._memo:
            eqns = _jaxprs.raw(jaxpr)[0].eqns
            wheres = _distinct(where for eqn in eqns for where in self._in_equation(eqn))
            self._memo[id(jaxpr)] = jaxpr, wheres
        return self._memo[id(jaxpr)][1]


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


class Threaded:
    """Evaluates a program in order, passing a state from effect to effect.

    `act(key, performed, operands, state)` gives the next state and the result of an effect.
    """

    def __init__(self, found: Finder, act: Act):
        self.found = found
        self._act = act
        self._rules = {"jit": _jit, "cond": _cond, "scan": _scan, "while": _while}

    def run(self, jaxpr: Any, args: Sequence[Any], state: Any) -> tuple[list[Any], Any]:
        """The results of a jaxpr and the state after it."""
        inner, env = begin(jaxpr, args)
        for eqn in inner.eqns:
            if self.found(eqn):
                outs, state = self.open(eqn, read_arrays(env, eqn.invars), state)
                env.update(zip(eqn.outvars, outs, strict=True))
            else:
                bind(env, eqn)
        return read_arrays(env, inner.outvars), state

    def open(self, eqn: Any, args: list[Any], state: Any) -> tuple[Sequence[Any], Any]:
        """The results of an equation with handled effects, and the state after it."""
        if (key := key_of(eqn)) is not None:
            return self._perform(key, performed(eqn, args), state)
        if rule := self._rules.get(eqn.primitive.name):
            return rule(self, eqn, args, state)
        raise NotImplementedError(
            f"{self.found(eqn)} is performed inside of {eqn.primitive.name!r}, which "
            "handle cannot open. Handle it inside of that, or move it out."
        )

    def _perform(self, key: Hashable, at: Performed, state: Any) -> tuple[Sequence[Any], Any]:
        if not at.batch_shape:
            state, result = self._act(key, at, at.operands, state)
            return at.fit(result), state

        def element(*operands: Any) -> list[jax.Array]:
            new, result = self._act(key, at, operands, state)
            _check_unchanged(at.where, new, state)
            return at.fit(result)

        for size in reversed(at.batch_shape):
            element = jax.vmap(element, axis_size=size)
        return element(*at.operands), state


def _jit(on: Threaded, eqn: Any, args: list[Any], state: Any) -> tuple[Sequence[Any], Any]:
    def call(args: list[Any], state: Any) -> tuple[list[Any], Any]:
        return on.run(eqn.params["jaxpr"], args, state)

    call.__name__ = eqn.params["name"]
    return jax.jit(call, **_jax.jit_options(eqn))(args, state)


def _cond(on: Threaded, eqn: Any, args: list[Any], state: Any) -> tuple[Sequence[Any], Any]:
    index, *operands = args
    branches = [functools.partial(on.run, branch) for branch in eqn.params["branches"]]
    return lax.switch(index, branches, operands, state)


def _scan(on: Threaded, eqn: Any, args: list[Any], state: Any) -> tuple[Sequence[Any], Any]:
    num_consts, num_carry = _jax.scan_sizes(eqn)
    consts, rest = args[:num_consts], args[num_consts:]

    def step(loop: Any, xs: list[Any]) -> Any:
        carry, state = loop
        outs, state = on.run(eqn.params["jaxpr"], [*consts, *carry, *xs], state)
        return (outs[:num_carry], state), outs[num_carry:]

    init = rest[:num_carry], state
    (carry, state), ys = lax.scan(step, init, rest[num_carry:], **_jax.scan_options(eqn))
    return [*carry, *ys], state


def _while(on: Threaded, eqn: Any, args: list[Any], state: Any) -> tuple[Sequence[Any], Any]:
    """The condition may have effects too, so it is evaluated with the body and carried."""
    num_cond, num_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond_consts, rest = args[:num_cond], args[num_cond:]
    body_consts, carry = rest[:num_body], rest[num_body:]

    def test(carry: list[Any], state: Any, before: Any) -> Any:
        (pred,), state = on.run(eqn.params["cond_jaxpr"], [*cond_consts, *carry], state)
        if pred.ndim:
            _check_unchanged(on.found(eqn), state, before)
        return pred, carry, state

    def step(loop: Any) -> Any:
        pred, carry, before = loop
        new, state = on.run(eqn.params["body_jaxpr"], [*body_consts, *carry], before)
        if pred.ndim:  # Under vmap the loop may go on for some elements only.
            new = [_where(pred, n, o) for n, o in zip(new, carry, strict=True)]
        return test(new, state, before)

    init = test(carry, state, state)
    _, carry, state = lax.while_loop(lambda loop: jnp.any(loop[0]), step, init)
    return carry, state


def _where(pred: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(jnp.expand_dims(pred, tuple(range(pred.ndim, new.ndim))), new, old)


def _check_unchanged(where: str, new: Any, old: Any) -> None:
    pairs = zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True)
    if any(leaf is not before for leaf, before in pairs):
        raise ValueError(
            f"{where}: the state is changed, and it is performed under vmap, where there is no "
            "order of the elements. Handle it inside of the vmap, as vmap(handle(f, ...)), or use "
            "a scan."
        )


def begin(jaxpr: Any, args: Sequence[Any]) -> tuple[Any, dict[Any, Any]]:
    """The holder of a jaxpr's equations, and the values that an evaluation starts from."""
    inner, consts = _jaxprs.raw(jaxpr)
    return inner, dict(zip([*inner.constvars, *inner.invars], [*consts, *args], strict=True))


def bind(env: dict[Any, Any], eqn: Any) -> None:
    """Evaluate an equation as it stands."""
    args = [v.val if isinstance(v, jex.Literal) else env[v] for v in eqn.invars]
    env.update(zip(eqn.outvars, _jax.bind(eqn, args), strict=True))


def read_arrays(env: Mapping[Any, Any], atoms: Sequence[Any]) -> list[jax.Array]:
    """Literals and constants as arrays with the types that the program says they have."""
    return [_jax.as_aval(v.val if isinstance(v, jex.Literal) else env[v], v.aval) for v in atoms]
