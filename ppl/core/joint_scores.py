"""Joint scores: sites that are scored together, and the names of their log probabilities.

`marginalize` makes such sites; the rest of the language reads them here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.core.group_scores import GroupScores
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites


@dataclasses.dataclass(frozen=True, kw_only=True)
class JointlyScored(distribution_protocol.DistributionWrapper):
    """Base class of the distributions of sites that are scored together.

    They are scored at one of them, the host; the others have the log probability 0.

    Attributes:
        base: A distribution with the site's support and map from unconstrained space.
        path: The path of the site.
        is_host: Whether the log probability of the whole group is scored here.
        scores: The layout of the group's log probability; None if the site is scored by itself.
        by_step: Whether the log probability keeps all independent numbers. For a chain of normal
            states, one number a step takes longer.
    """

    base: Any
    path: Path = dataclasses.field(metadata={"static": True})
    is_host: bool = dataclasses.field(metadata={"static": True})
    scores: GroupScores | None = dataclasses.field(metadata={"static": True})
    by_step: bool = dataclasses.field(default=False, metadata={"static": True})

    def draw_with_others(self, key: jax.Array) -> list[Any]:
        """The leaves of a draw of the site; sites of a group share a joint draw for one key."""
        raise NotImplementedError


def score_by_step(site: Site) -> Site:
    """The site with `by_step` set, if it is scored together with others."""

    def by_step(d: Any) -> Any:
        if isinstance(d, JointlyScored):
            return dataclasses.replace(d, by_step=True)
        if isinstance(d, distribution_protocol.DistributionWrapper):
            return dataclasses.replace(d, base=by_step(d.base))  # pyright: ignore
        return d

    if not joint_scores_of(site):
        return site
    d = jax.tree.unflatten(site.extra_tree, range(site.num_extras))
    return dataclasses.replace(site, extra_tree=jax.tree.structure(by_step(d)))


def joint_score_of(site: Site) -> JointlyScored | None:
    """The wrapper that scores a site with others, without arrays; None if it is by itself.

    A sum over an integral gives two wrappers. A wrapper with joint entries comes first, as its name
    has all sites.
    """
    found = [d for d in joint_scores_of(site) if d.scores is not None]
    together = [d for d in found if d.scores is not None and not d.scores.are_apart]
    return next(iter([*together, *found]), None)


def name_scores(sites: Sites, records: Mapping[Path, jax.Array]) -> dict[Path, jax.Array]:
    """Log probabilities by site; sites that are scored together have one under a joint name."""
    found = {}
    elsewhere = []
    for path, record in records.items():
        joint = joint_score_of(sites[path].site)
        if joint is None:
            found[path] = record
        elif joint.is_host:
            found[name_of_score(path, joint)] = record
        else:
            elsewhere.append((name_of_score(path, joint), record))
    for name, record in elsewhere:  # Minus infinity outside of a support, else 0.
        if name in found:
            found[name] = found[name] + jnp.sum(record)
    return found


def name_of_score(path: Path, joint: JointlyScored) -> Path:
    """The path under which a site is scored: its own path, or the joint name of its groups."""
    scores = joint.scores
    if scores is None or scores.are_apart:
        return path
    return (*path[: len(path) - len(joint.path)], *scores.path)


def joint_scores_of(site: Site) -> list[JointlyScored]:
    """The wrappers of a site that is scored together with others, without arrays: mostly none."""
    names = [field.name for field in dataclasses.fields(JointlyScored)]
    return [
        JointlyScored(base=None, **{name: statics[name] for name in names if name in statics})
        for kind, statics in distribution_protocol.wrappers(site.extra_tree)
        if issubclass(kind, JointlyScored)
    ]
