"""relabel: draws of a mixture with the components of each draw in one order."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from inference.common.argument_checks import short_repr
from inference.common.leaf_names import named_leaves
from inference.common.target import NamedSite, labels_by_name
from inference.results.component_matching import (
    are_numbers,
    as_components,
    match_components,
    permute,
    renumber,
)
from inference.results.mcmc_result import MCMCResult
from inference.results.smc_result import SMCResult

_NUM_PIVOTS = 4


Labeled = TypeVar("Labeled", MCMCResult, SMCResult)


def relabel(
    result: Labeled,
    components: str | Mapping[str, int | Sequence[int]],
    assignments: str | Sequence[str] | None = None,
) -> Labeled:
    """Permutes the components of each draw of a mixture, so that all draws agree.

    A posterior that is the same under every permutation of its components has a mode for each of
    them. Where chains are at several, or move between them, means by component say nothing, and
    R-hat is high. This function undoes such label switching after the run.

    Each draw is permuted to be nearest to the means of the components, in their standard
    deviations; this assignment problem is solved exactly. Means and standard deviations are those
    of the permuted draws, and both steps alternate until nothing changes. It begins with the draw
    of the highest log density and with some others, and takes the best. At most entries the
    components keep their places: draws without a switch are returned as they are.

    The other sites stay as they are, as do statistics. Name all sites with an entry for each
    component, the deterministic ones too, and all `assignments`, whose values are numbers of
    components: an observation stays with its component when that gets another number. The permuted
    draws are draws of the same posterior only if it is symmetric: if priors tell components apart,
    they were not to be exchanged.

    Bridge sampling of draws in one order, by :func:`inference.evidence`, integrates over one mode.
    Of a posterior that is symmetric in `d` components, it is too low by the logarithm of `d`
    factorial, as its result says. The evidence of :func:`inference.smc`, and without a model that
    of a run with :class:`inference.ParallelTempering`, is over all modes: nothing is to be added.

    Args:
        result: Result of :func:`inference.mcmc` or :func:`inference.smc`.
        components: Axis of the components by site, as ``{"mu": 0, "share": 0}``: an axis of one
            value of the site, or several for a matrix of transitions, as ``{"move": (0, 1)}``. Or
            the name of a dimension that ``ppl.label`` gave to all of them, as ``"component"``.
        assignments: Names of sites whose values are numbers of components, counted from 0, as
            ``["z"]`` of a mixture whose assignments are sampled. Without any, ``[]``; by default
            there must be no site that looks so.

    Returns:
        A result with the permuted draws, whose summary is that of these draws. To go on with the
        run, keep the result that was given: this one does not hold the chains of `mcmc`, and
        :func:`inference.smc` would go on from the permuted draws.

    Raises:
        TypeError: if `result` is not a result of `mcmc` or `smc`, or `components` is of another
            type.
        ValueError: if no site has the dimension, a site or an axis does not exist, the axes have
            different lengths, every site has several axes, or draws are not finite; if assignments
            are not numbers of components, or others than those that are named look so.

    References:
        - Celeux (1998), Bayesian inference for mixture: the label switching problem, COMPSTAT.
        - Stephens (2000), Dealing with label switching in mixture models, Journal of the Royal
          Statistical Society B 62: the two steps, for any loss.
        - Marin, Mengersen and Robert (2005), Bayesian modelling and inference on mixtures of
          distributions, Handbook of Statistics 25: the draw of the highest density as a pivot.

    Example:
        >>> import numpy as np, inference
        >>> noise = np.random.default_rng(0).normal(size=(2, 100, 2))
        >>> modes = np.array([[-9.0, 9.0], [9.0, -9.0]])
        >>> mu = modes[:, None] + noise
        >>> found = inference.relabel(inference.MCMCResult({"mu": mu}, {}, None), {"mu": 0})
        >>> print(found.draws["mu"].mean(1).round())
        [[-9.  9.]
         [-9.  9.]]
    """
    if not isinstance(result, MCMCResult | SMCResult):
        raise TypeError(
            f"relabel: result must be a result of mcmc or smc, got {short_repr(result)}"
        )
    names, leaves = zip(*named_leaves(result.draws), strict=True)
    draws = dict(zip(names, map(np.asarray, leaves), strict=True))
    axes = _axes_by_site(draws, result.sites, components)
    num_components = next(draws[name].shape[2 + of_site[0]] for name, of_site in axes.items())
    assigned = _check_assignments(draws, axes, assignments, num_components)
    permutations = match_components(_features(draws, axes), _pivots(result.stats, draws))
    for name, of_site in axes.items():
        for axis in of_site:
            draws[name] = permute(draws[name], axis, permutations)
    for name in assigned:
        draws[name] = renumber(draws[name], permutations)
    structure = jax.tree.structure(result.draws)
    permuted = jax.tree.unflatten(structure, [draws[name] for name in names])
    if isinstance(result, SMCResult):
        return dataclasses.replace(result, draws=permuted)
    facts = dataclasses.replace(result.facts, num_ordered=num_components)
    return dataclasses.replace(result, draws=permuted, chains=None, facts=facts)


def _check_assignments(
    draws: Mapping[str, np.ndarray], axes: Mapping[str, Any], given: Any, num_components: int
) -> tuple[str, ...]:
    """Names of the sites whose values are numbers of components.

    Raises:
        TypeError: if they are not given as names.
        ValueError: if there is no such site, it has an axis of components, or it has other values;
            if none are given, and there are some that look so.
    """
    numbers = [
        name for name, x in draws.items() if name not in axes and are_numbers(x, num_components)
    ]
    if given is None:
        if numbers:
            raise ValueError(
                f"relabel: draws of {', '.join(map(repr, numbers))} are integers from 0 to "
                f"{num_components - 1}: are they numbers of components, which get others here? "
                f"Then pass assignments={numbers}, else assignments=[]"
            )
        return ()
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f'relabel: assignments must be names of sites, such as ["z"], got {short_repr(given)}'
        )
    for name in names:
        if name not in draws:
            raise ValueError(
                f"relabel: assignments: no site is called {name!r}; there are {', '.join(draws)}"
            )
        if name not in numbers:
            raise ValueError(
                f"relabel: assignments: site {name!r} must have integers from 0 to "
                f"{num_components - 1} and no axis of components, got "
                f"{short_repr(draws[name].reshape(-1)[:4])} in an array of {draws[name].dtype}"
            )
    return tuple(dict.fromkeys(names))


def _pivots(stats: Mapping[str, Any], draws: Mapping[str, np.ndarray]) -> list[int]:
    """Draws of all chains to begin with: the one of the highest log density, and some others."""
    size = int(np.prod(next(iter(draws.values())).shape[:2]))
    pivots = [*np.linspace(0, size - 1, _NUM_PIVOTS).astype(int).tolist()]
    if "log_density" in stats:
        pivots.insert(0, int(np.argmax(np.nan_to_num(stats["log_density"], nan=-np.inf))))
    return pivots


def _features(draws: Mapping[str, np.ndarray], axes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
    """Numbers by which components are told apart, ``(draw, component, feature)``.

    They are the draws of the sites with one axis of components.
    """
    features = []
    for name, of_site in axes.items():
        if not np.isfinite(draws[name]).all():
            raise ValueError(f"relabel: draws of {name!r} are not finite")
        if len(of_site) == 1:
            found = as_components(draws[name], of_site[0])
            parts = (found.real, found.imag) if np.iscomplexobj(found) else (found,)
            features += [np.asarray(part, np.float64) for part in parts]
    if not features:
        raise ValueError(
            f"relabel: components: every site has several axes of components "
            f"({', '.join(map(repr, axes))}): name a site with one, by which components are told "
            "apart, such as their means"
        )
    return np.concatenate(features, -1)


def _axes_by_site(
    draws: Mapping[str, np.ndarray], sites: Sequence[NamedSite], components: Any
) -> dict[str, tuple[int, ...]]:
    """Axes of the components by site, counted from 0.

    Raises:
        TypeError: if `components` is neither a name nor a dict of axes.
        ValueError: if a dimension, a site or an axis does not exist, or lengths differ.
    """
    if isinstance(components, str):
        found = _labeled_axes(draws, sites, components)
    elif isinstance(components, Mapping):
        found = {name: _check_axes(name, draws, x) for name, x in components.items()}
    else:
        raise TypeError(
            'relabel: components must be axes by site, such as {"mu": 0}, or the name of a '
            f"dimension, got {short_repr(components)}"
        )
    if not found:
        raise ValueError("relabel: components: expected at least one site, got none")
    sizes = {(name, axis): draws[name].shape[2 + axis] for name in found for axis in found[name]}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"axis {axis} of {name!r} has {n}" for (name, axis), n in sizes.items())
        raise ValueError(f"relabel: components: axes must have one length: {told}")
    if 1 in sizes.values():
        raise ValueError("relabel: components: axes must have two entries at least, got 1")
    return found


def _labeled_axes(
    draws: Mapping[str, np.ndarray], sites: Sequence[NamedSite], dimension: str
) -> dict[str, tuple[int, ...]]:
    """Axes by site that `ppl.label` called so.

    Raises:
        ValueError: if there are none.
    """
    found: dict[str, tuple[int, ...]] = {}
    known: dict[str, None] = {}
    for name, labels in labels_by_name(sites).items():
        if name not in draws:
            continue
        dims = [None if label is None else label[0] for label in labels]
        known |= dict.fromkeys(dim for dim in dims if dim is not None)
        if dimension in dims:
            found[name] = tuple(i for i, dim in enumerate(dims) if dim == dimension)
    if not found:
        there = f"there are {', '.join(map(repr, known))}" if known else "no site has labels"
        raise ValueError(
            f"relabel: components: no site has a dimension {dimension!r}; {there}. Give the axes "
            'by site, such as {"mu": 0}'
        )
    return found


def _check_axes(name: Any, draws: Mapping[str, np.ndarray], given: Any) -> tuple[int, ...]:
    """Axes of one site, counted from 0.

    Raises:
        TypeError: if an axis is not an integer.
        ValueError: if there is no such site, or no such axis, or an axis is given twice.
    """
    if name not in draws:
        raise ValueError(
            f"relabel: components: no site is called {name!r}; there are {', '.join(draws)}"
        )
    num_axes = draws[name].ndim - 2
    axes = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    for axis in axes:
        if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
            raise TypeError(
                f"relabel: components[{name!r}] must be an axis or several, got {short_repr(given)}"
            )
        if not -num_axes <= axis < num_axes:
            raise ValueError(
                f"relabel: components[{name!r}]: a value of the site has shape "
                f"{draws[name].shape[2:]}, so there is no axis {axis}"
            )
    found = tuple(int(axis) % num_axes for axis in axes)
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"relabel: components[{name!r}] must be different axes, got {short_repr(given)}"
        )
    return found
