"""param: a parameter of a guide or a model, to be found by an optimizer."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common.peer_names import explain_name_by_position, explaining_calls
from ppl.harvest import jax_core, leaf_values
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.sowing import bind_site
from ppl.harvest.survey import show
from ppl.primitives.sample import check_name
from ppl.primitives.site_kinds import PARAM

PARAM_VALUE = "param_value"


@explaining_calls(explain_name_by_position("param(value"))
def param(value: Any, *, name: str, support: Any = None) -> Any:
    """A parameter of a guide or a model, which `inference.svi` fits.

    A guide is a function of a random key, as a model is. A parameter has no density. It is sown
    twice:

    | tag | space | value |
    |---|---|---|
    | "param" | unconstrained | ``reap(guide, tag="param")`` gives the initial parameters |
    | "param_value" | the support | the value that the guide works with |

    ``plant(guide, tag="param")`` is the guide as a function of its unconstrained parameters.

    Args:
        value: The initial value: a pytree of arrays of floats, or with a `support` one array.
        name: The name of the parameter, unique within the guide and its scope.
        support: A set from `distributions.constraints`, such as `positive`; by default all numbers.

    Returns:
        The value of the parameter, in the support.

    Raises:
        TypeError: If `name` is not a string, `value` is not an array of floats, or `support` is not
            a set.
        ValueError: If `value` is known to be outside of the support.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> from distributions import constraints
        >>> def guide(key):
        ...     scale = ppl.param(1.0, name="scale", support=constraints.positive)
        ...     return ppl.sample(key, dist.Normal(0.0, scale), name="x")
        >>> ppl.reap(guide, tag="param")(jax.random.key(0))["scale"].item()  # the logarithm of 1
        0.0
    """
    check_name("param", name)
    if support is None:
        inside = bind_site(value, tag=PARAM, name=name, mode="strict", note=PARAM, where="param")
        _check_floats(name, jax.tree.leaves(inside))
    else:
        position = _position(name, value, support)
        site = bind_site(position, tag=PARAM, name=name, mode="strict", note=PARAM, where="param")
        inside = support.bijector.forward(site)
    return bind_site(
        inside, tag=PARAM_VALUE, name=name, mode="strict", note=PARAM_VALUE, where="param"
    )


def _position(name: str, value: Any, support: Any) -> jax.Array:
    """The unconstrained position of an initial value, checked to lie in the support."""
    if not (hasattr(support, "bijector") and hasattr(support, "check")):
        raise TypeError(
            f"param {name!r}: expected a support such as constraints.positive, got {support!r}."
        )
    try:
        array = leaf_values.as_array(value)
    except TypeError as error:
        raise TypeError(f"param {name!r}: expected an array, got {short_repr(value)}.") from error
    _check_floats(name, [array])
    if not jax_core.is_traced(value):
        known = np.asarray(value, array.dtype)
        with jax.ensure_compile_time_eval():
            is_inside = np.asarray(support.check(known))
        if not is_inside.all():
            raise ValueError(
                f"param {name!r}: expected {support.description} to begin with, got "
                f"{_show_outside(known, is_inside)}."
            )
    return support.bijector.inverse(array)


def _show_outside(value: np.ndarray, is_inside: np.ndarray) -> str:
    """A scalar, or the shape of an array and its first entry outside of a support."""
    if not value.ndim:
        return str(value)
    at = tuple(np.argwhere(~is_inside)[0].tolist())
    entry = f" with {value[at]} at {list(at)}" * (is_inside.shape == value.shape)
    return f"{value.dtype}{list(value.shape)}{entry}"


def _check_floats(name: str, leaves: Sequence[jax.Array]) -> None:
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(f"param {name!r}: expected an array of floats, got {show([leaf])}.")
