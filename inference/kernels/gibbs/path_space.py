"""State space of a block of sites, for kernels of particles: the path, and its parameters."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

import ppl
from inference.kernels.particle.particle_gibbs import ParticleGibbs
from inference.kernels.particle.pmmh import PMMH
from inference.models.optimal_proposal import OptimalProposal
from inference.models.state_space import ModelStateSpace
from inference.models.value_target import ValueTarget
from inference.particles.backward_sampling import draw_index
from inference.particles.particle_filter import particle_filter, trace_paths
from inference.particles.resampling import SCHEMES
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.survey import Path


def state_space_given(base: ValueTarget, others: Mapping[Path, Any]) -> ModelStateSpace:
    """State space of the sites of a model that are left when others have values.

    Raises:
        ValueError: if the model has no scan with observed sites.
        NotImplementedError: if a site is observed in part, or scored with others.
    """
    args, kwargs = base.arguments.join(base.data)
    model = ppl.condition(base.model, nest_by_path(dict(others))) if others else base.model
    return ModelStateSpace.of(model, args, kwargs)


def proposed_space(
    space: ModelStateSpace, proposal: str | None
) -> ModelStateSpace | OptimalProposal:
    """State space with the draws of a proposal.

    Raises:
        ValueError: if "optimal" finds no site that can be drawn so.
    """
    return space if proposal is None else OptimalProposal.of(space)


def parameters_of(space: ModelStateSpace) -> list[Path]:
    """Latent sites before the scan that do not only enter its first carry."""
    if space.split.memory is None:  # the carry of a step may have any site
        return list(space.start_sites)
    return held_sites(space)


def held_sites(space: ModelStateSpace) -> list[Path]:
    """Latent sites before the scan that each particle keeps through all steps."""
    start = space.start_sites
    return [
        path for path in start if _with_fixed(space, [x for x in start if x != path]).keeps_draws
    ]


def _with_fixed(space: ModelStateSpace, paths: Iterable[Path]) -> ModelStateSpace:
    """A state space of which only questions of structure are asked."""
    return dataclasses.replace(space, fixed=(*space.fixed, *paths))


class PathOfBlock:
    """Path of a block of sites, given all others."""

    def __init__(self, base: ValueTarget, paths: tuple[Path, ...], others: Mapping[Path, Any]):
        self._space = state_space_given(base, others)
        self._paths = paths

    def kernel(self, kernel: ParticleGibbs) -> ParticleGibbs:
        """The kernel for this path."""
        space = proposed_space(self._space, kernel.proposal)
        return dataclasses.replace(kernel, state_space=space)

    def position_of(self, values: Mapping[Path, Any]) -> Any:
        """Values before the scan, and of all its steps."""
        return self._space.take_apart(nest_by_path({path: values[path] for path in self._paths}))

    def values_of(self, state: Any) -> dict[Path, Any]:
        """Values of the block by path."""
        found = dict(paths_in(self._space.join(*state.position), self._paths))
        return {path: found[path] for path in self._paths}

    def follow(self, position: Any, values: Mapping[Path, Any]) -> Any:
        """The position, which does not depend on other blocks."""
        return position


class ParametersOfModel:
    """Parameters of a model on unconstrained space, and the path that a filter draws."""

    def __init__(self, base: ValueTarget, values: Mapping[Path, Any]):
        self._base = base
        self._parameters = parameters_of(state_space_given(base, {}))
        path = {p: x for p, x in values.items() if p not in self._parameters}
        self._given = base.given(path)

    def kernel(self, kernel: PMMH) -> PMMH:
        """The kernel for this model."""

        def estimate(key: jax.Array, position: Any) -> tuple[jax.Array, Any]:
            return self._estimate(kernel, key, position)

        return dataclasses.replace(kernel, estimate=estimate)

    def position_of(self, values: Mapping[Path, Any]) -> Any:
        """Parameters on unconstrained space."""
        parameters = nest_by_path({path: values[path] for path in self._parameters})
        return self._given.unconstrain(parameters)

    def values_of(self, state: Any) -> dict[Path, Any]:
        """Values of parameters and path, by path."""
        path = dict(paths_in(state.path, dict(self._base.shapes)))
        return self._values(state.position) | path

    def follow(self, position: Any, values: Mapping[Path, Any]) -> Any:
        """The position: no other block moves."""
        return position

    def _values(self, position: Any) -> dict[Path, Any]:
        found = dict(paths_in(self._given.constrain(position), self._parameters))
        return {path: found[path] for path in self._parameters}

    def _estimate(self, kernel: PMMH, key: jax.Array, position: Any) -> tuple[jax.Array, Any]:
        """Estimate of the log density of parameters on unconstrained space; a path."""
        values = self._values(position)
        space = state_space_given(self._base, values)
        for_run, for_path = jax.random.split(key)
        proposed = proposed_space(space, kernel.proposal)
        scheme = SCHEMES[kernel.scheme]
        run = particle_filter(for_run, proposed, kernel.num_particles, scheme=scheme)
        start, steps = trace_paths(run, draw_index(for_path, run.log_weights))
        path = dict(paths_in(space.join(start, steps), dict(self._base.shapes)))
        path = {p: x for p, x in path.items() if p not in self._parameters}
        return run.log_evidence + self._log_jacobian(position), nest_by_path(path)

    def _log_jacobian(self, position: Any) -> jax.Array:
        """Log determinant of the map from unconstrained space to the parameters."""
        whole = self._given.log_densities(position)
        own = sum(jnp.sum(whole[path]) for path in self._parameters)
        return own - self._given.prior_and_likelihood(position)[0]
