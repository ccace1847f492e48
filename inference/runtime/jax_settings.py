"""The settings of JAX under which inference runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from inference.runtime.compilation_cache import compilation_cache


@contextmanager
def settings(cache_dir: str | os.PathLike[str] | None) -> Iterator[None]:
    """A context in which compiled programs are kept in `cache_dir`, and numbers may be of any kind.

    Raises:
        TypeError: if `cache_dir` is no path.
    """
    with numbers_of_any_kind(), compilation_cache(cache_dir):
        yield


@contextmanager
def numbers_of_any_kind() -> Iterator[None]:
    """A context, of one thread, where JAX does not stop at NaN and infinities.

    There are some by design, as where nothing is known yet; of others inference tells, by site.
    """
    with jax.debug_nans(False), jax.debug_infs(False):
        yield
