"""Lost chains: if its log density is far below the others', a chain goes on from another's state.

From some starts a chain does not reach the typical set: where the density is too steep for any step
size the chain freezes, and where the density is flat the chain drifts away. Its draws would not be
draws of the posterior, and its trajectories would be the longest of all.
"""

import warnings

import numpy as np


def choose_successors(is_lost: np.ndarray) -> np.ndarray:
    """For each chain, the number of the chain whose state it takes, ``(chain,)``.

    A chain that is not lost keeps its own state. The lost chains are spread evenly over the others.
    """
    successors = np.arange(len(is_lost))
    found = np.flatnonzero(~is_lost)
    lost = np.flatnonzero(is_lost)
    successors[lost] = found[np.arange(len(lost)) % len(found)]
    return successors


def warn_of_lost(log_densities: np.ndarray, is_lost: np.ndarray, iteration: int) -> None:
    """Warns, with their numbers, that chains were lost and went on from the states of others."""
    numbers = np.flatnonzero(is_lost)
    noun, verb = ("chain", "was") if len(numbers) == 1 else ("chains", "were")
    warnings.warn(
        f"{noun} {', '.join(map(str, numbers))} {verb} far from the others after {iteration} "
        f"iterations of warm-up (log density {np.min(log_densities[numbers]):.4g}, others "
        f"{np.median(log_densities):.4g}), and went on from where another chain was. Look whether "
        "parts of the prior, or the starts, allow values that are absurd; init='prior' or values "
        "that you know start elsewhere.",
        RuntimeWarning,
        stacklevel=6,
    )
