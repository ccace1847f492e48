"""Sites of a marginalized model: their distributions, and the actions that rewrite them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.core.joint_scores import JointlyScored, score_by_step
from ppl.core.model_run import SiteAction, apply_at_site, log_prob
from ppl.core.site_rewriting import redraw_one
from ppl.harvest.harvesting import sow_again
from ppl.harvest.interpreter import Operands
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester, Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Found, Path, describe, describe_all
from ppl.marginal.block_integral import BlockIntegral
from ppl.marginal.summation import Summation
from ppl.primitives.site_kinds import FACTOR, RANDOM, Hidden


@register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Marginal(JointlyScored):
    """The distribution of a site that depends on summed sites, with these sites summed out.

    Attributes:
        base: The distribution of the site for one choice of states of the summed sites. Only its
            support and its map from unconstrained space are used.
        inputs: The inputs of the program.
        plants: The values of other sites.
        summation: The sum.
        is_bounded: Whether the support depends on summed sites, or on values of the site itself in
            earlier steps of a loop. Then the support of the base is only one of several supports.
    """

    inputs: list[Any]
    plants: PathDict
    summation: Summation | BlockIntegral = dataclasses.field(metadata={"static": True})
    is_bounded: bool = dataclasses.field(metadata={"static": True})

    def __repr__(self) -> str:
        """The family, and the sites that are summed or integrated out, without the program."""
        how = "summed" if isinstance(self.summation, Summation) else "integrated"
        return f"{type(self.base).__name__} {how} over {describe_all(self.summation.sites)}"

    def log_prob(self, value: Any) -> jax.Array:
        """The log of the sum over all states: in the shape of the site's own log probability.

        Entries that depend on one another have one joint number.
        """
        if not self.is_host:
            if self.support is None or self.support.is_unrestricted:
                return jnp.zeros(())
            # If a value lies outside of the support, the host sees a point of the support instead.
            return jnp.where(jnp.all(self.is_possible(value)), 0.0, -jnp.inf)
        plants = {**self.plants, self.path: tuple(jax.tree.leaves(value))}
        found = log_prob_at(self.summation, self.path, self.inputs, plants, self.by_step)
        if self.scores is None or found.shape != self.scores.sizes:
            return found
        return self.scores.arrange(found)

    def draw_with_others(self, key: jax.Array) -> list[Any]:
        """The leaves of a draw of the program before the sum, given the sites before this one.

        With one key, all sites that depend on a summed site see the same draw of it.
        """
        inputs = [key if x is None else x for x in self.inputs]
        program = Program(self.summation.jaxpr, inputs, [], list)
        return redraw_one(program, self.path, self.plants)

    def is_possible(self, value: Any) -> Any:
        """Whether each event lies in the support; True if the support varies."""
        return True if self.is_bounded else super().is_possible(value)

    def count_cut_off(self, value: Any) -> Any:
        """The number of integers in a draw that are cut off; 0 if the support varies."""
        return 0 if self.is_bounded else super().count_cut_off(value)

    def sample(self, key: jax.Array) -> Any:
        """An error: a draw needs values of the sites that were taken out."""
        raise NotImplementedError(
            f"site {describe(self.path)} has no draws by itself, as it depends on "
            f"{describe_all(self.summation.sites)}, which ppl.marginalize has taken out. Draw the "
            "whole model: ppl.simulate(model) from the prior, ppl.predict given posterior draws."
        )

    @property
    def support(self) -> Any:
        """The set of values with positive density, or None if the support varies."""
        return None if self.is_bounded else super().support

    @property
    def bijector(self) -> Any:
        """The map from unconstrained space onto the support."""
        found = super().bijector
        self._check_space()
        return found

    def forward(self, position: Any) -> Any:
        """The value at an unconstrained position."""
        value = super().forward(position)
        self._check_space()
        return value

    def inverse(self, value: Any) -> Any:
        """The unconstrained position of a value."""
        position = super().inverse(value)
        self._check_space()
        return position

    def _check_space(self) -> None:
        if self.is_bounded:
            raise ValueError(
                f"marginalize: the support of site {describe(self.path)} depends on a summed site "
                "or an integrated one, or on its own values in a loop, so that it has no "
                "unconstrained space of its own. Condition on it, or give it a support that does "
                "not."
            )

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The value at a position, and the log density of the position."""
        value, log_det, log_prob = self.constrain_apart(position)
        return value, log_det + distribution_protocol.sum_all(log_prob)

    def constrain_apart(self, position: Any) -> tuple[Any, jax.Array, jax.Array]:
        """The value at a position, the log determinant of the map, and the log probability."""
        self._check_space()
        value, log_density = distribution_protocol.constrain(self.base, position)
        log_prob = distribution_protocol.sum_all(distribution_protocol.log_prob(self.base, value))
        # Where the base has no density, so that this is not known, values are their own positions.
        unknown = -jnp.inf if self.moves else 0.0
        log_det = jnp.where(jnp.isfinite(log_prob), log_density - log_prob, unknown)
        return value, log_det, self.log_prob(value) if self.is_host else jnp.zeros(())


def group_of(summation: Summation | BlockIntegral, path: Path) -> Any:
    """A key of the group of sites that are scored together with a site."""
    return summation.groups[path] or path


def is_alone(summation: Summation | BlockIntegral, path: Path) -> bool:
    """Whether a score depends on none of the summed sites, given the values of all others."""
    is_apart = isinstance(summation, Summation) and path in summation.untouched
    return is_apart or not summation.groups[path]


def log_prob_at(
    summation: Summation | BlockIntegral,
    path: Path,
    inputs: Sequence[Any],
    plants: Mapping[Path, Sequence[Any]],
    by_step: bool,
) -> jax.Array:
    """The log probability of a site's group, or of the site if it depends on no summed site."""
    if is_alone(summation, path):
        return score_alone(summation, path, inputs, plants, by_step)
    if by_step and isinstance(summation, BlockIntegral):
        return summation.log_prob_of_groups(summation.groups[path], inputs, plants)
    return summation.log_prob(summation.groups[path], inputs, plants)


def score_alone(
    summation: Summation | BlockIntegral,
    path: Path,
    inputs: Sequence[Any],
    plants: Mapping[Path, Sequence[Any]],
    by_step: bool,
) -> jax.Array:
    """The log probability of a site that does not depend on summed sites."""
    planted = frozenset([*plants, *summation.sites])
    action = ScoreOne(path, planted, by_step)
    run = Harvester(Program(summation.jaxpr, list(inputs), [], list), action)
    unread = {p: zeros_of(found) for p, found in run.sites.items() if p in summation.sites}
    return run.run({**unread, **plants}, live_outs=False)[1][path]


def zeros_of(found: Found) -> tuple[jax.Array, ...]:
    """Zeros as a site's values, for a result that does not depend on the values."""
    return tuple(jnp.zeros(a.shape, a.dtype) for a in found.collapse().avals)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Recovery:
    """The joint distribution of summed sites and the sites depending on them, given all others."""

    inputs: list[Any]
    plants: PathDict
    summation: Summation | BlockIntegral = dataclasses.field(metadata={"static": True})
    recorded: tuple[Path, ...] = dataclasses.field(metadata={"static": True})

    def sample(self, key: jax.Array, is_wanted: jax.Array | None = None) -> list[Any]:
        """The values of the summed and of the recorded sites, log weight and log total.

        With `is_wanted`, of an integral, values are a draw only where it is true.
        """
        # This key is for sites that an earlier sum took out, and for other keys of the program.
        again = jax.random.fold_in(key, len(self.summation.sites))
        inputs = [again if x is None else x for x in self.inputs]
        wanted = () if is_wanted is None else (is_wanted,)
        drawn, log_weight, log_total = self.summation.draw(key, inputs, self.plants, *wanted)
        return self._with_recorded(inputs, drawn, log_weight, log_total)

    def mode(self) -> list[Any]:
        """The most probable values of the summed sites, in the form of a draw."""
        found, log_total = self.summation.mode(self.inputs, self.plants)
        found = {path: x.astype(self.summation.aval(path).dtype) for path, x in found.items()}
        return self._with_recorded(self.inputs, found, jnp.zeros(()), log_total)

    def _with_recorded(
        self, inputs: Sequence[Any], summed: Mapping[Path, Any], log_weight: Any, log_total: Any
    ) -> list[Any]:
        """Values of the summed sites, those of the recorded sites, log weight and log total."""
        program = Program(self.summation.jaxpr, list(inputs), [], lambda leaves: leaves)
        plants = {**self.plants, **{path: (x,) for path, x in summed.items()}}
        action = RecordSites(wanted=frozenset(self.recorded))
        found = Harvester(program, action).run(plants, live_outs=False)[1]
        values = [summed[path] for path in self.summation.sites]  # A dict of JAX is sorted.
        return [values, [found[path] for path in self.recorded], [log_weight, log_total]]


@dataclasses.dataclass(frozen=True)
class Resow(SiteAction):
    """Action that sows some sites again and records their values; all other sites are hidden."""

    kept: frozenset[Path] = frozenset()
    resows = True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands of a site in `kept`."""
        return True, True, site.path in self.kept

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The site sown again, and its value."""
        if site.path not in self.kept:
            return operands.values, None
        values = sow_again(site, operands)
        return values, list(values) if site.tag == RANDOM else None


@dataclasses.dataclass(frozen=True)
class ScoreOne(SiteAction):
    """Action that plants values, and records the log probability of one site.

    Attributes:
        path: The site.
        planted: The sites whose values are planted; the score reads no other.
        by_step: Whether the score of an inner integral is kept as all its independent numbers.
    """

    path: Path
    planted: frozenset[Path]
    by_step: bool = False
    tags: ClassVar = (RANDOM, FACTOR)
    at_once: ClassVar[bool] = True

    def matches(self, site: Site) -> bool:
        """Whether a value is planted at the site, or the site is scored."""
        return super().matches(site) and (site.path in self.planted or site.path == self.path)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution of the site that is scored."""
        return not planted, False, site.path == self.path

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, and its log probability at the site that is scored."""
        values = operands.values if plant is None else plant
        if site.path != self.path:
            return values, None
        return values, log_prob(score_by_step(site) if self.by_step else site, operands, values)


@dataclasses.dataclass(frozen=True)
class RecordSites(SiteAction):
    """Action that plants values, and records the values or the distributions of some sites.

    Attributes:
        wanted: The sites that are recorded.
        distributions: Whether their distributions are recorded, not their values.
        planted: The sites whose values are planted; other sites are drawn where they are needed.
            None to match all sites.
    """

    wanted: frozenset[Path] = frozenset()
    distributions: bool = False
    planted: frozenset[Path] | None = None

    def matches(self, site: Site) -> bool:
        """Whether the site is a site of a model, or a draw of sites that were summed out before."""
        is_known = self.planted is None or site.path in self.planted | self.wanted
        return is_known and (super().matches(site) or site.tag == Hidden.RECOVERED)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution if it is wanted."""
        is_wanted = site.path in self.wanted
        return not planted, False, self.distributions and is_wanted

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, or the drawn value, and the record."""
        values = operands.values if plant is None else plant
        if site.path not in self.wanted:
            return values, None
        if self.distributions:

            def of(_, d):
                return distribution_protocol.with_all_batch_axes(d)

            return values, apply_at_site(site, operands, values, of)
        return values, jax.tree.unflatten(site.tree, values)
