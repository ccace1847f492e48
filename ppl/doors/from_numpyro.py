"""from_numpyro: a model of NumPyro as a model of this library."""

import dataclasses
import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ppl.common.arguments import Arguments
from ppl.core.model_pytree import Model, UnhashableModel, split_partial
from ppl.doors.door_model import DoorModel
from ppl.harvest.function_equality import has_hash
from ppl.harvest.leaf_values import short_repr
from ppl.primitives.sample import check_key

# NumPyro's handlers stand in one list for all threads.
_ONE_THREAD = threading.RLock()


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Model:
    """A model of NumPyro, as it is, as a model of this library.

    Every transformation and every algorithm takes it. Its maps to unconstrained space are those of
    NumPyro, so that both have the same density in both spaces.

    | statement of NumPyro | here |
    |---|---|
    | `sample` | a latent site, drawn from NumPyro's distribution |
    | `sample(obs=)`, `handlers.condition` | an observed site |
    | `sample` in a `plate` | a site with an axis for each plate, named as the plate |
    | `deterministic`, `factor` | the same |
    | `sample` of `Delta` without `obs=` | a deterministic site |
    | `contrib.control_flow.scan`, `cond` | `jax.lax.scan`, `jax.lax.cond` with sites inside |
    | `handlers.mask`, `scale`, `reparam`, `scope`, `do`, `lift` | kept |
    | `infer={"enumerate": "parallel"}` | a discrete latent site, for `marginalize` |

    Indices in data are not checked, as in NumPyro: out of range, JAX takes the nearest entry.

    Args:
        model: A function with statements of NumPyro, or such a function within NumPyro's handlers.
        *args: The first arguments of the model. Arrays and floats among them are data: new ones of
            the same shapes never recompile.
        **kwargs: Further arguments.

    Returns:
        Function of a key, and of the remaining arguments of the model. A pytree, whose leaves are
        the data.

    Raises:
        ImportError: If NumPyro is not installed.
        TypeError: If `model` is not a function.
        NotImplementedError: When the result is called or transformed, at what has no counterpart:
            `numpyro.param`, networks with parameters, `mutable`, `prng_key`, a plate with a
            `subsample_size`, and handlers that give values without a density.
        ValueError: When the result is called or transformed, if the model has no statement of
            NumPyro, or data do not fit their site.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpyro
        >>> import numpyro.distributions as npd
        >>> import ppl
        >>> def rates(counts):
        ...     rate = numpyro.sample("rate", npd.Exponential(1.0))
        ...     with numpyro.plate("day", len(counts)):
        ...         numpyro.sample("count", npd.Poisson(rate), obs=counts)
        >>> model = ppl.from_numpyro(rates, jnp.array([1, 0, 2]))
        >>> round(ppl.log_density(model)({"rate": 1.0}).item(), 3)
        -4.693

    References:
        Phan, Pradhan and Jankowiak, "Composable effects for flexible and accelerated probabilistic
        programming in NumPyro" (2019).
    """
    _check_installed()
    if not callable(model):
        raise TypeError(
            "from_numpyro: expected a model of NumPyro, a function that calls numpyro.sample, got "
            f"{short_repr(model)}. Of an MCMC object, give the function that its kernel was made "
            "of."
        )
    arguments, data = Arguments.split(args, kwargs)
    function = model if has_hash(model) else UnhashableModel(model)
    return DoorModel(_NumPyroModel(function, arguments), data)


def _check_installed() -> None:
    try:
        import numpyro  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"from_numpyro: NumPyro is needed, and cannot be imported ({error}). Install it by "
            "pip install 'harvest-ppl[numpyro]'."
        ) from error


@dataclasses.dataclass(frozen=True)
class _NumPyroModel:
    """Function of a model's data, a key and the remaining arguments.

    Attributes:
        function: The model of NumPyro.
        arguments: The arguments that it was given at once, with placeholders for data.
    """

    function: Callable[..., Any]
    arguments: Arguments

    @property
    def __name__(self) -> str:
        """The name of the function, for errors."""
        function = self._written.func
        return getattr(function, "__name__", type(function).__name__)

    @property
    def _written(self) -> "functools.partial[Any]":
        """The function within NumPyro's handlers and partial functions, with their arguments."""
        function, args, kwargs = split_partial(self.function)
        while callable(within := getattr(function, "fn", None)):
            function, inner, named = split_partial(within)
            args = (*inner, *args)
            kwargs = named | kwargs
        return functools.partial(function, *args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature by the names of the remaining arguments of the model of NumPyro.

        Raises:
            ValueError: If the model has no signature, or one that the first arguments do not fit.
        """
        first, named = self.arguments.join(itertools.repeat(None))
        rest = inspect.signature(functools.partial(self._written, *first, **named))
        own = [inspect.Parameter(x, inspect.Parameter.POSITIONAL_ONLY) for x in ("_data", "_key")]
        return rest.replace(parameters=[*own, *rest.parameters.values()])

    def __repr__(self) -> str:
        return f"from_numpyro({self.__name__})"

    @property
    def without_data(self) -> str:
        """Advice on predictions of sites that the model observes."""
        return (
            "Data stand within the model, by obs=. Give the model without them: in the function "
            "let them be an argument that may be None, as y=None, and leave it out of from_numpyro."
        )

    def data_by_name(self, data: Sequence[Any], /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """All arguments of the model of NumPyro."""
        first, named = self.arguments.join(data)
        written = self._written
        named = {**written.keywords, **named, **kwargs}
        return inspect.signature(written.func).bind(*written.args, *first, *args, **named).arguments

    def __call__(self, data: Sequence[Any], key: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the model of NumPyro; each of its statements becomes a site."""
        from ppl.doors.numpyro_sites import Sites

        check_key("a model of from_numpyro", key)
        first, named = self.arguments.join(data)
        sites = Sites(key)
        args = (*first, *args)
        kwargs = named | kwargs
        try:
            with _ONE_THREAD, sites:
                out = self.function(*args, **kwargs)
        except Exception as error:
            error.add_note(
                f"ppl.from_numpyro: the error came from {self.__name__!r}, called with the "
                f"arguments ({', '.join(_describe(args, kwargs))}), without a key."
            )
            raise
        if not sites.num_statements:
            raise ValueError(
                f"from_numpyro: {self.__name__!r} has no statement of NumPyro, such as "
                "numpyro.sample. A model of ours goes through no door."
            )
        return out


def _describe(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Arguments by dtype and shape, other objects as they print."""

    def describe(x: Any) -> str:
        dtype = getattr(x, "dtype", None)
        return short_repr(x) if dtype is None else f"{dtype}{list(x.shape)}"

    return [*map(describe, args), *(f"{name}={describe(x)}" for name, x in kwargs.items())]
