"""Tails of counts, by incomplete beta and gamma functions, with derivatives where a chance is 0.

There logarithms are minus infinity and tell no slope. The first terms of the series do, exactly in
derivatives of two orders; where these are infinite they are taken as 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from distributions.common.arrays import select
from distributions.numerics.binomial_functions import (
    success_and_failure_log_probs,
    success_and_failure_probs,
)
from distributions.numerics.incomplete_gamma_beta import log_betainc, log_gammainc
from distributions.numerics.special import (
    LOG_TWO,
    complement_of_exp,
    log1mexp,
)


class Tails(NamedTuple):
    """The probabilities of at most a count and of more, and their logarithms."""

    cdf: Array
    survival: Array
    log_cdf: Array
    log_survival: Array


def _first_terms(a: Array, x: Array, once: tuple[Any, Any], twice: Any) -> Array:
    """A series `x^a (...)` at `x = 0`: `once` has its terms for `a = 1`, `twice` for `a = 2`."""
    square = jnp.square(x)
    return select(a == 1, once[0] * x + once[1] * square, select(a == 2, twice * square, 0))


def _start_of_beta(a: Array, b: Array, x: Array) -> Array:
    """`I_x(a, b)` at `x = 0`."""
    return _first_terms(a, x, (b, 0.5 * b * (1 - b)), 0.5 * b * (b + 1))


def binomial_tails(at_most: Array, more: Array, logits: Any, probs: Any) -> Tails:
    """`I_q(at_most, more)` and `I_p(more, at_most)`, of the chances of success and of failure."""
    p, q = success_and_failure_probs(logits, probs)
    log_p, log_q = success_and_failure_log_probs(logits, probs)
    is_none = log_p == -jnp.inf
    is_all = log_q == -jnp.inf
    inside = ~(is_none | is_all)
    log_tails = log_betainc(at_most, more, *(select(inside, x, -LOG_TWO) for x in (log_q, log_p)))
    some = _start_of_beta(more, at_most, select(is_none, p, 0))
    rest = _start_of_beta(at_most, more, select(is_all, q, 0))
    return _with_edges(is_none, is_all, some, rest, log_tails)


def poisson_tails(a: Array, rate: Array) -> Tails:
    """`Q(a, rate)` and `P(a, rate)`, for `a` one more than the count."""
    is_none = rate <= 0
    more, at_most = log_gammainc(a, select(is_none, 1, rate))
    some = _first_terms(a, select(is_none, rate, 0), (1, -0.5), 0.5)
    never = jnp.zeros_like(is_none)
    return _with_edges(is_none, never, some, jnp.zeros_like(some), (at_most, more))


def geometric_tails(number: Array, logits: Any, probs: Any) -> Tails:
    """`1 - q^number` and `q^number`, of the chance of failure `q`."""
    q = success_and_failure_probs(logits, probs)[1]
    log_q = success_and_failure_log_probs(logits, probs)[1]
    is_none = log_q == -jnp.inf
    log_survival = number * select(is_none, -LOG_TWO, log_q)
    some = _first_terms(number, select(is_none, q, 0), (1, 0), 1)
    log_tails = log1mexp(log_survival), log_survival
    tails = _with_edges(is_none, jnp.zeros_like(is_none), some, jnp.zeros_like(some), log_tails)
    return tails._replace(cdf=select(is_none, 1 - some, complement_of_exp(log_survival)))


def tail_formulas(tails: Callable[..., Tails]) -> dict[str, Callable[..., Array]]:
    """The formulas of distribution functions for a row, out of one for all of them."""
    return {
        name: lambda x, *parameters, name=name: getattr(tails(x, *parameters), name)
        for name in Tails._fields
    }


def _with_edges(
    is_none: Array, is_all: Array, some: Array, rest: Array, log_tails: tuple[Array, Array]
) -> Tails:
    """Tails with those where more is impossible or certain, but for its slopes."""
    none = (1 - some, some)
    log_none = (jnp.log1p(-some), -jnp.inf)
    every = (rest, 1 - rest)
    log_every = (-jnp.inf, jnp.log1p(-rest))
    log_cdf, log_survival = (
        select(is_none, a, select(is_all, b, x))
        for a, b, x in zip(log_none, log_every, log_tails, strict=True)
    )
    cdf, survival = (
        select(is_none, a, select(is_all, b, jnp.exp(x)))
        for a, b, x in zip(none, every, log_tails, strict=True)
    )
    return Tails(cdf, survival, log_cdf, log_survival)
