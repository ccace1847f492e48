"""Sites of a run whose chains agree but for the order of their components.

Only the draws are looked at. That the chains agree so does not show that the model is symmetric in
the components; unequal log densities show that it is not, or that the chains differ in more.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from inference.common.leaf_names import named_leaves
from inference.results.component_matching import are_numbers, as_components, match_components
from inference.results.diagnostics import MIN_DRAWS, mcse_mean, rhat
from inference.results.summary import Summary

# Sites agree if the distance of their largest R-hat from 1 falls to so much of what it was.
_SHARE = 0.1
_MAX_RHAT = 1.1  # of sites that agree, however large theirs was
# What is looked at, so that a look takes less than a second.
_MAX_COMPONENTS = 24
_MAX_FEATURES = 64  # of a component
_MAX_DRAWS = 1000  # of all chains
_MAX_ROUNDS = 10
_NUM_PIVOTS = 2
# Labels that switch stay for a while: most often, two draws that follow have the same permutation.
# In a site of many slow entries without components each draw would have another.
_MAX_CHANGES = 0.1
_MANY_ERRORS = 5.0  # of a difference of means; more than among many chains by chance

# A site by name and an axis of it, and its draws, (chain, draw, component, feature).
_Candidate = tuple[str, int, np.ndarray]


def find_switching(draws: Mapping[str, Any], summary: Summary, high_rhat: float) -> dict[str, int]:
    """Sites with a high R-hat that permutations of each draw make low, each with its axis.

    Sites with axes of one length are permuted together; if this is of no use, each by itself.
    Those with several such axes, as matrices of transitions, are passed over.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
        summary: Summary of the draws.
        high_rhat: R-hat above which chains do not agree.
    """
    by_size: dict[int, list[_Candidate]] = {}
    rhats = {site.name: summary[site.name].rhat for site in summary.sites}
    for name, leaf in named_leaves(draws):
        found = np.asarray(rhats.get(name, np.nan))
        for axis, size in enumerate(found.shape if np.any(found > high_rhat) else ()):
            # A change of places is seen at two entries at least.
            high = np.moveaxis(found > high_rhat, axis, 0).reshape(size, -1).any(1)
            is_only = found.shape.count(size) == 1
            if np.sum(high) >= 2 and size <= _MAX_COMPONENTS and is_only:
                by_size.setdefault(size, []).append((name, axis, _worst(leaf, found, axis)))
    switched: dict[str, int] = {}
    for candidates in by_size.values():
        if _agree(candidates, high_rhat):
            agreeing = candidates
        else:
            agreeing = [x for x in candidates if len(candidates) > 1 and _agree([x], high_rhat)]
        for name, axis, _ in agreeing:
            switched.setdefault(name, axis)
    return switched


def find_assignments(
    draws: Mapping[str, Any], summary: Summary, high_rhat: float, switched: Mapping[str, int]
) -> list[str]:
    """Sites with a high R-hat whose values may be numbers of the components that switch.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
        summary: Summary of the draws.
        high_rhat: R-hat above which chains do not agree.
        switched: Axis of the components by site, as `find_switching` has it.
    """
    rhats = {site.name: summary[site.name].rhat for site in summary.sites}
    sizes = {np.shape(rhats[name])[axis] for name, axis in switched.items()}
    if len(sizes) != 1:
        return []
    (num_components,) = sizes
    return [
        name
        for name, leaf in named_leaves(draws)
        if np.any(np.asarray(rhats.get(name, np.nan)) > high_rhat)
        and are_numbers(np.asarray(leaf), num_components)
    ]


def as_many_entries(
    summary: Summary, switched: Mapping[str, int], assigned: Sequence[str]
) -> list[str]:
    """Other sites with an axis as long as there are components, which may be one of components."""
    shapes = {site.name: np.shape(summary[site.name].rhat) for site in summary.sites}
    sizes = {shapes[name][axis] for name, axis in switched.items()}
    return [
        name
        for name, shape in shapes.items()
        if sizes.intersection(shape) and name not in {*switched, *assigned}
    ]


def remedy_of_switching(
    switched: Mapping[str, int], assigned: Sequence[str], others: Sequence[str]
) -> str:
    """Sentences, with a space in front, on sites whose labels switch."""
    some = names_in_words(switched)
    axes = ", ".join(f'"{name}": {axis}' for name, axis in switched.items())
    numbers = ", ".join(f'"{name}"' for name in assigned)
    option = f", assignments=[{numbers}]" if assigned else ""
    doubt = ""
    if others:
        doubt = (
            f" ({names_in_words(others)} {'have' if len(others) > 1 else 'has'} as many entries)"
        )
    return (
        f" This looks like label switching: with the entries of {some} permuted in each draw, the "
        "chains agree. If the model is symmetric in these entries, so that no permutation changes "
        f"its density, match them by inference.relabel(result, {{{axes}}}{option}), with every "
        f"other site that has an entry for each component{doubt}, or order the components in the "
        "model."
    )


def names_in_words(names: Iterable[str]) -> str:
    """Names with commas, and "and" before the last."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def unequal_densities(stats: Mapping[str, np.ndarray]) -> tuple[int, int, float, float] | None:
    """Two chains whose mean log densities differ by more than their Monte Carlo error.

    Chains that are permutations of each other, in a model that is symmetric, have equal means.

    Args:
        stats: Statistics of the kernel, ``(chain, draw)``, by name.

    Returns:
        Chains with the lower and with the higher mean, and the means; `None` if no chains differ
        so, or it is not known.
    """
    log_density = np.asarray(stats.get("log_density", np.nan), np.float64)
    if log_density.ndim < 2 or log_density.shape[1] < MIN_DRAWS:
        return None
    if not np.isfinite(log_density).all():
        return None
    means = log_density.mean(1)
    errors = np.array([mcse_mean(x[None]) for x in log_density])
    distances = np.abs(means[:, None] - means)
    scores = distances / np.maximum(np.hypot(errors[:, None], errors), np.finfo(float).tiny)
    scores = np.nan_to_num(scores, nan=0.0)
    if scores.max() <= _MANY_ERRORS:
        return None
    first, second = np.unravel_index(int(np.argmax(scores)), scores.shape)
    low, high = sorted((int(first), int(second)), key=lambda chain: means[chain])
    return low, high, float(means[low]), float(means[high])


def _worst(leaf: Any, rhats: np.ndarray, axis: int) -> np.ndarray:
    """Draws ``(chain, draw, component, feature)`` of the features with the largest R-hat."""
    array = np.asarray(leaf)
    num_chains, num_draws, *shape = array.shape
    every = max(1, -(-num_chains * num_draws // _MAX_DRAWS))
    thinned = array[:, ::every]
    flat = np.nan_to_num(np.moveaxis(rhats, axis, 0).reshape(shape[axis], -1)).max(0)
    chosen = np.sort(np.argsort(-flat, kind="stable")[:_MAX_FEATURES])
    features = np.moveaxis(thinned, 2 + axis, 2).reshape(*thinned.shape[:2], shape[axis], -1)
    return np.asarray(features[..., chosen], np.float64)


def _agree(candidates: list[_Candidate], high_rhat: float) -> bool:
    """Whether chains agree once the components of each draw are matched."""
    features = np.concatenate([x for *_, x in candidates], -1)
    if not np.isfinite(features).all():
        return False
    num_chains, num_draws = features.shape[:2]
    together = as_components(features, 0)
    pivots = np.linspace(0, len(together) - 1, _NUM_PIVOTS).astype(int)
    permutations = match_components(together, pivots, _MAX_ROUNDS)
    matched = np.take_along_axis(together, permutations[..., None], 1)
    by_chain = permutations.reshape(num_chains, num_draws, -1)
    changes = np.mean((by_chain[:, 1:] != by_chain[:, :-1]).any(-1))
    before, after = (
        np.nanmax(rhat(x.reshape(features.shape)), initial=1.0) for x in (features, matched)
    )
    limit = min(1 + _SHARE * (before - 1), _MAX_RHAT)
    return bool(changes <= _MAX_CHANGES and after <= max(high_rhat, limit))
