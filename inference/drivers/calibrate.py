"""calibrate: simulation-based calibration of a fit."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import ppl
from inference.calibration.ranks import MIN_ESS, rank
from inference.calibration.report import CalibrationReport
from inference.common.argument_checks import check_fraction
from inference.common.leaf_names import element_names, named_leaves
from inference.common.threefry import seed_of
from inference.drivers.calibration_checks import (
    check_fit,
    check_simulator,
    check_whole,
    latent_labels,
    parameters_of,
)
from inference.drivers.calibration_draws import choose_number, fewest_effective, flat_draws
from inference.drivers.calibration_models import (
    Combined,
    Conditioned,
    Values,
    log_likelihood,
    merge,
    pick,
)
from inference.drivers.check_inputs import check_inputs
from inference.drivers.jobs import Jobs, TakesJobs
from inference.drivers.mcmc import mcmc
from inference.drivers.mcmc_each import mcmc_each
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.results.mcmc_results import MAX_RHAT
from inference.runtime.progress import Shown, show_progress
from ppl.core.model_pytree import as_pytree

_POOLED = ("kernel", "num_warmup", "num_draws", "num_chains", "target_acceptance_rate")
_LIKELIHOOD = "log likelihood"


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
        executor: Where fits that are made one by one are made: an object with the method `submit`
            of the standard library's ``Executor``; by default this process. See the page Long runs.
            Not for fits that share a program, by :func:`mcmc` or `vectorized`.
        progress: Whether to show a bar; by default in a terminal and in a notebook.
        **settings: Keywords of `fit`, such as `num_warmup`.

    Returns:
        The report: prints as a table and words; ``report.plot()`` shows the ranks.

    Raises:
        RuntimeError: if a fit fails under `executor`; the error names its simulation.
        TypeError: if an argument has the wrong type or cannot be sent to processes, or `fit` cannot
            be called with its arguments.
        ValueError: if a value is out of range, `model` is conditioned or has a factor, `observed`
            names no site or leaves no latent site, draws of `fit` do not fit the sites, or `result`
            has too few effective draws.

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
    level = check_fraction("level", level)
    check_fit(fit, args, settings)
    check_simulator(model, args)
    sent = {"fit": fit, "the settings of fit": settings, "observed": observed}
    jobs = Jobs.of("calibrate", executor, key, model, args, {}, **sent)
    if executor is not None and (vectorized or _is_pooled(fit, settings)):
        raise ValueError(
            "calibrate: executor is for fits that are made one by one, and "
            + ("vectorized makes all fits" if vectorized else "all fits by mcmc are made")
            + " by one program of this process; give no executor"
            + (", or vectorized=False" if vectorized else ", or a function that calls mcmc")
        )
    problem = _Simulator.of(model, args, observed, result, quantities or {})
    num = choose_number(num_simulations, result, problem.latent)
    keys = jax.random.split(key, 3)
    values = problem.simulate(keys[0], num)
    data = pick(values, problem.names)
    fits = _fit_all(keys[1], fit, problem, data, num, settings, vectorized, jobs, progress)
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


class _Fits(NamedTuple):
    """Draws of all fits, ``(simulation, chain, draw, *shape)``, and diagnostics of the fits."""

    draws: Values
    num_divergent: int | None
    is_markov: bool


class _Simulator(NamedTuple):
    """Simulator of a calibration.

    Attributes:
        model: Model that simulates.
        args: Its arguments.
        names: Names of the observed sites.
        latent: Names of the latent sites.
        labels: Labels of the axes of each latent site, by name.
        data: Observed data, for posterior SBC, or `None`.
        draws: Draws of the result, flat, or `None`.
        quantities: Further quantities.
        shapes: Values of the latent sites, as shapes.
    """

    model: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]
    latent: tuple[str, ...]
    labels: Mapping[str, tuple[Any, ...]]
    data: Values | None
    draws: Values | None
    quantities: Mapping[str, Callable[..., Any]]
    shapes: Values

    @classmethod
    def of(
        cls, model: Any, args: Any, observed: Any, result: Any, quantities: Mapping[str, Any]
    ) -> "_Simulator":
        """Simulator from the arguments of :func:`calibrate`, checked."""
        has_data = isinstance(observed, Mapping)
        if has_data != (result is not None):
            needs = "result needs the data" if result is not None else "data are for posterior SBC"
            raise ValueError(
                f"observed: {needs}; give names of sites, observed=['y'], to simulate from the "
                "prior, or observed={'y': y} and result= to simulate from the posterior"
            )
        if isinstance(observed, str):
            observed = (observed,)
        data = dict(observed) if has_data else None
        check_whole(data or {})
        names = tuple(name for name, _ in named_leaves(data)) if has_data else tuple(observed)
        sites = jax.eval_shape(lambda key: ppl.simulate(model)(key, *args), jax.random.key(0))
        known = [name for name, _ in named_leaves(sites)]
        if not names or (unknown := [name for name in names if name not in known]):
            what = f"the model has no site {unknown[0]!r}" if names else "no site is named"
            raise ValueError(f"observed: {what}; there are {known}")
        labels = latent_labels(model, args, pick(sites, names))
        latent = tuple(labels)
        shapes = pick(sites, latent)
        for name, function in quantities.items():
            if not callable(function):
                raise TypeError(
                    f"quantities: {name!r} must be a function of values and data, got {function!r}"
                )
        draws = None if result is None else flat_draws(result, latent)
        return cls(model, args, names, latent, labels, data, draws, quantities, shapes)

    def posterior(self) -> Any:
        """Function of a key, data and `args`: the model to fit."""
        model = as_pytree(self.model)
        if self.data is None:
            return Conditioned(model)
        return Combined(model, jax.tree.map(jax.numpy.asarray, self.data))

    def simulate(self, key: jax.Array, num: int) -> Values:
        """Values of all sites, ``(simulation, *shape)``."""
        if self.draws is None:

            def one(key):
                return ppl.simulate(self.model)(key, *self.args)

            return jax.jit(jax.vmap(one))(jax.random.split(key, num))
        total = len(jax.tree.leaves(self.draws)[0])
        which = np.arange(num) * total // num
        draws = jax.tree.map(lambda x: x[which], self.draws)
        predict = dataclasses.replace(ppl.predict(self.model, draws), needs_names=False)
        return merge(draws, predict(key, *self.args))

    def measure(self, values: Values, data: Values, num_axes: int) -> tuple[Any, np.ndarray]:
        """Names and values of all quantities, ``(simulation, ..., quantity)``.

        Args:
            values: Values of latent sites, with `num_axes` axes after the axis of simulations.
            data: Data of each simulation.
            num_axes: Number of axes of draws.
        """
        names: list[str] = []
        parts: list[np.ndarray] = []

        def add(tree: Any) -> None:
            for name, x in named_leaves(tree):
                x = np.asarray(x)
                labels = self.labels.get(name, ())
                names.extend(element_names(name, x.shape[1 + num_axes :], labels))
                parts.append(x.reshape(*x.shape[: 1 + num_axes], -1))

        add(values)
        functions = {
            _LIKELIHOOD: lambda values, data: log_likelihood(self.model, values, data, self.args),
            **self.quantities,
        }
        for name, function in functions.items():
            over = function
            for _ in range(num_axes):
                over = jax.vmap(over, in_axes=(0, None))
            each = jax.jit(lambda v, d, f=over: jax.lax.map(lambda x: f(*x), (v, d)))
            add({name: each(values, data)})
        dtype = np.result_type(*parts)
        dtype = dtype if np.issubdtype(dtype, np.floating) else np.float64
        return tuple(names), np.concatenate(parts, -1).astype(dtype)


def _is_pooled(fit: Callable[..., Any], settings: Mapping[str, Any]) -> bool:
    """Whether chains of all simulations are in one pool."""
    is_gradient_kernel = isinstance(settings.get("kernel", NUTS()), HamiltonianKernel)
    return fit is mcmc and is_gradient_kernel and set(settings) <= set(_POOLED)


@dataclasses.dataclass(frozen=True)
class _OneFit:
    """Fit to the data of one simulation, a function that other processes can have.

    Attributes:
        fit: Function that draws from the posterior.
        model: Model that simulates.
        posterior: Function of a key, data and `args` that is fitted, or `None` for the model
            conditioned on the data.
        args: Arguments of the model.
        settings: Keywords of `fit`.
        takes_data: Whether `fit` has a parameter `data`.
    """

    fit: Callable[..., Any]
    model: Any
    posterior: Any
    args: tuple[Any, ...]
    settings: dict[str, Any]
    takes_data: bool

    def __call__(self, key: jax.Array, data: Values) -> Any:
        """Result of the fit, as it returns it."""
        given = {"data": data} if self.takes_data else {}
        model = ppl.condition(self.model, data)
        if self.posterior is not None:
            model = functools.partial(_given, self.posterior, data)
        return self.fit(key, model, *self.args, **given, **self.settings)


def _fit_all(
    key: jax.Array,
    fit: Callable[..., Any],
    problem: _Simulator,
    data: Values,
    num: int,
    settings: dict[str, Any],
    vectorized: bool,
    jobs: Jobs,
    progress: Shown,
) -> _Fits:
    posterior = problem.posterior()
    args = problem.args
    # By default, chains of all simulations in one pool.
    if _is_pooled(fit, settings):
        axes = (0, *[None] * len(args))
        fits = mcmc_each(key, posterior, data, *args, in_axes=axes, progress=progress, **settings)
        is_divergent = fits.stats.get("is_divergent")
        number = None if is_divergent is None else int(is_divergent.any((1, 2)).sum())
        return _Fits(pick(fits.draws, problem.latent), number, True)
    # Else `fit` for each simulation.
    keys = jax.random.split(key, num)
    parameters = parameters_of(fit)
    if "progress" in parameters:
        settings = {"progress": False, **settings}  # one bar is that of all fits
    combined = None if problem.data is None else posterior
    one = _OneFit(fit, problem.model, combined, args, settings, "data" in parameters)
    # All fits at once, by `vmap`.
    if vectorized:
        draws = jax.jit(jax.vmap(one))(keys, data)
        return _Fits(_with_chains(draws, problem, 1), None, False)
    # One fit after the other.
    found = []
    num_divergent = None
    number = None
    names = [f"the fit to simulation {i}" for i in range(num)]
    given = [(keys[i], jax.tree.map(lambda x, i=i: x[i], data)) for i in range(num)]
    is_ours = getattr(fit, "__module__", "").startswith("inference.")
    with show_progress(progress, num, "fit") as report:
        for i, made in enumerate(jobs.run(one, names, given, one_at_a_time=is_ours)):
            stats = getattr(made, "stats", None)
            if isinstance(stats, Mapping) and "is_divergent" in stats:
                num_divergent = (num_divergent or 0) + bool(np.any(stats["is_divergent"]))
            if hasattr(made, "resample"):
                number = fewest_effective(number, made.ess)
                made = made.resample(keys[i], number)
            found.append(_with_chains(made, problem, 0))
            report(i + 1)
    try:
        draws = jax.tree.map(lambda *x: np.stack([y[:, :number] for y in x]), *found)
    except ValueError as error:
        raise ValueError(
            f"fit: numbers of draws differ between simulations ({error}); return equally many"
        ) from error
    return _Fits(draws, num_divergent, fit is mcmc or num_divergent is not None)


def _given(posterior: Any, data: Values, key: jax.Array, *args: Any) -> Any:
    return posterior(key, data, *args)


def _with_chains(draws: Any, problem: _Simulator, num_axes: int) -> Values:
    """Draws of the latent sites with an axis over chains, behind `num_axes` axes.

    Raises:
        TypeError: if `draws` is not a dict.
        ValueError: if a latent site has no draws, or they do not have its shape.
    """
    draws = getattr(draws, "draws", draws)
    if not isinstance(draws, Mapping):
        raise TypeError(
            f"fit must return draws, a dict of arrays by site or a result with draws, got {draws!r}"
        )
    try:
        some = pick(draws, problem.latent)
    except KeyError as error:
        raise ValueError(
            f"fit: there are no draws of the latent site {error}; the model has the latent sites "
            f"{list(problem.latent)}, and draws are of {list(draws)}"
        ) from error
    given = dict(named_leaves(some))
    known = dict(named_leaves(problem.shapes))
    for name, x in given.items():
        shape = known[name].shape
        axes = np.ndim(x) - num_axes - len(known[name].shape)
        if axes not in (1, 2) or np.shape(x)[num_axes + axes :] != shape:
            raise ValueError(
                f"fit: draws of site {name!r} have the shape {np.shape(x)[num_axes:]}, expected "
                f"(draw, *{shape}) or (chain, draw, *{shape})"
            )

    def spread(x: Any, shape: Any) -> Any:
        has_chains = np.ndim(x) - num_axes - len(shape.shape) == 2
        return np.asarray(x) if has_chains else np.expand_dims(np.asarray(x), num_axes)

    return jax.tree.map(spread, some, problem.shapes)
