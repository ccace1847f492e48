"""Draws of fitted guides, as fields of results: with weights, and what these say of the fit."""

from typing import Any

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.target import Target
from inference.drivers.noncentering import noncentering_of_guide
from inference.guides.guide import Guide
from inference.results.guide_result import standard_error
from inference.results.pathfinder_result import normalize_weights, resample_systematically
from inference.results.psis import psis_of
from inference.variational.elbo import ELBO
from inference.variational.optax_step import ComparedByContents
from inference.variational.svi_loop import draw_from_guide
from inference.variational.svi_step import GuideDraws, SVIProblem


def draw_guide(
    key: jax.Array, target: Target, guide: Guide, layout: Layout, parameters: Any, num_draws: int
) -> GuideDraws:
    """Draws of a guide to a target, with weights, for a guide that needs no steps."""
    nothing = np.zeros(0, np.uint32)
    problem = SVIProblem(target, guide, ELBO(), ComparedByContents.of(None), nothing, layout)
    return draw_from_guide(key, jax.device_put(problem), jax.device_put(parameters), num_draws)


def describe_draws(drawn: GuideDraws, target: Target, guide: Guide) -> dict[str, Any]:
    """Fields of a result that follow from draws of its guide."""
    weights = np.asarray(drawn.log_weights)
    log_density = np.asarray(drawn.log_density)
    pareto_k = psis_of(weights, log_density).pareto_k if guide.has_density else np.nan
    return {
        "draws": jax.tree.map(lambda x: x[None], drawn.draws),
        "log_density": log_density[None],
        "log_weights": weights[None],
        "elbo": np.mean(weights, dtype=np.float64),
        "elbo_standard_error": standard_error(weights),
        "pareto_k": np.asarray(pareto_k),
        "noncentering": noncentering_of_guide(target, pareto_k, weights.size),
    }


def describe_paths(
    key: jax.Array, pool: GuideDraws, target: Target, guide: Guide, num_draws: int
) -> dict[str, Any]:
    """Fields of a result of Pathfinder: some draws of a pool, resampled if the pool has more."""
    log_weights = np.asarray(pool.log_weights)
    weights = normalize_weights(log_weights[None])[0]
    fields = describe_draws(pool, target, guide) | {"ess": 1 / np.sum(weights**2)}
    if log_weights.size == num_draws:
        return fields
    chosen = resample_systematically(key, weights, num_draws)
    names = "draws", "log_density", "log_weights"
    return fields | jax.tree.map(lambda x: x[:, chosen], {name: fields[name] for name in names})
