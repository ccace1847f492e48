"""The continuous Bernoulli distribution: an exponential tilt of the uniform distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.point import complement_of, value_of
from distributions.constraints import open_interval, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.exponential_tilt import (
    log_total,
    tilted_log_cdf,
    tilted_log_prob,
    tilted_mean,
    tilted_quantile,
)
from distributions.numerics.special import open_uniform


def _tilted_variance(c):
    small = jnp.abs(c) < 0.3
    y = jnp.square(0.5 * jnp.where(small, c, 0))
    series = 1 / 3 - y * (1 / 15 - y * (2 / 189 - y * (1 / 675 - y * 2 / 10395)))
    g = jnp.abs(0.5 * jnp.where(small, 1, c))
    minus = 4 * jnp.exp(-2 * g) / jnp.square(jnp.expm1(-2 * g))
    return 0.25 * jnp.where(small, series, 1 / jnp.square(g) - minus)


def _logits(logits, probs):
    return jnp.log(probs) - jnp.log1p(-probs) if logits is None else jnp.asarray(logits)


def _continuous_bernoulli_log_prob(x, *p):
    c = _logits(*p)
    fall = jnp.abs(c) * jnp.where(c > 0, complement_of(x), value_of(x))
    return tilted_log_prob(value_of(x), c, fall)


@family(
    support=unit_interval,
    one_of=("logits", "probs"),
    log_prob=_continuous_bernoulli_log_prob,
    reads_points=True,
    sample=lambda key, shape, dtype, *p: tilted_quantile(
        open_uniform(key, shape, dtype), _logits(*p)
    ),
    mean=lambda *p: tilted_mean(_logits(*p)),
    variance=lambda *p: _tilted_variance(_logits(*p)),
    mode=lambda *p: jnp.where(_logits(*p) > 0, 1, 0),
    entropy=lambda *p: log_total(_logits(*p)) - _logits(*p) * tilted_mean(_logits(*p)),
    log_cdf=lambda x, *p: tilted_log_cdf(x, _logits(*p)),
    log_survival=lambda x, *p: tilted_log_cdf(1 - x, -_logits(*p)),
    quantile=lambda q, *p: tilted_quantile(q, _logits(*p)),
)
class ContinuousBernoulli(Family):
    r"""Continuous Bernoulli distribution: a Bernoulli's mass function as a density.

    `p(x) = exp(c x) c / (exp(c) - 1)` for `0 <= x <= 1`, with `c = logits`.

    Args:
        logits: The log odds `log(probs / (1 - probs))`.
        probs: The logistic function of `logits`, between 0 and 1; not the mean.

    >>> import distributions as dist
    >>> round(float(dist.ContinuousBernoulli(probs=0.25).log_prob(0.25)), 4)
    0.2249

    References:
        Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in
        variational autoencoders", NeurIPS (2019).
    """

    _: KW_ONLY
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(open_interval(0.0, 1.0), default=None)
