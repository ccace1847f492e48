"""SVI's steps: stochastic gradient ascent of an objective, in one compiled loop."""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.target import PriorSampler, Target
from inference.common.threefry import seed_of, threefry
from inference.guides.guide import Guide, draw_of, init_of_guide
from inference.runtime.devices import default_device
from inference.variational.elbo import Objective, with_gradient_of
from inference.variational.optax_step import apply_gradient
from ppl.harvest.function_equality import ComparedByContents

NUM_ROWS = 4096  # maximum number of steps in one call
_STEPS_PER_TURN = 25  # on an accelerator, steps between two looks at whether the run goes on
BLOCK = 100  # steps; the test of settling compares mean ELBOs of blocks
_NUM_CHANGES = 10  # last relative changes from block to block
_DECAY = 7  # power of the step in the weights of the average
_DRAWS = np.uint32(1 << 31)  # first counter of draws, above the counters of starting points
NEVER = -1.0  # a tolerance below all relative changes: the run never settles
_BATCHES = np.uint32(0x9E3779B9)  # keeps the seed of batches apart from the seed of draws


class Settling(NamedTuple):
    """ADVI's test of convergence: the mean or median of the last ten relative changes of the ELBO.

    Attributes:
        total: Sum of the ELBOs of the steps in the current block.
        mean: Mean ELBO of the block before; NaN in the first block.
        changes: The last relative changes from block to block, the newest last; infinite at first.

    References:
        Kucukelbir et al. (2017), Automatic differentiation variational inference, JMLR 18; its
        implementation in Stan, which averages over 100 draws every 100 steps.
    """

    total: jax.Array
    mean: jax.Array
    changes: jax.Array

    def is_settled(self, tolerance: Any) -> jax.Array:
        """Whether the ELBO changes by less than `tolerance` of itself."""
        num_small = jnp.sum(self.changes < tolerance)
        return (jnp.mean(self.changes) < tolerance) | (num_small > _NUM_CHANGES // 2)

    def at_block_end(self) -> "Settling":
        """The record after the end of a block."""
        mean = self.total / BLOCK
        change = jnp.abs((mean - self.mean) / mean)
        newest = jnp.where(jnp.isnan(change), jnp.inf, change)
        return Settling(jnp.zeros_like(mean), mean, jnp.append(self.changes[1:], newest))


class SVIState(NamedTuple):
    """The state of an SVI run: all that the next steps depend on, besides the problem.

    Attributes:
        step: Number of complete steps.
        seed: Two 32-bit words; with its number, they determine the noise of a step.
        parameters: Parameters of the guide.
        average: Polynomial-decay average of the parameters: step `t` has a weight like ``t**7``.
        optimizer_state: State of the optimizer.
        settling: Record of the test whether the ELBO has settled.
        carried: State of the model and the guide, made by `ppl.state`; None if they have none.

    References:
        Shamir and Zhang (2013), Stochastic gradient descent for non-smooth optimization:
        convergence results and optimal averaging schemes, section 4.
    """

    step: Any
    seed: Any
    parameters: Any
    average: Any
    optimizer_state: Any
    settling: Any
    carried: Any = None


class ModelAndGuide(NamedTuple):
    """The parameters of a fit to a target that has parameters itself.

    Attributes:
        model: Parameters of the target.
        guide: Parameters of the guide.
    """

    model: Any
    guide: Any


class Parametric(Protocol):
    """Parameters of a target; a pytree.

    Attributes:
        initial: The parameters to begin with.
    """

    initial: Any

    def at(self, target: Any, parameters: Any) -> Target:
        """The target with other parameters."""
        ...


class Carried(Protocol):
    """State that a target and a guide carry from step to step; a pytree.

    Attributes:
        initial: The state before the first step.
    """

    initial: Any

    def at(self, target: Any, guide: Any, values: Any) -> tuple[Any, Any]:
        """The target and the guide with other state."""
        ...

    def call(self, function: Callable[[Any], Any], at: Any, values: Any) -> tuple[Any, Any]:
        """The result of a function of `at` that evaluates them, and the next state."""
        ...


class SVIProblem(NamedTuple):
    """The target, guide, objective and optimizer of an SVI run; a pytree.

    Attributes:
        target: The density.
        guide: The family.
        objective: The function of the guide's parameters to be maximized.
        optimizer: An optax optimizer, compared by contents.
        particles: The numbers of the draws of a step.
        layout: Layout of flat positions.
        batches: A function ``(key, target, guide)`` that draws a batch of the data: it returns the
            target, guide and layout of one step. `None` if each step sees all data.
        parametric: The parameters of the target. `None` if it has none.
        carried: The state of the target and the guide. `None` if they have none.
    """

    target: Target
    guide: Guide
    objective: Objective
    optimizer: ComparedByContents
    particles: np.ndarray
    layout: Layout
    batches: Callable[[jax.Array, Target, Guide], tuple[Target, Guide, Layout]] | None = None
    parametric: Parametric | None = None
    carried: Carried | None = None

    def at(self, seed: jax.Array, step: jax.Array) -> "SVIProblem":
        """The problem of a step, for its batch of the data."""
        if self.batches is None:
            return self
        key = random.wrap_key_data(jnp.stack(threefry(seed ^ _BATCHES, step)), impl="threefry2x32")
        target, guide, layout = self.batches(key, self.target, self.guide)
        return self._replace(target=target, guide=guide, layout=layout)

    def with_state(self, values: Any) -> "SVIProblem":
        """The problem with other state of the target and the guide."""
        if self.carried is None:
            return self
        target, guide = self.carried.at(self.target, self.guide, values)
        return self._replace(target=target, guide=guide)

    def split(self, parameters: Any) -> tuple["SVIProblem", Any]:
        """The problem of the model with its part of the parameters, and the guide's part."""
        if self.parametric is None:
            return self, parameters
        target = self.parametric.at(self.target, parameters.model)
        return self._replace(target=target), parameters.guide

    def log_density(self, position: jax.Array) -> jax.Array:
        """The log density of a flat position."""
        return self.target.log_density(self.layout.unravel(position))

    def elbo(self, parameters: Any, keys: jax.Array) -> jax.Array:
        """The estimate of the objective from the draws with `keys`, a scalar."""
        problem, of_guide = self.split(parameters)
        objective = self.objective
        for_model = getattr(objective, "for_model", objective)
        if self.parametric is None or for_model == objective:
            elbo = objective.mean(problem.log_density, self.guide, of_guide, keys)
            return elbo.astype(self.layout.dtype)
        # The gradient by parameters of the guide, and that by parameters of the target.
        held, _ = self.split(lax.stop_gradient(parameters))
        elbo = objective.mean(held.log_density, self.guide, of_guide, keys)
        fixed = lax.stop_gradient(of_guide)
        of_model = for_model.mean(problem.log_density, self.guide, fixed, keys)
        return with_gradient_of(elbo, elbo + of_model).astype(self.layout.dtype)


def begin_svi(
    problem: SVIProblem, position: jax.Array, seed: jax.Array, scale: Any = None
) -> SVIState:
    """The state before the first step; `scale` is the spread of the target, if it is known."""
    parameters = init_of_guide(problem.guide, position, problem.layout, scale)
    if problem.parametric is not None:
        parameters = ModelAndGuide(problem.parametric.initial, parameters)
    zero = jnp.zeros((), problem.layout.dtype)
    changes = jnp.full(_NUM_CHANGES, jnp.inf, zero.dtype)
    state = SVIState(
        step=jnp.int32(0),
        seed=seed,
        parameters=parameters,
        average=parameters,
        optimizer_state=problem.optimizer.value.init(parameters),
        settling=Settling(zero, jnp.full_like(zero, jnp.nan), changes),
        carried=None if problem.carried is None else problem.carried.initial,
    )
    # Strongly typed, as the results of a loop are.
    return jax.tree.map(lambda x: lax.convert_element_type(x, jnp.result_type(x)), state)


def keys_of(seed: jax.Array, step: jax.Array, particles: jax.Array) -> jax.Array:
    """The keys of the draws of a step."""
    counters = step.astype(jnp.uint32) * particles.size + particles
    words = jnp.stack(threefry(seed, counters), axis=-1)
    return random.wrap_key_data(words, impl="threefry2x32")


class Advance(NamedTuple):
    """The outcome of the steps of one call.

    Attributes:
        state: The state after the steps. If the last step of `advance_svi` is not finite, nor is
            this state.
        elbos: Estimate of the ELBO at each step. If the call ended at a step that is not finite,
            its estimate is the last.
        is_finite: Whether the ELBO and its gradient were finite at all steps.
        is_settled: Whether the ELBO has settled.
    """

    state: SVIState
    elbos: Any
    is_finite: Any
    is_settled: Any


def advance_svi(
    problem: SVIProblem, state: SVIState, stop: jax.Array, tolerance: jax.Array
) -> Advance:
    """Takes steps until `stop` are complete, at most `NUM_ROWS` of them.

    The loop ends early after a step with an ELBO or gradient that is not finite, and once the ELBO
    has settled. The state before such a step is that of another call, which stops there: to keep
    it, each step would have to choose between two states, number by number.

    An accelerator waits for the host wherever a loop may end. So it takes a fixed number of steps
    in a turn; steps of a turn after the end of the loop change nothing.
    """
    has_turns = default_device().platform != "cpu"
    last = jnp.minimum(stop, state.step + NUM_ROWS)
    elbos = jnp.zeros(NUM_ROWS, problem.layout.dtype)
    start = Advance(state, elbos, jnp.bool_(True), state.settling.is_settled(tolerance))

    def step(now: Advance, counts: Any = True) -> Advance:
        after, elbo, is_finite = _take_step(problem, now.state)
        row = jnp.where(counts, now.state.step - state.step, NUM_ROWS)
        elbos = now.elbos.at[row].set(elbo, mode="drop")
        after = after if counts is True else select_leaves(counts, after, now.state)
        return now._replace(
            state=after, elbos=elbos, is_finite=now.is_finite & (is_finite | ~jnp.asarray(counts))
        )

    def block(now: Advance) -> Advance:
        end = (now.state.step // BLOCK + 1) * BLOCK

        def within(now):
            return now.is_finite & (now.state.step < jnp.minimum(last, end))

        def turn(now):
            return lax.fori_loop(0, _STEPS_PER_TURN, lambda _, now: step(now, within(now)), now)

        now = lax.while_loop(within, turn if has_turns else step, now)
        settling = select_leaves(
            now.state.step == end, now.state.settling.at_block_end(), now.state.settling
        )
        is_settled = settling.is_settled(tolerance)
        return now._replace(state=now.state._replace(settling=settling), is_settled=is_settled)

    def may_go_on(now):
        return now.is_finite & (now.state.step < last) & ~now.is_settled

    return lax.while_loop(may_go_on, block, start)


def step_svi(problem: SVIProblem, state: SVIState, tolerance: Any) -> Advance:
    """Takes one step; `elbos` of the result is the ELBO of this step, which may be infinite or NaN.

    The state stays as it is if the ELBO or its gradient is not finite. There is no loop in it, for
    whose end the host would have to wait on an accelerator.
    """
    after, elbo, is_finite = _take_step(problem, state)
    state = select_leaves(is_finite, after, state)
    is_end = is_finite & (state.step % BLOCK == 0)
    settling = select_leaves(is_end, state.settling.at_block_end(), state.settling)
    state = state._replace(settling=settling)
    return Advance(state, elbo, is_finite, settling.is_settled(tolerance))


def _take_step(problem: SVIProblem, state: SVIState) -> tuple[SVIState, jax.Array, jax.Array]:
    """The state after a step, its ELBO, and whether this and its gradient are finite."""
    elbo, gradient, carried = _elbo_and_gradient(problem, state)
    is_finite = jnp.isfinite(elbo) & _all_finite(gradient)
    after = _apply_update(problem, state, elbo, gradient)._replace(carried=carried)
    return after, elbo, is_finite


def _elbo_and_gradient(problem: SVIProblem, state: SVIState) -> tuple[jax.Array, Any, Any]:
    """The ELBO of the next step, the gradient of its negative, and the state after the step."""
    keys = keys_of(state.seed, state.step, jnp.asarray(problem.particles))
    problem = problem.at(state.seed, state.step).with_state(state.carried)

    def loss(parameters):
        return -problem.elbo(parameters, keys)

    evaluate = jax.value_and_grad(loss)
    if problem.carried is None:
        value, gradient = evaluate(state.parameters)
        return -value, gradient, None
    of_step = evaluate, state.parameters, state.carried
    (value, gradient), carried = problem.carried.call(*of_step)
    return -value, gradient, carried


def _apply_update(problem: SVIProblem, state: SVIState, elbo: jax.Array, gradient: Any) -> SVIState:
    parameters, optimizer_state = apply_gradient(
        problem.optimizer, gradient, state.optimizer_state, state.parameters, value=-elbo
    )
    step = state.step + 1
    weight = (1 + _DECAY) / (step + _DECAY)
    average = jax.tree.map(
        lambda old, new: old + (new - old) * weight.astype(new.dtype), state.average, parameters
    )
    settling = state.settling._replace(total=state.settling.total + elbo)
    return SVIState(step, state.seed, parameters, average, optimizer_state, settling)


def _all_finite(tree: Any) -> jax.Array:
    """Whether all numbers are finite: 0 times another number is NaN, and so is a sum with NaN.

    XLA for the CPU adds numbers up in lanes, several times as fast as it joins flags.
    """
    checks = [jnp.sum(leaf * 0) == 0 for leaf in jax.tree.leaves(tree)]
    return functools.reduce(operator.and_, checks, jnp.bool_(True))


class GuideDraws(NamedTuple):
    """Draws of a fitted guide.

    Attributes:
        draws: Values by site, ``(draw, *shape)``.
        log_density: Log density of the model at the positions, ``(draw,)``.
        log_weights: `log_density` less the guide's log density, ``(draw,)``.
        position: Flat positions, ``(draw, size)``.
    """

    draws: dict[str, Any]
    log_density: jax.Array
    log_weights: jax.Array
    position: jax.Array


def draw_batches(
    problem: SVIProblem, parameters: Any, key: jax.Array, numbers: jax.Array
) -> GuideDraws:
    """The draws with these `numbers`, ``(batch, draw)``, made batch by batch."""
    problem, parameters = problem.split(parameters)
    guide = problem.guide

    def one(words: jax.Array) -> GuideDraws:
        key = random.wrap_key_data(words, impl="threefry2x32")
        position, log_prob = draw_of(guide, parameters, key)
        log_density = problem.log_density(position)
        weight = log_density - log_prob
        values = problem.target.constrain(problem.layout.unravel(position))
        return GuideDraws(values, log_density, weight, position)

    return _map_draws(one, key, numbers)


def draw_prior(sampler: PriorSampler, key: jax.Array, numbers: jax.Array) -> tuple[Any, jax.Array]:
    """The draws of the prior with these `numbers`, ``(batch, draw)``, and their log weights."""
    return _map_draws(
        lambda words: sampler.weighted(random.wrap_key_data(words, impl="threefry2x32")),
        key,
        numbers,
    )


def _map_draws(one: Callable[[jax.Array], Any], key: jax.Array, numbers: jax.Array) -> Any:
    """The results of `one` on the random words of each number, ``(draw, *shape)``."""
    words = jnp.stack(threefry(seed_of(key), _DRAWS + numbers), axis=-1)
    batches = lax.map(jax.vmap(one), words)
    return jax.tree.map(lambda x: x.reshape(numbers.size, *x.shape[2:]), batches)
