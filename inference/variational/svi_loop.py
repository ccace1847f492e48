"""SVI's loop on the host: the start, calls of the compiled steps, and the end with its warnings."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.layout import Layout
from inference.common.serialization import restore_structure
from inference.common.state_leaves import kinds
from inference.common.target import PriorSampler
from inference.initialization.initial_positions import NormalStart, parse_init
from inference.initialization.not_finite import not_finite, not_finite_gradients
from inference.initialization.start_search import StartingPoints, find_starts, trace_first_finite
from inference.runtime.compiled_program import compile_once
from inference.runtime.progress import Pace
from inference.runtime.signature import signature
from inference.variational.svi_step import (
    NEVER,
    NUM_ROWS,
    Advance,
    GuideDraws,
    SVIProblem,
    SVIState,
    advance_svi,
    begin_svi,
    draw_batches,
    draw_prior,
    keys_of,
    step_svi,
)

CALLBACK_STEPS = 100  # steps from one call of a callback to the next
_MAX_DRAWS_PER_BATCH = 64
_REMEDIES = (
    "The parameters are those before that step. Use a smaller learning rate, more particles, "
    "optax.clip_by_global_norm before the optimizer, or another init."
)


class Fit(NamedTuple):
    """The result of an optimization.

    Attributes:
        state: The last state.
        elbos: Estimate of the ELBO at each step, ``(step,)``.
        failure: Why the run stopped at a value that is not finite; empty if it did not stop.
        is_ended: Whether the callback ended the run.
    """

    state: SVIState
    elbos: np.ndarray
    failure: str = ""
    is_ended: bool = False


Callback = Callable[[int, float, SVIState], Any]


class FitRecorder(Protocol):
    """Recorder of a fit, from which it can go on."""

    def record(
        self, state: SVIState, elbos: Sequence[np.ndarray], *, is_last: bool, is_ended: bool
    ) -> None:
        """Records a state, and the ELBOs of all steps up to it: if it is due, or the last one."""
        ...


def fit(
    key: jax.Array,
    problem: SVIProblem,
    *,
    num_steps: int,
    tolerance: float | None,
    init: str | Mapping[str, Any] | NormalStart,
    state: SVIState | None,
    on_progress: Callable[[int, float], None],
    callback: Callback | None = None,
    feed: Iterator[SVIProblem] | None = None,
    begun: Fit | None = None,
    recorder: FitRecorder | None = None,
) -> Fit:
    """Takes `num_steps` steps, or fewer if the run settles, fails or ends; see `inference.svi`.

    Args:
        key: A random key.
        problem: The problem of all steps.
        num_steps: Maximum number of steps.
        tolerance: Relative change of the ELBO at which the run settles.
        init: Starting point.
        state: State to go on from, in place of a start.
        on_progress: Function that is called after each compiled call, with the number of finished
            steps and the last ELBO.
        callback: Function that is called after every 100th step and at the end, with the number of
            steps of the state, the mean ELBO since the call before, and the state. The run ends if
            it returns True.
        feed: The problem of each step, for its batch of the data; the run ends with the last
            problem. The next problem is made while a step is computed.
        begun: Part of this fit that was made before, instead of a start. Its steps count among the
            `num_steps`, and its batches are no longer in `feed`.
        recorder: Recorder that is told the state after each compiled call and at the end.

    Raises:
        ValueError: if the ELBO or its gradient is not finite from the start, or `state` belongs to
            another problem.
    """
    # Steps made before, and the first batch of the feed.
    done = np.zeros(0, problem.layout.dtype) if begun is None else begun.elbos
    is_over = len(done) >= num_steps
    is_fed = feed is not None
    if feed is not None:
        feed = itertools.islice(feed, max(num_steps - len(done), 0))
        upcoming = next(feed, None)
        is_over = is_over or upcoming is None
        problem = upcoming or problem
    # The state to go on from.
    run = _SVIRun(problem, tolerance, is_fed=is_fed)
    if begun is not None:
        now = begun.state
        is_over = is_over or begun.is_ended or run.is_settled(now)
    else:
        now = run.start_fit(key, init) if state is None else run.resume_fit(state)
    if is_over:
        return begun or Fit(now, done)
    # The compiled calls, one each for many steps or for each batch of the feed.
    num_done = len(done)
    parts = [done]
    moved = None
    is_ended = False
    first = int(now.step) - num_done
    told = _Teller(callback, first, int(now.step), done)
    if feed is None:
        moves = _moves(run, now, first + num_steps, stops=callback is not None)
    else:
        moves = _fed_moves(run, now, itertools.chain([problem], feed))
    # Make the calls, and tell each to the callback, the progress and the recorder.
    try:
        for moved in moves:
            parts.append(moved.elbos)
            now = moved.state
            num_done += len(moved.elbos)
            on_progress(num_done, moved.elbos[-1] if len(moved.elbos) else np.nan)
            is_over = not moved.is_finite or moved.is_settled or num_done == num_steps
            is_ended = told.tell(now, moved.elbos, is_over)
            if is_ended or is_over:
                break
            if recorder is not None:
                recorder.record(now, parts, is_last=False, is_ended=False)
        else:  # the feed has ended
            told.tell(now, np.zeros(0), True)
    except KeyboardInterrupt:
        num_done = int(now.step) - first
        if not num_done:
            raise
        parts = [np.concatenate(parts)[:num_done]]  # an interrupt may come between the two
        _warn(f"interrupted: the result is that of {num_done} steps of {num_steps}")
    # Record the end, and warn of a failure.
    failure = "" if moved is None or moved.is_finite else _failure(run.problem, now)
    if recorder is not None:
        recorder.record(now, parts, is_last=True, is_ended=is_ended and not failure)
    if failure:
        _warn(failure)
    return Fit(now, np.concatenate(parts), failure, is_ended)


def start_fed(
    key: jax.Array, problem: SVIProblem, init: str | Mapping[str, Any] | NormalStart
) -> SVIState:
    """The state before the first step of a user's own loop; `problem` is for its first batch.

    Raises:
        ValueError: if no start has a finite ELBO and gradient.
    """
    return _SVIRun(problem, None, is_fed=True).start_fit(key, init)


def trace_start_fed(
    key: jax.Array, problem: SVIProblem, init: str | Mapping[str, Any] | NormalStart
) -> SVIState:
    """The state of :func:`start_fed`, traceable; without an error if no start is finite."""
    known = _normal_start(init, problem)

    def is_finite(seed: jax.Array, position: jax.Array) -> jax.Array:
        state = begin_svi(problem, position, seed, known.scale)
        return step_svi(problem, state, np.asarray(NEVER, problem.layout.dtype)).is_finite

    def start(key: jax.Array) -> SVIState:
        place = key, known.init, problem.target, problem.layout
        seed, position = trace_first_finite(*place, is_finite)
        return begin_svi(problem, position, seed, known.scale)

    return jax.jit(start)(key)


def _normal_start(init: str | Mapping[str, Any] | NormalStart, problem: SVIProblem) -> NormalStart:
    if isinstance(init, NormalStart):
        return init
    return NormalStart(parse_init(init, problem.target, 1))


class _Teller:
    """The calls of a callback: after every 100th step, and at the end."""

    def __init__(self, callback: Callback | None, first: int, step: int, elbos: Any) -> None:
        """Calls of a fit at `step`, which began at `first` and has these ELBOs."""
        self.callback, self.told = callback, max(first, step // CALLBACK_STEPS * CALLBACK_STEPS)
        self.elbos = list(elbos[self.told - first :])

    def tell(self, state: SVIState, elbos: np.ndarray, is_over: bool) -> bool:
        """Calls back if it is time to; whether the run is to end."""
        if self.callback is None:
            return False
        self.elbos.extend(elbos)
        step = int(state.step)
        if step == self.told or not (is_over or step % CALLBACK_STEPS == 0):
            return False
        mean = float(np.mean(self.elbos[: step - self.told]))
        self.elbos = []
        self.told = step
        answer = self.callback(step, mean, state)
        return isinstance(answer, bool | np.bool_) and bool(answer)


def _moves(run: "_SVIRun", now: SVIState, stop: int, *, stops: bool) -> Iterator[Advance]:
    """The outcomes of compiled calls, of about 0.1 seconds; with `stops`, for a callback."""
    pace = Pace(NUM_ROWS)
    while True:
        step = int(now.step)
        end = min(stop, step + pace.num_steps)
        if stops:
            end = min(end, (step // CALLBACK_STEPS + 1) * CALLBACK_STEPS)
        with pace.call():
            moved = run.advance(now, end)
        yield moved
        now = moved.state


def _fed_moves(run: "_SVIRun", now: SVIState, feed: Iterator[SVIProblem]) -> Iterator[Advance]:
    """The outcomes of single steps, each with its problem.

    While a step is computed, the problem of the next step is made, and the next step is started, so
    that the device need not wait for the host. If the run ends, the result of this step is lost.
    """
    before: tuple[SVIProblem, Advance] | None = None
    for problem in feed:
        started = run.start_step(problem, now)
        if before is not None:
            yield run.finish_step(*before)
        before = (problem, started)
        now = started.state
    if before is not None:
        yield run.finish_step(*before)


class _SVIRun:
    """The compiled steps of a problem."""

    def __init__(
        self, problem: SVIProblem, tolerance: float | None, *, is_fed: bool = False
    ) -> None:
        self.problem = problem
        self.is_fed = is_fed
        self.step: tuple[Any, Any] | None = None
        dtype = problem.layout.dtype
        self.tolerance = np.asarray(NEVER if tolerance is None else tolerance, dtype)

    def start_fit(self, key: jax.Array, init: str | Mapping[str, Any] | NormalStart) -> SVIState:
        """The state before the first step, at a start with a finite ELBO and gradient."""
        target = self.problem.target
        layout = self.problem.layout
        known = _normal_start(init, self.problem)

        def evaluate(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
            arguments = self.problem, positions[0], seeds[0], known.scale
            state = compile_once(begin_svi, *arguments)(*arguments)
            tried = self.start_step(self.problem, state) if self.is_fed else self.advance(state, 1)
            height = 0.0 if bool(tried.is_finite) else np.nan
            return StartingPoints(positions, np.full(1, height), result=state)

        def explain(points: StartingPoints) -> tuple[str, list[str]]:
            return "ELBO and its gradient are", _culprits(self.problem, points.result)

        place = key, np.arange(1), known.init, target, layout
        return find_starts(evaluate, *place, noun="svi", explain=explain).result

    def resume_fit(self, state: SVIState) -> SVIState:
        """The state to continue from; a state that has settled must settle again."""
        state = restore_state(self.problem, state)
        settling = jax.device_get(state.settling)
        if self.is_settled(state):
            settling = settling._replace(changes=np.full_like(settling.changes, np.inf))
        return state._replace(settling=settling)

    def is_settled(self, state: SVIState) -> bool:
        """Whether the ELBO has settled by a state."""
        return bool(jax.device_get(state.settling).is_settled(self.tolerance))

    def advance(self, state: SVIState, stop: int) -> Advance:
        """The outcome of compiled steps, with the ELBOs of the complete ones.

        If a step is not finite, the steps before it are taken again, for the state before it.
        """
        arguments = self.problem, state, np.int32(stop), self.tolerance
        program = compile_once(advance_svi, *arguments)
        now = program(*arguments)
        is_finite = bool(now.is_finite)
        while not bool(now.is_finite):
            end = np.int32(now.state.step) - 1
            now = program(self.problem, state, end, self.tolerance)
        elbos, is_settled = jax.device_get((now.elbos, now.is_settled))
        num_steps = int(now.state.step) - int(state.step)
        return Advance(now.state, elbos[:num_steps].copy(), is_finite, bool(is_settled))

    def start_step(self, problem: SVIProblem, state: SVIState) -> Advance:
        """The outcome of one step, on the device: it may still be computed.

        Problems of a run differ only by their batches, so the batches determine the program.
        """
        arguments = (problem, state, self.tolerance)
        kinds = signature(problem.batches)
        if self.step is None or self.step[0] != kinds:
            self.step = kinds, compile_once(step_svi, *arguments)
        return self.step[1](*arguments)

    def finish_step(self, problem: SVIProblem, started: Advance) -> Advance:
        """The outcome of a step that has ended, with its ELBO if it is complete."""
        self.problem = problem
        elbo, is_finite, is_settled = jax.device_get(
            (started.elbos, started.is_finite, started.is_settled)
        )
        elbos = np.full(1 if is_finite else 0, elbo)
        return Advance(started.state, elbos, bool(is_finite), bool(is_settled))


def draw_from_guide(
    key: jax.Array, problem: SVIProblem, parameters: Any, num_draws: int
) -> GuideDraws:
    """Draws of a fitted guide, on the host.

    Their weights judge the fit. So they are in full precision, also where the user has chosen a
    faster one, for the gradients of the steps.
    """
    arguments = problem, parameters, key, _batches(num_draws)
    with jax.default_matmul_precision("highest"):
        return jax.device_get(compile_once(draw_batches, *arguments)(*arguments))


def draw_from_prior(
    key: jax.Array, sampler: PriorSampler, num_draws: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Draws of the prior and their log weights, on the host."""
    arguments = jax.device_put(sampler), key, _batches(num_draws)
    return jax.device_get(compile_once(draw_prior, *arguments)(*arguments))


def _batches(num_draws: int) -> np.ndarray:
    """The numbers 0 to ``num_draws - 1``, ``(batch, draw)``."""
    size = next(n for n in range(min(_MAX_DRAWS_PER_BATCH, num_draws), 0, -1) if num_draws % n == 0)
    return np.arange(num_draws, dtype=np.uint32).reshape(-1, size)


def restore_state(problem: SVIProblem, state: Any) -> SVIState:
    """A state of a result or of a file, with the structure of the states of a problem.

    Raises:
        TypeError: if it is not a state.
        ValueError: if it belongs to another problem.
    """
    expected = shapes_of_state(problem)
    if isinstance(state, SVIState):  # part by part, as one may be of another problem
        parts = zip(state, expected, strict=True)
        state = SVIState(*(restore_structure(x, like) for x, like in parts))
    _check_state(state, expected)
    return state


def shapes_of_state(problem: SVIProblem) -> SVIState:
    """Shapes and dtypes of the states of a problem."""
    seed = jax.ShapeDtypeStruct((2,), np.uint32)
    return jax.eval_shape(begin_svi, problem, _any_position(problem.layout), seed)


def _check_state(state: Any, expected: SVIState) -> None:
    if not isinstance(state, SVIState):
        raise TypeError(f"state must be that of a result, result.state, got {type(state).__name__}")
    for name, found, wanted in zip(SVIState._fields, state, expected, strict=True):
        if kinds(found) != kinds(wanted):
            what = "state by ppl.state" if name == "carried" else name
            raise ValueError(
                "state must be that of a result with the same sites, guide and optimizer, got "
                f"one whose {what} has {kinds(found) or 'nothing'}, where "
                f"{kinds(wanted) or 'nothing'} is expected"
            )


def check_parameters(problem: SVIProblem, parameters: Any) -> Any:
    """The parameters of a guide, perhaps from a file, checked to be fitted to the same sites.

    Raises:
        ValueError: if their structure, dtypes or shapes differ.
    """
    guide = problem.guide
    layout = problem.layout
    expected = jax.eval_shape(lambda x: guide.init(x, layout), _any_position(layout))
    parameters = restore_structure(parameters, expected)
    if kinds(parameters) != kinds(expected):
        raise ValueError(
            "guide must be fitted to the same sites, got one with the parameters "
            f"{kinds(parameters)}, where {kinds(expected)} are expected"
        )
    return parameters


def _any_position(layout: Layout) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((layout.size,), layout.dtype)


def _failure(problem: SVIProblem, state: SVIState) -> str:
    return (
        f"svi stopped at step {int(state.step)}, where the ELBO or its gradient is not finite: "
        f"{'; '.join(_culprits(problem, state))}. {_REMEDIES}"
    )


def _culprits(problem: SVIProblem, state: SVIState) -> list[str]:
    """The sites or gradients that are not finite in the next step, as texts."""
    seed = jnp.asarray(state.seed)
    step = jnp.asarray(state.step)
    keys = keys_of(seed, step, jnp.asarray(problem.particles))
    problem = problem.at(seed, step).with_state(state.carried)
    at, of_guide = problem.split(state.parameters)
    for key in keys:
        position = problem.guide.sample(of_guide, key)
        value, gradient = jax.value_and_grad(at.log_density)(position)
        if not np.all(np.isfinite(value)) or not np.all(np.isfinite(gradient)):
            return not_finite(at.target, problem.layout, position, value, gradient)
    gradient = jax.grad(problem.elbo)(state.parameters, keys)
    return not_finite_gradients("ELBO", gradient) or ["the ELBO is"]


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
