"""Futures of an executor, waited for as they finish; and words where none does for long."""

import concurrent.futures
import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# Outcomes of a lost job. Dask cancels jobs if its scheduler ends.
LOSSES = concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError
_MIN_POLL = 0.001  # seconds between two looks at the futures
_MAX_POLL = 0.1
_FETCH_SECONDS = 10.0  # for the result of a finished job to come, doubled each time it does not
_SILENCE_SECONDS = 20.0  # without a finished job, after which workers are counted
_STALL_SECONDS = 45.0  # without a finished job, after which a stall is told
_STALL_RATIO = 5.0  # of a stall to the longest time without a finished job before


def as_finished(
    where: str,
    executor: Any,
    futures: Sequence[Any],
    on_wait: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Numbers of futures as they finish, and functions that return their results or raise.

    Args:
        where: Name of the public function, for warnings.
        executor: The executor.
        futures: Futures; `None` stands for one that a broken executor did not give. One without
            `done` is waited for in its turn.
        on_wait: Function called now and then while none is finished.
    """
    watch = _Watch(where, executor, len(futures))
    pending = dict(enumerate(futures))
    patience = dict.fromkeys(pending, _FETCH_SECONDS)
    pause = _MIN_POLL
    while pending:
        finished = [i for i, future in pending.items() if _is_done(future)]
        if not finished and any(not hasattr(x, "done") for x in pending.values()):
            finished = [next(iter(pending))]
        num_before = len(pending)
        for i in finished:
            try:
                result = _fetch(pending[i], patience[i])
            except _LostOnTheWayError:
                patience[i] *= 2
                continue
            except Exception as error:
                outcome = functools.partial(_raise, error)
            else:
                outcome = functools.partial(_same, result)
            del pending[i]
            watch.finish()
            yield i, outcome
        if len(pending) < num_before:
            pause = _MIN_POLL
        elif pending:
            watch.look(len(pending))
            if on_wait is not None:
                on_wait()
            time.sleep(pause)
            pause = min(2 * pause, _MAX_POLL)


class _LostOnTheWayError(Exception):
    """A finished job whose result did not come.

    Dask makes the job anew if its worker has ended, and cancels it if its scheduler has.
    """


def _is_done(future: Any) -> bool:
    return future is None or (hasattr(future, "done") and future.done())


def _fetch(future: Any, patience: float) -> Any:
    """Result of a finished job, or of one whose future has no `done`."""
    if future is None:
        raise concurrent.futures.BrokenExecutor("it takes no more jobs")
    if not hasattr(future, "status"):
        return future.result()
    try:
        return future.result(timeout=patience)
    except OSError as error:  # also a timeout
        if future.status == "error":
            raise
        raise _LostOnTheWayError from error


def _same(result: Any) -> Any:
    return result


def _raise(error: Exception) -> Any:
    raise error


class _Watch:
    """Clock of finished jobs that tells in words if none finishes for long."""

    def __init__(self, where: str, executor: Any, num_jobs: int) -> None:
        self.where = where
        self.executor = executor
        self.num_jobs = num_jobs
        self.longest: float | None = None  # seconds without a finished job so far
        self.last = time.monotonic()
        self._restart()

    def _restart(self) -> None:
        self.ask_after = _SILENCE_SECONDS
        self.tell_after = max(_STALL_SECONDS, _STALL_RATIO * (self.longest or 0.0))

    def finish(self) -> None:
        """A job is finished."""
        now = time.monotonic()
        self.longest = max(self.longest or 0.0, now - self.last)
        self.last = now
        self._restart()

    def look(self, num_pending: int) -> None:
        """Warns if there are no workers, or no job is finished for much longer than before."""
        silence = time.monotonic() - self.last
        if silence >= self.ask_after:
            self.ask_after = 2 * silence
            if _has_no_workers(self.executor):
                self._warn(
                    f"executor has no workers, and {num_pending} of {self.num_jobs} jobs wait for "
                    "new ones: workers have ended, or none has begun. Start workers, or interrupt"
                )
                self.tell_after = 2 * silence
        if self.longest is not None and silence >= self.tell_after:
            self.tell_after = 2 * silence
            self._warn(
                f"no job is finished for {silence:.0f} s, where it took {self.longest:.0f} s at "
                f"most before, and {num_pending} of {self.num_jobs} are not. These are longer, or "
                "a worker has ended and executor does not tell. The call waits for it; interrupt "
                "if workers do nothing. With checkpoint= the same call goes on from the finished "
                "jobs"
            )

    def _warn(self, words: str) -> None:
        warnings.warn(f"{self.where}: {words}", RuntimeWarning, stacklevel=6)


def _has_no_workers(executor: Any) -> bool:
    """Whether an executor that can tell, as Dask's client, has no workers."""
    try:
        return not executor.scheduler_info()["workers"]
    except Exception:
        return False
