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
    from distributions.categories import Bernoulli as Bernoulli
    from distributions.categories import Categorical as Categorical
    from distributions.categories import OneHotCategorical as OneHotCategorical
    from distributions.categories import ProbitBernoulli as ProbitBernoulli
    from distributions.counts import Binomial as Binomial
    from distributions.counts import Geometric as Geometric
    from distributions.counts import Poisson as Poisson
    from distributions.finite import FiniteDiscrete as FiniteDiscrete
    from distributions.flat import Flat as Flat
    from distributions.half_line import Exponential as Exponential
    from distributions.half_line import Gamma as Gamma
    from distributions.half_line import HalfCauchy as HalfCauchy
    from distributions.half_line import HalfNormal as HalfNormal
    from distributions.half_line import InverseGamma as InverseGamma
    from distributions.half_line import LogNormal as LogNormal
    from distributions.inflated import Hurdle as Hurdle
    from distributions.inflated import ZeroInflated as ZeroInflated
    from distributions.integers import DiscreteUniform as DiscreteUniform
    from distributions.integers import DiscreteWeibull as DiscreteWeibull
    from distributions.integers import Logarithmic as Logarithmic
    from distributions.integers import Skellam as Skellam
    from distributions.integers import Zipf as Zipf
    from distributions.kl import kl_divergence as kl_divergence
    from distributions.mixture import MixtureSameFamily as MixtureSameFamily
    from distributions.multivariate import Dirichlet as Dirichlet
    from distributions.multivariate import MultivariateNormal as MultivariateNormal
    from distributions.ordinal import OrderedLogistic as OrderedLogistic
    from distributions.ordinal import OrderedProbit as OrderedProbit
    from distributions.ordinal import PlackettLuce as PlackettLuce
    from distributions.ordinal import StoppingRatioLogistic as StoppingRatioLogistic
    from distributions.overdispersed import BetaNegativeBinomial as BetaNegativeBinomial
    from distributions.overdispersed import GammaPoisson as GammaPoisson
    from distributions.overdispersed import NegativeBinomial as NegativeBinomial
    from distributions.real_line import Cauchy as Cauchy
    from distributions.real_line import Laplace as Laplace
    from distributions.real_line import Normal as Normal
    from distributions.real_line import StudentT as StudentT
    from distributions.relaxed import RelaxedBernoulli as RelaxedBernoulli
    from distributions.relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
    from distributions.urns import BetaBinomial as BetaBinomial
    from distributions.urns import DirichletMultinomial as DirichletMultinomial
    from distributions.urns import Hypergeometric as Hypergeometric
    from distributions.urns import Multinomial as Multinomial
    from distributions.validate import validate as validate

# The module of each name: it is imported when the name is first asked for.
_HOMES = {
    "bounded": ("Beta", "TruncatedNormal", "Uniform"),
    "categories": ("Bernoulli", "Categorical", "OneHotCategorical", "ProbitBernoulli"),
    "counts": ("Binomial", "Geometric", "Poisson"),
    "finite": ("FiniteDiscrete",),
    "flat": ("Flat",),
    "half_line": ("Exponential", "Gamma", "HalfCauchy", "HalfNormal", "InverseGamma", "LogNormal"),
    "inflated": ("Hurdle", "ZeroInflated"),
    "integers": ("DiscreteUniform", "DiscreteWeibull", "Logarithmic", "Skellam", "Zipf"),
    "kl": ("kl_divergence",),
    "mixture": ("MixtureSameFamily",),
    "multivariate": ("Dirichlet", "MultivariateNormal"),
    "ordinal": ("OrderedLogistic", "OrderedProbit", "PlackettLuce", "StoppingRatioLogistic"),
    "overdispersed": ("BetaNegativeBinomial", "GammaPoisson", "NegativeBinomial"),
    "real_line": ("Cauchy", "Laplace", "Normal", "StudentT"),
    "relaxed": ("RelaxedBernoulli", "RelaxedOneHotCategorical"),
    "urns": ("BetaBinomial", "DirichletMultinomial", "Hypergeometric", "Multinomial"),
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
