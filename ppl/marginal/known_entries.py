"""Known entries of sites that `impute` observes in part, scored apart from missing entries."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.common.missing_data import is_imputed, missing_entries
from ppl.core.site_rewriting import RewriteSites, replace_distribution
from ppl.harvest.interpreter import Operands
from ppl.harvest.program import Harvester, Program, rewrite
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites
from ppl.marginal.marginal_sites import ScoreOne, zeros_of


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Counted(distribution_protocol.DistributionWrapper):
    """A distribution observed in part that scores only its missing or only its known entries.

    Attributes:
        base: The distribution.
        of_missing: Whether the missing entries count; else the known entries do.
    """

    base: Any
    of_missing: bool = dataclasses.field(metadata={"static": True})

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of each entry, 0 for entries that do not count.

        An event with a single log probability for several entries counts as a whole.
        """
        found = distribution_protocol.log_prob(self.base, value)
        missing = missing_entries(self.base)
        if missing.ndim > found.ndim:
            return found
        return jnp.where(missing == self.of_missing, found, 0)


@dataclasses.dataclass(frozen=True)
class CountEntries(RewriteSites):
    """Action that sows all sites again, with the distributions of `paths` as `Counted`."""

    paths: frozenset[Path]
    of_missing: bool

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site with only some of its entries counted, if it is in `paths`."""
        if site.path in self.paths:

            def make(d):
                return Counted(d, self.of_missing)

            site, operands = replace_distribution(site, operands, make)
        return site, operands


def count_entries(program: Program, paths: Collection[Path], *, of_missing: bool) -> Program:
    """The program with only the missing, or only the known, entries of some sites counted."""
    if not paths:
        return program
    return rewrite(program, CountEntries(frozenset(paths), of_missing))


def score_known(
    program: Program, sites: Sites, paths: Sequence[Path], plants: Mapping[Path, Sequence[Any]]
) -> dict[Path, jax.Array]:
    """The log probabilities of the known entries of sites, 0 at the missing entries.

    Sites are left out unless `impute` observes them in part, outside of branches, and each entry
    has a log probability of its own.

    Args:
        program: The program.
        sites: Its sites.
        paths: The sites whose known entries are scored.
        plants: The values of all sites that these depend on.
    """
    paths = [p for p in paths if not sites[p].branches and is_imputed(sites[p].site)]
    counted = count_entries(program, paths, of_missing=False)
    found = {}
    for path in paths:
        values = {**plants, path: zeros_of(sites[path])}
        run = Harvester(counted, ScoreOne(path, frozenset(values)))
        score = run.run(values, live_outs=False)[1][path]
        if score.shape == sites[path].collapse().avals[0].shape:
            found[path] = score
    return found
