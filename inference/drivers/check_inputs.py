"""Checks of the inputs of all drivers: one random key, and no tracers."""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from inference.models.check_keywords import check_keywords
from ppl.core.model_pytree import name_of
from ppl.harvest.jax_core import is_traced
from ppl.transforms.check_indices import check_indices

_INSTEAD = {
    "mcmc": " inference.sampler is a run as a function for programs.",
    "particle_filter": (
        " The likelihood that it estimates is random and has no gradient, so that NUTS cannot "
        "follow it: inference.mcmc(kernel=inference.PMMH()), or ParticleGibbs(), moves the "
        "parameters of a model with a scan."
    ),
}


def check_inputs(
    driver: Callable[..., Any],
    key: Any,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    *,
    has_keywords: bool = True,
    has_one_data_set: bool = True,
) -> None:
    """Check the key, the model and its arguments before anything is traced.

    Args:
        driver: The driver, whose name is in errors.
        key: The argument `key` of the driver, of any type.
        model: The argument `model` of the driver, of any type.
        args: Positional arguments of the model.
        kwargs: Keyword arguments of the model.
        has_keywords: Whether the driver has keywords of its own besides keywords of the model.
        has_one_data_set: Whether the arguments are one data set, whose indices are checked.

    Raises:
        TypeError: if `key` is not one key, an input is traced, `model` is not a function, or
            a keyword belongs to neither the driver nor the model.
        ValueError: if data index an array of the model out of range.
        RuntimeError: if ``jax_disable_jit`` is set.
    """
    if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
        raise RuntimeError(
            "inference runs compiled programs, which jax_disable_jit forbids. To look into a "
            "model, call it, or ppl.trace or ppl.log_density of it; to infer, do so within "
            "jax.disable_jit(False)."
        )
    dtype = getattr(key, "dtype", None)
    shape = getattr(key, "shape", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ()
    if not is_typed and not (dtype == jnp.uint32 and shape in ((2,), (4,))):
        order = f"the key comes first: inference.{driver.__name__}(key, model, *args)"
        wanted = f"one key; {order}" if callable(key) else "one key, such as jax.random.key(0)"
        raise TypeError(f"key must be {wanted}; got {_describe(key)}")
    check_keywords(driver, model, args, kwargs, has_keywords=has_keywords)
    # Within jax.jit, the array made here is traced, even if no input is.
    if any(map(is_traced, jax.tree.leaves((key, model, args, kwargs, jnp.zeros(()))))):
        raise TypeError(
            f"inference.{driver.__name__} runs in Python and compiles what it needs: call it "
            "outside of jax.jit, jax.vmap and jax.grad, and not within a model. Other keys and "
            "data of the same shapes compile nothing, so a loop of Python over them is fast."
            f"{_INSTEAD.get(driver.__name__, '')}"
        )
    if has_one_data_set:
        check_indices(model, args, kwargs)


def _describe(given: Any) -> str:
    """A model or a value in few words, without the data that it holds."""
    if callable(given):
        return name_of(given)
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return f"an array {given.dtype}{list(given.shape)}"
    return reprlib.repr(given)
