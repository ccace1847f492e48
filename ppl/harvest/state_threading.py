"""State threading: evaluates a program in order and passes a state from effect to effect."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import jax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.effects import PerformedEffect, describe_effect, handler_key, read_performed
from ppl.harvest.hidden_sows import hides_sow
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import construct_of

Handlers = Mapping[Any, Callable[..., Any]]
Act = Callable[[Any, PerformedEffect, tuple[Any, ...], Any], tuple[Any, Any]]


class Finder:
    """Finds the effects in a program that have a handler; each jaxpr is walked once."""

    def __init__(self, handlers: Handlers):
        self._handlers = handlers
        self._memo: dict[int, tuple[Any, tuple[str, ...]]] = {}

    def __call__(self, eqn: jex.JaxprEqn) -> str:
        """The handled effects in an equation at any depth, in words; empty if there are none."""
        return ", ".join(self._in_equation(eqn))

    def _in_equation(self, eqn: jex.JaxprEqn) -> tuple[str, ...]:
        if not jax_core.has_effect(eqn) and not hides_sow(eqn):
            return ()
        if (key := handler_key(eqn)) is not None:
            return (describe_effect(eqn),) if key in self._handlers else ()
        jaxprs = jax_core.subjaxprs(eqn)
        if not jaxprs:
            return ("an effect",)  # in a program that JAX does not show
        return _distinct(where for jaxpr in jaxprs for where in self._inside(jaxpr))

    def _inside(self, jaxpr: Jaxpr) -> tuple[str, ...]:
        if id(jaxpr) not in self._memo:
            eqns = jaxprs.raw(jaxpr)[0].eqns
            wheres = _distinct(where for eqn in eqns for where in self._in_equation(eqn))
            self._memo[id(jaxpr)] = jaxpr, wheres
        return self._memo[id(jaxpr)][1]


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


class StateThreader:
    """Evaluates a program in order, passing a state from effect to effect.

    `act(key, performed, operands, state)` gives the next state and the result of an effect.
    """

    def __init__(self, found: Finder, act: Act):
        self.found = found
        self._act = act

    def run(self, jaxpr: Jaxpr, args: Sequence[Any], state: Any) -> tuple[list[Any], Any]:
        """Results of a jaxpr and the state after it."""
        inner, env = start_evaluation(jaxpr, args)
        for eqn in inner.eqns:
            if self.found(eqn):
                outs, state = self.open(eqn, read_arrays(env, eqn.invars), state)
                env.update(zip(eqn.outvars, outs, strict=True))
            else:
                bind_equation(env, eqn)
        return read_arrays(env, inner.outvars), state

    def open(self, eqn: jex.JaxprEqn, args: list[Any], state: Any) -> tuple[Sequence[Any], Any]:
        """Results of an equation with handled effects, and the state after it."""
        if (key := handler_key(eqn)) is not None:
            return self._perform(key, read_performed(eqn, args), state)
        construct = construct_of(eqn)
        return self.refuse(eqn) if construct is None else construct.thread(eqn, args, state, self)

    def refuse(self, eqn: jex.JaxprEqn) -> NoReturn:
        """Raise an error for effects in a construct that cannot be opened."""
        raise NotImplementedError(
            f"{self.found(eqn)} is performed inside of {eqn.primitive.name!r}, which "
            "handle cannot open. Handle it inside of that, or move it out."
        )

    def check_unchanged(self, eqn: jex.JaxprEqn, new: Any, old: Any) -> None:
        """Raise an error if effects in an equation under `vmap` change the state."""
        _check_unchanged(self.found(eqn), new, old)

    def _perform(self, key: Hashable, at: PerformedEffect, state: Any) -> tuple[Sequence[Any], Any]:
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


def _check_unchanged(where: str, new: Any, old: Any) -> None:
    pairs = zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True)
    if any(leaf is not before for leaf, before in pairs):
        raise ValueError(
            f"{where}: the state is changed, and it is performed under vmap, where there is no "
            "order of the elements. Handle it inside of the vmap, as vmap(handle(f, ...)), or use "
            "a scan."
        )


def start_evaluation(jaxpr: Jaxpr, args: Sequence[Any]) -> tuple[Any, dict[Any, Any]]:
    """Open jaxpr, and the values of its constants and inputs by variable."""
    inner, consts = jaxprs.raw(jaxpr)
    return inner, dict(zip([*inner.constvars, *inner.invars], [*consts, *args], strict=True))


def bind_equation(env: dict[Any, Any], eqn: jex.JaxprEqn) -> None:
    """Evaluate an equation as it stands, and add its results to `env`."""
    args = [v.val if isinstance(v, jex.Literal) else env[v] for v in eqn.invars]
    env.update(zip(eqn.outvars, jax_core.bind(eqn, args), strict=True))


def read_arrays(env: Mapping[Any, Any], atoms: Sequence[Any]) -> list[jax.Array]:
    """Values of variables and literals as arrays, with the types that the program declares."""
    return [
        jax_core.as_aval(v.val if isinstance(v, jex.Literal) else env[v], v.aval) for v in atoms
    ]
