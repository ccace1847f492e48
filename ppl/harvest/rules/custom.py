"""Rules of functions with custom derivatives: the code is opened, the derivative stays.

The functions are `jax.custom_jvp`, `jax.custom_vjp`, `lax.custom_root` and
`lax.custom_linear_solve`.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jex
from jax.tree_util import Partial

from ppl.harvest import jax_core, leaf_values, wirings
from ppl.harvest.construct import Construct, register
from ppl.harvest.interpreter import Interpreter, Opened, Reaped, RestrictedAction, Results
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.rules.call import scatter_items, select_items
from ppl.harvest.survey import Sites, Survey

Function = Callable[..., Any]


class CustomDerivativeRule(Construct):
    """Function with a custom derivative, made again with the derivative of the original equation.

    Values sown in its code differentiate as the code does. A plant in its code changes the function
    and makes the custom derivative wrong. JAX then differentiates the code, and the gradient stops
    at the planted value.
    """

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.Wiring | None:
        """Wiring of the code; None where JAX shows no code."""
        if jax_core.is_opaque(eqn) and not jax_core.has_sow(eqn):
            return None
        return wirings.Call(*jax_core.custom_body(eqn))

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the code."""
        return survey(jax_core.custom_body(eqn)[0])

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Mask of the operands that the needed results and all records depend on.

        The derivative may read every operand.
        """
        body, indices = jax_core.custom_body(eqn)
        if any(live_outs) and not liveness.replaces(body):
            return (True,) * len(eqn.invars)
        read = dict(zip(indices, liveness.inputs(body, live_outs), strict=True))
        return tuple(read.get(i, False) for i in range(len(eqn.invars)))

    def run(self, opened: Opened) -> Results:
        """Results and records of a function with the same derivative."""
        eqn, args, plants, live_outs, on = opened
        body, indices = jax_core.custom_body(eqn)
        planted = plants.take(on.survey(body))
        operands = [args[i] for i in indices]
        if (planted and not on.action.perturbs) or not any(live_outs):
            return on.run(body, operands, planted, live_outs)

        def code(shifts: Any, *args: Any) -> tuple[list[Any], list[Reaped]]:
            outs, reaps = on.run(body, [args[i] for i in indices], shifts, live_outs)
            return select_items(outs, live_outs), reaps

        def sown(shifts: Any, *args: Any) -> list[Reaped]:
            if not on.action.records:
                return []
            alone = RestrictedAction(on.action, frozenset(on.survey(body)), alone=True)
            operands = [args[i] for i in indices]
            nothing = [False] * len(live_outs)
            return on.under(alone, shifts).run(body, operands, shifts, nothing)[1]

        def original(*args: Any) -> list[Any]:
            return select_items(jax_core.bind(eqn, args), live_outs)

        def derivative(transform: Function) -> Function:
            return lambda *args: _without_sows(transform, eqn, on, args)

        outs, reaps = self.rebuild(code, sown, original, derivative)(planted, *args)
        return scatter_items(outs, live_outs), reaps

    @abc.abstractmethod
    def rebuild(
        self,
        code: Function,
        sown: Function,
        original: Function,
        derivative: Callable[[Function], Function],
    ) -> Function:
        """Function of the code with the derivative of the original.

        Only the outs as a function of the arguments have that derivative. Reaps and shifts
        differentiate as the code does.

        Args:
            code: The code, `(shifts, *args) -> (outs, reaps)`.
            sown: Only the reaps of the code, `(shifts, *args) -> reaps`.
            original: Results of the original equation, `(*args) -> outs`.
            derivative: Evaluates a derivative of the original, without the sows of the code; sows
                of the derivative's own rule stay.
        """


class CustomJVPRule(CustomDerivativeRule):
    """Forward mode: one rule for results and tangents."""

    def rebuild(
        self,
        code: Function,
        sown: Function,
        original: Function,
        derivative: Callable[[Function], Function],
    ) -> Function:
        """`code` with a rule of `jax.custom_jvp`."""
        function = jax.custom_jvp(code)

        def rule(primals: Any, tangents: Any) -> Any:
            (shifts, *args), (shifts_dot, *args_dot) = primals, tangents
            outs, outs_dot = derivative(lambda p, t: jax.jvp(original, p, t))(args, args_dot)
            reaps, reaps_dot = jax.jvp(sown, primals, tangents)
            if shifts:
                by_shifts = jax.jvp(lambda s: code(s, *args)[0], (shifts,), (shifts_dot,))[1]
                outs_dot = _add(outs_dot, by_shifts)
            return (outs, reaps), (outs_dot, reaps_dot)

        function.defjvp(rule)
        return function


class CustomVJPRule(CustomDerivativeRule):
    """Reverse mode: a rule for results with residuals, and a rule for cotangents."""

    def rebuild(
        self,
        code: Function,
        sown: Function,
        original: Function,
        derivative: Callable[[Function], Function],
    ) -> Function:
        """`code` with rules of `jax.custom_vjp`."""
        function = jax.custom_vjp(code)

        def forward(shifts: Any, *primals: Any) -> Any:
            shifts = jax.tree.map(lambda primal: primal.value, shifts, is_leaf=_is_primal)
            args = [primal.value for primal in primals]
            moving = tuple(primal.perturbed for primal in primals)
            outs, pullback = derivative(lambda *args: _vjp(original, args, moving))(*args)
            return (outs, sown(shifts, *args)), (pullback, shifts, args, Partial(lambda: moving))

        def backward(residuals: Any, cotangents: Any) -> Any:
            pullback, shifts, args, which = residuals
            moving = which()
            nothing = [_all_zero(ct) for ct in cotangents]
            cotangents = jax.tree.map(_instantiate, cotangents, is_leaf=_is_zero)
            parts = []
            if not nothing[0]:
                parts.append(derivative(pullback)(cotangents[0]))
            if not nothing[1]:
                of_code = _vjp(lambda *args: sown(shifts, *args), args, moving)[1]
                parts.append(of_code(cotangents[1]))
            grads = functools.reduce(_add, parts) if parts else [None] * sum(moving)
            if shifts:
                (shifts,) = jax.vjp(lambda s: code(s, *args), shifts)[1](cotangents)
            return shifts, *scatter_items(grads, moving)

        function.defvjp(forward, backward, symbolic_zeros=True)
        return function


register(
    CustomJVPRule("custom_jvp_call"),
    CustomVJPRule("custom_vjp_call"),
    CustomJVPRule("custom_linear_solve"),
    CustomJVPRule("call_hi_primitive"),
)


def _vjp(function: Function, args: Sequence[Any], moving: Mask) -> tuple[Any, Any]:
    """Results and pullback, with respect to the arguments that an outer derivative perturbs."""

    def of_moving(*some: Any) -> Any:
        rest = iter(some)
        return function(*(next(rest) if m else x for x, m in zip(args, moving, strict=True)))

    return jax.vjp(of_moving, *select_items(args, moving))


def _without_sows(
    transform: Function, eqn: jex.JaxprEqn, on: Interpreter, args: Sequence[Any]
) -> Any:
    """Derivative of an equation, without the sows of its code, which would take place again."""
    leaves, tree = jax.tree.flatten(args)
    traced = tuple(not leaf_values.is_float0(leaf) for leaf in leaves)

    def flat(*arrays: Any) -> Any:
        rest = iter(arrays)
        full = [next(rest) if t else leaf for leaf, t in zip(leaves, traced, strict=True)]
        return transform(*jax.tree.unflatten(tree, full))

    operands = select_items(leaves, traced)
    jaxpr, shapes = jax.make_jaxpr(flat, return_shape=True)(*operands)
    names = frozenset(on.survey(jax_core.custom_body(eqn)[0]))
    outs, _ = on.under(RestrictedAction(on.action, names)).run(
        jaxpr, operands, {}, [True] * len(jaxpr.out_avals)
    )
    return jax.tree.unflatten(jax.tree.structure(shapes), outs)


def _add(a: Any, b: Any) -> Any:
    return jax.tree.map(leaf_values.add_tangents, a, b)


def _all_zero(cotangents: Any) -> bool:
    return all(map(_is_zero, jax.tree.leaves(cotangents, is_leaf=_is_zero)))


def _is_zero(leaf: Any) -> bool:
    return isinstance(leaf, jax.custom_derivatives.SymbolicZero)


def _is_primal(leaf: Any) -> bool:
    return isinstance(leaf, jax.custom_derivatives.CustomVJPPrimal)


def _instantiate(leaf: Any) -> Any:
    return leaf_values.zero_cotangent(leaf.aval) if _is_zero(leaf) else leaf
