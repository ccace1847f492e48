"""BLAS threads: NumPy's linear algebra limited to one thread."""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOCK = threading.Lock()
_open: list[Any] = []  # one entry per open context: the limit first, then `None`


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS has one thread.

    While chains use all cores, the threads of a matrix decomposition wait for each other and for
    cores. A decomposition of 100 dimensions then takes a hundred times as long as on one thread.
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
