"""Pictures of results, each by one function of ArviZ."""

import importlib.util
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np

from inference.results.inference_data import INSTALL, import_arviz, is_new

_LINE = 0.25  # inches of a line of a forest plot
_MAX_HEIGHT = 300  # inches of a figure, which matplotlib can draw
_OF_DATA = "observed_data", "log_likelihood"
_ENTRY = re.compile(r"(.+?)\[(.+)\]")  # as in "theta[2]", "u[0,1]" and "attack[England]"
Names = str | Sequence[str] | None


class Plots:
    """Pictures of a result, each drawn by one function of ArviZ.

    `names` are names of sites, scopes joined by dots, or of entries of sites, such as
    ``"theta[2]"``; by default all sites are shown. `coords` and `dims` name dimensions, as for
    `to_arviz`. Further options go to ArviZ's function. Each method returns the value of that
    function: axes of matplotlib, or with ArviZ 1.0 and newer a `PlotCollection`.

    Draws with importance weights are first resampled by their weights.
    """

    _container: Callable[..., Any]
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
        """Forest plot: intervals of every scalar, of all chains together, a line each."""
        data = self._data(coords, dims)
        chosen = _check_names("plot_forest", data, names, "posterior")
        arrays = data["posterior"].data_vars
        num_draws = math.prod(data["posterior"].sizes[x] for x in ("chain", "draw"))
        num_lines = sum(arrays[name].size for name in chosen or arrays) // num_draws
        size = {} if "backend" in options else _forest_size(num_lines)
        options = {"combined": True, **size, **options}
        return _plot("forest", "plot_forest", data, chosen, options)

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
        key: jax.Array | None = None,
        names: Names = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Posterior predictive check: the distributions of predicted data and of the observed data.

        Args:
            model: The model that was sampled, with its data.
            *args: Its arguments.
            key: Random key.
            names: Names of observed sites; by default all.
            options: Further options of ArviZ's function.
            **kwargs: Keyword arguments of the model.
        """
        where = "plot_predictive"
        data = self._predictions(where, model, args, kwargs, key, needs_likelihood=False)
        name = "plot_ppc_dist" if is_new(_arviz()) else "plot_ppc"
        group = "posterior_predictive"
        few = {} if is_new(_arviz()) else {"num_pp_samples": 50, "random_seed": 0}
        chosen = _check_names(where, data, names, group)
        _give_axes_to_numbers(data)
        return _plot("predictive", name, data, chosen, {**few, **(options or {})}, group)

    def plot_loo_pit(
        self,
        model: Callable[..., Any],
        *args: Any,
        key: jax.Array | None = None,
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
        where = "plot_loo_pit"
        data = self._predictions(where, model, args, kwargs, key, needs_likelihood=True)
        group = "posterior_predictive"
        chosen = _check_names(where, data, names, group) or list(data[group].data_vars)
        if len(chosen) != 1:
            raise ValueError(
                f"plot_loo_pit shows one observed site; choose it by names=, among {chosen}"
            )
        _give_axes_to_numbers(data)
        given = {"var_names": chosen} if is_new(_arviz()) else {"y": chosen[0]}
        return _plot("loo_pit", "plot_loo_pit", data, None, {**given, **(options or {})})

    def _data(self, coords: Any, dims: Any) -> Any:
        """ArviZ's container, of draws of equal weights."""
        return self._container(coords=coords, dims=dims)

    def _predictions(
        self, where: str, model: Any, args: Any, kwargs: Any, key: Any, *, needs_likelihood: bool
    ) -> Any:
        """ArviZ's container, with predictions of the data that are not missing."""
        if key is None:
            raise TypeError(f"{where} draws data anew: give it a random key, key=jax.random.key(0)")
        wanted = "observed_data", "log_likelihood", "posterior_predictive"
        wanted = [name for name in wanted if name != "log_likelihood" or needs_likelihood]
        return self._container(model, args, kwargs, key=key, wanted=wanted, known_only=True)

    def _equally_weighted(self) -> Self:
        """A result whose draws have equal weights."""
        return self


def _arviz() -> Any:
    return import_arviz("a picture of a result")


def _forest_size(num_lines: int) -> dict[str, Any]:
    """Options of ArviZ for a figure whose height grows with its lines, and whose labels fit."""
    height = min(1.5 + _LINE * num_lines, _MAX_HEIGHT)
    layout = {"layout": "constrained"}
    if is_new(_arviz()):
        return {"figure_kwargs": {"figsize": (9, height), **layout}}
    return {"figsize": (7, height), "textsize": 10, "backend_kwargs": layout}


def _plot(
    what: str, function: str, data: Any, names: Names, options: dict, group: str = "posterior"
) -> Any:
    """Picture by a function of ArviZ.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if a name is unknown.
    """
    if "backend" not in options and importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"plot_{what} needs matplotlib: {INSTALL}")
    chosen = _check_names(f"plot_{what}", data, names, group)
    given = {} if chosen is None else {"var_names": chosen}
    with warnings.catch_warnings():
        # ArviZ 0.x calls matplotlib in a way that matplotlib 3.11 deprecates.
        warnings.filterwarnings("ignore", "Passing a dict or None as alias_mapping")
        return getattr(_arviz(), function)(data, **given, **options)


def _check_names(where: str, data: Any, names: Names, group: str) -> list[str] | None:
    """Names of sites as a list; a named entry, as "x[2]", is added to the data as a variable."""
    if group not in data:
        raise ValueError(
            f"{where}: the model has no data. Give it as it was sampled, conditioned on its data."
        )
    if names is None:
        return None
    found = []
    for name in [names] if isinstance(names, str) else list(names):
        known = list(data[group].data_vars)
        sites = [x for x in known if x == name or x.startswith(f"{name}.")]
        if not sites and (entry := _ENTRY.fullmatch(name)) and entry[1] in known:
            for each in (group, *_OF_DATA):  # pictures of data put groups side by side
                if each in data and entry[1] in data[each]:
                    data[each][name] = _take_entry(where, name, data[each][entry[1]], entry[2])
            sites = [name]
        if not sites:
            raise ValueError(
                f"{where}: names: no site is called {name!r}; there are {', '.join(known)}"
            )
        found += sites
    return found


def _give_axes_to_numbers(data: Any) -> None:
    """Gives an axis of one entry to observed numbers: ArviZ takes distributions along axes."""
    for name, array in data["observed_data"].data_vars.items():
        for group in ("posterior_predictive", *_OF_DATA):
            if not array.dims and group in data:
                data[group][name] = data[group][name].expand_dims(f"{name}_entry", -1)


def _places(where: str, index: str, labels: Sequence[Any]) -> list[int]:
    """Places along the axes of a site, given by the names of entries or by numbers.

    Names of entries may have commas of their own.

    Raises:
        ValueError: if an entry is neither.
    """
    places: list[int] = []
    rest = index.strip()
    while rest:
        i = len(places)
        known = [str(label) for label in labels[i]] if i < len(labels) else []
        named = [name for name in known if f"{rest},".startswith(f"{name},")]
        part = max(named, key=len, default=rest.partition(",")[0])
        rest = rest.removeprefix(part).strip().removeprefix(",").strip()
        part = part.strip()
        if part not in known and not part.isdecimal():
            raise ValueError(
                f"{where}: names: no entry is called {part!r}; there are {', '.join(known)}"
            )
        places.append(known.index(part) if part in known else int(part))
    return places


def _take_entry(where: str, name: str, array: Any, index: str) -> Any:
    """An entry of a site, or a part of the site if `index` has fewer numbers than its shape."""
    own = [(dim, size) for dim, size in array.sizes.items() if dim not in ("chain", "draw")]
    if own and own[0][0] == f"{array.name}_entry":  # only the entries that are not missing
        known = array[own[0][0]].values.tolist()
        if (label := f"{array.name}[{index}]") not in known:
            label = label.replace(", ", ",")
        if label not in known:
            raise ValueError(f"{where}: names: {name!r} is missing, or no entry of {array.name}")
        places = [known.index(label)]
    else:
        places = _places(where, index, [array[dim].values for dim, _ in own])
    sizes = tuple(size for _, size in own)
    if len(places) > len(own) or any(i >= size for i, size in zip(places, sizes, strict=False)):
        raise ValueError(
            f"{where}: names: there is no {name!r}; {array.name} has the shape {sizes}"
        )
    return array.isel({dim: i for (dim, _), i in zip(own, places, strict=False)}, drop=True).rename(
        name
    )
