"""Units of cross-validation: which log probabilities are one observation."""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

_KINDS = ("element", "row")
_BATCH = (
    "Each log probability is one: give the distribution a batch, as dist.Normal(loc * jnp.ones(n), "
    "scale), in place of dist.iid or one joint event."
)


@dataclasses.dataclass(frozen=True)
class Units:
    """Observations that are left out and predicted, each made of log probabilities of sites.

    Attributes:
        numbers: Number of the unit of each log probability by site; -1 for those of no unit.
        names: Name of each unit.
        kind: ``"element"`` or ``"row"``.
    """

    numbers: dict[str, np.ndarray]
    names: tuple[str, ...]
    kind: str

    @classmethod
    def of(
        cls,
        shapes: Sequence[tuple[str, tuple[int, ...]]],
        missing: Mapping[str, Any],
        sites: str | Sequence[str] | None = None,
        kind: str = "element",
        remedy: str = _BATCH,
    ) -> "Units":
        """Units of observed sites.

        Args:
            shapes: Name of each observed site, and the shape of its log probabilities.
            missing: Flags of the log probabilities that are left out, by site.
            sites: Names of the sites whose observations are units; by default all.
            kind: ``"element"``: each log probability is a unit. ``"row"``: the log probabilities
                with one index on axis 0 are a unit, those of all sites together.
            remedy: Advice for fewer than two units.

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
        by_site = _rows if kind == "row" else _elements
        numbers, names = by_site({n: np.asarray(missing[n]) for n in chosen})
        rest = {n: np.full(s, -1) for n, s in known.items() if n not in chosen}
        if len(names) < 2:
            raise ValueError(
                f"{', '.join(chosen)}: cross-validation needs two observations at least, got "
                f"{len(names)}. {remedy}"
            )
        return cls({**numbers, **rest}, names, kind)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def num_rows(self) -> int:
        """Number of rows of the sites whose observations are units, missing ones included."""
        return max(len(np.atleast_1d(x)) for x in self.numbers.values() if (x >= 0).any())

    @property
    def rows(self) -> np.ndarray:
        """Row of each unit, ``(unit,)``."""
        rows = np.zeros(len(self), int)
        for numbers in self.numbers.values():
            places = np.argwhere(np.atleast_1d(numbers) >= 0)
            rows[numbers[numbers >= 0]] = places[:, 0]
        return rows

    def digest(self, data: Mapping[str, Any]) -> np.ndarray:
        """Checksum of the data of each unit, ``(unit,)``; equal for equal data in any dtype.

        Args:
            data: Values of observed sites, the axes of the log probabilities in front.
        """
        digests = np.zeros(len(self), np.uint32)
        for name, numbers in self.numbers.items():
            kept = numbers >= 0
            for leaf in jax.tree.leaves(data[name]):
                x: Any = np.asarray(leaf)
                parts = np.stack([x.real, x.imag], -1) if np.iscomplexobj(x) else x
                rows = np.asarray(parts, np.float32)[kept] + np.float32(0)  # no -0
                for unit, row in zip(numbers[kept].tolist(), rows, strict=True):
                    digests[unit] = zlib.crc32(row.tobytes(), int(digests[unit]))
        return digests

    def gather(self, log_probs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log probabilities of units, ``(chain, draw, unit)``, summed within each unit."""
        num_leading = 2
        parts, places = [], []
        for name, numbers in self.numbers.items():
            x = log_probs[name]
            flat, kept = x.reshape(*x.shape[:num_leading], -1), numbers.ravel() >= 0
            parts.append(flat if kept.all() else flat[..., kept])
            places.append(numbers.ravel()[kept])
        whole, place = np.concatenate(parts, -1), np.concatenate(places)
        order = np.argsort(place, kind="stable")
        if not np.array_equal(order, np.arange(place.size)):
            whole, place = whole[..., order], place[order]
        if place.size == len(self):
            return whole
        starts = np.searchsorted(place, np.arange(len(self)))
        return np.add.reduceat(whole.astype(np.float64), starts, -1)

    def counts(self, held_out: np.ndarray) -> dict[str, np.ndarray]:
        """Flags by site: False for the log probabilities of units that are held out."""
        is_out = np.append(np.zeros(len(self), bool), False)
        is_out[held_out] = True
        return {name: ~is_out[numbers] for name, numbers in self.numbers.items()}


def _elements(missing: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    numbers, names = {}, []
    for name, flags in missing.items():
        places = np.argwhere(~flags)
        number = np.full(flags.shape, -1)
        number[~flags] = len(names) + np.arange(len(places))
        numbers[name] = number
        names += [_label(name, place) for place in places.tolist()]
    return numbers, tuple(names)


def _rows(missing: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    lengths = {name: flags.shape[0] if flags.ndim else 1 for name, flags in missing.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the sites have different numbers of rows: {found}; choose by site=")
    num_rows = next(iter(lengths.values()))
    has_any = np.zeros(num_rows, bool)
    for flags in missing.values():
        has_any |= (~flags).reshape(num_rows, -1).any(1)
    number_of_row = np.where(has_any, np.cumsum(has_any) - 1, -1)
    numbers = {}
    for name, flags in missing.items():
        rows = np.reshape(number_of_row, (num_rows,) + (1,) * max(0, flags.ndim - 1))
        numbers[name] = np.where(flags, -1, np.broadcast_to(rows, flags.shape or (1,)))
    label = next(iter(missing)) if len(missing) == 1 else "row"
    return numbers, tuple(_label(label, [row]) for row in np.flatnonzero(has_any).tolist())


def _label(name: str, place: Sequence[int]) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name
