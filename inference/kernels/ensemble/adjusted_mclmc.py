"""Adjusted MCLMC: microcanonical dynamics with a Metropolis decision, adapted over many chains."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from inference.common.layout import Layout
from inference.kernels.ensemble.jittered import JitteredKernel
from ppl.harvest.pytrees import register_dataclass

_Moving = tuple[jax.Array, jax.Array]  # velocities, and kinetic energies gained so far


@register_dataclass
@dataclasses.dataclass(frozen=True)
class AdjustedMCLMC(JitteredKernel):
    r"""Metropolis-adjusted microcanonical dynamics, adapted over many chains in lockstep.

    A chain moves with a velocity :math:`u` of length 1, which the gradient turns but never speeds
    up. In units of standard deviations and :math:`d` coordinates,

    .. math:: \dot x = u, \qquad \dot u = (I - u u^T) \nabla \log\pi(x) / (d - 1).

    A transition draws :math:`u` afresh from the sphere, takes leapfrog steps, and accepts the end
    with probability :math:`\min(1, e^{-W})`. Here :math:`W` is the change of :math:`-\log\pi` plus
    the change of the kinetic energy. So a transition leaves the density invariant exactly. As
    velocities are bounded, trajectories in many dimensions stay stable with longer steps than
    trajectories of HMC.

    Warm-up adapts step size, trajectory length and a diagonal mass matrix over all chains, as for
    :class:`ChEES`. The trajectory length goes to the length with the lowest lag-one autocorrelation
    of squared distances from the mean. It begins at the square root of the number of coordinates.

    The density must have two coordinates at least.

    Example:
        >>> def log_density(x):
        ...     return -0.5 * jnp.sum((x / jnp.array([1.0, 10.0])) ** 2)
        >>> kernel = AdjustedMCLMC(log_density, step_size=0.5)
        >>> state = kernel.init(jnp.zeros((64, 2)))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, info.acceptance_rate.shape
        ((64, 2), (64,))

    References:
        Robnik, Cohn-Gordon and Seljak (2025), Metropolis adjusted microcanonical Hamiltonian Monte
        Carlo; Robnik, De Luca, Silverstein and Seljak (2023), Microcanonical Hamiltonian Monte
        Carlo, JMLR 24.
    """

    target_acceptance_rate: jax.typing.ArrayLike = dataclasses.field(default=0.8, kw_only=True)

    def initial_length(self, layout: Layout) -> float:
        """Square root of the number of coordinates: the distance of a draw from the mean.

        Raises:
            ValueError: if there is a single coordinate.
        """
        if layout.size < 2:
            raise ValueError(
                "AdjustedMCLMC needs two unconstrained coordinates at least, as in one there is "
                "nowhere to turn, got 1; use ChEES()"
            )
        return math.sqrt(layout.size)

    def momentum(self, noise: jax.Array) -> _Moving:
        """Velocities that are uniform on the sphere, with no energy gained."""
        unit = noise / jnp.linalg.norm(noise, axis=1, keepdims=True)
        return unit, jnp.zeros_like(noise[:, 0])

    def kick(self, momentum: _Moving, impulse: jax.Array) -> _Moving:
        """Velocities that the gradient has turned, and energies gained."""
        velocity, gain = turn(momentum[0], impulse)
        return velocity, momentum[1] + gain

    def velocity(self, momentum: _Moving) -> jax.Array:
        """Unit velocities."""
        return momentum[0]

    def kinetic_change(self, start: _Moving, end: _Moving) -> jax.Array:
        """Kinetic energies gained on the way."""
        return end[1] - start[1]


def turn(velocity: jax.Array, impulse: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""Unit velocities after a constant gradient has acted on them, and their kinetic energy gain.

    With an impulse of length :math:`(d - 1) \delta` in direction :math:`e`,

    .. math::
        u' = \frac{u + (\sinh\delta + e^T u \, (\cosh\delta - 1)) \, e}
                  {\cosh\delta + e^T u \sinh\delta}, \qquad
        \Delta K = (d - 1) \log(\cosh\delta + e^T u \sinh\delta).

    The map of the sphere changes areas by :math:`e^{-\Delta K}`. It is computed with
    :math:`e^{-\delta}`, so that nothing overflows.

    Args:
        velocity: Unit vectors, ``(chain, size)``.
        impulse: Step size times gradient, ``(chain, size)``.

    References:
        Robnik and Seljak (2023), Fluctuation without dissipation: microcanonical Langevin Monte
        Carlo, equation 16.
    """
    norm = jnp.linalg.norm(impulse, axis=1, keepdims=True)
    direction = impulse / jnp.where(norm > 0, norm, 1)
    dimensions = velocity.shape[1] - 1
    delta = norm / dimensions
    along = jnp.sum(direction * velocity, 1, keepdims=True)
    decay = jnp.exp(-delta)
    shift = (1 - decay) * (1 + decay + along * (1 - decay))
    turned = 2 * decay * velocity + shift * direction
    turned = turned / jnp.linalg.norm(turned, axis=1, keepdims=True)
    stretch = 0.5 * (1 + along + (1 - along) * decay**2)
    gain = dimensions * (delta + jnp.log(stretch))
    return turned, gain[:, 0]
