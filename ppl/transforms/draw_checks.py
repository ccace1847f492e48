"""Checks of draws: given ones lie in the support of their site, drawn integers within a dtype."""

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.common.missing_data import is_imputed
from ppl.core.group_scores import GroupScores
from ppl.core.joint_scores import joint_score_of
from ppl.core.quadratic_scores import join_names
from ppl.harvest import _jax
from ppl.harvest._site_names import describe
from ppl.harvest._survey import Found, Path
from ppl.primitives.site_kinds import LATENT, OBSERVED, kind_of

# Of the way to a point of the support, in units of the precision: draws may be rounded to its edge.
_REACH = 16


def is_near_support(value: Any, d: Any) -> Any:
    """Whether each event of a value lies in the support, or at its edge; True if nothing bounds it.

    Draws of long tails are rounded to an edge that does not belong to the support, such as 0.
    """
    inside = distribution_protocol.is_possible(d, value)
    is_float = jax.tree_util.all_leaves([value]) and jnp.issubdtype(value.dtype, jnp.floating)
    if inside is True or not is_float:
        return inside
    point = distribution_protocol.feasible_point(d, value)
    reach = _REACH * float(jnp.finfo(value.dtype).eps)
    near = value + reach * (point - value)
    return inside | (distribution_protocol.is_possible(d, near) & (jnp.abs(value) < jnp.inf).all())


def check_support(
    where: str,
    draws: Mapping[Path, Any],
    flags: Mapping[Path, Any],
    num_axes: int,
    start: int = 0,
) -> None:
    """Check that given draws lie in the supports of their sites, where that is known.

    Args:
        where: The name of the caller in errors.
        draws: The leaves of the draws by path.
        flags: By path, whether each event of each draw lies in the support.
        num_axes: The number of axes of the draws.
        start: The index of the first of these draws along their first axis.

    Raises:
        ValueError: For a draw outside of the support.
    """
    for path, found in flags.items():
        if _jax.is_traced(found) or not getattr(found, "is_fully_addressable", True):
            continue
        valid = np.asarray(found)
        if valid.all():
            continue
        index = tuple(np.argwhere(~valid)[0].tolist())
        leaves = [np.asarray(x)[index] if np.ndim(x) >= len(index) else x for x in draws[path]]
        values = ", ".join(np.array2string(x, threshold=9, separator=", ") for x in leaves)
        draw, entry = index[:num_axes], index[num_axes:]
        if draw:
            draw = (draw[0] + start, *draw[1:])
        raise ValueError(
            f"{where}: {int(np.sum(~valid))} of {valid.size} given values of site {describe(path)} "
            f"lie outside of the support of its distribution: {' '.join(values.split())} in draw "
            f"{draw}{f', entry {entry}' * bool(entry)}. They are no draws of this model's "
            "posterior; a value that the prior excludes is given by ppl.intervene."
        )


def count_ends(values: Mapping[Path, Any], sites: Mapping[Path, Found]) -> dict[Path, Any]:
    """The number of draws at an end of their integer dtype, by path of the sites that are drawn."""
    drawn = {p: x for p, x in values.items() if p in sites and kind_of(sites[p].site) == LATENT}
    counts = {path: [_at_ends(x) for x in jax.tree.leaves(value)] for path, value in drawn.items()}
    return {path: sum(x for x in some if x is not None) for path, some in counts.items()}


def _at_ends(x: Any) -> Any:
    dtype = jnp.result_type(x)
    if dtype.kind != "i" or dtype.itemsize < 4:  # type: ignore[attr-defined]
        return None
    limits = jnp.iinfo(dtype)
    return jnp.sum((x == limits.max) | (x == limits.min))


def warn_of_ends(where: str, counts: Mapping[Path, Any]) -> None:
    """Warns of sites whose draws stand at an end of their dtype, where that is known."""
    for path, count in counts.items():
        if _jax.is_traced(count) or not getattr(count, "is_fully_addressable", True):
            continue
        if num := int(np.sum(count)):
            warnings.warn(
                f"{where}: {num} draws of site {describe(path)} stand at an end of "
                f"{jnp.result_type(int)}: they are cut off there, if the support goes on. "
                "Bound the parameters of its distribution, or make room by "
                "jax.config.update('jax_enable_x64', True).",
                stacklevel=4,
            )


def check_apart(sites: Mapping[Path, Found], given: Collection[Path]) -> None:
    """Check that what is predicted shares no sum with what is known.

    A site that is taken out is drawn from its prior, not given the sites that depend on it.
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
            out = join_names([(*scope, *p) for p in scores.taken_out])
            raise ValueError(
                f"predict: {join_names(new)} cannot be drawn given {', '.join(known)}, as both "
                f"depend on {out}, taken out by ppl.marginalize and drawn from the prior here. "
                "Draw that first, from the marginalized model with its data, and give it with "
                "the other draws to the model as it was before ppl.marginalize: "
                "{**draws, **ppl.recover(marginalized, draws)(key, *args)}."
            )
