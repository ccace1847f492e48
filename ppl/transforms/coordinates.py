"""coordinates: which sites of a model are reparameterized, and why the others are not."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ppl.analysis.constant_sites import find_constant_sites
from ppl.common import distribution_protocol
from ppl.common.analysis_call import AnalysisCall
from ppl.common.arguments import Arguments
from ppl.common.missing_data import Imputed
from ppl.common.text_table import table
from ppl.core.model_pytree import Model, as_pytree, name_of
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.harvest.interpreter import Operands
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, join_scopes
from ppl.primitives.site_kinds import LATENT, RANDOM, kind_of
from ppl.transforms.reparam import Reparameterized, unwrap_distribution
from ppl.transforms.reparam_strategies import auto_reparam


@dataclasses.dataclass(frozen=True)
class SiteCoordinates:
    """Coordinates of a latent site.

    Attributes:
        family: The name of its distribution.
        strategy: The name of the strategy that `reparam` has given it, or None.
        reason: Why `auto_reparam` leaves the site as it is, or None if it would reparameterize it.
    """

    family: str
    strategy: str | None
    reason: str | None


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """Coordinates of all latent sites; it prints as a table.

    Attributes:
        sites: A `SiteCoordinates` by name, "scope.name" within a scope, in program order.
    """

    sites: Mapping[str, SiteCoordinates]

    def __str__(self) -> str:
        """A line for each site."""
        rows = [
            (name, site.family, site.strategy or "its own", site.reason or "changes it")
            for name, site in self.sites.items()
        ]
        return table([("site", "family", "coordinates", "auto_reparam"), *rows])

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class DescribeSites(SiteAction):
    """Action of `coordinates`: describes latent sites while it is traced."""

    constants: frozenset[Path]
    found: dict[str, SiteCoordinates]
    tags = (RANDOM,)
    records = False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The sown value, without a record."""
        if kind_of(site) == LATENT:
            d = jax.tree.unflatten(site.extra_tree, operands.extras)
            here = _describe(d, site.path in self.constants)
            # In a cond, a branch that would be changed counts.
            name = join_scopes(site.path)
            if name not in self.found or here.reason is None:
                self.found[name] = here
        return operands.values, None


def _describe(d: Any, is_constant: bool) -> SiteCoordinates:
    wrappers = list(_wrappers(d))
    inner = unwrap_distribution(d)
    family = distribution_protocol.name_of(inner)
    part = distribution_protocol.name_of(distribution_protocol.part_of(inner))
    done = [type(w.strategy).__name__ for w in wrappers if isinstance(w, Reparameterized)]
    strategy = None
    reason = None
    if done:
        strategy = done[0]
        reason = "reparameterized already"
    elif any(isinstance(w, Imputed) for w in wrappers):
        reason = "observed in part"
    elif is_constant:
        reason = "constant parameters"
    elif auto_reparam("", inner, is_constant=False) is None:
        reason = f"{part} has no location or scale"
    return SiteCoordinates(family, strategy, reason)


def _wrappers(d: Any) -> Any:
    while isinstance(d, distribution_protocol.DistributionWrapper):
        yield d
        d = d.base


def coordinates(model: Model) -> Callable[..., Coordinates]:
    """The coordinates of the latent sites of a model: `(*args, **kwargs) -> Coordinates`.

    The result tells which sites `reparam` has given other coordinates. For every other site, it
    tells whether `auto_reparam` would reparameterize the site, and if not, why.

    Args:
        model: A function of a random key, reparameterized or not.

    Returns:
        A function of the arguments of the model without its key. Nothing is evaluated.

    Raises:
        ValueError: When called, if two sites have one name.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        ...     share = ppl.sample(key, dist.Beta(scale, 1.0), name="share")
        ...     return ppl.sample(key, dist.GaussianRandomWalk(scale, 5), name="walk")
        >>> print(ppl.coordinates(ppl.reparam(model, {"walk": ppl.NonCentered()}))())
        site   family              coordinates  auto_reparam
        scale  HalfNormal          its own      constant parameters
        share  Beta                its own      Beta has no location or scale
        walk   GaussianRandomWalk  NonCentered  reparameterized already
    """

    def looked(*args: Any, **kwargs: Any) -> Coordinates:
        arguments, data = Arguments.split(args, kwargs)
        found: dict[str, SiteCoordinates] = {}

        # `eval_shape` gets leaves, as JAX keeps thousands of tree structures, with models in them.
        leaves, structure = jax.tree.flatten((as_pytree(model), data))

        def look(key: jax.Array, leaves: list[Any]) -> None:
            model, data = jax.tree.unflatten(structure, leaves)
            args, kwargs = arguments.join(data)
            program = trace_model(model, key, args, kwargs)
            ModelRun(model, program, DescribeSites(find_constant_sites(program.jaxpr), found)).run(
                {}
            )

        key = jax.eval_shape(lambda: jax.random.key(0))
        jax.eval_shape(look, key, leaves)
        return Coordinates(found)

    return AnalysisCall(looked, "coordinates", name_of(model))
