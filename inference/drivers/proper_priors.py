"""Check that the priors of a model are proper."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from ppl.common import distribution_protocol
from ppl.core.model_run import trace_model
from ppl.harvest.survey import Path, describe
from ppl.marginal.finite_supports import look_at_distributions
from ppl.marginal.marginal_sites import Marginal, Recovery
from ppl.primitives.site_kinds import LATENT, kind_of
from ppl.transforms.from_density import FlatPrior


def check_proper_priors(
    where: str, model: Callable[..., Any], args: Any, kwargs: Any, target: Any
) -> None:
    """Checks that each latent site has a distribution from which something can be drawn.

    Sites that ``ppl.marginalize`` took out are latent. Sites of ``ppl.from_density`` are passed
    over: their density is all in one factor.

    Raises:
        ValueError: if one has none, as an improper one.
    """
    latent = [path for path, _ in target.shapes]
    for path, name in _undrawn_sites(trace_model(model, None, args, kwargs).jaxpr, latent):
        raise ValueError(
            f"{where}: site {describe(path)} has a distribution, {name}, that cannot be drawn "
            "from. If its prior is improper, the evidence is not defined: it is known up to a "
            "factor that is arbitrary. Give it a proper prior."
        )


def _undrawn_sites(jaxpr: Any, latent: Collection[Path] | None) -> Iterator[tuple[Path, str]]:
    """Latent sites without draws, also within sums and integrals, and names of distributions.

    Without `latent`, all sites that have no value are latent.
    """

    def look(site: Any, distribution: Any) -> list[tuple[Path, str]]:
        if isinstance(distribution, Recovery):
            # Within it stand the sites that were taken out, and those that depend on them.
            return list(_undrawn_sites(distribution.summation.jaxpr, None))
        is_latent = kind_of(site) == LATENT if latent is None else site.path in latent
        is_undrawn = is_latent and not _has_draws(distribution)
        return [(site.path, type(distribution).__name__)] if is_undrawn else []

    for _, found in look_at_distributions(jaxpr, None, look):
        yield from found


def _has_draws(distribution: Any) -> bool:
    """Whether a distribution can be drawn from, or is of no concern.

    The flat one of ``ppl.from_density`` is not, nor a density after a sum, as the sites of the sum
    are looked at themselves.
    """
    if isinstance(distribution, FlatPrior | Marginal):
        return True
    return distribution_protocol.has_draws(distribution)
