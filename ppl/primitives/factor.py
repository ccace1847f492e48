"""factor: a term of the log density."""

from typing import Any

import jax.numpy as jnp

from ppl.harvest import _values
from ppl.harvest._sow import bind_site
from ppl.harvest._survey import show
from ppl.primitives.sample import check_name
from ppl.primitives.site_kinds import FACTOR


def factor(log_weight: Any, *, name: str) -> None:
    """Add a term to the log density of a model.

    For what is no draw from a distribution: a likelihood with discrete variables summed out, a
    censored observation, a soft constraint. As with a site, a `vmap` that maps it adds it once for
    each element and a scan once for each step; having no key, what nothing maps is added once. In
    a `shard_map` with ``check_vma=False`` each shard adds it.

    Args:
        log_weight: An array of real numbers; all of them are added.
        name: The name of the term, unique within the model and its scope.

    Raises:
        TypeError: If `name` is no string or `log_weight` no array of floats.

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
        array = _values.as_array(log_weight)
    except TypeError as error:
        raise TypeError(f"factor {name!r}: expected an array, got {log_weight!r}.") from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"factor {name!r}: expected a log weight of floats, got {show([array])}. Give the "
            "logarithm of a weight: jnp.where(ok, 0.0, -jnp.inf) for a constraint."
        )
    bind_site(array, tag=FACTOR, name=name, mode="append", note=FACTOR)
