"""What many chains have drawn in a window of warm-up, put together to learn one mass matrix from.

Each chain alone would need as long a window for the same matrix as all of them have draws together.
"""

from collections.abc import Sequence

import numpy as np

MIN_CHAINS = 32  # fewer learn each on its own, which tells more where one of them goes astray
# Of all chains: a variance is then known to about a hundredth. And the least of each.
_MAX_DRAWS, _MAX_NUMBERS, _MIN_DRAWS = 1 << 14, 1 << 22, 4
_MAX_DEVIATIONS = 4.0
_NORMAL = 1.4826  # the standard deviation over the median absolute one, of a normal distribution


def is_pooled(num_chains: int, kind: str, is_mapped: bool) -> bool:
    """Whether chains learn from the draws of all: a matrix, and where chains can wait for others.

    Those that are mapped over cannot; a diagonal is learnt in each iteration.
    """
    return num_chains >= MIN_CHAINS and kind != "diagonal" and not is_mapped


def thin_windows(windows: Sequence[np.ndarray], num_chains: int) -> list[np.ndarray]:
    """Rows of some chains, each ``(draw, number)``, evenly spaced and as few as are enough.

    All chains, of which there are `num_chains`, have as many.
    """
    num_draws, size = windows[0].shape
    most = max(_MIN_DRAWS, min(_MAX_DRAWS, _MAX_NUMBERS // size) // num_chains)
    kept = np.linspace(0, num_draws - 1, min(num_draws, most)).astype(int)
    return [window[kept] for window in windows]


def pool_windows(windows: np.ndarray, log_densities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws and gradients of the chains that agree, each around its chain's mean; and which do.

    Chains agree whose mean log densities do, to within four of the standard deviations that the
    median chain has: those that are on their way, or in a mode apart, would spoil the matrix for
    all.

    Args:
        windows: Draws and gradients, ``(chain, draw, 2, size)``.
        log_densities: Of the draws, ``(chain, draw)``.

    Returns:
        Those of all chains that agree, ``(draw, 2, size)``, and flags ``(chain,)``.
    """
    is_finite = np.isfinite(windows).all((1, 2, 3)) & np.isfinite(log_densities).all(1)
    known = log_densities[is_finite].astype(np.float64)
    agrees = np.array(is_finite)
    agrees[is_finite] = _is_near(np.mean(known, 1), np.std(known, 1))
    kept = windows[agrees].astype(np.float64)
    kept -= np.mean(kept, 1, keepdims=True)
    return np.reshape(kept, (-1, *kept.shape[2:])), agrees


def _is_near(means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Which chains are near to the median one."""
    if not means.size:
        return np.zeros(0, bool)
    distances = np.abs(means - np.median(means))
    spread = np.hypot(np.median(deviations), _NORMAL * np.median(distances))
    return distances <= _MAX_DEVIATIONS * spread
