"""Finite sets of states of discrete sites, read off their supports."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.extend import core as jex

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.construct import wiring_of
from ppl.harvest.program import Program
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Path, describe, join_scopes, struct_of
from ppl.harvest.wirings import Branches, Call, Scan

Found = TypeVar("Found")

_TFP_BINARY = ("Bernoulli", "ProbitBernoulli")
_TFP_CATEGORICAL = ("Categorical",)
_INFINITE = "which has infinitely many states"
_REAL = "which is not discrete"
_UNKNOWN_NUMBER = "whose number of states is not known before it runs"


def find_states(program: Program, paths: Collection[Path]) -> dict[Path, np.ndarray]:
    """The states of some sites of a program, in ascending order.

    Bounds of a support may be Python numbers or arrays that the program closes over.

    Raises:
        ValueError: If there are infinitely many, or their number is not known.
    """
    found = {}
    known = [x if _is_known(x) else None for x in program.consts]
    for site, states in look_at_distributions(program.jaxpr, paths, _read_states, known):
        found[site.path] = np.union1d(found.get(site.path, states), states)
    return found


def look_at_distributions(
    jaxpr: Any,
    paths: Collection[Path] | None,
    look: Callable[[Site, Any], Found],
    inputs: Sequence[Any] = (),
) -> Iterator[tuple[Site, Found]]:
    """Sites at `paths`, each with the result of `look(site, distribution)`; nothing is evaluated.

    Without `paths`, all sites are looked at.

    Parameters of the distributions are abstract, unless they are literals or known `inputs`. An
    input that is None or missing is unknown.
    """
    inner, consts = jaxprs.raw(jaxpr)
    env = dict(zip(inner.invars, inputs, strict=False))
    env.update((v, x) for v, x in zip(inner.constvars, consts, strict=False) if _is_known(x))

    def read(atoms: Sequence[Any]) -> list[Any]:
        return [v.val if isinstance(v, jex.Literal) else env.get(v) for v in atoms]

    for eqn in inner.eqns:
        is_site = eqn.primitive is sow_p
        if is_site and (paths is None or eqn.params["site"].path in paths):
            site = eqn.params["site"]
            extras = site.split(eqn.invars)[2]
            yield site, _look(site, extras, read(extras), look)
        for body, given in _bodies(eqn, read(eqn.invars)) if jax_core.has_sow(eqn) else ():
            yield from look_at_distributions(body, paths, look, given)


def _is_known(x: Any) -> bool:
    return not jax_core.is_traced(x)


def _bodies(eqn: jex.JaxprEqn, operands: Sequence[Any]) -> list[tuple[Any, Sequence[Any]]]:
    """The inner programs of an equation, each with its first inputs; None for unknown ones."""
    match wiring_of(eqn):
        case Call(body, positions):
            return [(body, [operands[i] for i in positions])]
        case Branches(bodies):
            return [(body, operands[1:]) for body in bodies]
        case Scan(body) as scan:
            return [(body, scan.split(operands)[0])]
    return [(body, ()) for body in jax_core.subjaxprs(eqn)]


def _look(
    site: Site, atoms: Sequence[Any], values: Sequence[Any], look: Callable[[Site, Any], Found]
) -> Found:
    """`look` at a site and its distribution, whose leaves are abstract where `values` has None."""
    known = [x is not None for x in values]
    found: list[Found] = []

    def note(*leaves: Any) -> tuple[()]:
        found.append(look(site, jax.tree.unflatten(site.extra_tree, leaves)))
        return ()

    def with_known(rest: Sequence[Any]) -> Any:
        unknown = iter(rest)
        leaves = [next(unknown) if x is None else x for x in values]
        return lift(note, site.axes)(*leaves)

    jax.eval_shape(
        with_known, [struct_of(v.aval) for v, k in zip(atoms, known, strict=True) if not k]
    )
    return found[-1]


def _read_states(site: Site, d: Any) -> np.ndarray:
    states = _of_distribution(d)
    if isinstance(states, str):
        name = distribution_protocol.name_of(d)
        raise ValueError(
            f"marginalize: site {describe(site.path)} has the family {name}, {states}. "
            f"{_remedy(states, name, site)}"
        )
    return states


def _remedy(reason: str, name: str, site: Site) -> str:
    """Words on what to do about a site without states that are known and finite in number."""
    if reason == _REAL:
        return (
            "If it is normal given all others, integrate it: ppl.marginalize(model, "
            f"{{{join_scopes(site.path)!r}: ppl.Gaussian()}}). Else leave it among the sites to "
            "sample."
        )
    if reason == _INFINITE and "." in name:  # of another library
        return (
            "Sample it, by inference.mcmc with kernel=inference.Gibbs.auto(), or give it a family "
            "with finitely many states in its own model, beyond which nothing matters."
        )
    if reason == _INFINITE:
        return (
            f"Give it an end, dist.Truncated(dist.{name}(...), high=...), beyond which nothing "
            "matters, or sample it, by inference.mcmc with kernel=inference.Gibbs.auto()."
        )
    if reason == _UNKNOWN_NUMBER:
        return (
            "Bounds must be numbers of Python, or arrays that the model closes over, which neither "
            "vmap nor a loop maps: where bounds differ, give Categorical over all states, with "
            "logits of -inf beyond the bounds of each."
        )
    return "Give a site with finitely many states, such as Categorical or Bernoulli."


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
        if jax_core.is_traced(members) or np.ndim(members) != 1:
            return "whose states are not known before it runs"
        return np.unique(np.asarray(members))
    low = getattr(support, "low", None)
    high = getattr(support, "high", None)
    if not getattr(support, "is_discrete", False):
        return _REAL
    if low is None or high is None:
        return _INFINITE
    if jax_core.is_traced(low) or jax_core.is_traced(high):
        return _UNKNOWN_NUMBER
    low = np.min(np.asarray(low))
    high = np.max(np.asarray(high))
    if not np.isfinite(high) or not np.isfinite(low):
        return _INFINITE
    return np.arange(int(low), int(high) + 1)


def _of_tfp(d: Any) -> np.ndarray | str:
    name = distribution_protocol.name_of(d)
    if name in _TFP_BINARY:
        return np.arange(2)
    if name in _TFP_CATEGORICAL:
        return np.arange(int(np.shape(d.logits if d.probs is None else d.probs)[-1]))
    return "whose states are not known"
