"""ChEES-HMC: Hamiltonian Monte Carlo whose trajectory length many chains learn together."""

import dataclasses

import jax
import jax.numpy as jnp

from inference.common.layout import Layout
from inference.kernels.ensemble.jittered import JitteredKernel
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ChEES(JitteredKernel):
    r"""ChEES-HMC: jittered Hamiltonian Monte Carlo, adapted over many chains in lockstep.

    All chains take the same number of leapfrog steps, :math:`\lceil h_n T / \epsilon \rceil`, with
    the Halton sequence :math:`h_n` in (0, 1). Warm-up adapts, over all chains,

    - the step size :math:`\epsilon` to the harmonic mean of acceptance rates;
    - the trajectory length :math:`T` by Adam to the largest change in the estimator of the
      expected square (ChEES), see :func:`inference.kernels.ensemble.tuning.chees_gradient`;
    - a diagonal mass matrix to the variances of positions.

    It is made for 64 to many thousand chains on an accelerator, with a short warm-up and few draws
    of each chain; it needs at least two chains.

    Example:
        >>> def log_density(x):
        ...     return -0.5 * jnp.sum((x / jnp.array([1.0, 10.0])) ** 2)
        >>> kernel = ChEES(log_density, step_size=0.5)
        >>> state = kernel.init(jnp.zeros((64, 2)))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, info.acceptance_rate.shape
        ((64, 2), (64,))

        As the kernel of :func:`inference.mcmc`:
        ``mcmc(key, model, kernel=ChEES(), num_chains=1024, num_warmup=300, num_draws=100)``.

    References:
        Hoffman, Radul and Sountsov (2021), An adaptive-MCMC scheme for setting trajectory lengths
        in Hamiltonian Monte Carlo, AISTATS, algorithm 1.
    """

    def initial_length(self, layout: Layout) -> float:
        """One standard deviation."""
        return 1.0

    def momentum(self, noise: jax.Array) -> jax.Array:
        """Normal momenta."""
        return noise

    def kick(self, momentum: jax.Array, impulse: jax.Array) -> jax.Array:
        """Momenta of Hamiltonian dynamics."""
        return momentum + impulse

    def velocity(self, momentum: jax.Array) -> jax.Array:
        """Velocities, which are the momenta in whitened units."""
        return momentum

    def kinetic_change(self, start: jax.Array, end: jax.Array) -> jax.Array:
        """Changes of half the squared momentum."""
        return kinetic_change(start, end)


def kinetic_change(start: jax.Array, end: jax.Array) -> jax.Array:
    """Change of the kinetic energy from momenta `start` to `end`, without cancellation."""
    return 0.5 * jnp.sum((end - start) * (end + start), -1)
