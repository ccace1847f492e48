"""Degrees of the terms of a model's log density in its sites, read off the program."""

import dataclasses
from collections.abc import Collection
from typing import Any

import jax

from ppl.harvest.names import nest_by_path
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

        self._traced = jax.make_jaxpr(scores)(leaves)
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

    def are_quadratic(self, sites: Collection[Path]) -> bool:
        """Whether all terms are quadratic functions of some sites, jointly."""
        return all(x.cause is None for x in self.of(sites).values())
