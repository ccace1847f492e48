"""svi_step: one step of stochastic variational inference, for a loop of one's own."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import numpy as np

from inference.common.argument_checks import check_count
from inference.drivers.check_inputs import check_inputs
from inference.drivers.svi_problem import (
    Started,
    check_init,
    make_problem,
    starting_point,
    with_batch,
)
from inference.guides.checks import check_guide
from inference.guides.guide import Guide
from inference.guides.normal import MeanField
from inference.runtime.compiled_program import compile_once
from inference.runtime.jax_settings import full_precision, numbers_of_any_kind
from inference.variational.elbo import ELBO, Objective
from inference.variational.svi_loop import restore_state, start_fed, trace_start_fed
from inference.variational.svi_step import NEVER, SVIProblem, SVIState, step_svi
from ppl.harvest.jax_core import is_traced

if TYPE_CHECKING:
    import optax


class SVIInfo(NamedTuple):
    """The record of one step, on the device.

    Attributes:
        elbo: Estimate of the ELBO, or of another objective, before the step.
        is_finite: Whether it and its gradient were finite. If not, the state is that before.
    """

    elbo: jax.Array
    is_finite: jax.Array


class SVIStep(NamedTuple):
    """The two functions of a fit step by step.

    Attributes:
        init: Function ``(key, *args, **kwargs) -> state`` of the arguments of the model for the
            first batch.
        update: Function ``(state, *args, **kwargs) -> (state, info)`` of a batch.
    """

    init: Callable[..., SVIState]
    update: Callable[..., tuple[SVIState, SVIInfo]]


def svi_step(
    model: Callable[..., Any],
    *,
    guide: Guide | Callable[..., Any] = MeanField(),
    optimizer: "optax.GradientTransformation | None" = None,
    num_particles: int = 1,
    objective: Objective = ELBO(),
    init: Literal["uniform", "prior", "optimum"] | Mapping[str, Any] | Started = "uniform",
) -> SVIStep:
    """The start and the step of :func:`svi`, for a loop of your own over data of any source.

    A step takes the arguments of the model for one batch: NumPy or JAX arrays, or tensors of other
    libraries. It is compiled once for all batches of the same shapes, and returns before it has
    been computed, so that a loop may load the next batch meanwhile. The noise of a step follows
    from the state. A loop takes the same steps as :func:`svi` with ``batches=``.

    ``svi(key, model, *args, guide=guide, state=state, num_steps=0)`` makes a result of a state,
    with the same guide and optimizer.

    Args:
        model: Function of a key and of the arguments of a batch, with observed sites conditioned
            on. ``ppl.scale`` in it makes the density of a batch an estimate of the density of all
            data.
        guide: Family to fit, as in :func:`svi`.
        optimizer: An optax optimizer; by default ``optax.adam(1e-2)``.
        num_particles: Draws of the guide in each step.
        objective: Objective to maximize.
        init: Starting point of the guide, as in :func:`svi`.

    Returns:
        The functions `init` and `update`. `update` may be called under `jax.jit` and in
        `jax.lax.scan`, after `init`. Both may be called under `jax.vmap` over keys and states, for
        several fits at once. A start under `jax.vmap` at which no ELBO is finite is no error, and
        its first `info` says so.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range. `init` raises further errors of :func:`svi`.

    Example:
        >>> import jax, jax.numpy as jnp, ppl, distributions as dist
        >>> from inference import svi, svi_step
        >>> def regression(key, x):
        ...     w = ppl.sample(key, dist.Normal(0.0, 3.0), name="w")
        ...     likelihood = lambda key: ppl.sample(key, dist.Normal(w * x, 1.0), name="y")
        ...     return ppl.scale(likelihood, 10_000 / len(x))(key)
        >>> def posterior(key, x, y):
        ...     return ppl.condition(regression, {"y": y})(key, x)
        >>> def load():  # or a loader of Grain, PyTorch or tf.data
        ...     for rows in jnp.linspace(-1.0, 1.0, 10_000).reshape(-1, 100)[::-1]:
        ...         yield rows, 2 * rows
        >>> init, update = svi_step(posterior)
        >>> state = init(jax.random.key(0), *next(load()))
        >>> for epoch in range(10):
        ...     for x, y in load():
        ...         state, info = update(state, x, y)
        >>> result = svi(jax.random.key(1), posterior, x, y, state=state, num_steps=0)
        >>> bool(abs(result.parameters.loc[0] - 2.0) < 0.1)
        True
    """
    num_particles = check_count("num_particles", num_particles, least=1)
    check_guide(guide)
    at = check_init(init, is_function=not hasattr(guide, "sample"))
    made: list[
        SVIProblem
    ] = []  # the problem of the first batch; problems of other batches differ only by their data
    known: set[Any] = set()  # structures and shapes of states that fit the problem

    def problem_for(key: jax.Array, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SVIProblem:
        check_inputs(svi_step, key, model, args, kwargs, has_keywords=False)
        return make_problem(
            key, model, args, kwargs, guide, optimizer, num_particles, objective, is_fed=True
        )

    def start(key: jax.Array, *args: Any, **kwargs: Any) -> SVIState:
        is_mapped = is_traced(key)
        # The key of a problem draws batches, and batches are given here.
        made[:] = [problem_for(jax.random.key(0) if is_mapped else key, args, kwargs)]
        point = starting_point(at, made[0])
        find = trace_start_fed if is_mapped else start_fed
        with numbers_of_any_kind():
            return find(key, with_batch(made[0], args, kwargs), point)

    def update(state: SVIState, *args: Any, **kwargs: Any) -> tuple[SVIState, SVIInfo]:
        if not isinstance(state, SVIState):
            raise TypeError(f"state must be one of init, of update or of a result, got {state!r}")
        if not made:  # a state from elsewhere
            made.append(problem_for(jax.random.key(0), args, kwargs))
        problem = with_batch(made[0], args, kwargs)
        if _form(state) not in known:
            state = restore_state(problem, state)
            known.add(_form(state))
        arguments = problem, state, np.asarray(NEVER, problem.layout.dtype)
        has_tracers = any(map(is_traced, jax.tree.leaves(arguments)))
        with numbers_of_any_kind(), full_precision():
            step = step_svi if has_tracers else compile_once(step_svi, *arguments)
            moved = step(*arguments)
        return moved.state, SVIInfo(moved.elbos, moved.is_finite)

    return SVIStep(start, update)


def _form(state: SVIState) -> Any:
    leaves, structure = jax.tree.flatten(state)
    return structure, tuple((np.shape(x), jax.numpy.result_type(x)) for x in leaves)
