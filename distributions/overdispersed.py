"""Poisson counts with a random mean: NegativeBinomial, GammaPoisson, and one of those at random."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.typing import ArrayLike

from distributions._arrays import select
from distributions._gamma_draw import gamma, log_gamma
from distributions._gamma_ratios import log_tails
from distributions._random_chances import beta_negative_binomial_entropy
from distributions.constraints import nonnegative_integer, positive, real, unit_interval
from distributions.counts import log_chances
from distributions.family import Family, family
from distributions.incomplete import log_tails_of_chances
from distributions.row import parameter
from distributions.special import log1p_quotient, ratio, safe_log, safe_log1m, times_log
from distributions.special_counts import (
    column,
    entropy_of_counts,
    limit_of_spread,
    log_negative_binomial,
    poisson_draw,
)


def _log_prob(y, r, logits, probs, mean, concentration):
    if mean is not None:
        log_odds = jnp.log(mean) - jnp.log(concentration)
        return log_negative_binomial(y.astype(mean.dtype), concentration, log_odds)
    if probs is None:
        return log_negative_binomial(y.astype(logits.dtype), jnp.asarray(r), logits)
    return _log_prob_by_probs(y.astype(probs.dtype), jnp.asarray(r), probs)


def _log_prob_by_probs(k, r, probs):
    """With 0 and 1, at which all counts but 0, or all, are impossible."""
    inner, possible = (probs > 0) & (probs < 1), (probs < 1) & ((k == 0) | (probs > 0))
    p = select(inner, probs, 0.5)
    mass = log_negative_binomial(k, r, jnp.log(p) - jnp.log1p(-p))
    none = r * safe_log1m(select(probs < 1, probs, 0))
    return select(possible, select(k > 0, mass, none), -jnp.inf)


def _size(r, logits, probs, mean, concentration):
    return r if mean is None else concentration


def _mean(r, logits, probs, mean, concentration):
    if mean is not None:
        return mean
    return r * (jnp.exp(logits) if probs is None else probs / (1 - probs))


def _variance(*parameters):
    mean = _mean(*parameters)
    return mean + jnp.square(mean) / _size(*parameters)


def _mode(*parameters):
    r, mean = _size(*parameters), _mean(*parameters)
    return jnp.maximum(jnp.floor((r - 1) / r * mean), 0)


def _sample(key, shape, dtype, *parameters):
    r = _size(*parameters)
    gamma_key, poisson_key = random.split(key)
    rate = gamma(gamma_key, r, shape, dtype) * (_mean(*parameters) / r)
    return poisson_draw(poisson_key, rate, shape)


def _log_tails(x, r, logits, probs, mean, concentration):
    if mean is not None:
        r, logits = concentration, jnp.log(mean) - jnp.log(concentration)
    log_p, log_q = log_chances(logits, probs)
    return log_tails_of_chances(jnp.asarray(r), x + 1, log_q, log_p)


def _integral(r, mean):
    """`int_0^inf (1 - E exp(-k t)) (exp(-t) - exp(-r t)) / ((1 - exp(-t)) t) dt`.

    By the trapezoidal rule over `log t`, whose error is below 1e-12.
    """
    r, mean = r[..., None], mean[..., None]
    info = jnp.finfo(r.dtype)
    low = math.log(info.eps) - jnp.log1p(ratio(mean, r)) - jnp.log1p(r)
    low = lax.stop_gradient(jnp.maximum(low, math.log(info.tiny) + 1))
    high = lax.stop_gradient(math.log(40) - jnp.log(jnp.minimum(r, 1)))
    nodes = np.linspace(0, 1, 241).reshape((1,) * (r.ndim - 1) + (-1,)).astype(r.dtype)
    t = jnp.exp(low + (high - low) * nodes)
    some = -jnp.expm1(-r * jnp.log1p(ratio(mean, r) * -jnp.expm1(-t)))
    gap = select(r < 1, 1 - r, r - 1)
    rest = jnp.exp(-jnp.minimum(r, 1) * t) * jnp.expm1(-gap * t) / jnp.expm1(-t)
    return jnp.mean(some * select(r < 1, -rest, rest), -1) * (241 / 240 * (high - low)[..., 0])


def _entropy(*parameters):
    """Of few failures, by Binet's formula for log-gammas; of many, as of other counts.

    The former is `r` times the entropy of a geometric variable, less an integral.

    References:
        C. Knessl, "Integral representations and asymptotic expansions for Shannon and Renyi
        entropies", Applied Mathematics Letters 11 (1998), 69-74.
    """
    r, mean = jnp.broadcast_arrays(_size(*parameters), _mean(*parameters))
    is_few = r < limit_of_spread(r.dtype)
    few, many = select(is_few, r, 1), select(is_few, limit_of_spread(r.dtype), r)
    log_failure = jnp.log1p(ratio(few, select(mean > 0, mean, 1)))
    geometric = few * jnp.log1p(ratio(mean, few)) + times_log(mean, log_failure)
    log_odds = column(safe_log(mean) - jnp.log(many))
    score = lambda k: log_negative_binomial(k, column(many), log_odds)  # noqa: E731
    sd = jnp.sqrt(mean) * jnp.sqrt(1 + mean / many)
    total = entropy_of_counts(score, mean, sd, 1 + 2 * (mean / many))
    return select(is_few, geometric - _integral(few, mean), total)


@family(
    support=nonnegative_integer,
    one_of=(("total_count", "logits"), ("total_count", "probs"), ("mean", "concentration")),
    log_prob=_log_prob,
    sample=_sample,
    mean=_mean,
    variance=_variance,
    mode=_mode,
    entropy=_entropy,
    log_cdf=lambda x, *p: _log_tails(x, *p)[0],
    log_survival=lambda x, *p: _log_tails(x, *p)[1],
)
class NegativeBinomial(Family):
    r"""Negative binomial distribution: a Poisson distribution whose mean has a gamma distribution.

    `p(k) = Gamma(k + r) / (k! Gamma(r)) probs^k (1 - probs)^r` for `k = 0, 1, 2, ...`, with
    `r = total_count` or `concentration`. With `mean = r probs / (1 - probs)` the variance is
    `mean + mean^2 / r`. For an integer `r` it is the number of successes before the `r`-th failure;
    as `r` grows at a given mean, it tends to the Poisson distribution.

    Args:
        total_count: The number of failures, positive, an integer or not.
        logits: The log odds of success.
        probs: The probability of success; exactly one of the two is given with `total_count`.
        mean: The mean, positive, by keyword and with `concentration` only.
        concentration: The shape of the gamma distribution, positive.

    >>> import distributions as dist
    >>> round(float(dist.NegativeBinomial(2.0, probs=0.5).log_prob(1)), 4)
    -1.3863
    >>> round(float(dist.NegativeBinomial(mean=2.0, concentration=2.0).log_prob(1)), 4)
    -1.3863

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 5.
    """

    total_count: ArrayLike | None = parameter(positive, default=None)
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
    mean: ArrayLike | None = parameter(positive, default=None, kw_only=True)  # pyright: ignore
    concentration: ArrayLike | None = parameter(positive, default=None, kw_only=True)


def _as_negative_binomial(concentration, rate):
    return concentration, -jnp.log(rate), None, None, None


@family(
    support=nonnegative_integer,
    log_prob=lambda y, *p: _log_prob(y, *_as_negative_binomial(*p)),
    sample=lambda key, shape, dtype, *p: _sample(key, shape, dtype, *_as_negative_binomial(*p)),
    mean=lambda concentration, rate: concentration / rate,
    variance=lambda concentration, rate: concentration / rate * (1 + 1 / rate),
    mode=lambda concentration, rate: jnp.maximum(jnp.floor((concentration - 1) / rate), 0),
    entropy=lambda *p: _entropy(*_as_negative_binomial(*p)),
    log_cdf=lambda x, *p: _log_tails(x, *_as_negative_binomial(*p))[0],
    log_survival=lambda x, *p: _log_tails(x, *_as_negative_binomial(*p))[1],
)
class GammaPoisson(Family):
    r"""Poisson distribution whose mean has a gamma distribution.

    `p(k) = Gamma(k + a) / (k! Gamma(a)) (1 / (1 + b))^k (b / (1 + b))^a` for `k = 0, 1, 2, ...`,
    with `a = concentration` and `b = rate`: a negative binomial distribution.

    Args:
        concentration: The shape of the gamma distribution, positive.
        rate: Its rate, positive.

    >>> import distributions as dist
    >>> round(float(dist.GammaPoisson(2.0, 1.0).log_prob(1)), 4)
    -1.3863

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive, default=1.0)


def _beta_negative_binomial_log_prob(y, n, a, b):
    """Products of negative binomial masses, whose common odds cancel."""
    k = y.astype(a.dtype)
    log_odds = jnp.log(n + k) - jnp.log(a + b)
    log_rest = log_negative_binomial(k, a, log_odds) + log_negative_binomial(
        jnp.asarray(n), b, log_odds
    )
    return log_rest - log_negative_binomial(n + k, a + b, log_odds) - log1p_quotient(k, n)


def _beta_negative_binomial_sample(key, shape, dtype, n, a, b):
    key, *keys = random.split(key, 4)
    log_n, log_a, log_b = (
        log_gamma(key, x, shape, dtype) for key, x in zip(keys, (n, a, b), strict=True)
    )
    return poisson_draw(key, jnp.exp(log_n + log_a - log_b), shape)


def _beta_negative_binomial_variance(n, a, b):
    variance = n * a * (a + b - 1) * (n + b - 1) / ((b - 2) * jnp.square(b - 1))
    return select(b > 2, variance, jnp.inf)


@family(
    support=nonnegative_integer,
    has_finite_slopes=True,
    log_prob=_beta_negative_binomial_log_prob,
    sample=_beta_negative_binomial_sample,
    mean=lambda n, a, b: select(b > 1, n * a / (b - 1), jnp.inf),
    variance=_beta_negative_binomial_variance,
    entropy=lambda n, a, b: beta_negative_binomial_entropy(
        _beta_negative_binomial_log_prob, jnp.asarray(n), jnp.asarray(a), jnp.asarray(b)
    ),
    mode=lambda n, a, b: jnp.maximum(jnp.floor((n - 1) * (a - 1) / (b + 1)), 0),
    log_cdf=lambda x, n, a, b: log_tails(a, n, b, x + 1)[0],
    log_survival=lambda x, n, a, b: log_tails(a, n, b, x + 1)[1],
)
class BetaNegativeBinomial(Family):
    r"""Negative binomial distribution whose probability of success has a beta distribution.

    `p(k) = Gamma(k + n) / (k! Gamma(n)) B(a + k, b + n) / B(a, b)` for `k = 0, 1, 2, ...`, with
    `n = total_count`, `a = concentration1` and `b = concentration0`. The mean is infinite for
    `b <= 1` and the variance for `b <= 2`.

    Args:
        total_count: The number of failures, positive, an integer or not.
        concentration1: The first parameter of the beta distribution, positive.
        concentration0: The second one, positive.

    >>> import distributions as dist
    >>> round(float(dist.BetaNegativeBinomial(2.0, 1.0, 3.0).log_prob(0)), 4)
    -0.5108

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 6.2.3.
    """

    total_count: ArrayLike = parameter(positive)
    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)
