"""Hamiltonian Monte Carlo with energy conserving subsampling (HMCECS)."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from inference.common.argument_checks import check_count, check_positive_scalar
from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.log_densities import metropolis_rate
from inference.common.matrices import pull, push
from inference.common.threefry import normal, seed_of, threefry
from inference.kernels.subsampling.kernel import SubsamplingKernel
from ppl.harvest.pytrees import register_dataclass

_LENGTH = 1.5  # of a trajectory, in standard deviations; about a quarter of a period
_NUM_BLOCKS = 10  # rows of a batch over those drawn anew at once, unless a number is given
_SPREAD = 0.2  # of step sizes about their mean


class Expansion(NamedTuple):
    """Second-order expansion of the log likelihood of all rows about the center, less its value.

    Attributes:
        gradient: ``(size,)``.
        hessian: ``(size, size)``.
    """

    gradient: jax.Array
    hessian: jax.Array


class SubsampledHMCState(NamedTuple):
    """State of a chain of :class:`SubsampledHMC`.

    Attributes:
        position: Pytree of floating-point arrays.
        indices: Rows of the batch, ``(batch_size,)``.
        estimate: Estimate of the log density from these rows, less half its variance and less the
            log likelihood of all rows at the center, a scalar.
        expansion: Expansion of the log likelihood of all rows.
    """

    position: Any
    indices: jax.Array
    estimate: jax.Array
    expansion: Expansion


class SubsampledHMCInfo(NamedTuple):
    """Statistics of a transition of :class:`SubsampledHMC`; all scalars.

    Attributes:
        acceptance_rate: Probability with which the end of the trajectory was accepted.
        row_acceptance_rate: Probability with which new rows were accepted.
        estimate_variance: Estimated variance of the estimate of the log likelihood.
        step_size: Step size of the trajectory.
        is_divergent: Whether the end of the trajectory has no finite log density.
    """

    acceptance_rate: jax.Array
    row_acceptance_rate: jax.Array
    estimate_variance: jax.Array
    step_size: jax.Array
    is_divergent: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SubsampledHMC(SubsamplingKernel):
    r"""Hamiltonian Monte Carlo with energy conserving subsampling, for data of many rows (HMCECS).

    The log likelihood of each row is expanded to second order about the mode, and the expansions
    are summed over all `n` rows once. A batch of `m` rows estimates the rest: :math:`\hat\ell` is
    the sum of expansions, plus `n` times the mean difference :math:`d` of the rows of the batch
    from theirs. Trajectories follow, and the test of acceptance takes,

    .. math:: \log p(q) + \hat\ell(q) - \tfrac12 \hat\sigma^2(q), \quad
        \hat\sigma^2 = \frac{n^2}{m} \operatorname{var} d

    with the same rows, so that energy is conserved. Between trajectories some of the rows are
    exchanged, and accepted by the ratio of estimates.

    **Draws are of a perturbed posterior.** It is the posterior itself if :math:`\hat\ell` is normal
    with a known variance; as the variance is estimated, the error is of the order
    :math:`\hat\sigma^4 / m`. Where log likelihoods are quadratic, :math:`\hat\sigma` is 0 and the
    posterior is exact. The statistic `estimate_variance` has :math:`\hat\sigma^2`, and the summary
    its mean: keep it below 1 by larger batches.

    Under :func:`inference.mcmc`, pass ``SubsampledHMC(batch_size=...)``; :class:`SGLD` says which
    arrays are split into rows.

    Attributes:
        log_prior: Function of a position that returns a scalar; `None` if a driver is to supply it,
            with the next two. A position is a pytree of floating-point arrays.
        log_likelihood: Function of a position and some rows of `data` that returns a scalar, the
            sum over these rows.
        data: Pytree of arrays with a first axis of rows, of one length.
        batch_size: Rows of a batch, 2 at least, drawn with replacement.
        covariance: Rough covariance of positions, ``(size, size)`` or ``(size,)``. `None` for ones,
            under :func:`inference.mcmc` for the inverse curvature at the mode.
        center: Position of the expansions, under :func:`inference.mcmc` the mode.
        step_size: Mean step size in units of the covariance, `None` for 1.2 / `d` ** 0.25 with `d`
            coordinates.
        num_steps: Steps of a trajectory; `None` for a length of 1.5 standard deviations.
        num_blocks: A transition proposes to draw ``batch_size // num_blocks`` rows anew, neighbors
            in the batch from a random place on; `None` for 10, or `batch_size` if that is less.

    Raises:
        TypeError: if a setting has a wrong type.
        ValueError: if a setting is out of range.

    Example:
        >>> x = jax.random.normal(jax.random.key(0), (1000,)) + 3.0
        >>> kernel = SubsampledHMC(
        ...     lambda mu: -0.5 * mu**2,
        ...     lambda mu, rows: -0.5 * jnp.sum((rows - mu) ** 2),
        ...     x,
        ...     batch_size=20,
        ...     covariance=jnp.full(1, 1e-3),
        ...     center=jnp.mean(x),
        ... )
        >>> state, info = jax.jit(kernel.step)(jax.random.key(1), kernel.init(jnp.float32(3.0)))
        >>> state.indices.shape, bool(info.estimate_variance < 1e-3)
        ((20,), True)

    References:
        Dang, Quiroz, Kohn, Tran and Villani (2019), Hamiltonian Monte Carlo with energy conserving
        subsampling, JMLR 20, algorithm 1; Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC
        by efficient data subsampling, on the perturbation.
    """

    step_size: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)
    num_steps: int | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})
    num_blocks: int | None = dataclasses.field(
        default=None, kw_only=True, metadata={"static": True}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps is not None:
            check_count("num_steps of SubsampledHMC", self.num_steps, least=1)
        if self.num_blocks is not None:
            most = self.batch_size
            check_count("num_blocks of SubsampledHMC", self.num_blocks, least=1, most=most)

    @property
    def rows_at_once(self) -> int:
        """One row: each has an expansion of its own."""
        return 1

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once it and the other settings are found valid.

        Raises:
            TypeError: if a setting is not real.
            ValueError: if a setting is out of range or missing.
        """
        self.check_fields(layout)
        step_size = self.step_size
        if step_size is None:
            step_size = 1.2 / layout.size**0.25
        return check_positive_scalar("step_size", step_size, layout.dtype)

    def init(self, position: Any) -> SubsampledHMCState:
        """The state of a chain at `position`; a pass over all data for each coordinate.

        Raises:
            TypeError: if a setting or a density is not real, or the position has leaves that are
                not floating-point arrays.
            ValueError: if a setting is out of range or missing.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        self.check(layout)
        center = self.flat_center(layout)
        likelihood = self.likelihood_of(layout)

        def of_all(vector: jax.Array) -> jax.Array:
            return likelihood(vector, self.data)

        def column(x: jax.Array) -> jax.Array:
            return jax.jvp(jax.grad(of_all), (center,), (x,))[1]

        hessian = lax.map(column, jnp.eye(layout.size, dtype=layout.dtype))
        expansion = Expansion(jax.grad(of_all)(center), hessian)
        indices = jnp.arange(self.batch_size, dtype=jnp.int32)
        indices = indices * jnp.int32(self.num_rows // self.batch_size)
        estimate = self.estimate_of(layout, expansion)
        return SubsampledHMCState(
            position, indices, estimate(layout.ravel(position), indices)[0], expansion
        )

    def estimate_of(
        self, layout: Layout, expansion: Expansion
    ) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        """Estimate of the log density, less half its variance, and the variance of the estimate.

        The log likelihood of all rows at the center is left out: its rounding would be larger than
        the changes that decide about acceptance.
        """
        likelihood = self.likelihood_of(layout)
        log_prior = self.prior_of(layout)
        center = self.flat_center(layout)
        number = self.num_rows

        def rest(vector: jax.Array, row: Any) -> jax.Array:
            """Log likelihood of a row, less its expansion."""
            row = jax.tree.map(lambda x: x[None], row)
            change = vector - center
            value, gradient = jax.value_and_grad(likelihood)(center, row)
            gradient_of = jax.grad(lambda x: likelihood(x, row))
            curved = jax.jvp(gradient_of, (center,), (change,))[1]
            return likelihood(vector, row) - value - jnp.sum(change * (gradient + curved / 2))

        def estimate(vector: jax.Array, indices: jax.Array) -> tuple[jax.Array, jax.Array]:
            rows = jax.tree.map(lambda x: jnp.asarray(x)[indices], self.data)
            rests = jax.vmap(rest, (None, 0))(vector, rows)
            change = vector - center
            gradient = expansion.gradient + expansion.hessian @ change / 2
            whole = jnp.sum(change * gradient)
            variance = number**2 / self.batch_size * jnp.var(rests, ddof=1)
            total = log_prior(vector) + whole + number * jnp.mean(rests)
            return total - variance / 2, variance

        return estimate

    def step(
        self, key: jax.Array, state: SubsampledHMCState
    ) -> tuple[SubsampledHMCState, SubsampledHMCInfo]:
        """One transition: some new rows, then a trajectory; the next state, and statistics."""
        layout = Layout.of(state.position)
        mean_step = self.check(layout)
        factor = self.factor_of(layout)
        estimate = self.estimate_of(layout, state.expansion)
        for_rows, for_step, for_test, for_noise = random.split(
            random.wrap_key_data(
                jnp.stack(threefry(seed_of(key), jnp.uint32(0))), impl="threefry2x32"
            ),
            4,
        )
        position = layout.ravel(state.position)
        # Exchange some rows.
        proposal = self._exchange(for_rows, state.indices)
        found = estimate(position, proposal)[0]
        row_rate = metropolis_rate(found, state.estimate)
        is_taken = random.uniform(for_test, (), layout.dtype) < row_rate
        indices = jnp.where(is_taken, proposal, state.indices)
        kept = jnp.where(is_taken, found, state.estimate)
        # Follow a trajectory with these rows.
        spread = random.uniform(for_step, (), layout.dtype, 1 - _SPREAD, 1 + _SPREAD)
        step_size = mean_step * spread
        gradient_of = jax.value_and_grad(lambda x: estimate(x, indices), has_aux=True)

        def force(vector: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            (value, variance), gradient = gradient_of(vector)
            return value, variance, pull(factor, gradient)

        def leap(_: Any, carry: Any) -> Any:
            place, momentum, _value, _variance, pulled = carry
            momentum = momentum + step_size / 2 * pulled
            place = place + push(factor, step_size * momentum)
            value, variance, pulled = force(place)
            return place, momentum + step_size / 2 * pulled, value, variance, pulled

        momentum = normal(seed_of(for_noise), layout.size, layout.dtype)
        value, variance, pulled = force(position)
        number = self._num_steps(layout)
        start = position, momentum, value, variance, pulled
        place, last, new_value, new_variance, _ = lax.fori_loop(0, number, leap, start)
        kinetic = (jnp.sum(momentum**2) - jnp.sum(last**2)) / 2
        rate = metropolis_rate(new_value, value, kinetic)
        is_accepted = random.uniform(random.fold_in(for_test, 1), (), layout.dtype) < rate
        position, kept, variance = select_leaves(
            is_accepted, (place, new_value, new_variance), (position, kept, variance)
        )
        new = state._replace(position=layout.unravel(position), indices=indices, estimate=kept)
        is_divergent = ~jnp.isfinite(new_value + kinetic)
        return new, SubsampledHMCInfo(rate, row_rate, variance, step_size, is_divergent)

    def _num_steps(self, layout: Layout) -> int | jax.Array:
        if self.num_steps is not None:
            return self.num_steps
        if self.step_size is None:
            return math.ceil(_LENGTH * layout.size**0.25 / 1.2)
        return jnp.ceil(_LENGTH / self.check(layout)).astype(jnp.int32)

    def _exchange(self, key: jax.Array, indices: jax.Array) -> jax.Array:
        """Rows of the batch, some neighbors of which are drawn anew."""
        size = self.batch_size // (self.num_blocks or min(_NUM_BLOCKS, self.batch_size))
        for_start, for_rows = random.split(key)
        start = random.randint(for_start, (), 0, self.batch_size, jnp.int32)
        places = (start + jnp.arange(size, dtype=jnp.int32)) % self.batch_size
        rows = random.randint(for_rows, (size,), 0, self.num_rows, jnp.int32)
        return indices.at[places].set(rows)
