"""pathfinder: parallel quasi-Newton variational inference (Pathfinder) on a model."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import numpy as np

import ppl
from inference.common.argument_checks import check_count
from inference.common.layout import Layout
from inference.common.target import Target, named_sites
from inference.drivers.check_inputs import check_inputs
from inference.drivers.guide_draws import describe_paths, draw_guide
from inference.drivers.nan_search import find_nan_near
from inference.guides.low_rank_normal import (
    GuideMixture,
    GuideMixtureParameters,
    LowRankNormalGuide,
)
from inference.initialization.initial_positions import parse_init
from inference.initialization.start_search import StartingPoints, find_starts
from inference.optimization.mode_search import tolerance_of
from inference.optimization.pathfinder_paths import Effort, PathfinderEnds, follow_paths
from inference.results.pathfinder_result import (
    PathfinderResult,
)
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress


def pathfinder(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_paths: int = 4,
    num_draws: int = 1000,
    max_steps: int = 1000,
    history: int = 20,
    num_elbo_draws: int = 10,
    init: Literal["uniform", "prior", "optimum"] | Mapping[str, Any] = "uniform",
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> PathfinderResult:
    r"""Draws approximately from the posterior of `model` by Pathfinder: fast variational inference.

    1. Each path climbs the density on unconstrained space by L-BFGS.
    2. Every iterate has a normal distribution. Its covariance is the inverse Hessian estimated from
       the last steps, a diagonal plus a low rank. The path keeps the distribution with the highest
       ELBO.
    3. Draws of several paths are resampled by importance, with the mixture of the paths'
       distributions as their density. So the share of a mode in the draws is its share of the mass,
       however many paths led to it.

    All paths run in one compiled program of a few hundred gradients. Use the draws for a first
    look, or to start :func:`mcmc` by ``mcmc(..., init=result)``.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        num_paths: Number of paths. Draws of a single path are not resampled.
        num_draws: Number of draws for each path, and after resampling.
        max_steps: Maximum number of iterations of a path.
        history: Number of steps from which an inverse Hessian is estimated. The inverse Hessian
            differs from a diagonal in twice as many directions.
        num_elbo_draws: Number of draws for the ELBO of an iterate.
        init: Starting points of the paths; see :func:`optimize`. A dict of values may have an axis
            over paths in front.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        The draws, the normal distributions as a guide, and how far to trust them.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, if no path has a normal distribution with a finite
            ELBO, or if no start has a finite log density and gradient. The message then names the
            sites that are not finite there.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> result = pathfinder(jax.random.key(0), ppl.condition(model, {"y": 5.0}))
        >>> result.draws["mu"].shape
        (1, 1000)
        >>> bool(abs(result.summary()["mu"].mean - 1.8) < 0.2)  # exactly 5 * 9 / (9 + 16)
        True

    References:
        Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder: parallel quasi-Newton variational
        inference, JMLR 23, algorithms 1 to 5; Veach and Guibas (1995), Optimally combining sampling
        techniques for Monte Carlo rendering, on the mixture as the draws' density.
    """
    check_inputs(pathfinder, key, model, args, kwargs)
    num_paths = check_count("num_paths", num_paths, least=1)
    num_draws = check_count("num_draws", num_draws, least=1)
    max_steps = check_count("max_steps", max_steps, least=1)
    history = check_count("history", history, least=1)
    effort = Effort(history, check_count("num_elbo_draws", num_elbo_draws, least=1))
    target = jax.device_put(put_on_common_devices(ppl.unconstrain(model, *args, **kwargs)))
    layout = Layout.of(target.position_shapes)
    with settings(cache_dir), show_progress(progress, 2, "stage") as report:
        report(0, "compiling and following paths")
        ends = _ends(key, target, layout, effort, init, num_paths, max_steps)
        report(1, "draws")
        result = _result(key, ends, target, layout, effort, num_draws, max_steps)
        report(2, "draws")
        return result


def _ends(
    key: jax.Array,
    target: Target,
    layout: Layout,
    effort: Effort,
    init: Any,
    num_paths: int,
    max_steps: int,
) -> PathfinderEnds:
    limits = np.int32(max_steps), tolerance_of(None, layout)

    def follow(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
        arguments = positions, seeds, target, layout, effort, *limits
        ends = jax.device_get(compile_once(follow_paths, *arguments)(*arguments))
        return StartingPoints(positions, ends.ascent.log_density, ends.ascent.gradient, ends)

    starts = parse_init(init, target, num_paths, "start")
    numbers = np.arange(num_paths)
    ends = find_starts(
        follow, key, numbers, starts, target, layout, noun="path", needs_all=False
    ).result
    if not np.any(np.isfinite(ends.best.elbo)):
        raise ValueError(_failure(ends, target))
    return ends


def _failure(ends: PathfinderEnds, target: Target) -> str:
    nan = None
    if np.all(ends.ascent.gradient == 0):
        why = "the gradient is 0 where they start, so that they have nowhere to go"
    else:
        why = "the density has no finite mean under any of the normal distributions that they met"
        nan = find_nan_near(target, np.asarray(ends.ascent.position))
    return (
        f"pathfinder found nothing on {ends.best.elbo.size} path(s) of at most "
        f"{int(np.max(ends.ascent.step))} steps: {why}."
        f"{'' if nan is None else f' It is NaN near their ends: {nan}.'} Start elsewhere, by init, "
        "or use svi or mcmc."
    )


def _result(
    key: jax.Array,
    ends: PathfinderEnds,
    target: Target,
    layout: Layout,
    effort: Effort,
    num_draws: int,
    max_steps: int,
) -> PathfinderResult:
    guide, parameters = _guide(ends, effort, layout)
    num_paths = ends.best.elbo.size
    pool = draw_guide(key, target, guide, layout, parameters, num_paths * num_draws)
    return PathfinderResult(
        **describe_paths(key, pool, target, guide, num_draws),
        sites=named_sites(target),
        guide=guide,
        parameters=parameters,
        elbos=ends.best.elbo,
        best_steps=ends.best.step,
        num_steps=ends.ascent.step,
        has_ended=ends.ascent.has_converged,
        max_steps=np.int32(max_steps),
    )


def _guide(ends: PathfinderEnds, effort: Effort, layout: Layout) -> tuple[Any, Any]:
    """Guide of all paths, and its parameters.

    One path gives a normal distribution; several give a mixture with equal shares. A path without a
    distribution has no share.
    """
    elbos = ends.best.elbo
    parameters = ends.best.parameters
    family = LowRankNormalGuide(effort.rank(layout.size))
    if elbos.size == 1:
        return family, jax.tree.map(lambda x: x[0], parameters)
    is_found = np.isfinite(elbos)
    with np.errstate(divide="ignore"):
        log_share = np.log(is_found / np.sum(is_found)).astype(elbos.dtype)
    return GuideMixture(family, elbos.size), GuideMixtureParameters(log_share, parameters)
