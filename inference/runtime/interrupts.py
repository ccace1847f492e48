"""Interrupts: sections of code that Ctrl-C must not stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_interrupts() -> Iterator[None]:
    """A context in which Ctrl-C does nothing, for short work that must not be interrupted.

    Threads other than the main one never receive Ctrl-C.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    if before is None:  # or a handler not set by Python, which it could not restore
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
