"""Compiled functions are found again for their own arguments only; what is known of their work."""

import dataclasses
import gc
import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import distributions as dist
import ppl
from inference import laplace, loo, mcmc, mcmc_each, optimize, power_scale, svi
from inference.runtime import compiled_program, signature
from inference.runtime.compiled_program import compile_once, estimate_work
from inference.runtime.devices import DEVICE, Share
from inference.runtime.xla_options import fuse_small_loops
from tests.inference.targets import needs_tricks


def kind(i):
    fields = [("x", float)]
    made = dataclasses.make_dataclass("Kind", fields, frozen=True, namespace={"number": i})
    return jax.tree_util.register_dataclass(made)


def number(kind):
    return kind.number + 0 * kind.x


def test_types_of_like_fields_are_told_apart():
    """JAX 0.10 holds their structures for equal, and mixes up one in ten of so many."""
    kinds = [kind(i)(1.0) for i in range(60)]
    assert [int(compile_once(number, kind)(kind)) for kind in kinds] == list(range(60))


def kept_and_moved(old, new):
    return old + new, old - new


def test_memory_is_taken_of_donated_arguments_alone():
    x = jnp.ones(3)
    assert "input_output_alias" not in compile_once(kept_and_moved, x, x).as_text()
    text = compile_once(kept_and_moved, x, x, donate=("new",)).as_text()
    (donated,) = re.findall(r"input_output_alias=.*?\((\d+), \{\}", text)
    assert donated == "1"


@pytest.mark.parametrize("said", [{"donate": ("chains",)}, {"sharded": ("old", "chains")}])
@pytest.mark.parametrize("has_mesh", [False, True])
def test_names_that_no_argument_has_are_refused(has_mesh, said):
    mesh = Mesh(np.array(jax.devices()[:1]), (DEVICE,)) if has_mesh else None
    with pytest.raises(ValueError, match=r"no parameter of .*kept_and_moved.* is called .'chains'"):
        compile_once(kept_and_moved, X, X, share=Share(np.arange(2), 2, mesh, False), **said)


X, LONG = jnp.ones((3, 40, 5)), jnp.ones(2000)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda: X + 1, (0, False)),
        (lambda: X.sum(), (600, False)),
        (lambda: X.sum(1).max(), (600, False)),
        (lambda: jax.jit(jnp.sum)(X) + X[0].sum(), (600, False)),
        (lambda: jax.lax.map(lambda x: x.sum(), X), (200, False)),
        (lambda: jax.lax.cond(X[0, 0, 0] > 0, lambda: X.sum(), lambda: X[0].sum()), (600, False)),
        (lambda: X[0] @ X[0, 0], (0, False)),
        (lambda: X[0, :, 0] @ X[0], (0, False)),
        (lambda: jnp.einsum("bij,bj->bi", X, X[:, 0]), (0, False)),
        (lambda: X[0, :, 0] @ X[0, :, 0], (40, False)),
        (lambda: jnp.tensordot(X, X, 3), (600, False)),
        (lambda: jnp.einsum("i,j->ij", LONG, LONG), (0, False)),
        (lambda: X[0, :3].T @ X[0, :3], (0, False)),
        (lambda: X[0] @ LONG[:1000].reshape(5, 200), (0, True)),
        (lambda: jnp.einsum("bij,bkj->bik", X, X), (0, True)),
        (lambda: jax.lax.map(lambda x: (x @ x.T).sum(1), X), (1600, True)),
    ],
)
def test_the_work_of_a_program(f, expected):
    """The largest array that is summed, and whether a product has matrices on both sides."""
    assert estimate_work(jax.make_jaxpr(f)().jaxpr) == expected


@needs_tricks
def test_other_threads_compile_as_ever():
    """The option of one thread's programs is not one of those that others compile meanwhile."""
    numbers = jnp.ones(1000)

    def text():
        return jax.jit(lambda x: jnp.cosh(x).sum()).lower(numbers).compile().as_text()

    with fuse_small_loops(1 << 16, 0), ThreadPoolExecutor(1) as pool:
        elsewhere, here = pool.submit(text).result(), text()
    assert "reduce-window" in elsewhere
    assert "reduce-window" not in here


@needs_tricks
def test_options_of_the_compiler_change_in_one_thread_at_a_time():
    """Two threads that are in at once would leave the options of one of them behind."""
    entered, leave = [threading.Event() for _ in range(2)], threading.Event()

    def change(entered):
        with fuse_small_loops(1 << 16, 0):
            entered.set()
            leave.wait(60)

    with ThreadPoolExecutor(2) as pool:
        changes = [pool.submit(change, entered[0])]
        assert entered[0].wait(60)
        changes.append(pool.submit(change, entered[1]))
        is_alone = not entered[1].wait(0.5)
        leave.set()
        for done in changes:
            done.result()
    assert is_alone
    assert entered[1].is_set()


BRIEF: dict[str, Any] = {"num_warmup": 5, "num_draws": 5}
USES = {
    "mcmc": partial(mcmc, **BRIEF),
    "mcmc_each": lambda key, model: mcmc_each(key, lambda k, _: model(k), jnp.ones(2), **BRIEF),
    "laplace": laplace,
    "optimize": optimize,
    "svi": partial(svi, num_steps=2),
    "loo": lambda key, model: loo(mcmc(key, model, **BRIEF), model),
    "power_scale": lambda key, model: power_scale(mcmc(key, model, **BRIEF), model),
    "to_arviz": lambda key, model: mcmc(key, model, **BRIEF).to_arviz(model),
    "coordinates": lambda key, model: ppl.coordinates(model)(),
}


@pytest.mark.quick_rows("optimize", "coordinates")
@pytest.mark.parametrize("use", USES)
def test_no_model_outlives_our_programs(use):
    """A model may hold large data; JAX's caches, which keep thousands, have none."""

    def make(shift):
        def model(key):
            x = ppl.sample(key, dist.Normal(shift, 1.0), name="x")
            return ppl.sample(key, dist.Normal(x, 1.0), name="y")

        return ppl.condition(model, {"y": jnp.zeros(3)}), weakref.ref(model)

    model, held = make(np.ones(3))
    USES[use](jax.random.key(0), model)
    del model
    compiled_program.compile_program.cache_clear()
    signature._shapes_of.cache_clear()
    gc.collect()
    assert held() is None
