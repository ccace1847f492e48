"""state and update_state: arrays that a fit carries from step to step, such as running means."""

from typing import Any

import jax

from ppl.common.networks import named_arrays
from ppl.harvest.sowing import bind_site
from ppl.primitives.sample import check_name
from ppl.primitives.site_kinds import NEW_STATE, STATE


def state(value: Any, *, name: str) -> Any:
    """State of a model or a guide, which `inference.svi` carries from step to step.

    State is what a step reads and the step before has written, such as the running mean and
    variance of batch normalization. It is no parameter: it has neither a density nor a gradient.
    `update_state` gives its next value.

    | where | value |
    |---|---|
    | the first step of a fit, and outside of fits | `value` |
    | each other step of a fit | what the step before has given `update_state` |
    | in ``ppl.with_params(model, values, state)`` | the state of a fit |

    It is sown under the tag "state": a single array as it is, a tree as a dict of its arrays by
    path, such as ``{"bn.mean": mean, "bn.var": var}``. Random keys and what is not an array stay as
    they are in `value`. State is made outside of loops and conds, such as `jax.lax.scan` and
    `jax.lax.cond`, and used inside.

    Args:
        value: The initial state: a number or a pytree of arrays, such as a collection of Flax or an
            `equinox.nn.State`.
        name: The name of the state, unique within the model or guide and its scope.

    Returns:
        The state at the beginning of the step, of the structure of `value`.

    Raises:
        TypeError: If `name` is not a string, or `value` has no arrays.

    Example:
        >>> import jax, jax.numpy as jnp, inference, ppl, distributions as dist
        >>> def model(key, x):
        ...     mean = ppl.state(jnp.zeros(()), name="mean")
        ...     ppl.update_state(0.9 * mean + 0.1 * x.mean(), name="mean")
        ...     slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        ...     return ppl.sample(key, dist.Normal(slope * (x - mean), 1.0), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.zeros(3)})
        >>> result = inference.svi(jax.random.key(0), posterior, jnp.ones(3), num_steps=2)
        >>> round(float(result.model_state["mean"]), 2)  # 0.9 * 0.1 + 0.1
        0.19
    """
    check_name("state", name)
    return _sow(value, STATE, name)


def update_state(value: Any, *, name: str) -> None:
    """The next value of a state, for the next step of a fit.

    Outside of a fit nothing happens. Where a step evaluates the model for several particles, or
    under a `vmap` of the model itself, there are several next values: floats become their mean,
    other arrays the first. Any other axis that the `state` does not have is an error of the fit. A
    second update in a step replaces the first.

    Args:
        value: The next value, with the structure, shapes and dtypes of the `state`: all parts of
            it, also those that stay as they are.
        name: The name of the state.

    Raises:
        TypeError: If `name` is not a string, or `value` has no arrays.

    Example:
        >>> import jax.numpy as jnp, ppl
        >>> def step(x):
        ...     count = ppl.state(jnp.int32(0), name="count")
        ...     ppl.update_state(count + 1, name="count")
        >>> ppl.reap(step, tag="new_state")(0.0)["count"].item()
        1
    """
    check_name("update_state", name)
    _sow(value, NEW_STATE, name)


def _sow(value: Any, tag: str, name: str) -> Any:
    function = "state" if tag == STATE else "update_state"
    arrays, rebuild = named_arrays(value, f"{function} {name!r}")
    mode = "strict" if tag == STATE else "clobber"
    arrays = jax.tree.map(jax.lax.stop_gradient, arrays)
    return rebuild(bind_site(arrays, tag=tag, name=name, mode=mode, note=tag, where=function))
