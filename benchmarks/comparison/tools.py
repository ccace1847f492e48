"""The NUTS implementations: each is set up for a problem, and then run with several seeds.

All tools sample the same log density of unconstrained parameters, derived by `ppl`. If PyMC is
installed, nutpie samples models in PyMC instead, for the problems that have one.
"""

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import inference
import ppl
from benchmarks.comparison.counting import CountingRun
from benchmarks.comparison.problems import Problem
from inference.chains import sampling
from inference.runtime import devices

TARGET_ACCEPTANCE_RATE = 0.8


@dataclasses.dataclass(frozen=True)
class Settings:
    """Numbers of chains, warm-up iterations and draws."""

    num_chains: int
    num_warmup: int
    num_draws: int
    is_mapped: bool = False  # our chains are mapped over, as on an accelerator


class Output(NamedTuple):
    """The draws of one call, and its numbers of gradients.

    Attributes:
        draws: Draws by site, ``(chain, draw, *shape)``, or in the tool's form; see `Tool.finish`.
        warmup: Number of gradients of warm-up, a total or ``(chain, iteration)``.
        sampling: Number of gradients of each draw, ``(chain, draw)``.
        executed: Number of gradients evaluated, if the tool's loop counts them.
    """

    draws: Mapping[str, Any]
    warmup: Any
    sampling: Any
    executed: int | None = None


@dataclasses.dataclass(frozen=True)
class Tool:
    """A tool set up for a problem.

    Attributes:
        call: The call that a user makes, as a function of the seed; timed as "first" and "again".
        execute: The same work with nothing traced or compiled again; `None` if `call` does that.
        finish: Function from the tool's draws to values of sites; not timed.
        is_compiled_again: Whether `call` compiles each time.
        is_lockstep: Whether all chains wait for the longest trajectory in each iteration.
        note: Remark for the report.
    """

    call: Callable[[int], Output]
    execute: Callable[[int], Output] | None = None
    finish: Callable[[Any], Mapping[str, Any]] = dict
    is_compiled_again: bool = False
    is_lockstep: bool = False
    note: str = ""


@contextlib.contextmanager
def as_on_an_accelerator() -> Iterator[None]:
    """A context in which our chains are mapped over on any device."""
    on = devices._share_on_devices
    mapped = lambda *args: dataclasses.replace(on(*args), is_mapped=True)  # noqa: E731
    with mock.patch.object(devices, "_share_on_devices", mapped):
        yield


def ours(name: str, problem: Problem, settings: Settings) -> Tool:
    """This library. `call` traces the model every time; `execute` takes a log density made once."""
    target = ppl.unconstrain(problem.model, *problem.args)
    how = {
        "num_chains": settings.num_chains,
        "num_warmup": settings.num_warmup,
        "num_draws": settings.num_draws,
        "target_acceptance_rate": TARGET_ACCEPTANCE_RATE,
    }

    def counted(sample: Callable[[], Any]) -> Output:
        with mock.patch.object(sampling, "_HamiltonianRun", CountingRun):
            result = sample()
        steps = np.asarray(result.stats["num_steps"])
        run = CountingRun.last
        return Output(
            draws=result.draws,
            warmup=run.num_useful - steps.sum(),
            sampling=steps,
            executed=run.num_executed,
        )

    def call(seed: int) -> Output:
        key = jax.random.key(seed)
        return counted(lambda: inference.mcmc(key, problem.model, *problem.args, **how))

    def execute(seed: int) -> Output:
        key = jax.random.key(seed)
        return counted(lambda: sampling.sample(key, target, inference.NUTS(), **how))

    def mapped(function: Callable[[int], Output], seed: int) -> Output:
        with as_on_an_accelerator():
            return function(seed)

    if settings.is_mapped:
        return Tool(call=partial(mapped, call), execute=partial(mapped, execute))
    return Tool(call=call, execute=execute)


class Shared:
    """Inputs of the other tools: log density, starts of chains, and the map back to values."""

    def __init__(self, problem: Problem, settings: Settings) -> None:
        target = ppl.unconstrain(problem.model, *problem.args)
        self.log_density = target.log_density
        self.starts = lambda keys: jax.vmap(target.initial)(keys)
        self.num_chains = settings.num_chains
        self._constrain = jax.jit(jax.vmap(jax.vmap(target.constrain)))

    def finish(self, draws: Any) -> Any:
        """Values of sites."""
        return jax.device_get(self._constrain(draws))

    def keys(self, seed: int) -> jax.Array:
        """A key for each chain."""
        return jax.random.split(jax.random.key(seed), self.num_chains)


def numpyro(name: str, problem: Problem, settings: Settings) -> Tool:
    """NumPyro. `call` compiles every time; `execute` runs its kernel in one jitted function."""
    from numpyro.infer import MCMC, NUTS

    shared = Shared(problem, settings)
    make_kernel = lambda: NUTS(  # noqa: E731
        potential_fn=lambda position: -shared.log_density(position),
        target_accept_prob=TARGET_ACCEPTANCE_RATE,
    )
    mcmc = MCMC(
        make_kernel(),
        num_warmup=settings.num_warmup,
        num_samples=settings.num_draws,
        num_chains=settings.num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    starts = jax.jit(shared.starts)

    def call(seed: int) -> Output:
        init = starts(shared.keys(seed))
        if settings.num_chains == 1:
            init = jax.tree.map(lambda x: x[0], init)
        mcmc.run(jax.random.PRNGKey(seed), init_params=init, extra_fields=("num_steps",))
        draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
        return Output(
            draws=draws, warmup=0, sampling=mcmc.get_extra_fields(group_by_chain=True)["num_steps"]
        )

    @jax.jit
    def chains(keys: jax.Array) -> Any:
        kernel, init = make_kernel(), shared.starts(keys)
        state = kernel.init(jax.vmap(jax.random.key_data)(keys), settings.num_warmup, init)

        def step(is_kept: bool, state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            return state, (state.z if is_kept else None, state.num_steps)

        warm_up, draw = partial(step, False), partial(step, True)
        state, (_, warmup) = jax.lax.scan(warm_up, state, length=settings.num_warmup)
        _, (draws, steps) = jax.lax.scan(draw, state, length=settings.num_draws)
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (draws, warmup, steps))

    def execute(seed: int) -> Output:
        return Output(*jax.block_until_ready(chains(shared.keys(seed))))

    return Tool(
        call=call,
        execute=execute,
        finish=shared.finish,
        is_compiled_again=True,
        is_lockstep=True,
        note="exec: its kernel in one jit",
    )


def blackjax(name: str, problem: Problem, settings: Settings) -> Tool:
    import blackjax
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    shared = Shared(problem, settings)
    kept = get_filter_adapt_info_fn(info_keys={"num_integration_steps"})

    def chain(key: jax.Array, position: Any) -> Any:
        adaptation_key, key = jax.random.split(key)
        adaptation = blackjax.window_adaptation(
            blackjax.nuts,
            shared.log_density,
            target_acceptance_rate=TARGET_ACCEPTANCE_RATE,
            adaptation_info_fn=kept,
        )
        result, info = adaptation.run(adaptation_key, position, settings.num_warmup)
        kernel = blackjax.nuts(shared.log_density, **result.parameters)

        def step(state: Any, key: jax.Array) -> Any:
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        keys = jax.random.split(key, settings.num_draws)
        draws, steps = jax.lax.scan(step, result.state, keys)[1]
        return draws, info.info.num_integration_steps, steps

    chains = jax.jit(lambda keys: jax.vmap(chain)(keys, shared.starts(keys)))

    def call(seed: int) -> Output:
        return Output(*jax.block_until_ready(chains(shared.keys(seed))))

    return Tool(call=call, finish=shared.finish, is_lockstep=True)


def _nutpie(name: str, problem: Problem, settings: Settings) -> Tool:
    from benchmarks.comparison.with_nutpie import nutpie

    return nutpie(name, problem, settings)


# The module that must be installed, whether the tool works in float64, and its set-up.
TOOLS: dict[str, tuple[str, bool, Callable[[str, Problem, Settings], Tool]]] = {
    "ppl": ("inference", False, ours),
    "NumPyro": ("numpyro", False, numpyro),
    "BlackJAX": ("blackjax", False, blackjax),
    "nutpie": ("nutpie", True, _nutpie),
}


def installed(tools: Mapping[str, tuple[str, bool, Any]] = TOOLS) -> list[str]:
    return [name for name, (module, _, _) in tools.items() if importlib.util.find_spec(module)]


def num_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
