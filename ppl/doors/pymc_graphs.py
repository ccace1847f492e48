"""Sites of a PyMC model, each with the graphs of its density, its draws and its transform."""

# pyright: reportMissingImports=false

import dataclasses
import graphlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ppl.common.real_numbers import Reals
from ppl.doors.pymc_distributions import Integers, TransformGraphs, VariableGraphs
from ppl.doors.pytensor_graphs import Graph, scan_inputs

Shapes = Mapping[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True, eq=False)
class NamedGraph:
    """A graph whose inputs are values of sites and data.

    Attributes:
        graph: The graph.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
    """

    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, given values by name."""
        found = self.graph(*(values[name] for name in self.inputs)) if self.outputs else ()
        return dict(zip(self.outputs, found, strict=True))


@dataclasses.dataclass(frozen=True, eq=False)
class VariableSite:
    """A random variable of a PyMC model.

    Attributes:
        name: Its name.
        parents: Names of the sites and data that its graphs take.
        graphs: The graphs.
        normal: Graph of location and scale of a normal variable without a transform, or None.
        shape: Shape of a draw.
        dtype: Dtype of a draw.
        observed: Graph of its data, or None if it is free.
    """

    name: str
    parents: tuple[str, ...]
    graphs: VariableGraphs
    normal: Graph | None
    shape: tuple[int, ...]
    dtype: np.dtype
    observed: NamedGraph | None


@dataclasses.dataclass(frozen=True, eq=False)
class ModelGraphs:
    """All sites of a PyMC model, for data of some shapes.

    Attributes:
        variables: Its random variables, parents first.
        deterministic: Graph of the deterministic sites.
        potentials: Graph of the potentials.
        data: Names of data that these graphs take, and not the observations alone.
        dims: Names of dimensions by site.
        coords: Names of entries by dimension.
    """

    variables: tuple[VariableSite, ...]
    deterministic: NamedGraph
    potentials: NamedGraph
    data: frozenset[str]
    dims: Mapping[str, tuple[str | None, ...]]
    coords: Mapping[str, tuple[Any, ...]]


class ModelReader:
    """Reads a PyMC model; what is added to the model later is not seen.

    Attributes:
        model: The model.
        variables: Its random variables by name.
        deterministics: Its deterministic variables.
        potentials: Its potentials.
        dims: Names of dimensions by variable.
        coords: Names of entries by dimension.
        constants: Values of shared variables that are not data.
        data: Its data by name: containers of `pm.Data`, and constants that sites observe.
        sizes: Its data that are single integers, as lengths are: constants of the graphs.
        placeholders: Inputs of graphs that take the place of data.
    """

    def __init__(self, model: Any):
        self.model = model
        self.variables = {v.name: v for v in model.free_RVs + model.observed_RVs}
        self.deterministics = tuple(model.deterministics)
        self.potentials = tuple(model.potentials)
        self.dims = dict(model.named_vars_to_dims)
        self.coords = dict(model.coords)
        self.constants = self._shared_values()
        self.data: dict[str, np.ndarray] = {}
        self.placeholders: dict[Any, Any] = {}
        self.sizes: dict[str, int] = {}
        observed = {*map(model.rvs_to_values.get, model.observed_RVs)}
        for variable in model.data_vars:
            if _is_size(variable) and variable not in observed:
                self.sizes[variable.name] = int(variable.get_value())
            else:
                self._add_data(variable, variable.name)
        for rv in model.observed_RVs:
            value = model.rvs_to_values[rv]
            if value.owner is None and value not in self.placeholders:
                self._add_data(value, rv.name)
        self._graphs: dict[Any, ModelGraphs] = {}

    def _add_data(self, variable: Any, name: str) -> None:
        import pytensor.tensor as pt

        found = variable.get_value() if hasattr(variable, "get_value") else variable.data
        self.data[name] = np.asarray(found)
        shape = (None,) * variable.type.ndim
        self.placeholders[variable] = pt.tensor(name, dtype=variable.type.dtype, shape=shape)

    def _shared_values(self) -> dict[Any, Any]:
        from pytensor.compile import SharedVariable

        outputs = [*self.variables.values(), *self.deterministics, *self.potentials]
        outputs += [self.model.rvs_to_values[rv] for rv in self.model.observed_RVs]
        shared = [*scan_inputs(outputs, SharedVariable), *self.model.dim_lengths.values()]
        known = (x for x in shared if hasattr(x, "get_value") and not _is_generator(x))
        return {x: x.get_value() for x in known}

    def graphs_of(self, shapes: Shapes, sizes: Mapping[str, int]) -> ModelGraphs:
        """The graphs for data of some shapes, and all sizes, by name of the data."""
        key = tuple(sorted(shapes.items())), tuple(sorted(sizes.items()))
        if key not in self._graphs:
            self._graphs[key] = _Builder(self, shapes, sizes).build()
        return self._graphs[key]

    def lengths(self, shapes: Shapes) -> dict[str, int]:
        """The length of each dimension that data have.

        Raises:
            ValueError: If data disagree about it.
        """
        found: dict[str, tuple[str, int]] = {}
        for name, shape in shapes.items():
            dims = self.dims.get(name) or ()
            for dim, size in zip(dims, shape, strict=False):
                other, length = found.setdefault(dim, (name, size))
                if dim is not None and length != size:
                    raise ValueError(
                        f"from_pymc: data {other!r} and {name!r} both have the dimension {dim!r}, "
                        f"with {length} and {size} entries. Give both with equally many."
                    )
        return {dim: size for dim, (_, size) in found.items() if dim is not None}


class _Builder:
    """Builds the graphs of a model for data of some shapes."""

    def __init__(self, reader: ModelReader, shapes: Shapes, sizes: Mapping[str, int]):
        self.reader = reader
        self.model = reader.model
        self.shapes = shapes
        self.sizes = sizes
        self.lengths = reader.lengths(shapes)
        self.values = {rv: _value_of(rv) for rv in reader.variables.values()}
        self.data = {v.name: v for v in reader.placeholders.values()}
        # A constant that a site observes has the name of the site, and is an input of nothing else.
        self.inputs = {**self.data, **{v.name: v for v in self.values.values()}}

    def build(self) -> ModelGraphs:
        log_probs = self._log_probs()
        shapes = self._shapes_of_sites()
        sites = {
            name: self._site(rv, log_probs[self.values[rv]], shapes[name])
            for name, rv in self.reader.variables.items()
        }
        deterministic = self._named(self.reader.deterministics)
        potentials = self._named(self.reader.potentials)
        inputs = {*deterministic.inputs, *potentials.inputs}
        inputs = inputs.union(*(site.parents for site in sites.values()))
        return ModelGraphs(
            tuple(sites[name] for name in _parents_first(sites)),
            deterministic,
            potentials,
            frozenset(inputs - sites.keys()),
            self._dims(),
            self._coords(),
        )

    def _log_probs(self) -> dict[Any, Any]:
        """Log density of each value, given the other values."""
        from pymc.logprob import conditional_logp

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Random variables detected", UserWarning)
            return conditional_logp(dict(self.values))

    def _shapes_of_sites(self) -> dict[str, tuple[int, ...]]:
        """Shape of each site.

        Raises:
            NotImplementedError: If the numbers of an array of data decide about a shape.
            ValueError: If the data do not fit together.
        """
        import pytensor

        variables = self.reader.variables
        graphs = self._replace([rv.shape for rv in variables.values()], keep=True)
        inputs = list(self.reader.placeholders.values())
        function = pytensor.function(
            inputs, graphs, mode="FAST_COMPILE", on_unused_input="ignore", trust_input=True
        )
        shapes = {name: x.shape for name, x in self.reader.data.items()} | dict(self.shapes)
        found = []
        for number in (0, 1):
            filled = [np.full(shapes[v.name], number, v.type.dtype) for v in inputs]
            try:
                found.append([tuple(map(int, x)) for x in function(*filled)])
            except Exception as error:
                raise ValueError(
                    f"from_pymc: data of the shapes {dict(self.shapes)} do not fit into the model: "
                    f"{str(error).splitlines()[0]}"
                ) from error
        for name, *both in zip(variables, *found, strict=True):
            if both[0] != both[1]:
                raise NotImplementedError(
                    f"from_pymc: the shape of site {name!r} depends on the numbers in an array of "
                    f"pm.Data. {_STATIC}"
                )
        return dict(zip(variables, found[0], strict=True))

    def _site(self, rv: Any, log_prob: Any, shape: tuple[int, ...]) -> VariableSite:
        where = f"from_pymc: site {rv.name!r}"
        value = self.values[rv]
        is_discrete = not rv.type.dtype.startswith("float")
        (log_prob,) = self._replace([log_prob])
        draw, generators = self._draw(rv)
        arguments = self._replace(rv.owner.inputs, but=rv)
        others = {name: v for name, v in self.inputs.items() if name != rv.name}
        parents = _names_in(others, [log_prob, draw, *arguments])
        inputs = [self.inputs[name] for name in parents]
        transform = None if is_discrete else self._transform(rv)
        maps = transform and _transform_graphs(where, transform, value, arguments, inputs)
        num_axes = min([log_prob.ndim, *([maps.log_det.outputs[0].ndim] if maps else [])])
        support = Reals() if transform is None else None
        if is_discrete:
            support = _integers(rv.owner.op, arguments)
        graphs = VariableGraphs(
            name=rv.name,
            family=_family(rv.owner.op),
            event_ndims=value.ndim - num_axes,
            log_prob=Graph(where, (value, *inputs), [log_prob]),
            draw=Graph(where, (*inputs, *generators), [draw]),
            num_generators=len(generators),
            undrawn=self._why_undrawn(rv, transform),
            transform=maps,
            support=support,
        )
        graphs.log_prob.function()  # an operation without a JAX implementation is an error here
        normal = None
        if type(rv.owner.op).__name__ == "NormalRV" and transform is None:
            parameters = self._replace(rv.owner.op.dist_params(rv.owner), but=rv)
            normal = Graph(where, inputs, parameters)
        dtype = np.dtype(rv.type.dtype)
        return VariableSite(rv.name, parents, graphs, normal, shape, dtype, self._observed(rv))

    def _transform(self, rv: Any) -> Any:
        """PyMC's transform of a variable, or None."""
        from pymc.distributions import transforms

        if rv in self.model.observed_RVs:  # which has none, as its data stay as they are
            return transforms._default_transform(rv.owner.op, rv)
        return self.model.rvs_to_transforms[rv]

    def _why_undrawn(self, rv: Any, transform: Any) -> str:
        """Words on why draws of a variable are not draws from its density; empty if they are."""
        from pymc.distributions import transforms

        default = transforms._default_transform(rv.owner.op, rv)
        if transform is None or type(transform) is type(default):
            return ""
        return f"PyMC's draws do not know of its transform {transform.name!r}, which bounds it"

    def _draw(self, rv: Any) -> tuple[Any, list[Any]]:
        """Graph of a draw given the parents, and its generators."""
        from pytensor.compile import SharedVariable
        from pytensor.graph.replace import clone_replace

        (draw,) = self._replace([rv], but=rv)
        generators = {v: v.type() for v in scan_inputs([draw], SharedVariable) if _is_generator(v)}
        (draw,) = clone_replace([draw], generators) if generators else (draw,)
        return draw, list(generators.values())

    def _observed(self, rv: Any) -> NamedGraph | None:
        """Graph of the data of a site.

        Raises:
            NotImplementedError: If they are drawn at random, as by `pm.Minibatch`.
        """
        from pytensor.compile import SharedVariable

        if rv not in self.model.observed_RVs:
            return None
        value = self.model.rvs_to_values[rv]
        graph = self._replace([self.reader.placeholders.get(value, value)])
        if any(map(_is_generator, scan_inputs(graph, SharedVariable))):
            raise NotImplementedError(
                f"from_pymc: site {rv.name!r} observes rows that are drawn at random, as "
                "pm.Minibatch gives. Observe the whole data, and scale batches here: ppl.scale, or "
                "batch= of inference.svi."
            )
        where = f"from_pymc: data of site {rv.name!r}"
        return _named_graph(where, self.data, graph, (rv.name,))

    def _named(self, variables: Sequence[Any]) -> NamedGraph:
        names = tuple(v.name for v in variables)
        where = f"from_pymc: one of the deterministic sites or potentials {list(names)}"
        return _named_graph(where, self.inputs, self._replace(variables), names)

    def _replace(self, outputs: Sequence[Any], but: Any = None, *, keep: bool = False) -> list[Any]:
        """Graphs in terms of inputs: values of random variables, and data.

        Args:
            outputs: The graphs.
            but: A random variable that is not replaced.
            keep: Whether no random variable is.
        """
        from pytensor.compile import SharedVariable
        from pytensor.graph.replace import clone_replace
        from pytensor.tensor import constant

        known = {} if keep else {rv: x for rv, x in self.values.items() if rv is not but}
        known |= {v: x for v, x in self.reader.placeholders.items() if v in self.model.data_vars}
        for shared in scan_inputs(outputs, SharedVariable):
            if shared not in known and not _is_generator(shared):
                known[shared] = constant(self._constant(shared), dtype=shared.type.dtype)
        return clone_replace(list(outputs), known)

    def _constant(self, shared: Any) -> Any:
        """Value of a shared variable that is no input: the length of a dimension, say."""
        if shared.name in self.sizes and shared in self.model.data_vars:
            return self.sizes[shared.name]
        for dim, length in self.model.dim_lengths.items():
            if length is shared and dim in self.lengths:
                return self.lengths[dim]
        found = self.reader.constants.get(shared)  # a transform may have further ones
        return shared.get_value() if found is None else found

    def _dims(self) -> dict[str, tuple[str | None, ...]]:
        """Names of dimensions by site, where each axis has one of its own."""
        sites = {*self.reader.variables, *(v.name for v in self.reader.deterministics)}
        dims = {}
        for name, given in self.reader.dims.items():
            known = [dim for dim in given if dim is not None]
            if name in sites and len({*known}) == len(known):
                dims[name] = tuple(given)
        return dims

    def _coords(self) -> dict[str, tuple[Any, ...]]:
        """Names of entries by dimension, where each entry has one of its own."""
        coords = {}
        for dim, names in self.reader.coords.items():
            if names is None or self.lengths.get(dim, len(names)) != len(names):
                continue
            shown = [str(x) for x in names]
            if len({*shown}) == len(shown) and not {"", "None", "nan"} & {*shown}:
                coords[dim] = tuple(names)
        return coords


def _named_graph(
    where: str, known: Mapping[str, Any], outputs: Sequence[Any], names: tuple[str, ...]
) -> NamedGraph:
    inputs = _names_in(known, outputs)
    return NamedGraph(Graph(where, [known[x] for x in inputs], outputs), inputs, names)


def _names_in(known: Mapping[str, Any], outputs: Iterable[Any]) -> tuple[str, ...]:
    """Names of known variables among the inputs of graphs, in their order."""
    from pytensor.graph.traversal import graph_inputs

    found = {*graph_inputs(list(outputs))}
    return tuple(name for name, variable in known.items() if variable in found)


def _value_of(rv: Any) -> Any:
    value = rv.type()
    value.name = rv.name
    return value


_STATIC = (
    "Sizes are fixed when JAX compiles: make each a pm.Data of one integer, as "
    'pm.Data("n", np.array(3)), or an integer of Python.'
)


def _is_size(shared: Any) -> bool:
    return shared.type.ndim == 0 and np.dtype(shared.type.dtype).kind in "iu"


def _is_generator(shared: Any) -> bool:
    from pytensor.tensor.random.type import RandomType

    return isinstance(shared.type, RandomType)


def _family(op: Any) -> str:
    """The name of a family in words of PyMC."""
    shown = getattr(op, "_print_name", None)
    return shown[0] if shown else type(op).__name__.removesuffix("RV")


def _transform_graphs(
    where: str, transform: Any, value: Any, arguments: Sequence[Any], inputs: Sequence[Any]
) -> TransformGraphs:
    """The graphs of a transform.

    Raises:
        NotImplementedError: If it takes two values to one.
    """
    to_position = transform.forward(value, *arguments)
    position = to_position.type()
    to_value = transform.backward(position, *arguments)
    if isinstance(to_value, tuple):
        raise NotImplementedError(
            f"{where} has the transform {transform.name!r}, which takes two values to one. Give it "
            "another one by transform=."
        )
    return TransformGraphs(
        transform.name,
        Graph(where, (position, *inputs), [to_value]),
        Graph(where, (value, *inputs), [to_position]),
        Graph(where, (position, *inputs), [transform.log_jac_det(position, *arguments)]),
    )


# Discrete families without negative values, and without a known end.
_COUNTS = (
    "PoissonRV",
    "NegBinomialRV",
    "HyperGeometricRV",
    "DiscreteWeibullRV",
    "MultinomialRV",
    "DirichletMultinomialRV",
)


def _integers(op: Any, arguments: Sequence[Any]) -> Integers:
    """The support of a discrete family, as far as it is known."""
    name = type(op).__name__
    parameters = arguments[2:]  # behind the generator and the size
    if name == "BernoulliRV":
        return Integers(0, 1)
    if name == "CategoricalRV":
        size = parameters[0].type.shape[-1]
        return Integers(0, None if size is None else size - 1)
    if name == "DiscreteUniformRV":
        low, high = (_constant_value(x) for x in parameters)
        return Integers(
            None if low is None else int(low.min()), None if high is None else int(high.max())
        )
    if name in ("BinomialRV", "BetaBinomialRV"):
        count = _constant_value(parameters[0])
        return Integers(0, None if count is None else int(count.max()))
    if name == "GeometricRV":
        return Integers(1, None)
    return Integers(0 if name in _COUNTS else None, None)


def _constant_value(variable: Any) -> np.ndarray | None:
    """The value of a graph of constants, or None."""
    from pytensor.graph.traversal import explicit_graph_inputs

    if list(explicit_graph_inputs([variable])):
        return None
    return np.asarray(variable.eval(mode="FAST_COMPILE"))


def _parents_first(sites: Mapping[str, VariableSite]) -> Iterable[str]:
    """Names of sites, each after those of its parents."""
    order = {name: [x for x in site.parents if x in sites] for name, site in sites.items()}
    return graphlib.TopologicalSorter(order).static_order()
