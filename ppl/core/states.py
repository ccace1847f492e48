"""Finite sets of states of discrete sites, read off their supports."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.extend import core as jex

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest import _jax, _jaxprs
from ppl.harvest._site_names import describe
from ppl.harvest._sow import Site, sow_p
from ppl.harvest._survey import Path, struct_of

Found = TypeVar("Found")

_TFP_BINARY = ("Bernoulli", "ProbitBernoulli")
_TFP_CATEGORICAL = ("Categorical",)


def find_states(jaxpr: Any, paths: Collection[Path]) -> dict[Path, np.ndarray]:
    """The states of some sites of a program, one after another.

    Raises:
        ValueError: If there are infinitely many, or their number is not known.
    """
    found = {}
    for site, states in look_at_distributions(jaxpr, paths, _read_states):
        found[site.path] = np.union1d(found.get(site.path, states), states)
    return found


def look_at_distributions(
    jaxpr: Any, paths: Collection[Path], look: Callable[[Site, Any], Found]
) -> Iterator[tuple[Site, Found]]:
    """Some sites, with a function of the site and its distribution, of which nothing is evaluated.

    Parameters are abstract, but for those that the program knows.
    """
    for eqn in _jaxprs.raw(jaxpr)[0].eqns:
        if eqn.primitive is sow_p and eqn.params["site"].path in paths:
            site = eqn.params["site"]
            yield site, _look(site, site.split(eqn.invars)[2], look)
        for inner in _jax.subjaxprs(eqn) if _jax.has_sow(eqn) else ():
            yield from look_at_distributions(inner, paths, look)


def _look(site: Site, extras: Sequence[Any], look: Callable[[Site, Any], Found]) -> Found:
    """A function of the distribution of a site, from the atoms of its leaves."""
    known = [isinstance(v, jex.Literal) for v in extras]
    found: list[Found] = []

    def note(*leaves: Any) -> tuple[()]:
        found.append(look(site, jax.tree.unflatten(site.extra_tree, leaves)))
        return ()

    def with_known(rest: Sequence[Any]) -> Any:
        unknown = iter(rest)
        leaves = [v.val if k else next(unknown) for v, k in zip(extras, known, strict=True)]
        return lift(note, site.axes)(*leaves)

    jax.eval_shape(
        with_known, [struct_of(v.aval) for v, k in zip(extras, known, strict=True) if not k]
    )
    return found[-1]


def _read_states(site: Site, d: Any) -> np.ndarray:
    states = _of_distribution(d)
    if isinstance(states, str):
        name = distribution_protocol.name_of(d)
        raise ValueError(
            f"marginalize: site {describe(site.path)} has the family {name}, {states}. Give a site "
            "with finitely many states, such as Categorical or Bernoulli, whose number of states "
            "does not depend on values; bounds are numbers of Python."
        )
    return states


def _of_distribution(d: Any) -> np.ndarray | str:
    while isinstance(d, distribution_protocol.DistributionWrapper):
        d = d.base  # pyright: ignore
    d = distribution_protocol.part_of(d)
    if distribution_protocol.num_event_axes(d):
        return "whose draws are vectors"
    support = getattr(d, "support", None)
    if support is None:
        return _of_tfp(d)
    if hasattr(support, "members"):
        members = support.members
        if _jax.is_traced(members) or np.ndim(members) != 1:
            return "whose states are not known before it runs"
        return np.unique(np.asarray(members))
    low, high = getattr(support, "low", None), getattr(support, "high", None)
    if not getattr(support, "is_discrete", False) or low is None or high is None:
        return "which has infinitely many states"
    if _jax.is_traced(low) or _jax.is_traced(high):
        return "whose number of states is not known before it runs"
    low, high = np.min(np.asarray(low)), np.max(np.asarray(high))
    if not np.isfinite(high) or not np.isfinite(low):
        return "which has infinitely many states"
    return np.arange(int(low), int(high) + 1)


def _of_tfp(d: Any) -> np.ndarray | str:
    name = distribution_protocol.name_of(d)
    if name in _TFP_BINARY:
        return np.arange(2)
    if name in _TFP_CATEGORICAL:
        return np.arange(int(np.shape(d.logits if d.probs is None else d.probs)[-1]))
    return "whose states are not known"
