"""Kullback-Leibler divergences, by a table over pairs of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma, gammaln

from distributions._arrays import promote
from distributions.distribution import Distribution
from distributions.special import EULER_GAMMA, log_beta


def _normal(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    ratio, shift = p_scale / q_scale, (p_loc - q_loc) / q_scale
    return 0.5 * (jnp.square(ratio) + jnp.square(shift) - 1) - jnp.log(ratio)


def _half_normal(p: Any, q: Any) -> Array:
    p_scale, q_scale = promote(p.scale, q.scale)
    ratio = p_scale / q_scale
    return 0.5 * (jnp.square(ratio) - 1) - jnp.log(ratio)


def _cauchy(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    total = jnp.square(p_scale + q_scale) + jnp.square(p_loc - q_loc)
    return jnp.log(total / (4 * p_scale * q_scale))


def _exponential(p: Any, q: Any) -> Array:
    p_rate, q_rate = promote(p.rate, q.rate)
    ratio = q_rate / p_rate
    return ratio - 1 - jnp.log(ratio)


def _gamma_of(a: Any, p_rate: Any, b: Any, q_rate: Any) -> Array:
    a, p_rate, b, q_rate = promote(a, p_rate, b, q_rate)
    ratio = q_rate / p_rate
    return (a - b) * digamma(a) + gammaln(b) - gammaln(a) - b * jnp.log(ratio) + a * (ratio - 1)


def _gamma(p: Any, q: Any) -> Array:
    return _gamma_of(p.concentration, p.rate, q.concentration, q.rate)


def _inverse_gamma(p: Any, q: Any) -> Array:
    return _gamma_of(p.concentration, p.scale, q.concentration, q.scale)


def _beta(p: Any, q: Any) -> Array:
    a, b, c, d = promote(p.concentration1, p.concentration0, q.concentration1, q.concentration0)
    total = (c - a + d - b) * digamma(a + b)
    return log_beta(c, d) - log_beta(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b) + total


def _laplace(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    distance = jnp.abs(p_loc - q_loc)
    moved = (p_scale * jnp.exp(-distance / p_scale) + distance) / q_scale
    return moved - 1 - jnp.log(p_scale / q_scale)


def _uniform(p: Any, q: Any) -> Array:
    a, b, c, d = promote(p.low, p.high, q.low, q.high)
    return jnp.where((a >= c) & (b <= d), jnp.log((d - c) / (b - a)), jnp.inf)


def _weibull(p: Any, q: Any) -> Array:
    a, scale, b, other = promote(p.concentration, p.scale, q.concentration, q.scale)
    log_ratio = jnp.log(scale / other)
    power = jnp.exp(b * log_ratio + gammaln(1 + b / a))
    return jnp.log(a / b) - b * log_ratio + EULER_GAMMA * (b / a - 1) + power - 1


# By the names of the families, so that none is imported for the table's sake.
_FORMULAS: dict[tuple[str, str], Callable[..., Array]] = {
    ("Beta", "Beta"): _beta,
    ("Cauchy", "Cauchy"): _cauchy,
    ("Exponential", "Exponential"): _exponential,
    ("Gamma", "Gamma"): _gamma,
    ("HalfNormal", "HalfNormal"): _half_normal,
    ("InverseGamma", "InverseGamma"): _inverse_gamma,
    ("Laplace", "Laplace"): _laplace,
    ("LogNormal", "LogNormal"): _normal,
    ("Normal", "Normal"): _normal,
    ("Uniform", "Uniform"): _uniform,
    ("Weibull", "Weibull"): _weibull,
}


def kl_divergence(p: Distribution, q: Distribution) -> Array:
    """The Kullback-Leibler divergence of `q` from `p`, in nats.

    `KL(p || q) = E_p[log p(x) - log q(x)]`: nonnegative, zero where the two are the same, and
    infinite where `p` has mass that `q` has not.

    Args:
        p: The distribution under which the expectation is taken.
        q: The other one.

    Returns:
        One number for each of the distributions that the two hold together: `p.batch_shape` and
        `q.batch_shape` broadcast.

    Raises:
        NotImplementedError: No closed form is known here for the pair of families.

    >>> import distributions as dist
    >>> round(float(dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Normal(1.0, 1.0))), 4)
    0.5

    References:
        Kullback and Leibler, "On information and sufficiency", Annals of Mathematical Statistics
        22 (1951), equation 2.4.
    """
    names = type(p).__name__, type(q).__name__
    formula = _FORMULAS.get(names)
    if formula is None:
        raise NotImplementedError(
            f"kl_divergence: no closed form is known here for {' and '.join(names)}; "
            "estimate it by the mean of p.log_prob(x) - q.log_prob(x) over draws x of p"
        )
    return formula(p, q)
