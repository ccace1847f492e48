"""nutpie on a PyMC model compiled by Numba, or else on our log density compiled by JAX."""

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import nutpie as library
from jax.flatten_util import ravel_pytree

import ppl
from benchmarks.comparison.problems import Problem
from benchmarks.comparison.pymc_models import PYMC_MODELS
from benchmarks.comparison.tools import TARGET_ACCEPTANCE_RATE, Output, Settings, Tool, num_cores


def nutpie(name: str, problem: Problem, settings: Settings) -> Tool:
    is_pymc = name in PYMC_MODELS and importlib.util.find_spec("pymc") is not None
    if is_pymc:
        make = lambda: library.compile_pymc_model(PYMC_MODELS[name](problem.data))  # noqa: E731
        finish, note = dict, "model in PyMC, by Numba"
    else:
        make, finish = _by_jax(problem)
        note = "our density, by JAX"
    return Tool(_caller(make, settings), finish=finish, note=note)


def _caller(make: Callable[[], Any], settings: Settings) -> Callable[[int], Output]:
    compiled: list[Any] = []

    def call(seed: int) -> Output:
        if not compiled:
            compiled.append(make())
        trace = library.sample(
            compiled[0],
            draws=settings.num_draws,
            tune=settings.num_warmup,
            chains=settings.num_chains,
            cores=min(settings.num_chains, num_cores()),
            seed=seed,
            target_accept=TARGET_ACCEPTANCE_RATE,
            progress_bar=False,
        )
        draws = {str(name): x.values for name, x in trace.posterior.data_vars.items()}
        draws = {name: x for name, x in draws.items() if not name.endswith("__")}
        warmup, steps = trace.warmup_sample_stats, trace.sample_stats
        return Output(
            draws=draws, warmup=warmup["n_steps"].values, sampling=steps["n_steps"].values
        )

    return call


def _by_jax(problem: Problem) -> tuple[Callable[[], Any], Callable[[Any], Mapping[str, Any]]]:
    from nutpie.compiled_pyfunc import from_pyfunc

    target = ppl.unconstrain(problem.model, *problem.args)
    start, unravel = ravel_pytree(target.initial(jax.random.key(0)))
    function = jax.jit(jax.value_and_grad(lambda x: target.log_density(unravel(x))))

    def value_and_grad(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(x)
        return float(value), np.asarray(gradient)

    def make() -> Any:
        value_and_grad(np.asarray(start))
        return from_pyfunc(
            ndim=start.size,
            make_logp_fn=lambda: value_and_grad,
            make_expand_fn=lambda *_: lambda x: {"position": x},
            expanded_dtypes=[np.dtype(np.float64)],
            expanded_shapes=[start.shape],
            expanded_names=["position"],
        )

    constrain = jax.jit(jax.vmap(jax.vmap(lambda x: target.constrain(unravel(x)))))
    return make, lambda draws: jax.device_get(constrain(draws["position"]))
