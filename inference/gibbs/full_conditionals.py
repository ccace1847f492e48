"""Draws from exact full conditionals of a model: of one site, or of several jointly."""

from collections.abc import Mapping
from typing import Any

import jax

import ppl
from inference.models.discrete_target import DiscreteTarget
from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path, join_scopes


def conditional_of(base: DiscreteTarget, path: Path, values: Mapping[Path, Any]) -> Any:
    """Full conditional of a site given the values of all others, or `None` if it has no form."""
    args, kwargs = base.arguments.join(base.data)
    return ppl.conditional(base.model, join_scopes(path))(nest_by_path(values), *args, **kwargs)


def draw_jointly(
    base: DiscreteTarget,
    paths: tuple[Path, ...],
    strategy: Any,
    key: jax.Array,
    values: Mapping[Path, Any],
) -> dict[Path, Any]:
    """Joint draw of several sites given all others, by ``ppl.marginalize`` and ``ppl.recover``.

    Raises:
        ValueError: if the sites cannot be taken out jointly and exactly.
    """
    args, kwargs = base.arguments.join(base.data)
    marginal = ppl.marginalize(base.model, {join_scopes(path): strategy for path in paths})
    others = {path: x for path, x in values.items() if path not in paths}
    drawn = ppl.recover(marginal, nest_by_path(others))(key, *args, **kwargs)
    return {path: _at(drawn, path) for path in paths}


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values[name]
    return values
