"""Derivatives of the log densities of all families, at the points where formulas branch."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from tests.distributions.cases import CASES, SIGNATURES, Case
from tests.distributions.special_points import faults

X = np.array([0.25, 0.75, -1.0, 2.0, 0.5])


def _case(name, make, inside, **parameters):
    return Case(name=name, make=make, parameters=parameters, oracle=make, inside=inside, outside=())


# Families without a row in the table.
MORE = [
    _case(
        "Censored",
        lambda loc, scale: dist.Censored(dist.Normal(loc, scale), -1.0, 2.0),
        X,
        loc=0.5,
        scale=2.0,
    ),
    _case("Delta", lambda weight: dist.Delta(0.5, weight), np.full(5, 0.5), weight=0.25),
    _case(
        "ICAR",
        lambda scale: dist.ICAR(scale=scale, adj_matrix=1 - np.eye(3)),
        np.eye(3)[[0, 1]] - 1 / 3,
        scale=2.0,
    ),
    _case("Masked", lambda loc: dist.Masked(dist.Laplace(loc, 2.0), True), X, loc=0.5),
]
QUICK = ("PoissonBinomial, probs", "GeneralizedNormal", "Laplace", "Categorical, probs")
slow = pytest.mark.slow, pytest.mark.exhaustive
NO_SLOPE = {
    "Custom": "the formula is the user's",
    "GaussianProcess": "a kernel of zeros has no density",
    "KroneckerNormal, with noise": "first derivatives only, as an error says",
    "Hypergeometric": "all parameters are integers",
    "DiscreteUniform": "all parameters are integers",
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in QUICK else slow)
        for case in CASES + MORE
        if case.name not in NO_SLOPE
    ],
)
def test_derivatives_at_special_points(case: Case, x64):
    """First and second ones, by all parameters and by the value."""
    assert not faults(case)


def test_all_families_are_swept():
    swept = {case.family for case in CASES + MORE}
    # One has no parameter, and the values of the other no derivatives.
    assert set(SIGNATURES) - swept == {"Flat", "IntervalCensored", "Joint"}


def _tie(x, a):
    """`log(exp(a) + exp(x))` from the greater and the lesser: second derivatives fail in a tie."""
    most, least = jnp.maximum(x, a), jnp.minimum(x, a)
    return most + jnp.log1p(jnp.exp(least - most))


def _chance(x, a):
    """The logarithm of `a` or more, with no slope by the one where it is 0."""
    log_a = jnp.where(a > 0, jnp.log(jnp.where(a > 0, a, 1)), -jnp.inf)
    return jnp.log(jnp.exp(log_a) + jnp.exp(x))


BROKEN = {
    "a tie": _tie,
    "a chance of 0": _chance,
    "a root of a square": lambda x, a: -jnp.sqrt(jnp.square(x - a)),
    "a series cut short": lambda x, a: jnp.where(x == 0, a, a * jnp.exp(jnp.square(x))),
}


def _broken(name, a):
    dist.Bernoulli(probs=a)  # Refuses what is no probability.
    return dist.Custom(BROKEN[name], (a,))


@pytest.mark.parametrize("name", BROKEN)
def test_broken_derivatives_are_noticed(name, x64):
    assert faults(_case("Custom", functools.partial(_broken, name), X, a=0.75))
