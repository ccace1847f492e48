from distributions import bijectors as bijectors
from distributions import constraints as constraints
from distributions.combinators.censored import Censored as Censored
from distributions.combinators.custom import Custom as Custom
from distributions.combinators.delta import Delta as Delta
from distributions.combinators.flat import Flat as Flat
from distributions.combinators.hurdle import Hurdle as Hurdle
from distributions.combinators.iid import iid as iid
from distributions.combinators.independent import Independent as Independent
from distributions.combinators.interval_censored import IntervalCensored as IntervalCensored
from distributions.combinators.joint import Joint as Joint
from distributions.combinators.masked import Masked as Masked
from distributions.combinators.mixture import Mixture as Mixture
from distributions.combinators.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from distributions.combinators.quantized import Quantized as Quantized
from distributions.combinators.transformed import TransformedDistribution as TransformedDistribution
from distributions.combinators.truncated import Truncated as Truncated
from distributions.combinators.validate import validate as validate
from distributions.combinators.zero_inflated import ZeroInflated as ZeroInflated
from distributions.continuous.asymmetric_laplace import AsymmetricLaplace as AsymmetricLaplace
from distributions.continuous.bates import Bates as Bates
from distributions.continuous.beta import Beta as Beta
from distributions.continuous.beta_proportion import BetaProportion as BetaProportion
from distributions.continuous.cauchy import Cauchy as Cauchy
from distributions.continuous.chi import Chi as Chi
from distributions.continuous.chi2 import Chi2 as Chi2
from distributions.continuous.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from distributions.continuous.dagum import Dagum as Dagum
from distributions.continuous.doublesided_maxwell import DoublesidedMaxwell as DoublesidedMaxwell
from distributions.continuous.doubly_truncated_power_law import (
    DoublyTruncatedPowerLaw as DoublyTruncatedPowerLaw,
)
from distributions.continuous.exp_gamma import ExpGamma as ExpGamma
from distributions.continuous.exp_inverse_gamma import ExpInverseGamma as ExpInverseGamma
from distributions.continuous.exponential import Exponential as Exponential
from distributions.continuous.exponentially_modified_gaussian import (
    ExponentiallyModifiedGaussian as ExponentiallyModifiedGaussian,
)
from distributions.continuous.frechet import Frechet as Frechet
from distributions.continuous.gamma import Gamma as Gamma
from distributions.continuous.gamma_gamma import GammaGamma as GammaGamma
from distributions.continuous.generalized_extreme_value import (
    GeneralizedExtremeValue as GeneralizedExtremeValue,
)
from distributions.continuous.generalized_normal import GeneralizedNormal as GeneralizedNormal
from distributions.continuous.generalized_pareto import GeneralizedPareto as GeneralizedPareto
from distributions.continuous.gompertz import Gompertz as Gompertz
from distributions.continuous.gumbel import Gumbel as Gumbel
from distributions.continuous.half_cauchy import HalfCauchy as HalfCauchy
from distributions.continuous.half_normal import HalfNormal as HalfNormal
from distributions.continuous.half_student_t import HalfStudentT as HalfStudentT
from distributions.continuous.horseshoe import Horseshoe as Horseshoe
from distributions.continuous.inverse_chi2 import InverseChi2 as InverseChi2
from distributions.continuous.inverse_gamma import InverseGamma as InverseGamma
from distributions.continuous.inverse_gaussian import InverseGaussian as InverseGaussian
from distributions.continuous.johnson_su import JohnsonSU as JohnsonSU
from distributions.continuous.kumaraswamy import Kumaraswamy as Kumaraswamy
from distributions.continuous.laplace import Laplace as Laplace
from distributions.continuous.levy import Levy as Levy
from distributions.continuous.log_logistic import LogLogistic as LogLogistic
from distributions.continuous.log_normal import LogNormal as LogNormal
from distributions.continuous.log_uniform import LogUniform as LogUniform
from distributions.continuous.logistic import Logistic as Logistic
from distributions.continuous.logit_normal import LogitNormal as LogitNormal
from distributions.continuous.lomax import Lomax as Lomax
from distributions.continuous.moyal import Moyal as Moyal
from distributions.continuous.noncentral_chi2 import NoncentralChi2 as NoncentralChi2
from distributions.continuous.normal import Normal as Normal
from distributions.continuous.normal_inverse_gaussian import (
    NormalInverseGaussian as NormalInverseGaussian,
)
from distributions.continuous.pareto import Pareto as Pareto
from distributions.continuous.pert import PERT as PERT
from distributions.continuous.rayleigh import Rayleigh as Rayleigh
from distributions.continuous.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from distributions.continuous.rice import Rice as Rice
from distributions.continuous.sinh_arcsinh import SinhArcsinh as SinhArcsinh
from distributions.continuous.skew_normal import SkewNormal as SkewNormal
from distributions.continuous.skew_student_t import SkewStudentT as SkewStudentT
from distributions.continuous.soft_laplace import SoftLaplace as SoftLaplace
from distributions.continuous.student_t import StudentT as StudentT
from distributions.continuous.triangular import Triangular as Triangular
from distributions.continuous.truncated_normal import TruncatedNormal as TruncatedNormal
from distributions.continuous.two_piece_normal import TwoPieceNormal as TwoPieceNormal
from distributions.continuous.two_piece_student_t import TwoPieceStudentT as TwoPieceStudentT
from distributions.continuous.uniform import Uniform as Uniform
from distributions.continuous.von_mises import VonMises as VonMises
from distributions.continuous.weibull import Weibull as Weibull
from distributions.continuous.wiener import Wiener as Wiener
from distributions.core.distribution import Distribution as Distribution
from distributions.discrete.bernoulli import Bernoulli as Bernoulli
from distributions.discrete.beta_binomial import BetaBinomial as BetaBinomial
from distributions.discrete.beta_negative_binomial import (
    BetaNegativeBinomial as BetaNegativeBinomial,
)
from distributions.discrete.binomial import Binomial as Binomial
from distributions.discrete.categorical import Categorical as Categorical
from distributions.discrete.discrete_uniform import DiscreteUniform as DiscreteUniform
from distributions.discrete.discrete_weibull import DiscreteWeibull as DiscreteWeibull
from distributions.discrete.finite_discrete import FiniteDiscrete as FiniteDiscrete
from distributions.discrete.gamma_poisson import GammaPoisson as GammaPoisson
from distributions.discrete.geometric import Geometric as Geometric
from distributions.discrete.hypergeometric import Hypergeometric as Hypergeometric
from distributions.discrete.logarithmic import Logarithmic as Logarithmic
from distributions.discrete.negative_binomial import NegativeBinomial as NegativeBinomial
from distributions.discrete.ordered_logistic import OrderedLogistic as OrderedLogistic
from distributions.discrete.ordered_probit import OrderedProbit as OrderedProbit
from distributions.discrete.poisson import Poisson as Poisson
from distributions.discrete.poisson_binomial import PoissonBinomial as PoissonBinomial
from distributions.discrete.probit_bernoulli import ProbitBernoulli as ProbitBernoulli
from distributions.discrete.skellam import Skellam as Skellam
from distributions.discrete.stopping_ratio_logistic import (
    StoppingRatioLogistic as StoppingRatioLogistic,
)
from distributions.discrete.zipf import Zipf as Zipf
from distributions.divergence.kl_divergence import kl_divergence as kl_divergence
from distributions.multivariate.auto_regressive import AutoRegressive as AutoRegressive
from distributions.multivariate.car import CAR as CAR
from distributions.multivariate.circulant_normal import CirculantNormal as CirculantNormal
from distributions.multivariate.dirichlet import Dirichlet as Dirichlet
from distributions.multivariate.dirichlet_multinomial import (
    DirichletMultinomial as DirichletMultinomial,
)
from distributions.multivariate.gaussian_process import GaussianProcess as GaussianProcess
from distributions.multivariate.gaussian_random_walk import GaussianRandomWalk as GaussianRandomWalk
from distributions.multivariate.icar import ICAR as ICAR
from distributions.multivariate.inverse_wishart import InverseWishart as InverseWishart
from distributions.multivariate.inverse_wishart_cholesky import (
    InverseWishartCholesky as InverseWishartCholesky,
)
from distributions.multivariate.kronecker_normal import KroneckerNormal as KroneckerNormal
from distributions.multivariate.lkj import LKJ as LKJ
from distributions.multivariate.lkj_cholesky import LKJCholesky as LKJCholesky
from distributions.multivariate.matrix_normal import MatrixNormal as MatrixNormal
from distributions.multivariate.multinomial import Multinomial as Multinomial
from distributions.multivariate.multivariate_normal import MultivariateNormal as MultivariateNormal
from distributions.multivariate.multivariate_student_t import (
    MultivariateStudentT as MultivariateStudentT,
)
from distributions.multivariate.one_hot_categorical import OneHotCategorical as OneHotCategorical
from distributions.multivariate.plackett_luce import PlackettLuce as PlackettLuce
from distributions.multivariate.power_spherical import PowerSpherical as PowerSpherical
from distributions.multivariate.projected_normal import ProjectedNormal as ProjectedNormal
from distributions.multivariate.relaxed_one_hot_categorical import (
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from distributions.multivariate.sine_bivariate_von_mises import (
    SineBivariateVonMises as SineBivariateVonMises,
)
from distributions.multivariate.spherical_uniform import SphericalUniform as SphericalUniform
from distributions.multivariate.stick_breaking_weights import (
    StickBreakingWeights as StickBreakingWeights,
)
from distributions.multivariate.von_mises_fisher import VonMisesFisher as VonMisesFisher
from distributions.multivariate.wishart import Wishart as Wishart
from distributions.multivariate.wishart_cholesky import WishartCholesky as WishartCholesky
from distributions.multivariate.zero_sum_normal import ZeroSumNormal as ZeroSumNormal

__version__: str
