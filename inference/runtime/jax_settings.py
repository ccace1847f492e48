"""JAX settings under which inference runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
def numbers_of_any_kind() -> Iterator[None]:
    """A context of one thread in which JAX does not stop at NaN and infinity.

    Some of these numbers are by design, e.g. for values not known yet. Inference reports the others
    itself, by site.
    """
    with jax.debug_nans(False), jax.debug_infs(False):
        yield
