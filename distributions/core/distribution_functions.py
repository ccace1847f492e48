"""Distribution functions: derived from those that a row gives, and continued off the support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import convert, select
from distributions.constraints.base import Constraint, bounds
from distributions.core.row import Formula, Row
from distributions.numerics.special import complement_of_exp, log1mexp

# Values below the support and above it.
ENDS = {
    "cdf": (0.0, 1.0),
    "survival": (1.0, 0.0),
    "log_cdf": (-np.inf, 0.0),
    "log_survival": (0.0, -np.inf),
}
OPPOSITE = {
    "cdf": "survival",
    "survival": "cdf",
    "log_cdf": "log_survival",
    "log_survival": "log_cdf",
}


def _log(x: Array) -> Array:
    return select(x > 0, jnp.log(select(x > 0, x, 1)), -jnp.inf)


def cumulative_formula(row: Row, name: str) -> Formula | None:
    """A row's formula for a distribution function, or one derived from another; else None."""
    other = OPPOSITE[name]
    is_log = name.startswith("log_")
    same = name.removeprefix("log_") if is_log else f"log_{name}"
    opposite = OPPOSITE[same]
    # From the most to the least precise.
    ways: list[tuple[str, Callable[[Array], Array]]] = [
        (name, lambda p: p),
        (same, _log if is_log else jnp.exp),
        (other, log1mexp if is_log else lambda p: 1 - p),
        (opposite, (lambda p: jnp.log1p(-p)) if is_log else complement_of_exp),
    ]
    for given, transform in ways:
        formula = getattr(row, given)
        if formula is not None:
            return lambda *args, f=formula, transform=transform: transform(jnp.asarray(f(*args)))
    return None


def evaluate_within_support(
    name: str, formula: Formula, support: Constraint, x: Array, parameters: tuple[Any, ...]
) -> Array:
    """A distribution function at `x`, also off the support, at infinity and at NaN."""
    low, high = (convert(end, x.dtype) for end in bounds(support))
    is_below = x < low if support.is_discrete else x <= low
    is_inside = ~is_below & (x < high)
    x = jnp.floor(x) if support.is_discrete else x
    safe = select(is_inside, x, convert(support.feasible(), x.dtype))
    below, above = ENDS[name]
    beyond = select(is_below, below, select(x >= high, convert(above, x.dtype), jnp.nan))
    return select(is_inside, formula(safe, *parameters), beyond)


def between_ends(formula: Formula, support: Constraint) -> Formula:
    """A formula of a quantile, replaced by the ends of the support at 0 and 1."""

    def quantile(q: Array, *parameters: Any) -> Array:
        low, high = (convert(end, q.dtype) for end in bounds(support))
        x = formula(select((q > 0) & (q < 1), q, 0.5), *parameters)
        return select(q <= 0, low, select(q >= 1, high, x))

    return quantile
