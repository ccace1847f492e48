"""Log of the warm-up of some chains, kept on the host from rows that the chains have stored."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.common.matrices import LowRankMatrix, Matrix
from inference.common.state_leaves import State, leaves_of_state, restore_leaves
from inference.common.warm_up import WarmUp

_NUM_PRODUCTS = 100  # of a low-rank matrix with a vector, which find an extreme eigenvalue
_NAME = "warm_up"  # of the entries of a recorded state
_NEEDED = {"is_divergent", "num_steps", "step_size"}  # statistics of each transition


class WarmUpLog:
    """Log of the warm-up of the chains of a batch.

    Attributes:
        window_ends: Iterations at the end of each window.
        is_kept: Whether all iterations so far are in the log. They are not after a state without a
            log, nor without the statistics that it needs.
        step_size, num_gradients, num_divergent, condition, scale_change: As in
            :class:`inference.common.warm_up.WarmUp`, for the windows that have ended.
        scales: Standard deviations in the last matrix that was noted, ``(chain, size)``.
    """

    def __init__(
        self, num_chains: int, size: int, window_ends: tuple[int, ...], kinds: Mapping[str, Any]
    ) -> None:
        shape = num_chains, len(window_ends)
        self.window_ends = window_ends
        self.is_kept = len(window_ends) > 0 and kinds.keys() >= _NEEDED
        self.step_size = np.full(shape, np.nan)
        self.num_gradients = np.zeros(shape, np.int64)
        self.num_divergent = np.zeros(shape, np.int64)
        self.condition = np.full(shape, np.nan)
        self.scale_change = np.full(shape, np.nan)
        self.scales = np.full((num_chains, size), np.nan)

    def count(
        self,
        first: np.ndarray,
        num_rows: np.ndarray,
        stats: Mapping[str, np.ndarray],
        num_before: np.ndarray,
    ) -> None:
        """Counts the transitions in rows.

        Args:
            first: Iteration of the first row, of each chain.
            num_rows: Number of rows of each chain.
            stats: Statistics in the rows by name, ``(chain, row)``.
            num_before: Gradients of each chain before its first transition.
        """
        place = np.arange(num_rows.max())
        iteration = np.where(place < num_rows[:, None], first[:, None] + place, -1)
        step_size, num_steps, is_divergent = (
            stats[name][:, : len(place)] for name in ("step_size", "num_steps", "is_divergent")
        )
        self.num_gradients[:, 0] += np.where((iteration == 0).any(1), num_before, 0)
        start = 0
        for window, end in enumerate(self.window_ends):
            is_here = (iteration >= start) & (iteration < end)
            self.num_gradients[:, window] += np.where(is_here, num_steps, 0).astype(np.int64).sum(1)
            self.num_divergent[:, window] += (is_here & (is_divergent != 0)).sum(1)
            chain, row = np.nonzero(iteration == end)
            self.step_size[chain, window] = step_size[chain, row]
            start = end

    def note_matrices(self, windows: np.ndarray, matrices: Matrix, which: np.ndarray) -> None:
        """Notes the inverse mass matrices of the chains in `which`, each after a window.

        Args:
            windows: Number of the window of each chain.
            matrices: Matrices, of NumPy, with the chains in front.
            which: Flags of the chains.
        """
        known: dict[bytes, tuple[float, np.ndarray]] = {}  # chains may share a matrix
        for chain in np.flatnonzero(which):
            matrix = jax.tree.map(lambda x, i=chain: x[i], matrices)
            content = b"".join(x.tobytes() for x in jax.tree.leaves(matrix))
            if content not in known:
                known[content] = condition_number(matrix), _scales(matrix)
            window = windows[chain]
            self.condition[chain, window], scales = known[content]
            change = np.abs(np.log(scales / self.scales[chain]))
            self.scale_change[chain, window] = np.exp(np.fmax.reduce(change, initial=0.0))
            self.scales[chain] = scales

    def state(self) -> list[np.ndarray]:
        """Arrays of the log, chains in front."""
        counts = [self.step_size, self.num_gradients, self.num_divergent]
        return [*counts, self.condition, self.scale_change, self.scales]


def join_logs(logs: Sequence[WarmUpLog], kind: str) -> WarmUp | None:
    """The warm-up of the chains of several batches, or `None` if it is not known.

    Args:
        logs: Logs of the batches, at the end of warm-up.
        kind: Kind of the mass matrix.
    """
    if not all(log.is_kept for log in logs):
        return None
    parts = zip(*[log.state() for log in logs], strict=True)
    *arrays, _ = (np.concatenate(part) for part in parts)
    return WarmUp(
        *arrays,
        num_earlier_gradients=np.zeros(len(arrays[0]), np.int64),
        window_ends=logs[0].window_ends,
        mass_matrix=kind,
    )


def state_of_logs(logs: Sequence[WarmUpLog]) -> State:
    """Entries of a recorded state with the logs of all batches; none if they are not known."""
    if not all(log.is_kept for log in logs):
        return {}
    parts = zip(*[log.state() for log in logs], strict=True)
    return leaves_of_state(_NAME, [np.concatenate(part) for part in parts])


def restore_logs(logs: Sequence[WarmUpLog], state: State) -> None:
    """Fills the logs of all batches from a recorded state.

    Raises:
        ValueError: if the state does not fit the logs.
    """
    if f"{_NAME}.0" not in state:
        for log in logs:
            log.is_kept = False
        return
    parts = zip(*[log.state() for log in logs], strict=True)
    arrays = restore_leaves(_NAME, state, [np.concatenate(part) for part in parts])
    place = 0
    for log in logs:
        for mine, whole in zip(log.state(), arrays, strict=True):
            mine[...] = whole[place : place + len(mine)]
        place += len(log.step_size)


def condition_number(matrix: Matrix) -> float:
    """Largest eigenvalue of a positive definite matrix over its smallest; in NumPy.

    The extreme eigenvalues of a low-rank matrix are found by power iteration, whose Rayleigh
    quotients make the ratio too small, if anything.
    """
    if isinstance(matrix, LowRankMatrix):
        matrix = jax.tree.map(np.float64, matrix)
        inverse = LowRankMatrix(1 / matrix.scale, matrix.vectors, 1 / matrix.values)
        return _largest_eigenvalue(matrix) * _largest_eigenvalue(inverse)
    matrix = np.asarray(matrix, np.float64)
    values = matrix if matrix.ndim == 1 else np.linalg.eigvalsh(matrix)
    return float(values.max() / values.min()) if values.size else 1.0


def _largest_eigenvalue(matrix: LowRankMatrix) -> float:
    """Rayleigh quotient after a fixed number of power iterations from a random vector."""
    x = np.random.default_rng(0).normal(size=matrix.scale.size)
    eigenvalue = 0.0
    for _ in range(_NUM_PRODUCTS):
        x = x / np.linalg.norm(x)
        product = matrix.scale * np.asarray(matrix.stretch(matrix.scale * x))
        eigenvalue = float(x @ product)
        x = product
    return eigenvalue


def _scales(matrix: Matrix) -> np.ndarray:
    """Square roots of the diagonal of a matrix, in double precision."""
    if isinstance(matrix, LowRankMatrix):
        return np.sqrt(np.asarray(matrix.diagonal(), np.float64))
    matrix = np.asarray(matrix, np.float64)
    return np.sqrt(matrix if matrix.ndim == 1 else np.diag(matrix))
