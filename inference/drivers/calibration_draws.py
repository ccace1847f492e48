"""Draws of results that calibration starts from, or ranks true values among, and their number."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.calibration.ranks import SPARING
from inference.common.argument_checks import check_count
from inference.common.leaf_names import named_leaves
from inference.drivers.calibration_models import Values, pick
from inference.results.diagnostics import rhat_and_ess_bulk
from inference.results.guide_result import GuideResult

NUM_SIMULATIONS = 1000  # by default
_FEWEST = 20  # draws of a fit with weights, resampled
_MOST = 100  # largest number of these draws


def flat_draws(result: Any, latent: Sequence[str]) -> Values:
    """Draws of the latent sites in a result, ``(draw, *shape)``, without weights.

    Raises:
        TypeError: if `result` has no draws.
    """
    if not isinstance(getattr(result, "draws", None), Mapping):
        raise TypeError(f"result must be a result with draws, such as of mcmc, got {result!r}")
    draws = result.draws
    if hasattr(result, "resample"):
        number = len(jax.tree.leaves(draws)[0][0])
        return pick(result.resample(jax.random.key(0), number), latent)

    def flat(x):
        return np.asarray(x).reshape(-1, *x.shape[2:])

    return jax.tree.map(flat, pick(draws, latent))


def choose_number(num: int | None, result: Any, latent: Sequence[str]) -> int:
    """Number of simulations: `num`, or the default; checked against the draws of a result.

    The ranks of simulations are as correlated as the draws that they start from, where new data say
    little. At half the effective sample size, they are distributed
    like independent ranks.

    Raises:
        TypeError: if `num` is not an integer.
        ValueError: if it is less than two, or `result` has draws for fewer simulations.
    """
    wanted = NUM_SIMULATIONS if num is None else check_count("num_simulations", num, least=2)
    if result is None:
        return wanted
    draws = pick(result.draws, latent)
    total = int(np.prod(np.shape(jax.tree.leaves(draws)[0])[:2]))
    ess, name = _least_ess(result, draws)
    most = int(min(total, ess / SPARING))
    if num is None and most >= 2:
        return min(wanted, most)
    if wanted > total:
        raise ValueError(
            f"num_simulations must be at most the {total} draws of the result, got {wanted}; each "
            "simulation takes another draw"
        )
    if wanted > max(most, 1):
        raise ValueError(
            f"num_simulations must be at most {most}, half the effective sample size of the "
            f"result, which is {ess:.0f}{name}, got {wanted}: with more, the simulations are too "
            "much alike, and a right fit may fail. Make more draws of the result, "
            "mcmc(..., num_draws=...), or fewer simulations"
        )
    return wanted


def _least_ess(result: Any, draws: Values) -> tuple[float, str]:
    """Smallest effective sample size, and where; infinite for independent draws."""
    if hasattr(result, "ess"):
        return float(result.ess), " by its weights"
    least = np.inf
    where = ""
    if isinstance(result, GuideResult):
        return least, where
    for name, x in named_leaves(draws):
        x = np.asarray(x)
        bulk = rhat_and_ess_bulk(x.reshape(*x.shape[:2], -1))[1]
        if not np.isnan(bulk).all() and np.nanmin(bulk) < least:
            least = float(np.nanmin(bulk))
            where = f" at site {name!r}"
    return least, where


def number_to_resample(ess: Any) -> int:
    """Number of draws to resample: the effective sample size, within limits."""
    return int(np.clip(np.nan_to_num(float(ess)), _FEWEST, _MOST))
