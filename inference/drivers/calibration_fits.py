"""Fits of a calibration: to the data of each simulation, in one pool or one by one."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import ppl
from inference.checkpoints.job_folder import JobFolder
from inference.common.leaf_names import named_leaves
from inference.common.serialization import restore_structure
from inference.drivers.calibration_checks import parameters_of
from inference.drivers.calibration_draws import number_to_resample
from inference.drivers.calibration_models import Values, pick
from inference.drivers.calibration_simulator import Simulator
from inference.drivers.job_checkpoints import run_jobs
from inference.drivers.jobs import Jobs
from inference.drivers.mcmc import mcmc
from inference.drivers.pooled_fits import PooledFits
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.runtime.progress import Shown, show_progress

_POOLED = ("kernel", "num_warmup", "num_draws", "num_chains", "target_acceptance_rate")


class Fits(NamedTuple):
    """Draws of all fits, ``(simulation, chain, draw, *shape)``, and diagnostics of the fits."""

    draws: Values
    num_divergent: int | None
    is_markov: bool


def pooled_fits(
    key: jax.Array,
    fit: Callable[..., Any],
    problem: Simulator,
    data: Values,
    settings: Mapping[str, Any],
) -> PooledFits | None:
    """Fits whose chains are one pool, by :func:`mcmc`; `None` if fits are made otherwise."""
    is_gradient_kernel = isinstance(settings.get("kernel", NUTS()), HamiltonianKernel)
    if not (fit is mcmc and is_gradient_kernel and set(settings) <= set(_POOLED)):
        return None
    axes = (0, *[None] * len(problem.args))
    args = data, *problem.args
    return PooledFits.of(key, problem.posterior(), args, {}, axes, **settings)


@dataclasses.dataclass(frozen=True)
class OneFit:
    """Fit to the data of one simulation, a function that other processes can have.

    Attributes:
        fit: Function that draws from the posterior.
        model: Model that simulates.
        posterior: Function of a key, data and `args` that is fitted, or `None` for the model
            conditioned on the data.
        args: Arguments of the model.
        settings: Keywords of `fit`.
        latent: Names of the latent sites.
        shapes: Their values, as shapes.
    """

    fit: Callable[..., Any]
    model: Any
    posterior: Any
    args: tuple[Any, ...]
    settings: dict[str, Any]
    latent: tuple[str, ...]
    shapes: Values

    @classmethod
    def of(
        cls, fit: Callable[..., Any], problem: Simulator, settings: Mapping[str, Any]
    ) -> "OneFit":
        """Fit for the simulations of a calibration."""
        if "progress" in parameters_of(fit):
            settings = {"progress": False, **settings}  # one bar is that of all fits
        combined = None if problem.data is None else problem.posterior()
        given = problem.args, dict(settings), problem.latent, problem.shapes
        return cls(fit, problem.model, combined, *given)

    def result(self, key: jax.Array, data: Values) -> Any:
        """Result of the fit, as it returns it."""
        given = {"data": data} if "data" in parameters_of(self.fit) else {}
        model = ppl.condition(self.model, data)
        if self.posterior is not None:
            model = functools.partial(_given, self.posterior, data)
        return self.fit(key, model, *self.args, **given, **self.settings)

    def draws_of(self, result: Any, num_axes: int) -> Values:
        """Draws of the latent sites with an axis over chains, behind `num_axes` axes."""
        return _with_chains(result, self.latent, self.shapes, num_axes)

    def __call__(self, key: jax.Array, data: Values) -> dict[str, Any]:
        """Draws ``(chain, draw, *shape)``, whether any diverged, and their number if resampled."""
        made = self.result(key, data)
        stats = getattr(made, "stats", None)
        is_divergent = None
        if isinstance(stats, Mapping) and "is_divergent" in stats:
            is_divergent = bool(np.any(stats["is_divergent"]))
        number = None
        if hasattr(made, "resample"):
            number = number_to_resample(made.ess)
            made = made.resample(key, number)
        return {"draws": self.draws_of(made, 0), "is_divergent": is_divergent, "number": number}


def fit_at_once(one: OneFit, key: jax.Array, data: Values, num: int) -> Fits:
    """Fits to all simulations by `vmap`."""
    draws = jax.jit(jax.vmap(one.result))(jax.random.split(key, num), data)
    return Fits(one.draws_of(draws, 1), None, False)


def fit_in_pool(
    fits: PooledFits, latent: tuple[str, ...], jobs: Jobs, folder: JobFolder | None, progress: Shown
) -> Fits:
    """Fits to all simulations, with all chains in one pool."""
    made = fits.make(jobs, folder, progress, what="simulation")
    is_divergent = made.stats.get("is_divergent")
    number = None if is_divergent is None else int(is_divergent.any((1, 2)).sum())
    return Fits(pick(made.draws, latent), number, True)


def fit_one_by_one(
    one: OneFit,
    key: jax.Array,
    data: Values,
    num: int,
    jobs: Jobs,
    folder: JobFolder | None,
    progress: Shown,
) -> Fits:
    """Fits to one simulation after the other, or by an executor."""
    keys = jax.random.split(key, num)
    names = [f"the fit to simulation {i}" for i in range(num)]
    is_ours = getattr(one.fit, "__module__", "").startswith("inference.")
    found = []

    def given(i: int) -> tuple[Any, ...]:
        return keys[i], jax.tree.map(lambda x: x[i], data)

    with show_progress(progress, num, "fit") as report:
        for made in run_jobs(jobs, folder, one, names, given, one_at_a_time=is_ours):
            found.append(made | {"draws": restore_structure(made["draws"], one.shapes)})
            report(len(found))
    flags = [x["is_divergent"] for x in found if x["is_divergent"] is not None]
    num_divergent = sum(flags) if flags else None
    # As many draws of each fit as the fit with the fewest effective ones has.
    number = min((x["number"] for x in found if x["number"] is not None), default=None)
    try:
        each = [x["draws"] for x in found]
        draws = jax.tree.map(lambda *x: np.stack([y[:, :number] for y in x]), *each)
    except ValueError as error:
        raise ValueError(
            f"fit: numbers of draws differ between simulations ({error}); return equally many"
        ) from error
    return Fits(draws, num_divergent, one.fit is mcmc or num_divergent is not None)


def _given(posterior: Any, data: Values, key: jax.Array, *args: Any) -> Any:
    return posterior(key, data, *args)


def _with_chains(draws: Any, latent: tuple[str, ...], shapes: Values, num_axes: int) -> Values:
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
        some = pick(draws, latent)
    except KeyError as error:
        raise ValueError(
            f"fit: there are no draws of the latent site {error}; the model has the latent sites "
            f"{list(latent)}, and draws are of {list(draws)}"
        ) from error
    given = dict(named_leaves(some))
    known = dict(named_leaves(shapes))
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

    return jax.tree.map(spread, some, shapes)
