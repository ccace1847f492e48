"""Independent jobs of a call: one after the other here, or by an executor that the user gives."""

import concurrent.futures
import contextlib
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax

from inference.common.argument_checks import short_repr
from inference.drivers.job_futures import LOSSES, as_finished

_POOL = "concurrent.futures.ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
_GUARD = (
    "define the model at the top of a module, and start the program below "
    "if __name__ == '__main__':"
)
# Settings that a traced program depends on, each with the context that sets it for a thread.
_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "jax_enable_x64": jax.enable_x64,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_numpy_rank_promotion": jax.numpy_rank_promotion,
    "jax_default_prng_impl": jax.default_prng_impl,
    "jax_threefry_partitionable": jax.threefry_partitionable,
    "jax_debug_nans": jax.debug_nans,
    "jax_debug_infs": jax.debug_infs,
}
# A fit has a thread for each core. Two at a time would only wait for each other.
_one_at_a_time = threading.Lock()


class TakesJobs(Protocol):
    """Object with `submit`, as the standard library's ``Executor`` and Dask's ``Client``."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """A future, whose `result` is that of ``function(*args)``."""
        ...


class Jobs:
    """Jobs of a call, checked before anything is computed.

    Attributes:
        where: Name of the public function.
        executor: Object with `submit`, as of the standard library's ``Executor``; or `None`.
        parts: Arguments of the public function that jobs need, by the names that errors use.
    """

    def __init__(self, where: str, executor: Any, parts: Mapping[str, Any]) -> None:
        """Checks an executor, and for processes of the standard library what is sent to them.

        Raises:
            TypeError: if `executor` has no `submit`, or an argument cannot be pickled.
            ValueError: if its processes are forks of this one.
        """
        self.where = where
        self.executor = executor
        self.parts = dict(parts)
        if executor is None:
            return
        if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
            raise TypeError(
                f"{where}: executor must be an object with the method submit of the standard "
                f"library's Executor, as {_POOL}, got {short_repr(executor)}"
            )
        if isinstance(executor, concurrent.futures.ProcessPoolExecutor):
            self._check_start()
            self._check_pickles()

    @classmethod
    def of(
        cls,
        where: str,
        executor: Any,
        key: Any,
        model: Any,
        args: Any,
        kwargs: Mapping[str, Any],
        **more: Any,
    ) -> "Jobs":
        """Jobs made of the arguments of a driver, checked as by the constructor."""
        named = {f"argument {i + 1} of the model": x for i, x in enumerate(args)}
        named |= {f"argument {name} of the model": x for name, x in kwargs.items()}
        return cls(where, executor, {"key": key, "model": model, **named, **more})

    def _check_start(self) -> None:
        context = getattr(self.executor, "_mp_context", None)
        if context is not None and context.get_start_method() == "fork":
            raise ValueError(
                f"{self.where}: the processes of executor are forks of this one, and a fork of a "
                f"process with JAX's threads may hang; start new ones: {_POOL}"
            )

    def _check_pickles(self) -> None:
        """Checks that each part can be pickled, and found by another process.

        Raises:
            TypeError: if one cannot.
        """
        for name, part in self.parts.items():
            try:
                pickled = pickle.dumps(part)
            except Exception as error:
                raise TypeError(
                    f"{self.where}: {name} is sent to the processes of executor, and cannot be "
                    f"pickled: {error}. Functions and classes must be defined at the top of a "
                    "module, not within a function and not by lambda"
                ) from error
            if b"__main__" in pickled and not hasattr(sys.modules["__main__"], "__file__"):
                raise TypeError(
                    f"{self.where}: {name} is sent to the processes of executor, and is defined "
                    "in an interactive session or a notebook, where they cannot find it. Write it "
                    "to a module, a file that is imported"
                )

    def run(
        self,
        function: Callable[..., Any],
        names: Sequence[str],
        arguments: Sequence[tuple[Any, ...]],
        *,
        one_at_a_time: bool,
        record: Callable[[int, Any], None] | None = None,
        on_wait: Callable[[], None] | None = None,
        num_finished: int = 0,
    ) -> Iterator[Any]:
        """Results of `function` for each tuple of arguments, in their order, as they come.

        Args:
            function: Function at the top of a module, whose results do not depend on where it runs.
            names: Name of each job, for errors.
            arguments: Arguments of each job.
            one_at_a_time: Whether the jobs that a process gets wait for each other.
            record: Function of the number of a job and its result, called in this thread when the
                job is finished, also where jobs before it are not.
            on_wait: Function called now and then while jobs are with an executor.
            num_finished: Number of further jobs of the call, which are finished already.

        Raises:
            RuntimeError: if a job fails under an executor, or the executor takes or does none.
        """
        if self.executor is None:
            for i, given in enumerate(arguments):
                result = function(*given)
                if record is not None:
                    record(i, result)
                yield result
            return
        call = _settings_now(), one_at_a_time, function
        futures: list[Any] = []
        early: dict[int, Any] = {}
        num_yielded = 0
        try:
            for name, given in zip(names, arguments, strict=True):
                futures.append(self._submit(name, _run_job, *call, *given))
            waited = as_finished(self.where, self.executor, futures, on_wait)
            for i, result in self._gather(call, names, arguments, waited, num_finished):
                if record is not None:
                    record(i, result)
                early[i] = result
                while num_yielded in early:
                    yield early.pop(num_yielded)
                    num_yielded += 1
        finally:  # an error or an interrupt: what has not begun is not wanted
            for future in futures:
                if hasattr(future, "cancel"):
                    future.cancel()

    def _submit(self, name: str, *given: Any) -> Any:
        """The future of a job; `None` if the executor is broken."""
        try:
            future = self.executor.submit(*given)
        except concurrent.futures.BrokenExecutor:
            return None
        except Exception as error:
            self._raise(name, error, "is not taken by executor")
        if not callable(getattr(future, "result", None)):
            raise TypeError(
                f"{self.where}: executor.submit must return a future, an object with the method "
                f"result, got {short_repr(future)}"
            )
        return future

    def _gather(
        self,
        call: tuple[Any, ...],
        names: Sequence[str],
        arguments: Sequence[tuple[Any, ...]],
        finished: Iterator[tuple[int, Callable[[], Any]]],
        num_finished: int,
    ) -> Iterator[tuple[int, Any]]:
        """Numbers and results of jobs as they finish; lost ones are done here, after all others."""
        lost: dict[int, Exception] = {}
        for i, outcome in finished:
            try:
                result = outcome()
            except LOSSES as error:
                lost[i] = error
                continue
            except Exception as error:
                self._raise(names[i], error, "failed")
            yield i, result
        if lost:
            self._tell_of_loss(names, lost, num_finished)
        for i in sorted(lost):
            try:
                result = _run_job(*call, *arguments[i])
            except Exception as error:
                self._raise(names[i], error, "failed")
            yield i, result

    def _tell_of_loss(
        self, names: Sequence[str], lost: Mapping[int, Exception], num_finished: int
    ) -> None:
        """Warns of lost jobs.

        Raises:
            RuntimeError: if all are lost.
        """
        first = min(lost)
        error = lost[first]
        why = " ".join(str(error).split())
        num_jobs = len(names) + num_finished
        if len(lost) == num_jobs:
            raise RuntimeError(
                f"{self.where}: no job is done, as a worker of executor ended before its job was "
                f"finished ({why}). It was killed, has run out of memory, or could not import "
                f"the model: {_GUARD} What the worker says stands on its standard error. Make a "
                "new executor, with fewer workers if memory is short"
            ) from error
        warnings.warn(
            f"{self.where}: a worker of executor, or its scheduler, ended before a job was "
            f"finished ({why}): it was killed, or has run out of memory. {len(lost)} of "
            f"{num_jobs} jobs are lost, {names[first]} the first, and are done in this process "
            "now, one after the other; the result is the same. Next time make a new executor, with "
            "fewer workers if memory is short",
            RuntimeWarning,
            stacklevel=4,
        )

    def _raise(self, name: str, error: Exception, what: str) -> Any:
        """Raises an error that names a job, or the argument that could not be sent."""
        words = f"{type(error).__name__} {error}".lower()
        if "pickl" in words or "local object" in words:
            self._check_pickles()
        raise RuntimeError(
            f"{self.where}: {name} {what}: {type(error).__name__}: {error}"
        ) from error


def _settings_now() -> dict[str, Any]:
    """Settings of JAX in this thread."""
    return {name: getattr(jax.config, name) for name in _SETTINGS}


@contextlib.contextmanager
def _with_settings(values: Mapping[str, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(_SETTINGS[name](value))
        yield


def _run_job(
    values: Mapping[str, Any], one_at_a_time: bool, function: Callable[..., Any], *given: Any
) -> Any:
    """A job, under the settings of JAX of the thread that submitted it."""
    alone = _one_at_a_time if one_at_a_time else contextlib.nullcontext()
    with alone, _with_settings(values):
        return function(*given)
