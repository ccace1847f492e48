"""Log densities of kernels: the field of a kernel, checks of its values, the Metropolis rule."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from inference.common.argument_checks import as_real


def wrap_log_density(kernel: Any, field: str = "log_density") -> None:
    """Wraps a function in a field of a frozen dataclass in a `Partial`, which is a pytree."""
    function = getattr(kernel, field)
    if callable(function) and not isinstance(function, Partial):
        object.__setattr__(kernel, field, Partial(function))


def require_log_density(
    kernel: Any,
    field: str = "log_density",
    also: str = ", or pass the kernel to inference.mcmc together with a model",
) -> Callable[[Any], Any]:
    """The log density of a kernel.

    Args:
        kernel: The kernel.
        field: Name of the field that holds it.
        also: Another way to supply a log density, in words for the message.

    Raises:
        TypeError: if it is not a function.
        ValueError: if there is none.
    """
    function = getattr(kernel, field)
    if function is None:
        name = type(kernel).__name__
        raise ValueError(f"{name} has no {field}; give it one, {name}({field}=f){also}.")
    if not callable(function):
        raise TypeError(f"{field} must be a function of a position, got {function!r}")
    return function


def check_log_density(given: Any, field: str = "log_density") -> jax.Array:
    """The value of a log density, called by the name of its field in messages.

    Raises:
        TypeError: if it is not a floating-point number.
        ValueError: if it is not a scalar.
    """
    value = as_real(given)
    if value is None or not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{field} must return a floating-point scalar, got {given!r}")
    if value.shape != ():
        raise ValueError(
            f"{field} returned an array of shape {value.shape}; it must return a scalar. "
            "Sum over the axes that are not batched."
        )
    return value


def without_infinity(density: Callable[[Any], jax.Array]) -> Callable[[Any], jax.Array]:
    """A log density that is negative infinity where the given one is positive infinity.

    No chain would leave such a point.
    """

    def finite(point: Any) -> jax.Array:
        found = density(point)
        return jnp.where(jnp.isposinf(found), -jnp.inf, found)

    return finite


def metropolis_rate(
    proposed: jax.Array, present: jax.Array, log_factor: jax.typing.ArrayLike = 0.0
) -> jax.Array:
    """Probability to accept a proposal.

    It is 1 if the present point has no density and the proposal has one, so that chains leave such
    points, and 0 if the density of the proposal or the ratio is not finite.

    Args:
        proposed: Log density of the proposal.
        present: Log density of the present point.
        log_factor: Log ratio of the probabilities of proposals, of the way back to the way there.
    """
    change = proposed - present + jnp.asarray(log_factor, proposed.dtype)
    rate = jnp.where(jnp.isfinite(change), jnp.exp(jnp.minimum(change, 0)), 0)
    return jnp.where(jnp.isfinite(proposed) & ~jnp.isfinite(present), 1, rate)
