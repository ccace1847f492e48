"""The gamma-Poisson distribution: a negative binomial, by shape and rate."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import nonnegative_integer, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.count_tails import tail_formulas
from distributions.numerics.negative_binomial_functions import (
    negative_binomial_entropy,
    negative_binomial_log_prob,
    negative_binomial_sample,
    negative_binomial_tails,
)


def _as_negative_binomial(concentration, rate):
    return concentration, -jnp.log(rate), None, None, None


@family(
    support=nonnegative_integer,
    log_prob=lambda y, *p: negative_binomial_log_prob(y, *_as_negative_binomial(*p)),
    sample=lambda key, shape, dtype, *p: negative_binomial_sample(
        key, shape, dtype, *_as_negative_binomial(*p)
    ),
    mean=lambda concentration, rate: concentration / rate,
    variance=lambda concentration, rate: concentration / rate * (1 + 1 / rate),
    mode=lambda concentration, rate: jnp.maximum(jnp.floor((concentration - 1) / rate), 0),
    entropy=lambda *p: negative_binomial_entropy(*_as_negative_binomial(*p)),
    **tail_formulas(lambda x, *p: negative_binomial_tails(x, *_as_negative_binomial(*p))),
)
class GammaPoisson(Family):
    r"""Gamma-Poisson distribution: a Poisson distribution whose mean has a gamma distribution.

    `p(k) = Gamma(k + a) / (k! Gamma(a)) (1 / (1 + b))^k (b / (1 + b))^a` for `k = 0, 1, 2, ...`,
    with `a = concentration` and `b = rate`: a negative binomial distribution.

    Args:
        concentration: The shape of the gamma distribution, positive.
        rate: The rate of the gamma distribution, positive.

    >>> import distributions as dist
    >>> round(float(dist.GammaPoisson(2.0, 1.0).log_prob(1)), 4)
    -1.3863

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive, default=1.0)
