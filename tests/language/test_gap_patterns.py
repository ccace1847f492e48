"""Patterns of gaps are data: as many gaps in other places neither compile nor trace anything."""

# ruff: noqa: E501

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats

import distributions as dist
import inference
import ppl

from .checks import assert_close, counting
from .test_constructs import EACH
from .test_missing import COVARIANCE

KEY = key(4)
NAN = np.nan
NORMAL = stats.norm.logpdf


@contextmanager
def compilations() -> Iterator[list[float]]:
    """The seconds of each compilation within the block."""
    found: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            found.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


def test_an_imputed_posterior_is_exact():
    """The missing entries of a normal vector have the conditional mean and variance; five standard errors.

    Another pattern of as many gaps compiles nothing.
    """

    def model(key):
        return ppl.sample(
            key, dist.MultivariateNormal(jnp.zeros(3), covariance=COVARIANCE), name="v"
        )

    def observed(key, y):
        return ppl.condition(model, {"v": y})(key)

    sample = lambda y: inference.mcmc(KEY, observed, ppl.impute(np.array(y)), progress=False)  # noqa: E731
    result = sample([1.0, NAN, NAN])
    draws = np.asarray(result.draws["v"], np.float64)
    assert np.all(draws[..., 0] == 1.0)
    mean = COVARIANCE[1:, 0] / COVARIANCE[0, 0]
    variance = np.diag(COVARIANCE[1:, 1:] - np.outer(COVARIANCE[1:, 0], mean))
    size = np.array([result.summary()[f"v[{i}]"].ess_bulk for i in (1, 2)])
    missing = draws[..., 1:].reshape(-1, 2)
    assert np.all(size > 400)
    assert np.all(abs(missing.mean(0) - mean) < 5 * np.sqrt(variance / size))
    assert np.all(abs(missing.var(0) / variance - 1) < 5 * np.sqrt(4 / size))
    with compilations() as found:
        others = sample([NAN, NAN, 2.0]).draws["v"]
    assert not found
    assert np.all(others[..., 2] == 2.0)
    assert np.all(np.std(others[..., :2], (0, 1)) > 0.5)


def test_new_data_and_new_gaps_are_not_traced_again():
    counted, calls = counting(lambda key: ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="y"))

    @jax.jit
    def ignored(y):
        return ppl.log_density(ppl.condition(counted, {"y": ppl.ignore(y)}))({})

    @jax.jit
    def imputed(target, position):
        return target.log_density(position)

    assert ignored(jnp.array([0.0, NAN, NAN])) == pytest.approx(
        float(ignored(jnp.array([NAN, NAN, 0.0])))
    )
    target = lambda y: ppl.unconstrain(ppl.condition(counted, {"y": ppl.impute(y)}))  # noqa: E731
    for y in ([1.0, NAN, 2.0], [3.0, NAN, 4.0], [NAN, 3.0, 4.0]):
        found = imputed(target(np.array(y)), {"y": jnp.zeros(1)})
        assert found == pytest.approx(float(NORMAL(np.nan_to_num(y)).sum()))
    assert imputed._cache_size() == 1
    assert len(calls) == 1


LOC = jnp.array([1.0, 2.0])


def vector(key):
    return ppl.sample(key, dist.Gamma(2.0, LOC), name="y")


def one_by_one(each: Any) -> Any:
    """Rows conditioned within a construct."""
    one = lambda key, y: ppl.condition(vector, {"y": y})(key)  # noqa: E731
    return lambda key, y: each(one, split(key, 3), y)


def all_at_once(each: Any) -> Any:
    """A construct around a site, conditioned as a whole."""
    return lambda key, y: ppl.condition(lambda key: each(vector, split(key, 3)), {"y": y})(key)


PATTERNS = np.array(
    [
        [[NAN, 1.0], [1.3, NAN], [NAN, NAN]],
        [[NAN, NAN], [NAN, 0.4], [0.7, NAN]],
        [[0.2, NAN], [NAN, NAN], [NAN, 2.0]],
    ]
)


@jax.jit
def look(target: Any, position: Any) -> Any:
    return target.log_density(position), target.constrain(position)


@pytest.mark.quick_rows("each_by_scan_of_vmap-one_by_one", "each_in_a_branch-all_at_once")
@pytest.mark.parametrize("conditioned", [one_by_one, all_at_once])
@pytest.mark.parametrize("each", EACH)
def test_patterns_in_all_constructs(each, conditioned):
    """Values, density and the absence of compilations, for rows and for whole data."""
    model = conditioned(each)
    shape = jax.eval_shape(lambda: each(lambda key: jnp.zeros(2), split(KEY, 3))).shape
    if each.__name__ == "each_by_scan_of_vmap" and conditioned is all_at_once:
        shape = (3, 1, 2)
    entries = jnp.array([-0.3, 0.1, 0.2, -0.5])

    def check(y: Any) -> list[float]:
        filled = np.array(y)
        filled[np.isnan(y)] = np.exp(entries)
        with compilations() as found:
            target = ppl.unconstrain(model, ppl.impute(y.reshape(shape)))
            density, values = look(target, {"y": entries})
        assert_close(values["y"].reshape(3, 2), jnp.float32(filled), "float32")
        by_hand = stats.gamma.logpdf(filled, 2.0, scale=1 / LOC).sum() + entries.sum()
        assert_close(density, by_hand, "float32")
        again = target.unconstrain({"y": values["y"]})
        assert_close(again["y"], entries, "float32")
        return found

    check(PATTERNS[0])
    before = look._cache_size()
    found = check(PATTERNS[1]) + check(PATTERNS[2])
    assert look._cache_size() == before
    if "shard_map" not in each.__name__:
        assert not found


def two_branches(key: Any, a: Any, b: Any) -> Any:
    first, second = (ppl.condition(vector, {"y": y}) for y in (a, b))
    return lax.cond(True, first, second, key)


def test_branches_that_miss_other_entries():
    """In words where masks are known, and by NaN where they are traced; never a wrong number."""
    a, b = (ppl.impute(np.array(y)) for y in ([1.0, NAN], [NAN, 1.0]))
    expected = "site 'y': which of its entries are missing differs between the branches of a cond"
    with pytest.raises(ValueError, match=expected):
        ppl.unconstrain(two_branches, a, b)

    @jax.jit
    def density(a, b):
        return ppl.unconstrain(two_branches, b, a).log_density({"y": jnp.zeros(1)})

    assert jnp.isnan(density(a, b))
    y, shared = jnp.ones(2), ppl.log_density(vector)
    assert_close(density(a, a), shared({"y": y}), "float32")
    assert_close(density(b, b), shared({"y": y}), "float32")


def test_a_part_of_data_with_gaps():
    """Rows may be given one by one; a part with other gaps than its share is an error in words."""
    whole = ppl.impute(PATTERNS[0])
    model = lambda key, y: ppl.condition(vector, {"y": jax.tree.map(lambda x: x[2], y)})(key)  # noqa: E731
    with pytest.raises(ValueError, match=r"site 'y': 2 of its entries are missing.*1 in all"):
        ppl.unconstrain(model, whole)
