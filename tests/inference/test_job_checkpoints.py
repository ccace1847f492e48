"""Folders of independent jobs: what is kept, made again, compared, and said of damage."""

import concurrent.futures
import json
import shutil
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inference
from inference.checkpoints import job_folder, state_writer
from inference.checkpoints.run_folder import RunFolder
from inference.drivers.job_checkpoints import open_jobs, run_jobs
from inference.drivers.jobs import Jobs
from tests.inference.test_checkpoints import full, spoil

RESULTS = [
    {"a": np.arange(3.0) + i, "words": [f"no {i}"], "none": None, "pair": (i, np.bool_(i % 2))}
    for i in range(5)
]
begun = []


def make(i):
    begun.append(i)
    if i == 3 and 3 in failing:
        raise KeyboardInterrupt
    return RESULTS[i]


failing = set()


def call(folder, executor=None, **given):
    names = [f"job {i}" for i in range(5)]
    begun.clear()
    jobs = Jobs("here", executor, {})
    with open_jobs(folder, "here", lambda: {"key": 0} | given) as record:
        return [*run_jobs(jobs, record, make, names, lambda i: (i,), one_at_a_time=True)]


@pytest.fixture
def interrupted(tmp_path):
    failing.add(3)
    with pytest.raises(KeyboardInterrupt):
        call(tmp_path)
    failing.clear()
    return tmp_path


def same(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    jax.tree.map(np.testing.assert_array_equal, one, two)


def test_jobs_that_are_finished_are_not_made_again(interrupted):
    same(call(interrupted), RESULTS)
    assert begun == [3, 4]
    same(call(interrupted), RESULTS)
    assert begun == []
    same(call(None), RESULTS)
    assert begun == [0, 1, 2, 3, 4]


def test_only_what_is_lacking_goes_to_an_executor(interrupted):
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        same(call(interrupted, threads), RESULTS)
    assert begun == [3, 4]


@pytest.fixture
def slow_disk(monkeypatch):
    monkeypatch.setattr(job_folder, "_FREE_SECONDS", -1.0)
    monkeypatch.setattr(job_folder, "_MAX_SHARE", -1.0)


@pytest.mark.usefixtures("slow_disk")
def test_jobs_that_come_fast_are_written_together_at_the_end(tmp_path):
    call(tmp_path)
    assert sorted(x.name for x in tmp_path.glob("jobs*")) == ["jobs.0.npz", "jobs.1.npz"]
    same(call(tmp_path), RESULTS)
    assert begun == []


@pytest.mark.usefixtures("slow_disk")
def test_what_waits_is_written_while_others_are_made(monkeypatch, tmp_path):
    monkeypatch.setattr(state_writer, "RECORD_SECONDS", 0.05)
    monkeypatch.setattr(state_writer, "_MAX_SHARE", 1.0)

    def make_slowly(i):
        deadline = time.monotonic() + 20
        while i == 3 and held() < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        return held()

    def held():
        files = [np.load(x)["structure"].item() for x in tmp_path.glob("jobs*.npz")]
        return sum(len(json.loads(x)["dict"]) for x in files)

    with (
        concurrent.futures.ThreadPoolExecutor(1) as threads,
        open_jobs(tmp_path, "here", dict) as record,
    ):
        jobs = Jobs("here", threads, {})
        names = [*"abcd"]
        found = [*run_jobs(jobs, record, make_slowly, names, lambda i: (i,), one_at_a_time=True)]
    assert found[3] == 3


def test_lost_jobs_are_done_here_if_others_are_in_the_folder(interrupted):
    class Broken:
        def submit(self, function, /, *args):
            raise concurrent.futures.BrokenExecutor("a process died")

    with pytest.warns(RuntimeWarning, match="2 of 5 jobs are lost, job 3 the first, and are done"):
        same(call(interrupted, Broken()), RESULTS)


def test_dtypes_and_keys_come_back(tmp_path):
    value = {"half": jnp.ones(2, jnp.bfloat16), "key": jax.random.key(3), "flag": np.zeros(2, bool)}
    with open_jobs(tmp_path, "here", dict) as record:
        assert record is not None
        record.record(7, value)
    with open_jobs(tmp_path, "here", dict) as record:
        assert record is not None
        assert [7 in record, 0 in record] == [True, False]
        found = record.take(7)
    assert [x.dtype for x in found.values()] == [x.dtype for x in value.values()]
    same(jax.random.key_data(found.pop("key")), jax.random.key_data(value.pop("key")))
    same(found, jax.tree.map(np.asarray, value))


def test_another_call_is_refused_and_said(interrupted):
    before = {x.name: x.read_bytes() for x in interrupted.iterdir() if x.name != "lock"}
    with pytest.raises(ValueError, match=r"another run(.|\n)*key: the run has 0, the call 1"):
        call(interrupted, key=1)
    with (
        pytest.raises(ValueError, match="the folder of a run of here, not of there"),
        open_jobs(interrupted, "there", dict),
    ):
        pass
    with pytest.raises(ValueError, match=r"a run of here, not of chains: call inference\.here"):
        inference.resume(interrupted, make)
    assert before == {x.name: x.read_bytes() for x in interrupted.iterdir() if x.name != "lock"}


@pytest.mark.parametrize("how", ["truncated", "emptied", "first", "middle", "last"])
def test_a_damaged_file_of_jobs_is_named(interrupted, how):
    spoil(interrupted / "jobs.1.npz", how)
    with pytest.raises(ValueError, match=r"^jobs\.1\.npz in .* is damaged: .* differs.* remove it"):
        call(interrupted)
    (interrupted / "jobs.1.npz").unlink()
    same(call(interrupted), RESULTS)
    assert begun == [1, 3, 4]


def test_a_file_of_another_run_is_named(interrupted, tmp_path):
    call(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "jobs.1.npz", interrupted)
    with pytest.raises(ValueError, match=r"^jobs\.1\.npz .* is damaged: it is of another run"):
        call(interrupted)


def test_a_full_disk_loses_no_result(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_state", full)
        with pytest.warns(RuntimeWarning, match=" cannot be written: No space|has not the end"):
            same(call(tmp_path), RESULTS)
    same(call(tmp_path), RESULTS)
    assert begun == [0, 1, 2, 3, 4]
