"""Checks of the model and the fit of a calibration, before anything is simulated."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import ppl
from inference.drivers.mcmc_each import mcmc_each
from inference.drivers.optimize import optimize
from inference.drivers.sampler import sampler
from ppl.common.missing_data import Missing, missing_entries
from ppl.core.model_pytree import name_of
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.survey import join_scopes
from ppl.transforms.density import LogDensity
from ppl.transforms.label import labels_of
from ppl.transforms.likelihood import Likelihood
from ppl.transforms.prior_weights import latent_sites
from ppl.transforms.trace import flatten_sites

_NO_FITS = {
    optimize: "optimize finds modes and makes no draws; use laplace",
    mcmc_each: "mcmc_each takes many data sets; use mcmc, whose chains of all simulations share "
    "one pool",
    sampler: "sampler makes a function; use mcmc, or a function that calls it, lambda key, "
    "posterior: sampler(posterior)(key)",
}


def check_fit(fit: Any, args: Sequence[Any], settings: Mapping[str, Any]) -> None:
    """Checks that `fit` can be called with a key, a model, its arguments and the settings.

    Raises:
        TypeError: if it cannot.
        ValueError: if it is a function of the library that fits no model to one data set.
    """
    if not callable(fit):
        raise TypeError(f"fit must be a function (key, posterior, *args), got {fit!r}")
    for other, words in _NO_FITS.items():
        if fit is other:
            raise ValueError(f"fit: {words}")
    given = {"data": None} if "data" in parameters_of(fit) else {}
    try:
        inspect.signature(fit).bind(None, None, *args, **given, **settings)
    except ValueError:  # a callable without a signature
        return
    except TypeError as error:
        name = f"{getattr(fit, '__name__', fit)}({', '.join(parameters_of(fit))})"
        more = "".join(f", argument {i + 1} of the model" for i in range(len(args)))
        named = "".join(f", {name}=" for name in (*given, *settings))
        raise TypeError(
            f"fit: {name} cannot be called as fit(key, posterior{more}{named}): {error}. A fit is "
            "a function (key, posterior, *args, **settings) of the arguments of the model and of "
            "the keywords that calibrate does not know; one called data gets the simulated data."
        ) from error


def parameters_of(fit: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the parameters of a fit; none if it has no signature."""
    try:
        return tuple(inspect.signature(fit).parameters)
    except ValueError:
        return ()


def check_simulator(model: Callable[..., Any], args: Sequence[Any]) -> None:
    """Checks that a run of the model is a draw of its joint distribution.

    Raises:
        ValueError: if a site is observed, in whole or in part, or the model has a factor or is
            scaled.
    """
    found: list[tuple[str, str]] = []

    def look(key: jax.Array) -> None:
        for path, site in flatten_sites(ppl.trace(model)(key, *args).sites):
            is_in_part = missing_entries(site.distribution) is not None
            found.append((join_scopes(path), "observed" if is_in_part else site.kind))

    jax.eval_shape(look, jax.random.key(0))
    for name, kind in found:
        if kind == "observed":
            raise ValueError(
                f"model: site {name!r} of {name_of(model)} is observed already, but calibrate "
                "simulates the data. Give it the model without ppl.condition, and the name, "
                f"observed=[{name!r}]; or, to simulate from a posterior, observed={{{name!r}: "
                "data} and result="
            )
        if kind == "factor":
            raise ValueError(
                f"model: {name_of(model)} has the factor {name!r}, a part of its density that "
                "simulations do not have: a right fit would fail. Write it as a ppl.sample of a "
                "distribution, or leave it out"
            )
    if Likelihood.of(model, tuple(args), {}, needs="nothing").is_scaled:
        raise ValueError(
            f"model: {name_of(model)} has log probabilities that ppl.scale multiplies, and "
            "simulations are draws of the model without the factors: a right fit would fail. Give "
            "calibrate the model without ppl.scale"
        )


def check_whole(data: Mapping[str, Any]) -> None:
    """Checks that observed data have no missing entries.

    Raises:
        ValueError: if some are NaN, or left to `ppl.ignore` or `ppl.impute`.
    """

    def is_missing(x):
        return isinstance(x, Missing)

    for path, x in jax.tree_util.tree_leaves_with_path(data, is_leaf=is_missing):
        is_float = not is_missing(x) and np.issubdtype(np.asarray(x).dtype, np.inexact)
        if is_missing(x) or (is_float and np.isnan(np.asarray(x)).any()):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            got = "ppl.ignore or ppl.impute" if is_missing(x) else "NaN"
            raise ValueError(
                f"observed: expected data of site {name!r} without missing entries, got {got}: "
                "with result, fits are made to these data and to as many new ones, which are "
                "simulated whole. Leave the missing entries out of the model and its data, or "
                f"calibrate from the prior: observed=[{name!r}] without result"
            )


def latent_labels(model: Any, args: Sequence[Any], data: Any) -> dict[str, tuple[Any, ...]]:
    """Latent sites of a model given data, which may be shapes, each with labels of its axes."""
    found: list[dict[str, tuple[Any, ...]]] = []

    def look(data: Any) -> tuple[()]:
        given = ppl.condition(model, data)
        run = ModelRun(given, trace_model(given, None, tuple(args), {}), LogDensity())
        labels = labels_of(run.sites)
        found.append({join_scopes(path): labels.get(path, ()) for path in latent_sites(run)})
        return ()

    jax.eval_shape(look, data)
    return found[-1]
