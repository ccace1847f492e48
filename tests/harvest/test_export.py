"""Harvested functions, and functions that sow, survive `jax.export`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export, lax
from jax.sharding import AxisType, PartitionSpec

from ppl.harvest import harvest, reap, vjp_and_reap

from .calls import over_shards, solved, with_jvp, with_vjp
from .checks import TAG, assert_same
from .constructs import branch, once, put, scan, while_below

X = jnp.float32(3.0)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "straight": once("strict"),
    "jit": jax.jit(once("strict")),
    "scan": scan("append"),
    "scan-clobber": scan("cond_clobber"),
    "while": while_below(9.0, "clobber"),
    "cond": branch("strict"),
    "vmap": lambda x: jax.vmap(once("append"))(jnp.stack([x, x])),
    "checkpoint": jax.checkpoint(once("strict")),
    "grad-of-checkpoint": jax.grad(jax.checkpoint(lambda x: put(x * x) * x)),
    "scan-of-checkpoint": scan("append", around=jax.checkpoint),
    "custom_jvp": with_jvp(once("strict")),
    "custom_vjp": with_vjp(once("strict")),
    "custom_linear_solve": solved,
    "key": lambda x: jax.random.key_data(put(jax.random.key(x.astype(int)))),
}


def export_and_load(f: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """The function as it comes back from bytes."""
    return export.deserialize(export.export(jax.jit(f))(*args).serialize()).call


@pytest.mark.slow_rows("scan", "scan-clobber", "while", "cond", "vmap")
@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_a_harvested_function_is_exported(f: Callable[[Any], Any]) -> None:
    """Reaped, planted, and not harvested at all."""
    harvested = harvest(f, tag=TAG)
    plants = reap(f, tag=TAG)(X)
    for g, args in [(f, (X,)), (harvested, ({}, X)), (harvested, (plants, X))]:
        call = export_and_load(g, *args)
        assert_same(call(*args), g(*args))


def test_a_function_of_any_batch_size() -> None:
    """Shapes may be symbolic: nothing in harvest asks for their numbers."""

    def f(x: Any) -> Any:
        x = put(x + 1, name="all")
        return lax.scan(lambda c, v: (put(c + v, "append", name="sums"), None), x.sum(), XS)[0]

    (n,) = export.symbolic_shape("n")
    call = export_and_load(reap(f, tag=TAG), jax.ShapeDtypeStruct((n,), jnp.float32))
    for size in (1, 4):
        assert_same(call(jnp.ones(size)), reap(f, tag=TAG)(jnp.ones(size)))


XS = jnp.array([1.0, 2.0])


def test_a_pullback_is_exported() -> None:
    def both(x: Any) -> Any:
        out, reaps, pullback = vjp_and_reap(lambda x: put(x + 1) ** 2, tag=TAG)(x)
        return out, reaps, pullback(jnp.ones_like(out))

    assert_same(export_and_load(both, X)(X), (16.0, {"y": 4.0}, ((8.0,), {"y": 8.0})))


def test_an_exported_function_is_differentiated() -> None:
    harvested = harvest(lambda x: put(x * x) * x, tag=TAG)
    blob = export.export(jax.jit(harvested))({}, X).serialize(vjp_order=1)
    call = export.deserialize(blob).call
    assert_same(jax.grad(lambda x: call({}, x)[0])(X), 27.0)


def test_a_shard_map_is_exported() -> None:
    """It is called as JAX asks: with arguments that lie on as many devices."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    x = jax.device_put(jnp.array([1.0, 2.0]), jax.NamedSharding(mesh, PartitionSpec("i")))
    harvested = harvest(over_shards(once("strict")), tag=TAG)
    for plants in ({}, jax.device_put(reap(over_shards(once("strict")), tag=TAG)(x), x.sharding)):
        assert_same(export_and_load(harvested, plants, x)(plants, x), harvested(plants, x))
