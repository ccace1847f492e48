"""Rows of the table of families, and the parameters that a row has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from distributions.constraints.base import Constraint, Shape
from distributions.core.exponential_family import ExponentialFamily
from distributions.core.standard_form import Factor, ImageOf, LocationScale

Formula = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """Support and formulas of a family, beside its parameters; `core.family` explains each."""

    support: Constraint | Callable[..., Constraint]
    log_prob: Formula | None = None
    sample: Formula | None = None
    mean: Formula | None = None
    variance: Formula | None = None
    mode: Formula | None = None
    entropy: Formula | None = None
    cdf: Formula | None = None
    survival: Formula | None = None
    log_cdf: Formula | None = None
    log_survival: Formula | None = None
    quantile: Formula | None = None
    is_flat: bool = False
    has_finite_slopes: bool = False
    has_steep_ends: bool = False
    reads_points: bool = False
    is_reparameterized: bool = True
    event_shape: Callable[..., Shape] | None = None
    requires: Callable[..., str | None] | None = None
    one_of: tuple[str | tuple[str, ...], ...] = ()
    standard: LocationScale | ImageOf | Factor | None = None
    conjugate: ExponentialFamily | None = None
    increasing: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Parameter of a family: its name, the constraint on its events and their number of axes."""

    name: str
    constraint: Constraint
    event_ndims: int
