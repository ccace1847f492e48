"""smc: sequential Monte Carlo from the prior of a model to its posterior."""

import os
from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np

import ppl
from inference.chains.step_chains import check_protocol, initial_state
from inference.chains.step_sampling import with_density
from inference.common.argument_checks import check_count, check_fraction, short_repr
from inference.common.layout import Layout
from inference.common.target import Target, named_sites
from inference.common.threefry import seed_of
from inference.drivers.check_inputs import check_inputs
from inference.drivers.proper_priors import check_proper_priors
from inference.initialization.not_finite import not_finite
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.kernels.inner_kernel import check_inner_kernel
from inference.kernels.tempering.parallel_tempering import ParallelTempering
from inference.models.observed_data import digest_data
from inference.particles.moves import Mover, draw_reference
from inference.particles.path_weights import Place
from inference.particles.paths import LikelihoodPath
from inference.particles.tempering import Population, Step, advance_to_target, seed_at
from inference.results.smc_result import SMCResult
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import copy_to_default_device
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Report, Shown, show_progress

_CHAIN_LENGTH = 16
_MAX_LENGTH = 64
_CHUNK_NUMBERS = 1 << 22  # numbers of data times positions that are evaluated at once
_PERCENT = 100


def smc(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_particles: int = 2048,
    kernel: Kernel = NUTS(),
    path: Literal["likelihood"] = "likelihood",
    chain_length: int | None = None,
    ess_fraction: float = 0.5,
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
        path: ``"likelihood"``, powers of the likelihood.
        chain_length: States of a chain of the moves, which divides `num_particles`; by default the
            divisor nearest to 16.
        ess_fraction: Share of the effective sample size that a step keeps, between 0 and 1.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show a bar; by default in a terminal and in a notebook. In a log file
            it is a line every ten seconds. Or a function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        The particles, with equal weights, the evidence, and a summary.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, a latent site is discrete, a prior is improper, or
            the likelihood is 0 at all particles.
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

    References:
        Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68; Dau and
        Chopin (2022), Waste-free sequential Monte Carlo, JRSS B 84; Buchholz, Chopin and Jacob
        (2021), Adaptive tuning of Hamiltonian Monte Carlo within sequential Monte Carlo, Bayesian
        Analysis 16.
    """
    # Check the arguments.
    check_inputs(smc, key, model, args, kwargs)
    num_particles = check_count("num_particles", num_particles, least=4)
    length = _chain_length(num_particles, chain_length)
    share = check_fraction("ess_fraction", ess_fraction)
    if path != "likelihood":
        raise ValueError(f'path must be "likelihood", got {short_repr(path)}')
    _check_kernel(kernel)
    with settings(cache_dir), show_progress(progress, _PERCENT, "percent") as report:
        target: Any = copy_to_default_device(ppl.unconstrain(model, *args, **kwargs))
        check_proper_priors("smc", model, args, kwargs, target)
        _check_prior(target)
        layout = Layout.of(target.position_shapes)
        chunk = _chunk(target, layout, num_particles)
        mover = Mover(copy_to_default_device(kernel), LikelihoodPath(target), layout, length, chunk)
        _check_protocol(mover, target)
        seed = np.asarray(seed_of(key))
        # Run from the prior to the posterior.
        population = advance_to_target(
            mover,
            seed,
            _begin(mover, target, seed, num_particles),
            share,
            lambda population: _tell(report, population),
        )
        return _result(mover, target, population, digest_data(model, args, kwargs))


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


def _check_prior(target: Target) -> None:
    """Checks that the prior can be drawn, and scored apart from data.

    Raises:
        NotImplementedError: if it cannot.
    """
    try:
        jax.eval_shape(target.prior, jax.eval_shape(lambda: jax.random.key(0)))
        jax.eval_shape(target.split_log_density, target.position_shapes)
    except (NotImplementedError, ValueError) as error:
        raise _no_prior(error) from error


def _no_prior(error: Exception) -> NotImplementedError:
    """Error for a model whose prior cannot be drawn, or scored apart."""
    reason = str(error).split(". ")[0]
    return NotImplementedError(
        f"smc starts with draws from the prior, and {reason}. Use mcmc, which needs none: "
        "kernel=inference.ParallelTempering(reference=...) gives an evidence, too."
    )


def _chunk(target: Any, layout: Layout, num_particles: int) -> int:
    """Number of positions at which the density is evaluated at once."""
    size = layout.size + sum(np.size(x) for x in jax.tree.leaves(target))
    return int(np.clip(_CHUNK_NUMBERS // size, 1, num_particles))


def _begin(mover: Mover, target: Target, seed: np.ndarray, num_particles: int) -> Population:
    """Population of draws from the prior.

    Raises:
        NotImplementedError: if the prior cannot be drawn.
        ValueError: if the likelihood is not finite anywhere.
    """
    numbers = np.arange(num_particles)
    own = seed_at(seed, 0)
    arguments = mover, target, own, numbers.astype(np.uint32)
    try:
        program = compile_once(draw_reference, *arguments)
    except NotImplementedError as error:  # some distributions say so where they are drawn
        raise _no_prior(error) from error
    particles = jax.device_get(program(*arguments))
    if not np.isfinite(particles.terms).all(1).any():
        found = not_finite(target, mover.layout, particles.positions[0], np.nan, None)
        raise ValueError(
            f"smc: the log likelihood is not finite at any of {num_particles} draws from the prior."
            f" At the first one, {'; '.join(found)}. Check that the prior allows the data, that "
            "these hold no NaN, and that parameters stay in their domain; or raise num_particles."
        )
    return Population(particles, Place(0, 0.0), [numbers], numbers)


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
    likelihood = np.sum(particles.terms, 1)
    steps = population.steps
    return SMCResult(
        draws=jax.tree.map(lambda x: x[None], draws),
        stats={
            "log_density": (particles.reference + likelihood)[None],
            "log_likelihood": likelihood[None],
        },
        log_evidence=np.float64(sum(x.log_increment for x in steps)),
        standard_error=np.sqrt(np.float64(population.variance)),
        steps={name: np.array([getattr(x, name) for x in steps]) for name in Step._fields},
        num_chains=population.num_chains,
        digest=observed[0],
        num_observed=observed[1],
        sites=named_sites(target),
    )


def _constrain(mover: Mover, target: Target, positions: jax.Array) -> Any:
    def values(x: jax.Array) -> Any:
        return target.constrain(mover.layout.unravel(x))

    return jax.lax.map(values, positions, batch_size=mover.chunk)
