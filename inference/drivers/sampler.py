"""sampler: a whole run of Markov chain Monte Carlo as one function of arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from inference.chains.traced_run import TracedRun
from inference.chains.traced_steps import TracedSteps
from inference.common.argument_checks import check_count, check_fraction
from inference.common.layout import Layout
from inference.common.target import is_of_values, named_sites
from inference.drivers.checkpoints import check_kept, kept_sites
from inference.drivers.run_settings import NUM_CHAINS, NUM_DRAWS, NUM_WARMUP, check_kernel
from inference.kernels.ensemble.kernel import is_ensemble
from inference.kernels.gibbs.gibbs import Gibbs
from inference.kernels.gibbs.gibbs_target import plan_run
from inference.kernels.gibbs.sweep import Sweep
from inference.kernels.hamiltonian.kernel import HamiltonianKernel, Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.kernels.particle.particle_gibbs import ParticleGibbs
from inference.kernels.particle.pmmh import PMMH
from inference.models.check_keywords import check_keywords
from inference.results.mcmc_result import MCMCResult
from inference.results.run_facts import RunFacts
from ppl.core.model_pytree import name_of
from ppl.transforms.check_indices import check_indices


def sampler(
    model: Callable[..., Any],
    *,
    kernel: Kernel = NUTS(),
    num_warmup: int = NUM_WARMUP,
    num_draws: int = NUM_DRAWS,
    num_chains: int = NUM_CHAINS,
    target_acceptance_rate: float | None = None,
    keep: str | Sequence[str] | None = None,
    **unknown: Any,
) -> Callable[..., MCMCResult]:
    """Whole run of Markov chains as a pure function, ``(key, *args, **kwargs) -> result``.

    The function contains starts, warm-up and draws. It consists only of JAX's operations, so that
    it can be a part of other programs: under ``jax.jit``, ``jax.vmap``, ``lax.scan`` and
    ``jax.shard_map``. Call it within ``jax.jit``. Each chain starts at the best of ten uniform
    points and learns a step size and a diagonal mass matrix, as in :func:`mcmc` with
    ``mass_matrix="diagonal"``; chains are not compared with each other. Each learns the coordinates
    of sites with ``ppl.LearnedCentering`` by itself.

    On the CPU, chains run one after the other, also those that ``jax.vmap`` adds, as chains in
    lockstep would wait for each other; on an accelerator they move side by side.
    :func:`mcmc_each` fits many data sets on all cores, with a program that XLA compiles better.

    Nothing within a program can raise an error: a chain that finds no start of finite density has
    draws and statistics of NaN, and all its transitions are divergent. Integers have no NaN: the
    summary, and a statistic `log_density` of NaN, tell that they are no draws.

    Args:
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        kernel: :class:`NUTS`, :class:`WALNUTS`, :class:`HMC`, or another
            :class:`HamiltonianKernel`; or another kernel of one chain that takes the log density of
            the model, such as :class:`Slice`, :class:`RandomWalk` or :class:`ParallelTempering`; or
            :class:`Gibbs` and other kernels that read the model.
        num_warmup: Iterations of warm-up per chain, not kept.
        num_draws: Draws to keep per chain.
        num_chains: Number of chains.
        target_acceptance_rate: Mean acceptance rate that the step size is adapted to, as in
            :func:`mcmc`.
        keep: Names of the sites whose draws are kept, as in :func:`mcmc`; by default all.
        **unknown: None; keywords of the model are those of the function returned.

    Returns:
        Function of a key and the arguments of the model to an :class:`MCMCResult`, a pytree whose
        draws are ``(chain, draw, *shape)``.

    Raises:
        TypeError: if `kernel` is not a kernel such as `NUTS()`, or a keyword is unknown.
        ValueError: if a value is out of range.

    Example:
        >>> import jax.numpy as jnp
        >>> import ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> def posterior(key, y):
        ...     return ppl.condition(model, {"y": y})(key)
        >>> run = inference.sampler(posterior, num_warmup=200, num_draws=100)
        >>> fits = jax.jit(jax.vmap(run, in_axes=(None, 0)))(jax.random.key(0), jnp.arange(3.0))
        >>> fits.draws["mu"].shape
        (3, 4, 100)
    """
    _refuse(model, unknown)
    numbers = check_run(kernel, num_warmup, num_draws, num_chains, target_acceptance_rate)
    num_warmup, num_draws, num_chains = numbers

    def run(key: jax.Array, *args: Any, **kwargs: Any) -> MCMCResult:
        check_indices(model, args, kwargs)
        planned = plan_run(kernel, model, args, kwargs)
        target: Any = planned.target
        rate = rate_of(planned.kernel, target_acceptance_rate)
        kept = check_kept(keep, named_sites(target))
        whole = whole_run(planned.kernel, target, num_warmup, num_draws, rate, kept)
        made = whole.chains(key, target, num_chains)
        facts = facts_of(target, num_warmup, rate)
        return MCMCResult(**made._asdict(), facts=facts, sites=kept_sites(target, kept))

    return run


def _refuse(model: Callable[..., Any], unknown: Mapping[str, Any]) -> None:
    """Refuses keywords that `sampler` does not have.

    Raises:
        TypeError: if there are some.
    """
    check_keywords(sampler, model, (), unknown)
    for name in unknown:
        raise TypeError(
            f"{name}= is an argument of {name_of(model)}: give it to the function that sampler "
            f"returns, sampler(model)(key, ..., {name}=...)"
        )


def check_run(
    kernel: Any, num_warmup: Any, num_draws: Any, num_chains: Any, target_acceptance_rate: Any
) -> tuple[int, int, int]:
    """Numbers of iterations of warm-up, of draws and of chains of a whole run, checked.

    Raises:
        TypeError: if `kernel` does not move one chain of a model, or a number is of another type.
        ValueError: if a number is out of range, or `kernel` has a log density.
    """
    check_kernel(kernel, "auto", target_acceptance_rate)
    name = type(kernel).__name__
    reads_model = isinstance(kernel, Gibbs | ParticleGibbs | PMMH)
    if is_ensemble(kernel) or not (reads_model or hasattr(kernel, "log_density")):
        reason = "moves all chains together" if is_ensemble(kernel) else "has no field log_density"
        raise TypeError(
            "kernel must move one chain by the log density of the model, as NUTS(), Gibbs.auto() "
            f"or ParallelTempering(), and {name} {reason}; it runs under mcmc, in a call for each "
            "data set"
        )
    if target_acceptance_rate is not None:
        check_fraction("target_acceptance_rate", target_acceptance_rate)
    return (
        check_count("num_warmup", num_warmup, least=0),
        check_count("num_draws", num_draws, least=1),
        check_count("num_chains", num_chains, least=1),
    )


def rate_of(kernel: Any, target_acceptance_rate: float | None) -> float | None:
    """Acceptance rate that warm-up aims at; `None` for kernels without gradients."""
    if not isinstance(kernel, HamiltonianKernel):
        return None
    rate = target_acceptance_rate
    return kernel.default_acceptance_rate if rate is None else rate


def whole_run(
    kernel: Any,
    target: Any,
    num_warmup: int,
    num_draws: int,
    target_acceptance_rate: float | None,
    keep: tuple[str, ...] | None,
) -> TracedRun | TracedSteps:
    """Settings of a whole run for targets with the sites and shapes of `target`."""
    if is_of_values(target):
        kernel = Sweep(target)
    if target_acceptance_rate is None:
        return TracedSteps.of(kernel, target, num_warmup, num_draws, keep)
    return TracedRun.of(kernel, target, num_warmup, num_draws, target_acceptance_rate, keep)


def facts_of(target: Any, num_warmup: int, rate: float | None) -> RunFacts:
    """Facts of a run as a whole, which choose the advice of its summary."""
    return RunFacts(
        num_warmup=num_warmup,
        target_acceptance_rate=rate if num_warmup else None,
        init="uniform",
        num_coordinates=Layout.of_numbers(target.position_shapes).size,
    )
