"""laplace: Laplace's approximation of the posterior of a model."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import numpy as np

import ppl
from inference.common.argument_checks import check_count
from inference.common.layout import Layout
from inference.common.target import Target, labels_by_name, named_sites
from inference.drivers.check_inputs import check_inputs
from inference.drivers.guide_draws import describe_draws, draw_guide
from inference.drivers.optimize import mode_of
from inference.optimization.hessian_normal import HessianNormal, NotAPeakError, normal_at
from inference.optimization.lanczos_normal import LanczosNormal, low_rank_normal_at
from inference.optimization.mode_search import ClimbSettings, Density
from inference.results.laplace_result import LaplaceResult
from inference.results.optimize_result import OptimizeResult, coordinate_names
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress

_MAX_DENSE_SIZE = 2000  # coordinates with a dense covariance
_RANK = 50  # directions where there are more coordinates


def laplace(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_draws: int = 1000,
    init: Literal["uniform", "prior", "optimum"] | Mapping[str, Any] = "uniform",
    num_starts: int = 4,
    max_steps: int = 2000,
    tolerance: float | None = None,
    rank: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> LaplaceResult:
    r"""Laplace's approximation of the posterior of `model`, and of its evidence.

    The approximation is a normal distribution on unconstrained space. Its mean is the mode
    :math:`\hat z` of the density there, its covariance the inverse of the negative Hessian
    :math:`\Lambda`. The evidence is

    .. math:: \log p(y) \approx \log p(\hat z, y) + \tfrac d2 \log 2\pi - \tfrac12 \log|\Lambda|.

    Approximation and evidence are exact if the posterior is normal, and good if data are many. The
    result can be the guide of :func:`importance`, which estimates the evidence without this
    approximation.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        num_draws: Draws of the normal distribution.
        init: Starting points of the climbs to the mode; see :func:`optimize`.
        num_starts: Number of climbs.
        max_steps: Maximum number of iterations of a climb.
        tolerance: Tolerance at which a climb ends; see :func:`optimize`.
        rank: Number of directions in which the covariance differs from a diagonal, at least 2.
            They have the least and the most curvature, scaled by the diagonal of the Hessian. By
            default, the covariance is dense for up to 2000 coordinates, and of rank 50 for more.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        The normal distribution as a guide, draws of it, and how far to trust them.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, if no start has a finite log density, or if the
            Hessian is not negative definite. The message then names the sites along which the
            density is flat or rises.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> result = laplace(jax.random.key(0), ppl.condition(model, {"y": 5.0}))
        >>> result.parameters.loc.round(3)  # exactly 5 * 9 / (9 + 16)
        array([1.8], dtype=float32)
        >>> round(result.log_evidence, 3)  # exactly log Normal(5 | 0, 5)
        -3.028

    References:
        Tierney and Kadane (1986), Accurate approximations for posterior moments and marginal
        densities, JASA 81; MacKay (2003), Information Theory, Inference, and Learning Algorithms,
        chapter 27.
    """
    check_inputs(laplace, key, model, args, kwargs)
    num_draws = check_count("num_draws", num_draws, least=1)
    climb = ClimbSettings.of(init, num_starts, max_steps, tolerance)
    if rank is not None:
        rank = check_count("rank", rank, least=2)
    target = jax.device_put(put_on_common_devices(ppl.unconstrain(model, *args, **kwargs)))
    layout = Layout.of(target.position_shapes)
    if rank is None and layout.size > _MAX_DENSE_SIZE:
        rank = _RANK
    with settings(cache_dir), show_progress(progress, 3, "stage") as report:
        report(0, "compiling and climbing")
        mode = mode_of(key, target, Density(include_jacobian=True), climb)
        report(1, "curvature")
        normal = _normal(mode, target, layout, rank)
        report(2, "draws")
        result = _result(key, mode, normal, target, layout, num_draws)
        report(3, "draws")
        return result


def _normal(
    mode: OptimizeResult, target: Target, layout: Layout, rank: int | None
) -> HessianNormal | LanczosNormal:
    position = np.asarray(layout.ravel(mode.position))
    try:
        if rank is not None and rank < layout.size:
            return low_rank_normal_at(position, target, layout, rank)
        return normal_at(position, target, layout)
    except NotAPeakError as error:
        names = coordinate_names(layout, labels_by_name(mode.sites))
        shown = ", ".join(names[i] for i in error.index[:4])
        more = f" and {len(error.index) - 4} more" if len(error.index) > 4 else ""
        doubts = "".join(f" Before that, {problem}" for problem in mode.problems)
        raise ValueError(
            f"laplace found no peak: where the climb ended, the log density on unconstrained space "
            f"{error.how} along {shown}{more}. Give these sites narrower priors, drop parameters "
            "that the data cannot tell apart, start elsewhere, or use svi or mcmc, which need no "
            f"mode.{doubts}"
        ) from None


def _result(
    key: jax.Array,
    mode: OptimizeResult,
    normal: HessianNormal | LanczosNormal,
    target: Target,
    layout: Layout,
    num_draws: int,
) -> LaplaceResult:
    guide = normal.guide
    parameters = normal.parameters(layout.dtype)
    drawn = draw_guide(key, target, guide, layout, parameters, num_draws)
    return LaplaceResult(
        **describe_draws(drawn, target, guide),
        sites=named_sites(target),
        guide=guide,
        parameters=jax.device_get(parameters),
        log_evidence=normal.log_integral,
        mode=mode,
    )
