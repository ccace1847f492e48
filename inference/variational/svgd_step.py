"""Stein variational gradient descent (SVGD): the steps of a set of particles."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.target import Target
from inference.variational.optax_step import apply_gradient
from ppl.harvest.function_equality import ComparedByContents

NUM_ROWS = 4096  # maximum number of steps in one call


class Swarm(NamedTuple):
    """The target density and settings of SVGD; a pytree.

    Attributes:
        target: The density.
        optimizer: An optax optimizer, compared by contents.
        bandwidth: Bandwidth of the kernel. If it is not positive, the median heuristic sets it.
        layout: Layout of flat positions.
    """

    target: Target
    optimizer: ComparedByContents
    bandwidth: Any
    layout: Layout

    def value_and_grad(self, particles: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log densities, ``(particle,)``, and their gradients, ``(particle, size)``."""

        def log_density(flat: jax.Array) -> jax.Array:
            value = self.target.log_density(self.layout.unravel(flat))
            return value.astype(self.layout.dtype)

        return jax.vmap(jax.value_and_grad(log_density))(particles)


class SVGDState(NamedTuple):
    """The state of SVGD: all that the next steps depend on, besides the settings.

    Attributes:
        step: Number of complete steps.
        particles: Flat positions, ``(particle, size)``.
        optimizer_state: State of the optimizer.
    """

    step: Any
    particles: Any
    optimizer_state: Any


class SVGDAdvance(NamedTuple):
    """The outcome of the steps of one call.

    Attributes:
        state: The state after the steps.
        discrepancies: The kernelized Stein discrepancy before each step.
        is_finite: Whether all log densities and gradients were finite; if not, the last step was
            not taken.
    """

    state: SVGDState
    discrepancies: Any
    is_finite: Any


def begin_svgd(swarm: Swarm, particles: jax.Array) -> SVGDState:
    """The state before the first step."""
    state = SVGDState(jnp.int32(0), particles, swarm.optimizer.value.init(particles))
    return jax.tree.map(lambda x: lax.convert_element_type(x, jnp.result_type(x)), state)


def advance_svgd(swarm: Swarm, state: SVGDState, stop: jax.Array) -> SVGDAdvance:
    """Takes steps until `stop` are complete, at most `NUM_ROWS` of them."""
    last = jnp.minimum(stop, state.step + NUM_ROWS)

    def step(now: SVGDAdvance) -> SVGDAdvance:
        values, gradients = swarm.value_and_grad(now.state.particles)
        ascent, discrepancy = stein_direction(now.state.particles, gradients, swarm.bandwidth)
        is_finite = jnp.all(jnp.isfinite(ascent)) & jnp.all(jnp.isfinite(values))
        after = select_leaves(is_finite, _apply_update(swarm, now.state, ascent), now.state)
        discrepancies = now.discrepancies.at[now.state.step - state.step].set(discrepancy)
        return SVGDAdvance(after, discrepancies, is_finite)

    start = SVGDAdvance(state, jnp.zeros(NUM_ROWS, state.particles.dtype), jnp.bool_(True))
    return lax.while_loop(lambda now: now.is_finite & (now.state.step < last), step, start)


def stein_direction(
    particles: jax.Array, gradients: jax.Array, bandwidth: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""The Stein variational gradient, and the kernelized Stein discrepancy of the particles.

    Along this direction the KL divergence of the particles from the density falls fastest.

    .. math:: \phi(x_i) = \frac1n \sum_j k(x_j, x_i) \nabla\log p(x_j) + \nabla_{x_j} k(x_j, x_i),
        \quad k(x, y) = e^{-|x - y|^2 / h}

    Args:
        particles: ``(particle, size)``.
        gradients: Gradients of the log density at the particles, ``(particle, size)``.
        bandwidth: :math:`h`. A number that is not positive stands for the median heuristic,
            :math:`\mathrm{med}^2 / \log(n + 1)` with the median distance between particles.

    Returns:
        :math:`\phi`, ``(particle, size)``, and the kernelized Stein discrepancy, the norm of
        :math:`\phi`, a scalar.

    References:
        Liu and Wang (2016), Stein variational gradient descent, equation 8 and section 3.2; Liu,
        Lee and Jordan (2016), A kernelized Stein discrepancy for goodness-of-fit tests, equation 4.
    """
    num, size = particles.shape
    apart = particles[:, None] - particles[None]
    squared = jnp.sum(apart**2, -1)
    h = jnp.where(bandwidth > 0, bandwidth, _median(squared) / np.log(num + 1.0))
    h = jnp.maximum(h, jnp.finfo(h.dtype).tiny).astype(particles.dtype)
    kernel = jnp.exp(-squared / h)
    away = (2 / h) * (jnp.sum(kernel, 1)[:, None] * particles - kernel @ particles)
    both = gradients @ particles.T
    across = jnp.diag(both)[:, None] - both  # gradient_i @ (x_i - x_j)
    terms = gradients @ gradients.T + (2 / h) * (across + across.T)
    terms = terms + (2 / h) * size - (4 / h**2) * squared
    discrepancy = jnp.sqrt(jnp.maximum(jnp.mean(kernel * terms), 0))
    return (kernel @ gradients + away) / num, discrepancy


def _median(squared: jax.Array) -> jax.Array:
    """The median over pairs; if it is 0, the mean over the pairs that are apart; if none is, 1."""
    above = squared[np.triu_indices(len(squared), 1)]
    median = jnp.median(above) if above.size else jnp.zeros((), squared.dtype)
    num_apart = jnp.sum(above > 0).astype(squared.dtype)
    others = jnp.sum(above) / jnp.maximum(num_apart, 1)
    return jnp.where(median > 0, median, jnp.where(others > 0, others, 1))


def _apply_update(swarm: Swarm, state: SVGDState, ascent: jax.Array) -> SVGDState:
    particles, optimizer_state = apply_gradient(
        swarm.optimizer, -ascent, state.optimizer_state, state.particles
    )
    return SVGDState(state.step + 1, particles, optimizer_state)


def evaluate_particles(
    particles: jax.Array, target: Target, layout: Layout
) -> tuple[dict[str, Any], jax.Array]:
    """The values of all sites at the particles, and the log densities there."""

    def one(flat: jax.Array) -> tuple[dict[str, Any], jax.Array]:
        position = layout.unravel(flat)
        return target.constrain(position), target.log_density(position)

    return jax.vmap(one)(particles)
