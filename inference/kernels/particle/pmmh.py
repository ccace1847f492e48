"""Particle marginal Metropolis-Hastings: parameters moved by an estimate of their likelihood."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from inference.common.argument_checks import (
    check_count,
    check_own_proposal,
    check_positive_scalar,
    short_repr,
)
from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.log_densities import (
    check_log_density,
    metropolis_rate,
    require_log_density,
)
from inference.common.matrices import push
from inference.common.threefry import normal, seed_of, threefry, uniform
from inference.kernels.gradient_free.random_walk import RandomWalk
from inference.kernels.gradient_free.scale import (
    Scale,
    adapt_scale,
    average_step_size,
    init_scale,
)
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.particles.resampling import SCHEMES
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_restart,
)
from ppl.harvest.pytrees import register_dataclass

_NUM_CHECKS = 20  # estimates at one position, for their variance
_LEARNS_STEP_SIZE = 0.5  # share of warm-up; later the covariance alone changes

Estimate = Callable[[jax.Array, Any], tuple[jax.Array, Any]]


class PMMHState(NamedTuple):
    """State of a chain of :class:`PMMH`.

    Attributes:
        position: Parameters on unconstrained space, a pytree of floating-point arrays.
        path: Path that was drawn with the estimate.
        log_density: Scalar, the estimate of the log density at `position` that was accepted.
        step_size: Scalar, the size of steps in units of the covariance.
        scale: Covariance of positions.
        averaging: State of dual averaging of the step size.
        seed: Two words of uint32, of the last transition.
        variance: Variance of estimates of the log density where warm-up ended; NaN before, infinite
            if an estimate was not finite.
    """

    position: Any
    path: Any
    log_density: jax.Array
    step_size: jax.Array
    scale: Scale
    averaging: DualAveraging
    seed: jax.Array
    variance: jax.Array


class PMMHInfo(NamedTuple):
    """Statistics of a transition of :class:`PMMH`; all scalars.

    Attributes:
        acceptance_rate: Mean probability with which proposals were accepted.
        step_size: Size of the steps.
        log_density_estimate: The estimate of the log density that the chain holds, on
            unconstrained space: log likelihood, log prior and log Jacobian.
        log_likelihood_variance: Variance of such estimates where the warm-up of the chain ended, of
            20; infinite if one of them was not finite, NaN without warm-up.
    """

    acceptance_rate: jax.Array
    step_size: jax.Array
    log_density_estimate: jax.Array
    log_likelihood_variance: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PMMH:
    r"""Particle marginal Metropolis-Hastings, for the parameters of a state space model.

    The latent sites outside of a ``lax.scan`` are its parameters. They move on unconstrained space
    by a random walk, whose covariance warm-up learns from the draws. A particle filter estimates
    the likelihood of each proposal, and gives a path, which is kept or dropped with it. The
    estimate of the present parameters stays as it was when they were accepted, so that draws of
    parameters and path are exact for any number of particles. With too few, chains stick where an
    estimate was too high. A variance of the log likelihood of 1 to 2 near the mode is best; the
    summary tells it, and warns above 3. It falls as 1 over the number of particles.

    A site before the scan that enters its first carry only, such as an initial state, belongs to
    the path.

    Attributes:
        num_particles: Number of particles of each filter.
        scheme: Resampling scheme: ``"systematic"``, ``"stratified"``, ``"residual"`` or
            ``"multinomial"``.
        proposal: "optimal" draws latent sites of a step from their exact distribution given the
            carry and the data of the step, where they have one; see :func:`particle_filter`. None
            for the model's own distributions.
        kernel: Random walk of the parameters, a :class:`RandomWalk`: its covariance and step size
            before warm-up, its rate, and the number of proposals of a transition, 1 by default.
            Warm-up adapts the step size to the rate in its first half, and then takes the given
            one, by default :math:`2.56 / \sqrt{d}`, as rates are low where estimates are noisy.
        estimate: Function of a key and a position that returns the log of an unbiased estimate of
            a density, and a pytree drawn with it. :func:`mcmc` reads it off the model.

    Raises:
        TypeError: if the number of particles is not an integer, or the kernel is no random walk.
        ValueError: if the number is below 2, or the scheme or the proposal unknown.

    Example:
        >>> import ppl, distributions as dist, inference
        >>> def model(key):
        ...     scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        ...     def step(x, key):
        ...         x = ppl.sample(key, dist.Normal(x, scale), name="x")
        ...         return x, ppl.sample(key, dist.Normal(x**2, 0.5), name="y")
        ...     jax.lax.scan(step, jnp.zeros(()), jax.random.split(key, 4))
        >>> posterior = ppl.condition(model, {"y": jnp.array([0.1, 0.3, 1.2, 2.0])})
        >>> kernel = inference.PMMH(num_particles=50)
        >>> result = inference.mcmc(jax.random.key(0), posterior, kernel=kernel, num_warmup=200)
        >>> result.draws["scale"].shape, result.draws["x"].shape
        ((4, 1000), (4, 1000, 4))

    References:
        Andrieu, Doucet and Holenstein (2010), Particle Markov chain Monte Carlo methods, Journal of
        the Royal Statistical Society B 72, section 4.4; Sherlock, Thiery, Roberts and Rosenthal
        (2015), On the efficiency of pseudo-marginal random walk Metropolis algorithms, Annals of
        Statistics 43, on step size and variance.
    """

    num_particles: int = dataclasses.field(default=100, metadata={"static": True})
    scheme: str = dataclasses.field(default="systematic", kw_only=True, metadata={"static": True})
    proposal: str | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})
    kernel: Any = dataclasses.field(default=RandomWalk(target_acceptance_rate=0.15), kw_only=True)
    estimate: Estimate | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        number = check_count("num_particles", self.num_particles, least=2)
        object.__setattr__(self, "num_particles", number)
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {[*SCHEMES]}, got {short_repr(self.scheme)}")
        check_own_proposal(self.proposal)
        # Unflattening a pytree puts any object in the place of a leaf, and runs nothing of this.
        _check_random_walk(self.kernel)

    def init(self, position: Any) -> PMMHState:
        """The state of a chain at `position`, with an estimate of a fixed key.

        Raises:
            TypeError: if a setting is not real, the position has leaves that are not floating-point
                arrays, or the estimate returns no pair.
            ValueError: if a setting is out of range, or there is no estimate, or it is no scalar.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        self.kernel.check(layout)
        log_density, path = self._estimated(random.key(0), position)
        step_size = self._best_step_size(layout)
        return PMMHState(
            position,
            path,
            log_density.astype(layout.dtype),
            step_size,
            init_scale(self.kernel.covariance, layout),
            dual_averaging_restart(dual_averaging_init(step_size)),
            jnp.zeros(2, jnp.uint32),
            jnp.full((), jnp.nan, layout.dtype),
        )

    def refresh(self, state: PMMHState) -> PMMHState:
        """The state itself: a new estimate in the place of the old one would bias the draws."""
        return state

    def step(self, key: jax.Array, state: PMMHState) -> tuple[PMMHState, PMMHInfo]:
        """One transition: the next state, and the statistics of its proposals."""
        layout = Layout.of(state.position)
        seed = seed_of(key)
        num_steps = self.kernel.num_steps or 1

        def move(i: Any, carry: Any) -> Any:
            old, total = carry
            position, _, log_density = old
            words = jnp.stack(threefry(seed, 2 * i))
            noise = normal(words, layout.size, layout.dtype)
            step = push(state.scale.factor, state.step_size * noise)
            proposal = layout.unravel(layout.ravel(position) + step)
            found, path = self._estimated(_key_of(seed, 2 * i + 1), proposal)
            found = found.astype(layout.dtype)
            rate = metropolis_rate(found, log_density)
            is_accepted = uniform(words, jnp.uint32(0), layout.dtype) < rate
            return select_leaves(is_accepted, (proposal, path, found), old), total + rate

        start = state.position, state.path, jnp.asarray(state.log_density, layout.dtype)
        carry = start, jnp.zeros((), layout.dtype)
        (position, path, log_density), total = lax.fori_loop(0, num_steps, move, carry)
        new = state._replace(position=position, path=path, log_density=log_density, seed=seed)
        info = PMMHInfo(total / num_steps, state.step_size, log_density, state.variance)
        return new, info

    def adapt(
        self, state: PMMHState, info: PMMHInfo, iteration: jax.Array, num_warmup: jax.Array
    ) -> PMMHState:
        """The state with step size and covariance adapted; at the end, the variance is measured."""
        layout = Layout.of(state.position)
        averaging, step_size = average_step_size(
            state.averaging,
            info.acceptance_rate,
            self.kernel.target_acceptance_rate,
            iteration,
            num_warmup,
        )
        best = self._best_step_size(layout)
        last = _LEARNS_STEP_SIZE * jnp.asarray(num_warmup, layout.dtype)
        learns = jnp.asarray(iteration, layout.dtype) < last
        step_size = jnp.where(learns, jnp.minimum(step_size, 10 * best), best)
        scale = adapt_scale(state.scale, layout.ravel(state.position), iteration, num_warmup)
        variance = self._variance(state, iteration + 1 == num_warmup)
        return state._replace(
            step_size=step_size, scale=scale, averaging=averaging, variance=variance
        )

    def _variance(self, state: PMMHState, is_wanted: jax.Array) -> jax.Array:
        """Variance of estimates at the position of a state; the old one if it is not wanted."""

        def add(i: Any, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            found, _ = self._estimated(_key_of(~state.seed, i), state.position)
            off = found.astype(state.log_density.dtype) - state.log_density
            return sums[0] + off, sums[1] + off**2

        zero = jnp.zeros_like(state.log_density)
        first, second = lax.fori_loop(0, jnp.where(is_wanted, _NUM_CHECKS, 0), add, (zero, zero))
        variance = (second - first**2 / _NUM_CHECKS) / (_NUM_CHECKS - 1)
        variance = jnp.where(jnp.isfinite(first), variance, jnp.inf)
        return jnp.where(is_wanted, variance, state.variance)

    def _estimated(self, key: jax.Array, position: Any) -> tuple[jax.Array, Any]:
        function: Callable[..., Any] = require_log_density(self, "estimate")
        given = function(key, position)
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(
                "estimate must return a pair: the log of the estimate, and a pytree drawn with it; "
                f"got {short_repr(given)}"
            )
        return check_log_density(given[0], "estimate"), jax.tree.map(jnp.asarray, given[1])

    def _best_step_size(self, layout: Layout) -> jax.Array:
        given = self.kernel.step_size
        best = 2.56 / math.sqrt(layout.size) if given is None else given
        return check_positive_scalar("step_size", best, layout.dtype)


def _key_of(seed: jax.Array, number: Any) -> jax.Array:
    words = jnp.stack(threefry(seed, jnp.asarray(number, jnp.uint32)))
    return random.wrap_key_data(words, impl="threefry2x32")


def _check_random_walk(kernel: Any) -> None:
    """Checks that a kernel proposes by a random walk.

    Raises:
        TypeError: if it does not.
        ValueError: if it has a log density of its own.
    """
    name = type(kernel).__name__
    if isinstance(kernel, HamiltonianKernel):
        raise TypeError(
            f"kernel of PMMH must be a RandomWalk, got {name}: it follows a gradient, and the "
            "estimate of a particle filter has none, as resampling jumps; its noise would reject "
            'long trajectories. Take PMMH(), or Gibbs({"x": ParticleGibbs()}, '
            f"rest={name}()) with the latent sites of the scan, where {name} sees exact densities"
        )
    if not isinstance(kernel, RandomWalk):
        made = f"; did you mean {kernel.__name__}()?" if isinstance(kernel, type) else ""
        raise TypeError(f"kernel of PMMH must be a RandomWalk, got {short_repr(kernel)}{made}")
    if kernel.log_density is not None:
        raise ValueError(
            "kernel of PMMH has a log density of its own, but a filter estimates that of the model:"
            " pass RandomWalk() without log_density"
        )
