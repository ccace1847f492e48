"""Chains of a kernel with `init`, `step` and perhaps `adapt`: starts, transitions, to be compiled.

The key of a transition is a hash of only the run's key, the chain's number and the iteration.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.common.layout import Layout
from inference.common.target import Target
from inference.common.threefry import threefry
from inference.kernels.hamiltonian.kernel import Kernel
from inference.runtime.compiled_program import SMALL_LOOP_BYTES
from inference.runtime.signature import shapes_of
from inference.runtime.xla import fuse_as_loop


class StepChain(NamedTuple):
    """Chain between two transitions.

    Attributes:
        seed: Two words of uint32, its own.
        iteration: Number of transitions so far.
        num_warmup: Number of transitions of warm-up.
        state: State of the kernel.
    """

    seed: Any
    iteration: Any
    num_warmup: Any
    state: Any


def begin_chains(
    kernel: Kernel, target: Target, layout: Layout, positions: jax.Array
) -> tuple[Any, jax.Array]:
    """States of the kernel at flat positions ``(chain, size)``, and log densities ``(chain,)``.

    Raises:
        TypeError: if a state has no position.
    """

    def begin(vector: jax.Array) -> tuple[Any, jax.Array]:
        position = layout.unravel(vector)
        return initial_state(kernel, position), target.log_density(position)

    return lax.map(begin, positions)


def initial_state(kernel: Kernel, position: Any) -> Any:
    """The kernel's state at a position, or at the positions of all chains.

    Raises:
        TypeError: if the state has no position.
    """
    state = kernel.init(position)
    if not hasattr(state, "position"):
        raise TypeError(
            f"the state of {type(kernel).__name__} must be a NamedTuple with a position, got a "
            f"{type(state).__name__}"
        )
    return jax.tree.map(jnp.asarray, state)


def step_chains(
    chains: StepChain,
    rows: Any,
    offset: jax.Array,
    number: jax.Array,
    kernel: Kernel,
    layout: Layout,
) -> tuple[StepChain, Any]:
    """Chains after `number` transitions, and their rows; one chain after the other.

    A row is a position and statistics; the first transition fills the row at `offset`.
    """
    return lax.map(
        lambda state: _steps(kernel, layout, offset, number, *state, is_fused=True), (chains, rows)
    )


def step_chains_mapped(
    chains: StepChain,
    rows: Any,
    offset: jax.Array,
    number: jax.Array,
    kernel: Kernel,
    layout: Layout,
) -> tuple[StepChain, Any]:
    """Chains and rows, as :func:`step_chains`, with all chains side by side, for accelerators."""
    return jax.vmap(lambda *state: _steps(kernel, layout, offset, number, *state))(chains, rows)


def _steps(
    kernel: Kernel,
    layout: Layout,
    offset: jax.Array,
    number: jax.Array,
    chain: StepChain,
    rows: Any,
    is_fused: bool = False,
) -> tuple[StepChain, Any]:
    advance = functools.partial(make_transition, kernel, layout, is_fused=is_fused)
    return repeat_transitions(advance, chain, rows, offset, number, axis=0)


def repeat_transitions(
    advance: Callable[[Any], tuple[Any, Any]],
    chains: Any,
    rows: Any,
    offset: jax.Array,
    number: jax.Array,
    axis: int,
) -> tuple[Any, Any]:
    """Chains after `number` transitions, and rows filled by these transitions.

    Args:
        advance: Function from chains to the chains after a transition and their row.
        chains: One chain or several.
        rows: Memory for rows.
        offset: Place of the first row that is filled.
        number: Number of transitions.
        axis: Axis of `rows` over rows.
    """

    def step(i: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        old, rows = carry
        new, row = advance(old)
        place = jnp.asarray(offset + i, jnp.int32)
        return new, jax.tree.map(
            lambda x, value: lax.dynamic_update_index_in_dim(x, value, place, axis), rows, row
        )

    return lax.fori_loop(0, number, step, (chains, rows))


def make_transition(
    kernel: Kernel, layout: Layout, chain: StepChain, is_fused: bool = False
) -> tuple[StepChain, tuple[Any, dict[str, jax.Array]]]:
    """Chain after a transition, and in warm-up adapted; its position, statistics by name.

    The position is flat, unless it has integers, which a vector of floating-point numbers rounds.
    If it is fused and the data are small, the step is one function of machine code: warm-up, which
    is a branch, keeps XLA from compiling the loop over transitions that way.
    """
    words = jnp.stack(threefry(chain.seed, chain.iteration))
    key = random.wrap_key_data(words, impl="threefry2x32")
    if is_fused and _num_bytes(kernel, chain.state) <= SMALL_LOOP_BYTES:
        state, info = _step_as_loop(kernel, key, chain.state, chain.iteration)
    else:
        state, info = kernel.step(key, chain.state)
    state, stats = jax.tree.map(jnp.asarray, (state, statistics_of(info, state)))
    state = adapt_in_warmup(kernel, state, info, chain.iteration, chain.num_warmup)
    new = chain._replace(iteration=chain.iteration + 1, state=state)
    position = layout.ravel(state.position) if layout.is_floating else state.position
    return new, (position, stats)


def adapt_in_warmup(
    kernel: Any, state: Any, info: Any, iteration: jax.Array, num_warmup: jax.Array
) -> Any:
    """State after a transition: in warm-up the adapted one, if the kernel has `adapt`."""
    if not hasattr(kernel, "adapt"):
        return state
    return lax.cond(
        iteration < num_warmup,
        lambda state: kernel.adapt(state, info, iteration, num_warmup),
        lambda state: state,
        jax.tree.map(jnp.asarray, state),
    )


def statistics_of(info: Any, state: Any) -> dict[str, Any]:
    """Statistics of a transition, sorted by name: fields of the info, and the log density.

    A field that is `None` is of a statistic that the kernel does not have.
    """
    stats = {name: x for name, x in info._asdict().items() if x is not None}
    if hasattr(state, "log_density"):
        stats["log_density"] = state.log_density
    return dict(sorted(stats.items()))


def check_protocol(kernel: Any, layout: Layout, state: Any) -> None:
    """Checks that `step` and `adapt` keep the protocol of :class:`Kernel`.

    Raises:
        TypeError: if `step` does not return a pair, the structure, shapes or dtypes of the state
            change, or the info is not a NamedTuple of scalars.
    """
    name = type(kernel).__name__
    after, info = shapes_of_step(kernel, state, "NamedTuple of scalars")
    check_form(kernel, "step", state, after)
    if not hasattr(info, "_asdict") or any(np.shape(x) for x in info):
        raise TypeError(f"the info of {name}.step must be a NamedTuple of scalars, got {info}")
    check_adapt(kernel, state, info)
    if Layout.of_numbers(state.position) != layout:
        raise TypeError(
            f"the position of {name} must stay as init has got it, {layout}, got {state.position}"
        )


def check_adapt(kernel: Any, state: Any, info: Any) -> None:
    """Checks that `adapt` keeps the form of a state, if the kernel has it.

    Raises:
        TypeError: if it does not.
    """
    if hasattr(kernel, "adapt"):
        number = jax.ShapeDtypeStruct((), np.int32)
        check_form(kernel, "adapt", state, shapes_of(_adapt, kernel, state, info, number, number))


def _adapt(kernel: Any, state: Any, info: Any, iteration: jax.Array, num_warmup: jax.Array) -> Any:
    return kernel.adapt(state, info, iteration, num_warmup)


def shapes_of_step(kernel: Any, state: Any, what: str) -> tuple[Any, Any]:
    """Shapes of the state and the info that `step` returns.

    Args:
        kernel: The kernel.
        state: Its state.
        what: Description of a valid info, for the message.

    Raises:
        TypeError: if `step` does not return a pair.
    """
    key = jax.eval_shape(lambda: random.key(0))
    found = shapes_of(_step, kernel, key, state)
    if hasattr(found, "_asdict") or not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"{type(kernel).__name__}.step must return a plain tuple of two, the next state and an "
            f"info (a {what}, which may be empty), got {found}"
        )
    return found


def _step(kernel: Any, key: jax.Array, state: Any) -> Any:
    return kernel.step(key, state)


def _step_as_loop(kernel: Any, key: jax.Array, state: Any, count: jax.Array) -> Any:
    """A step, see :func:`inference.runtime.xla.fuse_as_loop`."""
    # One trace gives the shapes of the info, and the body of the loop.
    step = jax.jit(lambda state: jax.tree.map(jnp.asarray, kernel.step(key, state)))
    _, info = jax.eval_shape(step, state)
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info)
    return fuse_as_loop(lambda carry: step(carry[0]), (state, empty), count)


def _num_bytes(*trees: Any) -> int:
    """Bytes of all arrays of some pytrees, with the data of a model in them."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(trees) if hasattr(x, "dtype"))


def check_form(kernel: Any, method: str, state: Any, new: Any) -> None:
    """Checks that a method of a kernel keeps the structure, shapes and dtypes of a state.

    Raises:
        TypeError: if it does not.
    """
    name = type(kernel).__name__
    before, after = (
        (jax.tree.structure(x), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(x)])
        for x in (state, new)
    )
    if before != after:
        raise TypeError(
            f"{name}.{method} must return a state like that of {name}.init: it has {after}, and "
            f"that of init {before}"
        )
