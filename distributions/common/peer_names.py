"""Names of other libraries for our distributions, or what to write instead; made of their table.

`python -m tests.distributions` writes the table, from `docs/distributions/peers.csv`.
"""

from collections.abc import Iterable

from distributions.common.near_names import by_name, hint_near

_TABLE = {
    "AsymmetricLaplace": "AsymmetricLaplaceQuantile laplace_asymmetric skew_double_exponential",
    "AutoRegressive": "AR",
    "Bernoulli": "BernoulliLogits BernoulliProbs bernoulli_logit bernoulli_logit_glm",
    "BetaBinomial": "betabinom",
    "BetaNegativeBinomial": "beta_neg_binomial betanbinom",
    "Binomial": "BinomialLogits BinomialProbs binom binomial_logit binomial_logit_glm",
    "Categorical": "CategoricalLogits CategoricalProbs categorical_logit categorical_logit_glm",
    "Censored": "LeftCensoredDistribution RightCensoredDistribution",
    "Chi2": "ChiSquared chi_square",
    "Custom": "CustomDist",
    "Dagum": "burr",
    "Delta": "Deterministic DiracDelta VectorDeterministic",
    "Dirichlet": "FlatDirichlet",
    "DiscreteUniform": "discrete_range randint",
    "Exponential": "expon",
    "ExponentiallyModifiedGaussian": "ExGaussian exp_mod_normal exponnorm",
    "Flat": "HalfFlat ImproperUniform",
    "Frechet": "invweibull",
    "GaussianProcess": "GaussianProcessRegressionModel",
    "GeneralizedExtremeValue": "genextreme",
    "GeneralizedNormal": "gennorm",
    "GeneralizedPareto": "genpareto",
    "Geometric": "GeometricLogits GeometricProbs geom",
    "Gumbel": "gumbel_r",
    "HalfNormal": "halfnorm",
    "HalfNormal and the like have classes; others by Custom": "FoldedDistribution",
    "Hurdle": (
        "HurdleDistribution HurdleGamma HurdleLogNormal HurdleLogits HurdleNegativeBinomial "
        "HurdleNegativeBinomial2 HurdlePoisson HurdleProbs"
    ),
    "Hypergeometric": "hypergeom",
    "IntervalCensored": "IntervalCensoredDistribution",
    "InverseChi2": "inv_chi_square scaled_inv_chi_square",
    "InverseGamma": "inv_gamma invgamma",
    "InverseGaussian": "Wald invgauss",
    "InverseWishart": "inv_wishart",
    "InverseWishartCholesky": "inv_wishart_cholesky",
    "LKJ": "LKJCorr lkj_corr",
    "LKJCholesky": "CholeskyLKJ LKJCholeskyCov lkj_corr_cholesky",
    "Laplace": "double_exponential",
    "LogLogistic": "fisk",
    "LogNormal": "lognorm",
    "Logarithmic": "logser",
    "Lomax": "pareto_type_2",
    "Masked": "MaskedDistribution",
    "MatrixNormal": "MatrixNormalLinearOperator multi_gp multi_gp_cholesky",
    "Mixture": "MixtureGeneral",
    "MixtureSameFamily": "NormalMixture",
    "Multinomial": "MultinomialLogits MultinomialProbs multinomial_logit",
    "Multinomial with the probabilities of OrderedLogistic": "OrderedMultinomial",
    "MultivariateNormal": (
        "LowRankMultivariateNormal MultivariateNormalDiag MultivariateNormalDiagPlusLowRank "
        "MultivariateNormalDiagPlusLowRankCovariance MultivariateNormalFullCovariance "
        "MultivariateNormalLinearOperator MultivariateNormalTriL MvNormal multi_normal "
        "multi_normal_cholesky multi_normal_prec"
    ),
    "MultivariateStudentT": (
        "MultivariateStudentTLinearOperator MvStudentT multi_student_t multi_student_t_cholesky"
    ),
    "MultivariateStudentT with the matrix of a kernel": (
        "StudentTProcess StudentTProcessRegressionModel"
    ),
    "NegativeBinomial": (
        "NegativeBinomial2 NegativeBinomialLogits NegativeBinomialProbs nbinom neg_binomial "
        "neg_binomial_2 neg_binomial_2_log neg_binomial_2_log_glm"
    ),
    "NoncentralChi2": "ncx2",
    "Normal": "norm normal_id_glm std_normal",
    "NormalInverseGaussian": "norminvgauss",
    "OrderedLogistic": "ordered_logistic_glm",
    "Pareto": "LowerTruncatedPowerLaw",
    "Poisson": "poisson_log poisson_log_glm",
    "PoissonBinomial": "poisson_binom",
    "Quantized": "QuantizedDistribution",
    "RelaxedBernoulli": "RelaxedBernoulliLogits",
    "RelaxedOneHotCategorical": "ExpRelaxedOneHotCategorical",
    "SkewNormal": "skewnorm",
    "SkewStudentT": "jf_skew_t",
    "StudentT": "t",
    "TransformedDistribution of Beta": "SigmoidBeta",
    "TransformedDistribution with TFP's bijector LambertWTail": (
        "LambertWDistribution LambertWNormal"
    ),
    "Triangular": "triang",
    "Truncated": (
        "LeftTruncatedDistribution LeftTruncatedGamma RightTruncatedDistribution "
        "RightTruncatedGamma TruncatedCauchy TruncatedDistribution TruncatedGamma "
        "TwoSidedTruncatedDistribution TwoSidedTruncatedGamma"
    ),
    "TruncatedNormal": "truncnorm",
    "Weibull": "weibull_min",
    "Wishart": "WishartLinearOperator WishartTriL",
    "WishartCholesky": "WishartBartlett",
    "ZeroInflated": (
        "Inflated ZeroInflatedBinomial ZeroInflatedDistribution ZeroInflatedLogits "
        "ZeroInflatedNegativeBinomial ZeroInflatedNegativeBinomial2 ZeroInflatedPoisson "
        "ZeroInflatedProbs"
    ),
    "a batch is made by vmap or by parameters of its shape": (
        "BatchBroadcast BatchConcat BatchReshape ExpandedDistribution"
    ),
    "a guide of variational inference and no distribution": "VariationalGaussianProcess",
    "a law of its own for each base: by Custom": "SineSkewed",
    "a model is a function": (
        "JointDistributionCoroutine JointDistributionCoroutineAutoBatched JointDistributionNamed "
        "JointDistributionNamedAutoBatched JointDistributionSequential "
        "JointDistributionSequentialAutoBatched"
    ),
    "a model: MatrixNormal with a covariance of an InverseWishart": "MatrixTLinearOperator",
    "a model: a MultivariateNormal site and quantiles of its cdf": (
        "GaussianCopula GaussianCopulaBeta"
    ),
    "a model: a Normal site and a Poisson one": "PoissonLogNormalQuadratureCompound",
    "a model: a scan": "Autoregressive GARCH11 MarkovChain RandomWalk",
    "a model: a scan over steps that are MultivariateNormal": (
        "GaussianStateSpace LinearGaussianStateSpaceModel MvGaussianRandomWalk gaussian_dlm_obs"
    ),
    "a model: a scan over steps that are MultivariateStudentT": "MvStudentTRandomWalk",
    "a model: a scan over steps that are Normal": "EulerMaruyama",
    "a model: a scan that sums out the state": "HiddenMarkovModel hmm_marginal",
    "by Custom with jnp.interp": "Interpolated",
    "for likelihood-free inference": "Simulator",
    "iid": "Sample",
    "made for Gibbs samplers of logistic models": "PolyaGamma TruncatedPolyaGamma",
    "no density": "Empirical",
    "over subsets: no site of a model here; by TFP's own": "DeterminantalPointProcess",
    "ppl.factor": "Unit",
    "several sites": "Blockwise",
    "the quotient of two Beta sites; its density by TFP's own": "BetaQuotient",
}

_NEGATIVE_BINOMIAL = "NegativeBinomial(mean=..., concentration=...)"
_CALLS = by_name(  # for families of parts, or of other parameters
    {
        "Hurdle(Gamma(concentration, rate), probs=...)": "HurdleGamma",
        "Hurdle(LogNormal(loc, scale), probs=...)": "HurdleLogNormal",
        "Hurdle(Poisson(rate), probs=...)": "HurdlePoisson",
        f"Hurdle({_NEGATIVE_BINOMIAL}, probs=...)": (
            "HurdleNegativeBinomial HurdleNegativeBinomial2"
        ),
        "ZeroInflated(Binomial(total_count, probs=...), probs=...)": "ZeroInflatedBinomial",
        "ZeroInflated(Poisson(rate), probs=...)": "ZeroInflatedPoisson",
        f"ZeroInflated({_NEGATIVE_BINOMIAL}, probs=...)": (
            "ZeroInflatedNegativeBinomial ZeroInflatedNegativeBinomial2"
        ),
        _NEGATIVE_BINOMIAL: "NegativeBinomial2 neg_binomial_2",
    }
)
PEER_NAMES = by_name(_TABLE) | {"Gaussian": "Normal"}  # `ppl.Gaussian` is no distribution.


def explain(name: str, public: Iterable[str]) -> str:
    """The hint in the error of a missing attribute: its name here or elsewhere, or one near.

    Example:
        >>> explain("Wald", [])
        "; it is called 'InverseGaussian' here"
        >>> explain("NegativeBinomial2", [])
        "; it is called 'NegativeBinomial' here: NegativeBinomial(mean=..., concentration=...)"
    """
    if name not in PEER_NAMES:
        return hint_near(name, public)
    found = PEER_NAMES[name]
    call = f": {_CALLS[name]}" if name in _CALLS else ""
    return f"; it is called {found!r} here{call}" if found.isidentifier() else f" ({found}){call}"
