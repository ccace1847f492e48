"""WarmUp: what the warm-up of Hamiltonian chains did, window by window."""

import dataclasses
from typing import Any

import numpy as np

from ppl.harvest.pytrees import register_dataclass

MIN_ITERATIONS = 20  # of a warm-up that learns a matrix
MAX_SCALE_CHANGE = 3.0  # factor of a standard deviation in the last window that changed a matrix
# Factors between the step sizes after the last two windows. The last window of a diagonal also
# adapts to a higher target where transitions failed, which halves the step size at most.
MAX_STEP_CHANGE = 2.0
MAX_STEP_CHANGE_OF_DIAGONAL = 5.0


@register_dataclass
@dataclasses.dataclass(frozen=True)
class WarmUp:
    """Record of the warm-up of a run, by chain and window. A pytree.

    Windows divide warm-up. The mass matrix is fixed in the first and in the last one. A dense or
    low-rank matrix is renewed at the end of each window between them; a diagonal changes in each of
    their iterations.

    Attributes:
        step_size: Step size of the first iteration after each window, ``(chain, window)``; the last
            one is the step size of the draws.
        num_gradients: Gradients evaluated in each window, ``(chain, window)``. The first window
            includes the search for a first step size, not the search for a start.
        num_divergent: Divergent transitions of each window, ``(chain, window)``.
        condition: Condition number of the inverse mass matrix after each window, ``(chain,
            window)``: its largest eigenvalue over its smallest.
        scale_change: Factor by which the standard deviation of a coordinate has changed within each
            window, the largest over coordinates, ``(chain, window)``. Standard deviations are
            square roots of the diagonal of the inverse mass matrix.
        num_earlier_gradients: Gradients of the earlier part of warm-up that learned the coordinates
            of sites with ``ppl.LearnedCentering``, ``(chain,)``; 0 without such sites.
        window_ends: Iterations of warm-up at the end of each window, counted after the part that
            learned coordinates.
        mass_matrix: Kind of the mass matrix: ``"diagonal"``, ``"low_rank"`` or ``"dense"``; or
            ``"block"``, a dense one with blocks by group of sites.

    `condition` and `scale_change` are NaN where a matrix is not known, as within the warm-up of a
    diagonal on an accelerator.

    Example:
        >>> import jax
        >>> import ppl, distributions as dist, inference
        >>> model = lambda key: ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), 2), name="x")
        >>> warmup = inference.mcmc(jax.random.key(0), model, num_warmup=300).warmup
        >>> warmup.window_ends
        (20, 35, 65, 125, 250, 300)
        >>> warmup.step_size.shape, bool(warmup.is_settled.all())
        ((4, 6), True)
    """

    step_size: Any
    num_gradients: Any
    num_divergent: Any
    condition: Any
    scale_change: Any
    num_earlier_gradients: Any
    window_ends: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    mass_matrix: str = dataclasses.field(metadata={"static": True})

    @property
    def last_step_change(self) -> np.ndarray:
        """Factor between the step sizes after the last two windows, at least 1, ``(chain,)``."""
        return np.exp(np.ptp(np.log(np.asarray(self.step_size, np.float64)[:, -2:]), axis=1))

    @property
    def last_scale_change(self) -> np.ndarray:
        """Entry of `scale_change` of the last window that changed the matrix, ``(chain,)``."""
        return np.asarray(self.scale_change)[:, -2:].max(1)

    @property
    def is_step_settled(self) -> np.ndarray:
        """Whether the last window changed the step size by a factor of two at most, ``(chain,)``.

        With a diagonal mass matrix, it is a factor of five.
        """
        is_diagonal = self.mass_matrix == "diagonal"
        most = MAX_STEP_CHANGE_OF_DIAGONAL if is_diagonal else MAX_STEP_CHANGE
        return self.last_step_change <= most

    @property
    def is_matrix_settled(self) -> np.ndarray:
        """Whether `last_scale_change` is three at most, or unknown, ``(chain,)``."""
        return ~(self.last_scale_change > MAX_SCALE_CHANGE)

    @property
    def is_settled(self) -> np.ndarray:
        """Whether step size and matrix have settled in 20 iterations or more, ``(chain,)``."""
        is_long = self.window_ends[-1] >= MIN_ITERATIONS
        return self.is_step_settled & self.is_matrix_settled & is_long

    @property
    def divergent_share(self) -> np.ndarray:
        """Share of the transitions of warm-up that diverged, ``(chain,)``."""
        return np.sum(self.num_divergent, 1) / self.window_ends[-1]

    def __repr__(self) -> str:
        """A table with a row for each window: ranges over chains, sums of counts."""
        num_chains = len(self.step_size)
        starts = (0, *self.window_ends[:-1])
        rows = [("iterations", "step size", "gradients", "divergent", "condition", "scales")]
        for i, (start, end) in enumerate(zip(starts, self.window_ends, strict=True)):
            share = np.sum(self.num_divergent[:, i]) / (num_chains * (end - start))
            rows.append(
                (
                    f"{start}..{end}",
                    _range_in_words(self.step_size[:, i]),
                    str(np.sum(self.num_gradients[:, i])),
                    f"{share:.1%}",
                    _range_in_words(self.condition[:, i]),
                    f"x {np.max(self.scale_change[:, i]):.2g}",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(x.rjust(n) for x, n in zip(row, widths, strict=True)) for row in rows]
        kind = self.mass_matrix.replace("_", "-")
        lines.append(f"{num_chains} chains, {kind} mass matrix")
        if earlier := int(np.sum(self.num_earlier_gradients)):
            lines.append(f"{earlier} gradients before, to learn coordinates")
        return "\n".join(lines)


def _range_in_words(x: np.ndarray) -> str:
    low, high = (f"{bound:.3g}" for bound in (np.min(x), np.max(x)))
    return low if low == high else f"{low} to {high}"
