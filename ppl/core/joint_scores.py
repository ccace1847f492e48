"""Joint scores: log probabilities of sites scored together, and the entries each belongs to.

`marginalize` makes such sites; the rest of the language reads them here.

A sum or an integral comes apart into groups of entries that are independent given all other sites,
or into the steps of a chain. Each group has one number, its log probability. If each group holds
entries of only one observation, this is the log probability of the observation and stands for it.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites, join_scopes


@dataclasses.dataclass(frozen=True)
class Lookup:
    """For each entry of a score along some axes, the index of its group along one axis of groups.

    Attributes:
        axes: The axes of the score.
        shape: The shape of the indices.
        numbers: The bytes of the indices, 64-bit integers.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    numbers: bytes

    @classmethod
    def of(cls, axes: Sequence[int], read: Callable[[], Any]) -> "Lookup | None":
        """The lookup of an index that is known before the program runs; None for other indices."""
        try:
            with jax.ensure_compile_time_eval():
                array = np.asarray(read(), np.int64)
        except (TypeError, jax.errors.JAXTypeError):  # it reads arguments of the model
            return None
        return cls(tuple(axes), array.shape, array.tobytes())

    def within(self, num_outer: int) -> "Lookup":
        """The lookup for a score with `num_outer` more axes in front."""
        return dataclasses.replace(self, axes=tuple(axis + num_outer for axis in self.axes))

    def along(self, num_axes: int) -> np.ndarray:
        """The indices with an axis for each axis of the score."""
        array = np.frombuffer(self.numbers, np.int64).reshape(self.shape)
        array = np.transpose(array, np.argsort(self.axes).tolist())
        return np.expand_dims(array, [i for i in range(num_axes) if i not in self.axes])


@dataclasses.dataclass(frozen=True)
class Spread:
    """Entries of a score, spread over groups.

    Attributes:
        shape: The shape of the score: `vmap` axes, loops, the distribution's batch, and the axes of
            independent parts of an event.
        parts: The axes of independent parts, which the log probability of the site does not have.
        axes: For each axis of the groups, the axis of the score along it, a `Lookup`, or None if
            neither is known.
    """

    shape: tuple[int, ...]
    parts: tuple[int, ...]
    axes: tuple[int | Lookup | None, ...]

    def within(self, outer: tuple[int, ...]) -> "Spread":
        """The entries of copies of the program: axes `outer` in front are axes of groups, too."""
        num = len(outer)
        moved = [
            axis.within(num) if isinstance(axis, Lookup) else None if axis is None else axis + num
            for axis in self.axes
        ]
        parts = tuple(axis + num for axis in self.parts)
        return Spread((*outer, *self.shape), parts, (*range(num), *moved))

    @property
    def shape_of_site(self) -> tuple[int, ...]:
        """The shape of the log probability of the site."""
        return tuple(n for i, n in enumerate(self.shape) if i not in self.parts)

    def numbers_of_groups(self, sizes: Sequence[int]) -> np.ndarray | None:
        """The number of the group of each part; None if it is not known."""
        found = np.zeros((1,) * len(self.shape), np.int64)
        along = np.indices(self.shape, sparse=True)
        for axis, size in zip(self.axes, sizes, strict=True):
            if axis is None:
                return None
            index = axis.along(len(self.shape)) if isinstance(axis, Lookup) else along[axis]
            found = found * size + index
        return np.broadcast_to(found, self.shape)

    @property
    def numbers_of_entries(self) -> np.ndarray:
        """The number of the entry of the log probability that each part belongs to."""
        numbers = np.arange(math.prod(self.shape_of_site)).reshape(self.shape_of_site)
        return np.broadcast_to(np.expand_dims(numbers, self.parts), self.shape)


@dataclasses.dataclass(frozen=True)
class GroupScores:
    """Layout of a log sum or log integral: a number for each group of entries, and its entries.

    Attributes:
        taken_out: The sites that are summed or integrated out.
        sizes: The shape of the numbers: one for each group.
        spreads: The sites and factors that are scored, in the order of the program.
        time: The axis of the steps of a chain, whose numbers are conditional on the data of the
            steps before; None if there is no chain.
        is_reversed: Whether the last step comes first.
        data: The sites that are taken out but also have known entries, which are scored.
    """

    taken_out: tuple[Path, ...]
    sizes: tuple[int, ...]
    spreads: tuple[tuple[Path, Spread], ...]
    time: int | None = None
    is_reversed: bool = False
    data: tuple[Path, ...] = ()

    def __hash__(self) -> int:
        """The hash, which is kept: indices may be long."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.taken_out, self.sizes, self.spreads, self.time, self.data))

    def within(self, outer: tuple[int, ...]) -> "GroupScores":
        """The layout for copies of the program, with axes of `vmap` or a loop in front."""
        if not outer:
            return self
        return dataclasses.replace(
            self,
            sizes=(*outer, *self.sizes),
            spreads=tuple((path, spread.within(outer)) for path, spread in self.spreads),
            time=None if self.time is None else self.time + len(outer),
        )

    @property
    def path(self) -> Path:
        """The joint name of the groups: all sites taken out or scored, in their common scope."""
        paths = (*self.taken_out, *dict(self.spreads))
        depth = 0
        while all(len(p) > depth + 1 and p[depth] == paths[0][depth] for p in paths):
            depth += 1
        return (*paths[0][:depth], ".".join(join_scopes(p[depth:]) for p in paths))

    @functools.cached_property
    def _entry_of_group(self) -> np.ndarray | None:
        """The entry that each group belongs to, -1 for none; None if a group holds several."""
        if len(self.spreads) != 1 or self.data:
            return None
        ((_, spread),) = self.spreads
        groups = spread.numbers_of_groups(self.sizes)
        if groups is None:
            return None
        entry_of_group = np.full(math.prod(self.sizes), -1)
        entry_of_group[groups] = spread.numbers_of_entries
        is_single = np.array_equal(entry_of_group[groups], spread.numbers_of_entries)
        return entry_of_group if is_single else None

    @property
    def are_apart(self) -> bool:
        """Whether only one site is scored, and each number belongs to one entry of it."""
        return self._entry_of_group is not None

    @property
    def time_of_site(self) -> int | None:
        """The axis of steps in the log probability of the single scored site, or None."""
        ((_, spread),) = self.spreads
        axis = None if self.time is None else spread.axes[self.time]
        if not isinstance(axis, int):
            return None
        return axis - sum(i < axis for i in spread.parts)

    def arrange(self, found: jax.Array) -> jax.Array:
        """The numbers in the shape of the single scored site, if `are_apart`; else unchanged."""
        entries = self._entry_of_group
        if entries is None:
            return found
        ((_, spread),) = self.spreads
        shape = spread.shape_of_site
        axes = [axis for axis in spread.axes if isinstance(axis, int)]
        if len(axes) == len(self.sizes) and math.prod(self.sizes) == math.prod(shape):
            return jnp.transpose(found, np.argsort(axes).tolist()).reshape(shape)
        kept = entries >= 0
        num = math.prod(shape)
        flat = found.reshape(-1)
        if np.count_nonzero(kept) > num:  # Parts of one event are in several groups.
            return jnp.zeros(num, flat.dtype).at[entries[kept]].add(flat[kept]).reshape(shape)
        group_of_entry = np.flatnonzero(kept)[np.argsort(entries[kept])]
        return flat[group_of_entry].reshape(shape)

    def arrange_factor(self, factor: jax.Array) -> jax.Array:
        """Factors of the numbers, arranged as the numbers are."""
        factor = jnp.broadcast_to(factor, self.sizes)
        entries = self._entry_of_group
        if entries is None:
            return factor
        ((_, spread),) = self.spreads
        _, group_of_entry = np.unique(entries, return_index=True)
        group_of_entry = group_of_entry[np.count_nonzero(np.any(entries < 0)) :]
        in_order = np.array_equal(group_of_entry, np.arange(factor.size))
        if in_order and spread.shape_of_site == self.sizes:
            return factor
        return factor.reshape(-1)[group_of_entry].reshape(spread.shape_of_site)

    def groups_of_entries(self, path: Path) -> np.ndarray | None:
        """The number of the group of each entry of a site; -1 for an entry with several groups.

        The result is None if the numbers are not known.
        """
        spread = dict(self.spreads)[path]
        groups = spread.numbers_of_groups(self.sizes)
        if groups is None:
            return None
        low = groups.min(spread.parts)
        high = groups.max(spread.parts)
        return np.where(low == high, low, -1)

    def has_rows(self, num_axes: int) -> bool:
        """Whether the first axes of the numbers are the first axes of each site, in order."""
        front = self.sizes[:num_axes]
        num_within = math.prod(self.sizes[num_axes:])
        for path, spread in self.spreads:
            groups = self.groups_of_entries(path)
            if groups is None or spread.shape_of_site[:num_axes] != front:
                return False
            rows = np.arange(math.prod(front)).reshape(*front, *[1] * (groups.ndim - num_axes))
            if not np.all(groups // max(num_within, 1) == rows):
                return False
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class JointlyScored(distribution_protocol.DistributionWrapper):
    """Base class of the distributions of sites that are scored together.

    One of these sites, the host, has their joint score as its log probability; the others have 0.

    Attributes:
        base: A distribution with the site's support and map from unconstrained space.
        path: The path of the site.
        is_host: Whether the log probability of the whole group is scored here.
        scores: The layout of the group's log probability; None if the site is scored by itself.
        by_step: Whether an integral is scored by one number for each independent group or step.
            For a chain of normal states, this takes longer than one number for all steps.
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
    """The wrapper that scores a site with others, without arrays; None if it is scored alone.

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
