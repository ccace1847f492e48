"""from_pymc: a model made of a model of PyMC."""

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ppl.core.model_pytree import Model
from ppl.doors.door_model import DoorModel
from ppl.doors.pymc_distributions import Normal, PyMCDistribution
from ppl.doors.pymc_graphs import ModelGraphs, ModelReader, VariableSite
from ppl.doors.pytensor_graphs import import_pymc
from ppl.harvest.leaf_values import short_repr
from ppl.primitives.deterministic import deterministic
from ppl.primitives.factor import factor
from ppl.primitives.sample import check_key, sample
from ppl.transforms.condition import condition
from ppl.transforms.label import Dimension, label


def from_pymc(pymc_model: Any, *, observe: bool = True) -> Model:
    """A model of PyMC, as it is, as a model of this library.

    Each random variable is a site, with PyMC's log density and PyMC's map to unconstrained space,
    both through PyTensor's JAX backend. Every transformation and every algorithm takes it.

    | in PyMC | here |
    |---|---|
    | free variable | a latent site, of the constrained value; draws by the same backend |
    | `observed=` | an observed site |
    | missing entries of `observed=` | the sites `y_observed` and `y_unobserved`, as in PyMC |
    | `pm.Data`, and data without it | data by name, which an argument may replace |
    | `pm.Data` of one integer | a size, which an argument may replace by an integer |
    | `Deterministic`, `Potential` | deterministic sites, factors |
    | `dims=`, `coords=` | names of axes and of entries, as of :func:`ppl.label`; of data, too |
    | discrete variable | a discrete site, for :func:`ppl.marginalize` or `inference.Gibbs` |
    | invalid parameters | a log density of -inf, as where PyMC compiles it |

    A variable of the family Normal without a transform is a normal site of this library, so that
    its centering is learned and ``ppl.Gaussian`` integrates it.

    Indices in data are not checked: where PyMC raises an IndexError, JAX takes the nearest entry.

    PyMC computes in float64, and so does the model if JAX does:
    ``jax.config.update("jax_enable_x64", True)``.

    Args:
        pymc_model: The model of PyMC; of Bambi, ``model.backend.model`` after ``model.build()``.
            What it holds now is read, and later changes of it are not seen.
        observe: Whether the data are conditioned on. Without them, `ppl.predict` draws new ones.

    Returns:
        Function of a key, and of a dict of data that replace those of PyMC: arrays by the name of
        a `pm.Data`, or of the site that observes an array. New data of the same shapes never
        recompile, but for single integers, which may be sizes. Data of other shapes make new
        graphs, with names of entries only where their number has not changed. A pytree, whose
        leaves are the data of PyMC.

    Raises:
        ImportError: If PyMC is not installed.
        TypeError: If `pymc_model` is not a model of PyMC.
        NotImplementedError: If an operation has no JAX implementation in PyTensor, PyMC has no log
            density, data are drawn at random, as by `pm.Minibatch`, or the shape of a site depends
            on the numbers in an array of data. When the result is called,
            if a variable is drawn for which the backend has no sampler.
        ValueError: When the result is called or transformed, if there are no data of a name, or
            shapes do not fit; a TypeError for floats in place of integers.

    Example:
        >>> import pymc as pm  # doctest: +SKIP
        >>> with pm.Model() as coin:  # doctest: +SKIP
        ...     p = pm.Beta("p", 1.0, 1.0)
        ...     pm.Bernoulli("heads", p, observed=[1, 0, 1, 1])
        >>> model = ppl.from_pymc(coin)  # doctest: +SKIP
        >>> result = inference.mcmc(jax.random.key(0), model)  # doctest: +SKIP

    References:
        Abril-Pla et al., "PyMC: a modern and comprehensive probabilistic programming framework in
        Python", PeerJ Computer Science 9 (2023).
    """
    pymc = import_pymc()
    if not isinstance(pymc_model, pymc.Model):
        raise TypeError(
            f"from_pymc: expected a pymc.Model, got {short_repr(pymc_model)}. A model of Bambi is "
            "built first: model.build(), then model.backend.model."
        )
    reader = ModelReader(pymc_model)
    graphs = reader.graphs_of({name: x.shape for name, x in reader.data.items()}, reader.sizes)
    data = {name: x for name, x in reader.data.items() if observe or name in graphs.data}
    return DoorModel(_PyMCModel(reader, observe), data)


@dataclasses.dataclass(frozen=True, eq=False)
class _PyMCModel:
    """Function of the data of a PyMC model, a key, and data to take in their place."""

    reader: ModelReader
    observe: bool

    @property
    def __name__(self) -> str:
        """A name for errors."""
        return self.reader.model.name or "from_pymc"

    def __repr__(self) -> str:
        num_observed = len(self.reader.model.observed_RVs) if self.observe else 0
        num_latent = len(self.reader.variables) - num_observed
        name = f"{self.reader.model.name}, " if self.reader.model.name else ""
        return f"from_pymc({name}sites: {num_latent} latent, {num_observed} observed)"

    @property
    def without_data(self) -> str:
        """Advice on predictions of sites that the model observes."""
        return (
            "Data stand within the model. Give it without them: "
            "predict(from_pymc(pymc_model, observe=False), draws)."
        )

    def data_by_name(
        self, defaults: Mapping[str, Any], /, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Data of `pm.Data`; data without it are those of observed sites."""
        given, sizes = _check_data(data, defaults, self.reader.sizes)
        values = {**defaults, **given, **{name: np.array(x) for name, x in sizes.items()}}
        return {name: x for name, x in values.items() if name not in self.reader.variables}

    def labels_of_data(self) -> dict[str, tuple[Dimension | None, ...]]:
        """Dimensions of the data of `pm.Data` that have any."""
        shapes = {name: x.shape for name, x in self.reader.data.items()}
        coords = self.reader.graphs_of(shapes, self.reader.sizes).coords
        named = {name: self.reader.dims.get(name) or () for name in shapes}
        return {
            name: tuple(None if dim is None else (dim, coords.get(dim)) for dim in dims)
            for name, dims in named.items()
            if dims
        }

    def __call__(
        self,
        defaults: Mapping[str, Any],
        key: jax.Array,
        /,
        data: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        check_key("a model of from_pymc", key)
        given, sizes = _check_data(data, defaults, self.reader.sizes)
        values = {**defaults, **given}
        shapes = {name: np.shape(x) for name, x in values.items()}
        graphs = self.reader.graphs_of(shapes, sizes)
        run: Any = label(Partial(_Sites(graphs)), graphs.dims, graphs.coords)
        if self.observe:
            run = condition(run, _observed(graphs, values))
        try:
            return run(key, values)
        except (TypeError, ValueError) as error:
            if all(shapes[name] == np.shape(defaults[name]) for name in given):
                raise
            raise ValueError(
                f"from_pymc: data of the shapes { {name: shapes[name] for name in given} } do not "
                f"fit into the PyMC model, whose data have the shapes "
                f"{ {name: np.shape(defaults[name]) for name in given} }: {error}"
            ) from error


@dataclasses.dataclass(frozen=True, eq=False)
class _Sites:
    """Function of a key and data, which draws the sites of a model without its observations."""

    graphs: ModelGraphs

    def __call__(self, key: jax.Array, data: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(data)
        for site in self.graphs.variables:
            values[site.name] = sample(key, _distribution(site, values), name=site.name)
        for name, value in self.graphs.deterministic(values).items():
            values[name] = deterministic(value, name=name)
        for name, weight in self.graphs.potentials(values).items():
            factor(weight, name=name)
        return {site.name: values[site.name] for site in self.graphs.variables}


def _distribution(site: VariableSite, values: Mapping[str, Any]) -> Normal | PyMCDistribution:
    """The distribution of a site given values of its parents."""
    inputs = tuple(values[name] for name in site.parents)
    dtype = jax.dtypes.canonicalize_dtype(site.dtype)
    if site.normal is not None:
        parameters = (jnp.asarray(x, dtype) for x in site.normal(*inputs))
        return Normal(*(jnp.broadcast_to(x, site.shape) for x in parameters))
    num_axes = len(site.shape) - site.graphs.event_ndims
    batch_shape = site.shape[:num_axes]
    event_shape = site.shape[num_axes:]
    return PyMCDistribution(inputs, site.graphs, batch_shape, event_shape, dtype)


def _observed(graphs: ModelGraphs, data: Mapping[str, Any]) -> dict[str, Any]:
    """Data by site.

    Raises:
        ValueError: If their shape is not the shape of their site.
    """
    found = {}
    for site in graphs.variables:
        if site.observed is None:
            continue
        value = site.observed(data)[site.name]
        if jnp.shape(value) != site.shape:
            raise ValueError(
                f"from_pymc: site {site.name!r} has the shape {site.shape}, got data of the shape "
                f"{jnp.shape(value)}. Give all data of one length; to predict at other rows, take "
                "from_pymc(model, observe=False), which needs no data of the site."
            )
        found[site.name] = value
    return found


def _check_data(
    data: Any, defaults: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, int]]:
    """New data by name, and all sizes.

    Raises:
        TypeError: If they are not a dict, an entry is not an array, floats stand for integers, or
            a size is not an integer that is known.
        ValueError: If a name is unknown, or an array has another number of axes.
    """
    sizes = dict(sizes)
    if data is None:
        return {}, sizes
    names = sorted({*defaults, *sizes})
    if not isinstance(data, Mapping):
        raise TypeError(
            f"from_pymc: data must be a dict by name, of {names}, got {short_repr(data)}."
        )
    found = {}
    for name, value in data.items():
        if name in sizes:
            sizes[name] = _check_size(name, value)
            continue
        if name not in defaults:
            raise ValueError(f"from_pymc: there are no data {name!r}. There are {names}.")
        default = defaults[name]
        try:
            array = jnp.asarray(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"from_pymc: data {name!r} must be an array of {default.dtype}, got "
                f"{short_repr(value)}."
            ) from error
        if array.ndim != np.ndim(default):
            raise ValueError(
                f"from_pymc: data {name!r} have the shape {np.shape(default)} in the PyMC model, "
                f"got {array.shape}. Give an array of as many axes."
            )
        if jnp.issubdtype(array.dtype, jnp.floating) and default.dtype.kind != "f":
            raise TypeError(
                f"from_pymc: data {name!r} are integers in the PyMC model, got "
                f"{array.dtype}. Give integers, or floats to pm.Data when the model is made."
            )
        found[name] = array.astype(jax.dtypes.canonicalize_dtype(default.dtype))
    return found, sizes


def _check_size(name: str, value: Any) -> int:
    """One integer as an integer of Python.

    Raises:
        TypeError: If it is something else, or not known when JAX compiles.
    """
    try:
        return operator.index(value)
    except TypeError as error:
        raise TypeError(
            f"from_pymc: data {name!r} are one integer in the PyMC model, which may be a size and "
            f"is fixed when JAX compiles. Give an integer of Python, got {short_repr(value)}."
        ) from error
