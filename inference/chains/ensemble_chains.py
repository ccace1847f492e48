"""Chains of an ensemble kernel: starts and transitions of all chains, to be compiled.

The key of a transition is a hash of only the seed of the first chain and the iteration.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.chains.step_chains import (
    adapt_in_warmup,
    check_adapt,
    check_form,
    initial_state,
    repeat_transitions,
    shapes_of_step,
    statistics_of,
)
from inference.common.layout import Layout
from inference.common.target import Target
from inference.common.threefry import threefry
from inference.kernels.ensemble.kernel import EnsembleKernel


class EnsembleChains(NamedTuple):
    """All chains between two transitions.

    Attributes:
        seed: Two words of uint32.
        iteration: Number of transitions so far.
        num_warmup: Number of transitions of warm-up.
        state: State of the kernel.
    """

    seed: Any
    iteration: Any
    num_warmup: Any
    state: Any


def evaluate_starts(
    target: Target, layout: Layout, positions: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log densities and gradients at flat positions ``(start, size)``."""

    def density(flat):
        return target.log_density(layout.unravel(flat))

    return lax.map(jax.value_and_grad(density), positions)


def evaluate_values(target: Target, layout: Layout, positions: jax.Array) -> tuple[jax.Array]:
    """Log densities at flat positions ``(start, size)``, for kernels without gradients."""
    return (lax.map(lambda flat: target.log_density(layout.unravel(flat)), positions),)


def begin_ensemble(kernel: EnsembleKernel, layout: Layout, positions: jax.Array) -> Any:
    """State of the kernel at flat positions ``(chain, size)``.

    Raises:
        TypeError: if the state has no position.
    """
    return initial_state(kernel, jax.vmap(layout.unravel)(positions))


def move_ensemble(
    chains: EnsembleChains,
    rows: Any,
    offset: jax.Array,
    number: jax.Array,
    kernel: EnsembleKernel,
    layout: Layout,
) -> tuple[EnsembleChains, Any]:
    """All chains after `number` transitions, and their rows, ``(chain, row)``.

    A row is a flat position and statistics; the first transition fills the row at `offset`.
    """
    advance = functools.partial(make_transitions, kernel, layout)
    return repeat_transitions(advance, chains, rows, offset, number, axis=1)


def make_transitions(
    kernel: EnsembleKernel, layout: Layout, chains: EnsembleChains
) -> tuple[EnsembleChains, tuple[jax.Array, dict[str, jax.Array]]]:
    """Chains after a transition, and in warm-up adapted; their flat positions and statistics."""
    words = jnp.stack(threefry(chains.seed, chains.iteration))
    key = random.wrap_key_data(words, impl="threefry2x32")
    iteration = chains.iteration
    state, info = kernel.step(key, chains.state)
    state = adapt_in_warmup(kernel, state, info, iteration, chains.num_warmup)
    positions = jax.vmap(layout.ravel)(state.position)
    shape = positions.shape[:1]
    stats = {name: jnp.broadcast_to(x, shape) for name, x in statistics_of(info, state).items()}
    return chains._replace(iteration=iteration + 1, state=state), (positions, stats)


def check_ensemble(kernel: Any, layout: Layout, state: Any, num_chains: int) -> None:
    """Checks that `step` and `adapt` keep the protocol of :class:`EnsembleKernel`.

    Raises:
        TypeError: if `step` does not return a pair, the structure, shapes or dtypes of the state
            change, or the info is not a NamedTuple of scalars and of arrays with a number for each
            chain.
    """
    name = type(kernel).__name__
    after, info = shapes_of_step(kernel, state, "NamedTuple")
    shapes = [np.shape(x) for x in info] if hasattr(info, "_asdict") else [None]
    if any(shape not in ((), (num_chains,)) for shape in shapes):
        raise TypeError(
            f"the info of {name}.step must be a NamedTuple of scalars, or of arrays of shape "
            f"({num_chains},) with a number for each chain, got {info}"
        )
    check_form(kernel, "step", state, after)
    check_adapt(kernel, state, info)
    one = layout.unravel(jnp.zeros(layout.size))
    expected = jax.tree.map(lambda x: (num_chains, *x.shape), one)
    shapes = expected, jax.tree.map(np.shape, state.position)
    if shapes[0] != shapes[1]:
        raise TypeError(
            f"the position of {name} must stay as init has got it, with shapes {shapes[0]}, got "
            f"{shapes[1]}"
        )
