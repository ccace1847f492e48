"""Methods called where nothing is traced: compiled once, for every object alike."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions.common.arrays import as_host_array, is_traced
from distributions.core import eager_jit
from tests.distributions.cases import CASES, Case

KEY = jax.random.key(0)
OPEN = {"FromTFP", "Custom"}
"""These depend on functions of others, which may give something else in every call."""


@contextmanager
def compiled() -> Iterator[list[str]]:
    """A list that grows by an entry for each program that is compiled."""
    events: list[str] = []

    def listen(event: str, _: float, **__: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_tracers_are_told_from_known_arrays():
    """On a public class of JAX's, whatever transformation traces."""
    seen = []

    def f(x: Any) -> Any:
        seen.append(is_traced(x))
        return jnp.sum(x)

    x = jnp.ones(2)
    for call in (f, jax.jit(f), jax.vmap(f), jax.grad(f)):
        call(x)
    jax.jvp(f, (x,), (x,))
    assert seen == [False, True, True, True, True]
    assert as_host_array(x) is not None


CALLS: dict[str, tuple[Callable[[Any], dist.Distribution], Callable[[Any], Any]]] = {
    "gamma": (lambda x: dist.Gamma(x, 1.0), lambda d: d.sample(KEY, (3,))),
    "gamma quantile": (lambda x: dist.Gamma(x, 1.0), lambda d: d.quantile(0.3)),
    "beta mode": (lambda x: dist.Beta(x, 3.0), lambda d: d.mode()),
    "lkj": (lambda x: dist.LKJCholesky(3, x), lambda d: d.sample(KEY)),
    "bates": (lambda x: dist.Bates(4, 0.0, x), lambda d: d.log_prob(0.3)),
    "truncated": (lambda x: dist.Truncated(dist.Normal(0.0, x), 0.0), lambda d: d.sample(KEY)),
    "independent": (
        lambda x: dist.Independent(dist.Gamma(x, np.ones(3)), 1),
        lambda d: d.sample(KEY),
    ),
    "transformed": (
        lambda x: dist.TransformedDistribution(dist.Gamma(x, 1.0), dist.bijectors.Exp()),
        lambda d: d.sample(KEY),
    ),
}


@pytest.mark.slow_rows("gamma quantile", "lkj", "truncated")
@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_compiles_nothing(name: str) -> None:
    make, call = CALLS[name]
    call(make(2.0))
    with compiled() as events:
        call(make(2.5))
    assert not events


def test_the_count_sees_what_is_compiled() -> None:
    with compiled() as events:
        jax.jit(lambda x: x + 1)(1.0)
    assert events


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_distribution_but_those_of_functions_is_closed(case: Case) -> None:
    d = case.build()
    assert eager_jit._is_pure_tree(jax.tree.structure(d)) == (type(d).__name__ not in OPEN)


class Loud(dist.Normal):
    """One whose methods do more than to compute."""

    is_closed = False
    calls = 0

    def _log_prob(self, value: Any) -> jax.Array:
        Loud.calls += 1
        return super()._log_prob(value)


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: dist.Truncated(d, 0.0)])
def test_what_is_not_closed_is_called_every_time(wrap: Callable[[Any], Any]) -> None:
    before = Loud.calls
    for _ in range(2):
        wrap(Loud(0.0, 1.0)).log_prob(1.0)
    assert Loud.calls == before + 2


def test_an_integer_that_jax_cannot_hold_stays_with_the_host() -> None:
    assert dist.Binomial(2**33, probs=0.5).mean() == 2.0**32


def test_under_transformations_it_is_what_it_was() -> None:
    """Not a call of a compiled function, of which JAX would know less."""
    jaxpr = jax.make_jaxpr(lambda x: dist.Normal(0.0, x).log_prob(x))(jnp.float32(1.0))
    assert all("_call_method" not in str(eqn.params.get("name")) for eqn in jaxpr.eqns)
