"""Normal priors of models: proof that a log prior density is quadratic."""

import dataclasses
from typing import Any

import jax

from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path, describe, describe_all
from ppl.marginal.degree import CONSTANT, Degree, find_degrees
from ppl.transforms.unconstrain import Unconstrained


def check_normal(target: Unconstrained, where: str, remedy: str) -> None:
    """Checks that the log prior density is quadratic, on unconstrained space.

    Args:
        target: Target, of whose latent sites it is.
        where: Beginning of messages.
        remedy: End of messages, what to do.

    Raises:
        ValueError: if it is not, or does not depend on a site by a square.
    """
    latent = dict(target.shapes)
    named = {path: jax.tree.map(lambda _, path=path: _Name(path), x) for path, x in latent.items()}
    names = [x.path for x in jax.tree.leaves(nest_by_path(named))]
    leaves, structure = jax.tree.flatten(target.position_shapes)
    scored: list[Path] = []

    def scores(leaves: list[Any]) -> list[jax.Array]:
        terms = target.log_densities(jax.tree.unflatten(structure, leaves))
        scored[:] = [path for path in terms if path in latent]
        return [terms[path] for path in scored]

    traced = jax.make_jaxpr(scores)(leaves)

    def degrees(sites: list[Path]) -> dict[Path, Degree]:
        operands = [Degree(1, frozenset([x])) if x in sites else CONSTANT for x in names]
        return dict(zip(scored, find_degrees(traced, operands), strict=True))

    alone = {path: degrees([path]) for path in latent}
    for path, degree in degrees(names).items():
        if degree.cause is None:
            continue
        operation, variables = degree.cause
        guilty = [site for site in latent if alone[site][path].cause is not None]
        if path in guilty:
            found = f"site {describe(path)} is not normal a priori"
        else:
            sites = guilty or [x for x in latent if x in variables and x != path]
            found = (
                f"site {describe(path)} is not normal a priori jointly with {describe_all(sites)}"
            )
        raise ValueError(
            f"{where} {found}: its log density on unconstrained space is not quadratic, by the "
            f"operation {operation!r}. {remedy}."
        )
    for path in latent:
        if max(degree.degree for degree in alone[path].values()) < 2:
            raise ValueError(
                f"{where} site {describe(path)} has an improper prior, from which nothing can be "
                "drawn. Give it a normal prior, or use Slice() or NUTS()."
            )


@dataclasses.dataclass(frozen=True)
class _Name:
    """Path of a site as a leaf."""

    path: Path
