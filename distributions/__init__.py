"""Probability distributions, their supports, and bijectors from unconstrained space.

Names, parameters and their order are those of TensorFlow Probability. Every distribution is a
pytree of its parameters with `log_prob`, `sample`, `support` and `bijector`.

Dtypes follow JAX's promotion rules. Parameters stay what they were given as: Python scalars are
weakly typed, so that `Normal(0.0, 1.0)` draws in the default float but scores a bfloat16 value in
bfloat16; arrays of different dtypes are promoted; integers become floats. Draws of discrete
families have JAX's default integer dtype.

Parameters whose values are known when a distribution is made are checked on the host; those that
are traced are not. Outside of the support a log density is `-inf`, with a gradient of zero.

    >>> import distributions as dist
    >>> round(float(dist.Normal(0.0, 1.0).log_prob(0.0)), 4)
    -0.9189
"""

import importlib
import typing

from distributions import bijectors as bijectors
from distributions import constraints as constraints
from distributions.distribution import Distribution as Distribution

if typing.TYPE_CHECKING:
    from distributions._validate import validate as validate
    from distributions.bates import Bates as Bates
    from distributions.bell import DoublesidedMaxwell as DoublesidedMaxwell
    from distributions.bell import GeneralizedNormal as GeneralizedNormal
    from distributions.bell import Moyal as Moyal
    from distributions.bell import SoftLaplace as SoftLaplace
    from distributions.bounded import Beta as Beta
    from distributions.bounded import TruncatedNormal as TruncatedNormal
    from distributions.bounded import Uniform as Uniform
    from distributions.categories import Bernoulli as Bernoulli
    from distributions.categories import Categorical as Categorical
    from distributions.categories import OneHotCategorical as OneHotCategorical
    from distributions.categories import ProbitBernoulli as ProbitBernoulli
    from distributions.chi_square import Chi as Chi
    from distributions.chi_square import Chi2 as Chi2
    from distributions.chi_square import HalfStudentT as HalfStudentT
    from distributions.chi_square import InverseChi2 as InverseChi2
    from distributions.chi_square import Rayleigh as Rayleigh
    from distributions.circulant import CirculantNormal as CirculantNormal
    from distributions.circular import VonMises as VonMises
    from distributions.correlation import LKJ as LKJ
    from distributions.correlation import LKJCholesky as LKJCholesky
    from distributions.counts import Binomial as Binomial
    from distributions.counts import Geometric as Geometric
    from distributions.counts import Poisson as Poisson
    from distributions.custom import Custom as Custom
    from distributions.delta import Delta as Delta
    from distributions.directional import PowerSpherical as PowerSpherical
    from distributions.directional import ProjectedNormal as ProjectedNormal
    from distributions.directional import SphericalUniform as SphericalUniform
    from distributions.extreme_value import Frechet as Frechet
    from distributions.extreme_value import Gumbel as Gumbel
    from distributions.extreme_value import Weibull as Weibull
    from distributions.finite import FiniteDiscrete as FiniteDiscrete
    from distributions.flat import Flat as Flat
    from distributions.generalized_extremes import (
        GeneralizedExtremeValue as GeneralizedExtremeValue,
    )
    from distributions.generalized_extremes import GeneralizedPareto as GeneralizedPareto
    from distributions.half_line import Exponential as Exponential
    from distributions.half_line import Gamma as Gamma
    from distributions.half_line import HalfCauchy as HalfCauchy
    from distributions.half_line import HalfNormal as HalfNormal
    from distributions.half_line import InverseGamma as InverseGamma
    from distributions.half_line import LogNormal as LogNormal
    from distributions.horseshoe import Horseshoe as Horseshoe
    from distributions.independent import Independent as Independent
    from distributions.independent import iid as iid
    from distributions.inflated import Hurdle as Hurdle
    from distributions.inflated import ZeroInflated as ZeroInflated
    from distributions.integers import DiscreteUniform as DiscreteUniform
    from distributions.integers import DiscreteWeibull as DiscreteWeibull
    from distributions.integers import Logarithmic as Logarithmic
    from distributions.integers import Zipf as Zipf
    from distributions.inverse_wishart import InverseWishart as InverseWishart
    from distributions.inverse_wishart import InverseWishartCholesky as InverseWishartCholesky
    from distributions.kl import kl_divergence as kl_divergence
    from distributions.kronecker import KroneckerNormal as KroneckerNormal
    from distributions.lifetime import ExpGamma as ExpGamma
    from distributions.lifetime import ExpInverseGamma as ExpInverseGamma
    from distributions.lifetime import Gompertz as Gompertz
    from distributions.lifetime import InverseGaussian as InverseGaussian
    from distributions.masked import Masked as Masked
    from distributions.matrix import MatrixNormal as MatrixNormal
    from distributions.mixture import Mixture as Mixture
    from distributions.mixture import MixtureSameFamily as MixtureSameFamily
    from distributions.multivariate import MultivariateNormal as MultivariateNormal
    from distributions.multivariate import MultivariateStudentT as MultivariateStudentT
    from distributions.noncentral_chi_square import NoncentralChi2 as NoncentralChi2
    from distributions.normal_inverse_gaussian import NormalInverseGaussian as NormalInverseGaussian
    from distributions.ordinal import OrderedLogistic as OrderedLogistic
    from distributions.ordinal import OrderedProbit as OrderedProbit
    from distributions.ordinal import PlackettLuce as PlackettLuce
    from distributions.ordinal import StoppingRatioLogistic as StoppingRatioLogistic
    from distributions.overdispersed import BetaNegativeBinomial as BetaNegativeBinomial
    from distributions.overdispersed import GammaPoisson as GammaPoisson
    from distributions.overdispersed import NegativeBinomial as NegativeBinomial
    from distributions.poisson_binomial import PoissonBinomial as PoissonBinomial
    from distributions.power_law import Dagum as Dagum
    from distributions.power_law import GammaGamma as GammaGamma
    from distributions.power_law import Levy as Levy
    from distributions.power_law import LogLogistic as LogLogistic
    from distributions.power_law import Lomax as Lomax
    from distributions.power_law import Pareto as Pareto
    from distributions.processes import AutoRegressive as AutoRegressive
    from distributions.processes import GaussianProcess as GaussianProcess
    from distributions.processes import GaussianRandomWalk as GaussianRandomWalk
    from distributions.real_line import Cauchy as Cauchy
    from distributions.real_line import Laplace as Laplace
    from distributions.real_line import Logistic as Logistic
    from distributions.real_line import Normal as Normal
    from distributions.real_line import StudentT as StudentT
    from distributions.recorded import IntervalCensored as IntervalCensored
    from distributions.recorded import Quantized as Quantized
    from distributions.relaxed import RelaxedBernoulli as RelaxedBernoulli
    from distributions.relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
    from distributions.rice import Rice as Rice
    from distributions.simplex import Dirichlet as Dirichlet
    from distributions.simplex import StickBreakingWeights as StickBreakingWeights
    from distributions.sine_bivariate_von_mises import (
        SineBivariateVonMises as SineBivariateVonMises,
    )
    from distributions.sinh_normal import JohnsonSU as JohnsonSU
    from distributions.sinh_normal import SinhArcsinh as SinhArcsinh
    from distributions.skellam import Skellam as Skellam
    from distributions.skew_student_t import SkewStudentT as SkewStudentT
    from distributions.skewed import AsymmetricLaplace as AsymmetricLaplace
    from distributions.skewed import ExponentiallyModifiedGaussian as ExponentiallyModifiedGaussian
    from distributions.skewed import SkewNormal as SkewNormal
    from distributions.spatial import CAR as CAR
    from distributions.spatial import ICAR as ICAR
    from distributions.tilted import ContinuousBernoulli as ContinuousBernoulli
    from distributions.tilted import DoublyTruncatedPowerLaw as DoublyTruncatedPowerLaw
    from distributions.tilted import LogUniform as LogUniform
    from distributions.transformed import TransformedDistribution as TransformedDistribution
    from distributions.truncated import Censored as Censored
    from distributions.truncated import Truncated as Truncated
    from distributions.two_piece import TwoPieceNormal as TwoPieceNormal
    from distributions.two_piece import TwoPieceStudentT as TwoPieceStudentT
    from distributions.unit_interval import PERT as PERT
    from distributions.unit_interval import BetaProportion as BetaProportion
    from distributions.unit_interval import Kumaraswamy as Kumaraswamy
    from distributions.unit_interval import LogitNormal as LogitNormal
    from distributions.unit_interval import Triangular as Triangular
    from distributions.urns import BetaBinomial as BetaBinomial
    from distributions.urns import DirichletMultinomial as DirichletMultinomial
    from distributions.urns import Hypergeometric as Hypergeometric
    from distributions.urns import Multinomial as Multinomial
    from distributions.von_mises_fisher import VonMisesFisher as VonMisesFisher
    from distributions.wiener import Wiener as Wiener
    from distributions.wishart import Wishart as Wishart
    from distributions.wishart import WishartCholesky as WishartCholesky
    from distributions.zero_sum import ZeroSumNormal as ZeroSumNormal

# The module of each name: it is imported when the name is first asked for.
_HOMES = {
    "_validate": ("validate",),
    "bates": ("Bates",),
    "bell": ("DoublesidedMaxwell", "GeneralizedNormal", "Moyal", "SoftLaplace"),
    "bounded": ("Beta", "TruncatedNormal", "Uniform"),
    "categories": ("Bernoulli", "Categorical", "OneHotCategorical", "ProbitBernoulli"),
    "chi_square": ("Chi", "Chi2", "HalfStudentT", "InverseChi2", "Rayleigh"),
    "circulant": ("CirculantNormal",),
    "circular": ("VonMises",),
    "correlation": ("LKJ", "LKJCholesky"),
    "counts": ("Binomial", "Geometric", "Poisson"),
    "custom": ("Custom",),
    "delta": ("Delta",),
    "directional": ("PowerSpherical", "ProjectedNormal", "SphericalUniform"),
    "extreme_value": ("Frechet", "Gumbel", "Weibull"),
    "finite": ("FiniteDiscrete",),
    "flat": ("Flat",),
    "generalized_extremes": ("GeneralizedExtremeValue", "GeneralizedPareto"),
    "half_line": ("Exponential", "Gamma", "HalfCauchy", "HalfNormal", "InverseGamma", "LogNormal"),
    "horseshoe": ("Horseshoe",),
    "independent": ("Independent", "iid"),
    "inflated": ("Hurdle", "ZeroInflated"),
    "integers": ("DiscreteUniform", "DiscreteWeibull", "Logarithmic", "Zipf"),
    "inverse_wishart": ("InverseWishart", "InverseWishartCholesky"),
    "kl": ("kl_divergence",),
    "kronecker": ("KroneckerNormal",),
    "lifetime": ("ExpGamma", "ExpInverseGamma", "Gompertz", "InverseGaussian"),
    "masked": ("Masked",),
    "matrix": ("MatrixNormal",),
    "mixture": ("Mixture", "MixtureSameFamily"),
    "multivariate": ("MultivariateNormal", "MultivariateStudentT"),
    "noncentral_chi_square": ("NoncentralChi2",),
    "normal_inverse_gaussian": ("NormalInverseGaussian",),
    "ordinal": ("OrderedLogistic", "OrderedProbit", "PlackettLuce", "StoppingRatioLogistic"),
    "overdispersed": ("BetaNegativeBinomial", "GammaPoisson", "NegativeBinomial"),
    "poisson_binomial": ("PoissonBinomial",),
    "power_law": ("Dagum", "GammaGamma", "Levy", "LogLogistic", "Lomax", "Pareto"),
    "processes": ("AutoRegressive", "GaussianProcess", "GaussianRandomWalk"),
    "real_line": ("Cauchy", "Laplace", "Logistic", "Normal", "StudentT"),
    "recorded": ("IntervalCensored", "Quantized"),
    "relaxed": ("RelaxedBernoulli", "RelaxedOneHotCategorical"),
    "rice": ("Rice",),
    "simplex": ("Dirichlet", "StickBreakingWeights"),
    "sinh_normal": ("JohnsonSU", "SinhArcsinh"),
    "skew_student_t": ("SkewStudentT",),
    "skellam": ("Skellam",),
    "skewed": ("AsymmetricLaplace", "ExponentiallyModifiedGaussian", "SkewNormal"),
    "spatial": ("CAR", "ICAR"),
    "sine_bivariate_von_mises": ("SineBivariateVonMises",),
    "tilted": ("ContinuousBernoulli", "DoublyTruncatedPowerLaw", "LogUniform"),
    "transformed": ("TransformedDistribution",),
    "truncated": ("Censored", "Truncated"),
    "two_piece": ("TwoPieceNormal", "TwoPieceStudentT"),
    "unit_interval": ("BetaProportion", "Kumaraswamy", "LogitNormal", "PERT", "Triangular"),
    "urns": ("BetaBinomial", "DirichletMultinomial", "Hypergeometric", "Multinomial"),
    "von_mises_fisher": ("VonMisesFisher",),
    "wiener": ("Wiener",),
    "wishart": ("Wishart", "WishartCholesky"),
    "zero_sum": ("ZeroSumNormal",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["Distribution", "bijectors", "constraints", *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> typing.Any:
    if name not in _HOME:
        import difflib

        close = difflib.get_close_matches(name, _HOME, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise AttributeError(f"module 'distributions' has no attribute {name!r}{hint}")
    found = getattr(importlib.import_module(f"distributions.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
