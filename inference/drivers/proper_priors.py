"""Check that the priors of a model are proper."""

from collections.abc import Callable
from typing import Any

import jax

from ppl.common import distribution_protocol
from ppl.core.model_run import trace_model
from ppl.harvest.survey import describe
from ppl.marginal.finite_supports import look_at_distributions
from ppl.transforms.from_density import FlatPrior


def check_proper_priors(
    where: str, model: Callable[..., Any], args: Any, kwargs: Any, target: Any
) -> None:
    """Checks that each latent site has a distribution from which something can be drawn.

    Sites of ``ppl.from_density`` are passed over: their density is all in one factor.

    Raises:
        ValueError: if one has none, as an improper one.
    """
    paths = [path for path, _ in target.shapes]
    for site, name in look_at_distributions(
        trace_model(model, None, args, kwargs).jaxpr, paths, _undrawn
    ):
        if name:
            raise ValueError(
                f"{where}: site {describe(site.path)} has a distribution, {name}, that cannot be "
                "drawn from. If its prior is improper, the evidence is not defined: it is known up "
                "to a factor that is arbitrary. Give it a proper prior."
            )


def _undrawn(_: Any, distribution: Any) -> str:
    """Name of a distribution without draws; empty if it has draws."""
    if isinstance(distribution, FlatPrior):
        return ""
    try:
        jax.eval_shape(lambda: distribution_protocol.draw(distribution, jax.random.key(0)))
    except NotImplementedError:
        return type(distribution).__name__
    return ""
