"""Names of other libraries for what the package has, with what to write here."""

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
