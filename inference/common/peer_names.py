"""Names of other libraries for functions and results of this package, with the names here."""

import typing

from ppl.common.near_names import by_name

PEER_NAMES = by_name(
    {
        "inference.mcmc(key, model, *args)": "MCMC sample sampling",
        "inference.svi(key, model, *args)": "SVI ADVI fit",
        "inference.ELBO()": "Trace_ELBO TraceMeanField_ELBO TraceGraph_ELBO",
        "inference.MeanField()": "AutoNormal AutoDiagonalNormal",
        "inference.FullRank()": "AutoMultivariateNormal FullRankADVI",
        "inference.optimize, or PointMass() in svi": "AutoDelta find_MAP MAP",
        "ppl.predict(model, result.draws)": "Predictive sample_posterior_predictive",
        "mcmc(init=fit, transport=True), with a fit by svi": "NeuTraReparam",
        "mcmc(init=...)": "init_to_median init_to_uniform init_to_value",
        "print(result.summary())": "print_summary diagnostics",
        "inference.ess_bulk and ess_tail": "effective_sample_size ess",
        "inference.rhat": "gelman_rubin split_gelman_rubin",
        "ppl.log_probs(model)": "log_likelihood compute_log_likelihood",
        "inference.loo(result, posterior, *args), which replaces it": "waic",
        "mcmc(kernel=inference.NUTS())": "nuts NoUTurnSampler",
        "mcmc(kernel=inference.HMC())": "hmc HamiltonianMC HamiltonianMonteCarlo",
        "mcmc(kernel=inference.HMC(step_size_jitter=0.5))": "dynamic_hmc",
        "mcmc(kernel=inference.ChEES())": "chees_adaptation",
        "mcmc(kernel=inference.Barker())": "BarkerMH barker_proposal",
        "mcmc(kernel=inference.MALA())": "mala MetropolisAdjustedLangevinAlgorithm",
        "mcmc(kernel=inference.RandomWalk()), or Slice()": (
            "SA Metropolis RandomWalkMetropolis additive_step_random_walk normal_random_walk rmh"
        ),
        "mcmc(kernel=inference.Slice())": "SliceSampler slice_sampling hit_and_run",
        "mcmc(kernel=inference.Slice()), or with many chains DifferentialEvolution()": "ESS",
        "mcmc(kernel=inference.DifferentialEvolution(), num_chains=n), with n >= 2 d + 2": (
            "AIES DEMetropolis DEMetropolisZ"
        ),
        "mcmc(kernel=inference.AffineInvariant(), num_chains=n), with n >= 2 d + 2": (
            "EnsembleSampler emcee stretch"
        ),
        "mcmc(kernel=inference.EllipticalSlice()), if the latent sites are normal a priori": (
            "elliptical_slice EllipticalSliceSampler"
        ),
        "mcmc(kernel=inference.Gibbs.auto()), or ppl.marginalize(model) for discrete sites": (
            "DiscreteHMCGibbs MixedHMC HMCGibbs CompoundStep BinaryMetropolis "
            "BinaryGibbsMetropolis CategoricalGibbsMetropolis"
        ),
        "mcmc(kernel=inference.SubsampledHMC(batch_size=100))": "HMCECS",
        "mcmc(kernel=inference.SGLD(batch_size=100))": "sgld StochasticGradientLangevinDynamics",
        "mcmc(kernel=inference.SGHMC(batch_size=100))": "sghmc",
        "mcmc(kernel=inference.ParallelTempering())": (
            "ReplicaExchangeMC replica_exchange parallel_tempering pigeons"
        ),
        "mcmc(kernel=inference.MEADS())": "meads_adaptation ghmc",
        "mcmc(kernel=inference.AdjustedMCLMC())": "mclmc adjusted_mclmc",
        "inference.InverseAutoregressive()": "AutoIAFNormal",
        "inference.laplace": "AutoLaplaceApproximation",
        "inference.LowRank()": "AutoLowRankMultivariateNormal",
        "inference.Renyi()": "RenyiELBO",
        "inference.svgd": "SteinVI",
        "inference.svi_step(model)": "SVIRunResult init_state stable_update",
        "the warm-up of inference.mcmc": "window_adaptation",
    }
)

OF_RESULTS = by_name(
    {
        "result.draws": "get_samples samples posterior stan_variables",
        'result.draws["name"]': "extract stan_variable",
        "result.stats": "get_extra_fields",
        "print(result.summary())": "print_summary",
        "result.summary().to_pandas()": "to_dataframe draws_pd",
        "result.to_arviz(model, *args)": "to_inference_data to_netcdf",
        "inference.loo(result, model, *args)": "loo",
        "ppl.predict(model, result.draws)(key, *args)": "predict",
        "-result.elbos": "losses",
        "inference.resume(result, model, *args); a fit goes on by svi(state=result.state)": (
            "resume"
        ),
    }
)


OF_MODES = by_name(
    {
        "result.values": "draws params parameters get_samples samples posterior x",
        "print(result.summary())": "print_summary table",
        "inference.laplace(key, model, *args) has Pareto k and draws": "stats pareto_k",
        "-result.log_density": "fun loss losses",
        "result.has_converged": "success",
        "result.num_steps": "nit",
    }
)

OF_TABLES = by_name(
    {
        "print it: it is a table": "summary table to_dataframe",
        "a page is of a result with draws: result.report(path, model, *args)": "report",
        "ArviZ takes draws: result.to_arviz(model, *args)": "to_arviz to_inference_data",
        "draws are those of the result: result.draws": "draws get_samples samples posterior",
    }
)


class ExplainsAttributes:
    """Base of results, whose error for a missing attribute says what to write instead."""

    _instead: typing.ClassVar[dict[str, str]] = {}

    if not typing.TYPE_CHECKING:

        def __getattr__(self, name: str) -> str:
            """Only called for an attribute that does not exist, or whose computation fails."""
            instead = type(self)._instead
            if name not in instead:
                return object.__getattribute__(self, name)
            text = f"{type(self).__name__!r} object has no attribute {name!r} ({instead[name]})"
            raise AttributeError(text, name=name, obj=self)


class ExplainsItems(ExplainsAttributes):
    """Base of results with values by site in a dict, which the error for an item names."""

    _items: typing.ClassVar[str] = "draws"

    if not typing.TYPE_CHECKING:
        __iter__ = __contains__ = None  # or `__getitem__` would make it a sequence

        def __getitem__(self, name: object) -> str:
            """Raises an error: values of sites are in their own dict."""
            raise TypeError(
                f"{type(self).__name__!r} object has no items: write result.{self._items}[{name!r}]"
            )
