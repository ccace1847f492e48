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

from distributions import bijectors as bijectors
from distributions import constraints as constraints
from distributions.bounded import Beta as Beta
from distributions.bounded import TruncatedNormal as TruncatedNormal
from distributions.bounded import Uniform as Uniform
from distributions.discrete import Bernoulli as Bernoulli
from distributions.discrete import Binomial as Binomial
from distributions.discrete import Categorical as Categorical
from distributions.discrete import Poisson as Poisson
from distributions.distribution import Distribution as Distribution
from distributions.flat import Flat as Flat
from distributions.half_line import Exponential as Exponential
from distributions.half_line import Gamma as Gamma
from distributions.half_line import HalfCauchy as HalfCauchy
from distributions.half_line import HalfNormal as HalfNormal
from distributions.half_line import InverseGamma as InverseGamma
from distributions.half_line import LogNormal as LogNormal
from distributions.mixture import MixtureSameFamily as MixtureSameFamily
from distributions.multivariate import Dirichlet as Dirichlet
from distributions.multivariate import MultivariateNormal as MultivariateNormal
from distributions.real_line import Cauchy as Cauchy
from distributions.real_line import Laplace as Laplace
from distributions.real_line import Normal as Normal
from distributions.real_line import StudentT as StudentT

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Flat",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "Normal",
    "Poisson",
    "StudentT",
    "TruncatedNormal",
    "Uniform",
    "bijectors",
    "constraints",
]
