"""power_scale: how much priors and likelihood of a fitted model matter."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from inference.common.leaf_names import named_leaves
from inference.common.pointwise import log_priors
from inference.common.target import labels_by_name
from inference.comparison.power_scaling import PowerScaling, power_scaling
from inference.drivers.check_inputs import check_inputs
from inference.drivers.folds import check_result
from inference.models.same_model import check_model
from inference.results.psis_loo import log_weights_of
from inference.results.result import Result
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from ppl.transforms.likelihood import Likelihood


def power_scale(
    result: Result,
    model: Callable[..., Any],
    *args: Any,
    prior: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> PowerScaling:
    r"""Sensitivity of a posterior to its priors and its likelihood, by power scaling.

    The draws are weighted as if a prior, or the likelihood, were raised to a power near 1. How far
    the posterior of each scalar moves is its sensitivity:

    | prior | likelihood | diagnosis |
    |---|---|---|
    | below 0.05 | | none: the prior does not matter much |
    | 0.05 or more | below 0.05 | strong prior or weak likelihood |
    | 0.05 or more | 0.05 or more | prior-data conflict |

    The likelihood is the density of all data and factors. If ``ppl.impute`` observes a site in
    part, its missing entries count as prior, and its other entries as likelihood.

    Args:
        result: Result of :func:`mcmc`, or of another driver with draws, for this model and data.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        prior: Names of the latent sites whose priors are scaled together; by default all. In a
            hierarchy, name the sites at the top: the distributions of the other sites are part of
            the model. Sites that a marginalized model scores together have a joint name, as in
            ``ppl.log_probs``.
        **kwargs: More arguments of the model.

    Returns:
        Sensitivities and diagnoses of each scalar, and the sensitivity to the prior of each site.

    Raises:
        TypeError: if `result` is not a result with draws.
        ValueError: if the model observes nothing, a name is unknown, or the draws are of another
            model.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu * jnp.ones(4), 1.0), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.array([8.0, 9.0, 11.0, 12.0])})
        >>> result = inference.mcmc(jax.random.key(0), posterior)
        >>> inference.power_scale(result, posterior).diagnosis
        ('prior-data conflict',)

    References:
        Kallioinen, Paananen, Bürkner and Vehtari (2023), Detecting and diagnosing prior and
        likelihood sensitivity with power-scaling, Statistics and Computing 34.
    """
    check_result("power_scale", result)
    check_inputs(power_scale, jax.random.key(0), model, args, kwargs)
    with settings(None):
        likelihood = put_on_common_devices(Likelihood.of(model, args, kwargs, needs="likelihood"))
        priors = likelihood.priors
        names = [prior] if isinstance(prior, str) else list(priors if prior is None else prior)
        for name in names:
            if name not in (*priors, *likelihood.latent):
                raise ValueError(
                    f"prior: the model has no latent site {name!r}; it has {', '.join(priors)}"
                )
            if name not in priors:
                raise ValueError(
                    f"prior: in this marginalized model {name!r} is scored together with other "
                    f"sites; choose among {', '.join(priors)}"
                )
        check_model("power_scale", result, likelihood.latent, model, args, kwargs)
        scores = log_priors(likelihood, result.draws)
    if not likelihood.observed_scores and not any(np.any(scores[name]) for name in priors):
        raise ValueError(
            "power_scale: the sites have flat priors and nothing is observed: the density is made "
            "of factors, in which prior and likelihood are not apart, as in a model of "
            "ppl.from_stan. Draw the sites by ppl.sample, and give data by ppl.condition."
        )
    place = {name: i for i, name in enumerate(likelihood.latent)}
    leaves = sorted(named_leaves(result.draws), key=lambda leaf: place.get(leaf[0], len(place)))
    draws = {name: np.asarray(x) for name, x in leaves}
    of_sites = {name: scores[name] for name in names}
    is_smoothed = getattr(result, "weights", None) is not None
    weights = log_weights_of(result)
    labels = labels_by_name(result.sites)
    return power_scaling(
        draws, of_sites, scores[""], weights, is_smoothed=is_smoothed, labels=labels
    )
