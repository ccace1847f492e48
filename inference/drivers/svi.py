"""svi: stochastic variational inference on a model."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from inference.common.argument_checks import check_count, check_fraction
from inference.common.target import named_sites, target_labels
from inference.drivers.check_inputs import check_inputs
from inference.drivers.fit_checkpoints import open_fit
from inference.drivers.guide_draws import describe_draws
from inference.drivers.svi_problem import (
    FittedParameters,
    Started,
    check_init,
    make_problem,
    starting_point,
    values_of,
    with_batch,
)
from inference.guides.checks import check_guide
from inference.guides.guide import Guide
from inference.guides.normal import MeanField
from inference.models.guide_function import GuideFunction
from inference.models.minibatch import iterate_batches
from inference.results.boundary_warnings import describe_boundary, find_bounded_coordinates
from inference.results.svi_result import SVIResult
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from inference.variational.elbo import ELBO, Objective
from inference.variational.svi_loop import Callback, draw_from_guide, fit
from inference.variational.svi_step import GuideDraws, SVIProblem, SVIState

if TYPE_CHECKING:
    import optax


def svi(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    guide: Guide | Callable[..., Any] = MeanField(),
    optimizer: "optax.GradientTransformation | None" = None,
    num_steps: int = 10_000,
    num_particles: int = 1,
    batch: Callable[..., Any] | None = None,
    batches: Iterable[Any] | None = None,
    objective: Objective = ELBO(),
    tolerance: float | None = None,
    num_draws: int = 1000,
    init: Literal["uniform", "prior", "optimum"] | Mapping[str, Any] | Started = "uniform",
    state: SVIState | None = None,
    callback: Callback | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> SVIResult:
    """Stochastic variational inference: a guide fitted to the posterior of `model`.

    Each step follows a stochastic gradient of the objective, by default the ELBO. The parameters of
    the result are an average over the later steps, which has far less noise than the last step. All
    steps run in one compiled loop. If the ELBO or its gradient is not finite at a step, the run
    stops with a warning that names the sites, and returns the state before it. An interrupt
    (Ctrl-C) stops the run as well. Parameters of the model itself, made by `ppl.param` or
    `ppl.module`, are fitted together with the guide. The page `docs/inference.md` tells when to use
    which guide, objective and start, and how to fit in batches; :func:`svi_step` is one step, for a
    loop of your own.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        guide: Family of distributions to fit:

            - normal: :class:`MeanField`, :class:`FullRank`, :class:`LowRank`, or
              :class:`Structured` for hierarchical models;
            - flow: :class:`NeuralSpline`, :class:`InverseAutoregressive` or
              :class:`MaskedAutoregressive`;
            - point: :class:`PointMass`;
            - mix of these by site: :class:`BySite`;
            - function of a key and the arguments of the model, which draws each latent site with
              `ppl.sample` and makes parameters with `ppl.param`.

        optimizer: An optax optimizer; by default ``optax.adam(1e-2)``.
        num_steps: Maximum number of steps. With a `state` it may be 0, for a result of that state.
        num_particles: Draws of the guide in each step.
        batch: Function of a key and the arguments of the model, which draws the positional
            arguments of one step, such as some rows of the data. By default, each step sees all
            data.
        batches: The arguments of each step, instead of `batch`: a data loader or another iterable.
            A tuple or a list holds the positional arguments of the model; anything else is the only
            argument. All steps have the keywords of the call. The next batch goes to the device
            while a step is computed. A loader or a list starts again at its end; the run ends with
            an iterator. The result is computed from `args`, which are all data or a part held out.
            Without `args` it is computed from the first batch.
        objective: Objective to maximize: :class:`ELBO`, :class:`ImportanceWeighted`,
            :class:`Renyi`, :class:`ForwardKL`, or :class:`ScoreFunction` for discrete draws.
        tolerance: Relative change of the ELBO below which to stop, such as 1e-3; by default, take
            all steps. As in ADVI, the mean ELBO of each block of 100 steps is compared with the
            block before, and the run stops once the mean or the median of the last ten relative
            changes is below `tolerance`.
        num_draws: Draws of the fitted guide.
        init: Starting point of the guide:

            - ``"uniform"``: uniform on (-2, 2) in unconstrained space, each coordinate;
            - ``"prior"``: a draw from the prior;
            - ``"optimum"``: uniform, then a short climb by L-BFGS;
            - a dict of values by site, the others being uniform;
            - a result of :func:`laplace`, :func:`pathfinder`, :func:`svi`, :func:`mcmc`,
              :func:`svgd`, :func:`importance` or :func:`optimize` for the same model. The guide
              starts at the mean of the result (at the mode, for :func:`optimize`). If scales and
              correlations of the result are known, and if the guide has such parameters, they
              replace its `init_scale`.

            A guide that is a function starts at the values that it gives `ppl.param`; a result is
            an error.
        state: State of a former result to go on from, in place of `init`: two runs of 1000 steps,
            the second from the state of the first, are one run of 2000. The noise of the steps then
            follows from `state`, not from `key`; the draws of the result follow from `key`.
        callback: Function of three arguments, called after every 100th step of the state and at the
            end: the number of steps of the state, the mean ELBO of the steps since the call before,
            and the state, an argument for ``state=``. If it returns True, the run ends.
        cache_dir: A directory to keep compiled programs in, for the next process.
        progress: Whether to show a bar; by default in a terminal and in a notebook. In a log file
            it is a line every ten seconds. Or a function that gets a :class:`ProgressReport`.
        checkpoint: A folder for the state of the fit. The same call goes on after a kill, an
            interrupt or an error, from a state that is at most about 15 seconds old, and ends with
            the bits of an undisturbed fit; with a larger `num_steps` it goes on further. `batches`
            must be able to start again with the same batches, as the batches of the steps so far
            are skipped. A `callback` is not called again for these steps.
        **kwargs: More arguments of the model.

    Returns:
        The fitted guide, draws of it, and how far to trust them.

    Raises:
        TypeError: if an argument has the wrong type.
        OSError: if `checkpoint` cannot be written.
        ValueError: if `checkpoint` has another run, is damaged or in use, or has more steps, if a
            value is out of range, if `init` is a result of another model, or if no starting point
            has a finite ELBO and gradient. The message names the sites that are not finite there.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> posterior = ppl.condition(model, {"y": 5.0})
        >>> result = svi(jax.random.key(0), posterior)
        >>> result.draws["mu"].shape
        (1, 1000)
        >>> bool(abs(result.parameters.loc[0] - 1.8) < 0.1)  # exactly 5 * 9 / (9 + 16)
        True

        Batches of 100 rows of 10,000; `ppl.scale` makes their log density an unbiased estimate:

        >>> import jax.numpy as jnp
        >>> def regression(key, x, num_rows):
        ...     w = ppl.sample(key, dist.Normal(0.0, 3.0), name="w")
        ...     likelihood = lambda key: ppl.sample(key, dist.Normal(w * x, 1.0), name="y")
        ...     return ppl.scale(likelihood, num_rows / len(x))(key)
        >>> def posterior(key, x, y, num_rows):
        ...     return ppl.condition(regression, {"y": y})(key, x, num_rows)
        >>> def batch(key, x, y, num_rows):
        ...     rows = jax.random.randint(key, (100,), 0, num_rows)
        ...     return x[rows], y[rows], num_rows
        >>> x = jnp.linspace(-1.0, 1.0, 10_000)
        >>> result = svi(jax.random.key(0), posterior, x, 2 * x, 10_000, batch=batch)
        >>> bool(abs(result.parameters.loc[0] - 2.0) < 0.02)
        True

    References:
        Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), Automatic differentiation variational
        inference, JMLR 18; Hoffman, Blei, Wang and Paisley (2013), Stochastic variational
        inference, JMLR 14, on batches; Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it
        work?: evaluating variational inference; Shamir and Zhang (2013), Stochastic gradient
        descent for non-smooth optimization, on averages.
    """
    # Check the settings.
    if batches is None:
        check_inputs(svi, key, model, args, kwargs)
    num_steps = check_count("num_steps", num_steps, least=1 if state is None else 0)
    num_particles = check_count("num_particles", num_particles, least=1)
    num_draws = check_count("num_draws", num_draws, least=1)
    check_guide(guide)
    if tolerance is not None:
        tolerance = check_fraction("tolerance", tolerance, ", or be None")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of (step, elbo, state), got {callback!r}")
    # Take the first given batch: it is the first step, and stands for missing `args`.
    feed = None
    first = None
    batching = "" if batch is None else "all"
    if batches is not None:
        _check_batches(batches, batch, checkpoint)
        batching = "all" if args else "first"
        feed = iterate_batches(batches)
        first = next(feed)
        feed = itertools.chain([first], feed)
        args = args or first
        check_inputs(svi, key, model, args, kwargs)
        kwargs = put_on_common_devices(kwargs)  # once for all steps
    # Make the problem, and find a starting point.
    is_function = not hasattr(guide, "sample")
    init = check_init(init, is_function=is_function)
    problem = make_problem(
        key,
        model,
        args,
        kwargs,
        guide,
        optimizer,
        num_particles,
        objective,
        batch,
        feed is not None,
    )
    start = starting_point(init, problem)
    with (
        ExitStack() as stack,
        settings(cache_dir),
        show_progress(progress, num_steps) as report,
    ):
        # Open the checkpoint: steps whose state is in the folder are not taken again.
        begun = recorder = None
        if checkpoint is not None:
            given = {
                "key": key,
                "guide": guide,
                "objective": objective,
                "init": init,
                "state": state,
                "num_steps": num_steps,
                "num_particles": num_particles,
                "tolerance": tolerance,
                "has_batches": feed is not None,
                "first batch": first and with_batch(problem, first, kwargs).batches,
            }
            recorder, begun = open_fit(checkpoint, problem, model, given)
            stack.callback(recorder.close)
            feed = feed and itertools.islice(feed, len(begun.elbos) if begun else 0, None)
        # Fit the guide. The call stands here, as warnings of `fit` name the line that calls `svi`.
        fitted = fit(
            key,
            problem,
            num_steps=num_steps,
            tolerance=tolerance,
            init=start,
            state=state,
            on_progress=lambda num_done, value: report(
                num_done, text=f"{objective.name} {value:.4g}"
            ),
            callback=callback,
            feed=None if feed is None else (with_batch(problem, x, kwargs) for x in feed),
            begun=begun,
            recorder=recorder,
        )
        # Draw from the fitted guide, and weigh the draws by the model.
        carried = fitted.state.carried
        problem = problem.with_state(carried)
        sampled = draw_from_guide(key, problem, fitted.state.average, num_draws)
        parts = values_of(problem, fitted.state.average)
    # Describe the fit.
    family: Any = problem.guide if is_function else guide
    target = problem.target
    average = jax.device_get(fitted.state.average)
    return SVIResult(
        **describe_draws(sampled, target, family),
        elbos=fitted.elbos,
        guide=family,
        parameters=parts.of_guide,
        state=jax.device_get(fitted.state),
        failure=fitted.failure,
        objective=objective,
        sites=named_sites(target),
        doubts=tuple(_describe_boundary(problem, average, parts, sampled)),
        model_parameters=parts.by_name,
        centering=jax.tree.map(lambda x: x[None], parts.centering),
        batching=batching,
        guide_parameters=parts.of_guide_by_name,
        model_state=None if carried is None else jax.device_get(carried.model),
        guide_state=None if carried is None else jax.device_get(carried.guide),
    )


def _check_batches(batches: Iterable[Any], batch: Any, checkpoint: Any) -> None:
    """Checks given batches against other arguments.

    Raises:
        TypeError: if there is a `batch`, or a `checkpoint` and batches that cannot start again.
    """
    if batch is not None:
        raise TypeError("batch and batches exclude each other: give one of them")
    if checkpoint is not None and isinstance(batches, Iterator):
        raise TypeError(
            "checkpoint needs batches that can start again, to skip those of the steps so far: "
            f"give a list, a loader or another iterable, not the iterator {batches!r}"
        )


def _describe_boundary(
    problem: SVIProblem, parameters: Any, parts: FittedParameters, sampled: GuideDraws
) -> Iterator[str]:
    """Warnings for sites, or parameters, at the edge of their support."""
    guide: Any = problem.guide
    # Parameters of the model.
    if parts.by_name is not None:
        of_model = parameters.model.by_name

        def inside():
            return find_bounded_coordinates(parts.by_name, of_model)

        yield from describe_boundary("parameter", of_model, inside)
    # Parameters of a guide that is a function; draws of other guides.
    parameters = parts.of_guide
    if isinstance(guide, GuideFunction):

        def inside():
            return find_bounded_coordinates(parts.of_guide_by_name, parameters)

        yield from describe_boundary("parameter", parameters, inside)
        return
    unravel = problem.layout.unravel
    labels = target_labels(problem.target)
    first = jax.tree.map(lambda x: x[0], sampled.draws)

    def inside():
        return find_bounded_coordinates(first, unravel(sampled.position[0]), labels)

    mean = unravel(np.mean(sampled.position, 0))
    yield from describe_boundary("site", mean, inside, labels)
