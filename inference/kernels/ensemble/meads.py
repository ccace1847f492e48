"""MEADS: generalized Hamiltonian Monte Carlo whose parameters each fold of chains sets for another.

The acronym is of maximum-eigenvalue adaptation of damping and step size.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.argument_checks import check_count, check_positive_scalar
from inference.common.layout import Layout
from inference.common.threefry import normal, random_words, seed_of, unit_of
from inference.kernels.ensemble.kernel import GradientKernel, check_num_chains, layout_of
from inference.kernels.hamiltonian.leapfrog import DIVERGENCE_THRESHOLD
from ppl.harvest.pytrees import register_dataclass


class MEADSState(NamedTuple):
    """State of all chains of :class:`MEADS`.

    Attributes:
        position: Pytree with the chains in front.
        log_density: ``(chain,)``.
        gradient: Gradients of the log density, flat, ``(chain, size)``.
        momentum: Momenta in units of standard deviations, ``(chain, size)``.
        level: Number in (-1, 1) that decides about acceptance and changes slowly, ``(chain,)``.
        count: Number of moves so far.
    """

    position: Any
    log_density: jax.Array
    gradient: jax.Array
    momentum: jax.Array
    level: jax.Array
    count: jax.Array


class MEADSInfo(NamedTuple):
    """Statistics of a transition of :class:`MEADS`, a cycle in which each chain moves some times.

    Attributes:
        acceptance_rate: Mean probability of acceptance, ``(chain,)``.
        is_divergent: Whether an energy error passed 1000 or was not finite, ``(chain,)``.
        num_steps: Leapfrog steps taken, an equal number by all chains.
        step_size: Mean step size, ``(chain,)``.
    """

    acceptance_rate: jax.Array
    is_divergent: jax.Array
    num_steps: jax.Array
    step_size: jax.Array


class _Folds(NamedTuple):
    """Chains in folds: arrays ``(fold, chain)`` or ``(fold, chain, size)``, and sums of a cycle."""

    position: jax.Array
    log_density: jax.Array
    gradient: jax.Array
    momentum: jax.Array
    level: jax.Array
    acceptance_rate: jax.Array
    is_divergent: jax.Array
    step_size: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MEADS(GradientKernel):
    r"""Generalized HMC of many chains, with parameters from the other chains and no tuning.

    Chains are in folds. Each move is one leapfrog step with a momentum that is kept but for some
    damping. Its parameters are functions of the chains of the fold before,

    .. math::
        \epsilon = \min(1, c / \sqrt{\lambda(\sigma g)}), \quad
        \gamma = \max(1 / \sqrt{\lambda((x - \bar x) / \sigma)}, 1 / (t \epsilon)), \quad
        \alpha = 1 - e^{-2 \epsilon \gamma}, \quad \delta = \alpha / 2,

    with the standard deviations :math:`\sigma` of positions :math:`x`, their gradients :math:`g`,
    the estimate :math:`\lambda(y) = \mathrm{tr}\,C^2 / \mathrm{tr}\,C` of the largest eigenvalue of
    :math:`C = E[y y^T]`, and the number :math:`t` of the move. The momentum becomes
    :math:`\sqrt{1 - \alpha}\,m + \sqrt{\alpha}\,z` with normal :math:`z`, and a number that decides
    about acceptance moves by :math:`\delta`, so that rejections, which turn the chain round, come
    together.

    In each move one fold, the next in turn, does not move. So the parameters of a fold never depend
    on its own move, and the density is left invariant exactly, in warm-up and after it. A
    transition of this kernel is a cycle of as many moves as there are folds, of which each chain
    makes all but one. Chains are dealt to folds anew for each cycle. Warm-up adapts nothing: its
    iterations let chains forget their starts.

    Attributes:
        log_density: Function of the position of one chain, or `None` if a driver is to supply it.
        step_size_factor: The number :math:`c`.
        num_folds: Number of folds, which must divide the number of chains.

    Example:
        >>> def log_density(x):
        ...     return -0.5 * jnp.sum((x / jnp.array([1.0, 10.0])) ** 2)
        >>> kernel = MEADS(log_density)
        >>> state = kernel.init(jax.random.normal(jax.random.key(1), (64, 2)))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, info.acceptance_rate.shape
        ((64, 2), (64,))

    References:
        Hoffman and Sountsov (2022), Tuning-free generalized Hamiltonian Monte Carlo, AISTATS,
        algorithm 3; Neal (2020), Non-reversibly updating a uniform [0, 1] value for Metropolis
        accept/reject decisions.
    """

    step_size_factor: jax.typing.ArrayLike = dataclasses.field(default=0.5, kw_only=True)
    num_folds: int = dataclasses.field(default=4, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "num_folds", check_count("num_folds", self.num_folds, least=2))

    def init(self, position: Any) -> MEADSState:
        """The state of all chains at `position`, a pytree with the chains in front.

        Momenta are drawn in the first two moves, whose damping is complete.

        Raises:
            TypeError: if a setting is not a real number, or the position has other leaves than
                floating-point arrays.
            ValueError: if a setting is out of range, or chains are too few or cannot be dealt
                evenly to folds.
        """
        layout = layout_of(position)
        num_chains = check_num_chains(self, position, 2 * self.num_folds)
        if num_chains % self.num_folds:
            raise ValueError(
                f"num_chains must be a multiple of the {self.num_folds} folds of MEADS, got "
                f"{num_chains}; change num_chains or MEADS(num_folds=...)"
            )
        self.check(layout)
        position = jax.tree.map(jnp.asarray, position)
        density = self.density_of(layout)
        log_density, gradient = density(jax.vmap(layout.ravel)(position))
        momentum = jnp.zeros_like(gradient)
        level = jnp.zeros_like(log_density)
        return MEADSState(position, log_density, gradient, momentum, level, jnp.int32(0))

    def check(self, layout: Layout) -> None:
        """Checks `step_size_factor`.

        Raises:
            TypeError: if it is not a real number.
            ValueError: if it is not a scalar, or is known not to be positive and finite.
        """
        check_positive_scalar("step_size_factor", self.step_size_factor, layout.dtype)

    def step(self, key: jax.Array, state: MEADSState) -> tuple[MEADSState, MEADSInfo]:
        """One cycle of moves of all chains."""
        # Random folds of the chains, and the noise of each move.
        layout = layout_of(state.position)
        density = self.density_of(layout)
        num_folds = self.num_folds
        positions = jax.vmap(layout.ravel)(state.position)
        seed, (num_chains, size) = seed_of(key), positions.shape
        each = num_chains // num_folds
        words = random_words(seed, 0, 2 * num_chains)
        order = jnp.argsort(words[:num_chains])
        shape = num_folds, num_folds - 1, each, size
        noise = normal(seed, np.prod(shape).item(), layout.dtype).reshape(shape)
        first = 2 * unit_of(words[num_chains:]).astype(layout.dtype) - 1
        # Levels are drawn anew in the first cycle.
        is_first = (state.count == 0) | ~jnp.isfinite(state.level)
        level = jnp.where(is_first, first, state.level)
        log_density = state.log_density.astype(layout.dtype)
        zero = jnp.zeros_like(log_density)
        no = jnp.zeros(num_chains, bool)
        chains = _Folds(
            positions, log_density, state.gradient, state.momentum, level, zero, no, zero
        )
        folds = jax.tree.map(lambda x: x[order].reshape(num_folds, each, *x.shape[1:]), chains)

        # Each fold stays in turn, and all others move.
        def move(i: Any, folds: _Folds) -> _Folds:
            return self._move(density, folds, noise[i], state.count + i)

        folds = lax.fori_loop(0, num_folds, move, folds)
        # Chains in their own order again.
        places = jnp.zeros_like(order).at[order].set(jnp.arange(num_chains, dtype=order.dtype))
        new = jax.tree.map(lambda x: x.reshape(num_chains, *x.shape[2:])[places], folds)
        num_moves = num_folds - 1
        return MEADSState(
            position=jax.vmap(layout.unravel)(new.position),
            log_density=new.log_density.astype(state.log_density.dtype),
            gradient=new.gradient,
            momentum=new.momentum,
            level=new.level,
            count=state.count + num_folds,
        ), MEADSInfo(
            acceptance_rate=new.acceptance_rate / num_moves,
            is_divergent=new.is_divergent,
            num_steps=jnp.int32(num_moves),
            step_size=new.step_size / num_moves,
        )

    def adapt(
        self, state: MEADSState, info: MEADSInfo, iteration: jax.Array, num_warmup: jax.Array
    ) -> MEADSState:
        """The state as it is: parameters follow from the chains in every move."""
        return state

    def _move(self, density: Any, folds: _Folds, noise: jax.Array, count: jax.Array) -> _Folds:
        """Folds after a move of all but the first, which goes to the end."""
        old = jax.tree.map(lambda x: x[1:], folds)
        size = noise.shape[-1]
        scale, step_size, damping = self._parameters(folds, count)
        momentum = jnp.sqrt(1 - damping) * old.momentum + jnp.sqrt(damping) * noise
        momentum = jnp.where(jnp.isfinite(momentum), momentum, noise)
        level = wrap(old.level + damping[..., 0] / 2)
        reach = step_size * scale
        middle = momentum + 0.5 * reach * old.gradient
        position = old.position + reach * middle
        log_density, gradient = density(position.reshape(-1, size))
        log_density = log_density.reshape(level.shape)
        gradient = gradient.reshape(position.shape)
        end = middle + 0.5 * reach * gradient
        change = old.log_density - log_density
        change = change + 0.5 * jnp.sum((end - momentum) * (end + momentum), -1)
        change = jnp.where(jnp.isfinite(change), change, jnp.inf)
        chance = jnp.exp(-change)
        is_accepted = jnp.abs(level) < chance
        level = jnp.where(is_accepted, level / jnp.where(is_accepted, chance, 1), level)
        which = is_accepted[..., None]
        new = _Folds(
            position=jnp.where(which, position, old.position),
            log_density=jnp.where(is_accepted, log_density, old.log_density),
            gradient=jnp.where(which, gradient, old.gradient),
            momentum=jnp.where(which, end, -momentum),
            level=level,
            acceptance_rate=old.acceptance_rate + jnp.minimum(chance, 1),
            is_divergent=old.is_divergent | (change > DIVERGENCE_THRESHOLD),
            step_size=old.step_size + step_size[..., 0],
        )
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b[:1]]), new, folds)

    def _parameters(
        self, folds: _Folds, count: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Scale ``(fold, 1, size)``, step size and damping ``(fold, 1, 1)`` of all folds but one.

        Each comes from the fold before.
        """
        positions = folds.position[:-1]
        gradients = folds.gradient[:-1]
        dtype = positions.dtype
        centered = positions - jnp.mean(positions, 1, keepdims=True)
        deviation = jnp.sqrt(jnp.mean(centered**2, 1, keepdims=True))
        scale = jnp.where((deviation > 0) & jnp.isfinite(deviation), deviation, 1)
        factor = jnp.asarray(self.step_size_factor, dtype)
        step_size = jnp.minimum(factor / largest_deviation(scale * gradients), 1)
        angle = step_size / largest_deviation(centered / scale)
        angle = jnp.maximum(angle, 1 / (count + 1).astype(dtype))
        damping = -jnp.expm1(-2 * angle)
        # A fold that rests in the first move has no momentum before the second.
        damping = jnp.where(count <= 1, 1, damping)
        return scale, step_size[:, None, None], damping[:, None, None]


def wrap(level: jax.Array) -> jax.Array:
    """Number in [-1, 1) that differs from `level` by a multiple of 2."""
    return jnp.mod(level + 1, 2) - 1


def largest_deviation(rows: jax.Array) -> jax.Array:
    r"""Square root of an estimate of the largest eigenvalue of :math:`C = E[y y^T]`.

    The estimate is :math:`\mathrm{tr}\,C^2 / \mathrm{tr}\,C`. The square is estimated
    from pairs of different rows, so that it has no bias. Rows are in units of their largest number,
    so that fourth powers do not overflow; a row that is not finite counts for nothing.

    Args:
        rows: Draws of :math:`y`, ``(fold, chain, size)``.

    Returns:
        ``(fold,)``, positive.

    References:
        Hoffman and Sountsov (2022), section 3.1.
    """
    is_finite = jnp.all(jnp.isfinite(rows), -1)
    rows = jnp.where(is_finite[..., None], rows, 0)
    largest = jnp.max(jnp.abs(rows), (1, 2), initial=jnp.finfo(rows.dtype).tiny)
    rows = rows / largest[:, None, None]
    # Both Gram matrices have the same sum of squares.
    product = "fns,fms->fnm" if rows.shape[1] <= rows.shape[2] else "fns,fnt->fst"
    gram = jnp.einsum(product, rows, rows)
    squares = jnp.sum(rows**2, -1)
    of_pairs = jnp.sum(gram**2, (1, 2)) - jnp.sum(squares**2, 1)
    num_others = jnp.maximum(jnp.sum(is_finite, 1) - 1, 1).astype(rows.dtype)
    tiny = jnp.finfo(rows.dtype).tiny
    estimate = of_pairs / (num_others * jnp.maximum(jnp.sum(squares, 1), tiny))
    least = jnp.finfo(rows.dtype).eps * jnp.max(squares, 1) + tiny
    return largest * jnp.sqrt(jnp.maximum(estimate, least))
