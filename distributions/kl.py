"""Kullback-Leibler divergences, by a table over pairs of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from distributions import _kl_counts
from distributions.distribution import Distribution


def _normal(p: Any, q: Any) -> Array:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return 0.5 * (jnp.square(ratio) + jnp.square(shift) - 1) - jnp.log(ratio)


# By the names of the families, so that none is imported for the table's sake.
_FORMULAS: dict[tuple[str, str], Callable[..., Array]] = {
    ("Normal", "Normal"): _normal,
    **_kl_counts.FORMULAS,
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
