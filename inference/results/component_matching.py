"""Components of mixtures matched across draws: every draw permuted to agree with all others."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inference.results.rank_scores import Array

Permutations = NDArray[np.intp]
_MAX_ROUNDS = 100
_MIN_VARIANCE = 1e-8  # of a component, over the variance of all components together


def as_components(draws: Array, axis: int) -> Array:
    """Draws ``(draw, component, feature)`` of a site.

    Args:
        draws: ``(chain, draw, *shape)``.
        axis: Axis of `shape` along which the components are.
    """
    moved = np.moveaxis(draws, 2 + axis, 2)
    num_chains, num_draws, num_components = moved.shape[:3]
    return moved.reshape(num_chains * num_draws, num_components, -1)


def permute(draws: Array, axis: int, permutations: Permutations) -> Array:
    """Draws of a site with the components of each draw permuted; see `match_components`.

    Args:
        draws: ``(chain, draw, *shape)``.
        axis: Axis of `shape` along which the components are.
        permutations: ``(draw of all chains, component)``.
    """
    shape = [1] * draws.ndim
    shape[:2] = draws.shape[:2]
    shape[2 + axis] = draws.shape[2 + axis]
    return np.take_along_axis(draws, permutations.reshape(shape), 2 + axis)


def renumber(draws: Array, permutations: Permutations) -> Array:
    """Draws of a site whose values are numbers of components, with those that these get.

    Args:
        draws: Integers ``(chain, draw, *shape)`` from 0, or booleans.
        permutations: ``(draw of all chains, component)``, as for `permute`.
    """
    numbers = np.argsort(permutations, 1).astype(draws.dtype)
    flat = draws.reshape(len(permutations), -1).astype(np.intp)
    return np.take_along_axis(numbers, flat, 1).reshape(draws.shape)


def are_numbers(draws: Array, num_components: int) -> bool:
    """Whether draws of a site are integers that may be numbers of components."""
    if draws.dtype == bool:
        return num_components == 2
    is_integer = np.issubdtype(draws.dtype, np.integer)
    return bool(is_integer and np.all((draws >= 0) & (draws < num_components)))


def match_components(
    features: Array, pivots: Iterable[int], max_rounds: int = _MAX_ROUNDS
) -> Permutations:
    """Permutations of the components of each draw that make the components of all draws agree.

    Component `k` of draw `t` becomes ``features[t, permutations[t, k]]``. The loss is that of
    independent normal distributions, one for each component and feature: given their means and
    variances the best permutation of each draw solves an assignment problem, and given the
    permutations the means and variances are those of the draws. Both steps are exact and lower the
    loss, and they alternate until no permutation changes. Several draws are tried as the first
    means, and the lowest loss is taken. In the end the components are named so that as many as
    possible stay where they were.

    Args:
        features: Finite numbers, ``(draw, component, feature)``.
        pivots: Draws to begin with.
        max_rounds: Most rounds of both steps.
    """
    # Every feature counts alike, whatever its unit.
    centered = features - features.mean((0, 1))
    scale = centered.std((0, 1))
    is_varying = scale > 0
    standardized = centered[..., is_varying] / scale[is_varying]
    fits = [_match_from(standardized, pivot, max_rounds) for pivot in pivots]
    _, permutations = min(fits, key=lambda fit: fit[0])
    return _keep_names(permutations)


def _match_from(features: Array, pivot: int, max_rounds: int) -> tuple[float, Permutations]:
    """The loss at which the two steps come to rest, and the permutations."""
    means = features[pivot]
    variances = np.ones_like(means)
    permutations = None
    loss = np.inf
    for _ in range(max_rounds):
        found = _assign(_distances(features, means, variances))
        if permutations is not None and np.array_equal(found, permutations):
            break
        permutations = found
        matched = np.take_along_axis(features, permutations[..., None], 1)
        means = matched.mean(0)
        variances = matched.var(0) + _MIN_VARIANCE
        loss = float(np.sum(np.log(variances)))
    assert permutations is not None
    return loss, permutations


def _distances(features: Array, means: Array, variances: Array) -> Array:
    """Squared distances in standard deviations, ``(draw, place, component)``."""
    weights = 1 / variances
    squares = features**2 @ weights.T - 2 * features @ (means * weights).T
    return squares + np.sum(means**2 * weights, 1)


def _assign(costs: Array) -> Permutations:
    """Place of each component with the least sum of costs, ``(draw, component)``.

    Where the nearest places of all components differ, they are the least sum.
    """
    from scipy.optimize import linear_sum_assignment

    places = costs.argmin(1)
    is_assigned = (np.sort(places, 1) == np.arange(places.shape[1])).all(1)
    for draw in np.flatnonzero(~is_assigned):
        places[draw] = linear_sum_assignment(costs[draw].T)[1]
    return places


def _keep_names(permutations: Permutations) -> Permutations:
    """The components in an order that leaves as many as possible where they were."""
    from scipy.optimize import linear_sum_assignment

    num_components = permutations.shape[1]
    counts = (permutations[..., None] == np.arange(num_components)).sum(0)
    names = linear_sum_assignment(counts, maximize=True)[1]
    return permutations[:, np.argsort(names)]
