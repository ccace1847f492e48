"""Strategies of marginalize: how sites are taken out of a program."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ppl.core.model_run import ModelRun
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.names import suggest_names
from ppl.harvest.program import Program
from ppl.harvest.survey import Path, describe, join_scopes
from ppl.marginal.block_integral import BlockIntegral, find_equal_inputs
from ppl.marginal.finite_supports import find_states
from ppl.marginal.gaussian_integral import GaussianIntegral
from ppl.marginal.laplace_integral import LaplaceIntegral
from ppl.marginal.ordered_layout import find_known_inputs
from ppl.marginal.summation import Summation
from ppl.primitives.site_kinds import LATENT, Hidden, kind_of


@dataclasses.dataclass(frozen=True)
class Enumerate:
    """Strategy of `marginalize`: the states of a discrete site are summed over.

    Attributes:
        max_states: The largest number of states that one table may have, 65,536 by default; a
            larger sum is an error.
    """

    max_states: int = 2**16

    def __post_init__(self) -> None:
        """Check the limit."""
        _check_limit("Enumerate", "max_states", self.max_states)


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """Strategy of `marginalize`: sites that are jointly normal given all others are integrated out.

    Attributes:
        max_block: The largest number of elements that are coupled as a whole, whose precision
            matrix is dense, 4,096 by default; more are an error.
    """

    max_block: int = 2**12

    def __post_init__(self) -> None:
        """Check the limit."""
        _check_limit("Gaussian", "max_block", self.max_block)


@dataclasses.dataclass(frozen=True)
class Laplace:
    """Strategy of `marginalize`: real sites are integrated out by Laplace's approximation.

    The approximation is about the mode that Newton's method finds from 0. Other modes of the sites
    given the rest do not enter it. :func:`inference.nested_laplace` looks for them, and so does
    :func:`inference.mcmc` at one draw of the rest. Where no mode is found, as at a saddle, or where
    the density grows without end, the density of the rest is NaN under ``jax.jit``, and an
    error that names the sites otherwise.

    Attributes:
        tolerance: Newton's method ends at about so many nats below the mode of the sites given all
            others, or where rounding hides how far it is. The log integral then errs by at most
            about the square root of twice that. It starts from 0, where the density must not be 0.
        max_steps: The largest number of Newton steps.
        max_block: The largest number of elements that are coupled as a whole, whose precision
            matrix is dense, 4,096 by default; more are an error.
        num_proposals: The number of draws from which `recover` chooses one, by importance weights,
            for each part that is independent of the others; effects that are nested in effects
            are one part, whose draw is chosen as a whole. Each part then has the weight of
            their mean, which varies less than that of one draw: of hundreds of parts with one draw
            each, the product is of no use.
    """

    tolerance: float = 1e-20
    max_steps: int = 100
    max_block: int = 2**12
    num_proposals: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        is_number = isinstance(self.tolerance, float | int | np.floating)
        if not (is_number and 0 < self.tolerance <= 1):
            raise ValueError(
                "Laplace: tolerance must be a number of nats above 0 and at most 1, got "
                f"{self.tolerance!r}. The distribution is distributions.Laplace."
            )
        _check_limit("Laplace", "max_block", self.max_block)
        _check_limit("Laplace", "max_steps", self.max_steps)
        _check_limit("Laplace", "num_proposals", self.num_proposals)


Strategy = Enumerate | Gaussian | Laplace

_EXPECTED = (
    'expected a list of names of sites, as ["z"], a dict from names to ppl.Enumerate(), '
    "ppl.Gaussian() or ppl.Laplace(), or the rule ppl.auto_marginal"
)


def _check_limit(where: str, name: str, limit: Any) -> None:
    is_count = isinstance(limit, int | np.integer) and not isinstance(limit, bool)
    if not (is_count and limit >= 1):
        raise ValueError(f"{where}: {name} must be an integer of at least 1, got {limit!r}.")


def make_elimination(
    program: Program,
    sites: Sequence[Path],
    strategies: Collection[Strategy],
    scored: tuple[Path, ...],
) -> Summation | BlockIntegral:
    """The sum or the integral over sites with strategies of one kind."""
    equal = find_equal_inputs(program.inputs)
    laplace = [strategy for strategy in strategies if isinstance(strategy, Laplace)]
    gaussian = [strategy for strategy in strategies if isinstance(strategy, Gaussian)]
    if not laplace and not gaussian:
        sums = [strategy for strategy in strategies if isinstance(strategy, Enumerate)]
        max_states = max((strategy.max_states for strategy in sums), default=1)
        return Summation(program.jaxpr, find_states(program, sites), max_states, scored, equal)
    max_block = max(strategy.max_block for strategy in (*gaussian, *laplace))
    common = program.jaxpr, tuple(sites), max_block, scored, equal
    known = find_known_inputs(program.inputs)
    if laplace:
        tolerance = min(strategy.tolerance for strategy in laplace)
        max_steps = max(strategy.max_steps for strategy in laplace)
        num_proposals = max(strategy.num_proposals for strategy in laplace)
        numbers = tolerance, max_steps, num_proposals
        integral = LaplaceIntegral(*common, *numbers, known=known)
    else:
        integral = GaussianIntegral(*common, known=known)
    integral.check()
    return integral


def find_latent(run: ModelRun, names: Collection[str]) -> list[Path]:
    """The paths of the sites that are to be taken out of a model.

    Raises:
        ValueError: If a name is unknown, or its site is not latent.
    """
    by_name = {join_scopes(path): path for path in run.sites}
    latent = [path for path in run.sites if kind_of(run.sites[path].site) == LATENT]
    for name in names:
        path = by_name.get(name)
        if path is None:
            raise ValueError(
                f"marginalize: {run.name} has no site {name!r}"
                f"{run.explain_gone(name)}. "
                f"{suggest_names(latent, what='latent sites')}"
            )
        if path not in latent:
            site = run.sites[path].site
            kind = "taken out already" if site.tag == Hidden.RECOVERED else kind_of(site)
            raise ValueError(
                f"marginalize: site {describe(path)} of {run.name} is {kind}. "
                f"{suggest_names(latent, what='latent sites')}"
            )
    return [by_name[name] for name in names]


def name_strategies(sites: Any) -> dict[str, Strategy]:
    """The strategy for each site that is to be taken out, by name.

    Raises:
        TypeError: If a name is not a string, or a strategy is not `Enumerate`, `Gaussian` or
            `Laplace`.
    """
    if isinstance(sites, str) or not isinstance(sites, Collection):
        written = f"; write [{sites!r}]" if isinstance(sites, str) else ""
        raise TypeError(f"marginalize: {_EXPECTED}, got {short_repr(sites)}{written}.")
    strategies: dict[str, Strategy] = dict(
        sites if isinstance(sites, Mapping) else dict.fromkeys(sites, Enumerate())
    )
    for name, strategy in strategies.items():
        if not isinstance(name, str):
            raise TypeError(f"marginalize: {_EXPECTED}, got the name {name!r}.")
        if not isinstance(strategy, Strategy):
            called = isinstance(strategy, type) and issubclass(strategy, Strategy)
            written = f"; write ppl.{strategy.__name__}()" if called else ""
            raise TypeError(
                f"marginalize: {_EXPECTED}, got {name!r}: {short_repr(strategy)}{written}."
            )
    return strategies
