"""Sows in a model that are not sites: parameters, and sows under a user's own tags.

A rewritten model is evaluated several times, but must sow each of these values only once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ppl.harvest.harvesting import sow_again
from ppl.harvest.interpreter import Action, Operands
from ppl.harvest.program import Harvester, Program, trace
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Survey
from ppl.primitives.param import PARAM_VALUE
from ppl.primitives.site_kinds import PARAM, STATE, TAGS, Hidden

_VALUES = (PARAM_VALUE, STATE)  # the tags of numbers that a fit gives to a model
_OF_PARAMS = (PARAM, *_VALUES)


class Separated(NamedTuple):
    """A program without its parameters, and with or without a user's own sows.

    Values of parameters are constants of both programs.

    Attributes:
        of_sites: The program that sows only sites of a model.
        of_all: The program that also sows under tags of a user's own.
    """

    of_sites: Program
    of_all: Program


def separate(program: Program, key: Any) -> Separated:
    """Sow the parameters of a program here, and give the program that has their values."""
    has_params = bool(Survey(_is_param, lambda _: False, CONSTRUCTS)(program.jaxpr))
    has_own = bool(Survey(_is_known, lambda _: False, CONSTRUCTS).staying(program.jaxpr))
    of_all = program
    if has_params:
        params = Harvester(program, SowParams()).run({}, live_outs=False)[1]
        of_all = _trace_again(program, key, PlantParams(), params)
    of_sites = _trace_again(of_all, key, PlantParams(strips_own=True), {}) if has_own else of_all
    return Separated(of_sites, of_all)


def _is_param(site: Site) -> bool:
    return site.tag in (PARAM, STATE)


def _is_known(site: Site) -> bool:
    """Whether a sow is a site of a model or a parameter."""
    return site.tag in (*TAGS, *_OF_PARAMS) or isinstance(site.tag, Hidden)


def _trace_again(
    program: Program, key: Any, action: Action, plants: Mapping[Path, Sequence[Any]]
) -> Program:
    """The program under an action, as a function of its key."""
    at = len(program.consts)

    def of_key(key: Any) -> list[Any]:
        operands = [key, *program.inputs[at + 1 :]]
        again = dataclasses.replace(program, operands=operands)
        return Harvester(again, action).run(plants)[0]

    traced = trace(of_key, (key,), {})
    return dataclasses.replace(traced, unflatten=lambda x: program.unflatten(traced.unflatten(x)))


@dataclasses.dataclass(frozen=True)
class SowParams(Action):
    """Action that sows parameters again, and records their values; other sows are removed."""

    resows = True

    def matches(self, site: Site) -> bool:
        """Whether the sow is of the value of a parameter, or of state."""
        return site.tag in _VALUES

    def strips(self, site: Site) -> bool:
        """Whether the sow belongs neither to a parameter nor to state."""
        return site.tag not in _OF_PARAMS

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands."""
        return True, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The value sown again, and its record."""
        values = sow_again(site, operands)
        return values, list(values)


@dataclasses.dataclass(frozen=True)
class PlantParams(Action):
    """Action that plants values of parameters.

    Attributes:
        strips_own: Whether sows under tags of a user's own are removed.
    """

    strips_own: bool = False

    def matches(self, site: Site) -> bool:
        """Whether the sow is of the value of a parameter, or of state."""
        return site.tag in _VALUES

    def strips(self, site: Site) -> bool:
        """Whether the sow is of the position of a parameter, or a user's own."""
        return site.tag == PARAM or (self.strips_own and not _is_known(site))

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value."""
        return plant, None
