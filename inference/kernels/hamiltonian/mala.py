"""MALA: the Metropolis-adjusted Langevin algorithm."""

import dataclasses
from typing import ClassVar

import jax

from inference.kernels.hamiltonian.hmc import HMC
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MALA(HMC):
    r"""Metropolis-adjusted Langevin algorithm (MALA): a drift along the gradient, and noise.

    From a position :math:`q` the proposal is
    :math:`q + \tfrac{\epsilon^2}{2} \Sigma \nabla \log \pi(q) + \epsilon \Sigma^{1/2} z`, with
    normal :math:`z`. It is the end of one leapfrog step, so MALA is :class:`HMC` with one step. A
    transition costs one gradient, and moves far less than a transition of :class:`NUTS`. MALA is
    for densities whose gradient is so costly that the length of a transition has to be known.

    Attributes:
        num_steps: Always 1.
        step_size_jitter: As of :class:`HMC`; one step is far from a period, and has none.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> kernel = MALA(lambda x: -0.5 * jnp.sum(x**2), step_size=0.9)
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_steps)
        ((3,), 1)

    References:
        Roberts and Tweedie (1996), Exponential convergence of Langevin distributions and their
        discrete approximations, section 1.4; Roberts and Rosenthal (1998), Optimal scaling of
        discrete approximations to Langevin diffusions, on the acceptance rate of 0.574.
    """

    num_steps: int = dataclasses.field(default=1, init=False, metadata={"static": True})
    step_size_jitter: jax.typing.ArrayLike = dataclasses.field(default=0.0, kw_only=True)
    default_acceptance_rate: ClassVar[float] = 0.574
    raises_target: ClassVar[bool] = False
