"""Where chains start: points to try, and what to say where none of them will do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.chain import Chain, empty_chain
from inference.flat import Layout
from inference.hamiltonian import Point
from inference.kernel import HamiltonianKernel, check_mass_matrix, check_step_size
from inference.names import named_leaves
from inference.randomness import seed_of, threefry
from inference.target import Target

MOST_ATTEMPTS = 100
_START = np.uint32(1 << 31)  # the counters of a chain's starting points, beyond all iterations


def unplaced_chain(kernel: HamiltonianKernel, layout: Layout, is_dense: bool, tune: bool) -> Chain:
    """A chain that stands nowhere yet, with the kernel's step size and mass matrix."""
    metric = np.ones(layout.size)
    if kernel.inverse_mass_matrix is not None:
        metric = np.asarray(check_mass_matrix(kernel.inverse_mass_matrix, layout))
    if metric.ndim == 2 and not is_dense:
        raise ValueError(
            "the kernel's inverse_mass_matrix is a matrix, but mass_matrix='diagonal'; pass "
            "mass_matrix='dense', or a vector"
        )
    metric = (np.diag(metric) if is_dense and metric.ndim == 1 else metric).astype(layout.dtype)
    chain = empty_chain(kernel, layout, metric)
    progress = chain.progress
    step_size = np.asarray(check_step_size(kernel.step_size, layout))
    search = progress.search._replace(step_size=step_size, is_done=np.bool_(not tune))
    adaptation = progress.adaptation._replace(inverse_mass_matrix=metric)
    return chain._replace(progress=progress._replace(search=search, adaptation=adaptation))


@jax.jit
def starting_points(
    key: jax.Array, attempts: jax.Array, target: Target, layout: Layout
) -> tuple[jax.Array, jax.Array]:
    """Seeds of chains, and starting points: for each its attempt of that number."""
    seeds = jnp.stack(threefry(seed_of(key), jnp.arange(len(attempts))), axis=-1)

    def position(seed_and_attempt: tuple[jax.Array, jax.Array]) -> jax.Array:
        seed, attempt = seed_and_attempt
        words = jnp.stack(threefry(seed, _START + attempt.astype(jnp.uint32)))
        return layout.ravel(target.initial(random.wrap_key_data(words, impl="threefry2x32")))

    # No `vmap`: JAX's generator compiles slowly for a batch of keys.
    return seeds, lax.map(position, (seeds, attempts))


def placed(chain: Chain, seeds: np.ndarray, positions: np.ndarray) -> Chain:
    """As many of `chain`, stacked, as there are seeds and positions to give them."""
    chains = jax.tree.map(lambda x: np.repeat(x[None], len(seeds), 0), chain)
    trajectory = chains.trajectory._replace(position=positions)
    return chains._replace(seed=seeds, trajectory=trajectory)


def start_failure(target: Target, layout: Layout, chain: int, start: Point) -> str:
    """What to tell a user whose model is finite nowhere; names the sites to look at."""
    position, gradient = map(layout.unravel, (start.position, start.gradient))
    culprits = (
        _not_finite("site '{}' has log probability {}", target.log_probs(position))
        or _not_finite("the gradient of the log density with respect to '{}' is {}", gradient)
        or [f"the log density is {start.log_density}, for the map from unconstrained space"]
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
