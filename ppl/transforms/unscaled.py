"""unscaled: a program whose scores have no factors of `scale`."""

import dataclasses
from typing import Any

import jax

from ppl.common.scaled_distribution import factors_at, unscaled_terms, without_factors
from ppl.core.site_rewriting import RewriteSites, replace_distribution
from ppl.harvest.interpreter import Operands
from ppl.harvest.program import Program, rewrite
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Sites
from ppl.primitives.site_kinds import FACTOR, RANDOM


@dataclasses.dataclass(frozen=True)
class Unscale(RewriteSites):
    """Action that sows all sites again without the factors of their scores."""

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site without factors."""
        if site.tag == RANDOM and factors_at(site):
            site, operands = replace_distribution(site, operands, without_factors)
        elif site.tag == FACTOR and site.num_extras:
            values = (unscaled_terms(site, operands.extras),)
            operands = dataclasses.replace(operands, values=values, extras=())
            axes = tuple(dataclasses.replace(axis, mapped=()) for axis in site.axes)
            nothing = jax.tree.structure(None)
            site = dataclasses.replace(site, extra_tree=nothing, axes=axes)
        return site, operands


def unscaled(program: Program, sites: Sites) -> Program:
    """The program with all factors of `scale` removed from the scores of sites."""
    if not any(map(factors_at, [site for found in sites.values() for site in found.sites])):
        return program
    return rewrite(program, Unscale())
