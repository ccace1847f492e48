"""Draws of a fixed number: Hypergeometric, BetaBinomial, Multinomial, DirichletMultinomial."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.typing import ArrayLike

from distributions._arrays import known, select
from distributions._gamma_draw import log_gamma
from distributions._random_chances import (
    beta_binomial_entropy,
    beta_binomial_log_mass,
    dirichlet_multinomial_entropy,
)
from distributions._rejection import first_accepted
from distributions.constraints import (
    independent,
    integer_interval,
    log_weights,
    multinomial,
    nonnegative_integer,
    positive,
    simplex,
)
from distributions.counts import binomial_log_prob, difference
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import LOG_SQRT_TWO_PI
from distributions.special_counts import (
    column,
    entropy_of_counts,
    limit_of_spread,
    log_binomial_of_probs,
    log_negative_binomial,
    log_poisson,
    log_poisson_of_log,
    mean_of_counts,
    multinomial_draw,
)
from distributions.sums import log_tails


def _floats(*counts):
    return tuple(jnp.asarray(x).astype(float) for x in counts)


def _hypergeometric_log_prob(y, n, a, b):
    """Products of binomial masses, whose common odds cancel."""
    k, (drawn,) = y.astype(n.dtype), _floats(n)
    rest = difference(a + b, n, drawn.dtype)
    some = (drawn > 0) & (rest > 0)
    logits = jnp.log(select(some, drawn, 1)) - jnp.log(select(some, rest, 1))
    parts = binomial_log_prob(k, a, logits, None) + binomial_log_prob(n - k, b, logits, None)
    return select(some, parts - binomial_log_prob(n, a + b, logits, None), 0)


def _hypergeometric_support(n, a, b):
    xp = jnp if any(known(x) is None for x in (n, a, b)) else np
    n, a, b = (xp.asarray(x) for x in (n, a, b))
    return integer_interval(xp.maximum(n - b, 0), xp.minimum(n, a))


def _hypergeometric_moments(n, a, b):
    n, a, b = _floats(n, a, b)
    total = jnp.maximum(a + b, 1)
    p, rest = a / total, jnp.maximum(a + b - 1, 1)
    return n * p, n * p * (b / total) * ((a + b - n) / rest)


def _hypergeometric_mode(n, a, b):
    n, a, b = _floats(n, a, b)
    return jnp.floor((n + 1) * ((a + 1) / (a + b + 2)))


def _hypergeometric_sample(key, shape, dtype, n, a, b):
    """Ratio of uniforms (Stadlober 1990): a proposal is accepted for about three in four pairs."""
    parameters = tuple(jnp.broadcast_to(x, shape) for x in (n, a, b))
    support = _hypergeometric_support(*parameters)
    mean, variance = _hypergeometric_moments(*parameters)
    mode = jnp.clip(_hypergeometric_mode(*parameters).astype(int), support.low, support.high)
    width = 1.7155277699214135 * jnp.sqrt(variance + 0.5) + 0.8989161620588988
    peak = _hypergeometric_log_prob(mode, *parameters)

    def propose(key):
        key_u, key_v = random.split(key)
        u = 1 - random.uniform(key_u, shape, mean.dtype)
        x = jnp.floor(mean + 0.5 + width * (random.uniform(key_v, shape, mean.dtype) - 0.5) / u)
        inside = support.check(x)
        k = select(inside, x, mode.astype(x.dtype)).astype(mode.dtype)
        accept = 2 * jnp.log(u) <= _hypergeometric_log_prob(k, *parameters) - peak
        return k, inside & accept

    return first_accepted(propose, key, shape, mode.dtype, none=-1)


def _hypergeometric_ratio(k, step, n, a, b):
    up = (a - k) * (n - k) / ((k + 1) * (jnp.maximum(b - n + k, 0) + 1))
    down = k * (b - n + k) / ((jnp.maximum(a - k, 0) + 1) * (jnp.maximum(n - k, 0) + 1))
    return jnp.maximum(select(step > 0, up, down), 0)


@jax.jit
def _hypergeometric_log_tails(x, n, a, b):
    arguments = _floats(n, a, b)
    score = lambda k: _hypergeometric_log_prob(k.astype(n.dtype), n, a, b)  # noqa: E731
    is_below = x < _hypergeometric_moments(n, a, b)[0]
    return log_tails(score, _hypergeometric_ratio, x, is_below, arguments)


def _hypergeometric_entropy(n, a, b):
    """Of the rarer kind, and among those drawn or those left, of which there are fewer."""
    n, a, b = jnp.minimum(n, a + b - n), jnp.minimum(a, b), jnp.maximum(a, b)
    mean, variance = _hypergeometric_moments(n, a, b)
    drawn, rare, rest = _floats(n, a, b)
    total = jnp.maximum(rare + rest, 1)
    asymmetry = (1 - 2 * drawn / total) * ((rest - rare) / total)
    parameters = tuple(column(x) for x in (n, a, b))
    score = lambda k: _hypergeometric_log_prob(k, *parameters)  # noqa: E731
    return entropy_of_counts(score, mean, jnp.sqrt(variance), asymmetry, high=jnp.minimum(n, a))


@family(
    support=_hypergeometric_support,
    log_prob=_hypergeometric_log_prob,
    sample=_hypergeometric_sample,
    mean=lambda *parameters: _hypergeometric_moments(*parameters)[0],
    variance=lambda *parameters: _hypergeometric_moments(*parameters)[1],
    mode=_hypergeometric_mode,
    entropy=_hypergeometric_entropy,
    log_cdf=lambda x, *parameters: _hypergeometric_log_tails(x, *parameters)[0],
    log_survival=lambda x, *parameters: _hypergeometric_log_tails(x, *parameters)[1],
)
class Hypergeometric(Family):
    r"""Distribution of the number of successes among draws without replacement.

    `p(k) = C(a, k) C(b, n - k) / C(a + b, n)` for `max(0, n - b) <= k <= min(n, a)`, with
    `n = total_count`, `a = num_successes` and `b = num_failures`.

    Args:
        total_count: The number of draws, at most all that there are.
        num_successes: The number of successes that there are.
        num_failures: The number of failures that there are.

    >>> import distributions as dist
    >>> round(float(dist.Hypergeometric(2, 2, 2).log_prob(1)), 4)
    -0.4055

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 6.
        E. Stadlober, "The ratio of uniforms approach for generating discrete random variates",
        Journal of Computational and Applied Mathematics 31 (1990), 181-189.
    """

    total_count: ArrayLike = parameter(nonnegative_integer)
    num_successes: ArrayLike = parameter(nonnegative_integer)
    num_failures: ArrayLike = parameter(nonnegative_integer)


def _beta_binomial_log_prob(y, n, a, b):
    return beta_binomial_log_mass(y.astype(a.dtype), difference(n, y, a.dtype), a, b)


def _beta_binomial_sample(key, shape, dtype, n, a, b):
    key_a, key_b, key = random.split(key, 3)
    log_a, log_b = (log_gamma(k, x, shape, dtype) for k, x in ((key_a, a), (key_b, b)))
    return random.binomial(key, n.astype(dtype), lax.logistic(log_a - log_b), shape, dtype)


def _beta_binomial_variance(n, a, b):
    n, p = n.astype(a.dtype), a / (a + b)
    return n * p * (b / (a + b)) * ((a + b + n) / (a + b + 1))


def _beta_binomial_mode(n, a, b):
    n, excess = n.astype(a.dtype), a + b - 2
    inner = (n + 1) * (a - 1) / select(excess > 0, excess, 1)
    return select(excess > 0, jnp.clip(jnp.floor(inner), 0, n), select(a > b, n, 0))


def _beta_binomial_ratio(k, step, n, a, b):
    m = n - k
    up = select(m > 0, (k + a) * m / ((k + 1) * (jnp.maximum(m, 1) - 1 + b)), 0)
    down = select(k > 0, k * (m + b) / ((m + 1) * (jnp.maximum(k, 1) - 1 + a)), 0)
    return select(step > 0, up, down)


@jax.jit
def _beta_binomial_log_tails(x, n, a, b):
    score = lambda k: _beta_binomial_log_prob(k.astype(n.dtype), n, a, b)  # noqa: E731
    size = n.astype(x.dtype)
    is_below = x < size * (a / (a + b))
    return log_tails(score, _beta_binomial_ratio, x, is_below, (size, a, b))


@family(
    support=lambda total_count, concentration1, concentration0: integer_interval(0, total_count),
    log_prob=_beta_binomial_log_prob,
    sample=_beta_binomial_sample,
    mean=lambda n, a, b: n.astype(a.dtype) * (a / (a + b)),
    variance=_beta_binomial_variance,
    mode=_beta_binomial_mode,
    entropy=lambda n, a, b: beta_binomial_entropy(n.astype(a.dtype), a, b),
    log_cdf=lambda x, *parameters: _beta_binomial_log_tails(x, *parameters)[0],
    log_survival=lambda x, *parameters: _beta_binomial_log_tails(x, *parameters)[1],
)
class BetaBinomial(Family):
    r"""Binomial distribution whose probability of success has a beta distribution.

    `p(k) = C(n, k) B(a + k, b + n - k) / B(a, b)` for `k = 0, 1, ..., n`, with `n = total_count`,
    `a = concentration1` and `b = concentration0`.

    Args:
        total_count: The number of trials, a nonnegative integer.
        concentration1: The first parameter of the beta distribution, positive.
        concentration0: The second one, positive.

    >>> import distributions as dist
    >>> round(float(dist.BetaBinomial(2, 1.0, 1.0).log_prob(1)), 4)
    -1.0986

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    total_count: ArrayLike = parameter(nonnegative_integer)
    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)


def _multinomial_log_prob(y, n, logits, probs):
    """Poisson masses of the counts over that of their sum."""
    k = y.astype((logits if probs is None else probs).dtype)
    n = n.astype(k.dtype)
    some = jnp.maximum(n, 1)
    if probs is None:
        log_rate = column(jnp.log(some)) + jax.nn.log_softmax(logits)
        parts = log_poisson_of_log(k, log_rate)
    else:
        parts = log_poisson(k, column(some) * probs)
    return select(n > 0, jnp.sum(parts, axis=-1) - log_poisson(some, some), 0)


def _multinomial_probs(logits, probs):
    return jax.nn.softmax(logits) if probs is None else probs


def _multinomial_moments(n, logits, probs):
    p = _multinomial_probs(logits, probs)
    n = column(n.astype(p.dtype))
    return n * p, n * p * (1 - p)


def _multinomial_entropy(n, logits, probs):
    """By the means of the Poisson masses, each over what is rarer: the category or the others.

    Where `1 / sd^4` is lost, those are by their series.
    """
    p = _multinomial_probs(logits, probs)
    q, some = 1 - p, jnp.maximum(n.astype(p.dtype), 1)
    size, rare = column(some), jnp.minimum(p, q)
    sd, rate, trials = jnp.sqrt(size * p * q), size * p, column(size)
    weight = lambda k: log_binomial_of_probs(k, trials - k, column(rare))  # noqa: E731
    mass = lambda k: log_poisson(select(column(p) <= 0.5, k, trials - k), column(rate))  # noqa: E731
    means = -mean_of_counts(mass, weight, size * rare, sd, high=size)
    is_spread = sd > limit_of_spread(sd.dtype)
    far = select(is_spread, rate, 1)
    limit = LOG_SQRT_TWO_PI + 0.5 * (jnp.log(far) + q) + (1 - q - q * q) / (12 * far)
    total = jnp.sum(select(is_spread, limit, means), axis=-1) + log_poisson(some, some)
    return select(n > 0, total, 0)


@family(
    support=lambda total_count, logits, probs: multinomial(total_count),
    one_of=("logits", "probs"),
    log_prob=_multinomial_log_prob,
    sample=lambda key, shape, dtype, n, *p: multinomial_draw(key, n, _multinomial_probs(*p), shape),
    mean=lambda *parameters: _multinomial_moments(*parameters)[0],
    variance=lambda *parameters: _multinomial_moments(*parameters)[1],
    entropy=_multinomial_entropy,
)
class Multinomial(Family):
    r"""Distribution of how often each category occurs in `total_count` independent trials.

    `p(k) = n! prod_i probs[i]^k[i] / k[i]!` for counts `k` that sum to `n = total_count`.

    Args:
        total_count: The number of trials, a nonnegative integer.
        logits: Log weights of shape `(..., n)`, normalised or not; `-inf` excludes a category.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> draw = dist.Multinomial(2, probs=jnp.array([0.5, 0.5]))
    >>> print(draw.log_prob(jnp.array([[1, 1], [2, 0], [2, 1]])).round(4))
    [-0.6931 -1.3863    -inf]

    References:
        Johnson, Kotz and Balakrishnan, *Discrete Multivariate Distributions* (1997), chapter 35.
    """

    total_count: ArrayLike = parameter(nonnegative_integer)
    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)


def _dirichlet_multinomial_log_prob(y, n, a):
    """Negative binomial masses of the counts over that of their sum."""
    k, n, total = y.astype(a.dtype), n.astype(a.dtype), jnp.sum(a, axis=-1)
    log_odds = jnp.log(jnp.maximum(n, 1)) - jnp.log(total)
    parts = jnp.sum(log_negative_binomial(k, a, column(log_odds)), axis=-1)
    return parts - log_negative_binomial(n, total, log_odds)


def _dirichlet_multinomial_sample(key, shape, dtype, n, a):
    gamma_key, key = random.split(key)
    logs = log_gamma(gamma_key, a, shape, dtype)
    return multinomial_draw(key, n, jax.nn.softmax(logs), shape)


def _dirichlet_multinomial_variance(n, a):
    n, total = column(n.astype(a.dtype)), jnp.sum(a, axis=-1, keepdims=True)
    p = a / total
    return n * p * (1 - p) * ((total + n) / (total + 1))


@family(
    support=lambda total_count, concentration: multinomial(total_count),
    log_prob=_dirichlet_multinomial_log_prob,
    sample=_dirichlet_multinomial_sample,
    mean=lambda n, a: column(n.astype(a.dtype)) * (a / jnp.sum(a, axis=-1, keepdims=True)),
    variance=_dirichlet_multinomial_variance,
    entropy=lambda n, a: dirichlet_multinomial_entropy(n.astype(a.dtype), a),
)
class DirichletMultinomial(Family):
    r"""Multinomial distribution whose probabilities have a Dirichlet distribution.

    `p(k) = n! Gamma(A) / Gamma(n + A) prod_i Gamma(k[i] + a[i]) / (k[i]! Gamma(a[i]))` for counts
    `k` that sum to `n = total_count`, with `a = concentration` and `A` its sum.

    Args:
        total_count: The number of trials, a nonnegative integer.
        concentration: The parameters of the Dirichlet distribution, positive, of shape `(..., n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> draw = dist.DirichletMultinomial(2, jnp.ones(2))
    >>> print(draw.log_prob(jnp.array([1, 1])).round(4))
    -1.0986

    References:
        Johnson, Kotz and Balakrishnan, *Discrete Multivariate Distributions* (1997), section 35.13.
    """

    total_count: ArrayLike = parameter(nonnegative_integer)
    concentration: ArrayLike = parameter(independent(positive, 1))
