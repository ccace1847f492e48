"""The hypergeometric distribution, drawn by the ratio of uniforms."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import as_host_array, select
from distributions.constraints import (
    integer_interval,
    nonnegative_integer,
)
from distributions.core.family import Family, family, parameter
from distributions.numerics.binomial_functions import binomial_log_prob, difference
from distributions.numerics.loader_log_pmf import (
    column,
    entropy_of_counts,
)
from distributions.numerics.ratio_series import log_tails
from distributions.numerics.rejection_sampler import draw_first_accepted


def _floats(*counts):
    return tuple(jnp.asarray(x).astype(float) for x in counts)


def _hypergeometric_log_prob(y, n, a, b):
    """The log mass: a product of binomial masses, with common odds that cancel."""
    k, (drawn,) = y.astype(n.dtype), _floats(n)
    rest = difference(a + b, n, drawn.dtype)
    some = (drawn > 0) & (rest > 0)
    logits = jnp.log(select(some, drawn, 1)) - jnp.log(select(some, rest, 1))
    parts = binomial_log_prob(k, a, logits, None) + binomial_log_prob(n - k, b, logits, None)
    return select(some, parts - binomial_log_prob(n, a + b, logits, None), 0)


def _hypergeometric_support(n, a, b):
    xp = jnp if any(as_host_array(x) is None for x in (n, a, b)) else np
    n, a, b = (xp.asarray(x) for x in (n, a, b))
    return integer_interval(xp.maximum(n - b, 0), xp.minimum(n, a))


def _hypergeometric_moments(n, a, b):
    n, a, b = _floats(n, a, b)
    total = jnp.maximum(a + b, 1)
    p = a / total
    rest = jnp.maximum(a + b - 1, 1)
    return n * p, n * p * (b / total) * ((a + b - n) / rest)


def _hypergeometric_mode(n, a, b):
    n, a, b = _floats(n, a, b)
    return jnp.floor((n + 1) * ((a + 1) / (a + b + 2)))


def _hypergeometric_sample(key, shape, dtype, n, a, b):
    """Ratio of uniforms (Stadlober 1990): about three in four proposals are accepted."""
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

    return draw_first_accepted(propose, key, shape, mode.dtype, none=-1)


def _hypergeometric_ratio(k, step, n, a, b):
    up = (a - k) * (n - k) / ((k + 1) * (jnp.maximum(b - n + k, 0) + 1))
    down = k * (b - n + k) / ((jnp.maximum(a - k, 0) + 1) * (jnp.maximum(n - k, 0) + 1))
    return jnp.maximum(select(step > 0, up, down), 0)


@jax.jit
def _hypergeometric_log_tails(x, n, a, b):
    arguments = _floats(n, a, b)

    def score(k):
        return _hypergeometric_log_prob(k.astype(n.dtype), n, a, b)

    is_below = x < _hypergeometric_moments(n, a, b)[0]
    return log_tails(score, _hypergeometric_ratio, x, is_below, arguments)


def _hypergeometric_entropy(n, a, b):
    """The entropy, by a sum over the rarer kind in the smaller part, drawn or left."""
    n, a, b = jnp.minimum(n, a + b - n), jnp.minimum(a, b), jnp.maximum(a, b)
    mean, variance = _hypergeometric_moments(n, a, b)
    drawn, rare, rest = _floats(n, a, b)
    total = jnp.maximum(rare + rest, 1)
    asymmetry = (1 - 2 * drawn / total) * ((rest - rare) / total)
    parameters = tuple(column(x) for x in (n, a, b))

    def score(k):
        return _hypergeometric_log_prob(k, *parameters)

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
    r"""Hypergeometric distribution: the number of successes among draws without replacement.

    `p(k) = C(a, k) C(b, n - k) / C(a + b, n)` for `max(0, n - b) <= k <= min(n, a)`, with
    `n = total_count`, `a = num_successes` and `b = num_failures`.

    Args:
        total_count: The number of draws, at most `num_successes + num_failures`.
        num_successes: The number of successes in the population.
        num_failures: The number of failures in the population.

    >>> import distributions as dist
    >>> d = dist.Hypergeometric(total_count=2, num_successes=2, num_failures=2)
    >>> round(float(d.log_prob(1)), 4)
    -0.4055

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 6.
        E. Stadlober, "The ratio of uniforms approach for generating discrete random variates",
        Journal of Computational and Applied Mathematics 31 (1990), 181-189.
    """

    _: KW_ONLY
    total_count: ArrayLike = parameter(nonnegative_integer)
    num_successes: ArrayLike = parameter(nonnegative_integer)
    num_failures: ArrayLike = parameter(nonnegative_integer)
