"""Data of a marginalized model: given, conditioned before and conditioned after mean the same."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

P = np.array([0.1, 0.2, 0.3, 0.25, 0.15])  # of the states 0 to 4
N = np.arange(5)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model whose data have a support that depends on a summed site.

    Attributes:
        model: The model.
        values: Data, possible in some states.
        outside: Data that no state has.
        oracle: The log density of data, by SciPy.
        sites: The sites that are taken out.
    """

    model: Callable[..., Any]
    values: Mapping[str, Any]
    outside: Mapping[str, Any]
    oracle: Callable[..., Any]
    sites: Any = ("N",)


def counted(family):
    """A number of trials that is summed, data of a family that it bounds, and data behind these."""

    def model(key):
        n = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P)), name="N")
        ppl.sample(key, family(n), name="a")
        ppl.sample(key, dist.Normal(0.5 * n, 1.0), name="b")

    return model


def of_counted(pmf):
    return lambda a, b: np.log(np.sum(P * pmf(a, N) * stats.norm.pdf(b, 0.5 * N)))


def truncated_pdf(a, n):
    mass = stats.norm.cdf(n) - stats.norm.cdf(-1.0)
    return np.where((a >= -1) & (a <= n), stats.norm.pdf(a) / mass, 0)


def removals(key):
    """The second catch is of those that the first has left; the sizes of fish know the first."""
    n = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P)), name="N")
    a = ppl.sample(key, dist.Binomial(n, probs=0.4), name="a")
    ppl.sample(key, dist.Normal(1.0 * a, 1.0), name="size")
    ppl.sample(key, dist.Binomial(n - a, probs=0.4), name="b")


def of_removals(a, size, b):
    twice = stats.binom.pmf(a, N, 0.4) * stats.binom.pmf(b, np.maximum(N - a, 0), 0.4)
    return np.log(np.sum(P * twice)) + stats.norm.logpdf(size, a)


def rows(key):
    jax.vmap(counted(lambda n: dist.Binomial(n, probs=0.4)))(jax.random.split(key, 3))


def of_rows(a, b):
    each = of_counted(lambda a, n: stats.binom.pmf(a, n, 0.4))
    return sum(each(x, y) for x, y in zip(a, b, strict=True))


def chain(key):
    def step(n, key):
        logits = -((n - jnp.arange(5.0)) ** 2)
        n = ppl.sample(key, dist.Categorical(logits=logits), name="N")
        ppl.sample(key, dist.Binomial(n, probs=0.4), name="a")
        ppl.sample(key, dist.Normal(0.5 * n, 1.0), name="b")
        return n, None

    jax.lax.scan(step, 1, jax.random.split(key, 3))


def of_chain(a, b):
    total = 0.0
    for path in itertools.product(N, repeat=3):
        before = (1, *path[:-1])
        moves = [np.exp(-((m - N) ** 2)) for m in before]
        steps = [w[n] / w.sum() for w, n in zip(moves, path, strict=True)]
        scores = stats.binom.pmf(a, path, 0.4) * stats.norm.pdf(b, 0.5 * np.array(path))
        total += np.prod(steps) * np.prod(scores)
    return np.log(total)


def branches(key):
    n = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P)), name="N")

    def caught(more):
        return lambda: ppl.sample(key, dist.Binomial(n + more, probs=0.4), name="a")

    jax.lax.cond(n > 2, caught(0), caught(1))
    ppl.sample(key, dist.Normal(0.5 * n, 1.0), name="b")


def positive(key):
    """A support that no summed site changes."""
    z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P)), name="N")
    a = ppl.sample(key, dist.Gamma(1.0 + z, 1.0), name="a")
    ppl.sample(key, dist.Normal(jnp.log(a) * z, 1.0), name="b")


def of_positive(a, b):
    a = max(a, 0.0)
    means = np.log(a or 1.0) * N
    return np.log(np.sum(P * stats.gamma.pdf(a, 1.0 + N) * (a > 0) * stats.norm.pdf(b, means)))


CASES = {
    "binomial": Case(
        counted(lambda n: dist.Binomial(n, probs=0.4)),
        {"a": 3, "b": 0.3},
        {"a": 9},
        of_counted(lambda a, n: stats.binom.pmf(a, n, 0.4)),
    ),
    "uniform integers": Case(
        counted(lambda n: dist.DiscreteUniform(0, n)),
        {"a": 3, "b": 0.3},
        {"a": -1},
        of_counted(lambda a, n: (a >= 0) * (a <= n) / (n + 1)),
    ),
    "beta-binomial": Case(
        counted(lambda n: dist.BetaBinomial(total_count=n, concentration1=2.0, concentration0=3.0)),
        {"a": 3, "b": 0.3},
        {"a": 5},
        of_counted(lambda a, n: stats.betabinom.pmf(a, n, 2.0, 3.0)),
    ),
    "hypergeometric": Case(
        counted(lambda n: dist.Hypergeometric(total_count=3, num_successes=n, num_failures=10)),
        {"a": 2, "b": 0.3},
        {"a": 4},
        of_counted(lambda a, n: stats.hypergeom.pmf(a, n + 10, n, 3)),
    ),
    "uniform": Case(
        counted(lambda n: dist.Uniform(0.0, 1.0 + n)),
        {"a": 3.3, "b": 0.3},
        {"a": 5.5},
        of_counted(lambda a, n: stats.uniform.pdf(a, 0, 1 + n)),
    ),
    "truncated": Case(
        counted(lambda n: dist.Truncated(dist.Normal(0.0, 1.0), low=-1.0, high=1.0 * n)),
        {"a": 1.3, "b": 0.3},
        {"a": -2.0},
        of_counted(truncated_pdf),
    ),
    "removals": Case(removals, {"a": 2, "size": 2.5, "b": 1}, {"a": 5}, of_removals),
    "rows": Case(
        rows,
        {"a": np.array([0, 3, 2]), "b": np.array([0.1, 0.2, 0.3])},
        {"a": np.array([0, 5, 2])},
        of_rows,
    ),
    "chain": Case(
        chain,
        {"a": np.array([0, 3, 2]), "b": np.array([0.1, 0.2, 0.3])},
        {"a": np.array([0, 5, 2])},
        of_chain,
    ),
    "branches": Case(
        branches,
        {"a": 3, "b": 0.3},
        {"a": 6},
        of_counted(lambda a, n: stats.binom.pmf(a, n + (n <= 2), 0.4)),
    ),
    "positive": Case(positive, {"a": 1.5, "b": 0.3}, {"a": -1.0}, of_positive),
}


def in_all_ways(case, values):
    """The log density of values that are given, conditioned on before, after, and both."""
    summed = ppl.marginalize(case.model, case.sites)
    before = ppl.marginalize(ppl.condition(case.model, values), case.sites)
    first, *rest = values
    some, others = {first: values[first]}, {name: values[name] for name in rest}
    return {
        "given": ppl.log_density(summed)(values),
        "before": ppl.log_density(before)({}),
        "after": ppl.log_density(ppl.condition(summed, values))({}),
        "some given": ppl.log_density(ppl.condition(summed, others))(some),
        "by site": sum(map(jnp.sum, ppl.log_probs(summed)(values).values())),
    }


@pytest.mark.quick_rows("binomial", "uniform", "removals", "positive")
@pytest.mark.parametrize("name", CASES)
def test_data_are_scored_as_they_are_however_they_are_given(name):
    case = CASES[name]
    with np.errstate(divide="ignore"):
        for values in (case.values, {**case.values, **case.outside}):
            found, expected = in_all_ways(case, values), case.oracle(**values)
            for way, log_density in found.items():
                np.testing.assert_allclose(log_density, expected, rtol=1e-10, err_msg=way)
            assert np.isfinite(expected) == (values is case.values)


def pair(key):
    """Two sums that have nothing in common, and data behind both."""
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    v = ppl.sample(key, dist.Bernoulli(probs=0.6), name="v")
    y = ppl.sample(key, dist.Normal(1.0 * z, 1.0), name="y")
    u = ppl.sample(key, dist.Normal(2.0 * v, 1.0), name="u")
    ppl.sample(key, dist.Normal(y * u, 1.0), name="w")


def of_pair(y, u, w):
    first = 0.7 * stats.norm.pdf(y) + 0.3 * stats.norm.pdf(y, 1.0)
    second = 0.4 * stats.norm.pdf(u) + 0.6 * stats.norm.pdf(u, 2.0)
    return np.log(first * second) + stats.norm.logpdf(w, y * u)


def levels(key):
    """A sum around an integral, and an integral of their own for the counts."""
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(1.0 * z, 1.0), name="x")
    y = ppl.sample(key, dist.Normal(x, 1.0), name="y")
    v = ppl.sample(key, dist.Normal(0.0, 2.0), name="v")
    ppl.sample(key, dist.Normal(v, 1.0), name="u")
    ppl.sample(key, dist.Normal(y, 1.0), name="w")


def of_levels(y, u, w):
    first = 0.7 * stats.norm.pdf(y, 0.0, 2**0.5) + 0.3 * stats.norm.pdf(y, 1.0, 2**0.5)
    return np.log(first) + stats.norm.logpdf(u, 0.0, 5**0.5) + stats.norm.logpdf(w, y)


GROUPS = {
    "sums": (pair, ["z", "v"], of_pair),
    "integrals in a sum": (
        levels,
        {"z": ppl.Enumerate(), "x": ppl.Gaussian(), "v": ppl.Laplace()},
        of_levels,
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_that_are_taken_out_apart_are_scored_apart(name):
    model, sites, oracle = GROUPS[name]
    values = {"y": 0.5, "u": 1.0, "w": 0.2}
    summed = ppl.marginalize(model, sites)
    found = in_all_ways(Case(model, values, {}, oracle, sites), values)
    found["unconstrained"] = ppl.unconstrain(summed).log_density(values)
    for way, log_density in found.items():
        np.testing.assert_allclose(log_density, oracle(**values), rtol=1e-10, err_msg=way)
    draws = {name: jnp.full(2, x) for name, x in values.items()}
    recovered = ppl.recover(summed, draws)(jax.random.key(0))
    assert {name: x.shape for name, x in recovered.items()} == dict.fromkeys(sites, (2,))
    assert ppl.simulate(summed)(jax.random.key(0)).keys() == values.keys()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: dist.Uniform(x, x + 1.0),
        lambda x: dist.Pareto(concentration=3.0, scale=jnp.exp(x)),
    ],
)
def test_a_support_by_an_approximated_site_is_refused(make):
    """The density has an edge, which Laplace's approximation does not see."""

    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.sample(key, make(x), name="y")

    with pytest.raises(ValueError, match=r"the support of site 'y' depends on 'x'.*edge"):
        ppl.log_density(ppl.marginalize(model, {"x": ppl.Laplace()}))({"y": 1.5})
