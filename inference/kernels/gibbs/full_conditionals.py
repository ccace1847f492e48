"""Draws from exact full conditionals of a model: of one site, or of several jointly."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax

import ppl
from inference.models.value_target import ValueTarget
from ppl.common.scaled_distribution import Scaled, ScaledTerm
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path, join_scopes
from ppl.marginal.conditional import find_scored
from ppl.marginal.finite_supports import look_at_distributions
from ppl.transforms.density import LogDensity


def conditional_of(base: ValueTarget, path: Path, values: Mapping[Path, Any]) -> Any:
    """Full conditional of a site given the values of all others, or `None` if it has no form."""
    args, kwargs = base.arguments.join(base.data)
    return ppl.conditional(base.model, join_scopes(path))(nest_by_path(values), *args, **kwargs)


def draw_jointly(
    base: ValueTarget,
    paths: tuple[Path, ...],
    strategy: Any,
    key: jax.Array,
    values: Mapping[Path, Any],
) -> dict[Path, Any]:
    """Joint draw of several sites given all others, by ``ppl.marginalize`` and ``ppl.recover``.

    Raises:
        ValueError: if the sites cannot be taken out jointly and exactly, or ``ppl.scale``
            multiplies scores: ``ppl.recover`` draws without the factors.
    """
    args, kwargs = base.arguments.join(base.data)
    if _has_factors(base):
        raise ValueError("ppl.scale multiplies scores, and joint draws are without its factors")
    marginal = ppl.marginalize(base.model, {join_scopes(path): strategy for path in paths})
    others = {path: x for path, x in values.items() if path not in paths}
    drawn = ppl.recover(marginal, nest_by_path(others))(key, *args, **kwargs)
    return {path: _at(drawn, path) for path in paths}


def coupled_sites(base: ValueTarget, paths: Iterable[Path]) -> list[tuple[Path, ...]]:
    """Sites in groups: those that share a score, given all others, are in one."""
    args, kwargs = base.arguments.join(base.data)
    program = trace_model(base.model, None, args, kwargs)
    sites = ModelRun(base.model, program, LogDensity()).sites
    groups: list[tuple[tuple[Path, ...], frozenset[Path]]] = []
    for path in paths:
        scored = frozenset(find_scored(program, sites, path))
        met = [group for group in groups if group[1] & scored]
        groups = [group for group in groups if not group[1] & scored]
        names = [name for group in met for name in group[0]]
        groups.append(((*names, path), scored.union(*(group[1] for group in met))))
    return [names for names, _ in groups]


def _has_factors(base: ValueTarget) -> bool:
    """Whether ``ppl.scale`` multiplies scores of the model."""
    args, kwargs = base.arguments.join(base.data)
    program = trace_model(base.model, None, args, kwargs)
    sites = ModelRun(base.model, program, LogDensity()).sites

    def is_scaled(_: Any, d: Any) -> bool:
        parts = jax.tree.leaves(d, is_leaf=lambda x: isinstance(x, Scaled | ScaledTerm))
        return any(isinstance(x, Scaled | ScaledTerm) for x in parts)

    return any(found for _, found in look_at_distributions(program.jaxpr, list(sites), is_scaled))


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values[name]
    return values
