r"""Steps along a path of densities, by effective sample sizes of weights.

Densities of a path are a reference times terms to powers, :math:`p_0 \prod_k L_k^{w_k}`. The powers
rise from 0 to 1, one term after the other: with a single term, the likelihood, this is tempering;
with a term for each batch of rows, data come batch by batch.

References:
    Chopin (2002), A sequential particle filter method for static models, Biometrika 89; Del Moral,
    Doucet and Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68; Jasra, Stephens, Doucet and
    Tsagaris (2011), on temperatures by effective sample sizes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_SMALLEST_STEP = -160.0  # log of the smallest power, relative to what is left of a term
_NUM_HALVINGS = 100
_MAX_LAG = 50  # steps over which families are followed
_MIN_FAMILIES = 10  # with fewer, sums of families are too few for a spread


class Place(NamedTuple):
    """Place on a path of `num_terms` terms.

    Attributes:
        whole: Number of terms with the power 1.
        part: Power of the next term, from 0 to less than 1.
    """

    whole: int
    part: float

    def powers(self, num_terms: int) -> np.ndarray:
        """Powers of the terms, ``(term,)``."""
        powers = (np.arange(num_terms) < self.whole).astype(np.float64)
        if self.part:
            powers[self.whole] = self.part
        return powers


def log_weights(terms: np.ndarray, before: Place, after: Place) -> np.ndarray:
    """Log weights of particles, ``(particle,)`` in float64, from one place to a later one.

    A term that is NaN or infinite has no density.

    Args:
        terms: Log terms, ``(particle, term)``.
        before: Place on the path that the particles represent.
        after: Place that the weighted particles represent.
    """
    first, last = before.whole, min(after.whole + 1, terms.shape[1])
    number = terms.shape[1]
    steps = (after.powers(number) - before.powers(number))[first:last]
    some = np.asarray(terms[:, first:last], np.float64)
    is_valid = np.isfinite(some)
    found = np.where(is_valid, some, 0) @ steps
    has_density = (is_valid | (steps == 0)).all(1)
    return np.where(has_density, found, -np.inf)


def effective_share(found: np.ndarray) -> float:
    """Effective sample size of log weights, over the number of particles with weight."""
    positive = found[found > -np.inf]
    if not positive.size:
        return 0.0
    weights = np.exp(positive - positive.max())
    return float(weights.sum() ** 2 / (weights**2).sum() / positive.size)


def log_mean_weight(found: np.ndarray) -> float:
    """Logarithm of the mean of weights, given their logarithms."""
    highest = found.max()
    if highest == -np.inf:
        return -math.inf
    return float(highest + np.log(np.exp(found - highest).mean()))


def influences(found: np.ndarray, num_chains: int) -> np.ndarray:
    """Parts of chains in the error of :func:`log_mean_weight`, ``(chain,)``, which sum to 0.

    Args:
        found: Log weights, ``(particle,)``, chain by chain.
        num_chains: Number of chains.
    """
    means = np.exp(found - found.max()).reshape(num_chains, -1).mean(1)
    return (means / means.mean() - 1) / num_chains


def effective_number(parts: np.ndarray) -> float:
    """Effective number of the chains that an error comes from, given their parts in it.

    It is the ratio of squared second and fourth moments: 1 if a single chain makes it all, a third
    of the number of chains if parts are normal.
    """
    squares = parts**2
    fourth = np.sum(squares**2)
    return float(np.sum(squares) ** 2 / fourth) if fourth > 0 else float(len(parts))


def evidence_variance(parts: Sequence[np.ndarray], parents: Sequence[np.ndarray]) -> float:
    """Estimated variance of a sum of log mean weights, over the steps of a path.

    It is by the spread of the sums of families, the descendants of one chain: it counts the
    correlation within chains, and what descends from their starts, as the mode that they are in.

    Args:
        parts: Influences of the chains before each step.
        parents: Number of the chain before, ``(chain,)``, of each of these chains.

    References:
        Dau and Chopin (2022), Waste-free sequential Monte Carlo, section 4; Lee and Whiteley
        (2018), Variance estimation in the particle filter, Biometrika 105.
    """
    alone = 0.0
    together = 0.0
    for first, part in enumerate(parts):
        families = parents[first]
        sums = np.bincount(families, part)
        size = len(np.unique(families))
        variance = np.sum(sums**2) * (size / (size - 1) if size > 1 else math.nan)
        alone += variance
        together += variance
        for later in range(first + 1, min(first + _MAX_LAG, len(parts))):
            families = families[parents[later]]
            if len(np.unique(families)) < _MIN_FAMILIES:
                break
            together += 2 * sums @ np.bincount(families, parts[later], minlength=len(sums))
    return float(np.maximum(alone, together))


def next_place(terms: np.ndarray, place: Place, share: float, dtype: np.dtype) -> Place:
    """Furthest place whose weights keep a share of the effective sample size, in one step.

    Whole terms come first. Where the next term alone is too much, its power is found by halving
    intervals of its logarithm: for vague priors, first powers are far below 0.001. Particles at
    which a term is 0 do not count.

    Args:
        terms: Log terms, ``(particle, term)``.
        place: Place that the particles represent.
        share: Share of the effective sample size to keep, between 0 and 1.
        dtype: Dtype that powers are rounded to.

    Raises:
        ValueError: if no power is small enough for the dtype.
    """
    number = terms.shape[1]
    reached = place
    while reached.whole < number:
        whole = Place(reached.whole + 1, 0.0)
        if effective_share(log_weights(terms, place, whole)) < share:
            break
        reached = whole
    if reached.whole == number:
        return reached
    low = _SMALLEST_STEP
    high = 0.0
    left = 1 - reached.part
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        candidate = Place(reached.whole, reached.part + left * math.exp(middle))
        keeps = effective_share(log_weights(terms, place, candidate)) >= share
        low, high = (middle, high) if keeps else (low, middle)
    part = float(np.asarray(reached.part + left * math.exp(low), dtype))
    found = Place(reached.whole + 1, 0.0) if part >= 1 else Place(reached.whole, part)
    if found == place:
        raise ValueError(
            f"smc: at temperature {place.part:.6g}, log likelihoods of particles differ so much "
            f"that no next temperature in {np.dtype(dtype)} keeps {share:.0%} of the "
            "effective sample size. Set jax_enable_x64."
        )
    return found
