"""Names of other libraries for what the package and its results have, with what to write here."""

import typing
from collections.abc import Iterable

from ppl.common.near_names import hint_near

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
    "waic": "inference.loo(result, posterior, *args), which replaces it",
    **dict.fromkeys(("nuts", "hmc"), "mcmc(kernel=inference.NUTS()), or HMC()"),
    **dict.fromkeys(("chees_adaptation", "dynamic_hmc"), "mcmc(kernel=inference.ChEES())"),
    **dict.fromkeys(("meads_adaptation", "ghmc"), "mcmc(kernel=inference.MEADS())"),
    **dict.fromkeys(("mclmc", "adjusted_mclmc"), "mcmc(kernel=inference.AdjustedMCLMC())"),
    "AutoIAFNormal": "inference.InverseAutoregressive()",
    "AutoLaplaceApproximation": "inference.laplace",
    "AutoLowRankMultivariateNormal": "inference.LowRank()",
    "RenyiELBO": "inference.Renyi()",
    "SteinVI": "inference.svgd",
    **dict.fromkeys(("SVIRunResult", "init_state", "stable_update"), "inference.svi_step(model)"),
    "window_adaptation": "the warm-up of inference.mcmc",
}

OF_RESULTS = {
    **dict.fromkeys(("get_samples", "samples", "posterior", "stan_variables"), "result.draws"),
    **dict.fromkeys(("extract", "stan_variable"), 'result.draws["name"]'),
    "get_extra_fields": "result.stats",
    "print_summary": "print(result.summary())",
    **dict.fromkeys(("to_dataframe", "draws_pd"), "result.summary().to_pandas()"),
    **dict.fromkeys(("to_inference_data", "to_netcdf"), "result.to_arviz(model, *args)"),
    "loo": "inference.loo(result, model, *args)",
    "predict": "ppl.predict(model, result.draws)(key, *args)",
    "losses": "-result.elbos",
    "resume": "inference.resume(result, model, *args); a fit goes on by svi(state=result.state)",
}


def explain_missing(name: str, public: Iterable[str]) -> str:
    """The words of the error of an attribute that `inference` does not have.

    Example:
        >>> explain_missing("gelman_rubin", [])
        "module 'inference' has no attribute 'gelman_rubin' (inference.rhat)"
    """
    hint = f" ({ATTRIBUTES[name]})" if name in ATTRIBUTES else hint_near(name, public)
    return f"module 'inference' has no attribute {name!r}{hint}"


class ExplainsAttributes:
    """Base of results, whose error for a missing attribute says what to write instead."""

    if not typing.TYPE_CHECKING:
        __iter__ = __contains__ = None  # or `__getitem__` would make it a sequence

        def __getattr__(self, name: str) -> str:
            """Only called for an attribute that is not there, or whose own computation fails."""
            if name not in OF_RESULTS:
                return object.__getattribute__(self, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r} ({OF_RESULTS[name]})"
            raise AttributeError(text, name=name, obj=self)

        def __getitem__(self, name: object) -> str:
            """Raises an error: draws are in their own dict."""
            raise TypeError(
                f"{type(self).__name__!r} object has no items: write result.draws[{name!r}]"
            )
