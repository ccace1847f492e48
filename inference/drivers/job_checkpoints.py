"""Checkpoints of independent jobs: the folder of a call, new or begun, and jobs that it lacks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from inference.checkpoints.job_folder import JobFolder
from inference.checkpoints.manifest import compare_manifests, describe_platform
from inference.checkpoints.run_folder import RunFolder
from inference.drivers.jobs import Jobs
from inference.runtime.devices import default_device


@contextmanager
def open_jobs(
    checkpoint: Any, driver: str, describe: Callable[[], Mapping[str, Any]]
) -> Iterator[JobFolder | None]:
    """Folder with the finished jobs of a call; `None` without a checkpoint.

    Args:
        checkpoint: Path of the folder, or `None`.
        driver: Name of the public function.
        describe: Function without arguments, called if there is a checkpoint. It returns all that
            decides the results of the jobs and their numbers, by the names that errors use: values
            that JSON can hold, see :mod:`inference.drivers.run_description`. Entries whose name
            ends with " program" are not compared between versions of JAX.

    Raises:
        OSError: if the folder cannot be written.
        TypeError: if `checkpoint` is not a path.
        ValueError: if the folder has another call, is damaged or in use.
    """
    if checkpoint is None:
        yield None
        return
    folder = RunFolder(checkpoint)
    try:
        manifest = describe_platform(driver, [default_device()]) | dict(describe())
        old = folder.read_manifest()
        if old is None:
            folder.write_manifest(manifest)
        else:
            compare_manifests(folder.name, old, manifest)
        recorder = JobFolder(folder)
    except BaseException:
        folder.close()
        raise
    try:
        yield recorder
    finally:
        recorder.close()


def run_jobs(
    jobs: Jobs,
    folder: JobFolder | None,
    function: Callable[..., Any],
    names: Sequence[str],
    arguments: Callable[[int], tuple[Any, ...]],
    *,
    one_at_a_time: bool,
) -> Iterator[Any]:
    """Results of jobs in their order, as they come: from a folder, or else made and recorded.

    A job is recorded when it is finished, also where jobs before it are not.

    Args:
        jobs: Where jobs are made.
        folder: Folder of the call, or `None`.
        function: Function at the top of a module, as for :meth:`Jobs.run`. With a folder, it
            returns arrays, numbers and strings in dicts, lists and tuples.
        names: Name of each job, for errors.
        arguments: Function of the number of a job that returns its arguments, called for the jobs
            that the folder lacks.
        one_at_a_time: Whether the jobs that a process gets wait for each other.

    Raises:
        RuntimeError: if a job fails under an executor, or the executor takes or does none.
    """
    lacking = [i for i in range(len(names)) if folder is None or i not in folder]

    def record(place: int, result: Any) -> None:
        if folder is not None:
            folder.record(lacking[place], result)

    made = jobs.run(
        function,
        [names[i] for i in lacking],
        [arguments(i) for i in lacking],
        one_at_a_time=one_at_a_time,
        record=record,
        on_wait=None if folder is None else folder.write_if_due,
        num_finished=len(names) - len(lacking),
    )
    for i in range(len(names)):
        yield folder.take(i) if folder is not None and i in folder else next(made)
