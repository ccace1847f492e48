"""from_density: a model made of a bare log density."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, Partial, SequenceKey

from ppl.common.real_numbers import Identity, Reals
from ppl.core.model_pytree import Model, as_pytree
from ppl.harvest import leaf_values, nest
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.pytrees import register_dataclass
from ppl.primitives.factor import factor
from ppl.primitives.sample import check_key, sample

_BARE_ARRAY = "position"  # the site of a position that is one array


def from_density(log_density: Callable[..., Any], position: Any) -> Model:
    r"""A model of a bare log density: one flat site per leaf of a position, and one factor.

    The model has the density :math:`p(x) \propto \exp(\text{log\_density}(x))` over unconstrained
    real numbers. `log_density` must transform a quantity with a constraint itself, and add the log
    determinant of the Jacobian. The sites are improper, so that there is no prior to draw from:
    start samplers with ``init="uniform"``, with ``"optimum"`` or at values.

    Args:
        log_density: Function of a position, and of `args` and `kwargs`, to a scalar.
        position: Pytree of floating arrays, or of `jax.ShapeDtypeStruct`, with the shapes and
            dtypes of a position; the values of arrays are not used.

            | position | sites |
            |---|---|
            | a dict | its keys |
            | a dict in a dict | a scope, as `nest` makes it |
            | a tuple or list | `"0"`, `"1"`, ... |
            | a named tuple, a dataclass | its fields |
            | one array | `"position"` |

    Returns:
        Function of a key, `args` and `kwargs`, which returns the position. Arrays among the
        arguments are data, so that new data of the same shapes never recompile.

    Raises:
        TypeError: If `log_density` is not a function, or a leaf of `position` is not a floating
            array. When the model is called or transformed, if the log density is not a floating
            array.
        ValueError: If `position` has no leaves. When the model is called or transformed, if the
            log density is not a scalar.

    Example:
        >>> import jax.numpy as jnp
        >>> import ppl
        >>> def banana(position, bend):
        ...     x, y = position["x"], position["y"]
        ...     return -0.5 * x**2 - 0.5 * (y - bend * x**2) ** 2
        >>> model = ppl.from_density(banana, {"x": 0.0, "y": 0.0})
        >>> ppl.log_density(model)({"x": 1.0, "y": 0.5}, 0.5).item()
        -0.5
    """
    if not callable(log_density):
        raise TypeError(
            "from_density: log_density must be a function of a position, log_density(position, "
            f"*args), got {short_repr(log_density)}."
        )
    leaves, tree = jax.tree_util.tree_flatten_with_path(position)
    if not leaves:
        raise ValueError(
            f"from_density: position must have at least one array, got {position!r}. Give arrays "
            "of the shapes that log_density expects, zeros say."
        )
    sites = tuple((_site_path(keys), _flat_prior(keys, leaf)) for keys, leaf in leaves)
    paths = [path for path, _ in sites]
    if len({*paths}) < len(paths):
        raise ValueError(f"from_density: two leaves of position have one name, of {paths}.")
    return Partial(_DensityModel(tree, sites), as_pytree(log_density))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FlatPrior:
    """Improper distribution whose density is 1 at every finite real number."""

    batch_shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    dtype: np.dtype = dataclasses.field(metadata={"static": True})

    event_shape: ClassVar[tuple[int, ...]] = ()
    is_closed: ClassVar[bool] = True
    support: ClassVar[Reals] = Reals()
    bijector: ClassVar[Identity] = Identity()

    def log_prob(self, value: Any) -> jax.Array:
        """0 at finite numbers and -inf elsewhere."""
        zero = np.zeros((), self.dtype)
        infinity = np.array(-np.inf, self.dtype)
        return jnp.where(self.support.check(value), zero, infinity)

    def sample(self, key: jax.Array) -> NoReturn:
        """Raise an error: an improper distribution has no draws."""
        del key
        raise NotImplementedError(
            "a model of ppl.from_density has no prior to draw from, as its sites are improper. "
            "Give the value, by ppl.condition say, or start from init='uniform'"
        )


@dataclasses.dataclass(frozen=True)
class _DensityModel:
    """Function of a log density, a key and arguments: samples each site, then adds the factor."""

    tree: Any
    sites: tuple[tuple[tuple[str, ...], FlatPrior], ...]

    def __call__(
        self, log_density: Callable[..., Any], key: jax.Array, *args: Any, **kwargs: Any
    ) -> Any:
        check_key("a model of from_density", key)
        scopes: dict[str, Any] = {}
        for path, prior in self.sites:
            scope = scopes
            for name in path[:-1]:
                scope = scope.setdefault(name, {})
            scope[path[-1]] = prior
        drawn = _sample_scope(key, scopes)
        position = jax.tree.unflatten(self.tree, [_value_at(drawn, path) for path, _ in self.sites])
        try:
            value = log_density(position, *args, **kwargs)
        except Exception as error:
            error.add_note(_call_note(position, args, kwargs))
            raise
        factor(_scalar(value), name=_factor_name(scopes))
        return position


def _sample_scope(key: jax.Array, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name. Each inner scope has its own key, as names may recur between scopes."""
    values = {}
    for i, (name, entry) in enumerate(scope.items()):
        if isinstance(entry, FlatPrior):
            values[name] = sample(key, entry, name=name)
        else:
            values[name] = nest(_sample_scope, scope=name)(random.fold_in(key, i), entry)
    return values


def _value_at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for name in path:
        values = values[name]
    return values


def _factor_name(scopes: Mapping[str, Any]) -> str:
    """`"log_density"`, with underscores behind it until no site or scope has the name."""
    name = "log_density"
    while name in scopes:
        name += "_"
    return name


def _call_note(position: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Note on the call of a log density, for the errors that it raises."""
    shown = jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", position)
    arguments = [
        f"position={shown}",
        *map(_kind, args),
        *(f"{k}={_kind(v)}" for k, v in kwargs.items()),
    ]
    return (
        "ppl.from_density: the error came from log_density, which is called with a position and "
        f"the model's arguments, here ({', '.join(arguments)}). JAX transforms it, so that "
        "arrays may be tracers: write it with jax.numpy, and call other code by jax.pure_callback, "
        "with a derivative by jax.custom_jvp."
    )


def _kind(x: Any) -> str:
    dtype = getattr(x, "dtype", None)
    return type(x).__name__ if dtype is None else f"{dtype}{list(np.shape(x))}"


def _scalar(value: Any) -> jax.Array:
    """A log density, checked to be one floating number."""
    try:
        if not jax.tree_util.all_leaves([value]):
            raise TypeError("A pytree is no scalar.")
        array = leaf_values.as_array(value)
    except TypeError as error:
        raise TypeError(
            f"from_density: log_density must return a scalar, got {short_repr(value)}."
        ) from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"from_density: log_density must return a floating scalar, got {array.dtype}"
            f"{list(array.shape)}."
        )
    if array.shape:
        raise ValueError(
            f"from_density: log_density must return a scalar, got {array.dtype}"
            f"{list(array.shape)}. Add up its terms by jnp.sum."
        )
    return array


def _site_path(keys: tuple[Any, ...]) -> tuple[str, ...]:
    """Scopes and name of the site of a leaf."""
    return tuple(map(_name_of_key, keys)) or (_BARE_ARRAY,)


def _name_of_key(key: Any) -> str:
    match key:
        case DictKey(key=name) | FlattenedIndexKey(key=name) | GetAttrKey(name=name):
            return str(name)
        case SequenceKey(idx=index):
            return str(index)
    return str(key)


def _flat_prior(keys: tuple[Any, ...], leaf: Any) -> FlatPrior:
    """The flat prior of the shape and dtype of a leaf."""
    where = f"from_density: position{jax.tree_util.keystr(keys)} must be a floating array"
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        try:
            leaf = jax.eval_shape(leaf_values.as_array, leaf)
        except TypeError as error:
            raise TypeError(f"{where}, got {leaf!r}.") from error
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        raise TypeError(
            f"{where}, got {leaf.dtype}{list(leaf.shape)}. Gradients need real numbers: give what "
            "is discrete to log_density as an argument, or sum over it."
        )
    return FlatPrior(tuple(leaf.shape), jnp.result_type(leaf.dtype))
