"""Simulator of a calibration: latent values and data from the model, and quantities of them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import ppl
from inference.common.leaf_names import element_names, named_leaves
from inference.drivers.calibration_checks import check_whole, latent_labels
from inference.drivers.calibration_draws import flat_draws
from inference.drivers.calibration_models import (
    Combined,
    Conditioned,
    Values,
    log_likelihood,
    merge,
    pick,
)
from ppl.core.model_pytree import as_pytree

_LIKELIHOOD = "log likelihood"


class Simulator(NamedTuple):
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
    ) -> "Simulator":
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
