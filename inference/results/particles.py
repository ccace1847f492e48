"""Facts of runs with particle filters inside, and warnings where particles are too few."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

_VARIANCE = "log_likelihood_variance"
_MAX_VARIANCE = 3.0  # acceptance falls to 7 % of that with the likelihood (Sherlock et al., 2015)
_GOOD_VARIANCE = 1.5  # between 0.9 and 1.8 (Pitt et al., 2012; Doucet et al., 2015)


def describe_particles(stats: Mapping[str, np.ndarray]) -> list[str]:
    """Clause on the noise of estimated log likelihoods; none for other kernels than PMMH."""
    variance = _variance(stats)
    if variance is None:
        return []
    if math.isinf(variance):
        return ["some of the likelihoods estimated as 0"]
    return [f"log likelihoods estimated with a variance of {variance:.2g}"]


def particle_problems(stats: Mapping[str, np.ndarray]) -> Iterator[str]:
    """A warning where filters die, or estimates of the log likelihood vary much."""
    variance = _variance(stats)
    if variance is None or variance <= _MAX_VARIANCE:
        return
    if math.isinf(variance):
        yield (
            "filters die: at parameters that a chain had reached, some estimates of the likelihood "
            "are 0, as no particle explains the data of some step. Chains stick. Take 10 times as "
            "many particles, PMMH(num_particles=...), or an observed site with wider tails."
        )
        return
    factor = math.ceil(variance / _GOOD_VARIANCE)
    yield (
        f"estimates of the log likelihood have a variance of {variance:.2g}, above "
        f"{_MAX_VARIANCE:g}: chains stick where an estimate was too high. Take about {factor} "
        "times as many particles, PMMH(num_particles=...), or move the path by ParticleGibbs()."
    )


def _variance(stats: Mapping[str, np.ndarray]) -> float | None:
    """Mean over chains of the variance; `None` if it was not measured, infinite if filters died."""
    if _VARIANCE not in stats:
        return None
    values = np.asarray(stats[_VARIANCE], np.float64)[:, -1]
    return None if np.isnan(values).all() else float(np.nanmean(values))
