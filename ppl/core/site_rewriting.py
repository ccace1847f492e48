"""Rewriting of sites: the sites of a program sown again, with other distributions or values."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.common.missing_data import Imputed, is_imputed
from ppl.core.joint_scores import JointlyScored, joint_scores_of
from ppl.core.model_run import SiteAction
from ppl.harvest.harvesting import sow_again
from ppl.harvest.interpreter import Operands
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Axis, Site
from ppl.harvest.survey import Path
from ppl.primitives.draw_primitive import hash_of_path
from ppl.primitives.site_kinds import LATENT, OBSERVED, RANDOM, kind_of


class RewriteSites(SiteAction):
    """Base class of actions that sow all sites again, and change some sites."""

    records = False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands."""
        return True, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The site sown again."""
        return sow_again(*self.rewrite(site, operands, plant)), None

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site and the operands to sow again."""
        raise NotImplementedError


def replace_distribution(
    site: Site, operands: Operands, make: Callable[[Any], Any], by_element: Sequence[Any] = ()
) -> tuple[Site, Operands]:
    """Replace the distribution of a random site by `make(distribution)`, a wrapper around it.

    Args:
        site: The site.
        operands: Its operands.
        make: A function from the distribution to the wrapper.
        by_element: Arrays in the wrapper that differ between elements: their first axes are the
            outermost `vmap` axes of the site, as many as an array has axes for. All other arrays
            that the wrapper adds are equal for all elements.

    Returns:
        The site and its operands with the wrapper.
    """
    made = []

    def make_for_element(*leaves: Any) -> tuple[()]:
        wrapped, tree = jax.tree.flatten(make(jax.tree.unflatten(site.extra_tree, leaves)))
        places = {id(leaf): place for place, leaf in enumerate(leaves)}
        made.append((tree, [(places.get(id(leaf)), leaf) for leaf in wrapped]))
        return ()

    # Abstract elements: the structure has to know parameters without the axes of `vmap`.
    jax.eval_shape(lift(make_for_element, site.axes), *operands.extras)
    tree, leaves = made[-1]
    mapped = {id(leaf) for leaf in by_element}

    def maps(axis: Axis, depth: int) -> Iterator[bool]:
        for place, leaf in leaves:
            is_mapped = id(leaf) in mapped and depth < jnp.ndim(leaf)
            yield is_mapped if place is None else axis.mapped[place]

    outermost = range(len(site.axes) - 1, -1, -1)
    axes = tuple(
        dataclasses.replace(axis, mapped=tuple(maps(axis, depth)))
        for axis, depth in zip(site.axes, outermost, strict=True)
    )
    site = dataclasses.replace(site, extra_tree=tree, axes=axes)
    extras = (leaf if place is None else operands.extras[place] for place, leaf in leaves)
    return site, dataclasses.replace(operands, extras=tuple(map(jnp.asarray, extras)))


@dataclasses.dataclass(frozen=True)
class Redraw(RewriteSites):
    """Action of `unobserve`: data are replaced by a draw from the distribution of their site."""

    tags: ClassVar = (RANDOM,)

    def strips(self, site: Site) -> bool:
        """False: no site is removed."""
        return False

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """A site whose data are replaced by a draw.

        Sites that depend on sites taken out are drawn given one joint draw of these.
        """
        is_joint = bool(joint_scores_of(site))
        if not (is_joint or kind_of(site) == OBSERVED or is_imputed(site)):
            return site, operands
        operands = dataclasses.replace(operands, values=_draw(site, operands))
        if is_imputed(site):
            site, operands = replace_distribution(site, operands, _without_gaps)
        return dataclasses.replace(site, note=LATENT), operands


@dataclasses.dataclass(frozen=True)
class _RedrawOne(Redraw):
    """Action that plants values, redraws all other data, and records the value of one site."""

    wanted: Path
    records = True
    resows = True

    def strips(self, site: Site) -> bool:
        """Whether the site is not random, and so removed: a run records only one random site."""
        return SiteAction.strips(self, site)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, or the drawn value, and the record."""
        if plant is None:
            plant = self.rewrite(site, operands, None)[1].values
        return plant, list(plant) if site.path == self.wanted else None


def redraw_one(program: Program, wanted: Path, plants: Any) -> list[Any]:
    """The leaves of one site of a program; data without a planted value are drawn anew."""
    return Harvester(program, _RedrawOne(wanted)).run(plants, live_outs=False)[1][wanted]


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
