"""Pins: what a loop sows stays in the loop, also where it does not vary.

For a derivative or a checkpoint, JAX splits a scan into a known and an unknown part, and moves all
equations that do not depend on the step out of the loop. A sow among them would then take place
once and not in every step. So each sow in a scan is made to depend on the step before the scan is
split. The dependence costs nothing when the program runs.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives
from jax.sharding import PartitionSpec

from ppl.harvest import jax_core, jax_tables
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import construct_of
from ppl.harvest.sowing import sow_p
from ppl.harvest.state_threading import bind_equation, read_arrays, start_evaluation


def _pin(value: Any, step: Any) -> Any:
    """Array that JAX takes to depend on the step; its value and its tangent are unchanged."""
    return pin_p.bind(value, step)[0]


pin_p = jax_core.make_primitive(
    "pin",
    impl=lambda value, step: [value],
    abstract_eval=lambda value, step: [value],
    jvp=lambda primals, tangents: (pin_p.bind(*primals), [tangents[0]]),
    transpose=lambda cotangents, value, step: [cotangents[0], None],
    batch=lambda args, dims: (pin_p.bind(*args), [dims[0]]),
)


class Pinner:
    """Evaluation of a program whose sows depend on the step of a loop around it."""

    def run(self, jaxpr: Jaxpr, args: Sequence[Any], state: Any) -> tuple[list[Any], Any]:
        """Results of a jaxpr whose sows depend on the state, which stays as it is."""
        inner, env = start_evaluation(jaxpr, args)
        for eqn in inner.eqns:
            if jax_core.has_sow(eqn):
                outs = self._open(eqn, read_arrays(env, eqn.invars), state)
                env.update(zip(eqn.outvars, outs, strict=True))
            else:
                bind_equation(env, eqn)
        return read_arrays(env, inner.outvars), state

    def check_unchanged(self, eqn: jex.JaxprEqn, new: Any, old: Any) -> None:
        """No check: the state does not change."""

    def refuse(self, eqn: jex.JaxprEqn) -> NoReturn:
        """Raise an error; none of the constructs that `Pinner` threads refuses."""
        raise NotImplementedError(f"{eqn.primitive.name!r} cannot be opened.")

    def _open(self, eqn: jex.JaxprEqn, args: list[Any], step: Any) -> Sequence[Any]:
        match eqn.primitive.name:
            case "sow":
                values = args[: eqn.params["site"].num_values]
                return sow_p.bind(
                    *(_pin(value, step) for value in values), *args[len(values) :], **eqn.params
                )
            case "scan":
                return self._scan(eqn, args, step)
            case "remat2":
                checkpoint = functools.partial(jax.checkpoint, **jax_core.checkpoint_options(eqn))
                return checkpoint(self._body(eqn))(args, step)
            case "shard_map":
                in_specs, out_specs = jax_core.shard_specs(eqn)
                specs = {"in_specs": (list(in_specs), PartitionSpec()), "out_specs": [*out_specs]}
                options = jax_core.shard_options(eqn)
                return jax.shard_map(self._body(eqn), **specs, **options)(args, step)
            case "jit" | "cond" | "while" | "closed_call" | "eval_jaxpr":
                construct = construct_of(eqn)
                assert construct is not None
                return construct.thread(eqn, args, step, self)[0]
        # Custom derivatives stay as they are: all that they read depends on the step.
        return jax_core.bind(eqn, [_pin(x, step) for x in args])

    def _body(self, eqn: jex.JaxprEqn) -> Callable[[list[Any], Any], list[Any]]:
        return lambda args, step: self.run(eqn.params["jaxpr"], args, step)[0]

    def _scan(self, eqn: jex.JaxprEqn, args: list[Any], step: Any) -> Sequence[Any]:
        num_consts, num_carry = jax_core.scan_sizes(eqn)
        consts = args[:num_consts]
        inits = args[num_consts : num_consts + num_carry]
        xs = (args[num_consts + num_carry :], _pin(_steps(eqn.params), step))

        def body(carry: list[Any], inputs: Any) -> tuple[list[Any], list[Any]]:
            xs, step = inputs
            outs, _ = self.run(eqn.params["jaxpr"], [*consts, *carry, *xs], step)
            return outs[:num_carry], outs[num_carry:]

        carry, ys = lax.scan(body, inits, xs, **jax_core.scan_options(eqn))
        return [*carry, *ys]


def _steps(params: dict[str, Any]) -> np.ndarray:
    """Scanned input with a row for each step of a scan; its numbers do not matter."""
    return np.zeros(params["length"], bool)


_pinned: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _with_step(jaxpr: Jaxpr) -> Jaxpr:
    """Body of a scan with one more input, on which its sows depend."""
    if jaxpr not in _pinned:

        def run(*args: Any) -> list[Any]:
            return Pinner().run(jaxpr, args[:-1], args[-1])[0]

        step = jax.ShapeDtypeStruct((), bool)
        _pinned[jaxpr] = jax.make_jaxpr(run)(*jaxpr.in_avals, step)
    return _pinned[jaxpr]


def _pin_scan(params: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    """Parameters of a scan whose sows depend on the step, and its last operand."""
    return jax_tables.add_scanned_input(params, _with_step(params["jaxpr"])), _steps(params)


jax_tables.rewrite_before_split(primitives.scan_p, _pin_scan)
jax_tables.keep_whole(primitives.while_p)
