"""Scored entries: the entries of sites that each log probability of a model belongs to."""

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from ppl.common.missing_data import is_imputed
from ppl.core.joint_scores import GroupScores, joint_score_of, name_of_score
from ppl.harvest.survey import Path, Sites, join_scopes
from ppl.primitives.site_kinds import FACTOR, LATENT, OBSERVED, kind_of


@dataclasses.dataclass(frozen=True)
class ScoredEntries:
    """Log probabilities under one name, and the entries of sites that they belong to.

    Attributes:
        name: The name in `log_probs`, scopes joined by dots: of a site, or of groups of entries
            that a marginalized model scores together.
        shape: The shape of the log probabilities.
        kinds: The kinds of the sites, by name.
        groups: The entries of each group that has one log probability; None if each log probability
            belongs to one entry of one site.
        paths: The paths of the sites in `groups`, by name.
        time: The axis along which each log probability is conditional on the entries before; None
            if all log probabilities are independent given the latent sites.
        is_reversed: Whether the last step comes first along `time`.
    """

    name: str
    shape: tuple[int, ...]
    kinds: tuple[tuple[str, str], ...]
    groups: GroupScores | None = None
    paths: tuple[tuple[str, Path], ...] = ()
    time: int | None = None
    is_reversed: bool = False

    @property
    def kind(self) -> str | None:
        """The kind that all of its sites have; None if sites have different kinds."""
        kinds = {kind for _, kind in self.kinds}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of its sites."""
        return tuple(name for name, _ in self.kinds)

    @property
    def taken_out(self) -> tuple[str, ...]:
        """The names of the sites that are summed or integrated out of groups."""
        return () if self.groups is None else tuple(map(join_scopes, self.groups.taken_out))

    @property
    def imputed(self) -> tuple[str, ...]:
        """The names of the sites taken out whose known entries are scored, too."""
        return () if self.groups is None else tuple(map(join_scopes, self.groups.data))

    @property
    def site_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of the log probability that each site has by itself."""
        if self.groups is None:
            return dict.fromkeys(self.sites, self.shape)
        spreads = dict(self.groups.spreads)
        return {name: spreads[path].shape_of_site for name, path in self.paths}

    def numbers_of_entries(self, site: str) -> np.ndarray | None:
        """The number of the log probability that each entry of a site belongs to.

        The number is -1 for an entry that belongs to several log probabilities. The result is None
        if the numbers are not known.
        """
        if self.groups is None:
            return np.arange(math.prod(self.shape)).reshape(self.shape)
        return self.groups.groups_of_entries(dict(self.paths)[site])

    @functools.cached_property
    def rows(self) -> np.ndarray | None:
        """The row that each log probability belongs to: an index on axis 0 of all sites.

        None if a log probability belongs to several rows, or if its rows are not known.
        """
        rows = np.full(math.prod(self.shape), -1)
        for site, shape in self.site_shapes.items():
            numbers = self.numbers_of_entries(site)
            if numbers is None or np.any(numbers < 0):
                return None
            row = np.arange(shape[0] if shape else 1)
            row = np.broadcast_to(row.reshape(-1, *[1] * max(0, len(shape) - 1)), shape or (1,))
            row = np.ravel(row)
            numbers = np.ravel(numbers)
            if np.any((rows[numbers] >= 0) & (rows[numbers] != row)):
                return None
            rows[numbers] = row
            if not np.array_equal(rows[numbers], row):
                return None
        return rows.reshape(self.shape)


def find_scored(sites: Sites, shapes: Mapping[Path, tuple[int, ...]]) -> tuple[ScoredEntries, ...]:
    """The log probabilities of a model by name, and the entries that they belong to.

    Args:
        sites: The random sites and factors of the model.
        shapes: The shape of the log probabilities that are recorded at each site, by path.
    """
    found: dict[str, ScoredEntries] = {}
    for path, site in sites.items():
        marginal = joint_score_of(site.site)
        own = ((join_scopes(path), kind_of(site.site)),)
        scores = None if marginal is None else marginal.scores
        if scores is not None:  # The program with the sum may be in a vmap or a loop.
            scores = scores.within(shapes[path][: len(site.site.axes) + site.depth])
        if marginal is None or scores is None:
            found[own[0][0]] = ScoredEntries(own[0][0], shapes[path], own)
        elif scores.are_apart:
            found[own[0][0]] = ScoredEntries(
                own[0][0],
                shapes[path],
                own,
                time=scores.time_of_site,
                is_reversed=scores.is_reversed,
            )
        else:
            name = join_scopes(name_of_score(path, marginal))
            outer = path[: len(path) - len(marginal.path)]
            found[name] = _of_groups(name, sites, outer, scores)
    return tuple(found.values())


def _of_groups(name: str, sites: Sites, outer: Path, scores: GroupScores) -> ScoredEntries:
    """The log probabilities of groups of entries of some sites."""
    kinds = []
    paths = []
    for path, _ in scores.spreads:
        site = sites.get((*outer, *path))
        kind = FACTOR if site is None else kind_of(site.site)
        kinds.append((join_scopes((*outer, *path)), kind))
        paths.append((join_scopes((*outer, *path)), path))
        if site is not None and kind == LATENT and any(map(is_imputed, site.sites)):
            kinds.append((join_scopes((*outer, *path)), OBSERVED))
    return ScoredEntries(
        name, scores.sizes, tuple(kinds), scores, tuple(paths), scores.time, scores.is_reversed
    )
