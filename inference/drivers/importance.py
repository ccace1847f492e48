"""importance: importance sampling on a model, from the prior or from a fitted guide."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import ppl
from inference.common.argument_checks import check_count, short_repr
from inference.common.serialization import Absent
from inference.common.target import named_sites
from inference.drivers.check_inputs import check_inputs
from inference.drivers.nan_search import explain_nan
from inference.models.guide_function import GuideFunction, bind_guide, make_target
from inference.models.same_model import in_coordinates_of
from inference.results.guide_result import GuideResult
from inference.results.importance_result import ImportanceResult
from inference.results.psis import psis_of
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from inference.variational.elbo import ELBO
from inference.variational.svi_loop import check_parameters, draw_from_guide, draw_from_prior
from inference.variational.svi_step import SVIProblem
from ppl.harvest.function_equality import ComparedByContents
from ppl.transforms.prior_weights import PriorWeights


def importance(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_draws: int = 10_000,
    guide: GuideResult | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> ImportanceResult:
    r"""Draws with weights from the posterior of `model`, and its evidence, by importance sampling.

    Draws :math:`z_s \sim q` have weights :math:`w_s = p(z_s, y) / q(z_s)`. The largest weights are
    smoothed (PSIS). Their mean estimates the evidence :math:`p(y)`. With the prior as :math:`q`,
    the weights are likelihoods, and latent sites may be discrete.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        num_draws: Number of draws.
        guide: Result of :func:`svi`, :func:`laplace` or :func:`pathfinder` for the same model and
            shapes of data. Its guide is :math:`q`; by default, :math:`q` is the prior.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        The draws, their weights, the evidence, and how far to trust them.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, or if the guide has other sites or no density.
        NotImplementedError: if draws come from the prior, and a site is observed in part.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> result = importance(jax.random.key(0), ppl.condition(model, {"y": 5.0}))
        >>> float(np.round(result.log_evidence, 1))  # exactly log Normal(5 | 0, 5) = -3.03
        -3.0

    References:
        Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling,
        JMLR 25.
    """
    check_inputs(importance, key, model, args, kwargs)
    num_draws = check_count("num_draws", num_draws, least=1)
    if guide is not None and not isinstance(guide, GuideResult):
        raise TypeError(
            "guide must be a result of svi, laplace or pathfinder, or None for the prior, got "
            f"{short_repr(guide)}"
        )
    with settings(cache_dir), show_progress(progress, 1, "stage") as report:
        report(0, "compiling and drawing")
        if guide is None:
            sampler = PriorWeights.of(*put_on_common_devices((model, args, kwargs)))
            draws, log_weights = draw_from_prior(key, sampler, num_draws)
            log_density = log_weights
            sites = named_sites(sampler)
        else:
            is_function = isinstance(guide.guide, GuideFunction)
            target = make_target(model, args, kwargs, is_function=is_function)
            target = in_coordinates_of(guide, target)
            sampled = draw_from_guide(key, *_prepare_guide(target, guide), num_draws)
            draws = sampled.draws
            log_weights = sampled.log_weights
            log_density = sampled.log_density
            sites = named_sites(target)
        report(1, "draws")
    smoothed, pareto_k = psis_of(np.asarray(log_weights), np.asarray(log_density))
    result = _result(draws, np.asarray(log_weights), smoothed, pareto_k)
    nan = None
    if np.isnan(log_weights).any():
        first = jax.tree.map(lambda x: x[np.argmax(np.isnan(log_weights))], draws)
        nan = explain_nan(lambda: ppl.unconstrain(model, *args, **kwargs), first)
    return dataclasses.replace(result, sites=sites, nan=nan)


def _prepare_guide(target: Any, result: GuideResult) -> tuple[SVIProblem, Any]:
    """Problem and parameters of a fitted guide, from which draws can be made.

    Raises:
        ValueError: if the guide has no density, fits another model, or is a function left out of a
            saved file.
    """
    if not result.guide.has_density:
        raise ValueError(
            f"guide must have a density, which {result.guide} has not; fit MeanField() or "
            "FullRank(), say"
        )
    guide: Any = result.guide
    if isinstance(guide, Absent):
        raise ValueError(
            f"guide was loaded from a file, which keeps no functions: of {guide} there are the "
            "parameters and the draws. Give it when loading: SVIResult.load(path, guide=guide)"
        )
    guide = guide.guide if isinstance(guide, GuideFunction) else guide
    guide, layout = bind_guide(target, guide)
    nothing = np.zeros(0, np.uint32)
    problem = SVIProblem(target, guide, ELBO(), ComparedByContents.of(None), nothing, layout)
    return jax.device_put((problem, check_parameters(problem, result.parameters)))


def _result(
    draws: dict[str, Any], log_weights: np.ndarray, smoothed: np.ndarray, pareto_k: Any
) -> ImportanceResult:
    num_draws = len(smoothed)
    with np.errstate(invalid="ignore"):
        total = np.logaddexp.reduce(smoothed)
    is_known = np.isfinite(total)
    weights = np.exp(smoothed - total) if is_known else np.full(num_draws, np.nan)
    ess = 1 / np.sum(weights**2)
    return ImportanceResult(
        draws=jax.tree.map(lambda x: x[None], draws),
        log_weights=log_weights[None],
        weights=weights[None],
        log_evidence=total - np.log(num_draws),
        log_evidence_standard_error=standard_error_of_mean(ess, num_draws),
        ess=ess,
        pareto_k=np.asarray(pareto_k),
    )


def standard_error_of_mean(ess: Any, num_draws: int) -> Any:
    """Standard error of the log of the mean of weights (delta method); NaN for one draw."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(np.maximum(num_draws / ess - 1, 0) / np.float64(num_draws - 1))
