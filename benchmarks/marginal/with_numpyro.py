"""The discrete ones of the models in NumPyro, with sites enumerated in parallel by funsor."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from numpyro import plate, sample
from numpyro.contrib.control_flow import scan
from numpyro.contrib.funsor import config_enumerate, enum, log_density
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

from benchmarks.marginal.problems import NUM_STATES, STAY


def levels() -> jax.Array:
    low = sample("low", dist.Normal(0.0, 5.0))
    gaps = sample("gaps", dist.HalfNormal(jnp.full(NUM_STATES - 1, 5.0)).to_event(1))
    return low + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])


def hmm(observed: Mapping[str, Any]) -> None:
    rows = sample("rows", dist.Dirichlet(jnp.asarray(STAY)).to_event(1))
    level = levels()

    def step(z, y):
        z = sample("z", dist.Categorical(probs=rows[z]), infer={"enumerate": "parallel"})
        sample("y", dist.Normal(level[z], 1.0), obs=y)
        return z, None

    scan(step, 0, observed["y"])


def mixture(observed: Mapping[str, Any]) -> None:
    weights = sample("weights", dist.Dirichlet(jnp.full(NUM_STATES, 5.0)))
    level, scale = levels(), sample("scale", dist.HalfNormal(2.0))
    with plate("rows", len(observed["y"])):
        z = sample("z", dist.Categorical(probs=weights), infer={"enumerate": "parallel"})
        sample("y", dist.Normal(level[z], scale), obs=observed["y"])


def annotators(observed: Mapping[str, Any]) -> None:
    label = observed["label"]
    num_items, num_annotators = label.shape
    weights = sample("weights", dist.Dirichlet(jnp.full(NUM_STATES, 5.0)))
    errors = np.broadcast_to(STAY, (num_annotators, NUM_STATES, NUM_STATES))
    says = sample("says", dist.Dirichlet(jnp.asarray(errors)).to_event(2))
    with plate("items", num_items, dim=-2):
        z = sample("z", dist.Categorical(probs=weights), infer={"enumerate": "parallel"})
        with plate("annotators", num_annotators, dim=-1):
            sample("label", dist.Categorical(probs=says[jnp.arange(num_annotators), z]), obs=label)


MODELS = {"hidden Markov model": hmm, "mixture": mixture, "Dawid and Skene": annotators}
PLATES = {"hidden Markov model": 0, "mixture": 1, "Dawid and Skene": 2}


def density(name: str) -> Callable[..., Any]:
    """The log density of values and observed values."""
    model = enum(config_enumerate(MODELS[name]), -PLATES[name] - 1)
    return lambda values, observed: log_density(model, (observed,), {}, values)[0]


def start(name: str, observed: Mapping[str, Any], num_chains: int) -> Any:
    """Potential energy, a function that draws starts of chains, and the map to values."""
    info = initialize_model(jax.random.PRNGKey(0), MODELS[name], model_args=(observed,))
    like = info.param_info.z

    def starts(key: jax.Array) -> Any:
        flat, unravel = ravel_pytree(like)
        shape = (num_chains, flat.size)
        return jax.vmap(unravel)(jax.random.uniform(key, shape, minval=-2.0, maxval=2.0))

    return info.potential_fn, starts, info.postprocess_fn


def sampler(
    name: str, observed: Mapping[str, Any], num_chains: int, num_warmup: int, num_draws: int
) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """NUTS as a user calls it, and its kernel in one jitted function, which compiles once.

    Both are functions of the seed. The first gives draws, the second draws and step counts.
    """

    def call(seed: int) -> Any:
        mcmc = MCMC(
            NUTS(MODELS[name]),
            num_warmup=num_warmup,
            num_samples=num_draws,
            num_chains=num_chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.PRNGKey(seed), observed)
        return jax.block_until_ready(mcmc.get_samples(group_by_chain=True))

    potential, starts, postprocess = start(name, observed, num_chains)
    kernel = NUTS(potential_fn=potential)

    @jax.jit
    def chains(key: jax.Array) -> Any:
        keys = jax.random.split(key, num_chains)
        state = kernel.init(keys, num_warmup, starts(key))

        def step(is_kept: bool, state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            return state, (state.z if is_kept else None, state.num_steps)

        state, _ = jax.lax.scan(partial(step, False), state, length=num_warmup)
        draws, steps = jax.lax.scan(partial(step, True), state, length=num_draws)[1]
        values = jax.vmap(jax.vmap(postprocess))(draws)
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (values, steps))

    return call, lambda seed: jax.block_until_ready(chains(jax.random.PRNGKey(seed)))
