"""ArviZ's container of draws: groups of arrays with named dimensions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from inference.common.argument_checks import check_count, short_repr
from inference.common.leaf_names import element_names, leading_labels, named_leaves
from inference.common.target import NamedSite
from inference.models.model_groups import place_of

INSTALL = 'pip install "harvest-ppl[arviz]"'
_SAMPLES = ("chain", "draw")
OF_DRAWS = "posterior", "sample_stats"
OF_MODEL = "log_likelihood", "log_prior", "observed_data", "constant_data"
OF_KEY = "posterior_predictive", "prior", "prior_predictive"
_FIXED = ("observed_data", "constant_data")  # groups whose arrays have no axes of draws

Groups = Mapping[str, Mapping[str, Any]]
Axes = Mapping[str, tuple[str | None, ...]]


def import_arviz(where: str) -> Any:
    """ArviZ, of any version.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import arviz
    except ImportError as error:
        raise ImportError(
            f"{where} needs ArviZ: pip install arviz, or {INSTALL}, which has all for pictures"
        ) from error
    return arviz


def is_new(arviz: Any) -> bool:
    """Whether ArviZ is 1.0 or newer, whose container is an `xarray.DataTree`."""
    return int(arviz.__version__.split(".")[0]) >= 1


def check_groups(groups: Any, has_model: bool, key: Any, num_prior_draws: Any) -> tuple[str, ...]:
    """Names of the groups that a model is to add, checked; by default all groups that it can add.

    Raises:
        TypeError: if the number of draws is not an integer.
        ValueError: if a group is unknown, if it needs a model or a key that is not given, or if the
            number of draws is not positive.
    """
    check_count("to_arviz: num_prior_draws", num_prior_draws, least=1)
    possible = (*OF_MODEL, *OF_KEY) if key is not None else OF_MODEL
    if groups is None:
        return ("posterior", *possible)
    names = (groups,) if isinstance(groups, str) else tuple(groups)
    for name in names:
        if name not in (*OF_DRAWS, *OF_MODEL, *OF_KEY):
            known = ", ".join((*OF_MODEL, *OF_KEY))
            raise ValueError(f"to_arviz: groups: there is no group {name!r}; there are {known}")
        if name not in OF_DRAWS and (not has_model or name not in possible):
            needed = "the model that was sampled, with its data" + ", and a key" * (name in OF_KEY)
            raise ValueError(
                f"to_arviz: groups: {name!r} needs {needed}: to_arviz(posterior, *args"
                + ", key=key" * (name in OF_KEY)
                + ")"
            )
    return names


def arrays_by_name(draws: Any, sites: Sequence[NamedSite]) -> dict[str, Any]:
    """Draws by name of site, in the order of the model.

    Raises:
        ValueError: if two sites get the same name, as ``"a.b"`` and ``"b"`` within ``"a"``.
    """
    order = {name: i for i, (name, *_) in enumerate(sites)}
    leaves = sorted(named_leaves(draws), key=lambda x: order.get(x[0], len(order)))
    names = [name for name, _ in leaves]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"ArviZ has one name for each array, and two sites are {twice[0]!r}")
    return dict(leaves)


def make_container(
    groups: Groups,
    axes: Axes,
    coords: Mapping[str, Any] | None,
    dims: Mapping[str, Any] | None,
    masks: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    labels: Mapping[str, Sequence[Any]] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Any:
    """An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``.

    Args:
        groups: Arrays by name, by group. They are not copied.
        axes: Names of leading axes, by name of an array, see `place_of`.
        coords: Labels by dimension.
        dims: Names of the dimensions, by name of an array; they replace the names in `axes`.
        masks: Which entries are not missing, by name, by group. If some entries are missing, the
            others stand along one dimension, called ``"y_entry"`` for `y`, with their names as
            labels.
        labels: For each axis of an array None, or the name of its dimension with the names of its
            entries, by name of the array; `coords` and `dims` replace them.
        notes: More attributes of each group.

    Raises:
        ImportError: if ArviZ is not installed.
        ValueError: if `coords` or `dims` do not fit the arrays.
    """
    arviz = import_arviz("to_arviz")
    import xarray

    arrays = {
        group: {name: _as_array(x) for name, x in values.items()}
        for group, values in groups.items()
    }
    named = _check_dims(arrays, dims or {})
    axes = _with_labels(axes, labels or {})
    indices_of_user = _check_coords(arrays, axes, named, coords or {})
    known = _known_entries(arrays, axes, named, coords or {}, labels or {})
    attributes = {"inference_library": "harvest-ppl", **(notes or {})}
    datasets = {}
    for group, values in arrays.items():
        data = {}
        indices = dict(indices_of_user)
        for name, x in values.items():
            own = _dims_of(group, name, x, axes, named)
            data[name] = own, x
            mask = (masks or {}).get(group, {}).get(name)
            if mask is not None and not mask.all():
                data[name] = _take_entries(group, name, own, x, mask)
                axes_of_mask = leading_labels((labels or {}).get(name, ()), mask.ndim)
                names = np.array(element_names(name, mask.shape, axes_of_mask))
                indices[f"{name}_entry"] = names[mask.ravel()]
        used = {dim: size for d, x in data.values() for dim, size in zip(d, x.shape, strict=True)}
        indices = {
            dim: indices.get(dim, known.get((dim, size), np.arange(size)))
            for dim, size in used.items()
        }
        datasets[group] = xarray.Dataset(data, indices, attributes)
    if is_new(arviz):
        return xarray.DataTree.from_dict(datasets)
    return arviz.InferenceData(**datasets)


def _with_labels(axes: Axes, labels: Mapping[str, Sequence[Any]]) -> Axes:
    """Names of axes with those of labels."""
    named = dict(axes)
    for name, found in labels.items():
        before = (*axes.get(name, ()), *[None] * len(found))
        named[name] = tuple(
            old if x is None else x[0] for x, old in zip(found, before, strict=False)
        )
    return named


def _known_entries(
    arrays: Groups,
    axes: Axes,
    dims: Mapping[str, Any],
    coords: Mapping[str, Any],
    labels: Mapping[str, Sequence[Any]],
) -> dict[tuple[str, int], np.ndarray]:
    """Names of entries by dimension and size, from labels; those that the user gives are left out.

    Raises:
        ValueError: if the labels of two sites have other names along one dimension.
    """
    found: dict[tuple[str, int], tuple[np.ndarray, str]] = {}
    for group, name, x in _entries(arrays):
        own = _dims_of(group, name, x, axes, dims)[x.ndim - len(_shape(group, x)) :]
        entries_of = labels.get(place_of(group, name), ())
        for dim, size, entry in zip(own, _shape(group, x), entries_of, strict=False):
            if entry is None or entry[1] is None or len(entry[1]) != size or dim in coords:
                continue
            entries = np.asarray(entry[1])
            before, other = found.setdefault((dim, size), (entries, name))
            if not np.array_equal(before, entries):
                raise ValueError(
                    f"to_arviz: sites {other!r} and {name!r} have other entries along {dim!r}, "
                    f"{short_repr(before.tolist())} and {short_repr(entries.tolist())}: give one "
                    f"of them another name, as by dims={{{name!r}: [...]}}"
                )
    return {place: entries for place, (entries, _) in found.items()}


def _as_array(x: Any) -> np.ndarray:
    """An array of NumPy, converted if files of xarray cannot have its dtype, as bfloat16."""
    array = np.asarray(x)
    is_known = array.dtype.kind in "biufcSU"
    return array if is_known or not jnp.issubdtype(array.dtype, np.number) else array.astype("f4")


def _shape(group: str, x: np.ndarray) -> tuple[int, ...]:
    """The shape of an array without the axes of the draws."""
    return x.shape if group in _FIXED else x.shape[len(_SAMPLES) :]


def _dims_of(
    group: str, name: str, x: np.ndarray, axes: Axes, dims: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Names of all dimensions of an array; a dimension without a name gets ArviZ's default name."""
    num_own = len(_shape(group, x))
    given = (*dims.get(name, ()), *[None] * num_own)[:num_own]
    usual = axes.get(place_of(group, name), ())
    usual = (*usual, *[None] * num_own)[:num_own]
    names = [
        old if dim is None and old not in given else dim
        for dim, old in zip(given, usual, strict=True)
    ]
    own = tuple(f"{name}_dim_{i}" if dim is None else dim for i, dim in enumerate(names))
    return own if group in _FIXED else (*_SAMPLES, *own)


def _entries(arrays: Groups) -> Iterator[tuple[str, str, np.ndarray]]:
    for group, values in arrays.items():
        if group != "sample_stats":
            for name, x in values.items():
                yield group, name, x


def _take_entries(
    group: str, name: str, dims: tuple[str, ...], x: np.ndarray, mask: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    """Entries of an array where a mask of its leading axes holds, along one dimension."""
    first = 0 if group in _FIXED else len(_SAMPLES)
    rest = dims[first + mask.ndim :]
    return (*dims[:first], f"{name}_entry", *rest), x[(slice(None),) * first + (mask,)]


def _check_dims(arrays: Groups, dims: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The dimensions that the user names, checked."""
    shapes: dict[str, tuple[int, ...]] = {}
    for group, name, x in _entries(arrays):
        shape = _shape(group, x)
        if len(shape) >= len(shapes.get(name, ())):  # log probabilities lack the axes of events
            shapes[name] = shape
    found = {}
    for name, given in dims.items():
        names = (given,) if isinstance(given, str) else tuple(given)
        if name not in shapes:
            raise ValueError(
                f"to_arviz: dims: there is no site {name!r}; there are {', '.join(shapes)}"
            )
        if len(names) != len(shapes[name]):
            raise ValueError(
                f"to_arviz: dims: site {name!r} has the shape {shapes[name]}, so it takes "
                f"{len(shapes[name])} names, got {list(names)}"
            )
        wrong = [x for x in names if not isinstance(x, str | None) or x in _SAMPLES]
        if wrong or len({*names} - {None}) < len([x for x in names if x is not None]):
            raise ValueError(
                f"to_arviz: dims: site {name!r} takes names that are strings, all different, and "
                f"neither 'chain' nor 'draw' (None leaves an axis as it is), got {list(names)}"
            )
        found[name] = names
    return found


def _check_coords(
    arrays: Groups, axes: Axes, dims: Mapping[str, Any], coords: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The labels that the user gives, checked against the sizes of the dimensions."""
    sizes: dict[str, tuple[int, str]] = {}
    for group, name, x in _entries(arrays):
        num_own = len(_shape(group, x))
        own = _dims_of(group, name, x, axes, dims)[x.ndim - num_own :]
        for dim, size in zip(own, _shape(group, x), strict=True):
            before, other = sizes.setdefault(dim, (size, name))
            if before != size:
                raise ValueError(
                    f"to_arviz: site {other!r} has {before} entries along {dim!r}, and site "
                    f"{name!r} {size}: give one of them another name, as by dims={{{name!r}: "
                    "[...]}"
                )
    labels = {}
    for dim, given in coords.items():
        if dim not in sizes:
            raise ValueError(
                f"to_arviz: coords: no site has the dimension {dim!r}; there are "
                f"{', '.join(sizes) or 'none'}. Name it by dims={{site: [{dim!r}]}}."
            )
        labels[dim] = np.asarray(given)
        size, name = sizes[dim]
        if labels[dim].shape != (size,):
            raise ValueError(
                f"to_arviz: coords: site {name!r} has {size} entries along {dim!r}, got labels of "
                f"the shape {labels[dim].shape}"
            )
    return labels
