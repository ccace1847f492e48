"""loo: leave-one-out cross-validation of a fitted model."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import jax
import numpy as np

from inference.common.argument_checks import check_count, short_repr
from inference.common.pointwise import log_likelihoods, log_scores
from inference.drivers.check_inputs import check_inputs
from inference.drivers.folds import (
    Refit,
    Refits,
    check_exchangeable,
    check_result,
    observe,
    words_on_chains,
)
from inference.drivers.job_checkpoints import open_jobs
from inference.drivers.jobs import Jobs, TakesJobs
from inference.drivers.refit_checkpoints import describe_refits
from inference.drivers.run_description import describe_argument, describe_object
from inference.models.same_model import check_model
from inference.results.elpd import ElpdEstimate
from inference.results.psis_loo import log_weights_of, make_loo, psis_loo, words_on_draws
from inference.results.result import Result
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown


def loo(
    result: Result,
    model: Callable[..., Any],
    *args: Any,
    site: str | Sequence[str] | None = None,
    unit: str = "element",
    refit: float | None = None,
    key: jax.Array | None = None,
    num_warmup: int = 100,
    num_draws: int = 500,
    num_chains: int = 4,
    executor: TakesJobs | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> ElpdEstimate:
    r"""Leave-one-out cross-validation by PSIS: how well a model predicts each observation.

    The draws of one fit are weighted as if an observation had been left out (PSIS-LOO). Pareto k
    tells for each observation whether its term is reliable. With `refit`, the model is fitted anew
    without each observation whose term is unreliable. PSIS cannot see that an observation bounds
    the support of the posterior, as the largest value under a uniform distribution on (0, a): draws
    beyond the bound are missing, and Pareto k may be low. ``refit=-jnp.inf`` does not use PSIS.

    A factor or weights of ``ppl.scale`` change how much an observation counts in the posterior, and
    so the posterior without it. They do not change its term, which is its own predictive density.

    Data that ``ppl.ignore`` leaves out are not observations, nor are factors and sites that
    ``ppl.impute`` observes in part.

    Args:
        result: Result of :func:`mcmc`, or of another driver with draws, for this model and data.
            If its draws have weights, they are used.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        site: Name of the observed site, or names, whose observations are left out; by default all.
        unit: The kind of one observation:

            - ``"element"``: each log probability of a site, one for each element of ``vmap``,
              loops and the distribution's batch;
            - ``"row"``: all log probabilities with one index on axis 0, of all sites together;
            - ``"group"``: as ``"element"``, but in a marginalized model all entries that depend on
              the same summed or integrated element are one observation.

        refit: Pareto k above which the term is computed exactly, by NUTS without the observation;
            by default no term is. 0.7 is a good choice; ``-jnp.inf`` computes all terms exactly.
        key: Key of the fits; by default ``jax.random.key(0)``.
        num_warmup: Iterations of warm-up of each fit by `refit`, which begins with draws, step size
            and mass matrix of `result`.
        num_draws: Draws of each chain of a fit by `refit`.
        num_chains: Chains of a fit by `refit`.
        executor: Where the fits by `refit` are made: an object with the method `submit`
            of the standard library's ``Executor``; by default this process, one fit after the
            other. See the page Long runs.
        checkpoint: Path of a folder for the fits by `refit` that are finished. After a kill or an
            interrupt the same call goes on, and ends with the same bits. See the page Long runs.
        progress: Whether to show a bar of these fits; by default in a terminal and in a notebook.
        **kwargs: More arguments of the model.

    Returns:
        The estimate, with its terms, Pareto k, and problems in words.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
        OSError: if the folder `checkpoint` cannot be written.
        RuntimeError: if a fit fails under `executor`; the error names its observation.
        TypeError: if `result` is not a result with draws, or an argument has the wrong type or
            cannot be sent to processes.
        ValueError: if the model observes nothing, a name is unknown, a marginalized model has no
            log probabilities of such units, the draws are of another model, or their log density
            shows that they had other data; or if `checkpoint` has another call, is damaged or in
            use.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu * jnp.ones(20), 1.0), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.linspace(-2.0, 2.0, 20)})
        >>> estimate = inference.loo(inference.mcmc(jax.random.key(0), posterior), posterior)
        >>> round(estimate.elpd)
        -34

    References:
        Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
        cross-validation and WAIC, Statistics and Computing 27; Vehtari, Simpson, Gelman, Yao and
        Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
    """
    # Check the arguments.
    check_result("loo", result)
    key = jax.random.key(0) if key is None else key
    check_inputs(loo, key, model, args, kwargs)
    if refit is not None and (isinstance(refit, bool) or not isinstance(refit, float | int)):
        raise TypeError(
            "refit must be a number, the Pareto k above which to refit, as refit=0.7, got "
            f"{short_repr(refit)}"
        )
    numbers = {
        "num_warmup": check_count("num_warmup", num_warmup, least=0),
        "num_draws": check_count("num_draws", num_draws, least=4),
        "num_chains": check_count("num_chains", num_chains, least=1),
    }
    jobs = Jobs.of("loo", executor, key, model, args, kwargs)
    for name, given in (("executor", executor), ("checkpoint", checkpoint)):
        if given is not None and refit is None:
            raise ValueError(
                f"loo: {name} is for fits, and without refit there are none; give refit, as "
                "refit=0.7"
            )
    with settings(None):
        # The log likelihood of each unit at each draw.
        observed = observe(model, args, kwargs, site, unit, result.draws)
        if refit is not None:
            check_exchangeable("loo", observed)
        check_model("loo", result, observed.likelihood.latent, model, args, kwargs)
        likelihood = observed.likelihood
        units = observed.units
        log_likelihood = units.gather(log_likelihoods(likelihood, result.draws))
        terms = None
        if likelihood.is_scaled:
            terms = units.gather(log_scores(likelihood, result.draws))
        # Importance sampling of each leave-one-out posterior.
        found = psis_loo(log_likelihood, log_weights_of(result), log_scores=terms)
        is_exact = np.zeros(len(units), bool)
        problems = words_on_chains(observed) + words_on_draws(result, log_likelihood, units.names)
        more = ""
        # Exact terms where Pareto k is large.
        if refit is not None and (again := np.flatnonzero(~(found.pareto_k <= refit))).size:
            refits = Refits(key, observed, result, model, args, kwargs, **numbers)
            fits = [Refit(i, np.array([i]), np.array([i])) for i in again.tolist()]
            names = [f"the fit without {units.names[i]}" for i in again]
            given = {"refit": float(refit), "site": site, "unit": unit} | numbers

            def describe() -> dict[str, Any]:
                return describe_refits(key, model, args, kwargs, fits, given) | {
                    "draws of result": describe_argument(refits.starts.values),
                    "step size and mass matrix of result": describe_object(refits.kernel),
                }

            with open_jobs(checkpoint, "loo", describe) as folder:
                terms, words = refits.terms(jobs, folder, names, fits, progress)
            found.elpd[again] = np.concatenate(terms)
            found.pareto_k[again] = np.nan
            is_exact[again] = True
            problems += words
            more = f"; {again.size} exact, by fits without them"
    return make_loo(
        found,
        units.names,
        result.draws,
        more=more,
        is_exact=is_exact,
        problems=problems,
        digests=observed.digests,
    )
