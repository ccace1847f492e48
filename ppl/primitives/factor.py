"""factor: a term of the log density."""

from typing import Any

import jax.numpy as jnp

from ppl.common.peer_names import explain_name_by_position, explaining_calls
from ppl.harvest import leaf_values
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.sowing import bind_site
from ppl.harvest.survey import show
from ppl.primitives.sample import check_name
from ppl.primitives.site_kinds import FACTOR


@explaining_calls(explain_name_by_position("factor(log_weight"))
def factor(log_weight: Any, *, name: str) -> None:
    """Add a term to the log density of a model.

    Use it for a likelihood with discrete variables summed out, a censored observation or a soft
    constraint. How often the term is added depends on the construct around it:

    | construct | the term is added |
    |---|---|
    | `vmap` that maps `log_weight` | once for each element |
    | `vmap` that does not map it | once |
    | scan | once for each step |
    | `shard_map` with ``check_vma=False`` | once for each shard |

    Args:
        log_weight: An array of floats; the term is their sum.
        name: The name of the term, unique within the model and its scope.

    Raises:
        TypeError: If `name` is not a string or `log_weight` is not an array of floats.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ...     ppl.factor(-3.0 * x, name="tilt")
        >>> ppl.log_probs(model)({"x": 2.0})["tilt"].item()
        -6.0
    """
    check_name("factor", name)
    try:
        array = leaf_values.as_array(log_weight)
    except TypeError as error:
        found = short_repr(log_weight)
        raise TypeError(f"factor {name!r}: expected an array, got {found}.") from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"factor {name!r}: expected a log weight of floats, got {show([array])}. Give the "
            "logarithm of a weight: jnp.where(ok, 0.0, -jnp.inf) for a constraint."
        )
    bind_site(array, tag=FACTOR, name=name, mode="append", note=FACTOR)
