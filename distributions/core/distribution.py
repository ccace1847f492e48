"""The base class of distributions: public methods, written once over a private core."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.bijectors import Bijector
from distributions.common.arrays import fault_of_range, stack, summarize
from distributions.common.batch_axes import is_misaligned
from distributions.common.method_hints import ExplainsMethods
from distributions.common.point import Point
from distributions.constraints import Constraint
from distributions.core.draw_checks import count_cut_off, warn_of_cut_off
from distributions.core.eager_jit import call_compiled
from distributions.core.exponential_family import ExponentialFamily
from distributions.core.quantile import quantile
from distributions.core.standard_form import StandardForm

Shape = tuple[int, ...]


class Distribution(ExplainsMethods, abc.ABC):
    """A family of probability distributions with its parameters.

    A distribution is a pytree whose leaves are its parameters. Shapes and dtype are properties,
    computed from the leaves: `jax.vmap` may flatten a distribution, map its leaves and put it
    together again. New axes have to be in front (`out_axes=0`).

    A draw has shape `sample_shape + batch_shape + event_shape`.

    Attributes:
        support: The set of values with positive density.
        is_closed: Whether the methods depend on leaves and structure alone, so that compiled
            methods may be cached.
        ignores_values: Whether the density may be 1 for values outside of the support.
    """

    support: Constraint
    is_closed: ClassVar[bool] = False
    ignores_values: ClassVar[bool] = False

    @property
    def is_reparameterized(self) -> bool:
        """Whether draws are differentiable functions of the parameters.

        Gradients of draws then estimate gradients of expectations without bias.
        """
        return not self.support.is_discrete

    @property
    @abc.abstractmethod
    def batch_shape(self) -> Shape:
        """The shape of independent distributions that the parameters hold."""

    @property
    @abc.abstractmethod
    def event_shape(self) -> Shape:
        """The shape of one draw of one distribution."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype:
        """The dtype of draws."""

    def _event_ranks(self) -> tuple[int | None, Shape]:
        """The least number of batch axes, and the number of axes of each child behind them.

        The first is None where it is unknown which axes of the children are batch axes.
        """
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType]
        return 0, tuple(0 for f in fields if not f.metadata.get("static"))

    def mean(self) -> Array:
        """The expectation, of shape `batch_shape + event_shape`; NaN where none exists."""
        return self._computed("mean")

    def variance(self) -> Array:
        """The variance of each entry, of shape `batch_shape + event_shape`."""
        return self._computed("variance")

    def mode(self) -> Array:
        """The value of greatest density, or a limit of such, of shape `batch_shape + event_shape`.

        If several values have the greatest density, the mode is one of them.
        """
        return self._computed("mode")

    def entropy(self) -> Array:
        """The expectation of `-log_prob`, in nats, of shape `batch_shape`."""
        return self._computed("entropy")

    def _computed(self, name: str) -> Array:
        self._check_alignment()
        return call_compiled(self, "_moment", name)

    def _moment(self, name: str) -> Array:
        """`mean`, `variance`, `mode` or `entropy`."""
        self._lacks(name)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        """`cdf`, `survival` or the logarithm of one, for a value of a fitting shape."""
        self._lacks(name)

    def _quantile(self, q: Array) -> Array:
        """`quantile` for an array of a fitting shape."""
        return quantile(self, q)

    def _exceeds(self, q: Array, value: Array) -> Array:
        """Whether `cdf(value) >= q`, computed in the tail in which `q` lies."""
        return jnp.where(q <= 0.5, self.cdf(value) >= q, self.survival(value) <= 1 - q)

    def _lacks(self, name: str) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__} has no {name} that is known here; estimate it from draws"
        )

    @abc.abstractmethod
    def _log_prob(self, value: ArrayLike) -> Array:
        """`log_prob` for a value of a fitting shape."""

    @abc.abstractmethod
    def _sample(self, key: Array, shape: Shape) -> Array:
        """Draws of the full shape."""

    @property
    def bijector(self) -> Bijector:
        """The map from unconstrained space onto the support.

        Raises:
            NotImplementedError: The distribution is discrete.
        """
        if self.support.is_discrete:
            raise NotImplementedError(
                f"{type(self).__name__} is discrete, no map from unconstrained space"
            )
        return self.support.bijector

    @property
    def has_standard_form(self) -> bool:
        """Whether there is a `standard_form`."""
        return False

    @property
    def exponential_family(self) -> ExponentialFamily | None:
        """The exponential family in which full conditionals with this prior may lie, if any."""
        return None

    def standard_form(self, centeredness: Any = None) -> StandardForm:
        """A standard variable z, and the maps to and from a draw, as non-centered models need it.

        Args:
            centeredness: A weight c from 0 to 1: z has location `c loc` and scale `scale^c`. None
                is 0 exactly; families that have no location and scale know nothing else.

        Returns:
            `(base, forward, inverse)`: `forward(z)` has this distribution if z has the distribution
            `base`, or is independent standard normal where that is None.

        Raises:
            NotImplementedError: The family has no such form.
        """
        return self._standard_form(centeredness)

    def _standard_form(self, centeredness: Any) -> StandardForm:
        raise NotImplementedError(
            f"{type(self).__name__} has no location and scale to center by, and no factor of a "
            "covariance."
        )

    def log_prob(self, value: ArrayLike) -> Array:
        """The log density (or log mass) at `value`, summed over the event's axes only.

        Outside of the support it is `-inf`, with a gradient of zero. A value of NaN never has a
        finite log density: it is NaN for families on the whole real line, `-inf` for all others.

        Args:
            value: An array that broadcasts with `batch_shape + event_shape` along its batch axes.

        Returns:
            One number per event, in the dtype to which JAX promotes the value (unless the
            distribution is discrete) and the parameters.

        Raises:
            ValueError: The shape of the value does not fit.
        """
        value = self._fitting(value)
        if fault := fault_of_range(value):
            raise ValueError(f"{type(self).__name__}: a value must be held by JAX; got {fault}")
        return call_compiled(self, "_log_prob", value)

    def at_position(self, position: ArrayLike) -> tuple[Array, Array]:
        """The value at an unconstrained position, and its log density, as precise as the position.

        Where the value is rounded to an end of the support, the density is that of the position:
        `log_prob(value)` would be constant there, and lose the mass next to the end.

        Args:
            position: An array that `bijector.forward` takes.

        Returns:
            `bijector.forward(position)`, and `log_prob` there.
        """
        if not self._reads_points:
            value = self.bijector.forward(position)
            return value, self.log_prob(value)
        point = self.bijector.point(position)
        return point.value, self._log_prob_at(point)

    @property
    def _reads_points(self) -> bool:
        """Whether the density is more precise at a point than at its value."""
        return False

    def _log_prob_at(self, point: Point) -> Array:
        """`log_prob` at a point of the bijector."""
        return self.log_prob(point.value)

    def cdf(self, value: ArrayLike) -> Array:
        """The probability of a draw of at most `value`.

        Args:
            value: An array that broadcasts with `batch_shape`; off the support, too.

        Returns:
            One probability per value, in the dtype of `log_prob`.

        Raises:
            NotImplementedError: The draws are not numbers, or no cdf is known.
            ValueError: The shape of the value does not fit.
        """
        return call_compiled(self, "_cumulative", "cdf", self._number(value))

    def log_cdf(self, value: ArrayLike) -> Array:
        """The logarithm of `cdf(value)`, precise where that is tiny."""
        return call_compiled(self, "_cumulative", "log_cdf", self._number(value))

    def survival(self, value: ArrayLike) -> Array:
        """The probability of a draw greater than `value`, precise where it is tiny."""
        return call_compiled(self, "_cumulative", "survival", self._number(value))

    def log_survival(self, value: ArrayLike) -> Array:
        """The logarithm of `survival(value)`, precise where that is tiny."""
        return call_compiled(self, "_cumulative", "log_survival", self._number(value))

    def quantile(self, q: ArrayLike) -> Array:
        """The least value with `cdf(value) >= q`.

        Args:
            q: Probabilities that broadcast with `batch_shape`.

        Returns:
            One value per probability; NaN where `q` is not from 0 to 1 (for integers, one below the
            support). Without a closed form the quantile is found by bisection: exact to the
            precision of `cdf`, and differentiable.

        Raises:
            NotImplementedError: The family has no `cdf`.
            ValueError: The shape of `q` does not fit.
        """
        return call_compiled(self, "_quantile", jnp.asarray(self._number(q)))

    def _number(self, value: ArrayLike) -> ArrayLike:
        if self.event_shape:
            shape = self.event_shape
            raise NotImplementedError(
                f"{type(self).__name__} has draws of shape {shape}, not numbers: no cdf"
            )
        return self._fitting(value)

    def _fitting(self, value: ArrayLike) -> ArrayLike:
        self._check_alignment()
        if value is None or isinstance(value, str):
            name = type(self).__name__
            raise TypeError(f"{name}: a value must be an array of numbers; got {value!r}")
        value = stack(value)
        shape = np.shape(value)
        event_ndims = len(self.event_shape)
        split = len(shape) - event_ndims
        if split < 0 or shape[split:] != self.event_shape:
            self._refuse(shape)
        try:
            np.broadcast_shapes(shape[:split], self.batch_shape)
        except ValueError:
            self._refuse(shape)
        return value

    def _refuse(self, shape: Shape) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__}: a value of shape {shape} does not broadcast with "
            f"batch_shape {self.batch_shape} and event_shape {self.event_shape}"
        )

    def sample(self, key: Array, sample_shape: int | Sequence[int] = ()) -> Array:
        """Independent draws.

        Args:
            key: A typed key (`jax.random.key`) or a legacy one (`jax.random.PRNGKey`).
            sample_shape: The shape in front of the batch shape.

        Returns:
            An array of shape `sample_shape + batch_shape + event_shape` and of dtype `dtype`. A
            number that is too large for this dtype is cut off at its end: a count is the largest
            integer, a floating number the largest one or infinite. There is a warning of it, and of
            NaN, but not within `jax.jit`, where the values are not known: `count_cut_off` counts
            them there. A positive number too small for the dtype is its smallest normal number,
            without a warning.

        Raises:
            TypeError: `key` is not a random key, or a batch of keys.
            ValueError: `sample_shape` does not hold nonnegative integers.
        """
        draws = self.sample_unchecked(key, sample_shape)
        warn_of_cut_off(self, draws)
        return draws

    def sample_unchecked(self, key: Array, sample_shape: int | Sequence[int] = ()) -> Array:
        """Draws of `sample`, without a look at their values and so without a warning."""
        self._check_key(key)
        self._check_alignment()
        front = as_shape(type(self).__name__, sample_shape)
        shape = (*front, *self.batch_shape, *self.event_shape)
        return call_compiled(self, "_sample", key, shape)

    def count_cut_off(self, draws: ArrayLike) -> Any:
        """The number of draws at an end of their dtype, or infinite, where the support goes on."""
        return count_cut_off(self.support, draws)

    def _check_alignment(self) -> None:
        """Raises ValueError if axes that the parameters gained or lost leave no batch."""
        if is_misaligned(self):
            raise ValueError(
                f"{type(self).__name__}: leaves have gained or lost axes so that they are not the "
                f"parameters of a batch; got {self!r}. vmap, scan and stacks must put new axes in "
                "front (out_axes=0, axis=0) and take axes that all parameters have; those of "
                "Custom must then have the same number of axes. Or make the distribution again, "
                "of parameters whose batch axes are aligned from the right"
            )

    def _check_key(self, key: Any) -> None:
        dtype = getattr(key, "dtype", None)
        shape = getattr(key, "shape", None)
        if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
            is_one = shape == ()
        else:
            is_one = dtype == np.uint32 and shape in ((2,), (4,))
        if not is_one:
            raise TypeError(
                f"{type(self).__name__}: sample takes one random key (from jax.random.key or "
                f"jax.random.split); got {key!r}. For several draws, give sample_shape"
            )

    def __repr__(self) -> str:
        """The family with its parameters, arrays abbreviated to dtype and shape."""
        fields = ((f.name, vars(self)[f.name]) for f in dataclasses.fields(self))  # pyright: ignore[reportArgumentType]
        shown = ", ".join(
            f"{name}={summarize(value)}" for name, value in fields if value is not None
        )
        return f"{type(self).__name__}({shown})"


def as_shape(name: str, sample_shape: Any) -> Shape:
    """The shape of draws, given as a shape or as a number.

    Raises:
        ValueError: `sample_shape` does not hold nonnegative integers.
    """
    shape = tuple(sample_shape) if hasattr(sample_shape, "__iter__") else (sample_shape,)
    if any(isinstance(n, float | str) or n is None or (_is_integer(n) and n < 0) for n in shape):
        raise ValueError(
            f"{name}: sample_shape must hold nonnegative integers; got {sample_shape!r}"
        )
    return shape


def _is_integer(n: Any) -> bool:
    return isinstance(n, int | np.integer)


def full(value: Any, shape: Shape, dtype: Any) -> Array:
    """`value` broadcast to `shape`, in `dtype`."""
    return jnp.broadcast_to(jnp.asarray(value, dtype), shape)
