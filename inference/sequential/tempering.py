"""Sequential Monte Carlo along a path: reweight, resample, move, until the target is reached."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.matrices import MAX_DENSE_SIZE, kind_of
from inference.common.threefry import threefry
from inference.kernels.gradient_free.random_walk import RandomWalk
from inference.particles.resampling import systematic
from inference.runtime.compiled_program import compile_once
from inference.sequential.moves import MoveInfo, Mover, Particles, move_particles
from inference.sequential.path_weights import (
    Place,
    effective_number,
    effective_share,
    evidence_variance,
    influences,
    log_mean_weight,
    log_weights,
    next_place,
)

_TRIALS = 4  # of a step size, at a place
_FIRST_TRIALS = 8
_SHRINKAGE = 5.0  # weight of the diagonal of a covariance, in independent draws for a coordinate
_MAX_STEPS = 10_000


class Step(NamedTuple):
    """One step along a path; all numbers.

    Attributes:
        place: Number of terms so far, fractions included, over the number of all.
        temperature: Power of the last term.
        ess: Effective sample size of the weights.
        log_increment: Log of the mean weight.
        num_possible: Number of particles with a weight above 0.
        num_undefined: Number of particles at which a term is NaN or infinite, which have no weight.
        num_ancestors: Number of independent first particles that those after resampling have.
        num_distinct: Number of particles that were resampled.
        num_decisive: Effective number of chains, or of draws of the prior, from which the error of
            `log_increment` comes.
        step_size: Step size of the moves.
        acceptance_rate: Mean acceptance rate of the moves.
        num_divergent: Number of moves that diverged.
    """

    place: float
    temperature: float
    ess: float
    log_increment: float
    num_possible: int
    num_undefined: int
    num_ancestors: int
    num_distinct: int
    num_decisive: float
    step_size: float
    acceptance_rate: float
    num_divergent: int


@dataclasses.dataclass
class Population:
    """Particles at a place of a path, and the steps so far.

    Attributes:
        particles: The particles, chain by chain, with equal weights.
        place: Their place.
        parents: Number of the chain before that each chain has its start from, ``(chain,)``, of
            this population and of all before.
        parts: Influences of the chains on the log evidence, of all populations before.
        roots: Number of the first particle that each descends from, ``(particle,)``.
        step_size: Last step size; NaN before the first.
        steps: The steps so far.
    """

    particles: Particles
    place: Place
    parents: list[np.ndarray]
    roots: np.ndarray
    parts: list[np.ndarray] = dataclasses.field(default_factory=list)
    step_size: float = math.nan
    steps: list[Step] = dataclasses.field(default_factory=list)

    @property
    def num_chains(self) -> int:
        """Number of chains that the particles consist of."""
        return len(self.parents[-1])

    @property
    def variance(self) -> float:
        """Estimated variance of the log evidence so far."""
        return evidence_variance(self.parts, self.parents[:-1])


def advance_to_target(
    mover: Mover,
    seed: np.ndarray,
    population: Population,
    ess_fraction: float,
    tell: Callable[[Population], object],
) -> Population:
    """Population at the end of the path.

    Args:
        mover: The moves.
        seed: Two words of uint32.
        population: The population to begin with.
        ess_fraction: Share of the effective sample size that a step keeps.
        tell: Function that is told each new population.

    Raises:
        ValueError: if all weights are 0, or no step is small enough.
    """
    number = population.particles.terms.shape[1]
    while population.place.whole < number:
        population = advance_one(mover, seed, population, ess_fraction)
        tell(population)
        if len(population.steps) > _MAX_STEPS:
            raise ValueError(f"smc: more than {_MAX_STEPS} temperatures are needed")
    return population


def advance_one(
    mover: Mover, seed: np.ndarray, population: Population, ess_fraction: float
) -> Population:
    """Population after one step: weights, resampling, moves."""
    particles = population.particles
    num_particles, num_terms = particles.terms.shape
    dtype = np.dtype(mover.layout.dtype)
    after = next_place(particles.terms, population.place, ess_fraction, dtype)
    found = log_weights(particles.terms, population.place, after)
    num_possible = int(np.sum(found > -np.inf))
    if not num_possible:
        raise ValueError(
            f"smc: the likelihood is 0, or not finite, at all {num_particles} particles. Raise "
            "num_particles, or look at the priors: do their draws allow the data?"
        )
    # Resampling.
    num_chains = num_particles // mover.chain_length
    words = seed_at(seed, 2 * len(population.steps) + 1)
    key = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    chosen = np.asarray(systematic(key, _in_float32(found), num_chains))
    roots = population.roots[chosen]
    # Scales of the moves.
    covariance = _covariance(particles.positions, found, mover.kernel, dtype)
    is_first = math.isnan(population.step_size)
    step_size = _first_step_size(mover) if is_first else population.step_size
    # Moves.
    arguments = (
        mover,
        seed_at(seed, 2 * len(population.steps) + 2),
        particles.positions[chosen],
        after.powers(num_terms).astype(dtype),
        covariance,
        np.asarray(step_size, dtype),
        np.int32(0 if mover.target_rate is None else _FIRST_TRIALS if is_first else _TRIALS),
    )
    moved, info = jax.device_get(compile_once(move_particles, *arguments)(*arguments))
    parts = influences(found, population.num_chains)
    step = Step(
        place=(after.whole + after.part) / num_terms,
        temperature=after.part or 1.0,
        ess=effective_share(found) * num_possible,
        log_increment=log_mean_weight(found),
        num_possible=num_possible,
        num_undefined=int(np.sum(~(particles.terms < np.inf).all(1))),
        num_ancestors=len(np.unique(roots)),
        num_distinct=len(np.unique(chosen)),
        num_decisive=effective_number(parts),
        **_numbers(info),
    )
    return Population(
        particles=moved,
        place=after,
        parents=[*population.parents, chosen // (num_particles // population.num_chains)],
        roots=np.repeat(roots, mover.chain_length),
        parts=[*population.parts, parts],
        step_size=step.step_size,
        steps=[*population.steps, step],
    )


def seed_at(seed: np.ndarray, counter: int) -> np.ndarray:
    """Two words of uint32 for a part of a run."""
    return np.stack(threefry(jnp.asarray(seed), jnp.uint32(counter)))


def _numbers(info: MoveInfo) -> dict[str, Any]:
    return {
        "step_size": float(info.step_size),
        "acceptance_rate": float(info.acceptance_rate),
        "num_divergent": int(info.num_divergent),
    }


def _in_float32(found: np.ndarray) -> np.ndarray:
    """Log weights relative to the largest, which float32 holds well."""
    return (found - found.max()).astype(np.float32)


def _first_step_size(mover: Mover) -> float:
    """Step size of the first trial, in units of the spread of particles."""
    if isinstance(mover.kernel, RandomWalk):
        return 2.38 / math.sqrt(mover.layout.size)
    return mover.layout.size**-0.25


def _covariance(
    positions: np.ndarray, found: np.ndarray, kernel: Any, dtype: np.dtype
) -> np.ndarray:
    """Covariance of weighted particles, shrunk to its diagonal; a diagonal for many coordinates."""
    weights = np.exp(found - found.max())
    weights = weights / weights.sum()
    ess = 1 / np.sum(weights**2)
    x = np.asarray(positions, np.float64)
    x = np.where(weights[:, None] > 0, x, 0.0)
    centered = x - weights @ x
    variances = weights @ centered**2
    is_good = (variances > 0) & np.isfinite(variances)
    variances = np.where(is_good, variances, 1.0)
    size = len(variances)
    given = (getattr(kernel, name, None) for name in ("inverse_mass_matrix", "covariance"))
    is_diagonal = any(x is not None and kind_of(x) == "diagonal" for x in given)
    if size > MAX_DENSE_SIZE or is_diagonal:
        return variances.astype(dtype)
    root = np.sqrt(weights)[:, None] * centered
    dense = root.T @ root
    dense *= ess / (ess + _SHRINKAGE * size)
    dense = np.where(np.outer(is_good, is_good), dense, 0.0)
    dense[np.arange(size), np.arange(size)] = variances
    return dense.astype(dtype)
