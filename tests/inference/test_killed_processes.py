"""Runs over several processes, one of which is killed: who is told, and the bits of who goes on.

The processes run this file: `jax.distributed` counts from when JAX starts.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np
import pytest

from inference import mcmc
from inference.checkpoints import disk_recorder, state_writer
from inference.checkpoints.disk_recorder import DiskRecorder
from inference.checkpoints.run_folder import RunFolder, folder_of_process
from inference.common.state_leaves import NUM_MEETINGS
from tests.inference.regression import design, posterior
from tests.inference.test_devices import free_port

ROOT = pathlib.Path(__file__).parents[2]
MEETING = 2  # in warm-up, after which process 1 is killed before it has recorded its state
KINDS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}
SETTINGS: dict[str, Any] = {
    "num_warmup": 200,
    "num_draws": 300,
    "num_chains": 32,
    "mass_matrix": "dense",
}


def run(folder: str, mesh: Any = None, num_draws: int = 300) -> Any:
    settings = {**SETTINGS, "num_draws": num_draws}
    return mcmc(
        jax.random.key(2), posterior(), design(), mesh=mesh, checkpoint=folder or None, **settings
    )


def main(port: str, index: str, folder: str, what: str) -> None:
    """Run of one of two processes; `what` is done to it."""
    jax.distributed.initialize(
        f"localhost:{port}",
        num_processes=2,
        process_id=int(index),
        heartbeat_timeout_seconds=20,
        shutdown_timeout_seconds=20,
    )
    mesh = jax.make_mesh((2,), ("device",))
    record = DiskRecorder.record
    state_writer.RECORD_SECONDS = 0.0

    def die(self: Any, state: Any) -> None:
        if what in KINDS and index == "1" and int(state()[NUM_MEETINGS]) == MEETING:
            print(what, flush=True)
            os.kill(os.getpid(), KINDS[what])
        record(self, state)

    DiskRecorder.record = die  # pyright: ignore[reportAttributeAccessIssue]
    result = run(folder, mesh)
    if what == "whole":
        whole = run("", mesh)
        jax.tree.map(np.testing.assert_array_equal, result, whole)
        more = run(folder, mesh, num_draws=350)
        np.testing.assert_array_equal(more.draws["w"][:, :300], whole.draws["w"])
        try:
            run(str(pathlib.Path(folder) / f"process-{index}"), mesh)
        except (ValueError, RuntimeError) as error:
            print(error, flush=True)
    print("end", result.draws["w"].shape, flush=True)


def start(index: int, port: int, folder: pathlib.Path, what: str) -> Any:
    flags = "--xla_force_host_platform_device_count=1"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(port), str(index), str(folder), what],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def meetings(folder: pathlib.Path) -> list[int]:
    """Numbers of meetings before the states of a process: the last one, and the earlier one."""
    own = RunFolder(folder)
    states = [own.read_state(name) for name in ("state.npz", "state.earlier.npz")]
    own.close()
    return [disk_recorder.num_meetings_of(state) for state in states]


@pytest.mark.slow
def test_a_killed_process_is_told_and_all_go_on(tmp_path):
    """Process 0 has recorded a state after a meeting, process 1 has not: all go on before it."""
    port = free_port()
    processes = [start(i, port, tmp_path, "killed") for i in range(2)]
    out, _ = processes[1].communicate(timeout=500)
    assert processes[1].returncode == -signal.SIGKILL, out
    began = time.monotonic()
    _, error = processes[0].communicate(timeout=60)
    assert time.monotonic() - began < 60
    assert processes[0].returncode != 0
    assert "one of them has most likely ended" in error
    assert [meetings(tmp_path / f"process-{i}") for i in range(2)] == [
        [MEETING, MEETING - 1],
        [MEETING - 1, MEETING - 2],
    ]
    with pytest.raises(ValueError, match="is the folder of a run of several processes, 2 of"):
        run(str(tmp_path))
    port = free_port()
    processes = [start(i, port, tmp_path, "whole") for i in range(2)]
    for process in processes:
        out, error = process.communicate(timeout=500)
        assert out.splitlines()[-1] == "end (32, 300, 3)", error
        assert "is the folder of a run of one process" in out or "another process failed" in out
    assert meetings(tmp_path / "process-0")[0] > MEETING + 1


@pytest.mark.slow
def test_a_frozen_process_is_told_by_jax_within_a_minute(tmp_path):
    port = free_port()
    processes = [start(i, port, tmp_path, "frozen") for i in range(2)]
    try:
        while "frozen" not in (line := processes[1].stdout.readline()):
            assert line, processes[1].stderr.read()
        _, error = processes[0].communicate(timeout=60)
    finally:
        processes[1].kill()
        processes[1].communicate()
    assert processes[0].returncode != 0
    assert "JAX distributed service detected fatal errors" in error


def test_a_folder_belongs_to_a_number_of_processes(tmp_path):
    assert folder_of_process(tmp_path / "new", 1, 2) == tmp_path / "new" / "process-1"
    for i in range(3):
        (tmp_path / f"process-{i}").mkdir()
    with pytest.raises(ValueError, match="a run of more processes, as it has process-2, and this"):
        folder_of_process(tmp_path, 0, 2)
    assert folder_of_process(str(tmp_path), 2, 4).name == "process-2"
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"is not the folder of a run: it has \['notes.txt'"):
        folder_of_process(tmp_path, 0, 4)
    (tmp_path / "manifest.json").touch()
    with pytest.raises(ValueError, match="is the folder of a run of one process, and this call is"):
        folder_of_process(tmp_path, 0, 2)


def agreed(monkeypatch, tmp_path, own, others):
    """State that a process agrees on, with pairs of its meetings, and those of others."""
    folder = RunFolder(tmp_path)
    folder.write_manifest({})
    recorder = DiskRecorder(folder, None)
    last, earlier = (None if x is None else {NUM_MEETINGS: np.array(x)} for x in own[:2])
    recorder.state = last if last is None else {**last, "num_drawn": np.array([own[2]])}
    monkeypatch.setattr(
        disk_recorder, "gather_from_processes", lambda x: np.array([x, *others], np.int32)
    )
    try:
        recorder.agree(earlier)
    finally:
        recorder.close()
    return disk_recorder.num_meetings_of(recorder.state)


CASES = {
    "same": ((3, 2, 0), (3, 2, 0), 3),
    "ahead": ((3, 2, 0), (2, 1, 0), 2),
    "behind": ((2, 1, 0), (3, 2, 0), 2),
    "draws": ((5, 4, 100), (5, 4, 70), 5),
    "begins": ((0, None, 0), (-1, -1, 0), -1),
}
WRONG = {
    "far ahead": ((4, 3, 0), (2, 1, 0), "process-0 of 2 has none"),
    "far behind": ((2, 1, 0), (4, 3, 0), "process-1 of 2 has none"),
    "lost": ((5, 4, 100), (-1, -1, 0), "process-1 of 2 has none"),
}


@pytest.mark.parametrize("name", CASES)
def test_processes_agree_on_the_last_common_state(monkeypatch, tmp_path, name):
    own, other, expected = CASES[name]
    assert agreed(monkeypatch, tmp_path, own, [other]) == expected


@pytest.mark.parametrize("name", WRONG)
def test_states_that_do_not_fit_together_are_told(monkeypatch, tmp_path, name):
    own, other, match = WRONG[name]
    with pytest.raises(ValueError, match=match):
        agreed(monkeypatch, tmp_path, own, [other])


if __name__ == "__main__":
    main(*sys.argv[1:])
