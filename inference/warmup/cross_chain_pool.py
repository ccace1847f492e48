"""Pooling across chains: one mass matrix learned from the draws of many chains in a warm-up window.

A single chain would need a window as long as the windows of all chains together.
"""

from collections.abc import Sequence

import numpy as np

MIN_CHAINS = 32  # chains; if fewer, each learns its own matrix, so that a stray one shows
# Limits of a pool, over all chains: draws, so that a variance is known to about 1 %, and numbers
# in these draws. Even beyond these limits, each chain gives at least `_MIN_DRAWS` draws.
_MAX_DRAWS = 1 << 14
_MAX_NUMBERS = 1 << 22
_MIN_DRAWS = 4
_MAX_DEVIATIONS = 4.0  # standard deviations of the log density between chains that agree
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution


def is_pooled(num_chains: int, kind: str, is_mapped: bool) -> bool:
    """Whether chains pool their draws to learn one mass matrix.

    They do if all of these hold:

    - there are at least 32 chains;
    - the matrix is learned in windows, whereas a diagonal is learned in each iteration;
    - chains can wait for each other, whereas chains mapped over by ``jax.vmap`` cannot.
    """
    return num_chains >= MIN_CHAINS and kind != "diagonal" and not is_mapped


def thin_windows(windows: Sequence[np.ndarray], num_chains: int) -> list[np.ndarray]:
    """Evenly spaced rows of each window, as few as suffice for one matrix.

    Args:
        windows: Rows of each chain of this process, ``(draw, number)``.
        num_chains: Number of chains of all processes; each gives the same number of rows.
    """
    num_draws, size = windows[0].shape
    most = max(_MIN_DRAWS, min(_MAX_DRAWS, _MAX_NUMBERS // size) // num_chains)
    kept = np.linspace(0, num_draws - 1, min(num_draws, most)).astype(int)
    return [window[kept] for window in windows]


def pool_windows(windows: np.ndarray, log_densities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pooled draws and gradients of the chains that agree, each centered at its chain's mean.

    A chain agrees if its mean log density is within four standard deviations of the median over
    chains. The standard deviation combines the spread within the median chain and the spread
    between chains. Other chains are still on their way to the typical set or in another mode, and
    would spoil the matrix for all.

    Args:
        windows: Draws and gradients, ``(chain, draw, 2, size)``.
        log_densities: Log densities of the draws, ``(chain, draw)``.

    Returns:
        The pool, ``(draw, 2, size)``, and flags of the chains that agree, ``(chain,)``.
    """
    is_finite = np.isfinite(windows).all((1, 2, 3)) & np.isfinite(log_densities).all(1)
    known = log_densities[is_finite].astype(np.float64)
    agrees = np.array(is_finite)
    agrees[is_finite] = _is_near(np.mean(known, 1), np.std(known, 1))
    kept = windows[agrees].astype(np.float64)
    kept -= np.mean(kept, 1, keepdims=True)
    return np.reshape(kept, (-1, *kept.shape[2:])), agrees


def _is_near(means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Flags of the chains that are near the median chain."""
    if not means.size:
        return np.zeros(0, bool)
    distances = np.abs(means - np.median(means))
    spread = np.hypot(np.median(deviations), _NORMAL * np.median(distances))
    return distances <= _MAX_DEVIATIONS * spread
