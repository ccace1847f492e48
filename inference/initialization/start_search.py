"""Search for the starting points of chains: the best of ten, where the log density is finite."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from inference.common.layout import Layout
from inference.common.target import Target
from inference.initialization.initial_positions import MAX_ATTEMPTS, NUM_CANDIDATES, Init
from inference.initialization.not_finite import start_failure


class StartingPoints(NamedTuple):
    """Starting points that chains have tried, with the chains in front.

    Attributes:
        position: Flat positions, ``(chain, size)``.
        log_density: Log densities, ``(chain,)``.
        gradient: Gradients, ``(chain, size)``; `None` if only the log density is to be finite.
    """

    position: np.ndarray
    log_density: np.ndarray
    gradient: np.ndarray | None = None

    @property
    def is_finite(self) -> np.ndarray:
        """Flags of the chains that can start there."""
        is_finite = np.isfinite(self.log_density)
        return is_finite if self.gradient is None else is_finite & _rows_finite(self.gradient)


def _rows_finite(gradient: np.ndarray) -> np.ndarray:
    return np.all(np.isfinite(gradient), -1)


def find_starts(
    evaluate: Callable[[np.ndarray], StartingPoints],
    init: Init,
    chains: np.ndarray,
    target: Target,
    layout: Layout,
) -> np.ndarray:
    """Number of the attempt at which each chain starts, ``(chain,)``.

    | Initial positions     | Start                                                              |
    |-----------------------|--------------------------------------------------------------------|
    | uniform               | the point of highest log density among the first ten, or the first |
    |                       | finite point after them; those come nearer to 0                    |
    | all others            | the first finite point                                             |

    A posterior is small in the cube of uniform points, and outside of it a density may be too steep
    for any step size. Ten points find a better place, at the cost of ten evaluations; they still
    spread over all modes of similar height.

    Args:
        evaluate: Function from the number of the attempt of each chain to points. It is called
            last with the numbers that are returned.
        init: Initial positions.
        chains: Number of each chain, for the message.
        target: Target with the sites, for the message.
        layout: Layout of positions.

    Raises:
        ValueError: if a chain finds no finite point.
    """
    num_candidates = NUM_CANDIDATES if init.strategy == "uniform" else 1
    chosen, best = np.zeros(len(chains), np.int32), np.full(len(chains), -np.inf)
    last = np.zeros((0, layout.size))
    for attempt in range(MAX_ATTEMPTS):
        points = evaluate(np.full(len(chains), attempt, np.int32))
        is_open = (attempt < num_candidates) | (best == -np.inf)
        is_better = points.is_finite & (points.log_density > best) & is_open
        chosen = np.where(is_better, attempt, chosen).astype(np.int32)
        best = np.where(is_better, points.log_density, best)
        is_same = np.array_equal(last, points.position)
        last = points.position
        if is_same or (attempt + 1 >= num_candidates and np.all(best > -np.inf)):
            break
    if not np.all(best > -np.inf):
        worst = int(np.argmin(best))
        gradient = None if points.gradient is None else points.gradient[worst]
        here = points.position[worst], points.log_density[worst], gradient
        number = attempt + 1 - is_same
        raise ValueError(start_failure(target, layout, int(chains[worst]), number, *here))
    if np.any(chosen != attempt):
        evaluate(chosen)
    return chosen
