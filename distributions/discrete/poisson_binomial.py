"""The Poisson-binomial distribution: the number of unlike events that happen."""

import functools
from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.nn import log_sigmoid, sigmoid
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import independent, integer_interval, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.categorical_functions import category_entropy, take
from distributions.numerics.scaled_numbers import (
    add,
    log_of,
    multiply,
    scaled,
    scaled_exp,
    scaled_zeros,
    total,
)


def _masses(logits, probs):
    """The masses of all counts, along the last axis, by a recursion over the events."""
    if probs is None:
        chances = scaled_exp(log_sigmoid(logits)), scaled_exp(log_sigmoid(-logits))
    else:
        chances = scaled(jnp.asarray(probs)), scaled(1 - jnp.asarray(probs))
    yes, no = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0)[..., None], chances)
    (n, *batch, _), dtype = yes.fraction.shape, yes.fraction.dtype
    none = scaled_zeros((*batch, 1), dtype)

    def join(*parts):
        return jax.tree.map(lambda *x: jnp.concatenate(x, -1), *parts)

    start = join(scaled(jnp.ones((*batch, 1), dtype)), scaled_zeros((*batch, n), dtype))

    def step(mass, event):
        yes, no = event
        shifted = join(none, jax.tree.map(lambda x: x[..., :-1], mass))
        return add(multiply(mass, no), multiply(shifted, yes)), None

    return lax.scan(step, start, (yes, no))[0]


def _log_masses(logits, probs):
    return log_of(_masses(logits, probs))


def _part(x, logits, probs, upper):
    """A tail, and its logarithm."""
    masses = _masses(logits, probs)
    index = jnp.arange(masses.fraction.shape[-1]).reshape((1,) * x.ndim + (-1,)).astype(x.dtype)
    chosen = index > x[..., None] if upper else index <= x[..., None]
    zeros = scaled_zeros((1,) * chosen.ndim, x.dtype)
    parts = jax.tree.map(functools.partial(select, chosen), masses, zeros)
    part = total(parts)
    log_part = log_of(part)
    excess = lax.stop_gradient(jnp.maximum(log_part, 0))  # Subtracted, it leaves slopes at 0, too.
    return part.fraction * jnp.exp(part.log_scale - excess), log_part - excess


def _probs(logits, probs):
    return sigmoid(logits) if probs is None else jnp.asarray(probs)


def _sample(key, shape, dtype, logits, probs):
    p = _probs(logits, probs)
    u = random.uniform(key, (*shape, p.shape[-1]), dtype)
    return jnp.sum(u < p, axis=-1)


def _variance(logits, probs):
    p = _probs(logits, probs)
    rest = sigmoid(-logits) if probs is None else 1 - p
    return jnp.sum(p * rest, axis=-1)


@family(
    support=lambda logits, probs: integer_interval(
        0, np.shape(logits if probs is None else probs)[-1]
    ),
    event_shape=lambda logits, probs: (),
    one_of=("logits", "probs"),
    log_prob=lambda y, logits, probs: take(_log_masses(logits, probs), y.astype(int)),
    sample=_sample,
    mean=lambda logits, probs: jnp.sum(_probs(logits, probs), axis=-1),
    variance=_variance,
    mode=lambda logits, probs: jnp.argmax(_log_masses(logits, probs), axis=-1),
    entropy=lambda logits, probs: category_entropy(_log_masses(logits, probs)),
    cdf=lambda x, logits, probs: _part(x, logits, probs, False)[0],
    survival=lambda x, logits, probs: _part(x, logits, probs, True)[0],
    log_cdf=lambda x, logits, probs: _part(x, logits, probs, False)[1],
    log_survival=lambda x, logits, probs: _part(x, logits, probs, True)[1],
)
class PoissonBinomial(Family):
    r"""Poisson-binomial distribution: how many of `n` independent events happen.

    `p(k)` is the sum of `prod_(i in A) probs[i] prod_(i not in A) (1 - probs[i])` over the sets
    `A` of `k` events. A recursion over the events computes it in `O(n^2)` operations, without
    cancellation. The distribution is binomial if all probabilities are equal.

    Args:
        logits: The log odds of the events, of shape `(..., n)`.
        probs: The probabilities of the events, 0 and 1 included; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> d = dist.PoissonBinomial(probs=jnp.array([0.5, 0.25]))
    >>> [round(float(x), 4) for x in d.log_prob(jnp.array([0, 1, 2]))]
    [-0.9808, -0.6931, -2.0794]

    References:
        Barlow and Heidtmann, "Computing k-out-of-n system reliability", IEEE Transactions on
        Reliability 33 (1984), 322-323.
    """

    _: KW_ONLY
    logits: ArrayLike | None = parameter(independent(real, 1), default=None)
    probs: ArrayLike | None = parameter(independent(unit_interval, 1), default=None)
