"""JAX's persistent compilation cache: compiled programs kept on disk for the next process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache


@contextmanager
def compilation_cache(directory: str | os.PathLike[str] | None) -> Iterator[None]:
    """A context in which JAX reads compiled programs from `directory`, and writes new ones there.

    JAX's former settings hold again at its end. Nothing changes if `directory` is `None`.

    Raises:
        TypeError: if `directory` is not a path.
    """
    if directory is None:
        yield
        return
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"cache_dir must be the path of a directory, got {directory!r}")
    settings = {
        "jax_compilation_cache_dir": os.fspath(directory),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    _set(settings)
    try:
        yield
    finally:
        _set(before)


def _set(settings: dict[str, object]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    reset_cache()  # JAX reads these settings only at its first compilation
