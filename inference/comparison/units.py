"""Units of cross-validation: which log probabilities are one observation."""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.common.leaf_names import element_names, leading_labels

Labels = Sequence[tuple[str, Sequence[Any] | None] | None]
_KINDS = ("element", "row", "group")
_BATCH = (
    "Each log probability is one: give the distribution a batch, as dist.Normal(loc * jnp.ones(n), "
    "scale), in place of dist.iid or one joint event."
)


@dataclasses.dataclass(frozen=True)
class Groups:
    """Groups of entries of sites; a group has one log probability.

    Attributes:
        entries: Number of the group of each entry by site; `None` if the numbers are not known.
        rows: Row of each group, of the shape of the log probabilities; `None` if a group has
            several rows.
        num_rows: Number of rows.
    """

    entries: Mapping[str, np.ndarray | None]
    rows: np.ndarray | None
    num_rows: int

    @property
    def label(self) -> str:
        """Words for the sites."""
        return ", ".join(self.entries)


@dataclasses.dataclass(frozen=True)
class Units:
    """Observations that are left out and predicted, each made of log probabilities of sites.

    Attributes:
        numbers: By name, the number of the unit of each log probability; -1 outside of all units.
        names: Name of each unit.
        kind: ``"element"``, ``"row"`` or ``"group"``.
        rows: Row of each unit, ``(unit,)``, if they are rows.
        row_names: Name of each row, missing ones included, if they are rows.
        groups: Groups of entries by the name of their log probabilities.
    """

    numbers: dict[str, np.ndarray]
    names: tuple[str, ...]
    kind: str
    rows: np.ndarray
    row_names: tuple[str, ...]
    groups: Mapping[str, Groups]

    @property
    def num_rows(self) -> int:
        """Number of rows, missing ones included, if units are rows."""
        return len(self.row_names)

    @classmethod
    def of(
        cls,
        shapes: Sequence[tuple[str, tuple[int, ...]]],
        missing: Mapping[str, Any],
        sites: str | Sequence[str] | None = None,
        kind: str = "element",
        remedy: str = _BATCH,
        groups: Mapping[str, Groups] | None = None,
        labels: Mapping[str, Labels] | None = None,
    ) -> "Units":
        """Units of observed sites.

        Args:
            shapes: Name of each observed site, or of groups of entries, and the shape of its log
                probabilities.
            missing: Flags of the log probabilities that are left out, by name.
            sites: The names whose observations are units; by default all.
            kind: ``"element"`` or ``"group"``: each log probability is a unit. ``"row"``: the log
                probabilities of all sites with one index on axis 0 are a unit.
            remedy: Advice for fewer than two units.
            groups: The groups of entries by name.
            labels: For axes of the values of a site, from the first on, None or the name of the
                dimension with the names of its entries.

        Raises:
            ValueError: if a name is unknown, sites have different numbers of rows, or there are
                fewer than two units.
        """
        known = dict(shapes)
        chosen = [sites] if isinstance(sites, str) else list(known if sites is None else sites)
        for name in chosen:
            if name not in known:
                raise ValueError(
                    f"site: the model has no observed site {name!r}; it has {', '.join(known)}"
                )
        if kind not in _KINDS:
            raise ValueError(f"unit must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
        groups = groups or {}
        flags = {n: np.asarray(missing[n]) for n in chosen}
        rows = np.zeros(0, int)
        row_names: tuple[str, ...] = ()
        if kind == "row":
            numbers, rows, row_names = _rows(flags, groups, labels or {})
            names = tuple(row_names[row] for row in rows.tolist())
        else:
            numbers, names = _elements(flags, groups, labels or {})
        rest = {n: np.full(s, -1) for n, s in known.items() if n not in chosen}
        if len(names) < 2:
            num_missing = sum(int(flag.sum()) for flag in flags.values())
            if num_missing:
                remedy = f"{num_missing} entries are missing; give data for two at least."
            raise ValueError(
                f"{', '.join(groups[n].label if n in groups else n for n in chosen)}: "
                "cross-validation needs two observations at least, got "
                f"{len(names)}. {remedy}"
            )
        return cls({**numbers, **rest}, names, kind, rows, row_names, groups)

    def __len__(self) -> int:
        return len(self.names)

    def _of_entries(self) -> dict[str, tuple[np.ndarray, bool]]:
        """Number of the unit of each entry by site; where unknown, the units that it may be of."""
        found = {}
        for name, numbers in self.numbers.items():
            entries = self.groups[name].entries if name in self.groups else {name: None}
            for site, groups in entries.items():
                if groups is None:
                    found[site] = numbers, name in self.groups
                else:
                    found[site] = np.where(groups >= 0, np.ravel(numbers)[groups], -1), False
        return found

    def digest(self, data: Mapping[str, Any], missing: Mapping[str, Any]) -> np.ndarray:
        """Checksum of the data of each unit, ``(unit,)``; equal for equal data in any dtype.

        Args:
            data: Values of observed sites, the axes of the log probabilities in front.
            missing: Flags of the entries of these sites that are left out; a group of entries that
                a sum scores together may hold some of them.
        """
        digests = np.zeros(len(self), np.uint32)
        for site, (numbers, is_whole) in self._of_entries().items():
            kept = numbers >= 0
            if not is_whole:
                kept &= ~np.reshape(missing[site], kept.shape)
            for leaf in jax.tree.leaves(data[site]):
                x: Any = np.asarray(leaf)
                parts = np.stack([x.real, x.imag], -1) if np.iscomplexobj(x) else x
                values = np.asarray(parts, np.float32) + np.float32(0)  # no -0
                if kept.ndim and not x.ndim:  # One datum that is a row.
                    values = values[None]
                rows = [values] * np.count_nonzero(kept) if is_whole else values[kept]
                for unit, row in zip(numbers[kept].tolist(), rows, strict=True):
                    digests[unit] = zlib.crc32(row.tobytes(), int(digests[unit]))
        return digests

    def gather(self, log_probs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log probabilities of units, ``(chain, draw, unit)``, summed within each unit."""
        num_leading = 2
        parts = []
        places = []
        for name, numbers in self.numbers.items():
            x = log_probs[name]
            flat = x.reshape(*x.shape[:num_leading], -1)
            kept = numbers.ravel() >= 0
            parts.append(flat if kept.all() else flat[..., kept])
            places.append(numbers.ravel()[kept])
        whole = np.concatenate(parts, -1)
        place = np.concatenate(places)
        order = np.argsort(place, kind="stable")
        if not np.array_equal(order, np.arange(place.size)):
            whole = whole[..., order]
            place = place[order]
        if place.size == len(self):
            return whole
        starts = np.searchsorted(place, np.arange(len(self)))
        return np.add.reduceat(whole.astype(np.float64), starts, -1)

    def counts(self, held_out: np.ndarray) -> dict[str, np.ndarray]:
        """Flags by site: False for the log probabilities of units that are held out."""
        is_out = np.append(np.zeros(len(self), bool), False)
        is_out[held_out] = True
        return {name: ~is_out[numbers] for name, numbers in self.numbers.items()}


def _elements(
    missing: Mapping[str, np.ndarray], groups: Mapping[str, Groups], labels: Mapping[str, Labels]
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Number of the unit of each log probability by site, and names of the units."""
    numbers = {}
    names: list[str] = []
    for name, flags in missing.items():
        places = np.flatnonzero(~flags)
        number = np.full(flags.shape, -1)
        number[~flags] = len(names) + np.arange(len(places))
        numbers[name] = number
        if name in groups:
            of_group = (
                zip(*np.unravel_index(places, flags.shape), strict=True) if flags.ndim else [()]
            )
            names += [_name_group(groups[name].label, place) for place in of_group]
        else:
            every = element_names(
                name, flags.shape, leading_labels(labels.get(name, ()), flags.ndim)
            )
            names += [every[i] for i in places.tolist()]
    return numbers, tuple(names)


def _rows(
    missing: Mapping[str, np.ndarray], groups: Mapping[str, Groups], labels: Mapping[str, Labels]
) -> tuple[dict[str, np.ndarray], np.ndarray, tuple[str, ...]]:
    """Number of the unit of each log probability by site, rows of the units, names of all rows."""
    lengths = {name: flags.shape[0] if flags.ndim else 1 for name, flags in missing.items()}
    lengths |= {name: groups[name].num_rows for name in missing if name in groups}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the sites have different numbers of rows: {found}; choose by site=")
    num_rows = next(iter(lengths.values()))
    has_any = np.zeros(num_rows, bool)
    rows = {}
    for name, flags in missing.items():
        along = np.arange(num_rows).reshape(-1, *[1] * max(0, flags.ndim - 1))
        rows[name] = (
            groups[name].rows if name in groups else np.broadcast_to(along, flags.shape or (1,))
        )
        has_any[rows[name][~flags.reshape(rows[name].shape)]] = True
    number_of_row = np.where(has_any, np.cumsum(has_any) - 1, -1)
    numbers = {
        name: np.where(flags, -1, number_of_row[rows[name]]) for name, flags in missing.items()
    }
    sites = [s for name in missing for s in (groups[name].entries if name in groups else [name])]
    label = sites[0] if len(sites) == 1 else "row"
    of_rows = {leading_labels(labels.get(site, ()), 1) for site in sites}
    along_rows = of_rows.pop() if len(of_rows) == 1 else ()
    return numbers, np.flatnonzero(has_any), tuple(element_names(label, (num_rows,), along_rows))


def _name_group(label: str, place: Sequence[int]) -> str:
    return f"{label}[{' '.join(['group', ','.join(map(str, place))]).strip()}]"
