"""First part of warm-up, which learns the coordinates of sites with weights of centering."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from inference.chains.run_control import Monitor, Run
from inference.chains.samples import Samples
from inference.chains.sampling import sample
from inference.common.state_leaves import State, leaves_of_state, restore_leaves
from inference.drivers.advice import advise
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.models.same_model import latent_draws
from inference.runtime.compiled_program import compile_once
from inference.runtime.jax_settings import numbers_of_any_kind
from inference.warmup.centering_weights import (
    NUM_ROUNDS,
    RoundLengths,
    best_weights,
    has_rounds,
)
from ppl.harvest.names import nest_by_path

GRADIENTS = "gradients_of_centering"  # entry of a state, ``(chain,)``
_MAX_DRAWS = 4096  # of all chains, from which weights are computed
# XLA takes up to a second longer to compile for each; an array, a loop or a vmap is one site.
_MAX_SITES = 10


def learnable(target: Any, num_warmup: int) -> Any:
    """The target with weights of centering for all sites that can have them.

    It stays as it is if warm-up is too short to learn them, or the sites cannot be found or are
    too many.
    """
    if not has_rounds(num_warmup):
        return target
    found = advise(
        "which sites can learn their centering",
        target.with_learned_centering,
        without="chains move in the coordinates of the model",
    )
    return target if found is None or len(found.centering) > _MAX_SITES else found


def learn_centering(
    key: jax.Array,
    target: Any,
    kernel: Any,
    *,
    lengths: RoundLengths,
    num_chains: int,
    init: Any,
    mesh: Mesh | None,
    tell: Callable[[Run, int], None],
    **adaptation: Any,
) -> tuple[Any, Mapping[str, Any], np.ndarray]:
    """Weights of centering of sites, by short runs of all chains.

    Args:
        key: Random key of the whole run.
        target: Target with such sites.
        kernel: Kernel of the run; if it is not a Hamiltonian one, NUTS takes its place here.
        lengths: Iterations of a round.
        num_chains: Number of chains.
        init: Starts of the first run.
        mesh: Devices of the run.
        tell: Function that is told how far a run is, with the number of iterations before it.
        **adaptation: More arguments of :func:`sample`, for a Hamiltonian kernel.

    Returns:
        The target in the learned coordinates, values of sites to go on from, with the chains in
        front, and the number of gradients that each chain has spent.
    """
    if not isinstance(kernel, HamiltonianKernel):
        kernel = NUTS()
        adaptation = {"target_acceptance_rate": 0.8}
    target = target.with_centering(jax.tree.map(np.ones_like, jax.device_get(target.weights)))
    num_iterations = lengths.num_warmup + lengths.num_draws
    num_draws = min(lengths.num_draws, -(-_MAX_DRAWS // num_chains))  # of many chains a few each
    num_gradients = np.zeros(num_chains, np.int64)
    for i in range(NUM_ROUNDS):
        samples = sample(
            jax.random.fold_in(key, i),
            target,
            kernel,
            num_warmup=num_iterations - num_draws,
            num_draws=num_draws,
            num_chains=num_chains,
            init=init,
            mesh=mesh,
            monitor=_MonitorOfRound(tell, i * num_iterations),
            **adaptation,
        )
        num_gradients += count_gradients(samples)
        target, init = _learn(target, latent_draws(target.position_shapes, samples.draws))
    return target, init, num_gradients


def weights_of_chains(target: Any, num_chains: int) -> dict[str, Any]:
    """The weights in which a target is, by site, with an axis over chains in front."""
    weights = jax.device_get(getattr(target, "weights", {}))
    return jax.tree.map(lambda x: np.repeat(x[None], num_chains, 0), weights)


def state_of_centering(target: Any, num_gradients: np.ndarray) -> State:
    """The weights in which a target is, and the gradients spent on them, as entries of a state."""
    gradients = {GRADIENTS: np.asarray(num_gradients)}
    return leaves_of_state("centering", target.centering) | gradients


def restore_centering(target: Any, state: State) -> Any:
    """The target in the coordinates that a state has.

    Raises:
        ValueError: if the state does not fit the target.
    """
    weights = restore_leaves("centering", state, jax.device_get(target.centering))
    return target.with_centering(nest_by_path(weights))


def count_gradients(samples: Samples) -> np.ndarray:
    """Gradients of a short run, ``(chain,)``; of warm-up only where that is known."""
    num_steps = np.asarray(np.sum(samples.stats["num_steps"], 1, dtype=np.int64))
    return num_steps if samples.warmup is None else num_steps + samples.warmup.num_gradients.sum(1)


class _MonitorOfRound(Monitor):
    """Monitor that tells how far a run is; an interrupt ends all, as nothing is drawn yet."""

    def __init__(self, tell: Callable[[Run, int], None], num_before: int) -> None:
        self.tell_whole = tell
        self.num_before = num_before

    def tell(self, run: Run) -> None:
        self.tell_whole(run, self.num_before)

    def interrupted(self, run: Run, reason: BaseException) -> None:
        raise reason.__cause__ or reason


def _learn(target: Any, draws: Any) -> tuple[Any, Any]:
    """The target in better coordinates, and the last draw of each chain with a finite gradient.

    Coordinates in which no gradient is finite are not better.

    Args:
        target: Target in the coordinates of the draws.
        draws: Values of latent sites, ``(chain, draw, *shape)``.
    """
    num_chains, num_draws = jax.tree.leaves(draws)[0].shape[:2]
    chosen = np.arange(num_draws)[:: -(-num_chains * num_draws // _MAX_DRAWS) * -1]
    flat = jax.tree.map(lambda x: x[:, chosen].reshape(-1, *x.shape[2:]), draws)
    frames, slopes, is_finite = _look_at(target, flat)
    weights = {}
    for path, weight in jax.device_get(target.centering).items():
        frame, slope = jax.tree.map(np.float64, (frames[path], slopes[path]))
        weights[path] = best_weights(frame, slope, np.float64(weight), is_finite)
    better = target.with_centering(nest_by_path(weights))
    *_, is_finite_there = _look_at(better, flat)
    if is_finite_there.any():
        target = better
        is_finite = is_finite_there
    # The first in each row is the last draw: argmax finds the first that is finite.
    last = is_finite.reshape(num_chains, -1).argmax(1) + np.arange(num_chains) * len(chosen)
    last = np.where(is_finite[last], last, last[is_finite[last].argmax()])
    return target, jax.tree.map(lambda x: x[last], flat)


def _look_at(target: Any, values: Any) -> Any:
    """As `_look`, in NumPy."""
    with numbers_of_any_kind():
        found = compile_once(_look, target, values)(target, values)
    return jax.tree.map(np.asarray, found)


def _look(target: Any, values: Any) -> Any:
    """Frames and slopes of sites at values of all sites, and whether all slopes are finite."""
    return jax.lax.map(lambda x: target.frames_and_slopes(target.unconstrain(x)), values)
