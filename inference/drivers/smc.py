"""smc: sequential Monte Carlo from the prior of a model to its posterior."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.chains.step_chains import check_protocol, initial_state
from inference.chains.step_sampling import with_density
from inference.common.argument_checks import check_count, check_fraction
from inference.common.layout import Layout
from inference.common.target import Target, named_sites
from inference.common.threefry import seed_of
from inference.drivers.centering import weights_of_chains
from inference.drivers.check_inputs import check_inputs
from inference.drivers.nan_search import explain_nan_at
from inference.drivers.smc_checkpoints import open_populations
from inference.drivers.smc_start import Start, begin, check_rows, draw_prior
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.kernels.inner_kernel import check_inner_kernel
from inference.kernels.tempering.parallel_tempering import ParallelTempering
from inference.models.observed_data import digest_data
from inference.models.row_path import RowPath
from inference.results.mcmc_result import MCMCResult
from inference.results.smc_result import SMCResult
from inference.results.updatable import updates_results
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Report, Shown, show_progress
from inference.sequential.moves import Mover
from inference.sequential.paths import ModelsPath
from inference.sequential.population_state import step_columns
from inference.sequential.tempering import Population, advance_to_target

_CHAIN_LENGTH = 16
_MAX_LENGTH = 64
_CHUNK_NUMBERS = 1 << 22  # numbers of data times positions that are evaluated at once
_PERCENT = 100


@updates_results
def smc(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_particles: int = 2048,
    kernel: Kernel = NUTS(),
    path: Literal["likelihood", "data"]
    | Callable[..., Any]
    | Sequence[Callable[..., Any]] = "likelihood",
    init: SMCResult | MCMCResult | None = None,
    batch_size: int | None = None,
    chain_length: int | None = None,
    ess_fraction: float = 0.5,
    checkpoint: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> SMCResult:
    r"""Sequential Monte Carlo: particles from the prior to the posterior, and the evidence.

    Particles start as independent draws from the prior. Their density is the prior times the
    likelihood to a power, the temperature, which rises from 0 to 1 in steps: particles are
    weighted by the likelihood to the rise, resampled, and moved by the kernel. A step is as
    large as keeps half of the effective sample size. So particles come to all modes of the
    posterior, with their weights, and the mean weights give the evidence.

    The moves are waste-free: a part of the particles is resampled, from each of which a chain of
    the kernel starts, and all states of all chains are the next particles. Mass matrix and step
    size are tuned by the particles at each temperature. All temperatures use one compiled program,
    and new data of the same shapes compile nothing.

    The standard error of the log evidence is by the spread of families of chains, which also
    counts what chains inherit, as the mode that they are in. All particles are computed on one
    device, so that results do not depend on the number of devices.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        num_particles: Number of particles.
        kernel: Kernel that moves particles, without a log density: :class:`NUTS`, :class:`HMC`,
            :class:`MALA` and other :class:`HamiltonianKernel`, :class:`Slice`,
            :class:`RandomWalk`, or any :class:`Kernel` of one chain with a field `log_density`,
            which is taken as it is.
        path: The densities between the prior and the posterior:

            - ``"likelihood"``: powers of the likelihood of all data;
            - ``"data"``: the posteriors of the first rows of the data, batch by batch (IBIS). Rows
              are along the first axis of the arrays among `args` and `kwargs`, and among the values
              that the model is conditioned on, that have the longest one. The likelihood has to be
              a product over rows, which is checked. A batch that says very much comes in powers;
            - a model, or a list of models, on the way to `model`: a path of one's own. It goes from
              the prior of the first to its posterior, and from each posterior to the next one by
              powers of the ratio of their densities. All take `args` and `kwargs`, and have the
              same latent sites, whose unconstrained coordinates particles keep. For a function of a
              power give its models at some powers, as ``[at(0.2), at(0.5)]``. Put wider posteriors
              before narrower ones: where a density is 0, or far below a later one, that part of the
              later one gets lost. A step costs as much as all models.

        init: Result of :func:`smc` or :func:`mcmc` for this model and the first rows of the data:
            its draws go on to the posterior of all rows, as with ``path="data"``. How many rows it
            has seen is found by its log densities, which also shows that it is of these. The prior
            need not be proper. Of a result of :func:`mcmc` the log evidence stays unknown, NaN;
            the sum of ``result.steps["log_increment"]`` is that of the new rows given the old ones.
            With a path of one's own, `init` is a result for its first model, where the path then
            starts: that sum is the log of the ratio of the evidences of `model` and the first one.
            The standard error takes the errors of both runs as independent: it does not count that
            the old draws, which go on, have errors of their own.
        batch_size: Rows of a batch with ``path="data"`` or `init`; by default a 64th of them.
        chain_length: States of a chain of the moves, which divides `num_particles`; by default the
            divisor nearest to 16.
        ess_fraction: Share of the effective sample size that a step keeps, between 0 and 1.
        checkpoint: A folder for the particles, about every 15 seconds. The same call goes on after
            a kill, Ctrl-C or an error, and ends with the bits of an undisturbed run; one with
            another model, other data or settings is refused.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show a bar; by default in a terminal and in a notebook. In a log file
            it is a line every ten seconds. Or a function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        The particles, with equal weights, the evidence, and a summary.

    Raises:
        OSError: if `checkpoint` cannot be written.
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, a latent site is discrete, a prior is improper, the
            likelihood is 0 at all particles, the data do not come in rows, models of a path have
            other latent sites, `init` is of another model or other data, or `checkpoint` has
            another run, is damaged or in use.
        NotImplementedError: if the prior cannot be drawn, or scored apart from data.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def model(key):
        ...     p = ppl.sample(key, dist.Beta(1.0, 1.0), name="p")
        ...     return ppl.sample(key, dist.Binomial(10, probs=p), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.array(2)})
        >>> result = inference.smc(jax.random.key(0), posterior)
        >>> round(float(result.log_evidence), 1)  # exactly -log(11)
        -2.4

    New data arrive: the posterior of the first rows goes on.

        >>> def normal(key, y):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu * jnp.ones(y.shape), 1.0), name="y")
        >>> y = jnp.linspace(0.0, 4.0, 20)
        >>> first = ppl.condition(normal, {"y": y[:12]})
        >>> result = inference.smc(jax.random.key(1), first, y[:12], num_particles=512)
        >>> both = ppl.condition(normal, {"y": y})
        >>> result = inference.smc(jax.random.key(2), both, y, num_particles=512, init=result)
        >>> bool(abs(result.draws["mu"].mean() - 2.0) < 0.1)  # exactly 40 / (20 + 1/9)
        True

    Bridge from the wider posterior to the narrower one: log of the ratio of their evidences.

        >>> def measured(key, scale):
        ...     z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        ...     return ppl.sample(key, dist.Normal(z, scale), name="y")
        >>> wide = ppl.condition(lambda key: measured(key, 1.0), {"y": 1.0})
        >>> narrow = ppl.condition(lambda key: measured(key, 0.5), {"y": 1.0})
        >>> first = inference.smc(jax.random.key(3), wide)
        >>> result = inference.smc(jax.random.key(4), narrow, path=wide, init=first)
        >>> ratio = result.steps["log_increment"].sum()  # exactly log(1.6) / 2 - 0.15
        >>> bool(abs(ratio - 0.085) < 0.05)
        True

    References:
        Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68; Dau and
        Chopin (2022), Waste-free sequential Monte Carlo, JRSS B 84; Buchholz, Chopin and Jacob
        (2021), Adaptive tuning of Hamiltonian Monte Carlo within sequential Monte Carlo, Bayesian
        Analysis 16; Chopin (2002), A sequential particle filter method for static models,
        Biometrika 89, on data that come row by row.
    """
    # Check the arguments.
    check_inputs(smc, key, model, args, kwargs)
    num_particles = check_count("num_particles", num_particles, least=4)
    length = _chain_length(num_particles, chain_length)
    share = check_fraction("ess_fraction", ess_fraction)
    is_own = path not in ("likelihood", "data")
    if batch_size is not None and (is_own or (path == "likelihood" and init is None)):
        raise ValueError('batch_size is for path="data", on which rows come in batches')
    _check_kernel(kernel)
    with (
        settings(cache_dir),
        show_progress(progress, _PERCENT, "percent") as report,
        ExitStack() as stack,
    ):
        target: Any = put_on_common_devices(ppl.unconstrain(model, *args, **kwargs))
        asked = target
        layout = Layout.of(target.position_shapes)
        begun = begin(path, init, target, (model, args, kwargs), num_particles, batch_size)
        target, along, start = begun
        chunk = _chunk((*along.targets,) if is_own else target, layout, num_particles)
        mover = Mover(put_on_common_devices(kernel), along, layout, length, chunk)
        _check_protocol(mover, target)
        # Open the checkpoint: steps whose particles are in the folder are not taken again.
        recorder = held = None
        if checkpoint is not None:
            given = {
                "key": key,
                "num_particles": num_particles,
                "ess_fraction": share,
                "start": start,
            }
            recorder = open_populations(checkpoint, mover, asked, model, given)
            stack.callback(recorder.close)
            held = recorder.read()
        # Reweight, resample, move.
        seed = np.asarray(seed_of(key))
        first = along.targets[0] if is_own else target
        population, note = held or _begin(mover, first, start, seed, num_particles)

        def tell(population: Population) -> None:
            if recorder is not None:
                recorder.record(population, note)
            if population.steps:
                _tell(report, population)

        if held is None:
            tell(population)
        population = advance_to_target(mover, seed, population, share, tell)
        if isinstance(along, RowPath):
            check_rows(mover, target, population.particles, is_prior=False)
        result = _result(mover, target, population, digest_data(model, args, kwargs))
        if start is None and np.any(result.steps["num_undefined"]):
            particles = draw_prior(mover, first, seed, num_particles).particles
            is_undefined = ~(particles.terms < np.inf).all(1)
            if is_undefined.any():
                nan = explain_nan_at(asked, particles.positions[np.argmax(is_undefined)])
                result = dataclasses.replace(result, nan=nan)
    return result if init is None else _with_evidence_of(init, result, note)


def _begin(
    mover: Mover, target: Target, start: Start | None, seed: np.ndarray, number: int
) -> tuple[Population, str]:
    """First particles, and in words how well draws of an earlier result carry what is new.

    Raises:
        NotImplementedError: if there is no start, and the prior of the target cannot be drawn.
        ValueError: if no likelihood is finite, or the start does not fit the path.
    """
    if start is not None:
        return start.population(mover)
    return draw_prior(mover, target, seed, number), ""


def _with_evidence_of(init: Any, result: SMCResult, note: str) -> SMCResult:
    """Result with the evidence of all rows, NaN if that of the first rows is not known."""
    log_evidence = error = np.float64(np.nan)
    if isinstance(init, SMCResult):
        log_evidence = init.log_evidence + result.log_evidence
        error = np.hypot(init.standard_error, result.standard_error)
    return dataclasses.replace(result, log_evidence=log_evidence, standard_error=error, note=note)


def _check_kernel(kernel: Any) -> None:
    """Checks that the kernel moves one chain, by a log density that is supplied.

    Raises:
        TypeError: if it is not such a kernel.
        ValueError: if it has a log density of its own.
    """
    expected = "a kernel of one chain such as NUTS() or Slice()"
    source = "smc gives it, at each temperature"
    if isinstance(kernel, ParallelTempering):
        raise TypeError(
            f"kernel of smc must be {expected}; ParallelTempering has temperatures of its own, as "
            "smc has"
        )
    check_inner_kernel("kernel of smc", kernel, source, expected, needs_refresh=False)


def _check_protocol(mover: Mover, target: Target) -> None:
    """Checks the settings of the kernel, and that it keeps its protocol.

    Raises:
        TypeError: if a setting has the wrong type, or the kernel breaks the protocol.
        ValueError: if a setting is out of range.
    """
    ready: Any = with_density(mover.kernel, target)
    if hasattr(ready, "check"):
        ready.check(mover.layout)
    start = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), target.position_shapes)
    state = jax.eval_shape(lambda kernel: initial_state(kernel, start), ready)
    check_protocol(ready, mover.layout, state)


def _chain_length(num_particles: int, given: int | None) -> int:
    """States of a chain, a divisor of the number of particles.

    Raises:
        TypeError: if the given one is not an integer.
        ValueError: if it divides the number of particles not, or fewer than two chains are left.
    """
    most = num_particles // 2
    if given is not None:
        length = check_count("chain_length", given, least=2)
        if num_particles % length or length > most:
            raise ValueError(
                f"chain_length must divide num_particles, and leave two chains or more, got "
                f"chain_length={length} with num_particles={num_particles}; num_particles="
                f"{max(2, -(-num_particles // length)) * length} would do"
            )
        return length
    divisors = [x for x in range(2, min(most, _MAX_LENGTH) + 1) if num_particles % x == 0]
    if not divisors:
        nearest = max(2, round(num_particles / _CHAIN_LENGTH)) * _CHAIN_LENGTH
        raise ValueError(
            f"num_particles must be a number of chains times their length, got {num_particles}, "
            f"which no length of 2 to {_MAX_LENGTH} divides; take {nearest}"
        )
    return min(divisors, key=lambda x: abs(np.log(x / _CHAIN_LENGTH)))


def _chunk(target: Any, layout: Layout, num_particles: int) -> int:
    """Number of positions at which the density is evaluated at once."""
    size = layout.size + sum(np.size(x) for x in jax.tree.leaves(target))
    return int(np.clip(_CHUNK_NUMBERS // size, 1, num_particles))


def _tell(report: Report, population: Population) -> None:
    step = population.steps[-1]
    total = sum(x.log_increment for x in population.steps)
    text = f"temperature {step.temperature:.3g}, log evidence {total:.2f}"
    report(int(_PERCENT * step.place), f"step {len(population.steps)}", text)


def _result(
    mover: Mover, target: Any, population: Population, observed: tuple[int | None, int | None]
) -> SMCResult:
    """Result of a population at the end of its path, for data with a checksum."""
    particles = population.particles
    arguments = mover, target, particles.positions
    draws = jax.device_get(compile_once(_constrain, *arguments)(*arguments))
    log_density = particles.reference + np.sum(particles.terms, 1)
    likelihood = np.sum(particles.terms, 1)
    if isinstance(mover.path, ModelsPath):
        likelihood = jax.device_get(compile_once(_log_likelihoods, *arguments)(*arguments))
    steps = population.steps
    return SMCResult(
        draws=jax.tree.map(lambda x: x[None], draws),
        stats={
            "log_density": log_density[None],
            "log_likelihood": likelihood[None],
        },
        log_evidence=np.float64(sum(x.log_increment for x in steps)),
        standard_error=np.sqrt(np.float64(population.variance)),
        steps=step_columns(steps),
        num_chains=population.num_chains,
        digest=observed[0],
        num_observed=observed[1],
        sites=named_sites(target),
        centering=weights_of_chains(target, 1),
    )


def _log_likelihoods(mover: Mover, target: Target, positions: jax.Array) -> jax.Array:
    def value(x: jax.Array) -> jax.Array:
        return jnp.asarray(target.prior_and_likelihood(mover.layout.unravel(x))[1], x.dtype)

    return jax.lax.map(value, positions, batch_size=mover.chunk)


def _constrain(mover: Mover, target: Target, positions: jax.Array) -> Any:
    def values(x: jax.Array) -> Any:
        return target.constrain(mover.layout.unravel(x))

    return jax.lax.map(values, positions, batch_size=mover.chunk)
