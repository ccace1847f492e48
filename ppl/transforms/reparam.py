"""reparam: reparameterization of latent sites, so that samplers move more easily."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ppl.analysis.constant_sites import find_constant_sites, find_dependent_sites
from ppl.common import distribution_protocol
from ppl.common.missing_data import Imputed
from ppl.common.scaled_distribution import Scaled
from ppl.core.inside_sums import commutes
from ppl.core.joint_scores import JointlyScored
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.core.site_rewriting import RewriteSites, replace_distribution
from ppl.harvest.interpreter import Operands
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.program import Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, describe, join_scopes
from ppl.primitives.site_kinds import LATENT, RANDOM, kind_of
from ppl.transforms.reparam_strategies import LearnedCentering, Pushforward, Weighted
from ppl.transforms.standard_forms import has_centering_weight

Strategy = Callable[[Any], Any]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Reparameterized(distribution_protocol.DistributionWrapper):
    """A distribution in the coordinates of a strategy.

    Attributes:
        base: The distribution of the site.
        strategy: A function from the distribution to its `Pushforward`.
        site: The name of the site, for errors.
    """

    base: Any
    strategy: Strategy
    site: str = dataclasses.field(metadata={"static": True})

    @property
    def moves(self) -> bool:
        """Whether positions differ from positions of the base distribution: always true."""
        return True

    def forward(self, position: Any) -> Any:
        """The value at a position."""
        by = self._pushforward()
        return by.forward(distribution_protocol.forward(by.base, position))

    def inverse(self, value: Any) -> Any:
        """The position of a value."""
        by = self._pushforward()
        position = distribution_protocol.inverse(by.base, by.inverse(value))
        self._check_shape(value, jax.eval_shape(self.forward, position))
        return position

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The value at a position, and the log density of the position under the base."""
        by = self._pushforward()
        z, log_density = distribution_protocol.constrain(by.base, position)
        return by.forward(z), log_density

    def _check_shape(self, value: Any, image: Any) -> None:
        """Check that a strategy keeps the shape of a draw; a weight with an extra axis does not."""
        expected, got = (jax.tree.map(jnp.shape, tree) for tree in (value, image))
        if got != expected:
            raise ValueError(
                f"reparam: site {self.site}: a draw has the shape {expected}, but what the "
                f"strategy makes of it, {got}. Let the strategy keep the shape: a weight must "
                "broadcast to one draw, which has none of the axes of vmap and of loops."
            )

    def _pushforward(self) -> Pushforward:
        try:
            found = self.strategy(self.base)
        except NotImplementedError as error:
            raise ValueError(f"reparam: site {self.site}: {error}") from error
        except Exception as error:
            error.add_note(f"This is from the strategy that reparam has for site {self.site}.")
            raise
        if not isinstance(found, Pushforward):
            raise TypeError(
                f"reparam: site {self.site}: expected of the strategy ppl.Pushforward(base, "
                f"forward, inverse), got {found!r}."
            )
        return found


def is_learned(site: Site) -> bool:
    """Whether the centering of a site is learned, by the structure of its distribution."""
    tree = site.extra_tree
    while (data := tree.node_data()) and issubclass(
        data[0], distribution_protocol.DistributionWrapper
    ):
        parts = tree.children()
        if issubclass(data[0], Reparameterized):
            strategy = parts[1].node_data()
            return bool(strategy) and issubclass(strategy[0], LearnedCentering)
        tree = parts[0]
    return False


def weighted_base(d: Any) -> Any:
    """The distribution within wrappers that has a weight of centering for each element, or None.

    Its coordinates are those of `LearnedCentering`, or no strategy has changed them.
    """
    is_plain = True
    while isinstance(d, distribution_protocol.DistributionWrapper):
        if isinstance(d, Reparameterized):
            learns = isinstance(d.strategy, LearnedCentering) and has_centering_weight(d.base)
            return d.base if learns else None
        is_plain &= isinstance(d, Scaled | JointlyScored)
        d = d.base
    return d if is_plain and d is not None and has_centering_weight(d) else None


def with_weight(d: Any, weight: Any) -> Any:
    """A distribution at a weight for each element; as it is if it has none, as in some branch."""
    base = weighted_base(d)
    if base is None:
        return d
    if d is base:
        return Reparameterized(d, Weighted(weight), distribution_protocol.name_of(d))
    if isinstance(d, Reparameterized):
        return dataclasses.replace(d, strategy=Weighted(weight))
    return dataclasses.replace(d, base=with_weight(d.base, weight))


@dataclasses.dataclass(frozen=True)
class FindWeightedSites(SiteAction):
    """Action of `learnable_sites`: finds latent sites with weights of centering in a trace."""

    among: frozenset[Path]
    found: set[Path]
    tags = (RANDOM,)
    records = False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The sown value, without a record."""
        if site.path in self.among and kind_of(site) == LATENT:
            d = jax.tree.unflatten(site.extra_tree, operands.extras)
            if weighted_base(d) is not None:
                self.found.add(site.path)
        return operands.values, None


def learnable_sites(model: Model, program: Program) -> frozenset[Path]:
    """Paths of the sites whose centering could be learned: they depend on other latent sites."""
    found: set[Path] = set()
    among = find_dependent_sites(program.jaxpr)
    if among:
        ModelRun(model, program, FindWeightedSites(among, found)).run({})
    return frozenset(found)


@dataclasses.dataclass(frozen=True)
class Reparameterize(RewriteSites):
    """Action of `reparam`: gives latent sites coordinates, chosen by path or by a rule."""

    strategies: Mapping[Any, Strategy] = dataclasses.field(default_factory=dict)
    rule: Callable[..., Strategy | None] | None = None
    constants: frozenset[Path] | None = None

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site, its distribution wrapped if a strategy is chosen for it."""
        if kind_of(site) == LATENT:
            d = jax.tree.unflatten(site.extra_tree, operands.extras)
            strategy = self.strategies.get(site.path)
            if self.rule is not None and _is_free(d):
                told = {}
                if self.constants is not None:
                    told["is_constant"] = site.path in self.constants
                name = join_scopes(site.path)
                found = self.rule(name, unwrap_distribution(d), **told)
                where = f"reparam: the rule, of site {describe(site.path)}"
                strategy = None if found is None else _parse_strategy(where, found)
            if strategy is not None:

                def make(d):
                    return _wrap_with_strategy(d, strategy, describe(site.path))

                site, operands = replace_distribution(site, operands, make)
        return site, operands


def unwrap_distribution(d: Any) -> Any:
    """The innermost distribution, without the wrappers of model transformations."""
    return (
        unwrap_distribution(d.base)
        if isinstance(d, distribution_protocol.DistributionWrapper)
        else d
    )


def _is_free(d: Any) -> bool:
    """Whether a site may be reparameterized: not yet done, and not observed in part."""
    if isinstance(d, Imputed | Reparameterized):
        return False
    return not isinstance(d, distribution_protocol.DistributionWrapper) or _is_free(d.base)


def _wrap_with_strategy(d: Any, strategy: Strategy, site: str) -> Any:
    if isinstance(d, JointlyScored) and d.base is None:
        raise ValueError(
            f"reparam: site {site} depends on sites that were taken out, and has a distribution in "
            "each branch of a cond. Reparameterize before: "
            "ppl.marginalize(ppl.reparam(model, strategies), sites)."
        )
    if isinstance(d, Scaled | JointlyScored):
        return dataclasses.replace(d, base=_wrap_with_strategy(d.base, strategy, site))
    if isinstance(d, Imputed):
        raise ValueError(
            f"reparam: site {site} is observed in part, and has no other coordinates than its own."
        )
    if isinstance(d, Reparameterized):
        raise ValueError(f"reparam: site {site} is reparameterized already. Choose one strategy.")
    return Reparameterized(d, strategy, site)


def reparam(
    model: Model, strategies: Mapping[str, Any] | Callable[[str, Any], Strategy | None]
) -> Model:
    """Reparameterize latent sites: samplers and optimizers see them in other coordinates.

    Names, values, draws and densities of the sites stay as they are; only the positions of
    `unconstrain` change, and with them the geometry that an algorithm works in.

    Args:
        model: A function of a random key.
        strategies: A dict of strategies by latent site, nested as the scopes are, or a rule.

            - A strategy is `NonCentered()`, `PartiallyCentered(centeredness)`,
              `LearnedCentering()`, `Transformed()`, `Circular()`, or a function from the
              distribution of the site to a `Pushforward`. If such a function `f` needs a value of a
              `vmap` or loop around the site, give `jax.tree_util.Partial(f, value)` as the
              strategy; it is called as `f(value, distribution)`.
            - A rule is a function `(name, distribution) -> strategy or None`, such as
              `auto_reparam`. It is called for every latent site, except for sites observed in part
              and sites that are reparameterized already. If it has a parameter `is_constant`, it is
              told whether the distribution depends on no latent site and no argument of the model.

    Returns:
        A model with these coordinates: a pytree.

    Raises:
        ValueError: When the result is called or transformed, if a name is unknown or no latent
            site, or a site has been reparameterized already. When the result is unconstrained, if a
            strategy does not suit a distribution.
        TypeError: If the strategies are neither a dict nor a function.

    Example:
        >>> import ppl, distributions as dist
        >>> def funnel(key):
        ...     scale = ppl.sample(key, dist.LogNormal(0.0, 3.0), name="scale")
        ...     return ppl.sample(key, dist.Normal(0.0, scale), name="x")
        >>> target = ppl.unconstrain(ppl.reparam(funnel, {"x": ppl.NonCentered()}))
        >>> target.constrain({"scale": 0.0, "x": 2.0})["x"].item()
        2.0

    References:
        Papaspiliopoulos, Roberts and Sköld, "A general framework for the parametrization of
        hierarchical models", Statistical Science 22 (2007).
    """
    if not isinstance(strategies, Mapping):
        if not _takes_two(strategies):
            raise TypeError(
                "reparam: expected a dict of strategies by site or a rule (name, distribution) -> "
                f"strategy, got {short_repr(strategies)}."
            )
        return Partial(_run_by_rule, as_pytree(model), as_pytree(strategies))

    def as_pytrees(s):
        return s if isinstance(s, Mapping) else _parse_strategy("reparam", s)

    checked = jax.tree.map(as_pytrees, dict(strategies), is_leaf=lambda s: not isinstance(s, dict))
    return Partial(_run_reparameterized, as_pytree(model), checked)


def _takes_two(rule: Any) -> bool:
    try:
        inspect.signature(rule).bind("name", None)
    except TypeError:  # also if the rule is not callable
        return False
    except ValueError:  # a callable without a signature
        pass
    return True


def _parse_strategy(where: str, strategy: Any) -> Strategy:
    if not callable(strategy) or isinstance(strategy, type):
        raise TypeError(
            f"{where}: expected a strategy, as ppl.NonCentered() or a function of the "
            f"distribution, got {strategy!r}."
        )
    return as_pytree(strategy)


@functools.partial(commutes, by_name=True)
def _run_reparameterized(
    model: Model, strategies: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    program = trace_model(model, key, args, kwargs)
    entries = ModelRun(model, program, Reparameterize()).entries(strategies, "reparam")
    return ModelRun(model, program, Reparameterize(entries)).output({})


@commutes
def _run_by_rule(model: Model, rule: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
    program = trace_model(model, key, args, kwargs)
    constants = find_constant_sites(program.jaxpr) if _asks_for_constants(rule) else None
    return ModelRun(model, program, Reparameterize(rule=rule, constants=constants)).output({})


def _asks_for_constants(rule: Any) -> bool:
    try:
        return "is_constant" in inspect.signature(rule).parameters
    except ValueError:  # a callable without a signature
        return False
