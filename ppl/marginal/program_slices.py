"""Slices of a program: the equations that the scores or the values of some sites are made of."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.hidden_sows import hides_sow
from ppl.harvest.program import Program
from ppl.harvest.sowing import sow_p
from ppl.harvest.survey import Path
from ppl.primitives.site_kinds import FACTOR, RANDOM


@dataclasses.dataclass(frozen=True)
class Slice:
    """Some equations of a program, in their order.

    Attributes:
        jaxpr: The program without all other equations, the inputs that these alone read, and
            results. What these make, and no site that is looked at reads, are its last inputs.
        paths: The sites in these equations.
        inputs: The inputs of the whole program that are left, by number.
        num_unread: The number of the last inputs.
    """

    jaxpr: Any
    paths: tuple[Path, ...]
    inputs: Sequence[int]
    num_unread: int

    def program(self, inputs: Sequence[Any]) -> Program:
        """The slice with the inputs of the whole program."""
        mine = [inputs[i] for i in self.inputs]
        return Program(self.jaxpr, [*mine, *[None] * self.num_unread], [], list)

    def pick(self, plants: Mapping[Path, Any]) -> dict[Path, Any]:
        """The plants for sites in the slice."""
        return {path: plants[path] for path in self.paths if path in plants}


class Slicer:
    """Takes slices of a program, each in a time that its own equations need.

    An equation with inner programs is taken whole. So is a program with effects besides sites.
    """

    def __init__(self, jaxpr: Any):
        self._jaxpr = jaxpr
        self._eqns = jaxprs.raw(jaxpr)[0].eqns
        self._is_whole = any(_acts(eqn) or hides_sow(eqn) for eqn in self._eqns)
        self._paths = [tuple(dict.fromkeys(_paths_in(eqn))) for eqn in self._eqns]
        self._inputs = {v: i for i, v in enumerate(jaxprs.raw(jaxpr)[0].invars)}
        self._made_in = {v: i for i, eqn in enumerate(self._eqns) for v in eqn.outvars}
        self._sown_in: dict[Path, list[int]] = {}
        for i, paths in enumerate(self._paths):
            for path in paths:
                self._sown_in.setdefault(path, []).append(i)

    def cut(
        self, wanted: Collection[Path], planted: Collection[Path], *, distributions: bool = True
    ) -> Slice:
        """The slice that some sites are made of.

        Args:
            wanted: The sites.
            planted: Sites whose values are planted: what they are made of is not looked at.
            distributions: Whether the distributions of the wanted sites are looked at, or only
                their values.
        """
        if self._is_whole:
            return Slice(self._jaxpr, tuple(self._sown_in), range(len(self._inputs)), 0)
        wanted = frozenset(wanted)
        read = wanted if distributions else frozenset()
        new = [i for path in wanted for i in self._sown_in.get(path, ())]
        taken = set(new)
        while new:
            for v in _operands_read(self._eqns[new.pop()], planted, read):
                i = None if isinstance(v, jex.Literal) else self._made_in.get(v)
                if i is not None and i not in taken:
                    taken.add(i)
                    new.append(i)
        order = sorted(taken)
        eqns = [self._eqns[i] for i in order]
        inner = jaxprs.raw(self._jaxpr)[0]
        made = {v for eqn in eqns for v in eqn.outvars}.union(inner.constvars)
        operands = dict.fromkeys(
            v for eqn in eqns for v in eqn.invars if not isinstance(v, jex.Literal)
        )
        inputs = {v: self._inputs[v] for v in operands if v in self._inputs}
        unread = [v for v in operands if v not in made and v not in inputs]
        jaxpr = inner.replace(eqns=eqns, invars=[*inputs, *unread], outvars=[])
        paths = dict.fromkeys(path for i in order for path in self._paths[i])
        return Slice(jaxpr, tuple(paths), tuple(inputs.values()), len(unread))


def _acts(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation has an effect besides its results and its sites."""
    kinds = {type(effect) for effect in eqn.effects} - {jax_core.SowEffect}
    return any(kind.__name__ != "NamedAxisEffect" for kind in kinds)


def _paths_in(eqn: jex.JaxprEqn) -> list[Path]:
    """The paths of the sites in an equation, at any depth."""
    if eqn.primitive is sow_p:
        return [eqn.params["site"].path]
    if not jax_core.has_sow(eqn):
        return []
    inner = [e for jaxpr in jax_core.subjaxprs(eqn) for e in jaxprs.raw(jaxpr)[0].eqns]
    return [path for e in inner for path in _paths_in(e)]


def _operands_read(
    eqn: jex.JaxprEqn, planted: Collection[Path], read: Collection[Path]
) -> list[Any]:
    """The operands of an equation that are read; `read` are the sites whose distribution is."""
    if eqn.primitive is not sow_p or eqn.params["site"].tag not in (RANDOM, FACTOR):
        return list(eqn.invars)
    site = eqn.params["site"]
    values, pred, extras, _ = site.split(eqn.invars)
    found = [] if pred is None else [pred]
    if site.path not in planted:
        found += values
    if site.path in read:
        found += extras
    return found
