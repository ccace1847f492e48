"""A function traced to a jaxpr, and its evaluation under an action."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.cumulative import set_apart
from ppl.harvest.interpreter import Action, Interpreter
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.leaked_tracers import explain_leaked_tracer
from ppl.harvest.liveness import Mask
from ppl.harvest.plants import unstack
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.survey import Path, Sites, Survey, describe, struct_of

_NO_NUMBERS = "OSUmM"  # dtype kinds that no JAX array has: objects, text, dates


@dataclasses.dataclass(frozen=True)
class Program:
    """Function traced to a jaxpr.

    A function may close over a tracer. A cache of JAX that keeps the jaxpr must not keep that
    tracer, so the constants are inputs of the jaxpr.

    Attributes:
        jaxpr: Open jaxpr; its inputs are the constants and then the operands.
        consts: Values that the function closes over.
        operands: Array arguments; None for an abstract one.
        unflatten: Map from the results of the jaxpr to the result of the function.
    """

    jaxpr: Jaxpr
    consts: list[Any]
    operands: list[Any]
    unflatten: Callable[[Sequence[Any]], Any]

    @property
    def inputs(self) -> list[Any]:
        """Inputs of the jaxpr: constants, then operands."""
        return [*self.consts, *self.operands]

    @property
    def out_avals(self) -> list[Any]:
        """Abstract results of the jaxpr."""
        return [v.aval for v in self.jaxpr.outvars]


def check_function(where: str, f: Any) -> None:
    """Raise a TypeError unless `f` can be called; `where` names the caller in the error."""
    if not callable(f):
        raise TypeError(f"{where}: f must be a function, got {f!r}.")


def trace(f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
    """Trace a function: arrays become abstract, Python numbers and other objects pass as they are.

    So do integers and booleans of NumPy, which are sizes more often than data.

    An argument may be a `jax.ShapeDtypeStruct`; the program can then be evaluated as long as it
    does not need that argument.
    """
    leaves, tree = jax.tree_util.tree_flatten((args, dict(kwargs)))
    traced_in = [_is_operand(leaf) for leaf in leaves]
    operands = [_operand(leaf) for leaf in _only(leaves, traced_in)]
    out: dict[str, Any] = {}

    def flat(*arrays: Any) -> list[Any]:
        args, kwargs = jax.tree_util.tree_unflatten(tree, _merge(leaves, traced_in, arrays))
        results, out["tree"] = jax.tree_util.tree_flatten(f(*args, **kwargs))
        out["traced"] = traced = [_is_array(x) for x in results]
        out["static"] = [None if t else x for x, t in zip(results, traced, strict=True)]
        return _only(results, traced)

    jaxpr, consts = jaxprs.without_consts(set_apart(jax.make_jaxpr(flat)(*operands)))

    def unflatten(arrays: Sequence[Any]) -> Any:
        results = _merge(out["static"], out["traced"], arrays)
        return jax.tree_util.tree_unflatten(out["tree"], results)

    concrete = [None if isinstance(x, jax.ShapeDtypeStruct) else x for x in operands]
    return Program(jaxpr, consts, concrete, unflatten)


def _is_operand(leaf: Any) -> bool:
    if isinstance(leaf, np.integer | np.bool_):
        return False
    return _is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in _NO_NUMBERS
    return isinstance(leaf, jax.Array)


def _operand(leaf: Any) -> Any:
    return leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.asarray(leaf)


def _only(items: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    return [item for item, keep in zip(items, mask, strict=True) if keep]


def _merge(items: Sequence[Any], mask: Sequence[bool], new: Sequence[Any]) -> list[Any]:
    rest = iter(new)
    return [next(rest) if replace else item for item, replace in zip(items, mask, strict=True)]


class Harvester:
    """Program under an action: its sites, and its evaluation with plants."""

    def __init__(self, program: Program, action: Action):
        self._program = program
        self._action = action
        self._survey = Survey(action.matches, action.strips, CONSTRUCTS)

    @functools.cached_property
    def sites(self) -> Sites:
        """Sites that the action looks at by path, in program order."""
        sites = self._survey(self._program.jaxpr)
        for path in sites:
            for i in range(1, len(path)):
                if path[:i] in sites:
                    raise ValueError(
                        f"{describe(path[:i])} is the name both of a sow and of a scope."
                    )
        return sites

    def run(
        self, plants: Mapping[Path, Any], *, live_outs: bool | Sequence[bool] = True
    ) -> tuple[list[Any], dict[Path, Any]]:
        """Results (None if not wanted, all or one by one) and records by path, in program order."""
        program = self._program
        sites = self.sites
        interpreter = self._interpreter(plants)
        queues = {path: unstack(plant, sites[path]) for path, plant in plants.items()}
        live = live_outs
        if isinstance(live, bool):
            live = [live] * len(program.out_avals)
        with explain_leaked_tracer():
            outs, reaps = interpreter.run(program.jaxpr, program.inputs, queues, live)
        gathered = interpreter.gather(reaps, sites)
        records = {p: gathered[p].or_zeros().record for p in sites if p in gathered}
        # JAX forwards literals as they are.
        outs = [
            None if x is None else jax_core.as_aval(x, a)
            for x, a in zip(outs, program.out_avals, strict=True)
        ]
        return outs, {path: jax.tree.map(jnp.asarray, r) for path, r in records.items()}

    def reads(self, operand: int, plants: Mapping[Path, Any]) -> bool:
        """Whether any record depends on an operand, with the plants in place."""
        nothing = [False] * len(self._program.out_avals)
        return self.needs(plants, nothing)[len(self._program.consts) + operand]

    def needs(self, plants: Mapping[Path, Any], live_outs: Sequence[bool]) -> Mask:
        """Mask of the inputs that some results and all records depend on, with the plants."""
        return self._interpreter(plants).liveness.inputs(self._program.jaxpr, live_outs)

    def live_equations(self, plants: Mapping[Path, Any]) -> list[Any]:
        """The equations that the records depend on, with the plants in place."""
        nothing = [False] * len(self._program.out_avals)
        jaxpr = self._program.jaxpr
        needs = self._interpreter(plants).liveness.equations(jaxpr, nothing)
        eqns = jaxprs.raw(jaxpr)[0].eqns
        return [eqn for eqn, need in zip(eqns, needs, strict=True) if need is not None]

    def _interpreter(self, plants: Mapping[Path, Any]) -> Interpreter:
        return Interpreter(self._action, CONSTRUCTS, plants, self._survey)


def rewrite(program: Program, action: Action) -> Program:
    """The program with its sites as an action sows them again."""
    inputs = [
        struct_of(v.aval) if x is None else x
        for x, v in zip(program.inputs, program.jaxpr.invars, strict=True)
    ]

    def run(*inputs: Any) -> list[Any]:
        bare = dataclasses.replace(program, consts=[], operands=list(inputs))
        return Harvester(bare, action).run({})[0]

    traced = trace(run, tuple(inputs), {})
    consts = [*traced.consts, *program.consts]
    return Program(traced.jaxpr, consts, program.operands, program.unflatten)
