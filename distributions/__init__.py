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
from typing import TYPE_CHECKING, Any

from distributions import bijectors as bijectors
from distributions import constraints as constraints
from distributions.distribution import Distribution as Distribution

if TYPE_CHECKING:
    from distributions.bell import DoublesidedMaxwell as DoublesidedMaxwell
    from distributions.bell import GeneralizedNormal as GeneralizedNormal
    from distributions.bell import Moyal as Moyal
    from distributions.bell import SoftLaplace as SoftLaplace
    from distributions.bounded import Beta as Beta
    from distributions.bounded import TruncatedNormal as TruncatedNormal
    from distributions.bounded import Uniform as Uniform
    from distributions.chi_square import Chi as Chi
    from distributions.chi_square import Chi2 as Chi2
    from distributions.chi_square import HalfStudentT as HalfStudentT
    from distributions.chi_square import InverseChi2 as InverseChi2
    from distributions.chi_square import Rayleigh as Rayleigh
    from distributions.circular import VonMises as VonMises
    from distributions.discrete import Bernoulli as Bernoulli
    from distributions.discrete import Binomial as Binomial
    from distributions.discrete import Categorical as Categorical
    from distributions.discrete import Poisson as Poisson
    from distributions.extreme_value import Frechet as Frechet
    from distributions.extreme_value import GeneralizedExtremeValue as GeneralizedExtremeValue
    from distributions.extreme_value import GeneralizedPareto as GeneralizedPareto
    from distributions.extreme_value import Gumbel as Gumbel
    from distributions.extreme_value import Weibull as Weibull
    from distributions.flat import Flat as Flat
    from distributions.half_line import Exponential as Exponential
    from distributions.half_line import Gamma as Gamma
    from distributions.half_line import HalfCauchy as HalfCauchy
    from distributions.half_line import HalfNormal as HalfNormal
    from distributions.half_line import InverseGamma as InverseGamma
    from distributions.half_line import LogNormal as LogNormal
    from distributions.kl import kl_divergence as kl_divergence
    from distributions.lifetime import ExpGamma as ExpGamma
    from distributions.lifetime import ExpInverseGamma as ExpInverseGamma
    from distributions.lifetime import Gompertz as Gompertz
    from distributions.lifetime import InverseGaussian as InverseGaussian
    from distributions.mixture import MixtureSameFamily as MixtureSameFamily
    from distributions.multivariate import Dirichlet as Dirichlet
    from distributions.multivariate import MultivariateNormal as MultivariateNormal
    from distributions.power_law import Dagum as Dagum
    from distributions.power_law import GammaGamma as GammaGamma
    from distributions.power_law import Levy as Levy
    from distributions.power_law import LogLogistic as LogLogistic
    from distributions.power_law import Lomax as Lomax
    from distributions.power_law import Pareto as Pareto
    from distributions.real_line import Cauchy as Cauchy
    from distributions.real_line import Laplace as Laplace
    from distributions.real_line import Logistic as Logistic
    from distributions.real_line import Normal as Normal
    from distributions.real_line import StudentT as StudentT
    from distributions.sinh_normal import JohnsonSU as JohnsonSU
    from distributions.sinh_normal import SinhArcsinh as SinhArcsinh
    from distributions.skewed import AsymmetricLaplace as AsymmetricLaplace
    from distributions.skewed import ExponentiallyModifiedGaussian as ExponentiallyModifiedGaussian
    from distributions.skewed import SkewNormal as SkewNormal
    from distributions.skewed import TwoPieceNormal as TwoPieceNormal
    from distributions.tilted import ContinuousBernoulli as ContinuousBernoulli
    from distributions.tilted import DoublyTruncatedPowerLaw as DoublyTruncatedPowerLaw
    from distributions.tilted import LogUniform as LogUniform
    from distributions.unit_interval import PERT as PERT
    from distributions.unit_interval import BetaProportion as BetaProportion
    from distributions.unit_interval import Kumaraswamy as Kumaraswamy
    from distributions.unit_interval import LogitNormal as LogitNormal
    from distributions.unit_interval import Triangular as Triangular
    from distributions.validate import validate as validate

# The module of each name: it is imported when the name is first asked for.
_HOMES = {
    "bell": ("DoublesidedMaxwell", "GeneralizedNormal", "Moyal", "SoftLaplace"),
    "bounded": ("Beta", "TruncatedNormal", "Uniform"),
    "chi_square": ("Chi", "Chi2", "HalfStudentT", "InverseChi2", "Rayleigh"),
    "circular": ("VonMises",),
    "discrete": ("Bernoulli", "Binomial", "Categorical", "Poisson"),
    "extreme_value": (
        "Frechet",
        "GeneralizedExtremeValue",
        "GeneralizedPareto",
        "Gumbel",
        "Weibull",
    ),
    "flat": ("Flat",),
    "half_line": ("Exponential", "Gamma", "HalfCauchy", "HalfNormal", "InverseGamma", "LogNormal"),
    "kl": ("kl_divergence",),
    "lifetime": ("ExpGamma", "ExpInverseGamma", "Gompertz", "InverseGaussian"),
    "mixture": ("MixtureSameFamily",),
    "multivariate": ("Dirichlet", "MultivariateNormal"),
    "power_law": ("Dagum", "GammaGamma", "Levy", "LogLogistic", "Lomax", "Pareto"),
    "real_line": ("Cauchy", "Laplace", "Logistic", "Normal", "StudentT"),
    "sinh_normal": ("JohnsonSU", "SinhArcsinh"),
    "skewed": (
        "AsymmetricLaplace",
        "ExponentiallyModifiedGaussian",
        "SkewNormal",
        "TwoPieceNormal",
    ),
    "tilted": ("ContinuousBernoulli", "DoublyTruncatedPowerLaw", "LogUniform"),
    "unit_interval": ("BetaProportion", "Kumaraswamy", "LogitNormal", "PERT", "Triangular"),
    "validate": ("validate",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["Distribution", "bijectors", "constraints", *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'distributions' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"distributions.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
