"""Affine-invariant ensemble sampling by stretch moves, as in emcee."""

import dataclasses

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_scalar
from inference.common.layout import Layout
from inference.common.threefry import random_words, uniform
from inference.kernels.ensemble.differences import DifferenceKernel
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class AffineInvariant(DifferenceKernel):
    r"""Affine-invariant ensemble sampler: stretch moves on the lines between chains, as in emcee.

    A chain at :math:`x` chooses another one, at :math:`y`, and proposes :math:`y + z (x - y)`. The
    factor :math:`z` is between :math:`1/a` and :math:`a`, with a density proportional to
    :math:`1/\sqrt{z}`. The proposal is accepted with probability
    :math:`\min(1, z^{d-1} \pi(x') / \pi(x))`, in `d` coordinates.

    Correlations and scales of coordinates do not matter: with the same key, chains of
    :math:`A x + b` are those of :math:`x`, mapped. It needs an even number of chains, at least
    :math:`2 (d + 1)`, and no gradient. It is for up to some dozen coordinates.

    Attributes:
        log_density: Function of the position of one chain that returns a scalar, or `None` if a
            driver is to supply it. It needs no gradient.
        num_steps: Sweeps of a transition, in each of which every chain makes one proposal; `None`
            for the number of coordinates.
        max_stretch: Largest factor :math:`a`, above 1.

    Example:
        >>> def log_density(x):
        ...     return -0.5 * jnp.sum((x / jnp.array([1.0, 1e3])) ** 2)
        >>> kernel = AffineInvariant(log_density)
        >>> state = kernel.init(jax.random.normal(jax.random.key(1), (16, 2)))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, info.acceptance_rate.shape
        ((16, 2), (16,))

        As the kernel of :func:`inference.mcmc`:
        ``mcmc(key, model, kernel=AffineInvariant(), num_chains=32)``.

    References:
        Goodman and Weare (2010), Ensemble samplers with affine invariance; Foreman-Mackey, Hogg,
        Lang and Goodman (2013), emcee: the MCMC hammer, on two halves.
    """

    max_stretch: jax.typing.ArrayLike = dataclasses.field(default=2.0, kw_only=True)

    def check(self, layout: Layout) -> None:
        """Checks `max_stretch`.

        Raises:
            TypeError: if it is not a real number.
            ValueError: if it is not a scalar, or is known not to be finite and above 1.
        """
        what = "a finite number above 1"
        check_scalar("max_stretch", self.max_stretch, layout.dtype, what, lambda x: 1 < x < jnp.inf)

    def propose(
        self, seed: jax.Array, moving: jax.Array, others: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Points on the lines through chains and other ones, and the log of their factors."""
        number, size = moving.shape
        most = jnp.asarray(self.max_stretch, moving.dtype)
        chosen = random_words(seed, 2 * number, number) % jnp.uint32(len(others))
        unit = uniform(seed, 3 * number + jnp.arange(number), moving.dtype)
        factor = ((most - 1) * unit + 1) ** 2 / most
        other = others[chosen.astype(jnp.int32)]
        return other + factor[:, None] * (moving - other), log_volume(factor, size)


def log_volume(factor: jax.Array, size: int) -> jax.Array:
    """Log of the change of volume by a stretch along a line from a fixed point, without the line.

    A sphere around the fixed point, of one dimension less than `size`, is larger by this.
    """
    return (size - 1) * jnp.log(jnp.abs(factor))
