"""Models with conjugate or discrete sites: ours by `Gibbs.auto`, and NumPyro's `Gibbs` by hand.

NumPyro's `DiscreteHMCGibbs` and `HMCGibbs` are its `Gibbs` with the two blocks that are taken here,
and make the same draws. The full conditionals of its `CustomGibbs` are written by hand.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from benchmarks.comparison.problems import Problem
from benchmarks.comparison.tools import Output, Settings, Tool
from examples.catalogue.bugs import CLASSICS

NUM_POINTS = 100
LEVELS = np.array([-3.0, 0.0, 3.0])


def mixture() -> Problem:
    """A hundred points of three normal components, whose labels are sites."""
    rng = np.random.default_rng(5)
    y = jnp.asarray(rng.normal(LEVELS[rng.integers(0, 3, NUM_POINTS)], 0.6), float)

    def model(key, levels):
        weights = ppl.sample(key, dist.Dirichlet(2.0 * jnp.ones(3)), name="weights")
        level = ppl.sample(key, dist.Normal(levels, 1.0), name="level")
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        label = ppl.sample(
            key, dist.Categorical(probs=weights * jnp.ones((NUM_POINTS, 1))), name="label"
        )
        ppl.sample(key, dist.Normal(level[label], scale), name="y")

    args = (jnp.asarray(LEVELS, float),)
    return Problem(ppl.condition(model, {"y": y}), args, {"y": y})


def classic(name: str) -> Problem:
    """A classic of BUGS."""
    entry = CLASSICS[name]
    args = tuple(jnp.asarray(x, float) for x in entry.args)
    return Problem(ppl.condition(entry.model, entry.observed), args, entry.observed)


def _numpyro_mixture(levels: Any, y: Any) -> None:
    import numpyro
    import numpyro.distributions as npd

    weights = numpyro.sample("weights", npd.Dirichlet(2.0 * jnp.ones(3)))
    level = numpyro.sample("level", npd.Normal(levels, 1.0).to_event(1))
    scale = numpyro.sample("scale", npd.HalfNormal(1.0))
    with numpyro.plate("points", len(y)):
        label = numpyro.sample("label", npd.Categorical(weights))
        numpyro.sample("y", npd.Normal(level[label], scale), obs=y)


def _numpyro_pumps(time: Any, failures: Any) -> None:
    import numpyro
    import numpyro.distributions as npd

    alpha = numpyro.sample("alpha", npd.Exponential(1.0))
    beta = numpyro.sample("beta", npd.Gamma(0.1, 1.0))
    with numpyro.plate("pumps", len(time)):
        theta = numpyro.sample("theta", npd.Gamma(alpha, beta))
        numpyro.sample("failures", npd.Poisson(theta * time), obs=failures)


def _pumps_conditionals(
    time: Any, failures: Any, rng_key: jax.Array, gibbs_sites: Any, hmc_sites: Any
) -> dict[str, jax.Array]:
    """Draws of rates, and of their prior's rate given them."""
    first, second = jax.random.split(rng_key)
    alpha, beta = hmc_sites["alpha"], gibbs_sites["beta"]
    theta = jax.random.gamma(first, alpha + failures) / (beta + time)
    beta = jax.random.gamma(second, 0.1 + len(time) * alpha) / (1.0 + jnp.sum(theta))
    return {"theta": theta, "beta": beta}


def _in_one_jit(make: Callable[[], Any], args: tuple[Any, ...], settings: Settings) -> Tool:
    """A kernel of NumPyro, each chain with its warm-up, in one jitted function."""

    def chain(key: jax.Array) -> Any:
        kernel = make()
        state = kernel.init(key, settings.num_warmup, None, args, {})

        def step(is_kept: bool, state: Any, _: Any) -> Any:
            state = kernel.sample(state, args, {})
            if not is_kept:
                return state, None
            return state, kernel.postprocess_fn(args, {})(state.z)

        state, _ = jax.lax.scan(partial(step, False), state, length=settings.num_warmup)
        return jax.lax.scan(partial(step, True), state, length=settings.num_draws)[1]

    chains = jax.jit(jax.vmap(chain))

    def call(seed: int) -> Output:
        keys = jax.random.split(jax.random.PRNGKey(seed), settings.num_chains)
        return Output(jax.block_until_ready(chains(keys)), 0, None)

    return Tool(call=call)


def composed_discrete(problem: Problem, settings: Settings) -> Tool:
    from numpyro.infer import NUTS, DiscreteGibbs, Gibbs

    model = _numpyro_mixture
    blocks = lambda: [(DiscreteGibbs(model), ["label"]), (NUTS(model), None)]  # noqa: E731
    return _in_one_jit(lambda: Gibbs(blocks()), (problem.args[0], problem.data["y"]), settings)


def composed_custom(problem: Problem, settings: Settings) -> Tool:
    from numpyro.infer import NUTS, CustomGibbs, Gibbs

    args = problem.args[0], jnp.asarray(problem.data["failures"], float)
    draw = partial(_pumps_conditionals, *args)
    blocks = lambda: [  # noqa: E731
        (CustomGibbs(draw), ["theta", "beta"]),
        (NUTS(_numpyro_pumps), None),
    ]
    return _in_one_jit(lambda: Gibbs(blocks()), args, settings)


# The model, and the sites whose effective draws count.
GIBBS_PROBLEMS: dict[str, tuple[Callable[[], Problem], tuple[str, ...]]] = {
    "mixture": (mixture, ("weights", "level", "scale")),
    "pumps": (partial(classic, "pumps"), ("alpha", "beta", "theta")),
}
GIBBS_PEERS: dict[str, Callable[[Problem, Settings], Tool]] = {
    "mixture": composed_discrete,
    "pumps": composed_custom,
}
