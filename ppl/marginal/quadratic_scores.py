"""Scores of a program as polynomials in some of its sites, which must be jointly quadratic."""

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ppl.analysis.summed_sites import find_eliminated
from ppl.common import distribution_protocol
from ppl.common.missing_data import is_imputed, missing_entries
from ppl.core.model_run import SiteAction, apply_at_site
from ppl.harvest.interpreter import Operands
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, describe, describe_all
from ppl.marginal.degree import CONSTANT, Degree, find_degrees
from ppl.marginal.score_tables import score_parts
from ppl.primitives.site_kinds import FACTOR, RANDOM


@dataclasses.dataclass(frozen=True)
class Score(SiteAction):
    """Action that plants values and records the scores of some sites.

    Attributes:
        wanted: The sites whose scores are recorded.
        integrated: Sites to integrate over, arrays of real numbers without bounds.
        strategy: What integrates over them, in errors.
    """

    wanted: frozenset[Path] = frozenset()
    integrated: frozenset[Path] = frozenset()
    strategy: str = ""
    tags: ClassVar = (RANDOM, FACTOR)
    at_once: ClassVar[bool] = True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution for a score and for known data."""
        has_data = site.path in self.integrated and is_imputed(site)
        return not planted, False, site.path in self.wanted or has_data

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, with the known entries of an integrated site, and its score."""
        values = operands.values if plant is None else plant
        rest = None
        if site.path in self.integrated:
            check = functools.partial(_check_real, site, values, self.strategy)
            apply_at_site(site, operands, values, lambda _, d: check(d))
            if is_imputed(site):
                values, rest = _merge_known(site, operands, values)
        if site.path not in self.wanted:
            return values, None
        values, score = score_parts(site, operands, values)
        if rest is not None:
            score += jnp.sum(rest, range(score.ndim, rest.ndim))
        return values, score


@dataclasses.dataclass(frozen=True)
class MergeKnown(SiteAction):
    """Action that plants values, and records values of some sites with known entries put in."""

    wanted: frozenset[Path]
    tags: ClassVar = (RANDOM,)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution, which holds the data."""
        return not planted, False, site.path in self.wanted

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, and the record."""
        values = operands.values if plant is None else plant
        if site.path not in self.wanted:
            return values, None
        values, _ = _merge_known(site, operands, values)
        return values, values[0]


def _merge_known(
    site: Site, operands: Operands, values: Sequence[Any]
) -> tuple[list[jax.Array], jax.Array]:
    """A value with the known entries of its site, and the log density of the replaced entries.

    Replaced entries are scored as standard normal. So an integral over all entries equals the
    integral over the missing entries.
    """

    def of(x, d):
        return (d.merge_known(x), jnp.broadcast_to(missing_entries(d), x.shape))

    merged, missing = apply_at_site(site, operands, values, of)
    log_prob = -(jnp.square(values[0]) + math.log(2 * math.pi)) / 2
    return [merged], jnp.where(missing, 0, log_prob)


@dataclasses.dataclass(frozen=True)
class TracedScores:
    """A program of the scores of another program, as functions of its inputs and random values.

    Each score is summed to one number.

    Attributes:
        jaxpr: The program of the scores.
        names: For each input of the jaxpr, the path of its site; None for an input of the program.
        scored: The sites in the order of the scores.
        program: The jaxpr of the other program.
    """

    jaxpr: Any
    names: Sequence[Path | None]
    scored: Sequence[Path]
    program: Any

    @classmethod
    def of(
        cls,
        jaxpr: Any,
        plants: Mapping[Path, Sequence[Any]],
        scored: Sequence[Path],
        integrated: Collection[Path] = (),
        strategy: str = "",
    ) -> "TracedScores":
        """The scores of a program.

        Args:
            jaxpr: The program, without constants.
            plants: The abstract values of all random sites.
            scored: The sites whose scores are recorded.
            integrated: Sites to integrate over, arrays of real numbers without bounds.
            strategy: The name of the strategy that integrates, for errors.

        Raises:
            ValueError: If a site of `integrated` is not real.
        """
        inputs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.invars]
        shapes = {
            path: [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in each]
            for path, each in plants.items()
        }
        names = [None] * len(inputs) + [path for path, each in shapes.items() for _ in each]

        def scores(inputs: Any, plants: Any) -> list[jax.Array]:
            program = Program(jaxpr, list(inputs), [], lambda leaves: leaves)
            action = Score(frozenset(scored), frozenset(integrated), strategy)
            found = Harvester(program, action).run(plants, live_outs=False)[1]
            return [jnp.sum(found[path]) for path in scored]

        traced = jax.make_jaxpr(scores)(inputs, PathDict(shapes))
        return cls(traced, names, scored, jaxpr)

    def degrees(self, sites: Collection[Path]) -> dict[Path, Degree]:
        """The degree of each score in some sites together."""
        operands = [
            Degree(1, frozenset([name])) if name in sites else CONSTANT for name in self.names
        ]
        return dict(zip(self.scored, find_degrees(self.jaxpr, operands), strict=True))

    def check(self, sites: Sequence[Path]) -> dict[Path, Degree]:
        """The degree of each score in some sites together, at most 2.

        Raises:
            ValueError: If the sites are not jointly normal given all others.
        """
        found = self.degrees(sites)
        alone = {path: self.degrees([path]) for path in sites}
        for path, degree in found.items():
            if degree.cause is not None:
                guilty = [site for site in sites if alone[site][path].cause is not None]
                before = find_eliminated(self.program).get(path, ())
                raise ValueError(_explain_degree(path, degree.cause, guilty, before))
        for path in sites:
            if max(degree.degree for degree in alone[path].values()) < 2:
                raise ValueError(
                    f"marginalize: site {describe(path)} is improper given the rest, as no score "
                    "is quadratic in it. Give it a proper prior, or data that depend on it."
                )
        return found


def _check_real(site: Site, values: Sequence[Any], strategy: str, d: Any) -> tuple[()]:
    where = f"marginalize: site {describe(site.path)}"
    if len(values) != 1 or not jnp.issubdtype(values[0].dtype, jnp.floating):
        is_discrete = len(values) == 1
        raise ValueError(
            f"{where} is no array of real numbers, which {strategy}() integrates over. "
            + (
                "Sum discrete sites by ppl.Enumerate()."
                if is_discrete
                else "Draw its parts as sites of their own."
            )
        )
    support = getattr(d, "support", None)
    is_real = distribution_protocol.is_real(d) if support is None else support.is_unrestricted
    if not is_real:
        name = distribution_protocol.name_of(d)
        raise ValueError(
            f"{where} has the family {name}, whose support is not the whole real line; "
            f"{strategy}() integrates over all real numbers. Leave it among the sites to sample."
        )
    return ()


# Products of sparse matrices that are linear, but have no rule for `vmap`.
_NOT_BATCHED = frozenset(["coo_matmat", "coo_matvec", "csr_matmat", "csr_matvec"])


def _explain_degree(path: Path, cause: Any, guilty: Sequence[Path], before: Sequence[Path]) -> str:
    operation, variables = cause
    if before:
        sites = guilty or sorted(variables)
        return (
            f"marginalize: the log probability of site {describe(path)} is a sum or an integral "
            f"over {describe_all(before)}, which was taken out before, and ppl.Gaussian() does not "
            f"look into it for {describe_all(sites)}. Take all of them out in one call of "
            f"ppl.marginalize, or leave {describe_all(sites)} among the sites to sample."
        )
    if operation in _NOT_BATCHED:
        return (
            f"marginalize: the log probability of site {describe(path)} depends on "
            f"{describe_all(guilty or sorted(variables))} by the operation {operation!r}, which "
            "JAX cannot map over a batch. ppl.Gaussian() needs that: make the sparse matrix a "
            "jax.experimental.sparse.BCOO or BCSR."
        )
    together = "" if guilty or len(variables) < 2 else "jointly "
    sites = guilty or sorted(variables)
    return (
        f"marginalize: the log probability of site {describe(path)} is not {together}quadratic in "
        f"{describe_all(sites)}, by the operation {operation!r}. ppl.Gaussian() integrates over "
        "sites that are jointly normal given all others. Leave "
        f"{'one of them' if together else describe_all(sites)} among the sites to sample."
    )
