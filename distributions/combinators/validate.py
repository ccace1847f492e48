"""Checks of traced parameters, on request."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from distributions.combinators.censored import Censored
from distributions.combinators.truncated import Truncated
from distributions.common.arrays import promote
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution
from distributions.core.family import Family

D = TypeVar("D", bound=Distribution)


def validate(distribution: D) -> D:
    """The distribution itself, its traced parameters checked when the program runs.

    A distribution checks parameters when it is made, but not those that JAX traces: a compiled
    program cannot raise. `jax.experimental.checkify` carries the result of a check to the caller of
    the program. In a program that is not traced, a failed check raises at once.

    Args:
        distribution: A distribution whose parameters may be traced.

    Returns:
        `distribution`.

    Raises:
        jax.experimental.checkify.JaxRuntimeError: A parameter is not valid (by `err.throw()`).

    >>> import jax
    >>> from jax.experimental import checkify
    >>> import distributions as dist
    >>> score = lambda scale: dist.validate(dist.Normal(0.0, scale)).log_prob(1.0)
    >>> error, _ = jax.jit(checkify.checkify(score))(-1.0)
    >>> print(error.get().splitlines()[0])
    Normal: scale must be positive and finite; got -1.0 (`check` failed)
    """
    if not isinstance(distribution, Distribution):
        raise TypeError(f"validate: expected a Distribution; got {distribution!r}")
    for part in _parts(distribution):
        validate(part)
    if isinstance(distribution, Truncated | Censored):
        low, high = promote(distribution.low, distribution.high)
        name = type(distribution).__name__
        checkify.check(jnp.all(low <= high), f"{name}: low must be less than high")
    if isinstance(distribution, Family):
        for p, value in distribution._given():
            _validate_parameter(f"{type(distribution).__name__}: {p.name}", p.constraint, value)
        if distribution._row.increasing:
            _validate_increasing(distribution, *distribution._row.increasing)
    return distribution


def _parts(distribution: Distribution) -> list[Distribution]:
    """The distributions inside a distribution."""
    leaves = jax.tree.leaves(vars(distribution), is_leaf=lambda x: isinstance(x, Distribution))
    return [leaf for leaf in leaves if isinstance(leaf, Distribution)]


def _validate_parameter(what: str, constraint: Constraint, value: Any) -> None:
    value = jnp.asarray(value)
    valid = jnp.asarray(constraint.check(value))
    events = value.reshape(valid.size, *value.shape[valid.ndim :])
    offender = events[jnp.argmin(valid.ravel())]
    message = f"{what} must be {constraint.description}; got {{got}}"
    checkify.check(jnp.all(valid), message, got=offender)


def _validate_increasing(distribution: Family, low: str, high: str) -> None:
    below, above = promote(getattr(distribution, low), getattr(distribution, high))
    message = f"{type(distribution).__name__}: {low} must be less than {high}"
    checkify.check(jnp.all(below < above), message)
