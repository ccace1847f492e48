"""particle_filter: likelihood, filtered and smoothed draws of a model whose steps are a scan."""

import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.common.argument_checks import check_count, short_repr
from inference.common.target import named_sites
from inference.drivers.check_inputs import check_inputs
from inference.models.exact_sites import carry_exactly, why_not_exact
from inference.models.integrated_states import IntegratedStates
from inference.models.observed_data import digest_data
from inference.models.optimal_proposal import OptimalProposal, in_words
from inference.models.state_space import ModelStateSpace
from inference.models.summed_states import SummedStates
from inference.models.value_target import ValueTarget
from inference.particles.backward_sampling import sample_backward
from inference.particles.particle_filter import (
    FilterRun,
    log_evidence_variance,
    trace_indices,
    trace_paths,
)
from inference.particles.particle_filter import particle_filter as run_filter
from inference.particles.resampling import systematic
from inference.results.particle_filter_result import ParticleFilterResult
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from ppl.harvest.function_equality import ComparedByContents
from ppl.harvest.survey import Path, describe_all, join_scopes

_MAX_DENSITIES = 2**20  # evaluated at once, when paths are drawn backward


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Sizes:
    """Sizes of a run, which are part of its program."""

    num_particles: int
    num_draws: int
    smoothing: str


Space = ModelStateSpace | IntegratedStates | SummedStates | OptimalProposal


def particle_filter(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_particles: int = 1000,
    num_draws: int = 1000,
    proposal: Callable[..., Any] | str | None = None,
    smoothing: str | None = None,
    exact: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> ParticleFilterResult:
    r"""Particle filter of a model whose steps are a ``lax.scan`` with observed sites in its body.

    Particles start with draws of all latent sites before the scan. In each step they draw the
    latent sites of the body and are weighted by the density of its data; where their effective
    sample size falls below half of their number, they are resampled (systematically). The product
    of the mean weights is an unbiased estimate of the likelihood, for any number of particles.

    Steps may have any carry, several sites, real or discrete ones, and missing data
    (``ppl.ignore``). Data before and after the scan count too, if they depend on the last carry
    only. Parameters are best given, by ``ppl.condition``: particles that draw them keep those of a
    few first particles.

    | `smoothing` | draws of whole paths |
    |---|---|
    | ``"backward"`` | from the last step to the first, by the density of what follows; fast if \
    the carry forgets, given the latent values of one step or a few |
    | ``"ancestors"`` | histories of particles after the last step, which share their beginnings |

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        num_particles: Number of particles.
        num_draws: Number of draws of paths, and of each step given the data so far.
        proposal: Draws of the latent sites of a step: None for the model's own, "optimal", or a
            function.

            - "optimal" draws the sites that it can from their exact distribution given the carry
              and the data of the step, and weighs particles by the density of these data given the
              carry. It can where the sites are normal given all others, of finitely many states, or
              conjugate (``ppl.conditional``); the transition from the carry may be any.
            - A function ``(key, prior, data, t)`` draws latent sites of a step by ``ppl.sample``,
              under their names: `prior` has the distributions of the latent sites of the step that
              depend on none of the others, `data` the observed values of the step, both by site,
              and `t` is its number from 0. All other sites are drawn by the model. It must be able
              to draw all that the model can. A gap in `data` has the value that ``ppl.ignore`` was
              given, as a rule NaN: choose by ``jnp.where(jnp.isnan(...), ...)``.
        smoothing: How paths are drawn: "backward" or "ancestors"; by default backward if the carry
            forgets.
        exact: Whether each particle carries exactly what it can, as moments or probabilities
            (Rao-Blackwellized): sites in which each step is normal given all others or, without
            such sites, discrete sites of few values. Which sites, is found. The evidence has less
            variance, and a step costs more; a linear and normal model is filtered exactly. Then
            paths of the other sites are histories of particles.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        Draws of paths, draws of each step given the data so far, the log evidence with its standard
        error, and how particles fared.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, if the model has no scan with observed sites or
            several, if ``proposal="optimal"`` finds no site, or if in some step all particles have
            weight zero, or one weight is NaN.
        NotImplementedError: if a site is observed in part, or scored together with others.

    Example:
        >>> import jax, jax.numpy as jnp, ppl, distributions as dist
        >>> def walk(key):
        ...     def step(x, key):
        ...         x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
        ...         ppl.sample(key, dist.Normal(x, 0.5), name="y")
        ...         return x, None
        ...     jax.lax.scan(step, 0.0, jax.random.split(key, 4))
        >>> posterior = ppl.condition(walk, {"y": jnp.array([0.5, 1.0, 0.3, 0.9])})
        >>> result = particle_filter(jax.random.key(0), posterior)
        >>> round(float(result.log_evidence), 1)  # exactly -4.78
        -4.8
        >>> result.draws["x"].shape, result.filtered["x"].shape
        ((1, 1000, 4), (1, 1000, 4))

    References:
        Gordon, Salmond and Smith (1993), Novel approach to nonlinear/non-Gaussian Bayesian state
        estimation; Doucet, Godsill and Andrieu (2000), On sequential Monte Carlo sampling methods
        for Bayesian filtering, on the optimal proposal; Doucet, de Freitas, Murphy and Russell
        (2000), Rao-Blackwellised particle filtering for dynamic Bayesian networks; Godsill, Doucet
        and West (2004), Monte Carlo smoothing for nonlinear time series; Chan and Lai (2013), A
        general theory of particle filters in hidden Markov models and some applications.
    """
    check_inputs(particle_filter, key, model, args, kwargs)
    num_particles = check_count("num_particles", num_particles, least=2)
    num_draws = check_count("num_draws", num_draws, least=1)
    if isinstance(proposal, str) and proposal != "optimal":
        raise ValueError(
            f"proposal must be 'optimal', a function or None, got {short_repr(proposal)}"
        )
    if not (proposal is None or isinstance(proposal, str) or _takes_four(proposal)):
        raise TypeError(
            "proposal must be a function (key, prior, data, t) that draws latent sites of a step "
            "by ppl.sample, 'optimal', or None for the model's own, got "
            f"{_with_signature(proposal)}"
        )
    if not isinstance(exact, bool):
        raise TypeError(f"exact must be True or False, got {short_repr(exact)}")
    if exact and proposal is not None:
        raise ValueError(
            "exact=True takes sites out of the particles, which a proposal would draw: give one "
            "of both"
        )
    with settings(cache_dir), show_progress(progress, 1, "stage") as report:
        report(0, "compiling and filtering")
        model, args, kwargs = put_on_common_devices((model, args, kwargs))
        space = ModelStateSpace.of(model, args, kwargs)
        guide = None if isinstance(proposal, str) else proposal
        filtered = carry_exactly(space) if exact else space
        if isinstance(proposal, str):
            filtered = OptimalProposal.of(space)
        smoothing = _choose_smoothing(smoothing, filtered)
        target = ValueTarget.of(model, args, kwargs)
        sizes = _Sizes(num_particles, num_draws, smoothing)
        compared = ComparedByContents.of(guide)
        arguments = jax.device_put((key, space, filtered, target)), compared, sizes
        found = jax.device_get(compile_once(_run, *arguments)(*arguments))
        _check_alive(space, found["increments"], _sources_of_nan(filtered, guide))
        digest, num_observed = digest_data(model, args, kwargs)
        report(1, "draws")
    return ParticleFilterResult(
        **found,
        num_particles=num_particles,
        smoothing=smoothing,
        exact=tuple(map(join_scopes, _exact_sites(filtered))),
        why_not_exact=why_not_exact(space) if exact and filtered is space else "",
        **_optimal_sites(filtered),
        digest=digest,
        num_observed=num_observed,
        sites=named_sites(cast(Any, target)),
    )


def _takes_four(proposal: Any) -> bool:
    """Whether a proposal can be called with a key, distributions, data and a number."""
    if not callable(proposal):
        return False
    try:
        inspect.signature(proposal).bind(*[None] * 4)
    except TypeError:
        return False
    except ValueError:  # no signature to be read
        return True
    return True


def _with_signature(proposal: Any) -> str:
    if not callable(proposal):
        return short_repr(proposal)
    name = getattr(proposal, "__name__", type(proposal).__name__)
    return f"{name}{inspect.signature(proposal)}"


def _exact_sites(space: Space) -> tuple[Path, ...]:
    """Paths of the sites that particles carry exactly."""
    if isinstance(space, IntegratedStates):
        return (*space.at_start, *space.in_step)
    return space.paths if isinstance(space, SummedStates) else ()


def _optimal_sites(space: Space) -> dict[str, Any]:
    """Fields of the result: sites that are drawn given the data of their step, and why not others.

    Sites have the order of the model.
    """
    if not isinstance(space, OptimalProposal):
        return {}
    left = [path for path, _ in space.reasons]
    found = [path for path in space.space.step_sites if path not in left]
    return {
        "optimal": tuple(map(join_scopes, found)),
        "why_not_optimal": in_words(space.reasons),
    }


def _choose_smoothing(smoothing: str | None, space: Space) -> str:
    if smoothing is None:
        return "ancestors" if space.memory is None else "backward"
    if smoothing not in ("backward", "ancestors"):
        raise ValueError(
            f"smoothing must be 'backward', 'ancestors' or None, got {short_repr(smoothing)}"
        )
    return smoothing


def _run(
    inputs: tuple[Any, ModelStateSpace, Space, ValueTarget],
    proposal: ComparedByContents,
    sizes: _Sizes,
) -> dict[str, Any]:
    """Fields of the result, from one run of the filter."""
    key, space, filtered_space, target = inputs
    for_run, for_filtered, for_paths, for_exact = random.split(key, 4)
    is_backward = sizes.smoothing == "backward"

    def move(key: jax.Array, state: Any, t: jax.Array) -> Any:
        if proposal.value is None:
            return filtered_space.move(key, state, t)
        return space.move_by(proposal.value, key, state, t)

    run = run_filter(
        for_run, filtered_space, sizes.num_particles, move=move, keeps_states=is_backward
    )
    if is_backward:
        # States are those of the model; its densities cost less than those of the proposal.
        of_model = isinstance(filtered_space, OptimalProposal)
        smoothed_space = space if of_model else filtered_space
        start, paths = _draw_backward(for_paths, smoothed_space, run, sizes)
    else:
        start, paths = trace_paths(run, systematic(for_paths, run.log_weights, sizes.num_draws))
        paths = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), paths)
    if isinstance(filtered_space, IntegratedStates | SummedStates):
        start, paths = _draw_exact(for_exact, filtered_space, start, paths, sizes)
    values = jax.vmap(space.join)(start, paths)
    filtered = _draw_filtered(for_filtered, run, sizes.num_draws)
    filtered = jax.vmap(lambda x: space.join({}, x))(filtered)
    last = jax.tree.map(lambda x: x[-1], values)
    return {
        "draws": _with_chain(jax.vmap(target.constrain)(values)),
        "filtered": _with_chain(filtered),
        "log_evidence": run.log_evidence,
        "standard_error": jnp.sqrt(log_evidence_variance(run)),
        "increments": run.increments,
        "ess": run.ess,
        "num_ancestors": _count_ancestors(run),
        "log_density": target.log_density(last),
    }


def _with_chain(draws: Any) -> Any:
    return jax.tree.map(lambda x: x[None], draws)


def _draw_backward(key: jax.Array, space: Space, run: FilterRun, sizes: _Sizes) -> tuple[Any, Any]:
    """Paths by backward sampling, some at a time: values before the scan, and of all steps."""
    size = max(1, min(sizes.num_draws, _MAX_DENSITIES // sizes.num_particles))
    keys = random.split(key, sizes.num_draws)
    return lax.map(lambda key: sample_backward(key, space, run), keys, batch_size=size)


def _draw_exact(
    key: jax.Array,
    space: IntegratedStates | SummedStates,
    start: Any,
    paths: Any,
    sizes: _Sizes,
) -> tuple[Any, Any]:
    """Paths with new values of the sites that particles carry, some at a time."""
    size = max(1, min(sizes.num_draws, _MAX_DENSITIES // space.num_steps))
    keys = random.split(key, sizes.num_draws)
    return lax.map(lambda x: space.draw_path(*x), (keys, start, paths), batch_size=size)


def _draw_filtered(key: jax.Array, run: FilterRun, num_draws: int) -> Any:
    """Draws of the values of each step given the data up to it, ``(draw, step, ...)``."""
    log_weights = jnp.concatenate([run.earlier_log_weights[1:], run.log_weights[None]])
    keys = random.split(key, len(log_weights))

    def draw(key: jax.Array, log_weights: jax.Array, values: Any) -> Any:
        chosen = systematic(key, log_weights, num_draws)
        return jax.tree.map(lambda x: x[chosen], values)

    return jax.tree.map(
        lambda x: jnp.moveaxis(x, 0, 1), jax.vmap(draw)(keys, log_weights, run.values)
    )


def _count_ancestors(run: FilterRun) -> jax.Array:
    """Number of different ancestors, before the first step and in each, of the last particles."""
    everyone = jnp.arange(run.log_weights.size)
    lineage, first = trace_indices(run.ancestors, everyone)
    # Systematic resampling keeps the order of particles, so that those of one ancestor are a row.
    lineage = jnp.concatenate([first[None], lineage])
    return 1 + jnp.sum(lineage[:, 1:] != lineage[:, :-1], axis=1)


def _sources_of_nan(space: Space, proposal: Callable[..., Any] | None) -> str:
    """Sentences on other sources of a weight that is NaN than the density of the data."""
    if proposal is not None:
        return (
            ". Or the proposal is not a number there: a gap of ppl.ignore is NaN in its `data`, "
            "where it has to choose, by jnp.where(jnp.isnan(...), ...)"
        )
    if not isinstance(space, IntegratedStates):
        return ""
    is_wide = jnp.result_type(float) == jnp.float64
    return (
        f". Or the precision of the normal sites that particles carry, "
        f"{describe_all(_exact_sites(space))}, does not fit {jnp.result_type(float)}: take "
        + "jax_enable_x64, or " * (not is_wide)
        + "exact=False"
    )


def _check_alive(space: ModelStateSpace, increments: np.ndarray, sources_of_nan: str) -> None:
    """Check that in each step some particle has a weight, and none is NaN.

    Raises:
        ValueError: if not; it names the step and its observed sites.
    """
    bad = np.flatnonzero(~np.isfinite(increments))
    if not len(bad):
        return
    before, in_steps, after = space.observed_sites
    at = int(bad[0])
    last = at == space.num_steps
    sites = describe_all(before if at == 0 else (*in_steps, *(after if last else ())))
    where = "before the first step" if at == 0 else f"in step {at - 1} of {space.num_steps}"
    if np.isnan(increments[at]):
        raise ValueError(
            f"the weight of a particle is NaN {where}: the density of {sites} is not a number for "
            f"values that are drawn. Look for invalid parameters, as a scale of 0{sources_of_nan}"
        )
    if increments[at] > 0:
        raise ValueError(
            f"the weight of a particle is infinite {where}: the density of {sites} has no bound, "
            "so that the likelihood cannot be estimated by weights"
        )
    raise ValueError(
        f"all particles have weight zero {where}: the density of {sites} is 0 there for every "
        "value that they drew. Raise num_particles, give a proposal that looks at the data, or an "
        "observed site with wider tails; if the data are impossible, no number of particles helps"
    )
