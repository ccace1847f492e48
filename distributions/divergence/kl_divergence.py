"""Kullback-Leibler divergences, by a table over pairs of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import align, convert
from distributions.core.distribution import Distribution, full
from distributions.divergence import kl_continuous, kl_discrete, kl_gamma


def _multivariate_normal(p: Any, q: Any) -> Array:
    from distributions.common.linear_algebra import log_diagonal, solve, solve_matrix, square_sum
    from distributions.numerics.covariance_factors import ScatterMatrix

    ndim = max(len(p.batch_shape), len(q.batch_shape))
    parameters = (d._arrays(d._float_dtype, len(d.batch_shape)) for d in (p, q))
    a, b = (align(ScatterMatrix(*x).dense_scale_tril, 2, ndim) for _, *x in parameters)
    shift = full(p.loc, p.event_shape, a.dtype) if np.ndim(p.loc) == 0 else jnp.asarray(p.loc)
    shift = align(shift, 1, ndim) - align(convert(q.loc, a.dtype), 1, ndim)
    squares = square_sum(solve_matrix(b, a), 2) + square_sum(solve(b, shift))
    return 0.5 * (squares - a.shape[-1]) + (log_diagonal(b) - log_diagonal(a))


def _independent(p: Any, q: Any) -> Array:
    ndims = p.reinterpreted_batch_ndims
    if ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: the two differ in reinterpreted_batch_ndims")
    each = kl_divergence(p.distribution, q.distribution)
    batch = np.broadcast_shapes(p.distribution.batch_shape, q.distribution.batch_shape)
    return jnp.sum(jnp.broadcast_to(each, batch), axis=tuple(range(-ndims, 0)))


def _iid(p: Any, q: Any) -> Array:
    if p.sample_shape != q.sample_shape:
        raise NotImplementedError("kl_divergence: the two differ in sample_shape")
    return int(np.prod(p.sample_shape)) * kl_divergence(p.distribution, q.distribution)


# Keyed by the names of families, so that the table imports none of them. Only families of this
# package are looked up: others may have the same names.
_FORMULAS: dict[tuple[str, str], Callable[..., Array]] = {
    ("IID", "IID"): _iid,
    ("Independent", "Independent"): _independent,
    ("MultivariateNormal", "MultivariateNormal"): _multivariate_normal,
    **kl_gamma.FORMULAS,
    **kl_continuous.FORMULAS,
    **kl_discrete.FORMULAS,
}


def kl_divergence(p: Distribution, q: Distribution) -> Array:
    """The Kullback-Leibler divergence of `q` from `p`, in nats.

    `KL(p || q) = E_p[log p(x) - log q(x)]`: nonnegative, zero if the two are equal, and infinite if
    `p` has mass outside of the support of `q`.

    Args:
        p: The distribution under which the expectation is taken.
        q: The distribution that is compared with `p`.

    Returns:
        One number for each pair of distributions: `p.batch_shape` and `q.batch_shape` broadcast.

    Raises:
        NotImplementedError: No closed form is known here for the pair of families.
        ValueError: The draws of the two differ in shape.

    >>> import distributions as dist
    >>> round(float(dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Normal(1.0, 1.0))), 4)
    0.5

    References:
        Kullback and Leibler, "On information and sufficiency", Annals of Mathematical Statistics
        22 (1951), equation 2.4.
    """
    for d in (p, q):
        if not isinstance(d, Distribution):
            raise TypeError(f"kl_divergence: expected a Distribution; got {d!r}")
        d._check_alignment()
    if p.event_shape != q.event_shape:
        shapes = f"{p.event_shape} and {q.event_shape}"
        raise ValueError(f"kl_divergence: draws of the two have different shapes, {shapes}")
    names = type(p).__name__, type(q).__name__
    are_ours = all(type(d).__module__.startswith("distributions.") for d in (p, q))
    formula = _FORMULAS.get(names) if are_ours else None
    if formula is None:
        raise NotImplementedError(
            f"kl_divergence: no closed form is known here for {' and '.join(names)}; "
            "estimate it by the mean of p.log_prob(x) - q.log_prob(x) over draws x of p"
        )
    return formula(p, q)
