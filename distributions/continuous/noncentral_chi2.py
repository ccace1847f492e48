"""The noncentral chi-square distribution: a Poisson mixture of chi-square distributions."""

import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import nonnegative, positive
from distributions.core.derived_formulas import differentiate_implicitly
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_sampler import gamma
from distributions.numerics.incomplete_gamma_beta import log_gammainc
from distributions.numerics.loader_kernels import log_gamma_kernel
from distributions.numerics.loader_log_pmf import poisson_draw
from distributions.numerics.poisson_mixture import log_poisson_mixture, poisson_terms
from distributions.numerics.quadrature import argmax, integral
from distributions.numerics.special import clip_positive

_MANY = 1e8  # counts: a Poisson variable of larger mean is normal but for its skewness


def _peak(a, m, y):
    """The index of the greatest term in the density's sum; `m` if it equals that up to rounding."""
    b = a - 1
    root = jnp.hypot(b, 2 * jnp.sqrt(m) * jnp.sqrt(y))
    peak = jnp.where(b > 0, 2 * m * (y / (jnp.abs(b) + root)), 0.5 * (root - b))
    return jnp.where(jnp.abs(peak - m) <= 4 * jnp.finfo(m.dtype).eps * m, m, peak)


def _halves(x, df, noncentrality):
    y, a, m = jnp.broadcast_arrays(*(0.5 * jnp.asarray(p) for p in (x, df, noncentrality)))
    return jnp.maximum(y, np.finfo(y.dtype).tiny), a, m


def _log_prob(x, df, noncentrality):
    """The log density: chi-square densities of `df + 2 j` degrees of freedom, over Poisson `j`."""
    y, a, m = _halves(x, df, noncentrality)
    center, offset, log_step = poisson_terms(_peak(a, m, y))
    y = y[..., None]
    a = a[..., None]
    m = m[..., None]
    kernel = log_gamma_kernel(a + (center + offset), y, jnp.log(y), (y - center - a) - offset)
    return log_poisson_mixture(center, offset, m, kernel, y) + log_step - jnp.log(x)


def _log_tail(x, df, noncentrality, upper):
    y, a, m = _halves(x, df, noncentrality)
    peak = _peak(a, m, y)
    middle = jnp.maximum(peak, m) if upper else jnp.minimum(peak, m)
    center, offset, log_step = poisson_terms(middle)
    y = y[..., None]
    a = a[..., None]
    m = m[..., None]
    tails = log_gammainc(a + (center + offset), y, offset - (y - center - a))
    total = log_poisson_mixture(center, offset, m, tails[upper], y) + log_step
    return jnp.minimum(total, 0)


def _poisson_draw(key, m, shape, dtype):
    """Poisson draws as floating-point numbers; normal ones stand in for means above `_MANY`.

    The first term of the Cornish-Fisher expansion gives those their skewness.
    """
    few_key, many_key = random.split(key)
    few = poisson_draw(few_key, jnp.minimum(m, _MANY), shape).astype(dtype)
    z = random.normal(many_key, shape, dtype)
    return jnp.where(m > _MANY, m + jnp.sqrt(m) * z + (z * z - 1) / 6, few)


def _draw(key, shape, dtype, df, noncentrality):
    key, gamma_key = random.split(key)
    j = _poisson_draw(key, 0.5 * noncentrality, shape, dtype)
    return clip_positive(2 * gamma(gamma_key, 0.5 * df + j, shape, dtype))


def _mode(df, noncentrality):
    df, noncentrality = jnp.broadcast_arrays(df, noncentrality)
    high = jnp.maximum(df + noncentrality, 1)
    low = 1e-12 * high

    def score(x):
        return _log_prob(x, jnp.maximum(df, 2)[..., None], noncentrality[..., None])

    mode = argmax(score, low, high)
    return jnp.where((df < 2) | (mode < 1e-9 * high), 0, mode)


def _entropy(df, noncentrality):
    """The entropy, by quadrature over the square root: its standard deviation is at most 1."""
    df, noncentrality = jnp.broadcast_arrays(df, noncentrality)
    middle = jnp.sqrt(df + noncentrality)

    def integrand(root):
        x = jnp.maximum(jnp.square(root), np.finfo(root.dtype).tiny)
        log_p = _log_prob(x, df[..., None], noncentrality[..., None])
        return -2 * root * jnp.exp(log_p) * log_p

    return integral(integrand, jnp.maximum(middle - 14, 0), middle + 14)


def _cdf(x, df, noncentrality):
    return jnp.exp(_log_tail(x, df, noncentrality, False))


@family(
    support=positive,
    log_prob=_log_prob,
    sample=differentiate_implicitly(_draw, _cdf, _log_prob),
    mean=lambda df, noncentrality: df + noncentrality,
    variance=lambda df, noncentrality: 2 * (df + 2 * noncentrality),
    mode=_mode,
    entropy=_entropy,
    log_cdf=lambda x, df, noncentrality: _log_tail(x, df, noncentrality, False),
    log_survival=lambda x, df, noncentrality: _log_tail(x, df, noncentrality, True),
)
class NoncentralChi2(Family):
    r"""Noncentral chi-square distribution: the squared length of a vector of normal variables.

    `p(x) = sum_j exp(-m) m^j / j! f(x; df + 2 j)` for `x > 0`, with `m = noncentrality / 2` and
    `f(x; k)` the density of `Chi2(k)`. The sum runs over the terms around the greatest one. It is
    precise while the standard deviation exceeds the spacing of floating-point numbers.

    Args:
        df: Degrees of freedom, positive: the number of variables, of variance 1.
        noncentrality: The sum of the squares of their means, nonnegative.

    >>> import distributions as dist
    >>> round(float(dist.NoncentralChi2(2.0, 1.0).log_prob(2.0)), 4)
    -1.7446

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 29.
    """

    df: ArrayLike = parameter(positive)
    noncentrality: ArrayLike = parameter(nonnegative)
