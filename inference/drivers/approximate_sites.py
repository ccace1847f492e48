"""Sites that Laplace's approximation has taken out: its error and other modes, for summaries."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import ppl
from inference.drivers.advice import advise
from inference.drivers.inner_modes import count_inner_modes
from inference.models.same_model import latent_draws
from inference.results.psis import psis_of
from inference.runtime.jax_settings import numbers_of_any_kind
from ppl.common.scaled_distribution import factors_at
from ppl.core.inside_sums import before_sum
from ppl.core.model_pytree import as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.names import paths_in
from ppl.harvest.survey import join_scopes
from ppl.transforms.density import LogProbs

_NUM_DRAWS = 1000  # looked at, for which k has an error of about 0.1


class _Recovered(NamedTuple):
    """Draws of a run, with those of the sites that were taken out.

    Attributes:
        latent: Values of the sites of the run, ``(draw, *shape)``.
        taken_out: Values of the sites that were taken out.
        log_densities: Log densities of the run, ``(draw,)``; 0 if it has none.
        pareto_k: Shape of the tail of the importance weights.
    """

    latent: Any
    taken_out: Any
    log_densities: np.ndarray
    pareto_k: float


def look_at_approximate_sites(
    key: jax.Array,
    target: Any,
    draws: Any,
    stats: Mapping[str, Any],
    *,
    seeks_modes: bool = True,
) -> dict[str, Any]:
    """Facts of a run on sites that `ppl.Laplace` has taken out.

    Nothing is known if there are no such sites, or if draws lack a latent site.

    Args:
        key: Random key of the search for modes.
        target: Target of the run.
        draws: Its draws.
        stats: Its statistics.
        seeks_modes: Whether to look for other modes of these sites at the draw of highest density.

    Returns:
        `approximate` and `num_inner_modes` of :class:`RunFacts`.
    """
    if not getattr(target, "approximate", ()):  # a target of no model has none
        return {}
    found = advise("whether ppl.Laplace is a good approximation", _recover, target, draws, stats)
    if found is None or np.isnan(found.pareto_k):
        return {}
    names = tuple(map(join_scopes, target.approximate))
    num_modes = None
    if seeks_modes and jax.process_count() == 1:
        num_modes = advise("other modes of sites of ppl.Laplace", _count_modes, key, target, found)
    return {
        "approximate": (names, found.pareto_k, len(found.log_densities)),
        "num_inner_modes": num_modes,
    }


def _recover(target: Any, draws: Any, stats: Mapping[str, Any]) -> _Recovered | None:
    """Some draws with those of the sites that were taken out; `None` if a latent site lacks."""
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
        taken_out, log_weights = recover(jax.random.key(0), *args, **kwargs)
    sizes = stats.get("log_density")
    sizes = np.zeros(len(chosen)) if sizes is None else np.asarray(sizes)[chains, rows]
    pareto_k = float(psis_of(np.asarray(log_weights), sizes).pareto_k)
    return _Recovered(some, taken_out, sizes, pareto_k)


def _count_modes(key: jax.Array, target: Any, found: _Recovered) -> int | None:
    """Number of modes of the approximate sites at the draw of highest density.

    Discrete sites that were summed out after them have a drawn value, as each has modes of its own.
    `None` if the model before that is not at hand, or `ppl.scale` multiplies a log density.
    """
    args, kwargs = target.arguments.join(target.data)
    model = before_sum(target.model, _may_be_approximate)
    if model is None:
        return None
    model = as_pytree(model)
    run = ModelRun(model, trace_model(model, None, args, kwargs), LogProbs())
    latent = run.latent()
    is_scaled = any(factors_at(site) for x in run.sites.values() for site in x.sites)
    if is_scaled or not latent.keys() >= set(target.approximate):
        return None
    nearest = int(np.nanargmax(found.log_densities))
    values = dict(paths_in(found.taken_out, latent)) | dict(paths_in(found.latent, latent))
    inner = {path: values[path] for path in target.approximate}
    others = {
        path: jax.tree.map(lambda x: x[nearest], values[path])
        for path in latent
        if path not in inner
    }
    with numbers_of_any_kind():
        return count_inner_modes(key, model, args, kwargs, others, inner, nearest)


def _may_be_approximate(sums: Any) -> bool:
    """Whether sums have `ppl.Laplace` among their strategies, or a rule that is not looked at."""
    strategies = dict(getattr(sums, "strategies", ())).values()
    return hasattr(sums, "rule") or any(isinstance(x, ppl.Laplace) for x in strategies)
