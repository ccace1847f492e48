"""Pictures of results, each by one function of ArviZ."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.results.inference_data import INSTALL, import_arviz, is_new

Names = str | Sequence[str] | None


class Plots:
    """Pictures of a result, each drawn by one function of ArviZ.

    `names` are names of sites, scopes joined by dots; by default there are all. `coords` and `dims`
    name dimensions, as for `to_arviz`. Further options go to ArviZ. What it returns is returned:
    axes of matplotlib, or with ArviZ 1.0 and newer a `PlotCollection`.

    Draws with importance weights are resampled by them first.
    """

    to_arviz: Callable[..., Any]
    _statistics: Callable[..., Mapping[str, Any]]

    def plot_trace(
        self, names: Names = None, *, coords: Any = None, dims: Any = None, **options: Any
    ) -> Any:
        """Trace plot: draws of each chain in their order, with divergences marked."""
        return _plot("trace", "plot_trace", self._data(coords, dims), names, options)

    def plot_pairs(
        self, names: Names = None, *, coords: Any = None, dims: Any = None, **options: Any
    ) -> Any:
        """Pair plot: scatter of every two scalars, with divergences marked."""
        data = self._data(coords, dims)
        has = bool(np.any(self._statistics().get("diverging", False)))
        marks = {"visuals": {"divergence": has}} if is_new(_arviz()) else {"divergences": has}
        return _plot("pairs", "plot_pair", data, names, {**marks, **options})

    def plot_ranks(
        self, names: Names = None, *, coords: Any = None, dims: Any = None, **options: Any
    ) -> Any:
        """Rank plot: ranks of the draws of each chain among all, even where chains have mixed."""
        return _plot("ranks", "plot_rank", self._data(coords, dims), names, options)

    def plot_forest(
        self, names: Names = None, *, coords: Any = None, dims: Any = None, **options: Any
    ) -> Any:
        """Forest plot: intervals of every scalar, of all chains together."""
        options = {"combined": True, **options}
        return _plot("forest", "plot_forest", self._data(coords, dims), names, options)

    def plot_energy(self, **options: Any) -> Any:
        """Energy plot: marginal energies and energy transitions, as of heavy tails.

        Raises:
            ValueError: if the kernel has no energy.
        """
        if "energy" not in self._statistics():
            raise ValueError(
                "plot_energy: these draws have no energy, which HMC and NUTS have; plot_trace and "
                "plot_ranks show draws of any kind"
            )
        return _plot("energy", "plot_energy", self._data(None, None), None, options)

    def plot_predictive(
        self,
        model: Callable[..., Any],
        *args: Any,
        key: jax.Array,
        names: Names = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Posterior predictive check: the distribution of data drawn anew, beside that of the data.

        Args:
            model: The model that was sampled, with its data.
            *args: Its arguments.
            key: Random key.
            names: Names of observed sites; by default all.
            options: Further options of ArviZ's function.
            **kwargs: Keyword arguments of the model.
        """
        data = self._data(None, None, model, *args, key=key, **kwargs)
        name = "plot_ppc_dist" if is_new(_arviz()) else "plot_ppc"
        group = "posterior_predictive"
        few = {} if is_new(_arviz()) else {"num_pp_samples": 50, "random_seed": 0}
        return _plot("predictive", name, data, names, {**few, **(options or {})}, group)

    def plot_loo_pit(
        self,
        model: Callable[..., Any],
        *args: Any,
        key: jax.Array,
        names: Names = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """LOO-PIT plot: the place of each observation in its predictive distribution without it.

        The places are uniform if the model fits. They are computed from the log likelihood by
        Pareto-smoothed importance sampling.

        Args:
            model: The model that was sampled, with its data.
            *args: Its arguments.
            key: Random key.
            names: Name of an observed site; by default the only one.
            options: Further options of ArviZ's function.
            **kwargs: Keyword arguments of the model.
        """
        data = self._data(None, None, model, *args, key=key, **kwargs)
        group = "posterior_predictive"
        chosen = _check_names("plot_loo_pit", data, names, group) or list(data[group].data_vars)
        if len(chosen) != 1:
            raise ValueError(
                f"plot_loo_pit shows one observed site; choose it by names=, among {chosen}"
            )
        given = {"var_names": chosen} if is_new(_arviz()) else {"y": chosen[0]}
        return _plot("loo_pit", "plot_loo_pit", data, None, {**given, **(options or {})})

    def _data(self, coords: Any, dims: Any, *model: Any, **given: Any) -> Any:
        """ArviZ's container, of draws of equal weights."""
        equal = self._equally_weighted()
        return equal.to_arviz(*model, coords=coords, dims=dims, **given)

    def _equally_weighted(self) -> "Plots":
        """A result whose draws have equal weights."""
        return self


def _arviz() -> Any:
    return import_arviz("a picture of a result")


def _plot(
    what: str, function: str, data: Any, names: Names, options: dict, group: str = "posterior"
) -> Any:
    """Picture by a function of ArviZ.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if a name is that of no site.
    """
    if "backend" not in options and importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"plot_{what} needs matplotlib: {INSTALL}")
    chosen = _check_names(f"plot_{what}", data, names, group)
    given = {} if chosen is None else {"var_names": chosen}
    return getattr(_arviz(), function)(data, **given, **options)


def _check_names(where: str, data: Any, names: Names, group: str) -> list[str] | None:
    """Names of sites as a list, checked to be in a group."""
    if group not in data:
        raise ValueError(
            f"{where}: the model has no data. Give it as it was sampled, conditioned on its data."
        )
    if names is None:
        return None
    chosen = [names] if isinstance(names, str) else list(names)
    known = list(data[group].data_vars)
    found = [x for name in chosen for x in known if x == name or x.startswith(f"{name}.")]
    for name in chosen:
        if not any(x == name or x.startswith(f"{name}.") for x in known):
            raise ValueError(
                f"{where}: names: no site is called {name!r}; there are {', '.join(known)}"
            )
    return found
