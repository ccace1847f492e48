"""evidence: the marginal likelihood of a model's data, from posterior draws."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import ppl
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.target import Target, labels_by_name, named_sites
from inference.common.threefry import seed_of
from inference.drivers.check_inputs import check_inputs
from inference.drivers.init_from_result import list_shapes
from inference.drivers.proper_priors import check_proper_priors
from inference.evidence.bridge_sampling import bridge_sampling
from inference.models.observed_data import digest_data
from inference.models.same_model import check_model, check_path, in_coordinates_of, latent_draws
from inference.models.value_target import ValueTarget
from inference.results.evidence import Evidence, evidence_problems, problems_of_order
from inference.results.mcmc_result import MCMCResult
from inference.results.mcmc_results import MCMCResults
from inference.results.optimize_result import coordinate_names
from inference.results.particle_filter_result import ParticleFilterResult, filter_evidence
from inference.results.smc_result import SMCResult, smc_evidence
from inference.results.tempering import tempering_evidence
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from ppl.common.draw_chunks import choose_chunk_size, join_chunks, map_chunks
from ppl.harvest.survey import join_scopes

_MIN_DRAWS = 50  # of a chain
_CHUNK_NUMBERS = 1 << 22  # coordinates of one chunk


def evidence(
    result: MCMCResult | SMCResult | ParticleFilterResult,
    model: Callable[..., Any] | None = None,
    *args: Any,
    key: jax.Array | None = None,
    **kwargs: Any,
) -> Evidence:
    r"""Log evidence :math:`\log \int p(y \mid \theta)\, p(\theta)\, d\theta` from draws.

    Given the model, it is by bridge sampling from the draws of any chains. Of :func:`smc`, and of a
    run with :class:`ParallelTempering`, the result alone is enough: the run has estimated the
    integral along its path, relative to its reference, for modes that are far apart and posteriors
    far from normal. So it is of :func:`particle_filter`, whose estimate of the likelihood has no
    bias; values that were conditioned on count as data, parameters too.

    Bridge sampling compares the draws with those of a normal distribution on unconstrained space
    that is fitted to other draws. Skewness and several modes do no harm, if the chains have visited
    the modes in proportion; tails that are very heavy and strong funnels give large errors, which
    the standard error tells. The density is that of :func:`ppl.log_density`, with all constants,
    so that models of different kinds may be compared. Sites that ``ppl.marginalize`` took out are
    integrated exactly. With factors or weights of ``ppl.scale``, and for a model of
    ``ppl.from_density``, the result is the log of the integral of the density that was sampled.

    The evidence depends on the priors, however little these matter for the draws: compare models by
    it only if their priors mean what they say. It takes more draws than means do; 4 chains of 1000
    usually suffice.

    Args:
        result: Result of :func:`mcmc`, or one of :func:`mcmc_each`, for this model and data; or of
            :func:`smc` or :func:`particle_filter`.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on. By
            default the estimate is that of parallel tempering. The estimates of :func:`smc` and
            :func:`particle_filter` are taken with a model, too, which is compared with that of the
            run by log densities at draws.
        *args: Arguments of the model: data.
        key: Key of the draws of the normal distribution; by default ``jax.random.key(0)``.
        **kwargs: More arguments of the model.

    Returns:
        The estimate, its standard error, and problems in words.

    Raises:
        TypeError: if `result` is not a result of Markov chains, if the model is missing and the run
            was without parallel tempering, or if an argument has the wrong type.
        ValueError: if a prior is improper, a latent site is discrete, the draws are of another
            model or other data, or fewer than 50 a chain; or if a result of :func:`smc` went on
            from one of :func:`mcmc`.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def model(key):
        ...     p = ppl.sample(key, dist.Beta(1.0, 1.0), name="p")
        ...     return ppl.sample(key, dist.Binomial(10, probs=p), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.array(2)})
        >>> found = inference.evidence(inference.mcmc(jax.random.key(0), posterior), posterior)
        >>> round(found.log_evidence, 1)  # exactly -log(11): each of 0 to 10 is equally probable
        -2.4

    References:
        Meng and Wong (1996), Statistica Sinica 6; Meng and Schilling (2002), Warp bridge sampling,
        Journal of Computational and Graphical Statistics 11; Gronau et al. (2017), A tutorial on
        bridge sampling, Journal of Mathematical Psychology 81.
    """
    if isinstance(result, SMCResult):
        return _of_particles(result, model, args, kwargs)
    if isinstance(result, ParticleFilterResult):
        return _of_filter(result, model, args, kwargs)
    _check_result(result)
    if model is None:
        return _of_tempering(result)
    _check_length(result)
    key = jax.random.key(0) if key is None else key
    check_inputs(evidence, key, model, args, kwargs)
    with settings(None):
        _check_no_discrete(model, args, kwargs)
        target = ppl.unconstrain(model, *args, **kwargs)
        check_proper_priors("evidence", model, args, kwargs, target)
        latent = {".".join(map(str, path)) for path, _ in target.shapes}
        check_model("evidence", result, latent, model, args, kwargs)
        target = put_on_common_devices(in_coordinates_of(result, target))
        positions, lost = flat_draws(target, result)
        found = bridge_sampling(_log_density(target), positions, [*map(int, seed_of(key))])
        eps = float(np.finfo(Layout.of(target.position_shapes).dtype).eps)
    rounding = eps * abs(found.log_density)
    digest, num_observed = digest_data(model, args, kwargs)
    num_chains, num_draws, size = positions.shape
    return Evidence(
        log_evidence=found.log_integral,
        standard_error=found.se,
        pareto_k=found.pareto_k,
        overlap=found.overlap,
        problems=(
            *problems_of_order(result.facts.num_ordered),
            *evidence_problems(found.se, found.overlap, found.pareto_k, found.rhat, lost, rounding),
        ),
        about=(
            f"Bridge sampling: {_count(num_chains, 'chain')} of {_count(num_draws, 'draw')} on "
            f"unconstrained space of {_count(size, 'dimension')}, whose overlap with a normal "
            f"distribution is {found.overlap:.2f}."
        ),
        digest=digest,
        num_observed=num_observed,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _check_result(result: Any) -> None:
    """Checks that a result is of Markov chains.

    Raises:
        TypeError: if it is another object, with what it offers instead.
    """
    if not isinstance(result, MCMCResult):
        given = "the model" if callable(result) else repr(type(result).__name__)
        own = ""
        if hasattr(result, "log_evidence"):
            own = " It has result.log_evidence of its own."
        elif isinstance(result, MCMCResults):
            own = " Take its results one by one: results[0] with the arguments of its data."
        raise TypeError(
            "result must be a result of Markov chains, as of mcmc, and comes first: "
            f"inference.evidence(result, posterior, *args); got {given}.{own}"
        )


def _check_no_discrete(model: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Checks that all latent sites are real.

    Raises:
        ValueError: if some are discrete; it names how they are summed.
    """
    shapes = ValueTarget.of(model, args, kwargs).shapes
    discrete = [join_scopes(path) for path, x in shapes if not np.issubdtype(x.dtype, np.floating)]
    if discrete:
        raise ValueError(
            f"evidence: the values of {', '.join(map(repr, discrete))} are discrete, and bridge "
            "sampling integrates real ones. Sum them out, inference.evidence(result, "
            f"ppl.marginalize(model, {discrete}), *args), also for draws of Gibbs sampling; if "
            "they are data, condition on them"
        )


def _of_tempering(result: MCMCResult) -> Evidence:
    """Estimate that a run with parallel tempering has made.

    Raises:
        TypeError: if it was another run.
    """
    found = tempering_evidence(result.stats)
    if found is None:
        raise TypeError(
            "evidence needs the model: inference.evidence(result, posterior, *args). Only a run "
            "with kernel=inference.ParallelTempering() has the log evidence among its stats."
        )
    return found


def _of_particles(
    result: SMCResult, model: Callable[..., Any] | None, args: Any, kwargs: Any
) -> Evidence:
    """Estimate that a run of particles has made, for the model if there is one.

    Raises:
        ValueError: if there is none, or the particles are of another model or other data.
    """
    if math.isnan(result.log_evidence):
        raise ValueError(
            "evidence: the result of smc went on from one of mcmc, and does not know the evidence "
            "of its first rows, or of the first model of its path. Take inference.evidence(chains, "
            "first, *args) of that result of mcmc, and add "
            'result.steps["log_increment"].sum(), the log evidence of what is new, given that; or '
            "run smc without init"
        )
    if model is not None:
        with settings(None):
            latent = {join_scopes(path) for path, _ in ValueTarget.of(model, args, kwargs).shapes}
            check_model("evidence", result, latent, model, args, kwargs)
    return smc_evidence(result)


def _of_filter(
    result: ParticleFilterResult, model: Callable[..., Any] | None, args: Any, kwargs: Any
) -> Evidence:
    """Estimate that a particle filter has made, for the model if there is one.

    Raises:
        ValueError: if the model has other latent sites, data or arguments than that of the run.
    """
    if model is None:
        return filter_evidence(result)
    with settings(None):
        shapes = ValueTarget.of(model, args, kwargs).shapes
        digest, num_observed = digest_data(model, args, kwargs)
    latent = {join_scopes(path) for path, _ in shapes}
    drawn = {name for name, is_deterministic, *_ in result.sites if not is_deterministic}
    if latent != drawn:
        raise ValueError(
            "evidence: the model is not that of the run: its latent sites are "
            f"{_names(latent)}, and the filter drew {_names(drawn)}. Give what was filtered"
        )
    if digest != result.digest:
        counts = "other numbers than the run"
        if num_observed != result.num_observed:
            counts = f"{num_observed} numbers, and the run {result.num_observed}"
        raise ValueError(
            "evidence: the arguments of the model or its data are not those of the run: it "
            f"is conditioned on {counts}. Give what was filtered"
        )
    with settings(None):
        check_path("evidence", result.draws, result.log_density, model, args, kwargs)
    return filter_evidence(result)


def _names(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"


def _check_length(result: MCMCResult) -> None:
    """Checks that chains are long enough for two halves.

    Raises:
        ValueError: if they are not.
    """
    num_draws = np.shape(jax.tree.leaves(result.draws)[0])[1]
    if num_draws < _MIN_DRAWS:
        raise ValueError(
            f"evidence needs {_MIN_DRAWS} draws of each chain or more, got {num_draws}: half of "
            "them fit a normal distribution, which the other half is compared with."
        )


def flat_draws(target: Any, result: MCMCResult) -> tuple[np.ndarray, float]:
    """Flat positions of draws, ``(chain, draw, size)``, and the share of those that have none.

    A draw without a finite position is replaced by the one before it.

    Raises:
        ValueError: if the draws are of another model, or none of a chain has a position.
    """
    values = _latent_values(target, result)
    layout = Layout.of(target.position_shapes)
    batch = np.shape(jax.tree.leaves(values)[0])[:2]
    flat = jax.tree.map(lambda x: np.reshape(x, (-1, *np.shape(x)[2:])), values)
    found = _by_chunks(_flat_positions, target, flat, layout.size).reshape(*batch, -1)
    is_finite = np.isfinite(found).all(-1)
    if not is_finite.any(axis=-1).all():
        raise ValueError(
            "evidence: all draws of a chain are at the edge of a support, where they have no "
            "finite position on unconstrained space. Set jax_enable_x64."
        )
    first = np.argmax(is_finite, 1)[:, None]
    steps = np.where(is_finite, np.arange(batch[1]), first)
    last = np.maximum.accumulate(steps, 1)
    found = np.take_along_axis(found, last[..., None], 1)
    _check_variation(found, target, layout)
    return found, 1 - float(is_finite.mean())


def _check_variation(positions: np.ndarray, target: Any, layout: Layout) -> None:
    """Checks that each coordinate varies in each half of the draws.

    Raises:
        ValueError: if some do not, with their names.
    """
    middle = positions.shape[1] // 2
    spreads = [np.ptp(x, (0, 1)) for x in (positions[:, :middle], positions[:, middle:])]
    still = np.flatnonzero(np.min(spreads, 0) == 0)
    if still.size:
        names = coordinate_names(layout, labels_by_name(named_sites(target)))
        raise ValueError(
            f"evidence: the draws of {', '.join(names[i] for i in still[:4])} do not vary in a "
            "half of the run, so that no normal distribution can be fitted. Look at "
            "result.summary(): the chains do not move, or the posterior is too narrow for "
            f"{layout.dtype}."
        )


def _latent_values(target: Any, result: MCMCResult) -> Any:
    """Draws of the latent sites of a model.

    Raises:
        ValueError: if some are missing, or have other shapes.
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    sites = jax.eval_shape(lambda key: target.constrain(target.initial(key)), key)
    latent = named_leaves(latent_draws(target.position_shapes, sites))
    expected = {name: x.shape for name, x in latent}
    found = {name: np.shape(x)[2:] for name, x in named_leaves(result.draws)}
    if any(found.get(name) != shape for name, shape in expected.items()):
        raise ValueError(
            "evidence: the draws are of another model or of data of other shapes, or were kept in "
            f"part: they have {list_shapes(found)}, and the latent sites of the model are "
            f"{list_shapes(expected)}. Give a result with draws of all latent sites."
        )
    return latent_draws(target.position_shapes, result.draws)


def _log_density(target: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Log density of flat positions ``(draw, size)``; minus infinity where it is NaN."""
    dtype = Layout.of(target.position_shapes).dtype

    def log_density(x: np.ndarray) -> np.ndarray:
        found = _by_chunks(_log_densities, target, x.astype(dtype), x.shape[1])
        return np.where(np.isnan(found), -np.inf, found)

    return log_density


def _by_chunks(function: Callable[..., Any], target: Any, draws: Any, size: int) -> np.ndarray:
    """A function of many draws in float64, chunk by chunk."""
    num_draws = len(jax.tree.leaves(draws)[0])
    chunk = choose_chunk_size(None, num_draws, max(1, _CHUNK_NUMBERS // size))

    def of_chunk(_: Any, some: Any) -> np.ndarray:
        return np.asarray(compile_once(function, target, some)(target, some), np.float64)

    return join_chunks(map_chunks(of_chunk, draws, num_draws, chunk), (num_draws,))


def _flat_positions(target: Target, values: Any) -> jax.Array:
    layout = Layout.of(target.position_shapes)
    key = jax.random.key(0)
    return jax.vmap(lambda values: layout.ravel(target.initial(key, values)))(values)


def _log_densities(target: Target, positions: jax.Array) -> jax.Array:
    layout = Layout.of(target.position_shapes)
    return jax.vmap(lambda x: target.log_density(layout.unravel(x)))(positions)
