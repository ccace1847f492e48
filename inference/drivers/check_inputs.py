"""Checks of the inputs of all drivers: one random key, and no tracers."""

from typing import Any

import jax
import jax.numpy as jnp

from ppl.harvest._jax import is_traced


def check_inputs(key: Any, model: Any, args: Any, kwargs: Any) -> None:
    """Refuses all but one random key, typed or legacy, and inputs that JAX is tracing.

    Raises:
        TypeError: if `key` is not one key, or if an input is traced.
        RuntimeError: if ``jax_disable_jit`` is set.
    """
    if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
        raise RuntimeError(
            "inference runs compiled programs, which jax_disable_jit forbids. To look into a "
            "model, call it, or ppl.trace or ppl.log_density of it; to infer, do so within "
            "jax.disable_jit(False)."
        )
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ()
    if not is_typed and not (dtype == jnp.uint32 and shape in ((2,), (4,))):
        raise TypeError(f"key must be one key, such as jax.random.key(0), got {key!r}")
    # Within jax.jit, the array made here is traced, even if no input is.
    if any(map(is_traced, jax.tree.leaves((key, model, args, kwargs, jnp.zeros(()))))):
        raise TypeError(
            "inference runs in Python and compiles what it needs: call it outside of jax.jit, "
            "jax.vmap and jax.grad. Other keys and data of the same shapes compile nothing, so a "
            "loop of Python over them is fast."
        )
