"""Differential evolution Monte Carlo, with snooker moves."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_positive_scalar, check_rate, check_scalar
from inference.common.layout import Layout
from inference.common.threefry import uniform
from inference.kernels.ensemble.affine_invariant import log_volume
from inference.kernels.ensemble.differences import DifferenceKernel, distinct_chains
from ppl.harvest.pytrees import register_dataclass

_SNOOKER = (1.2, 2.2)  # factors of a snooker move, from ter Braak and Vrugt


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DifferentialEvolution(DifferenceKernel):
    r"""Differential evolution Monte Carlo (DE-MC): steps along differences of other chains.

    | Move     | Proposal from `x`                                                                |
    |----------|----------------------------------------------------------------------------------|
    | parallel | :math:`x + \gamma (y_1 - y_2)`, with two other chains and                        |
    |          | :math:`\gamma = 2.38 / \sqrt{2 d}`, times a uniform number near 1                |
    | jump     | the same with :math:`\gamma = 1`, which leads from mode to mode                  |
    | snooker  | on the line through `x` and a third chain `z`, farther by 1.2 to 2.2 times the   |
    |          | difference of two others along it; accepted with the factor                      |
    |          | :math:`(|x' - z| / |x - z|)^{d - 1}`                                             |

    Chains that have found the modes of a density jump between them, in proportion to their mass. It
    needs an even number of chains, at least :math:`2 (d + 1)` and six, and no gradient; ten times
    as many as coordinates if there are several modes.

    Attributes:
        log_density: Function of the position of one chain that returns a scalar, or `None` if a
            driver is to supply it. It needs no gradient.
        num_steps: Sweeps of a transition, in each of which every chain makes one proposal; `None`
            for the number of coordinates.
        step_size: Factor :math:`\gamma` of a parallel move; `None` for :math:`2.38 / \sqrt{2 d}`.
        jitter: Parallel moves have a factor between ``1 - jitter`` and ``1 + jitter`` times
            `step_size`; above 0, as chains would else stay on a lattice, and less than 1.
        jump_rate: Probability of a jump, among moves that are not snooker moves.
        snooker_rate: Probability of a snooker move.

    Example:
        >>> def log_density(x):  # two modes
        ...     return jnp.logaddexp(-0.5 * jnp.sum((x - 9) ** 2), -0.5 * jnp.sum((x + 9) ** 2))
        >>> kernel = DifferentialEvolution(log_density)
        >>> start = jax.random.uniform(jax.random.key(1), (32, 2), minval=-12, maxval=12)
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(start))
        >>> state.position.shape, info.acceptance_rate.shape
        ((32, 2), (32,))

        As the kernel of :func:`inference.mcmc`:
        ``mcmc(key, model, kernel=DifferentialEvolution(), num_chains=32)``.

    References:
        Ter Braak (2006), A Markov chain Monte Carlo version of the genetic algorithm differential
        evolution; ter Braak and Vrugt (2008), Differential evolution Markov chain with snooker
        updater and fewer chains.
    """

    step_size: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)
    jitter: jax.typing.ArrayLike = dataclasses.field(default=0.1, kw_only=True)
    jump_rate: jax.typing.ArrayLike = dataclasses.field(default=0.1, kw_only=True)
    snooker_rate: jax.typing.ArrayLike = dataclasses.field(default=0.1, kw_only=True)

    def check(self, layout: Layout) -> None:
        """Checks the settings that are not traced.

        Raises:
            TypeError: if a setting is not a real number.
            ValueError: if a setting is out of range.
        """
        self._step_size(layout.size, layout.dtype)
        check_rate("jitter", self.jitter, layout.dtype)
        for name in ("jump_rate", "snooker_rate"):
            rate = getattr(self, name)
            check_scalar(name, rate, layout.dtype, "a number in [0, 1)", lambda x: 0 <= x < 1)

    def least_num_chains(self, size: int) -> int:
        """Number of chains for `size` coordinates; a snooker move takes three of the other half."""
        return max(6, super().least_num_chains(size))

    def propose(
        self, seed: jax.Array, moving: jax.Array, others: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Points of one of the three moves, and the log of the factor of snooker moves."""
        number, size = moving.shape
        dtype = moving.dtype
        units = uniform(seed, 2 * number + jnp.arange(3 * number), dtype).reshape(3, number)
        chosen = distinct_chains(seed, 5 * number, number, len(others))
        anchor, first, second = others[chosen]
        difference = first - second
        # Parallel moves and jumps.
        jump_rate = jnp.asarray(self.jump_rate, dtype)
        jitter = 1 + jnp.asarray(self.jitter, dtype) * (2 * units[0] - 1)
        factor = self._step_size(size, dtype) * jitter
        factor = jnp.where(units[1] < jump_rate, 1, factor)
        parallel = moving + factor[:, None] * difference
        # Snooker moves, in units of the standard deviations of the other half.
        deviation = jnp.std(others, 0, keepdims=True)
        scale = jnp.where((deviation > 0) & jnp.isfinite(deviation), deviation, 1)
        line = (moving - anchor) / scale
        along = jnp.sum(difference / scale * line, -1) / jnp.sum(line**2, -1)
        least, most = _SNOOKER
        stretch = 1 + (least + (most - least) * units[0]) * along
        snooker = anchor + stretch[:, None] * (moving - anchor)
        is_snooker = units[2] < jnp.asarray(self.snooker_rate, dtype)
        log_factor = jnp.where(is_snooker, log_volume(stretch, size), 0)
        return jnp.where(is_snooker[:, None], snooker, parallel), log_factor

    def _step_size(self, size: int, dtype: jax.typing.DTypeLike) -> jax.Array:
        best = 2.38 / math.sqrt(2 * size)
        given = best if self.step_size is None else self.step_size
        return check_positive_scalar("step_size", given, jnp.dtype(dtype))
