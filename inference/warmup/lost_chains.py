"""Chains that warm-up has lost: far below the others, they go on from where another chain is.

From some starts a chain does not arrive: where the density is too steep for any step size it
freezes, and where it is flat it slides away. Its draws would be none of the posterior, and it would
make the longest trajectories of all.
"""

import math
import warnings

import numpy as np

_MAX_DEVIATIONS = 10.0  # standard deviations of the log density between chains that agree
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution


def find_lost(log_densities: np.ndarray, size: int) -> np.ndarray:
    r"""Flags of the chains whose log density is far below the median chain's, ``(chain,)``.

    The limit is ten standard deviations. They combine the spread between chains, by the median
    absolute deviation, with the one of a normal density of `size` coordinates,
    :math:`\sqrt{\mathrm{size} / 2}`. So a minority is found, however far away it is. Where chains
    differ much in general, as in a funnel, none is lost.

    A chain in a mode of its own, with a mass of more than about ``exp(-10)``, is not lost unless
    its mode is far wider than the others' and by as much lower.

    Args:
        log_densities: Log density of each chain after the same number of iterations, ``(chain,)``.
        size: Number of coordinates.
    """
    values = np.where(np.isfinite(log_densities), log_densities, -np.finfo(np.float64).max)
    with np.errstate(over="ignore"):
        below = np.median(values) - values.astype(np.float64)
        spread = math.hypot(math.sqrt(size / 2), _NORMAL * float(np.median(np.abs(below))))
    return below > _MAX_DEVIATIONS * spread


def choose_successors(is_lost: np.ndarray) -> np.ndarray:
    """Number of the chain from where each chain goes on, ``(chain,)``: its own unless it is lost.

    The others take in the lost ones in turn.
    """
    successors, found = np.arange(len(is_lost)), np.flatnonzero(~is_lost)
    lost = np.flatnonzero(is_lost)
    successors[lost] = found[np.arange(len(lost)) % len(found)]
    return successors


def warn_of_lost(log_densities: np.ndarray, is_lost: np.ndarray, iteration: int) -> None:
    """Says which chains were lost, and what became of them."""
    numbers = np.flatnonzero(is_lost)
    noun, verb = ("chain", "was") if len(numbers) == 1 else ("chains", "were")
    warnings.warn(
        f"{noun} {', '.join(map(str, numbers))} {verb} far from the others after {iteration} "
        f"iterations of warm-up (log density {np.min(log_densities[numbers]):.4g}, others "
        f"{np.median(log_densities):.4g}), and went on from where another chain was. Look whether "
        "parts of the prior, or the starts, allow values that are absurd; init='prior' or values "
        "that you know start elsewhere.",
        RuntimeWarning,
        stacklevel=5,
    )
