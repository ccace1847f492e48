"""optimize: the mode of a model by L-BFGS."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax

import ppl
from inference.common.layout import Layout
from inference.common.target import Target, named_sites
from inference.drivers.check_inputs import check_inputs
from inference.drivers.noncentering import find_noncentering
from inference.optimization.mode_search import ClimbSettings, Density, climb_from_starts
from inference.results.optimize_result import OptimizeResult
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress

_OBJECTIVES = ("posterior", "likelihood")


def optimize(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    objective: Literal["posterior", "likelihood"] = "posterior",
    include_jacobian: bool = False,
    init: Literal["uniform", "prior", "optimum"] | Mapping[str, Any] = "uniform",
    num_starts: int = 4,
    max_steps: int = 2000,
    tolerance: float | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> OptimizeResult:
    r"""The mode of the posterior of `model`, or of its likelihood, by L-BFGS from several starts.

    The climb takes place on unconstrained space, but maximizes the density of the sites' values. So
    the mode does not depend on the maps from unconstrained space. All starts climb in one compiled
    program, which serves all data of the same shapes. A climb ends when half of the squared Newton
    decrement, :math:`\tfrac12 g^\top H^{-1} g`, is within the tolerance. Here :math:`g` is the
    gradient and :math:`H` the curvature as L-BFGS estimates it. The decrement estimates how much
    higher the mode is, and does not depend on the scales of the coordinates.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        objective: Density to maximize:

            - ``"posterior"``: the density of all sites and factors;
            - ``"likelihood"``: the density of only observed sites and factors. Its maximum does
              not depend on the priors of sites without parents.

        include_jacobian: Whether to maximize the density on unconstrained space instead, which
            includes the determinant of the map. Its mode depends on the map. But a mode exists even
            if a scale has a prior that is finite at 0.
        init: Starting points:

            - ``"uniform"``: uniform on (-2, 2) in unconstrained space, each coordinate;
            - ``"prior"``: draws from the prior;
            - ``"optimum"``: uniform, then a short climb;
            - a dict of values by site, the others being uniform.

        num_starts: Number of climbs; the highest end is returned.
        max_steps: Maximum number of iterations of a climb.
        tolerance: Bound on half of the squared Newton decrement at which a climb ends, relative
            to the log density (or to 1, if that is less); by default ``eps**0.9``, which is 8e-15
            in float64 and 6e-7 in float32.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show the stages; by default in a terminal and in a notebook. Or a
            function that gets a :class:`ProgressReport`.
        **kwargs: More arguments of the model.

    Returns:
        The mode, and whether to trust it.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a value is out of range, or if no start has a finite log density and
            gradient. The message names the sites that are not finite there.
        NotImplementedError: if the objective is the likelihood, and a site is observed in part.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     rate = ppl.sample(key, dist.Gamma(3.0, 2.0), name="rate")
        ...     return ppl.sample(key, dist.Poisson(rate), name="y")
        >>> posterior = ppl.condition(model, {"y": 4})
        >>> mode = optimize(jax.random.key(0), posterior)
        >>> mode.values["rate"].round(3)  # exactly (3 + 4 - 1) / (2 + 1)
        np.float32(2.0)
        >>> likely = optimize(jax.random.key(0), posterior, objective="likelihood")
        >>> likely.values["rate"].round(2)
        np.float32(4.0)

    References:
        Nocedal and Wright (2006), Numerical Optimization, chapters 3 and 7; Boyd and Vandenberghe
        (2004), Convex Optimization, section 9.5.1.
    """
    check_inputs(optimize, key, model, args, kwargs)
    density = _density(objective, include_jacobian)
    climb = ClimbSettings.of(init, num_starts, max_steps, tolerance)
    target = put_on_common_devices(ppl.unconstrain(model, *args, **kwargs))
    if objective == "likelihood" and target.missing:
        names = ", ".join(repr(".".join(map(str, path))) for path in target.missing)
        raise NotImplementedError(
            f"the likelihood of a site that is observed in part ({names}) stands in its prior; "
            "use objective='posterior', with ppl.ignore for what is missing or Flat priors"
        )
    with settings(cache_dir), show_progress(progress, 1, "stage") as report:
        report(0, "compiling and climbing")
        mode = mode_of(key, jax.device_put(target), density, climb)
        report(1, "mode found" if mode.has_converged else "no mode found")
        return mode


def mode_of(
    key: jax.Array, target: Target, density: Density, climb: ClimbSettings
) -> OptimizeResult:
    """Result with the highest mode found by climbs from several starts."""
    layout = Layout.of(target.position_shapes)
    summit = climb_from_starts(key, target, layout, density, climb)

    def find():
        return find_noncentering(target)

    sites = named_sites(target)
    return OptimizeResult.of(summit, layout, density, climb.max_steps, find, sites)


def _density(objective: Any, include_jacobian: Any) -> Density:
    if not isinstance(objective, str) or objective not in _OBJECTIVES:
        names = " or ".join(map(repr, _OBJECTIVES))
        raise ValueError(f"objective must be {names}, got {objective!r}")
    if not isinstance(include_jacobian, bool):
        raise TypeError(f"include_jacobian must be True or False, got {include_jacobian!r}")
    if include_jacobian and objective == "likelihood":
        raise ValueError(
            "include_jacobian needs objective='posterior': a likelihood is no density of the "
            "values, and its maximum is the same in all coordinates"
        )
    return Density(objective, include_jacobian)
