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
    from distributions.bounded import Beta as Beta
    from distributions.bounded import TruncatedNormal as TruncatedNormal
    from distributions.bounded import Uniform as Uniform
    from distributions.circulant import CirculantNormal as CirculantNormal
    from distributions.correlation import LKJ as LKJ
    from distributions.correlation import LKJCholesky as LKJCholesky
    from distributions.custom import Custom as Custom
    from distributions.delta import Delta as Delta
    from distributions.directional import PowerSpherical as PowerSpherical
    from distributions.directional import ProjectedNormal as ProjectedNormal
    from distributions.directional import SphericalUniform as SphericalUniform
    from distributions.discrete import Bernoulli as Bernoulli
    from distributions.discrete import Binomial as Binomial
    from distributions.discrete import Categorical as Categorical
    from distributions.discrete import Poisson as Poisson
    from distributions.flat import Flat as Flat
    from distributions.half_line import Exponential as Exponential
    from distributions.half_line import Gamma as Gamma
    from distributions.half_line import HalfCauchy as HalfCauchy
    from distributions.half_line import HalfNormal as HalfNormal
    from distributions.half_line import InverseGamma as InverseGamma
    from distributions.half_line import LogNormal as LogNormal
    from distributions.independent import Independent as Independent
    from distributions.independent import iid as iid
    from distributions.inverse_wishart import InverseWishart as InverseWishart
    from distributions.inverse_wishart import InverseWishartCholesky as InverseWishartCholesky
    from distributions.kl import kl_divergence as kl_divergence
    from distributions.masked import Masked as Masked
    from distributions.matrix import KroneckerNormal as KroneckerNormal
    from distributions.matrix import MatrixNormal as MatrixNormal
    from distributions.mixture import Mixture as Mixture
    from distributions.mixture import MixtureSameFamily as MixtureSameFamily
    from distributions.multivariate import MultivariateNormal as MultivariateNormal
    from distributions.multivariate import MultivariateStudentT as MultivariateStudentT
    from distributions.processes import AutoRegressive as AutoRegressive
    from distributions.processes import GaussianProcess as GaussianProcess
    from distributions.processes import GaussianRandomWalk as GaussianRandomWalk
    from distributions.real_line import Cauchy as Cauchy
    from distributions.real_line import Laplace as Laplace
    from distributions.real_line import Logistic as Logistic
    from distributions.real_line import Normal as Normal
    from distributions.real_line import StudentT as StudentT
    from distributions.simplex import Dirichlet as Dirichlet
    from distributions.simplex import StickBreakingWeights as StickBreakingWeights
    from distributions.spatial import CAR as CAR
    from distributions.spatial import ICAR as ICAR
    from distributions.transformed import TransformedDistribution as TransformedDistribution
    from distributions.truncated import Censored as Censored
    from distributions.truncated import Truncated as Truncated
    from distributions.validate import validate as validate
    from distributions.von_mises_fisher import VonMisesFisher as VonMisesFisher
    from distributions.wishart import Wishart as Wishart
    from distributions.wishart import WishartCholesky as WishartCholesky
    from distributions.zero_sum import ZeroSumNormal as ZeroSumNormal

# The module of each name: it is imported when the name is first asked for.
_HOMES = {
    "bounded": ("Beta", "TruncatedNormal", "Uniform"),
    "circulant": ("CirculantNormal",),
    "correlation": ("LKJ", "LKJCholesky"),
    "custom": ("Custom",),
    "delta": ("Delta",),
    "directional": ("PowerSpherical", "ProjectedNormal", "SphericalUniform"),
    "discrete": ("Bernoulli", "Binomial", "Categorical", "Poisson"),
    "flat": ("Flat",),
    "half_line": ("Exponential", "Gamma", "HalfCauchy", "HalfNormal", "InverseGamma", "LogNormal"),
    "independent": ("Independent", "iid"),
    "inverse_wishart": ("InverseWishart", "InverseWishartCholesky"),
    "kl": ("kl_divergence",),
    "masked": ("Masked",),
    "matrix": ("KroneckerNormal", "MatrixNormal"),
    "mixture": ("Mixture", "MixtureSameFamily"),
    "multivariate": ("MultivariateNormal", "MultivariateStudentT"),
    "processes": ("AutoRegressive", "GaussianProcess", "GaussianRandomWalk"),
    "real_line": ("Cauchy", "Laplace", "Logistic", "Normal", "StudentT"),
    "simplex": ("Dirichlet", "StickBreakingWeights"),
    "spatial": ("CAR", "ICAR"),
    "transformed": ("TransformedDistribution",),
    "truncated": ("Censored", "Truncated"),
    "validate": ("validate",),
    "von_mises_fisher": ("VonMisesFisher",),
    "wishart": ("Wishart", "WishartCholesky"),
    "zero_sum": ("ZeroSumNormal",),
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
