"""Threads, one for each core, that call a compiled program for one part of its work each."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import jax
import numpy as np

from inference.runtime.devices import mesh_of_data
from inference.runtime.jax_settings import numbers_of_any_kind
from inference.runtime.xla_options import may_hang


def num_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def call_on_cores(
    program: Any, calls: Sequence[tuple[Any, ...]], on_progress: Callable[[int], None]
) -> list[Any]:
    """Results of a compiled program on the host, in order; on a CPU each core makes calls.

    One core stays idle where calls on all cores may hang. A program of data that are split over
    devices is called by one thread, as it waits until all devices have come to it.

    Args:
        program: The program.
        calls: The arguments of each call.
        on_progress: Function that gets the number of finished calls after each, in this thread.
    """
    is_alone = jax.default_backend() != "cpu" or mesh_of_data(calls[0]) is not None
    num_threads = 1 if is_alone else num_cores() - may_hang(program)
    has_doubles = jax.dtypes.canonicalize_dtype(np.float64) == np.float64

    def call(arguments: tuple[Any, ...]) -> Any:
        with jax.enable_x64(has_doubles), numbers_of_any_kind():  # settings of this thread
            return jax.device_get(program(*arguments))

    with ThreadPoolExecutor(max(1, min(num_threads, len(calls)))) as pool:
        futures = [pool.submit(call, arguments) for arguments in calls]
        try:
            for num_done, future in enumerate(as_completed(futures), 1):
                future.result()
                on_progress(num_done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]
