"""Compiled programs of chains: one moves chains, the other computes values of sites from rows."""

from typing import Any

import jax
from jax import lax

from inference.chains.chain import Chain, ChainPlan, advance_chain
from inference.chains.mapped_chain import advance_mapped_chain
from inference.chains.recorder import KeptSites
from inference.common.layout import Layout
from inference.common.matrices import num_bytes
from inference.common.target import Target
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.runtime.compiled_program import SMALL_LOOP_BYTES, compile_once
from inference.runtime.devices import Share

_MAX_LOOP_BYTES = 1 << 22  # bytes
_VECTORS_OF_STEP = 1024  # vectors of coordinates that a step touches
_ROWS_AT_ONCE = 1024  # rows of all chains, constrained at once on an accelerator


def compile_advance(chains: Chain, *arguments: Any, share: Share | None = None) -> Any:
    """Compiled :func:`advance_chains`; calls take over the memory of chains and rows (donation)."""
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
    """Compiled :func:`constrain_rows`, or :func:`constrain_rows_mapped` on an accelerator."""
    of_rows = constrain_rows_mapped if share.is_mapped else constrain_rows
    return compile_once(of_rows, *arguments, share=share, sharded=("rows",))


def _loop_bytes(chains: Chain) -> int:
    """Maximum number of bytes that a loop may touch to be compiled into one kernel.

    A step touches up to a thousand vectors of coordinates, and the mass matrix four times. More
    than a few MiB gain nothing: work on vectors of that length takes most of the time anyway.
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
    """Chains after a call, their rows, and the number of gradients that each chain has spent.

    A call is one of :func:`advance_chain` for each chain, or of :func:`advance_mapped_chain` for
    all chains of an accelerator.
    """
    is_mapped = kernel.axis_name is not None
    advance = advance_mapped_chain if is_mapped else advance_chain

    def one(state: tuple[Chain, jax.Array, jax.Array]) -> Any:
        return advance(kernel, target, layout, plan, *state, budget)

    state = chains, rows, first
    if is_mapped:
        moved = jax.vmap(one, axis_name=kernel.axis_name)(state)
    elif len(first) == 1:
        moved = jax.tree.map(lambda x: x[None], one(jax.tree.map(lambda x: x[0], state)))
    else:
        moved = lax.map(one, state)
    return moved


def constrain_rows(target: KeptSites, layout: Layout, rows: Any) -> dict[str, Any]:
    """Values of sites from rows ``(chain, row, number)``, without the last row, one row at a time.

    Rows of positions with integers are positions, ``(chain, row, ...)``.

    Intermediate values of a model may need far more memory than the values of its sites.
    """
    return _constrain_rows(target, layout, rows, None)


def constrain_rows_mapped(target: KeptSites, layout: Layout, rows: Any) -> dict[str, Any]:
    """Values of sites from rows, as :func:`constrain_rows`, many rows at once for accelerators."""
    num_chains = len(jax.tree.leaves(rows)[0])
    return _constrain_rows(target, layout, rows, max(1, _ROWS_AT_ONCE // num_chains))


def _constrain_rows(
    target: KeptSites, layout: Layout, rows: Any, at_once: int | None
) -> dict[str, Any]:
    def constrain(row):
        position = layout.unravel(row[: layout.size]) if layout.is_floating else row
        return target.constrain(position)

    rows = jax.tree.map(lambda x: x[:, :-1], rows)
    return jax.vmap(lambda rows: lax.map(constrain, rows, batch_size=at_once))(rows)
