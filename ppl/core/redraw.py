"""Redraw: data of a program give way to draws from the distributions of their sites."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from ppl.common import distribution_protocol
from ppl.common.missing_data import Imputed, is_imputed
from ppl.core.joint_scores import JointlyScored, joint_scores_of
from ppl.core.model_run import SiteAction
from ppl.core.replaced_distribution import replace_distribution
from ppl.harvest.harvesting import sow_again
from ppl.harvest.interpreter import Operands
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path
from ppl.primitives.draw_primitive import hash_of_path
from ppl.primitives.site_kinds import LATENT, OBSERVED, RANDOM, kind_of


@dataclasses.dataclass(frozen=True)
class Redraw(SiteAction):
    """Action of `unobserve`: data give way to a draw from the distribution of their site."""

    tags: ClassVar = (RANDOM,)
    records = False

    def strips(self, site: Site) -> bool:
        """No site is taken out."""
        return False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, the predicate and the distribution."""
        return True, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Sow a draw in place of data; any other value as it is."""
        site, operands = _redraw(site, operands)
        return sow_again(site, operands), None


@dataclasses.dataclass(frozen=True)
class _RedrawOne(Redraw):
    """Action that plants values, redraws all other data, and records the value of one site."""

    wanted: Path
    records = True
    resows = True

    def strips(self, site: Site) -> bool:
        """Deterministic sites and factors: the program is run once for each site that is drawn."""
        return SiteAction.strips(self, site)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, or the drawn one, and what is recorded."""
        if plant is None:
            plant = _redraw(site, operands)[1].values
        return plant, list(plant) if site.path == self.wanted else None


def redraw_one(program: Program, wanted: Path, plants: Any) -> list[Any]:
    """The leaves of one site of a program; data without a planted value are drawn anew."""
    return Harvester(program, _RedrawOne(wanted)).run(plants, live_outs=False)[1][wanted]


def _redraw(site: Site, operands: Operands) -> tuple[Site, Operands]:
    """A site with a draw in place of data.

    Sites that depend on sites taken out are drawn together with these, from one joint draw.
    """
    is_joint = bool(joint_scores_of(site))
    if not (is_joint or kind_of(site) == OBSERVED or is_imputed(site)):
        return site, operands
    operands = dataclasses.replace(operands, values=_draw(site, operands))
    if is_imputed(site):
        site, operands = replace_distribution(site, operands, _without_gaps)
    return dataclasses.replace(site, note=LATENT), operands


def _without_gaps(d: Any) -> Any:
    """The distribution without `Imputed`, so that no entry is known."""
    if isinstance(d, Imputed):
        return _without_gaps(d.base)
    if isinstance(d, distribution_protocol.DistributionWrapper):
        return dataclasses.replace(d, base=_without_gaps(d.base))  # pyright: ignore
    return d


def _draw(site: Site, operands: Operands) -> tuple[Any, ...]:
    """The leaves of the draw that `sample` makes at a site."""

    def one(key: Any, *leaves: Any) -> tuple[Any, ...]:
        d = jax.tree.unflatten(site.extra_tree, leaves)
        if (joint := _joint(d)) is not None:
            return tuple(joint.draw_with_others(key))
        key = jax.random.fold_in(key, hash_of_path(site.path))
        return tuple(jax.tree.leaves(distribution_protocol.draw(d, key)))

    for axis in site.axes:
        mapped = (0 if is_mapped else None for is_mapped in (axis.maps_key, *axis.mapped))
        one = jax.vmap(one, in_axes=tuple(mapped), axis_size=axis.size)
    drawn = one(operands.key, *operands.extras)
    return tuple(x.astype(old.dtype) for x, old in zip(drawn, operands.values, strict=True))


def _joint(d: Any) -> JointlyScored | None:
    """The wrapper within a distribution that scores the site with others, if there is one."""
    while isinstance(d, distribution_protocol.DistributionWrapper):
        if isinstance(d, JointlyScored):
            return d
        d = d.base
    return None
