"""NumPy's linear algebra on one thread."""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOCK = threading.Lock()
_open: list[Any] = []  # the limit, and for each further context that is open nothing


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS has one thread.

    Where chains use all cores, the threads of a decomposition wait for each other and for cores:
    100 dimensions then take a hundred times as long as on one thread.
    """
    with _LOCK:
        _open.append(None if _open else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            limit = _open.pop()
            if not _open:
                limit.restore_original_limits()


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
