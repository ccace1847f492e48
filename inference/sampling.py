"""Chains of a kernel on a target: start, warm-up and draws, in compiled chunks.

One compiled function advances all chains by any number of iterations, in warm-up and after it. It
returns to Python now and then, so that progress shows and an interrupt keeps what has been drawn.
What an iteration draws depends on the key, the chain and the iteration, not on the chunks.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.tree_util import Partial

from inference.adaptation import Adaptation, Schedule, adapt, adaptation_init, schedule
from inference.flat import Layout
from inference.hamiltonian import State
from inference.kernel import HamiltonianKernel, check_mass_matrix, check_step_size
from inference.names import named_leaves
from inference.starting import MOST_ATTEMPTS, find_start
from inference.target import Target

_AXIS = "chain"
_MOST_ROWS, _MOST_NUMBERS = 256, 1 << 23
_CHUNK_SECONDS = 0.2
_START = np.uint32(1 << 31)  # folded into a chain's key for its start, as iterations are for theirs


class Chains(NamedTuple):
    """All chains, stacked; everything but `iteration` has a leading axis over them."""

    iteration: jax.Array
    keys: jax.Array
    state: State
    adaptation: Adaptation


class Samples(NamedTuple):
    """What sampling gives: trees of arrays ``(chain, draw, *shape)``, and what warm-up settled."""

    draws: dict[str, Any]
    stats: dict[str, np.ndarray]
    inverse_mass_matrix: np.ndarray | None


def sample(
    key: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    *,
    num_warmup: int,
    num_draws: int,
    num_chains: int,
    is_dense: bool,
    target_acceptance_rate: float,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Samples:
    """Runs `num_chains` chains; see :func:`inference.mcmc` for the arguments.

    `on_progress` is told the number of finished iterations after each chunk.

    Raises:
        ValueError: if a chain finds no point of finite density and gradient to start from.
    """
    chains, is_found = _start(
        key, target, kernel, num_warmup > 0, num_chains=num_chains, is_dense=is_dense
    )
    if not np.all(is_found):
        raise ValueError(_start_failure(target, chains.state, np.asarray(is_found)))
    num_rows = _num_rows(chains.state)
    advance = partial(
        _advance,
        target=target,
        kernel=kernel,
        plan=schedule(num_warmup),
        target_acceptance_rate=target_acceptance_rate,
        num_rows=num_rows,
    )
    drawn, num_done, metric = [], 0, None
    try:
        for size in _chunk_sizes(num_warmup + num_draws, num_rows):
            chains, rows = advance(chains, num_done + size)
            drawn.append(_on_host(rows, max(num_warmup - num_done, 0), size))
            num_done += size
            if num_done >= num_warmup and metric is None:
                metric = np.array(chains.adaptation.inverse_mass_matrix)
            on_progress(num_done)
    except KeyboardInterrupt:
        if num_done <= num_warmup:
            raise
        warnings.warn(
            f"interrupted: the result holds the {num_done - num_warmup} draws per chain of "
            f"{num_draws} that were finished",
            RuntimeWarning,
            stacklevel=3,
        )
    draws, stats = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *drawn)
    return Samples(draws, stats, metric)


def _num_rows(state: State) -> int:
    """Iterations that a chunk has room for: enough to be quick, few enough for memory."""
    size = sum(leaf.size for leaf in jax.tree.leaves(state.position))
    return max(1, min(_MOST_ROWS, _MOST_NUMBERS // size))


def _chunk_sizes(num_iterations: int, most: int) -> Iterator[int]:
    """Sizes of chunks that take about as long as one should wait for a sign of life."""
    size = 16
    while num_iterations:
        size = min(size, most, num_iterations)
        began = time.monotonic()
        yield size
        num_iterations -= size
        size = 2 * size if time.monotonic() - began < _CHUNK_SECONDS else max(1, size // 2)


def _on_host(rows: Any, start: int, stop: int) -> Any:
    """Rows ``[start, stop)`` of arrays ``(row, chain, *shape)``, as ``(chain, row, *shape)``."""
    return jax.tree.map(
        lambda row: np.array(np.swapaxes(np.asarray(row)[start:stop], 0, 1), order="C"), rows
    )


@partial(jax.jit, static_argnames=("num_chains", "is_dense"))
def _start(
    key: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    tune: jax.typing.ArrayLike,
    *,
    num_chains: int,
    is_dense: bool,
) -> tuple[Chains, jax.Array]:
    layout = Layout.of(jax.eval_shape(target.initial, key))
    metric = _initial_metric(kernel, layout, is_dense)
    step_size = check_step_size(kernel.step_size, layout)

    def one(chain: jax.Array) -> tuple[Chains, jax.Array]:
        key_chain = random.fold_in(key, chain)
        state, search = find_start(
            random.fold_in(key_chain, _START), target, layout, step_size, metric, tune
        )
        adaptation = adaptation_init(search.step_size, metric)
        return Chains(jnp.int32(0), key_chain, state, adaptation), search.is_found

    chains, is_found = jax.vmap(one)(jnp.arange(num_chains))
    return chains._replace(iteration=jnp.int32(0)), is_found


def _initial_metric(kernel: HamiltonianKernel, layout: Layout, is_dense: bool) -> jax.Array:
    given = kernel.inverse_mass_matrix
    metric = jnp.ones(layout.size) if given is None else check_mass_matrix(given, layout)
    if metric.ndim == 2 and not is_dense:
        raise ValueError(
            "the kernel's inverse_mass_matrix is a matrix, but mass_matrix='diagonal'; pass "
            "mass_matrix='dense', or a vector"
        )
    return (jnp.diag(metric) if is_dense and metric.ndim == 1 else metric).astype(layout.dtype)


@partial(jax.jit, static_argnames="num_rows", donate_argnames="chains")
def _advance(
    chains: Chains,
    stop: jax.typing.ArrayLike,
    *,
    target: Target,
    kernel: HamiltonianKernel,
    plan: Schedule,
    target_acceptance_rate: jax.typing.ArrayLike,
    num_rows: int,
) -> tuple[Chains, Any]:
    """Iterations up to `stop`, and what they drew in as many rows of ``(row, chain, *shape)``."""
    first = chains.iteration
    row = jax.eval_shape(_iterate, chains, kernel, target)[2]
    rows = jax.tree.map(lambda leaf: jnp.zeros((num_rows, *leaf.shape), leaf.dtype), row)

    def warm_up(state: State, acceptance_rate: jax.Array, i: jax.Array, old: Adaptation) -> Any:
        def one(position: Any, acceptance_rate: jax.Array, old: Adaptation) -> Adaptation:
            flat = Layout.of(position).ravel(position)
            return adapt(plan, i, old, flat, acceptance_rate, target_acceptance_rate)

        return jax.vmap(one)(state.position, acceptance_rate, old)

    def body(carry: tuple[Chains, Any]) -> tuple[Chains, Any]:
        chains, rows = carry
        i = chains.iteration
        state, acceptance_rate, row = _iterate(chains, kernel, target)
        rows = jax.tree.map(lambda old, new: old.at[i - first].set(new), rows, row)
        adaptation = lax.cond(
            i < plan.num_warmup,
            lambda: warm_up(state, acceptance_rate, i, chains.adaptation),
            lambda: chains.adaptation,
        )
        return Chains(i + 1, chains.keys, state, adaptation), rows

    return lax.while_loop(lambda carry: carry[0].iteration < stop, body, (chains, rows))


@jax.jit  # traced once, though `_advance` asks first for shapes and then for values
def _iterate(
    chains: Chains, kernel: HamiltonianKernel, target: Target
) -> tuple[State, jax.Array, Any]:
    """One transition of every chain: states, acceptance rates, and the row to store."""

    def one(key: jax.Array, state: State, adaptation: Adaptation) -> tuple[State, jax.Array, Any]:
        tuned = dataclasses.replace(
            kernel,
            log_density=Partial(type(target).log_density, target),
            step_size=adaptation.step_size,
            inverse_mass_matrix=adaptation.inverse_mass_matrix,
            inverse_mass_factor=adaptation.inverse_mass_factor,
            axis_name=_AXIS,
        )
        state, info = tuned.step(random.fold_in(key, chains.iteration), state)
        stats = info._asdict() | {
            "log_density": state.log_density,
            "step_size": adaptation.step_size,
        }
        return state, info.acceptance_rate, (target.constrain(state.position), stats)

    return jax.vmap(one, axis_name=_AXIS)(chains.keys, chains.state, chains.adaptation)


def _start_failure(target: Target, state: State, is_found: np.ndarray) -> str:
    """What to tell a user whose model is finite nowhere; names the sites to look at."""
    chain = int(np.argmin(is_found))
    position, log_density, gradient = jax.tree.map(lambda leaf: leaf[chain], state)
    culprits = (
        _not_finite("site '{}' has log probability {}", target.log_probs(position))
        or _not_finite("the gradient of the log density with respect to '{}' is {}", gradient)
        or [f"the log density is {log_density}, for the map from unconstrained space"]
    )
    return (
        f"chain {chain} found no starting point where the log density and its gradient are finite, "
        f"in {MOST_ATTEMPTS} attempts. At the last one, {'; '.join(culprits)}. Check that observed "
        "values lie in the support of their distribution and hold no NaN, and that parameters "
        "stay in their domain for every value of the latent sites."
    )


def _not_finite(message: str, tree: Any) -> list[str]:
    """`message`, filled in with name and first such value, of each leaf that is not finite."""
    found = []
    for name, leaf in named_leaves(tree):
        flat = np.ravel(np.asarray(leaf))
        bad = flat[~np.isfinite(flat)]
        if bad.size:
            where = "" if np.ndim(leaf) == 0 else f" at {bad.size} of {flat.size} elements"
            found.append(message.format(name, f"{bad[0]}{where}"))
    return found
