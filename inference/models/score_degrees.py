"""Degrees of the terms of a model's log density in its sites, read off the program."""

import dataclasses
from collections.abc import Collection
from typing import Any

import jax

from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.survey import Path
from ppl.marginal.degree import CONSTANT, Degree, find_degrees
from ppl.transforms.unconstrain import Unconstrained


@dataclasses.dataclass(frozen=True)
class _Name:
    """Path of a site as a leaf."""

    path: Path


class ScoreDegrees:
    """Degrees of the terms of a log density in some sites, read off its program.

    Attributes:
        latent: Latent sites with their shapes.
        prior: Sites whose terms are those of latent sites.
        scored: All sites and factors with a term.
    """

    def __init__(self, target: Unconstrained) -> None:
        self.latent = dict(target.shapes)
        named = {p: jax.tree.map(lambda _, p=p: _Name(p), x) for p, x in self.latent.items()}
        self._names = [x.path for x in jax.tree.leaves(nest_by_path(named))]
        leaves, structure = jax.tree.flatten(target.position_shapes)
        scored: list[Path] = []

        def scores(leaves: list[Any]) -> list[jax.Array]:
            terms = target.log_densities(jax.tree.unflatten(structure, leaves))
            scored[:] = terms
            return list(terms.values())

        def constrained(leaves: list[Any]) -> list[list[jax.Array]]:
            values = target.constrain(jax.tree.unflatten(structure, leaves))
            by_path = dict(paths_in(values, self.latent))
            return [jax.tree.leaves(by_path[path]) for path in self.latent]

        self._traced = jax.make_jaxpr(scores)(leaves)
        self._values = lambda: jax.make_jaxpr(constrained, return_shape=True)(leaves)
        self.scored = tuple(scored)
        self.prior = tuple(path for path in scored if path in self.latent)

    def of(self, sites: Collection[Path]) -> dict[Path, Degree]:
        """The degree of each term in some sites, all others held."""
        operands = [Degree(1, frozenset([x])) if x in sites else CONSTANT for x in self._names]
        return dict(zip(self.scored, find_degrees(self._traced, operands), strict=True))

    def of_prior(self, sites: Collection[Path]) -> dict[Path, Degree]:
        """The degrees of the terms of latent sites."""
        found = self.of(sites)
        return {path: found[path] for path in self.prior}

    def has_linear_values(self, site: Path) -> bool:
        """Whether the values of a site are linear functions of its position, as of a real site."""
        traced, shapes = self._values()
        operands = [Degree(1, frozenset([x])) if x == site else CONSTANT for x in self._names]
        degrees = iter(find_degrees(traced, operands))
        by_site = {p: [next(degrees) for _ in x] for p, x in zip(self.latent, shapes, strict=True)}
        return all(x.degree <= 1 for x in by_site[site])

    def are_quadratic(self, sites: Collection[Path]) -> bool:
        """Whether all terms are quadratic functions of some sites, jointly."""
        return all(x.cause is None for x in self.of(sites).values())
