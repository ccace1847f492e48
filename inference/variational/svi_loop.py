"""SVI's loop on the host: the start, calls of the compiled steps, and the end with its warnings."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.layout import Layout
from inference.common.serialization import Absent, Leaves
from inference.common.target import PriorSampler
from inference.initialization.initial_positions import (
    MAX_ATTEMPTS,
    NormalStart,
    parse_init,
    starting_points,
)
from inference.initialization.not_finite import ADVICE, attempts, not_finite, not_finite_gradients
from inference.runtime.compiled_program import compile_once
from inference.runtime.progress import Pace
from inference.variational.svi_step import (
    NUM_ROWS,
    Advance,
    GuideDraws,
    Problem,
    SVIState,
    advance_svi,
    begin_svi,
    draw_batches,
    draw_prior,
    keys_of,
)

_NEVER = -1.0  # a tolerance below all relative changes: the run never settles
_MAX_DRAWS_PER_BATCH = 64
_REMEDIES = (
    "The parameters are those before that step. Use a smaller learning rate, more particles, "
    "optax.clip_by_global_norm before the optimiser, or another init."
)


class Fit(NamedTuple):
    """The result of an optimisation.

    Attributes:
        state: The last state.
        elbos: Estimate of the ELBO at each step, ``(step,)``.
        failure: Why it stopped at a value that is not finite; empty if it did not.
    """

    state: SVIState
    elbos: np.ndarray
    failure: str = ""


def fit(
    key: jax.Array,
    problem: Problem,
    *,
    num_steps: int,
    tolerance: float | None,
    init: str | Mapping[str, Any] | NormalStart,
    state: SVIState | None,
    on_progress: Callable[[int, float], None],
) -> Fit:
    """Takes `num_steps` steps, or fewer if the run settles or fails; see :func:`inference.svi`.

    `on_progress` is called after each compiled call, with the number of finished steps and the last
    ELBO.

    Raises:
        ValueError: if the ELBO or its gradient is not finite from the start, or `state` belongs to
            another problem.
    """
    run, pace = _SVIRun(problem, tolerance), Pace(NUM_ROWS)
    now = run.start_fit(key, init) if state is None else run.resume_fit(state)
    first, parts = int(now.step), []
    try:
        while True:
            with pace.call():
                moved = run.advance(now, min(first + num_steps, int(now.step) + pace.num_steps))
            now = moved.state
            parts.append(moved.elbos)
            num_done = sum(map(len, parts))
            on_progress(num_done, moved.elbos[-1] if len(moved.elbos) else np.nan)
            if not moved.is_finite or moved.is_settled or num_done == num_steps:
                break
    except KeyboardInterrupt:
        if not parts:
            raise
        _warn(f"interrupted: the result is that of {sum(map(len, parts))} steps of {num_steps}")
    failure = "" if moved.is_finite else _failure(problem, now)
    if failure:
        _warn(failure)
    return Fit(now, np.concatenate(parts), failure)


class _SVIRun:
    """The compiled steps of a problem."""

    def __init__(self, problem: Problem, tolerance: float | None) -> None:
        self.problem = problem
        dtype = problem.layout.dtype
        self.tolerance = np.asarray(_NEVER if tolerance is None else tolerance, dtype)

    def start_fit(self, key: jax.Array, init: str | Mapping[str, Any] | NormalStart) -> SVIState:
        """The state before the first step, at a start with a finite ELBO and gradient."""
        target, layout = self.problem.target, self.problem.layout
        known = init if isinstance(init, NormalStart) else NormalStart(parse_init(init, target, 1))
        (starts, scale), chains, before = known, np.arange(1), None
        for attempt in range(MAX_ATTEMPTS):
            number = np.full(1, attempt, np.int32)
            seeds, positions = starting_points(key, chains, number, starts, target, layout)
            arguments = self.problem, positions[0], seeds[0], scale
            state = compile_once(begin_svi, *arguments)(*arguments)
            if self.advance(state, 1).is_finite:
                return state
            if before is not None and np.array_equal(before, positions):
                break
            before = positions
        culprits = "; ".join(_culprits(self.problem, state))
        raise ValueError(
            f"svi found no starting point where the ELBO and its gradient are finite, in "
            f"{attempts(attempt + 1)}. At the last one, {culprits}. {ADVICE}"
        )

    def resume_fit(self, state: SVIState) -> SVIState:
        """The state to continue from; a state that has settled must settle again."""
        problem, layout = self.problem, self.problem.layout
        seed = jax.ShapeDtypeStruct((2,), np.uint32)
        expected = jax.eval_shape(begin_svi, problem, _any_position(layout), seed)
        state = _restore_structure(state, expected)
        _check_state(state, expected)
        settling = jax.device_get(state.settling)
        if settling.is_settled(self.tolerance):
            settling = settling._replace(changes=np.full_like(settling.changes, np.inf))
        return state._replace(settling=settling)

    def advance(self, state: SVIState, stop: int) -> Advance:
        """The outcome of one compiled call, with the ELBOs of its complete steps."""
        arguments = self.problem, state, np.int32(stop), self.tolerance
        now = compile_once(advance_svi, *arguments)(*arguments)
        elbos, is_finite, is_settled = jax.device_get((now.elbos, now.is_finite, now.is_settled))
        num_steps = int(now.state.step) - int(state.step)
        return Advance(now.state, elbos[:num_steps].copy(), bool(is_finite), bool(is_settled))


def draw_from_guide(
    key: jax.Array, problem: Problem, parameters: Any, num_draws: int
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


def _restore_structure(state: Any, expected: SVIState) -> Any:
    """A state from a file, with the structure of the optimiser's state, absent from files."""
    is_part = lambda x: isinstance(x, Absent | Leaves)  # noqa: E731
    parts, leaves = jax.tree.leaves(state, is_leaf=is_part), jax.tree.leaves(state)
    structure = jax.tree.structure(expected)
    if any(map(is_part, parts)) and len(leaves) == structure.num_leaves:
        return jax.tree.unflatten(structure, leaves)
    return state


def _check_state(state: Any, expected: SVIState) -> None:
    if not isinstance(state, SVIState):
        raise TypeError(f"state must be that of a result, result.state, got {state!r}")
    for name, found, wanted in zip(SVIState._fields, state, expected, strict=True):
        if kinds(found) != kinds(wanted):
            raise ValueError(
                "state must be that of a result with the same sites, guide and optimizer, got "
                f"one whose {name} has {kinds(found)}, where {kinds(wanted)} is expected"
            )


def check_parameters(problem: Problem, parameters: Any) -> None:
    """Raises an error if the parameters of a guide were fitted to other sites.

    Raises:
        ValueError: if their structure, dtypes or shapes differ.
    """
    guide, layout = problem.guide, problem.layout
    expected = jax.eval_shape(lambda x: guide.init(x, layout), _any_position(layout))
    if kinds(parameters) != kinds(expected):
        raise ValueError(
            "guide must be fitted to the same sites, got one with the parameters "
            f"{kinds(parameters)}, where {kinds(expected)} are expected"
        )


def _any_position(layout: Layout) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((layout.size,), layout.dtype)


def kinds(tree: Any) -> str:
    """Structure, dtypes and shapes of a tree, as text."""
    return str(jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", tree))


def _failure(problem: Problem, state: SVIState) -> str:
    culprits = "; ".join(_culprits(problem, state))
    return (
        f"svi stopped at step {int(state.step)}, where the ELBO or its gradient is not finite: "
        f"{culprits}. {_REMEDIES}"
    )


def _culprits(problem: Problem, state: SVIState) -> list[str]:
    """The sites or gradients that are not finite in the next step, as texts."""
    seed, step = jnp.asarray(state.seed), jnp.asarray(state.step)
    keys = keys_of(seed, step, jnp.asarray(problem.particles))
    problem = problem.at(seed, step)
    for key in keys:
        position = problem.guide.sample(state.parameters, key)
        value, gradient = jax.value_and_grad(problem.log_density)(position)
        if not np.all(np.isfinite(value)) or not np.all(np.isfinite(gradient)):
            return not_finite(problem.target, problem.layout, position, value, gradient)
    gradient = jax.grad(problem.elbo)(state.parameters, keys)
    return not_finite_gradients("ELBO", gradient) or ["the ELBO is"]


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
