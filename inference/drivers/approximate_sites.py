"""Error of Laplace's approximation in a model, for the advice of summaries."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import ppl
from inference.drivers.advice import advise
from inference.models.same_model import latent_draws
from inference.results.psis import psis_of
from inference.runtime.jax_settings import numbers_of_any_kind
from ppl.harvest.survey import join_scopes

_NUM_DRAWS = 1000  # looked at, for which k has an error of about 0.1


def pareto_k_of_sites(
    target: Any, draws: Any, stats: Mapping[str, Any]
) -> tuple[tuple[str, ...], float, int] | None:
    """Names of the sites that `ppl.Laplace` has taken out, Pareto k, and its number of draws.

    `None` if there are no such sites, if draws lack a latent site, or if Pareto k is unknown.
    """
    if not getattr(target, "approximate", ()):  # a target of no model has none
        return None
    return advise("whether ppl.Laplace is a good approximation", _weigh, target, draws, stats)


def _weigh(
    target: Any, draws: Any, stats: Mapping[str, Any]
) -> tuple[tuple[str, ...], float, int] | None:
    latent = latent_draws(target.position_shapes, draws)
    if latent is None:
        return None
    shape = np.shape(jax.tree.leaves(latent)[0])[:2]
    chosen = np.linspace(0, np.prod(shape) - 1, min(_NUM_DRAWS, np.prod(shape))).astype(int)
    chains, rows = np.unravel_index(chosen, shape)
    some = jax.tree.map(lambda x: np.asarray(x)[chains, rows], latent)
    args, kwargs = target.arguments.join(target.data)
    recover = ppl.recover(target.model, some, log_weights=True)
    with numbers_of_any_kind():
        log_weights = np.asarray(recover(jax.random.key(0), *args, **kwargs)[1])
    sizes = stats.get("log_density")
    sizes = np.zeros(1) if sizes is None else np.asarray(sizes)[chains, rows]
    pareto_k = float(psis_of(log_weights, sizes).pareto_k)
    names = tuple(map(join_scopes, target.approximate))
    return None if np.isnan(pareto_k) else (names, pareto_k, len(chosen))
