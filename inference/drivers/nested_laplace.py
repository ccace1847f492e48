"""nested_laplace: the posterior of a latent Gaussian model, without a Markov chain."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import ppl
from inference.common.argument_checks import check_count
from inference.common.layout import Layout
from inference.common.target import Target, named_sites
from inference.drivers.calibration_models import merge
from inference.drivers.check_inputs import check_inputs
from inference.drivers.importance import standard_error_of_mean
from inference.models.latent_field import LatentField, find_latent_field
from inference.optimization.quadratic_search import find_peak
from inference.optimization.spread_points import SpreadPoints, spread
from inference.results.nested_laplace_result import NestedLaplaceResult
from inference.results.psis import largest_pareto_k, psis_of
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import copy_to_default_device
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from ppl.harvest.survey import join_scopes
from ppl.transforms.unconstrain import Unconstrained

_MAX_SIZE = 12  # coordinates of hyperparameters
_NUM_STARTS = 64
_RADIUS = 2.0  # of the starts, on unconstrained space
_AT_ONCE = 32  # points of one compiled program


def nested_laplace(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    sites: Sequence[str] | None = None,
    num_draws: int = 1000,
    num_proposals: int = 32,
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

    whose integral is a weighted sum over points that are spread about its mode. At each point
    :math:`x` is drawn from the normal distribution :math:`q`. The draws get importance weights of
    the exact posterior where these are reliable (Pareto k at most 0.7). Where they are not, they
    have the weights of the points alone, and the result says so.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        sites: Names of the sites :math:`x`. By default, all that are jointly normal given the
            others, but no single number that enters the data by a function of its own.
        num_draws: Number of draws, each at a point of :math:`\theta` of its own.
        num_proposals: Number of draws of each independent part of :math:`x` from which one is
            chosen by importance weights.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        Draws of all sites with weights, the evidence, and how far to trust them.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, if no site is normal given the others, if others
            have more than 12 coordinates, or if the density is nowhere finite.

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
    num_draws = check_count("num_draws", num_draws, least=16)
    num_proposals = check_count("num_proposals", num_proposals, least=1)
    with settings(cache_dir), show_progress(progress, 4, "stage") as report:
        report(0, "finding the latent field")
        whole = ppl.unconstrain(model, *args, **kwargs)
        field = _field_of(whole, sites)
        strategy: Any = (
            ppl.Gaussian() if field.is_exact else ppl.Laplace(num_proposals=num_proposals)
        )
        inner = ppl.marginalize(model, {join_scopes(path): strategy for path in field.paths})
        target = _target_of_others(inner, args, kwargs, field)
        layout = Layout.of(target.position_shapes)
        log_density = _on_points(target, layout)
        report(1, "compiling and climbing")
        peak = find_peak(log_density, _start(key, log_density, layout, field))
        report(2, "points")
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        points = spread(log_density, peak, num_draws, rng.uniform(size=layout.size))
        report(3, "draws")
        draws, corrections = _draw_at(key, target, layout, points.points)
        report(4, "draws")
    return NestedLaplaceResult(
        draws=jax.tree.map(lambda x: x[None], draws),
        **_weigh(corrections, points, layout.dtype),
        integrated=tuple(map(join_scopes, field.paths)),
        has_mode=peak.has_converged,
        sites=named_sites(whole),
    )


def _field_of(target: Unconstrained, sites: Sequence[str] | None) -> LatentField:
    """The latent field of a model.

    Raises:
        ValueError: if it is empty.
    """
    field = find_latent_field(target, sites)
    if not field.paths:
        raise ValueError(
            "nested_laplace: no latent site is normal given the others, so there is nothing to "
            "integrate out. Use mcmc, or laplace for all sites at once."
        )
    return field


def _target_of_others(model: Any, args: Any, kwargs: Any, field: LatentField) -> Unconstrained:
    """The density of the sites outside of the field.

    Raises:
        ValueError: if there are none, or more than points can be spread over.
    """
    names = ", ".join(join_scopes(path) for path in field.paths)
    if not field.others:
        raise ValueError(
            f"nested_laplace: all latent sites ({names}) are normal a priori, and nothing is left "
            "to spread points over. Use laplace, which is the same approximation then."
        )
    target = jax.device_put(copy_to_default_device(ppl.unconstrain(model, *args, **kwargs)))
    layout = Layout.of(target.position_shapes)
    if layout.size > _MAX_SIZE:
        others = ", ".join(join_scopes(path) for path in field.others)
        raise ValueError(
            f"nested_laplace: beside the sites that are integrated out ({names}), the model has "
            f"{layout.size} coordinates ({others}), and points can be spread "
            f"over {_MAX_SIZE}. Name sites that are nearly normal given the others, sites=[...], "
            "or use mcmc."
        )
    return target


def _values(points: jax.Array, target: Target, layout: Layout) -> jax.Array:
    """The log density at each point, ``(point,)``."""
    return jax.vmap(lambda flat: target.log_density(layout.unravel(flat)))(points)


def _on_points(target: Target, layout: Layout) -> Callable[[np.ndarray], np.ndarray]:
    """The log density of points on the host, by one compiled program."""

    def log_density(points: np.ndarray) -> np.ndarray:
        full = -(-len(points) // _AT_ONCE) * _AT_ONCE
        padded = np.concatenate([points, np.repeat(points[-1:], full - len(points), axis=0)])
        chunks = np.split(padded.astype(layout.dtype), full // _AT_ONCE)
        program = compile_once(_values, chunks[0], target, layout)
        found = [jax.device_get(program(chunk, target, layout)) for chunk in chunks]
        return np.concatenate(found).astype(np.float64)[: len(points)]

    return log_density


def _start(
    key: jax.Array, log_density: Callable[..., np.ndarray], layout: Layout, field: LatentField
) -> np.ndarray:
    """The best of several points, uniform about 0 on unconstrained space.

    Raises:
        ValueError: if the density is finite at none.
    """
    shape = _NUM_STARTS, layout.size
    starts = np.asarray(jax.random.uniform(key, shape, float, -_RADIUS, _RADIUS))
    values = log_density(starts)
    if not np.any(np.isfinite(values)):
        names = ", ".join(join_scopes(path) for path in field.paths)
        raise ValueError(
            f"nested_laplace: the density is not finite at any of {_NUM_STARTS} values of "
            f"{', '.join(join_scopes(path) for path in field.others)}: the data are impossible "
            f"there, or Newton's method finds no mode of {names}. Look at ppl.log_probs(model), or "
            "use mcmc."
        )
    return starts[np.argmax(np.where(np.isfinite(values), values, -np.inf))].astype(np.float64)


def _draws(
    key: jax.Array, numbers: jax.Array, points: jax.Array, target: Unconstrained, layout: Layout
) -> tuple[Any, Any, jax.Array]:
    """Values of the other sites, a draw of the field, and its log weight, at each point.

    Args:
        key: Random key.
        numbers: Numbers of the draws, ``(point,)``.
        points: The points, ``(point, size)``.
        target: Density of the points.
        layout: Its layout.
    """
    args, kwargs = target.arguments.join(target.data)

    def at_point(number: jax.Array, flat: jax.Array) -> tuple[Any, Any, jax.Array]:
        values = target.constrain(layout.unravel(flat))
        recover = ppl.recover(target.model, values, log_weights=True)
        drawn, log_weight = recover(jax.random.fold_in(key, number), *args, **kwargs)
        return values, drawn, log_weight

    return jax.vmap(at_point)(numbers, points)


def _draw_at(
    key: jax.Array, target: Unconstrained, layout: Layout, points: np.ndarray
) -> tuple[dict[str, Any], np.ndarray]:
    """Draws of all sites, ``(point, *shape)``, and the log weights of those of the field."""
    found = []
    for first in range(0, len(points), _AT_ONCE):
        rows = np.minimum(np.arange(first, first + _AT_ONCE, dtype=np.uint32), len(points) - 1)
        arguments = key, rows, points[rows].astype(layout.dtype), target, layout
        found.append(jax.device_get(compile_once(_draws, *arguments)(*arguments)))
    joined = jax.tree.map(lambda *x: np.concatenate(x)[: len(points)], *found)
    values, drawn, log_weights = joined
    return merge(values, drawn), log_weights.astype(np.float64)


def _weigh(corrections: np.ndarray, points: SpreadPoints, dtype: np.dtype) -> dict[str, Any]:
    """Weights of a result: those of the exact posterior, where they can be trusted."""
    num_draws = corrections.size
    exact = points.log_weights + corrections
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
        "is_corrected": is_corrected,
    }
