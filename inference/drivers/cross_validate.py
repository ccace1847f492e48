"""cross_validate: K-fold, leave-group-out and leave-future-out cross-validation of a model."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.checkpoints.job_folder import JobFolder
from inference.common.argument_checks import check_count, short_repr
from inference.common.pointwise import log_likelihoods
from inference.common.threefry import seed_of
from inference.comparison.units import Units
from inference.drivers.check_inputs import check_inputs
from inference.drivers.folds import (
    Refit,
    Refits,
    check_draws,
    check_exchangeable,
    check_times,
    check_whole,
    observe,
)
from inference.drivers.job_checkpoints import open_jobs
from inference.drivers.jobs import Jobs, TakesJobs
from inference.drivers.mcmc import mcmc
from inference.drivers.refit_checkpoints import describe_refits
from inference.results.elpd import ElpdEstimate, make_estimate
from inference.results.psis_loo import describe_draws, log_sum_exp
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown

_WHOLE = "all-data"  # folder of the fit to all data, in that of the call


class Fold(NamedTuple):
    """Units left out of one fit, units predicted by it, and whether they are predicted jointly."""

    held_out: np.ndarray
    scored: np.ndarray
    name: str
    is_joint: bool


def cross_validate(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    folds: int | str | Any = 10,
    start: int | None = None,
    horizon: int = 1,
    joint: bool = False,
    site: str | Sequence[str] | None = None,
    unit: str = "element",
    num_warmup: int = 500,
    num_draws: int = 500,
    num_chains: int = 4,
    executor: TakesJobs | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> ElpdEstimate:
    r"""Cross-validation by fits without some observations, by NUTS.

    The model is fitted to all data first. Each further fit begins with draws, step size and mass
    matrix of this first fit, and all fits run one compiled program. The term of an observation
    :math:`y_i` in fold :math:`f` is :math:`\log\frac{1}{S}\sum_s p(y_i \mid z_s)` over draws of the
    fit without the observations of :math:`f`. A factor or weights of ``ppl.scale`` change how much
    an observation counts in a fit, but not its term.

    Args:
        key: Typed or legacy key; with the other arguments it determines the result.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on.
        *args: Arguments of the model: data.
        folds: Observations that are left out together:

            - a number: so many random folds, whose sizes differ by one at most;
            - an array of integers, the number of the fold of each observation, so that groups of
              data are left out. It has the shape of the site's log probabilities or, with
              ``unit="row"``, an entry for each row, even if its data are missing;
            - ``"future"``: for a time series on axis 0, all rows from t on, for each t from `start`
              on. The next `horizon` rows are predicted jointly, and later rows are not used. A row
              is a time step, even if its data are missing; there is no term if the data of all
              predicted rows are missing.

        start: Rows that the first fit sees, with ``folds="future"``.
        horizon: Rows that are predicted, with ``folds="future"``.
        joint: Whether a fold is one term, :math:`\log p(y_f \mid y_{-f})`, not one for each
            observation in it.
        site: Name of the observed site, or names, whose observations are left out; by default all.
        unit: The kind of one observation, ``"element"``, ``"row"`` or ``"group"``; see :func:`loo`.
            Always rows with ``folds="future"``.
        num_warmup: Iterations of warm-up of each fit; the first fit has 1000 at least.
        num_draws: Draws of each chain of a fit.
        num_chains: Chains of each fit.
        executor: Where the fits without folds are made: an object with the method `submit`
            of the standard library's ``Executor``; by default this process, one fit after the
            other. See the page Long runs.
        checkpoint: Path of a folder for the fits that are finished. After a kill or an interrupt
            the same call goes on, and ends with the same bits. See the page Long runs.
        progress: Whether to show a bar of these fits; by default in a terminal and in a notebook.
        **kwargs: More arguments of the model.

    Returns:
        The estimate, with its terms and problems in words. The terms of ``folds="future"`` overlap
        if `horizon` is above 1, so that their standard error is too small.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
        OSError: if the folder `checkpoint` cannot be written.
        RuntimeError: if a fit fails under `executor`; the error names its fold.
        TypeError: if an argument has the wrong type, or cannot be sent to processes.
        ValueError: if a value is out of range, `folds` does not fit the observations, or a
            marginalized model has no log probabilities of single observations, or if `checkpoint`
            has another call, is damaged or in use. The error comes before the first fit.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu * jnp.ones(20), 1.0), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.linspace(-2.0, 2.0, 20)})
        >>> estimate = inference.cross_validate(jax.random.key(0), posterior, folds=5)
        >>> bool(-37 < estimate.elpd < -30)
        True

    References:
        Vehtari, Gelman and Gabry (2017), Statistics and Computing 27, section 2.3; Bürkner, Gabry
        and Vehtari (2020), Approximate leave-future-out cross-validation for Bayesian time series
        models, Journal of Statistical Computation and Simulation 90.
    """
    # Check the arguments.
    check_inputs(cross_validate, key, model, args, kwargs)
    numbers = {
        "num_warmup": check_count("num_warmup", num_warmup, least=0),
        "num_draws": check_count("num_draws", num_draws, least=4),
        "num_chains": check_count("num_chains", num_chains, least=1),
    }
    jobs = Jobs.of("cross_validate", executor, key, model, args, kwargs)
    _check_folds(folds)
    is_future = isinstance(folds, str)
    if not is_future and (start is not None or horizon != 1):
        raise ValueError('start and horizon are for folds="future"')
    with settings(None):
        # The units and their folds.
        unit = "row" if is_future else unit
        observed = observe(model, args, kwargs, site, unit, is_future=is_future)
        units = observed.units
        if is_future:
            check_times(observed.likelihood, site)
        else:
            check_exchangeable("cross_validate", observed)
        parts = _future(units, start, horizon) if is_future else _parts(key, folds, units, joint)
    fits = [Refit(i, fold.held_out, fold.scored, fold.is_joint) for i, fold in enumerate(parts)]
    given = {"site": site, "unit": unit, "joint": parts[0].is_joint} | numbers

    def describe() -> dict[str, Any]:
        return describe_refits(key, model, args, kwargs, fits, given)

    with open_jobs(checkpoint, "cross_validate", describe) as folder:
        # A fit to all data gives the starts and the mass matrix of the fits without folds.
        whole = mcmc(
            key,
            model,
            *args,
            num_warmup=max(1000, num_warmup),
            num_draws=num_draws,
            num_chains=num_chains,
            progress=False,
            checkpoint=None if checkpoint is None else Path(fspath(checkpoint)) / _WHOLE,
            **kwargs,
        )
        check_whole(whole.draws, num_draws)
        with settings(None):
            # Fit without each fold in turn, and score the fold.
            check_draws(observed.likelihood, whole.draws)
            refits = Refits(key, observed, whole, model, args, kwargs, **numbers)
            terms, problems = _run(refits, parts, fits, jobs, folder, progress)
    with settings(None):
        names = _names(units, parts)
        p = np.nan
        if not (is_future or joint):
            found = units.gather(log_likelihoods(observed.likelihood, whole.draws))
            flat = found.reshape(-1, len(units)).astype(np.float64)
            p = float(np.sum(log_sum_exp(flat, 0) - np.log(len(flat))) - np.sum(terms))
    # The estimate in words and numbers.
    what = f"leave-future-out, horizon {horizon}" if is_future else f"{len(parts)} folds"
    about = f"{what}, {len(terms)} terms: fits of {describe_draws(whole.draws)}."
    digests = observed.digests
    if parts[0].is_joint:
        digests = np.array([zlib.crc32(digests[fold.scored].tobytes()) for fold in parts])
    return make_estimate(terms, names, about, p=p, problems=problems, digests=digests)


def _run(
    refits: Refits,
    parts: Sequence[Fold],
    fits: Sequence[Refit],
    jobs: Jobs,
    folder: JobFolder | None,
    progress: Shown,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Terms in the order of the units, or of the folds where they are joint; and problems."""
    names = [f"the fit without {fold.name}" for fold in parts]
    of_fold, problems = refits.terms(jobs, folder, names, fits, progress)
    if parts[0].is_joint:
        return np.concatenate(of_fold), problems
    terms = np.empty(len(refits.units))
    for fold, found in zip(parts, of_fold, strict=True):
        terms[fold.scored] = found
    return terms, problems


def _names(units: Units, parts: Sequence[Fold]) -> tuple[str, ...]:
    return tuple(fold.name for fold in parts) if parts[0].is_joint else units.names


def _future(units: Units, start: int | None, horizon: Any) -> list[Fold]:
    """Folds by time: a row is a time step, whether its data are missing or not."""
    size = units.num_rows
    rows = units.rows
    if start is None:
        raise ValueError('folds="future" needs start=, the number of rows that the first fit sees')
    horizon = check_count("horizon", horizon, least=1)
    start = check_count("start", start, least=1)
    if start + horizon > size:
        raise ValueError(
            f"start + horizon must be at most the number of rows, {size}, got {start} + {horizon}"
        )
    found = []
    for t in range(start, size - horizon + 1):
        scored = np.flatnonzero((t <= rows) & (rows < t + horizon))
        if scored.size:
            name = f"from {units.row_names[t]}"
            found.append(Fold(np.flatnonzero(rows >= t), scored, name, is_joint=True))
    if not found:
        raise ValueError(f"start: all data from row {start} on are missing, so none is predicted")
    return found


def _parts(key: jax.Array, folds: Any, units: Units, joint: bool) -> list[Fold]:
    size = len(units)
    if np.ndim(folds) == 0:
        number = check_count("folds", folds, least=2)
        if number > size:
            raise ValueError(f"folds must be at most the number of observations, {size}: {number}")
        rng = np.random.default_rng([*np.asarray(seed_of(key)), 2])
        of_unit = rng.permutation(np.arange(size) % number)
    else:
        of_unit = _given(np.asarray(folds), units)
    found = []
    for label in np.unique(of_unit):
        members = np.flatnonzero(of_unit == label)
        found.append(Fold(members, members, f"fold {label}", joint))
    if len(found) < 2:
        raise ValueError("folds must have two different numbers at least")
    return found


def _check_folds(folds: Any) -> None:
    """Checks that folds are whole numbers, or are by time.

    Raises:
        TypeError: if they are no numbers, or not whole ones.
        ValueError: if they are another word than "future".
    """
    if isinstance(folds, str) and folds == "future":
        return
    array = np.array(None)
    with suppress(ValueError):  # rows of several lengths
        array = np.asarray(folds)
    if array.dtype.kind in "iu":
        return
    advice = "."
    if array.ndim and array.size and isinstance(array.flat[0], str):
        advice = ": groups by name have numbers by numpy.unique(names, return_inverse=True)[1]."
    kind = ValueError if isinstance(folds, str) else TypeError
    raise kind(
        "cross_validate: folds must be the number of folds, as 10, or an array of integers, the "
        f'number of the fold of each observation, or "future", got {short_repr(folds)}{advice}'
    )


def _given(folds: np.ndarray, units: Units) -> np.ndarray:
    if units.kind == "row":
        if folds.shape != (units.num_rows,):
            raise ValueError(
                f"folds must have one number for each of the {units.num_rows} rows, also of those "
                f"that are missing, as the shape ({units.num_rows},), got the shape {folds.shape}"
            )
        return folds[units.rows]
    shapes: Mapping[str, Any] = {n: x.shape for n, x in units.numbers.items() if (x >= 0).any()}
    name, shape = next(iter(shapes.items()))
    if len(shapes) == 1 and folds.shape == shape:
        return folds[units.numbers[name] >= 0]
    if folds.shape == (len(units),):
        return folds
    of_site = f"the shape {shape} of the log probabilities of {name}, or " * (len(shapes) == 1)
    raise ValueError(
        f"folds must have {of_site}one number for each of the {len(units)} observations, got the "
        f"shape {folds.shape}"
    )
