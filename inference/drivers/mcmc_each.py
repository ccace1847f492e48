"""mcmc_each: Markov chain Monte Carlo on many data sets of one model."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import jax

from inference.drivers.check_inputs import check_inputs
from inference.drivers.job_checkpoints import open_jobs
from inference.drivers.jobs import Jobs, TakesJobs
from inference.drivers.pooled_fits import PooledFits
from inference.drivers.run_settings import NUM_CHAINS, NUM_DRAWS, NUM_WARMUP
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.results.mcmc_results import MCMCResults
from inference.runtime.devices import check_unsplit
from inference.runtime.progress import Shown


def mcmc_each(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    in_axes: int | Sequence[Any] | None = 0,
    kernel: Kernel = NUTS(),
    num_warmup: int = NUM_WARMUP,
    num_draws: int = NUM_DRAWS,
    num_chains: int = NUM_CHAINS,
    target_acceptance_rate: float | None = None,
    executor: TakesJobs | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: Shown = None,
    keep: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> MCMCResults:
    """Markov chain Monte Carlo on many data sets of one model, in one compiled program.

    The chains of all data sets form one pool. On the CPU a core takes one chain after the other,
    each with its own data, so that no chain waits for another; on an accelerator they move side by
    side. A chain starts and adapts by itself, with a diagonal mass matrix, as under
    :func:`sampler`. Draws of a data set depend only on the key, its number and its data.

    Args:
        key: Typed or legacy key.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model, with an axis over data sets where `in_axes` says so.
        in_axes: Axes of the data sets, as in ``jax.vmap``: an integer or `None` for all arguments,
            or a tuple with an integer, `None` or a pytree of these for each argument. An argument
            with `None` is shared.
        kernel: Kernel of one chain that takes the log density of the model or reads the model, as
            in :func:`sampler`. Gibbs sampling of all data sets follows the plan of the first one.
        num_warmup: Iterations of warm-up per chain, not kept.
        num_draws: Draws to keep per chain; another number compiles anew.
        num_chains: Number of chains of each data set.
        target_acceptance_rate: Mean acceptance rate that the step size is adapted to, as in
            :func:`mcmc`.
        executor: Where batches of chains are made: an object with the method `submit` of the
            standard library's ``Executor``; by default this process, on all cores. A batch takes
            one core. See the page Long runs.
        checkpoint: Folder for the chains that are finished; the same call goes on after a kill. See
            the page Long runs.
        progress: Whether to show a bar; by default in a terminal and in a notebook.
        keep: Names of the sites whose draws are kept, as in :func:`mcmc`; by default all.
        **kwargs: More arguments of the model, which all data sets share.

    Returns:
        The fits: ``fits[i]`` is an :class:`MCMCResult`, and draws are
        ``(dataset, chain, draw, *shape)``. A chain that found no start of finite density has draws
        of NaN, or integers without a meaning; the summary says so.

    Raises:
        OSError: if the folder of `checkpoint` cannot be written.
        RuntimeError: if a batch fails under `executor`; the error names its data sets.
        TypeError: if an argument has the wrong type or cannot be sent to processes.
        ValueError: if a value is out of range, an array is split over devices, `in_axes` does not
            fit the arguments, the numbers of data sets of two arguments differ, models of two data
            sets have different sites, or the folder of `checkpoint` has another call, is damaged or
            in use.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def posterior(key, y, scale):
        ...     def model(key):
        ...         mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...         return ppl.sample(key, dist.Normal(mu, scale), name="y")
        ...     return ppl.condition(model, {"y": y})(key)
        >>> y = jnp.linspace(-2.0, 2.0, 5)
        >>> fits = mcmc_each(jax.random.key(0), posterior, y, 4.0, in_axes=(0, None))
        >>> fits.draws["mu"].shape, fits[1].draws["mu"].shape
        ((5, 4, 1000), (4, 1000))
    """
    check_inputs(mcmc_each, key, model, args, kwargs, has_one_data_set=False)
    check_unsplit("mcmc_each", (model, args, kwargs))
    jobs = Jobs.of("mcmc_each", executor, key, model, args, kwargs, kernel=kernel)
    fits = PooledFits.of(
        key,
        model,
        args,
        kwargs,
        in_axes,
        kernel=kernel,
        num_warmup=num_warmup,
        num_draws=num_draws,
        num_chains=num_chains,
        target_acceptance_rate=target_acceptance_rate,
        keep=keep,
    )
    with open_jobs(checkpoint, "mcmc_each", fits.describe) as folder:
        return fits.make(jobs, folder, progress)
