"""calibrate: simulation-based calibration of a fit."""

import functools
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import jax
import numpy as np

from inference.calibration.ranks import MIN_ESS, rank
from inference.calibration.report import CalibrationReport
from inference.common.argument_checks import check_fraction
from inference.common.threefry import seed_of
from inference.drivers.calibration_checkpoints import describe_calibration
from inference.drivers.calibration_checks import check_fit, check_simulator
from inference.drivers.calibration_draws import choose_number
from inference.drivers.calibration_fits import (
    OneFit,
    fit_at_once,
    fit_in_pool,
    fit_one_by_one,
    pooled_fits,
)
from inference.drivers.calibration_models import Values, pick
from inference.drivers.calibration_simulator import Simulator
from inference.drivers.check_inputs import check_inputs
from inference.drivers.job_checkpoints import open_jobs
from inference.drivers.jobs import Jobs, TakesJobs
from inference.drivers.mcmc import mcmc
from inference.results.mcmc_results import MAX_RHAT
from inference.runtime.devices import check_unsplit
from inference.runtime.progress import Shown


def calibrate(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    observed: Sequence[str] | Mapping[str, Any],
    num_simulations: int | None = None,
    fit: Callable[..., Any] = mcmc,
    quantities: Mapping[str, Callable[[Values, Values], Any]] | None = None,
    result: Any = None,
    vectorized: bool = False,
    level: float = 0.01,
    executor: TakesJobs | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: Shown = None,
    **settings: Any,
) -> CalibrationReport:
    """Simulation-based calibration: whether a fit draws from the posterior of its model.

    For each simulation, latent values are drawn from the prior and data given them, the fit is
    made to these data, and the true values are ranked among its draws. If the fit is right, all
    ranks are uniform. The report tests this for each scalar of the latent sites, for the log
    likelihood of the data, which finds errors that the ranks of latent values miss, and for
    `quantities`.

    With `result`, latent values are drawn from the posterior of `result`, and data from its
    posterior predictive distribution. The fit is made to the observed and the new data together
    (posterior SBC). This tests the fit where the posterior is, not all over a wide prior. The draws
    of a chain are correlated. To keep ranks independent, the number of simulations is at most half
    the smallest bulk ESS of `result`.

    Ranks are computed among draws that are thinned to near independence. Fits that diverge or do
    not converge are counted in the report, and stay in the ranks.

    Args:
        key: Typed or legacy key; with the other arguments it determines the report.
        model: Function of a key and `args`, with no data conditioned on.
        *args: Arguments of the model.
        observed: Names of the sites that are data, scopes joined by dots; with `result` a dict of
            the observed data.
        num_simulations: Number of simulations, and of fits; by default 1000, or fewer if `result`
            has too few effective draws.
        fit: Function that draws from the posterior:

            - :func:`mcmc` of NUTS or HMC: all fits share one program and the cores, as under
              :func:`mcmc_each`; one by one for a kernel or settings that :func:`mcmc_each` does not
              take;
            - another driver of the library, such as :func:`svi`, :func:`laplace` or
              :func:`pathfinder`, called for one simulation after the other;
            - a function ``(key, posterior, *args, **settings) -> draws``. Draws are a result with
              `draws`, or a dict by site of ``(draw, *shape)`` or ``(chain, draw, *shape)``.
              `posterior` is the conditioned model. If the function has a parameter `data`, it gets
              the simulated data.

        quantities: Further quantities to rank, functions ``(values, data) -> number or array`` of
            the latent values and the data of one simulation, written with ``jax.numpy``.
        result: Result of a fit to the observed data, for posterior SBC.
        vectorized: Whether `fit` is made of JAX's operations, so that ``jax.vmap`` maps it over all
            simulations.
        level: Probability, at most, that the report on a right fit names any failure.
        executor: Where fits, or batches of chains of fits that share a program, are made: an object
            with the method `submit` of the standard library's ``Executor``; by default this
            process. See the page Long runs. Not with `vectorized`.
        checkpoint: Folder for the fits that are finished; the same call goes on after a kill. See
            the page Long runs. Not with `vectorized`.
        progress: Whether to show a bar; by default in a terminal and in a notebook.
        **settings: Keywords of `fit`, such as `num_warmup`.

    Returns:
        The report: prints as a table and words; ``report.plot()`` shows the ranks.

    Raises:
        OSError: if the folder of `checkpoint` cannot be written.
        RuntimeError: if a fit fails under `executor`; the error names its simulation.
        TypeError: if an argument has the wrong type or cannot be sent to processes, or `fit` cannot
            be called with its arguments.
        ValueError: if a value is out of range, an array is split over devices, `model` is
            conditioned or has a factor, `observed` names no site or leaves no latent site, draws of
            `fit` do not fit the sites, `result` has too few effective draws, or the folder of
            `checkpoint` has another call, is damaged or in use.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 1.0), name="y")
        >>> def exact(key, posterior, data):
        ...     noise = jax.random.normal(key, (100,))
        ...     return {"mu": data["y"] / 2 + noise / 2**0.5}
        >>> report = calibrate(
        ...     jax.random.key(0), model, observed=["y"], fit=exact, vectorized=True
        ... )
        >>> report.is_calibrated
        True

    References:
        Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
        algorithms with simulation-based calibration; Modrák et al. (2023), Simulation-based
        calibration checking for Bayesian computation: the choice of test quantities shapes
        sensitivity, Bayesian Analysis; Säilynoja, Bürkner and Vehtari (2022), Graphical test for
        discrete uniformity; Säilynoja, Schmitt, Bürkner and Vehtari (2025), Posterior SBC.
    """
    check_inputs(calibrate, key, model, args, {})
    check_unsplit("calibrate", (model, args, observed))
    level = check_fraction("level", level)
    check_fit(fit, args, settings)
    check_simulator(model, args)
    sent = {"fit": fit, "the settings of fit": settings, "observed": observed}
    jobs = Jobs.of("calibrate", executor, key, model, args, {}, **sent)
    for name, given in (("executor", executor), ("checkpoint", checkpoint)):
        if given is not None and vectorized:
            raise ValueError(
                f"calibrate: {name} is for fits that are made apart, and vectorized makes all fits "
                f"by one program of this process; give no {name}, or vectorized=False"
            )
    problem = Simulator.of(model, args, observed, result, quantities or {})
    num = choose_number(num_simulations, result, problem.latent)
    keys = jax.random.split(key, 3)
    values = problem.simulate(keys[0], num)
    data = pick(values, problem.names)
    # All fits: at once, in one pool, or one by one.
    one = OneFit.of(fit, problem, settings)
    pooled = pooled_fits(keys[1], fit, problem, data, settings)
    describe = functools.partial(describe_calibration, key, problem, values, fit, settings, pooled)
    with open_jobs(checkpoint, "calibrate", describe) as folder:
        if pooled is not None:
            fits = fit_in_pool(pooled, problem.latent, jobs, folder, progress)
        elif vectorized:
            fits = fit_at_once(one, keys[1], data, num)
        else:
            fits = fit_one_by_one(one, keys[1], data, num, jobs, folder, progress)
    # Ranks of the true values among the draws.
    truth = pick(values, problem.latent)
    names, truths = problem.measure(truth, data, 0)
    _, draws = problem.measure(fits.draws, data, 2)
    generator = np.random.default_rng(np.asarray(seed_of(keys[2])))
    ranks = rank(draws, truths, generator)
    is_few = fits.is_markov & (ranks.ess < MIN_ESS)
    is_bad = (ranks.rhat > MAX_RHAT) | is_few | np.isnan(draws).any((1, 2))
    diverged = fits.num_divergent
    return CalibrationReport(
        names, ranks.values, float(level), diverged, int(np.sum(is_bad.any(1)))
    )
