"""BlackJAX's kernels of the same names as ours, and NumPyro's ensemble of chains.

All sample the log density that ours do, in one jitted function with their adaptation: windows
where a kernel of BlackJAX has a mass matrix (dense, as ours), and else its dual averaging of the
step size. (Barker has a mass matrix, but with windows its chains do not get to the posterior: R-hat
is 3 where it is 1.04 by the step size alone.) Evaluations are counted from the statistics of draws.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from benchmarks.comparison.ensembles import blackjax_chees, blackjax_mclmc, blackjax_meads
from benchmarks.comparison.kernel_problems import KernelProblem
from benchmarks.comparison.tools import Output, Settings, Shared, Tool

Step = Callable[[jax.Array, Any], tuple[Any, jax.Array]]  # to a state, and evaluations
WarmUp = Callable[[jax.Array, Any], tuple[Any, Step]]  # of a chain, from its start


def _tool(shared: Shared, settings: Settings, warm_up: WarmUp) -> Tool:
    """A tool whose chains each warm up on their own."""

    def chain(key: jax.Array, position: Any) -> Any:
        for_warmup, key = jax.random.split(key)
        state, step = warm_up(for_warmup, position)

        def iterate(state: Any, key: jax.Array) -> Any:
            state, evaluations = step(key, state)
            return state, (state.position, evaluations)

        return jax.lax.scan(iterate, state, jax.random.split(key, settings.num_draws))[1]

    chains = jax.jit(lambda keys: jax.vmap(chain)(keys, shared.starts(keys)))

    def call(seed: int) -> Output:
        draws, evaluations = jax.block_until_ready(chains(shared.keys(seed)))
        return Output(draws, 0, evaluations)

    return Tool(call=call, finish=shared.finish)


def by_windows(
    name: str, rate: float, problem: KernelProblem, settings: Settings, **extra: Any
) -> Tool:
    """BlackJAX's window adaptation of step size and dense mass matrix."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    algorithm = getattr(blackjax, name)
    shared = Shared(problem.problem, settings)

    def warm_up(key: jax.Array, position: Any) -> Any:
        adaptation = blackjax.window_adaptation(
            algorithm,
            shared.log_density,
            is_mass_matrix_diagonal=False,
            target_acceptance_rate=rate,
            adaptation_info_fn=get_filter_adapt_info_fn(),
            **extra,
        )
        result, _ = adaptation.run(key, position, settings.num_warmup)
        kernel = algorithm(shared.log_density, **(result.parameters | extra))

        def step(key: jax.Array, state: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, getattr(info, "num_integration_steps", jnp.int32(1))

        return result.state, step

    return _tool(shared, settings, warm_up)


def by_step_size(
    make: Callable[[Any, Any], Any], rate: float, problem: KernelProblem, settings: Settings
) -> Tool:
    """BlackJAX's dual averaging of the step size of a kernel that has no mass matrix.

    Args:
        make: Function from a log density and a step size to a kernel.
        rate: Target of the acceptance rate.
        problem: The posterior.
        settings: Numbers of chains and iterations.
    """
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    shared = Shared(problem.problem, settings)
    begin, update, end = dual_averaging_adaptation(rate)

    def warm_up(key: jax.Array, position: Any) -> Any:
        def iterate(carry: Any, key: jax.Array) -> Any:
            state, averaging = carry
            kernel = make(shared.log_density, jnp.exp(averaging.log_step_size))
            state, info = kernel.step(key, state)
            return (state, update(averaging, info.acceptance_rate)), None

        state = make(shared.log_density, 0.1).init(position)
        keys = jax.random.split(key, settings.num_warmup)
        (state, averaging), _ = jax.lax.scan(iterate, (state, begin(0.1)), keys)
        kernel = make(shared.log_density, end(averaging))

        def step(key: jax.Array, state: Any) -> Any:
            return kernel.step(key, state)[0], jnp.int32(1)

        return state, step

    return _tool(shared, settings, warm_up)


def _mala(log_density: Any, step_size: Any) -> Any:
    import blackjax

    return blackjax.mala(log_density, step_size)


def _barker(log_density: Any, step_size: Any) -> Any:
    import blackjax

    return blackjax.barker(log_density, step_size)


def _random_walk(log_density: Any, step_size: Any) -> Any:
    import blackjax

    def move(key: jax.Array, position: Any) -> Any:
        flat, unravel = ravel_pytree(position)
        return unravel(step_size * jax.random.normal(key, flat.shape, flat.dtype))

    return blackjax.additive_step_random_walk(log_density, move)


def coordinate_slice(problem: KernelProblem, settings: Settings) -> Tool:
    """BlackJAX's sweep over coordinates, with stepping out; it adapts nothing."""
    import blackjax
    from blackjax.mcmc.slice import stepping_out

    shared = Shared(problem.problem, settings)
    kernel = blackjax.coordinate_slice(shared.log_density, interval=stepping_out)

    def warm_up(key: jax.Array, position: Any) -> Any:
        size = ravel_pytree(position)[0].size

        def step(key: jax.Array, state: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, 2 * size + info.num_expansions + info.num_shrink  # both first ends

        state = kernel.init(position)
        keys = jax.random.split(key, settings.num_warmup)
        return jax.lax.scan(lambda state, key: (step(key, state)[0], None), state, keys)[0], step

    return _tool(shared, settings, warm_up)


def elliptical_slice(problem: KernelProblem, settings: Settings) -> Tool:
    """BlackJAX's elliptical slice sampling, which is told the prior and the likelihood."""
    import blackjax

    prior = problem.prior
    assert prior is not None
    shared = Shared(problem.problem, settings)
    kernel = blackjax.elliptical_slice(
        prior.log_likelihood,
        mean=jnp.asarray(prior.mean, float),
        cov=jnp.asarray(prior.covariance, float),
    )

    def warm_up(key: jax.Array, position: Any) -> Any:
        def step(key: jax.Array, state: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, info.subiter

        state = kernel.init(position)
        keys = jax.random.split(key, settings.num_warmup)
        return jax.lax.scan(lambda state, key: (step(key, state)[0], None), state, keys)[0], step

    return _tool(shared, settings, warm_up)


def ensemble(make: Any, problem: KernelProblem, settings: Settings) -> Tool:
    """An ensemble kernel of BlackJAX."""
    return make("", problem.problem, settings)


def numpyro_ensemble(move: str, problem: KernelProblem, settings: Settings) -> Tool:
    """NumPyro's `AIES` with one of its moves, its kernel in one jitted function.

    A proposal costs two evaluations, as the density of the old position is computed anew.
    """
    from numpyro.infer import AIES

    shared = Shared(problem.problem, settings)

    kernel = AIES(
        potential_fn=lambda position: -shared.log_density(position),
        moves={getattr(AIES, move)(): 1.0},
    )

    @jax.jit
    def chains(keys: jax.Array) -> Any:
        data = jax.vmap(jax.random.key_data)(keys)
        state = kernel.init(data, settings.num_warmup, shared.starts(keys), (), {})

        def step(is_kept: bool, state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            return state, state.z if is_kept else None

        state, _ = jax.lax.scan(partial(step, False), state, length=settings.num_warmup)
        draws = jax.lax.scan(partial(step, True), state, length=settings.num_draws)[1]
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), draws)

    def call(seed: int) -> Output:
        draws = jax.block_until_ready(chains(shared.keys(seed)))
        return Output(draws, 0, jnp.full((settings.num_chains, settings.num_draws), 2))

    return Tool(call=call, finish=shared.finish)


# By the name of our kernel.
KERNEL_PEERS: dict[str, Callable[[KernelProblem, Settings], Tool]] = {
    "NUTS": partial(by_windows, "nuts", 0.8),
    "HMC": partial(by_windows, "hmc", 0.8, num_integration_steps=10),
    "MALA": partial(by_step_size, _mala, 0.574),
    "Barker": partial(by_step_size, _barker, 0.4),
    "RandomWalk": partial(by_step_size, _random_walk, 0.234),
    "Slice": coordinate_slice,
    "EllipticalSlice": elliptical_slice,
    "DifferentialEvolution": partial(numpyro_ensemble, "DEMove"),
    "AffineInvariant": partial(numpyro_ensemble, "StretchMove"),
    "ChEES": partial(ensemble, blackjax_chees),
    "MEADS": partial(ensemble, blackjax_meads),
    "AdjustedMCLMC": partial(ensemble, blackjax_mclmc),
}
