"""What must not be interrupted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_interrupts() -> Iterator[None]:
    """A context in which Ctrl-C does nothing: what is done there ends soon, or all would be lost.

    In other threads than the main one Ctrl-C does nothing anyway.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    if before is None:  # or a handler that Python knows nothing of, and could not bring back
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
