"""Names of other libraries, with what to write here: attributes, and arguments of drivers."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from ppl.core.model_pytree import check_callable, name_of, unwrap_model

ATTRIBUTES = {
    **dict.fromkeys(("MCMC", "sample", "sampling"), "inference.mcmc(key, model, *args)"),
    **dict.fromkeys(("SVI", "ADVI", "fit"), "inference.svi(key, model, *args)"),
    **dict.fromkeys(("Trace_ELBO", "TraceMeanField_ELBO", "TraceGraph_ELBO"), "inference.ELBO()"),
    **dict.fromkeys(("AutoNormal", "AutoDiagonalNormal"), "inference.MeanField()"),
    **dict.fromkeys(("AutoMultivariateNormal", "FullRankADVI"), "inference.FullRank()"),
    **dict.fromkeys(("AutoDelta", "find_MAP", "MAP"), "inference.optimize, or PointMass() in svi"),
    **dict.fromkeys(
        ("Predictive", "sample_posterior_predictive"), "ppl.predict(model, result.draws)"
    ),
    **dict.fromkeys(("init_to_median", "init_to_uniform", "init_to_value"), "mcmc(init=...)"),
    **dict.fromkeys(("print_summary", "diagnostics"), "print(result.summary())"),
    **dict.fromkeys(("effective_sample_size", "ess"), "inference.ess_bulk and ess_tail"),
    **dict.fromkeys(("gelman_rubin", "split_gelman_rubin"), "inference.rhat"),
    **dict.fromkeys(("log_likelihood", "compute_log_likelihood"), "ppl.log_probs(model)"),
    **dict.fromkeys(
        ("loo", "waic", "compare"),
        "inference.psis of ppl.log_probs; docs/models.md, Log likelihoods, has the lines",
    ),
    **dict.fromkeys(("nuts", "hmc"), "mcmc(kernel=inference.NUTS()), or HMC()"),
    "AutoIAFNormal": "inference.InverseAutoregressive()",
    "AutoLaplaceApproximation": "inference.laplace",
    "AutoLowRankMultivariateNormal": "inference.LowRank()",
    "RenyiELBO": "inference.Renyi()",
    "SteinVI": "inference.svgd",
    "window_adaptation": "the warm-up of inference.mcmc",
}

_ARGUMENTS = {
    **dict.fromkeys(("num_samples", "draws", "iter_sampling", "samples"), "num_draws"),
    **dict.fromkeys(("tune", "iter_warmup", "warmup", "burnin"), "num_warmup"),
    **dict.fromkeys(("chains", "n_chains"), "num_chains"),
    **dict.fromkeys(
        ("target_accept_prob", "target_accept", "adapt_delta"), "target_acceptance_rate"
    ),
    **dict.fromkeys(("init_strategy", "initvals", "init_params", "inits", "init_loc_fn"), "init"),
    **dict.fromkeys(("progressbar", "show_progress", "progress"), "progress_bar"),
    **dict.fromkeys(("optim", "obj_optimizer"), "optimizer"),
    **dict.fromkeys(("loss",), "objective"),
    **dict.fromkeys(("n_steps", "num_iterations", "iter"), "num_steps"),
    **dict.fromkeys(("num_particles_per_step", "obj_n_mc"), "num_particles"),
}
_REMEDIES = {
    **dict.fromkeys(
        ("random_seed", "seed", "rng_key"), "the key comes first, as jax.random.key(0)"
    ),
    **dict.fromkeys(
        ("thin", "thinning"), "thin the draws, as jax.tree.map(lambda x: x[:, ::10], draws)"
    ),
    **dict.fromkeys(
        ("chain_method", "cores", "parallel_chains"), "chains use all cores by themselves"
    ),
    **dict.fromkeys(
        ("max_tree_depth", "max_treedepth", "step_size"), "give it to kernel=NUTS(...)"
    ),
    **dict.fromkeys(("learning_rate", "lr"), "give it to optimizer=, as optax.adam(1e-3)"),
    **dict.fromkeys(("return_inferencedata", "idata_kwargs"), "call result.to_arviz()"),
    "callback": "there is none; progress_bar=True shows how far it is",
    "dense_mass": 'write mass_matrix="dense" or "diagonal"',
}


def check_keywords(driver: Callable[..., Any], model: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuses keywords that neither a driver nor the model has, with what is meant if it is known.

    Raises:
        TypeError: if there is such a keyword, or `model` is no function.
    """
    check_callable(model)
    try:
        taken = inspect.signature(unwrap_model(model)).parameters.values()
    except ValueError:  # a callable without a signature
        return
    if any(p.kind is p.VAR_KEYWORD for p in taken):
        return
    names = {p.name for p in taken if p.kind is not p.POSITIONAL_ONLY}
    own = [
        p.name for p in inspect.signature(driver).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    for name in kwargs.keys() - names:
        meant = _ARGUMENTS.get(name, "")
        if meant not in own:
            meant = next(iter(get_close_matches(name, [*own, *names], 1)), "")
        hint = _REMEDIES.get(name) or (f"did you mean {meant!r}?" if meant else "")
        raise TypeError(
            f"{driver.__name__} has no argument {name!r}, nor has {name_of(model)}"
            + (f": {hint}" if hint else f". {driver.__name__} has {', '.join(own)}.")
        )
