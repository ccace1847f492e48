"""Non-reversible parallel tempering of a kernel."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.tree_util import Partial

from inference.common.argument_checks import check_count, check_fraction, short_repr
from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.log_densities import require_log_density, wrap_log_density
from inference.common.threefry import seed_of, threefry, uniform
from inference.kernels.gradient_free.scale import is_window_end
from inference.kernels.hamiltonian.adaptive_hamiltonian import AdaptiveHamiltonian
from inference.kernels.hamiltonian.kernel import HamiltonianKernel, Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.kernels.inner_kernel import check_inner_kernel
from inference.kernels.tempering.ladder import (
    first_ladder,
    spread_evenly,
    swap_rates,
    swapped_order,
)
from inference.kernels.tempering.tally import (
    SwapTally,
    empty_tally,
    follow_replicas,
    log_evidence_of,
    observe,
    rejection_rates,
)
from ppl.harvest.pytrees import register_dataclass

_AXIS = "temperature"  # of jax.vmap over replicas


class TemperingState(NamedTuple):
    """State of a chain of :class:`ParallelTempering`.

    Attributes:
        position: Position at temperature 1, a pytree of floating-point arrays.
        log_density: Scalar, the log density of the target at `position`.
        positions: Positions at all temperatures, ``(temperature, ...)``, from the reference to the
            target.
        log_likelihoods: Log densities of the target relative to the reference there.
        ladder: Inverse temperatures, from 0 to 1.
        moves: States of the kernel at the temperatures where it moves. What it has adapted belongs
            to the temperature, and stays there when positions swap.
        infos: Statistics of the last moves.
        replicas: Number of the replica at each temperature.
        legs: Leg of its round trip that each replica is on.
        is_odd: Whether the next swaps are those of odd pairs of neighbors.
        tally: Rejection rates, log evidence and round trips since the ladder has changed.
    """

    position: Any
    log_density: jax.Array
    positions: Any
    log_likelihoods: jax.Array
    ladder: jax.Array
    moves: Any
    infos: Any
    replicas: jax.Array
    legs: jax.Array
    is_odd: jax.Array
    tally: SwapTally


class TemperingInfo(NamedTuple):
    """Statistics of a transition of :class:`ParallelTempering`; all scalars.

    Attributes:
        swap_rate: Mean acceptance rate of swaps, over all pairs of neighbors.
        lowest_swap_rate: Mean rate of the pair that swaps least, since the end of warm-up.
        barrier: Communication barrier from reference to target, the sum of mean rejection rates of
            pairs since the end of warm-up. About twice as many temperatures are enough.
        num_round_trips: Trips of replicas from target to reference and back, since the end of
            warm-up.
        log_evidence: Log evidence by all iterations since the end of warm-up.
        is_divergent: Whether the move at temperature 1 diverged; `None` for kernels that do not
            tell.
    """

    swap_rate: jax.Array
    lowest_swap_rate: jax.Array
    barrier: jax.Array
    num_round_trips: jax.Array
    log_evidence: jax.Array
    is_divergent: jax.Array | None = None


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ParallelTempering:
    r"""Non-reversible parallel tempering: replicas of a chain, from the prior to the posterior.

    Replicas have the densities :math:`p_0(q)\, (p(q) / p_0(q))^\beta`, in a model prior times
    likelihood to the power :math:`\beta`, for inverse temperatures :math:`\beta` from 0 to 1. A
    transition moves each replica by the kernel, at 0 to an independent draw from the prior; then
    neighbors swap their positions, even pairs and odd pairs in turn. So independent draws come down
    to the posterior, and chains find modes that are far apart, with their weights.

    Warm-up adapts the kernel at each temperature, and the temperatures to equal rates of swaps, in
    rounds that double. The log evidence comes with the draws: :func:`evidence`. The summary
    says how many round trips replicas made; without any, modes may be missing.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it.
        kernel: Kernel that moves the replicas, without a log density: :class:`NUTS` or another
            :class:`HamiltonianKernel`, :class:`Slice`, :class:`RandomWalk`, or any :class:`Kernel`
            with `refresh`.
        num_temperatures: Number of temperatures, reference and target included. Twice the barrier
            is a good number.
        reference: Density at which the path starts, a :class:`Reference`; `None` for the prior of
            the model. To temper a log density alone, without a prior, take a part of it, as
            ``Reference(lambda x: 0.05 * log_density(x))``.
        target_acceptance_rate: Acceptance rate that warm-up adapts the step size of a Hamiltonian
            kernel to; `None` for the kernel's own. Other kernels refuse it.

    Example:
        >>> import ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu**2, 0.1), name="y")
        >>> posterior = ppl.condition(model, {"y": 4.0})  # mu is 2 or -2
        >>> kernel = ParallelTempering(num_temperatures=8)
        >>> result = inference.mcmc(jax.random.key(0), posterior, kernel=kernel)
        >>> bool(abs((result.draws["mu"] > 0).mean() - 0.5) < 0.1)
        True

    References:
        Syed, Bouchard-Côté, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a
        scalable highly parallel MCMC scheme, Journal of the Royal Statistical Society B 84.
    """

    log_density: Callable[[Any], jax.Array] | None = None
    kernel: Any = dataclasses.field(default=NUTS(), kw_only=True)
    num_temperatures: int = dataclasses.field(default=10, kw_only=True, metadata={"static": True})
    reference: Any = dataclasses.field(default=None, kw_only=True)
    target_acceptance_rate: float | None = dataclasses.field(
        default=None, kw_only=True, metadata={"static": True}
    )

    def __post_init__(self) -> None:
        if isinstance(self.log_density, Kernel):
            name = type(self.log_density).__name__
            raise TypeError(
                "ParallelTempering: log_density must be a function of a position; the kernel of "
                f"the replicas is by name, ParallelTempering(kernel={name}())"
            )
        wrap_log_density(self)
        number = check_count("num_temperatures", self.num_temperatures, least=2)
        object.__setattr__(self, "num_temperatures", number)

    def init(self, position: Any) -> TemperingState:
        """The state of a chain whose replicas all are at `position`.

        Raises:
            TypeError: if a setting or the log density is not real, or the position has leaves that
                are not floating-point arrays.
            ValueError: if a setting is out of range, or there is no log density or reference.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        self.check(layout)
        if not isinstance(self.kernel, HamiltonianKernel):
            _check_refresh(self.kernel, position, layout.dtype)
        size = self.num_temperatures
        ladder = first_ladder(size, layout.dtype)
        own, log_likelihood = self._split(position, layout.dtype)
        positions = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), position)
        moves = jax.vmap(lambda beta: self._at(beta).init(position), axis_name=_AXIS)(
            ladder[self._first :]
        )
        moves = jax.tree.map(jnp.asarray, moves)
        keys = jax.eval_shape(lambda: random.split(random.key(0), size - self._first))
        _, infos = jax.eval_shape(self._move, keys, ladder[self._first :], moves)
        return TemperingState(
            position,
            own + log_likelihood,
            positions,
            jnp.full(size, log_likelihood),
            ladder,
            moves,
            jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), infos),
            jnp.arange(size, dtype=jnp.int32),
            jnp.zeros(size, jnp.int32),
            jnp.zeros((), bool),
            empty_tally(size, layout.dtype),
        )

    def check(self, layout: Layout) -> None:
        """Checks the settings that are not traced.

        Raises:
            TypeError: if a setting is not of the type it has to be.
            ValueError: if a setting is out of range, or there is no log density or reference.
        """
        self.check_kernel()
        require_log_density(self)
        if self.reference is None:
            raise ValueError(
                "ParallelTempering needs a reference beside a log_density: the path starts at a "
                "density that is easy to sample. Give reference=inference.Reference(log_density, "
                "sample); to temper f alone, Reference(lambda x: 0.05 * f(x))."
            )
        if not (hasattr(self.reference, "split") and hasattr(self.reference, "sample")):
            raise TypeError(
                "reference must be an inference.Reference(log_density, sample), got "
                f"{short_repr(self.reference)}"
            )
        if self.target_acceptance_rate is not None:
            check_fraction("target_acceptance_rate", self.target_acceptance_rate)
            self._check_has_target()
        if hasattr(self.kernel, "check"):
            self.kernel.check(layout)

    def step(self, key: jax.Array, state: TemperingState) -> tuple[TemperingState, TemperingInfo]:
        """One transition: moves at all temperatures, then swaps of neighbors."""
        dtype = state.ladder.dtype
        size = self.num_temperatures
        seed = seed_of(key)
        words = jnp.stack(threefry(seed, jnp.arange(size + 1)), -1)
        keys = random.wrap_key_data(words, impl="threefry2x32")
        # Moves.
        betas = state.ladder[self._first :]
        moves, infos = self._move(keys[self._first : size], betas, state.moves)
        positions = moves.position
        if self._first:
            drawn = self.reference.sample(keys[0])
            positions = jax.tree.map(
                lambda x, y: jnp.concatenate([jnp.asarray(x, y.dtype)[None], y]), drawn, positions
            )
        own, log_likelihoods = jax.vmap(lambda x: self._split(x, dtype))(positions)
        # Swaps.
        rates = swap_rates(state.ladder, log_likelihoods)
        is_turn = (jnp.arange(size - 1) % 2 == 1) == state.is_odd
        units = uniform(words[size], jnp.arange(size - 1), dtype)
        order = swapped_order(is_turn & (units < rates))
        tally = observe(state.tally, state.ladder, log_likelihoods, rates, jnp.int32(0))
        positions, own, log_likelihoods, replicas = jax.tree.map(
            lambda x: x[order], (positions, own, log_likelihoods, state.replicas)
        )
        moves = self._place(betas, moves, jax.tree.map(lambda x: x[self._first :], positions))
        legs, num_round_trips = follow_replicas(state.legs, replicas)
        tally = tally._replace(num_round_trips=tally.num_round_trips + num_round_trips)
        new = TemperingState(
            jax.tree.map(lambda x: x[-1], positions),
            own[-1] + log_likelihoods[-1],
            positions,
            log_likelihoods,
            state.ladder,
            moves,
            infos,
            replicas,
            legs,
            ~state.is_odd,
            tally,
        )
        rejections = rejection_rates(tally)
        is_divergent = getattr(infos, "is_divergent", None)
        return new, TemperingInfo(
            jnp.mean(rates),
            1 - jnp.max(rejections),
            jnp.sum(rejections),
            tally.num_round_trips,
            log_evidence_of(tally),
            None if is_divergent is None else is_divergent[-1],
        )

    def adapt(
        self,
        state: TemperingState,
        info: TemperingInfo,
        iteration: jax.Array,
        num_warmup: jax.Array,
    ) -> TemperingState:
        """The state with the kernel adapted at each temperature, and at times the ladder.

        The ladder changes after iterations 25, 50, 100, ..., by the swaps since the one before. The
        last tenth of warm-up is for the kernel alone.
        """
        moves = state.moves
        betas = state.ladder[self._first :]

        def adapt(beta: jax.Array, move: Any, info: Any) -> Any:
            return self._at(beta).adapt(move, info, iteration, num_warmup)

        if hasattr(self._at(betas[0]), "adapt"):
            moves = jax.vmap(adapt, axis_name=_AXIS)(betas, moves, state.infos)
        is_end = is_window_end(iteration, num_warmup) & (iteration > 0)
        is_last = iteration + 1 == num_warmup
        empty = empty_tally(self.num_temperatures, state.ladder.dtype)
        tally = select_leaves(is_end | is_last, empty, state.tally)
        rates = rejection_rates(state.tally)
        state = state._replace(moves=moves, tally=tally)

        def renew(state: TemperingState) -> TemperingState:
            ladder = spread_evenly(state.ladder, rates)
            positions = jax.tree.map(lambda x: x[self._first :], state.positions)
            moves = self._place(ladder[self._first :], state.moves, positions)
            return state._replace(ladder=ladder, moves=moves)

        return lax.cond(is_end, renew, lambda state: state, state)

    @property
    def _first(self) -> int:
        """Number of temperatures at which the kernel does not move, 1 for independent draws."""
        return 0 if getattr(self.reference, "sample", None) is None else 1

    def _split(self, position: Any, dtype: Any) -> tuple[jax.Array, jax.Array]:
        """Log density of the reference, and that of the target relative to it; -inf for NaN."""
        found = self.reference.split(self.log_density, position)
        own, rest = (jnp.asarray(x, dtype) for x in found)
        return own, jnp.where(jnp.isnan(rest), -jnp.inf, rest)

    def _at(self, beta: jax.Array) -> Any:
        """Kernel at an inverse temperature."""
        log_density = Partial(_tempered, self.reference, self.log_density, beta)
        if isinstance(self.kernel, HamiltonianKernel):
            return AdaptiveHamiltonian(self.kernel, log_density, self.target_acceptance_rate, _AXIS)
        return dataclasses.replace(self.kernel, log_density=log_density)

    def _move(self, keys: jax.Array, betas: jax.Array, moves: Any) -> tuple[Any, Any]:
        """States and statistics of the kernel after a move at each inverse temperature."""

        def move(key: jax.Array, beta: jax.Array, state: Any) -> tuple[Any, Any]:
            return jax.tree.map(jnp.asarray, self._at(beta).step(key, state))

        return jax.vmap(move, axis_name=_AXIS)(keys, betas, moves)

    def _place(self, betas: jax.Array, moves: Any, positions: Any) -> Any:
        """States of the kernel at other positions; what it has adapted stays."""

        def place(beta: jax.Array, state: Any, position: Any) -> Any:
            return self._at(beta).refresh(state._replace(position=position))

        return jax.vmap(place, axis_name=_AXIS)(betas, moves, positions)

    def check_kernel(self) -> None:
        """Checks that the kernel moves one chain, by a log density that is supplied.

        Raises:
            TypeError: if it is not such a kernel.
            ValueError: if it has a log density of its own.
        """
        check_inner_kernel(
            "kernel of ParallelTempering",
            self.kernel,
            "ParallelTempering gives it, at each temperature",
            "a kernel of one chain such as NUTS() or Slice()",
            needs_refresh=True,
        )

    def _check_has_target(self) -> None:
        """Checks that the kernel adapts to the target acceptance rate.

        Raises:
            ValueError: if it does not.
        """
        if isinstance(self.kernel, HamiltonianKernel):
            return
        name = type(self.kernel).__name__
        remedy = "leave it out"
        if hasattr(self.kernel, "target_acceptance_rate"):
            remedy = f"give it to the kernel, {name}(target_acceptance_rate=...)"
        raise ValueError(
            "target_acceptance_rate of ParallelTempering is for Hamiltonian kernels such as NUTS() "
            f"or HMC(), got {self.target_acceptance_rate!r} with {name}(): {remedy}"
        )


def _check_refresh(kernel: Any, position: Any, dtype: Any) -> None:
    """Checks that `refresh` of a kernel evaluates the log density, if its `init` does.

    Raises:
        TypeError: if it does not, or the state has no position.
    """
    calls = []

    def density(position: Any) -> jax.Array:
        calls.append(position)
        return jnp.zeros((), dtype)

    name = type(kernel).__name__
    kernel = dataclasses.replace(kernel, log_density=density)
    state = jax.eval_shape(lambda x: kernel.init(x), position)
    if not (hasattr(state, "position") and hasattr(state, "_replace")):
        raise TypeError(
            f"the state of {name} must be a NamedTuple with a position, got a "
            f"{type(state).__name__}"
        )
    num_at_init = len(calls)
    jax.eval_shape(lambda x: kernel.refresh(x), state)
    if num_at_init and len(calls) == num_at_init:
        raise TypeError(
            f"{name}.refresh does not evaluate the log density, as {name}.init does. Swaps change "
            "the position of a state: refresh must return it with all that it caches of the log "
            "density evaluated anew"
        )


def _tempered(reference: Any, log_density: Any, beta: jax.Array, position: Any) -> jax.Array:
    """Log density of the path at an inverse temperature."""
    own, rest = reference.split(log_density, position)
    return own + jnp.where(beta > 0, beta.astype(rest.dtype) * rest, 0)
