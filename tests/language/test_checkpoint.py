"""checkpoint around sites: the density stays, and memory falls as it does by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.random import split

import distributions as dist
import ppl

from .checks import assert_close

NUM_STEPS, NUM_BLOCKS, SIZE = 128, 6, 64


def layers(x: Any) -> Any:
    """What has to be kept or computed again."""
    for i in range(4):
        x = jnp.sin(1.1 * x + i) * jnp.exp(-(x**2))
    return x


def by_scan(wrap: Any) -> Any:
    def model(key: Any, x: Any) -> Any:
        @wrap
        def step(x: Any, key: Any) -> Any:
            x = ppl.sample(key, dist.Normal(layers(x), 1.0), name="x")
            return x, ppl.sample(key, dist.Normal(layers(x), 0.5), name="y")

        return lax.scan(step, x, split(key, NUM_STEPS))[1]

    return ppl.log_density(model)


def by_hand(wrap: Any) -> Any:
    def density(values: Any, x: Any) -> Any:
        @wrap
        def step(state: Any, xy: Any) -> Any:
            (before, total), (x, y) = state, xy
            term = -0.5 * (x - layers(before)) ** 2 - 0.5 * ((y - layers(x)) / 0.5) ** 2
            return (x, total + term.sum() - x.size * jnp.log(jnp.pi)), None

        return lax.scan(step, (x, jnp.zeros(())), (values["x"], values["y"]))[0][1]

    return density


def in_a_line(wrap: Any) -> Any:
    """Blocks of layers and a site one after the other, each in a scope of its own."""

    def model(key: Any, x: Any) -> Any:
        block = lambda key, x: ppl.sample(key, dist.Normal(layers(x), 1.0), name="x")  # noqa: E731
        for i, key in enumerate(split(key, NUM_BLOCKS)):  # noqa: B020
            x = wrap(ppl.nest(block, scope=f"{i}"))(key, x)
        return x

    def density(values: Any, x: Any) -> Any:
        by_block = {f"{i}": {"x": values["x"][i]} for i in range(NUM_BLOCKS)}
        return ppl.log_density(model)(by_block, x)

    return density


def unwrapped(f: Any) -> Any:
    return f


def keeping_dots(f: Any) -> Any:
    return jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)


def point() -> Any:
    x = jnp.linspace(-1.0, 1.0, NUM_STEPS * SIZE).reshape(NUM_STEPS, SIZE)
    return {"x": x, "y": jnp.cos(x)}, jnp.linspace(-1.0, 1.0, SIZE)


def temporary_bytes(density: Any) -> int:
    """What the compiled gradient allocates beside its arguments and results."""
    return jax.jit(jax.grad(density)).lower(*point()).compile().memory_analysis().temp_size_in_bytes


def kept_bytes(density: Any) -> int:
    """What the forward pass keeps for the backward pass."""
    pullback = jax.eval_shape(lambda *args: jax.vjp(density, *args)[1], *point())
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(pullback))


@pytest.mark.quick_rows("keeping_dots")
@pytest.mark.parametrize("wrap", [jax.checkpoint, keeping_dots])
def test_compiled_memory_falls(wrap):
    """To a tenth and less of a scan, and to what the density written by hand needs."""
    checkpointed = temporary_bytes(by_scan(wrap))
    assert checkpointed < 0.1 * temporary_bytes(by_hand(unwrapped))
    assert checkpointed < 1.1 * temporary_bytes(by_hand(wrap))


@pytest.mark.parametrize("model", [by_scan, in_a_line])
def test_the_backward_pass_keeps_less(model):
    plain, checkpointed = map(kept_bytes, (model(unwrapped), model(jax.checkpoint)))
    assert checkpointed < 0.1 * plain


@pytest.mark.quick_rows("in_a_line")
@pytest.mark.parametrize("model", [by_scan, in_a_line])
def test_density_and_gradient_stay(model, x64):
    plain, checkpointed = (
        jax.jit(jax.value_and_grad(model(wrap), (0, 1)))(*point())
        for wrap in (unwrapped, jax.checkpoint)
    )
    assert_close(checkpointed, plain)
    if model is by_scan:
        assert_close(plain, jax.jit(jax.value_and_grad(by_hand(unwrapped), (0, 1)))(*point()))
