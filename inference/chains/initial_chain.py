"""Chains before their first step: made with a mass matrix and a step size, then placed."""

from contextlib import suppress
from typing import Any

import jax
import numpy as np

from inference.chains.chain import Chain, empty_chain
from inference.common.layout import Layout
from inference.common.matrices import (
    Matrix,
    check_mass_matrix,
    check_positive,
    expand_diagonal,
    factorize,
    kind_of,
)
from inference.kernels.hamiltonian.kernel import HamiltonianKernel


def make_unplaced_chain(kernel: HamiltonianKernel, layout: Layout, kind: str, tune: bool) -> Chain:
    """Chain without a position, with the kernel's step size and a mass matrix of a kind.

    Args:
        kernel: The kernel, which may have an inverse mass matrix.
        layout: Layout of a position.
        kind: ``"diagonal"``, ``"low_rank"`` or ``"dense"``; a diagonal of the kernel is expanded.
        tune: Whether the chain is to search for a first step size.

    Raises:
        TypeError: if a setting of the kernel is not a real number.
        ValueError: if the kernel's matrix is of another kind, or is not finite and positive
            definite, or a setting of the kernel is out of range.
    """
    step_size = np.asarray(kernel.check(layout))
    metric = np.ones(layout.size, layout.dtype)
    if kernel.inverse_mass_matrix is not None:
        matrix = check_mass_matrix(kernel.inverse_mass_matrix, layout)
        metric = jax.tree.map(np.asarray, matrix)
    if kind_of(metric) == "diagonal":
        metric = expand_diagonal(metric, kind)
    elif kind_of(metric) != kind:
        raise ValueError(
            f"the kernel's inverse_mass_matrix is of the kind {kind_of(metric)!r}, but "
            f"mass_matrix={kind!r}; pass mass_matrix={kind_of(metric)!r}, or a vector"
        )
    chain = empty_chain(kernel, layout, metric)
    progress = chain.progress
    search = progress.search._replace(step_size=step_size, is_done=np.bool_(not tune))
    adaptation = progress.adaptation._replace(
        inverse_mass_matrix=metric, inverse_mass_factor=_factorize_checked(metric)
    )
    return chain._replace(progress=progress._replace(search=search, adaptation=adaptation))


def _factorize_checked(metric: Matrix) -> Matrix:
    factor: Any = np.array(np.nan)
    with suppress(np.linalg.LinAlgError), np.errstate(invalid="ignore"):
        factor = factorize(metric, np)
    check_positive(factor, metric)
    return factor


def place_chains(chain: Chain, seeds: np.ndarray, positions: np.ndarray) -> Chain:
    """Copies of `chain`, stacked, each with its own seed and position."""
    chains = jax.tree.map(lambda x: np.repeat(x[None], len(seeds), 0), chain)
    trajectory = chains.trajectory._replace(position=positions)
    return chains._replace(seed=seeds, trajectory=trajectory)
