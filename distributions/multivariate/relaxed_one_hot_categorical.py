"""The relaxed one-hot categorical (concrete, Gumbel-softmax) distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.point import log_of
from distributions.constraints import open_simplex, positive, real_vector
from distributions.core.family import Family, family, parameter
from distributions.numerics.categorical_functions import category_log_probs
from distributions.numerics.loader_log_pmf import column


def _relaxed_one_hot_log_prob(x, temperature, *parameters):
    log_x = log_of(x)
    n = log_x.shape[-1]
    z = category_log_probs(*parameters) - column(temperature) * log_x
    constant = lax.lgamma(jnp.asarray(n, log_x.dtype)) + (n - 1) * jnp.log(temperature)
    return constant + jnp.sum(z - log_x, axis=-1) - n * jax.nn.logsumexp(z, axis=-1)


def _relaxed_one_hot_sample(key, shape, dtype, temperature, *parameters):
    noisy = category_log_probs(*parameters) + random.gumbel(key, shape, dtype)
    draws = jax.nn.softmax(noisy / column(temperature))
    return jnp.maximum(draws, jnp.finfo(dtype).tiny)


@family(
    support=open_simplex,
    reads_points=True,
    one_of=("logits", "probs"),
    log_prob=_relaxed_one_hot_log_prob,
    sample=_relaxed_one_hot_sample,
)
class RelaxedOneHotCategorical(Family):
    r"""Relaxed one-hot categorical (concrete, Gumbel-softmax) distribution.

    `p(x) = Gamma(n) t^(n - 1) (sum_i w_i x_i^-t)^-n prod_i w_i x_i^(-t - 1)` on the open simplex,
    with `t = temperature` and weights `w = probs` or `exp(logits)`. Draws are softmaxes of Gumbel
    variables, differentiable in the parameters and one-hot as `temperature` goes to 0.

    Args:
        temperature: The temperature, positive: the higher, the fewer draws lie near the corners.
        logits: Log weights of shape `(..., n)`, finite, normalized or not.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> relaxed = dist.RelaxedOneHotCategorical(0.5, probs=jnp.array([0.5, 0.5]))
    >>> print(relaxed.log_prob(jnp.array([0.5, 0.5])).round(4))
    -0.6931

    References:
        C. J. Maddison, A. Mnih and Y. W. Teh, "The concrete distribution: a continuous relaxation
        of discrete random variables", ICLR (2017), equation 10.
    """

    temperature: ArrayLike = parameter(positive)
    _: KW_ONLY
    logits: ArrayLike | None = parameter(real_vector, default=None)
    probs: ArrayLike | None = parameter(open_simplex, default=None)
