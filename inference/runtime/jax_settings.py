"""JAX settings under which inference runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import jax

from inference.runtime.compilation_cache import compilation_cache


@contextmanager
def settings(cache_dir: str | os.PathLike[str] | None) -> Iterator[None]:
    """A context in which programs are cached in `cache_dir`, and NaN and infinity are allowed.

    Raises:
        TypeError: if `cache_dir` is not a path.
    """
    with numbers_of_any_kind(), compilation_cache(cache_dir):
        yield


@contextmanager
def full_precision() -> Iterator[None]:
    """A context in which matrices are multiplied in the full precision of their dtype.

    On some accelerators JAX multiplies float32 matrices with 10 bits of mantissa by default. A log
    density of many rows is then off by several nats, and no step size gives the acceptance rate
    that a sampler looks for. A precision that the user has chosen, by JAX's setting
    `jax_default_matmul_precision` or in the model, is kept.
    """
    is_chosen = jax.config.jax_default_matmul_precision is not None  # pyright: ignore[reportAttributeAccessIssue]
    with nullcontext() if is_chosen else jax.default_matmul_precision("highest"):
        yield


@contextmanager
def numbers_of_any_kind() -> Iterator[None]:
    """A context of one thread in which JAX does not stop at NaN and infinity.

    Some NaN and infinities are by design, e.g. for values not known yet. Inference reports all
    others itself, by site.
    """
    with jax.debug_nans(False), jax.debug_infs(False):
        yield
