"""Points of a density by NUTS, where it has too many coordinates to spread points over."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.common.threefry import seed_of
from inference.drivers.evidence import flat_draws
from inference.drivers.mcmc import mcmc
from inference.drivers.run_settings import NUM_DRAWS
from inference.evidence.bridge_sampling import bridge_sampling
from inference.optimization.quadratic_search import Density
from inference.optimization.spread_points import SpreadPoints
from inference.results.diagnostics import ess_bulk
from inference.results.mcmc_result import MCMCResult
from inference.runtime.progress import Shown
from ppl.transforms.unconstrain import Unconstrained


class ChainPoints(NamedTuple):
    """Draws of chains as points.

    Attributes:
        points: The points, of equal weights whose mean is the integral of the density.
        se: Standard error of the log of the integral.
        ess: Effective number of points, the smallest bulk ESS of a coordinate.
        chains: The chains, without their states.
        num_inner_modes: Number of modes of the sites that were integrated out, as in
            :class:`RunFacts`.
    """

    points: SpreadPoints
    se: float
    ess: float
    chains: MCMCResult
    num_inner_modes: int | None


def sample_points(
    key: jax.Array,
    model: Callable[..., Any],
    args: Any,
    kwargs: Any,
    target: Unconstrained,
    log_density: Density,
    *,
    num_points: int,
    num_chains: int,
    num_warmup: int,
    progress: Shown = None,
) -> ChainPoints:
    """Points by NUTS, from all chains alike, and the integral by bridge sampling.

    Args:
        key: Random key.
        model: Model of the density.
        args: Its arguments.
        kwargs: Its arguments by name.
        target: Its density on unconstrained space.
        log_density: Log density of each of several points there.
        num_points: Number of points.
        num_chains: Number of chains.
        num_warmup: Iterations of warm-up of each.
        progress: Whether to show how far the chains are.
    """
    # Keywords that mcmc has, too, are bound to the model that they were given for.
    own = {name: x for name, x in kwargs.items() if name in inspect.signature(mcmc).parameters}
    chains = mcmc(
        key,
        functools.partial(model, **own) if own else model,
        *args,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_draws=max(NUM_DRAWS, -(-num_points // num_chains)),
        progress=progress,
        **{name: x for name, x in kwargs.items() if name not in own},
    )
    # Importance weights of the field say how good the approximation is; the summary has them.
    num_inner_modes = chains.facts.num_inner_modes
    facts = dataclasses.replace(chains.facts, approximate=None, num_inner_modes=None)
    chains = dataclasses.replace(chains, chains=None, facts=facts)
    positions, _ = flat_draws(target, chains)
    bridge = bridge_sampling(log_density, positions, [*map(int, seed_of(key))])
    in_turn = positions.swapaxes(0, 1).reshape(-1, positions.shape[-1])
    rows = np.linspace(0, len(in_turn) - 1, num_points).round().astype(int)
    points = in_turn[rows]
    log_weights = np.full(num_points, bridge.log_integral)
    return ChainPoints(
        SpreadPoints(points, log_density(points), log_weights),
        bridge.se,
        min(float(np.min(ess_bulk(positions))), float(num_points)),
        chains,
        num_inner_modes,
    )
