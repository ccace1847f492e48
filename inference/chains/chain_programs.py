"""Compiled programs of chains: one that moves them, and one that reads values off their rows."""

from typing import Any

import jax
from jax import lax

from inference.chains.chain import Chain, ChainPlan, advance_chain
from inference.common.layout import Layout
from inference.common.matrices import num_bytes
from inference.common.target import Target
from inference.hamiltonian.kernel import HamiltonianKernel
from inference.runtime.compiled_program import SMALL_LOOP_BYTES, compile_once
from inference.runtime.devices import Share

_MAX_LOOP_BYTES = 1 << 22
_VECTORS_OF_STEP = 1024
_ROWS_AT_ONCE = 1024


def compile_advance(chains: Chain, *arguments: Any, share: Share | None = None) -> Any:
    """A program of :func:`advance_chains`, which takes the memory of the chains and their rows."""
    return compile_once(
        advance_chains,
        chains,
        *arguments,
        share=share,
        donate=("chains", "rows"),
        sharded=("chains", "rows", "first"),
        loop_bytes=_loop_bytes(chains),
    )


def compile_values(*arguments: Any, share: Share) -> Any:
    """A program of :func:`constrain_rows`, or on an accelerator of :func:`constrain_rows_mapped`."""
    of_rows = constrain_rows_mapped if share.is_mapped else constrain_rows
    return compile_once(of_rows, *arguments, share=share, sharded=("rows",))


def _loop_bytes(chains: Chain) -> int:
    """Memory that a loop may touch that is to become one kernel.

    A step touches up to a thousand vectors of coordinates, and the mass matrix four times. More
    than some MiB gain nothing: there the vectors themselves take longest.
    """
    progress = chains.progress
    of_all = progress.state.position, progress.adaptation.inverse_mass_factor
    vector, factor = jax.tree.map(_of_one_chain, of_all)
    of_vectors = _VECTORS_OF_STEP * vector.size * vector.dtype.itemsize
    return min(max(SMALL_LOOP_BYTES, of_vectors) + 4 * num_bytes(factor), _MAX_LOOP_BYTES)


def _of_one_chain(x: Any) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(x)
    return jax.ShapeDtypeStruct(kind.shape[1:], kind.dtype)


def advance_chains(
    chains: Chain,
    rows: jax.Array,
    first: jax.Array,
    budget: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    plan: ChainPlan,
    layout: Layout,
) -> tuple[Chain, jax.Array, jax.Array]:
    """Chains moved, their rows, and the gradients that each has spent."""

    def one(state: tuple[Chain, jax.Array, jax.Array]) -> Any:
        return advance_chain(kernel, target, layout, plan, *state, budget)

    state = chains, rows, first
    if kernel.axis_name is not None:
        moved = jax.vmap(one, axis_name=kernel.axis_name)(state)
    elif len(first) == 1:
        moved = jax.tree.map(lambda x: x[None], one(jax.tree.map(lambda x: x[0], state)))
    else:
        moved = lax.map(one, state)
    return moved


def constrain_rows(target: Target, layout: Layout, rows: jax.Array) -> dict[str, Any]:
    """Values of the sites that rows ``(chain, row, number)`` hold, without the last row.

    Row by row: a model may need far more memory on the way than its values do.
    """
    return _constrain_rows(target, layout, rows, None)


def constrain_rows_mapped(target: Target, layout: Layout, rows: jax.Array) -> dict[str, Any]:
    """Values of the sites that rows hold, many rows at once, as an accelerator needs them."""
    return _constrain_rows(target, layout, rows, max(1, _ROWS_AT_ONCE // len(rows)))


def _constrain_rows(
    target: Target, layout: Layout, rows: jax.Array, at_once: int | None
) -> dict[str, Any]:
    constrain = lambda row: target.constrain(layout.unravel(row[: layout.size]))  # noqa: E731
    return jax.vmap(lambda rows: lax.map(constrain, rows, batch_size=at_once))(rows[:, :-1])
