"""Checks of draws: given draws are possible, and drawn integers are not cut off."""

import functools
import operator
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.common.cut_off_draws import has_counts
from ppl.common.missing_data import is_imputed
from ppl.core.joint_scores import GroupScores, joint_score_of
from ppl.core.model_run import apply_at_site
from ppl.harvest import jax_core
from ppl.harvest.interpreter import Operands
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Found, Path, describe, describe_all
from ppl.primitives.site_kinds import LATENT, OBSERVED, Hidden, kind_of

# Of the way to a point of the support, in units of the precision: draws may be rounded to its edge.
_REACH = 16


def is_near_support(value: Any, d: Any) -> Any:
    """Whether each event of a value lies in the support, or at its edge; True if all values do.

    Draws far in a tail may be rounded to an edge that does not belong to the support, such as 0.
    NaN and infinities lie in no support.
    """
    if (parts := distribution_protocol.parts_of_joint(d, value)) is not None:
        return functools.reduce(operator.and_, (jnp.all(is_near_support(x, p)) for p, x in parts))
    inside = distribution_protocol.is_possible(d, value)
    if not jax.tree_util.all_leaves([value]) or not jnp.issubdtype(value.dtype, jnp.inexact):
        return inside
    value = distribution_protocol.merge_known(d, value)
    if inside is True:
        return distribution_protocol.is_finite(d, value)
    point = distribution_protocol.feasible_point(d, value)
    reach = _REACH * float(jnp.finfo(value.dtype).eps)
    near = value + reach * (point - value)
    return inside | (distribution_protocol.is_possible(d, near) & jnp.isfinite(value).all())


def is_possible_data(value: Any, d: Any) -> Any:
    """Whether each event of data lies in the support; True if all values do."""
    return distribution_protocol.is_possible(d, value)


def draw_at_site(site: Site, operands: Operands) -> tuple[Any, Any]:
    """The drawn value of a site, and how many of its integers are cut off, for each element.

    The number is None for a value without integers.
    """
    value = jax.tree.unflatten(site.tree, operands.values)
    if kind_of(site) != LATENT or not has_counts(value):
        return value, None
    return value, apply_at_site(site, operands, operands.values, _count_cut_off)


def _count_cut_off(value: Any, d: Any) -> jax.Array:
    return jnp.asarray(distribution_protocol.count_cut_off(d, value))


def check_given(
    where: str, draws: Mapping[Path, Any], flags: Mapping[Path, Any], num_axes: int, start: int = 0
) -> None:
    """Check that given draws, and data beside them, lie in the supports of their sites.

    Args:
        where: The name of the caller in errors.
        draws: The leaves of the draws by path.
        flags: By path, whether each event of each draw is possible: for given sites, for data, and
            for each sum of a marginalized model as a whole.
        num_axes: The number of axes of the draws.
        start: The index of the first of these draws along their first axis.

    Raises:
        ValueError: For draws or data that are not possible; flags that are traced are not checked.
    """
    for path, found in flags.items():
        if jax_core.is_traced(found) or not getattr(found, "is_fully_addressable", True):
            continue
        valid = np.asarray(found)
        if valid.all():
            continue
        leaves = [np.asarray(x) for x in draws.get(path, ())]
        has_nan = functools.reduce(operator.or_, (_has_nan(x, valid) for x in leaves), valid)
        is_nan = has_nan & ~valid
        wrong = is_nan if is_nan.any() else ~valid
        index = tuple(np.argwhere(wrong)[0].tolist())
        draw = index[:num_axes]
        entry = index[num_axes:]
        if draw:
            draw = (draw[0] + start, *draw[1:])
        place = f"draw {draw}{f', entry {entry}' * bool(entry)}"
        words = _words_for(path, [x[index] for x in leaves if x.ndim >= len(index)], place)
        raise ValueError(f"{where}: {int(np.sum(wrong))} of {valid.size} {words}")


def _has_nan(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Whether a leaf has NaN, for each element along the leading axes that an array gives."""
    if not jnp.issubdtype(x.dtype, np.inexact) or x.ndim < like.ndim:
        return np.zeros_like(like)
    return np.asarray(np.isnan(x).any(tuple(range(like.ndim, x.ndim))))


def _words_for(path: Path, values: list[np.ndarray], place: str) -> str:
    """Words for the first impossible given values, data, or sum of a marginalized model."""
    if path[0] is Hidden.LOG_TOTAL:
        names = ", ".join(map(describe, path[1:]))  # pyright: ignore[reportArgumentType]
        return (
            f"given draws have no values of {names} beside them, the first in {place}: all values "
            "have probability 0 there, or NaN, as where ppl.Laplace() finds no mode. Look for data "
            "or draws that the model excludes: ppl.log_density of it is no number there."
        )
    site = f"site {describe(path)}"
    if not values:
        return (
            f"data of {site} lie outside of the support of its distribution, the first beside "
            f"{place}. The model excludes these data, or these are draws of another posterior."
        )
    if any(np.isnan(x).any() for x in values if jnp.issubdtype(x.dtype, np.inexact)):
        return (
            f"given values of {site} are NaN, the first in {place}. They are no draws of a "
            "posterior: find what made them NaN, or leave these draws out."
        )
    shown = ", ".join(np.array2string(x, threshold=9, separator=", ") for x in values)
    return (
        f"given values of {site} lie outside of the support of its distribution: "
        f"{' '.join(shown.split())} in {place}. They are no draws of this model's "
        "posterior; a value that the prior excludes is given by ppl.intervene."
    )


def check_apart(sites: Mapping[Path, Found], given: Collection[Path]) -> None:
    """Check that no sum of a marginalized model scores both predicted and known sites.

    A site that is summed out is drawn from its prior here. So the known sites that depend on it
    would not be taken into account.
    """
    groups: dict[tuple[Path, GroupScores], list[Path]] = {}
    for path, found in sites.items():
        joint = joint_score_of(found.site)
        if joint is not None and joint.scores is not None:
            scope = path[: len(path) - len(joint.path)]
            groups.setdefault((scope, joint.scores), []).append(path)
    for (scope, scores), paths in groups.items():
        new = [p for p in paths if p not in given and kind_of(sites[p].site) != OBSERVED]
        known = [describe(p) for p in paths if p not in new]
        if not (scores.are_apart and scores.time is None):
            gaps = [p for p in new if any(map(is_imputed, sites[p].sites))]
            known += [f"the known entries of {describe(p)}" for p in gaps]
        if new and known:
            out = describe_all([(*scope, *p) for p in scores.taken_out])
            raise ValueError(
                f"predict: {describe_all(new)} cannot be drawn given {', '.join(known)}, as both "
                f"depend on {out}, taken out by ppl.marginalize and drawn from the prior here. "
                "Draw that first, from the marginalized model with its data, and give it with "
                "the other draws to the model as it was before ppl.marginalize: "
                "{**draws, **ppl.recover(marginalized, draws)(key, *args)}."
            )
