"""nested_laplace: the posterior of a latent Gaussian model, by points or few chains."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.common.argument_checks import check_count
from inference.common.layout import Layout
from inference.common.target import named_sites
from inference.drivers.chain_points import ChainPoints, sample_points
from inference.drivers.check_inputs import check_inputs
from inference.drivers.field_points import FieldPoints
from inference.drivers.importance import standard_error_of_mean
from inference.drivers.inner_modes import count_inner_modes
from inference.drivers.run_settings import NUM_CHAINS, NUM_WARMUP
from inference.initialization.not_finite import not_finite
from inference.models.latent_field import LatentField, check_names, check_plain, find_latent_field
from inference.optimization.quadratic_search import Peak, find_peak
from inference.optimization.spread_points import SpreadPoints, spread
from inference.results.nested_laplace_result import NestedLaplaceResult
from inference.results.psis import largest_pareto_k, psis_of
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import ProgressReport, Report, Shown, show_progress
from ppl.harvest.names import paths_in
from ppl.harvest.survey import describe, join_scopes
from ppl.transforms.unconstrain import Unconstrained

_MAX_SIZE = 12  # coordinates of hyperparameters; more are sampled
_NUM_STARTS = 64
_NUM_CLIMBS = 4
_FAR = 4.0  # standard deviations between modes
_LEAST_MODE = 7.0  # nats below the highest mode; lower ones do not count
_LEAST_CHAINS = f"they sample more than {_MAX_SIZE} coordinates; leave it out for {NUM_CHAINS}"
_RADIUS = 2.0  # of the starts, on unconstrained space
_WORTH = 0.3  # of the points; below it, points are spread anew
_NUM_AT_PEAK = 32  # draws that tell how noisy corrections are
_LEAST_AT_PEAK = 4.0  # their effective number; below it, points are not spread anew


def nested_laplace(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    sites: Sequence[str] | None = None,
    num_draws: int = 1000,
    num_proposals: int = 32,
    max_block: int = 4096,
    num_chains: int = NUM_CHAINS,
    num_warmup: int = NUM_WARMUP,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> NestedLaplaceResult:
    r"""Draws with weights from the posterior of a latent Gaussian model, and its evidence.

    Sites :math:`x` that are jointly normal given the others :math:`\theta`, as effects, trends and
    Gaussian processes, are integrated out: exactly where they are normal given the data, too, and
    else by Laplace's approximation. What is left is a density of a few numbers,

    .. math:: \tilde p(\theta, y) = \frac{p(x, \theta, y)}{q(x \mid \theta, y)}
        \Big|_{x = \hat x(\theta)},

    whose integral is a weighted sum over points that are spread about its mode. Where they are more
    than 12 numbers, draws of :func:`mcmc` take the place of these points, and bridge sampling that
    of the sum (:func:`evidence`). At each point :math:`x` is drawn from the normal distribution
    :math:`q`. The draws get importance weights of the exact posterior where these are reliable (by
    Pareto k, at most 0.67 for 1000 draws). Where they leave few points any weight, as errors of
    many groups add up, points are spread anew over the density with its correction. Where they are
    still not reliable, draws have the weights of the points alone, and the result says so. The
    posterior is taken to have one mode of :math:`x` given :math:`\theta`: no draw comes from
    another, and no weight tells of it. Others are sought at the mode of :math:`\theta`, by climbs
    from draws of the prior, for at most 4096 elements, and told; so are several modes of
    :math:`\theta`.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        sites: Names of the sites :math:`x`. By default, all that are jointly normal given the
            others; but neither a factor of others in the data, nor a single number that enters the
            data by a function of its own. Where :math:`x` is not normal given the data, its
            smallest sites, as levels and slopes, are left out if the rest then falls into more
            independent parts; but no site whose prior has parameters outside of :math:`x`.
        num_draws: Number of draws, each at a point of :math:`\theta` of its own.
        num_proposals: Number of draws of each independent part of :math:`x` from which one is
            chosen by importance weights.
        max_block: Largest number of elements of :math:`x` that are coupled as a whole, whose
            precision matrix is dense.
        num_chains: Number of chains of NUTS, where the others have more than 12 coordinates.
        num_warmup: Iterations of warm-up of each of these chains.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        Draws of all sites with weights, the evidence, and how far to trust them.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, if no site is normal given the others, if the
            density is nowhere finite, or if the model is one of ``ppl.marginalize`` or
            ``ppl.scale``.

    Example:
        >>> import jax, jax.numpy as jnp, ppl, distributions as dist
        >>> def schools(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        ...     tau = ppl.sample(key, dist.HalfNormal(5.0), name="tau")
        ...     theta = ppl.sample(key, dist.Normal(mu * jnp.ones(4), tau), name="theta")
        ...     ppl.sample(key, dist.Normal(theta, 10.0), name="y")
        >>> posterior = ppl.condition(schools, {"y": jnp.array([28.0, 8.0, -3.0, 7.0])})
        >>> result = nested_laplace(jax.random.key(0), posterior)
        >>> sorted(result.draws)
        ['mu', 'tau', 'theta']
        >>> round(float(result.log_evidence), 1)  # by quadrature -16.607
        -16.6

    References:
        Rue, Martino and Chopin (2009), Approximate Bayesian inference for latent Gaussian models
        by using integrated nested Laplace approximations, JRSS B 71; Tierney and Kadane (1986),
        Accurate approximations for posterior moments and marginal densities, JASA 81.
    """
    check_inputs(nested_laplace, key, model, args, kwargs)
    num_draws = check_count("num_draws", num_draws, least=32)
    num_proposals = check_count("num_proposals", num_proposals, least=1)
    max_block = check_count("max_block", max_block, least=1)
    num_chains = check_count("num_chains", num_chains, least=1, remedy=_LEAST_CHAINS)
    num_warmup = check_count("num_warmup", num_warmup, least=0)
    check_names(sites, "nested_laplace")
    # Points of density zero are no mistake.
    quiet = np.errstate(divide="ignore", invalid="ignore")
    with settings(cache_dir), quiet, show_progress(progress, 4, "stage") as shown:
        report = _Stages(shown)
        report(0, "finding the latent field")
        whole = ppl.unconstrain(model, *args, **kwargs)
        check_plain(whole, "nested_laplace")
        field = find_latent_field(whole, sites, max_block)
        _check_field(field, sites)
        exact = ppl.Gaussian(max_block=max_block)
        laplace = ppl.Laplace(max_block=max_block, num_proposals=num_proposals)
        strategy = exact if field.is_exact else laplace
        inner = ppl.marginalize(model, dict.fromkeys(field.names, strategy))
        target = jax.device_put(put_on_common_devices(ppl.unconstrain(inner, *args, **kwargs)))
        layout = Layout.of(target.position_shapes)
        at_points = FieldPoints(target, key, num_proposals, report.tell)
        log_density = at_points.log_density
        report(1, "chains" if layout.size > _MAX_SIZE else "compiling and climbing")
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        chosen: ChainPoints | None = None
        if layout.size > _MAX_SIZE:
            num_modes = 1
            chosen = sample_points(
                jax.random.fold_in(key, num_draws),  # others are of the draws
                inner,
                args,
                kwargs,
                target,
                log_density,
                num_points=num_draws,
                num_chains=num_chains,
                num_warmup=num_warmup,
                progress=report.tell_of_chains if callable(progress) else progress,
            )
            points = chosen.points
        else:
            peak, num_modes = _climb(log_density, _starts(rng, log_density, target, layout, field))
            report(2, "points")
            points = spread(log_density, peak, num_draws, rng.uniform(size=layout.size))
        report(3, "draws")
        draws, _, corrections = at_points.draw(points.points)
        num_inner_modes = 1
        if chosen is not None and chosen.num_inner_modes is not None:
            num_inner_modes = chosen.num_inner_modes
        elif not field.is_exact:
            nearest = int(np.argmax(points.log_density))
            found = dict(paths_in(draws, (*field.others, *field.paths)))
            others = {p: jax.tree.map(lambda x: x[nearest], found[p]) for p in field.others}
            inner = {p: found[p] for p in field.paths}
            num_inner_modes = count_inner_modes(key, model, args, kwargs, others, inner, nearest)
        weighed = _weigh(corrections, points, layout.dtype)
        if chosen is not None:
            weighed |= _of_chains(weighed, chosen)
        elif not field.is_exact and _is_poor(weighed) and not _is_noisy(at_points, peak, num_draws):
            shift = rng.uniform(size=layout.size)
            again, anew = _spread_anew(at_points, peak, shift, num_draws)
            is_first = weighed["is_corrected"] and weighed["ess"] > anew["ess"]
            if anew["is_corrected"] and not is_first:
                draws = again
                weighed = anew
        report(4, "draws")
    return NestedLaplaceResult(
        draws=jax.tree.map(lambda x: x[None], _without_lost(draws, weighed)),
        **weighed,
        integrated=field.names,
        is_exact=field.is_exact,
        num_modes=num_modes,
        num_inner_modes=num_inner_modes,
        sites=named_sites(whole),
    )


def _check_field(field: LatentField, sites: Sequence[str] | None) -> None:
    """Checks that there is a field, and something else.

    Raises:
        ValueError: if one is missing.
    """
    if not field.paths and field.left_out:
        names = [join_scopes(path) for path in field.left_out]
        raise ValueError(
            f"nested_laplace: no site was chosen to integrate out.{_words_on_left_out(field)} "
            f"Where they are nearly normal given the others, name them, sites={names}. Or use mcmc."
        )
    if not field.paths:
        raise ValueError(
            "nested_laplace: no latent site is normal given the others, so there is nothing to "
            "integrate out. Use mcmc, or laplace for all sites at once."
        )
    if not field.others:
        why = "are normal a priori" if sites is None else "are named by sites"
        raise ValueError(
            f"nested_laplace: all latent sites ({', '.join(field.names)}) {why}, and nothing is "
            "left to spread points over. Use laplace, which is the same approximation then."
        )


def _words_on_left_out(field: LatentField) -> str:
    """Reasons why sites that are normal a priori are not integrated out."""
    return "".join(
        f" {describe(path)} is normal a priori and was left out: {why}."
        for path, why in field.left_out.items()
    )


class _Stages:
    """Stages of a run, and how far each is."""

    def __init__(self, shown: Report):
        self._shown = shown
        self._stage = 0, ""

    def __call__(self, number: int, phase: str) -> None:
        """Begins a stage."""
        self._stage = number, phase
        self._shown(number, phase)

    def tell_of_chains(self, news: ProgressReport) -> None:
        """Tells how far the chains of the stage are, in words."""
        words = f"{news.phase}: {news.num_done} of {news.num_iterations} iterations"
        self._shown(*self._stage, f"{words}, {news.describe_all()}")

    def tell(self, num_done: int, num_points: int) -> None:
        """Tells at how many points the stage is finished."""
        self._shown(*self._stage, f"{num_done} of {num_points} points")


def _starts(
    rng: np.random.Generator,
    log_density: Callable[..., np.ndarray],
    target: Unconstrained,
    layout: Layout,
    field: LatentField,
) -> list[np.ndarray]:
    """A few points far apart, those of largest density among many on unconstrained space.

    Raises:
        ValueError: if the density is finite at none.
    """
    starts = rng.uniform(-_RADIUS, _RADIUS, size=(_NUM_STARTS, layout.size))
    values = log_density(starts)
    if not np.any(np.isfinite(values)):
        last = starts[-1].astype(layout.dtype)
        culprits = not_finite(target, layout, last, values[-1], None)
        raise ValueError(
            f"nested_laplace: the density is not finite at any of {_NUM_STARTS} values of "
            f"{', '.join(map(join_scopes, field.others))}: the data are impossible there, or "
            f"Newton's method finds no mode of {', '.join(field.names)}. At the last one, "
            f"{'; '.join(culprits)}.{_words_on_nan(target)} Look at ppl.log_probs(model), or use "
            "mcmc."
        )
    starts = starts[np.isfinite(values)]
    chosen: list[np.ndarray] = []
    for start in starts[np.argsort(-values[np.isfinite(values)])]:
        if all(np.linalg.norm(start - x) > _RADIUS for x in chosen):
            chosen.append(start)
    return chosen[:_NUM_CLIMBS]


def _words_on_nan(target: Unconstrained) -> str:
    """Words on arguments of the model that hold NaN."""
    args, kwargs = target.arguments.join(target.data)
    found = ""
    for name, given in (("args", args), ("kwargs", kwargs)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(given):
            if np.issubdtype(jnp.result_type(leaf), np.inexact) and (
                num := int(jnp.sum(jnp.isnan(leaf)))
            ):
                place = f"{name}{jax.tree_util.keystr(path)}"
                found += f" {place} of the model is NaN at {num} of {np.size(leaf)} elements."
    return found


def _climb(
    log_density: Callable[..., np.ndarray], starts: Sequence[np.ndarray]
) -> tuple[Peak, int]:
    """The highest peak, and how many there are that count; 0 if no climb has converged."""
    peaks = sorted((find_peak(log_density, x) for x in starts), key=lambda x: -x.log_density)
    apart = peaks[:1]
    for peak in peaks[1:]:
        far = [np.linalg.norm(np.linalg.solve(x.factor, peak.loc - x.loc)) for x in apart]
        is_high = peak.log_density > peaks[0].log_density - _LEAST_MODE
        if peak.has_converged and is_high and min(far) > _FAR:
            apart.append(peak)
    return peaks[0], len(apart) if peaks[0].has_converged else 0


def _weigh(corrections: np.ndarray, points: SpreadPoints, dtype: np.dtype) -> dict[str, Any]:
    """Weights of a result: those of the exact posterior, where they can be trusted."""
    num_draws = corrections.size
    is_lost = np.isneginf(points.log_weights)
    exact = np.where(is_lost, -np.inf, points.log_weights + np.where(is_lost, 0, corrections))
    smoothed, pareto_k = psis_of(exact.astype(dtype), points.log_density)
    is_corrected = bool(pareto_k <= largest_pareto_k(num_draws))
    kept = smoothed if is_corrected else points.log_weights
    total = np.logaddexp.reduce(kept)
    weights = np.exp(kept - total)
    ess = 1 / np.sum(weights**2)
    return {
        "log_weights": (exact if is_corrected else points.log_weights)[None],
        "weights": weights[None],
        "log_evidence": total - np.log(num_draws),
        "log_evidence_standard_error": standard_error_of_mean(ess, num_draws),
        "ess": ess,
        "pareto_k": np.asarray(pareto_k),
        "points_ess": points.ess,
        "num_lost": int(np.sum(is_lost)),
        "is_corrected": is_corrected,
    }


def _without_lost(draws: dict[str, Any], weighed: dict[str, Any]) -> dict[str, Any]:
    """The draws, with the one of largest weight in place of those without one, which may be NaN."""
    weights = weighed["weights"][0]
    is_lost = np.isneginf(weighed["log_weights"][0])
    rows = np.where(is_lost, np.argmax(weights), np.arange(weights.size))
    return jax.tree.map(lambda x: x[rows], draws)


def _is_poor(weighed: dict[str, Any]) -> bool:
    """Whether weights of the exact posterior leave few of the points any weight."""
    return not weighed["is_corrected"] or weighed["ess"] < _WORTH * weighed["points_ess"]


def _is_noisy(at_points: FieldPoints, peak: Peak, num_draws: int) -> bool:
    """Whether corrections at one point differ so much that none of them tells the density.

    So they do where one part of the field couples thousands of elements: of a few dozen draws at
    the peak, the weights leave few.
    """
    points = np.repeat(peak.loc[None], _NUM_AT_PEAK, 0)
    corrections = at_points.draw(points, num_draws).log_weights
    total = np.logaddexp.reduce(corrections)
    ess = np.exp(2 * total - np.logaddexp.reduce(2 * corrections))
    return not ess >= _LEAST_AT_PEAK


def _spread_anew(
    at_points: FieldPoints, peak: Peak, shift: np.ndarray, num_draws: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draws and weights at points that are spread over the density with its correction.

    The corrections of many independent parts together may move the posterior far from the points of
    Laplace's approximation. By common random numbers at all points, the estimate of the correction
    is smooth (Gouriéroux and Monfort 1996), so that points can be spread over it. Their weights are
    by random numbers of their own.
    """

    def corrected(points: np.ndarray) -> np.ndarray:
        _, values, corrections = at_points.draw(points, num_draws, is_common=True)
        values = values + corrections
        return np.where(np.isnan(values), -np.inf, values)

    found = spread(corrected, find_peak(corrected, peak.loc, peak.factor), num_draws, shift)
    draws, values, corrections = at_points.draw(found.points, num_draws + 1)
    with np.errstate(invalid="ignore"):
        log_weights = values + (found.log_weights - found.log_density)
    log_weights = np.where(np.isneginf(found.log_weights), -np.inf, log_weights)
    alone = SpreadPoints(found.points, values, log_weights)
    return draws, _weigh(corrections, alone, Layout.of(at_points.target.position_shapes).dtype)


def _of_chains(weighed: dict[str, Any], chosen: ChainPoints) -> dict[str, Any]:
    """Facts of a result whose draws depend on each other, as those of chains do."""
    num_draws = weighed["weights"].size
    efficiency = min(1.0, chosen.ess / num_draws)
    of_weights = weighed["log_evidence_standard_error"] / np.sqrt(efficiency)
    error = np.hypot(chosen.se, of_weights)
    return {
        "ess": weighed["ess"] * efficiency,
        "points_ess": chosen.ess,
        "log_evidence_standard_error": error,
        "chains": chosen.chains,
    }
