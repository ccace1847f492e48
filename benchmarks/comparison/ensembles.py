"""Samplers of many chains in lockstep: ours, and BlackJAX's of the same names.

All sample the same log density. BlackJAX's adaptations and kernels run in one jitted function.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import inference
import ppl
from benchmarks.comparison.problems import Problem
from benchmarks.comparison.tools import Output, Settings, Shared, Tool
from inference.chains.ensemble_sampling import sample_ensemble

MOVES = 3  # of a chain of MEADS in an iteration: one for each fold but the one that is kept


def ours(kernel: Any, name: str, problem: Problem, settings: Settings) -> Tool:
    """An ensemble kernel of this library."""
    target = ppl.unconstrain(problem.model, *problem.args)
    how = {
        "num_chains": settings.num_chains,
        "num_warmup": settings.num_warmup,
        "num_draws": settings.num_draws,
    }

    def output(result: Any) -> Output:
        return Output(draws=result.draws, warmup=0, sampling=np.asarray(result.stats["num_steps"]))

    def call(seed: int) -> Output:
        key = jax.random.key(seed)
        return output(inference.mcmc(key, problem.model, *problem.args, kernel=kernel, **how))

    def execute(seed: int) -> Output:
        return output(sample_ensemble(jax.random.key(seed), target, kernel, **how))

    return Tool(call=call, execute=execute, note="gradients of warm-up are not counted")


def _tool(shared: Shared, chains: Callable[[jax.Array, Any], Any]) -> Tool:
    """Tool of a function from a key and starts to ``(draw, chain)`` draws and gradients."""

    @jax.jit
    def run(seed: jax.Array, keys: jax.Array) -> Any:
        found = chains(jax.random.key(seed), shared.starts(keys))
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), found)

    def call(seed: int) -> Output:
        draws, steps = jax.block_until_ready(run(jnp.uint32(seed), shared.keys(seed)))
        return Output(draws=draws, warmup=0, sampling=steps)

    note = "gradients of warm-up are not counted"
    return Tool(call=call, finish=shared.finish, note=note)


def _draws(
    step: Callable[[Any, Any], tuple[Any, Any]], states: Any, key: jax.Array, settings: Settings
) -> Any:
    """Positions and gradients, ``(draw, chain)``, of a kernel for one chain."""

    def iterate(states: Any, key: jax.Array) -> Any:
        states, gradients = jax.vmap(step)(jax.random.split(key, settings.num_chains), states)
        return states, (states.position, gradients)

    return jax.lax.scan(iterate, states, jax.random.split(key, settings.num_draws))[1]


def blackjax_chees(name: str, problem: Problem, settings: Settings) -> Tool:
    """BlackJAX's ChEES-HMC, with the settings of the paper."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    shared = Shared(problem, settings)
    kept = get_filter_adapt_info_fn(info_keys={"num_integration_steps"})

    def chains(key: jax.Array, starts: Any) -> Any:
        for_warmup, key = jax.random.split(key)
        warmup = blackjax.chees_adaptation(
            shared.log_density, settings.num_chains, adaptation_info_fn=kept
        )
        adam = optax.adam(0.025, b1=0.0, b2=0.95)
        (states, parameters), _ = warmup.run(for_warmup, starts, 0.1, adam, settings.num_warmup)
        kernel = blackjax.dynamic_hmc(shared.log_density, **parameters)

        def step(key: jax.Array, state: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, info.num_integration_steps

        return _draws(step, states, key, settings)

    return _tool(shared, chains)


def blackjax_meads(name: str, problem: Problem, settings: Settings) -> Tool:
    """BlackJAX's MEADS; a draw is every third of its steps, as ours is."""
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    shared = Shared(problem, settings)
    kept = get_filter_adapt_info_fn(info_keys={"is_accepted"})

    def chains(key: jax.Array, starts: Any) -> Any:
        for_warmup, key = jax.random.split(key)
        warmup = blackjax.meads_adaptation(
            shared.log_density, settings.num_chains, adaptation_info_fn=kept
        )
        num_moves = MOVES * settings.num_warmup
        (states, parameters), _ = warmup.run(for_warmup, starts, num_moves)
        kernel = blackjax.ghmc(shared.log_density, **parameters)

        def step(key: jax.Array, state: Any) -> Any:
            move = lambda state, key: (kernel.step(key, state)[0], None)  # noqa: E731
            state, _ = jax.lax.scan(move, state, jax.random.split(key, MOVES))
            return state, jnp.int32(MOVES)

        return _draws(step, states, key, settings)

    return _tool(shared, chains)


def blackjax_mclmc(name: str, problem: Problem, settings: Settings) -> Tool:
    """BlackJAX's adjusted MCLMC, whose adaptation is that of each chain alone."""
    from blackjax.adaptation.adjusted_mclmc_adaptation import adjusted_mclmc_find_L_and_step_size
    from blackjax.mcmc.adjusted_mclmc_dynamic import build_kernel, init

    shared = Shared(problem, settings)

    def num_steps(key: jax.Array, average: jax.Array) -> jax.Array:
        number = jnp.ceil(jax.random.uniform(key) * (2 * average - 1))
        return jnp.maximum(number, 1).astype(jnp.int32)

    kernel = build_kernel(integration_steps_fn=num_steps)

    def move(key: Any, state: Any, step_size: Any, variances: Any, average: Any) -> Any:
        return kernel(
            key,
            state,
            shared.log_density,
            step_size,
            inverse_mass_matrix=variances,
            integration_steps_params=(average,),
        )

    def tunable(
        rng_key: Any,
        state: Any,
        logdensity_fn: Any,
        step_size: Any,
        inverse_mass_matrix: Any,
        integration_steps_params: Any,
    ) -> Any:
        return move(rng_key, state, step_size, inverse_mass_matrix, *integration_steps_params)

    def warm_up(key: jax.Array, start: Any) -> Any:
        for_start, for_tuning, key = jax.random.split(key, 3)
        state = init(start, shared.log_density, for_start)
        return adjusted_mclmc_find_L_and_step_size(
            tunable,
            shared.log_density,
            settings.num_warmup,
            state,
            for_tuning,
            0.9,
            frac_tune1=0.5,
            frac_tune2=0.5,
        )[:2]

    def chains(key: jax.Array, starts: Any) -> Any:
        for_warmup, key = jax.random.split(key)
        keys = jax.random.split(for_warmup, settings.num_chains)
        states, tuned = jax.vmap(warm_up)(keys, starts)

        def step(key: jax.Array, pair: Any) -> Any:
            state, tuned = pair
            average = tuned.L / tuned.step_size
            state, info = move(key, state, tuned.step_size, tuned.inverse_mass_matrix, average)
            return (state, tuned), 2 * info.num_integration_steps  # gradients of a step

        def iterate(pairs: Any, key: jax.Array) -> Any:
            pairs, steps = jax.vmap(step)(jax.random.split(key, settings.num_chains), pairs)
            return pairs, (pairs[0].position, steps)

        keys = jax.random.split(key, settings.num_draws)
        return jax.lax.scan(iterate, (states, tuned), keys)[1]

    return _tool(shared, chains)


ENSEMBLES: dict[str, tuple[str, bool, Callable[[str, Problem, Settings], Tool]]] = {
    "ppl ChEES": ("inference", False, partial(ours, inference.ChEES())),
    "ppl MCLMC": ("inference", False, partial(ours, inference.AdjustedMCLMC())),
    "ppl MEADS": ("inference", False, partial(ours, inference.MEADS())),
    "BlackJAX ChEES": ("blackjax", False, blackjax_chees),
    "BlackJAX MCLMC": ("blackjax", False, blackjax_mclmc),
    "BlackJAX MEADS": ("blackjax", False, blackjax_meads),
}
