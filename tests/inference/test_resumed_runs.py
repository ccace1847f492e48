"""Runs that go on from a folder: where they look, what Ctrl-C leaves, and what they know."""

import itertools
import os
import signal

import jax
import numpy as np
import pytest

import inference
from inference import MEADS, NUTS, Until, mcmc
from inference.chains import chain_threads, sampling, step_run
from inference.checkpoints import disk_recorder, state_writer
from inference.checkpoints.run_folder import RunFolder
from inference.monitoring import monitor
from inference.monitoring.monitor import RunMonitor
from tests.inference.regression import design, posterior
from tests.inference.test_own_kernels import RandomWalk

KEY = jax.random.key(2)
SETTINGS = {"num_warmup": 90, "num_draws": 60, "num_chains": 2}
KERNELS = {
    "own": {"kernel": RandomWalk(scale=0.1)},
    "ensemble": {"kernel": MEADS(), "num_chains": 64},
}


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


def test_a_resumed_run_looks_no_earlier_than_it_has_draws(monkeypatch, tmp_path):
    """At each end, of the rule, of time and of Ctrl-C at a look, it returns all draws it has."""
    go_on = lambda **given: inference.resume(tmp_path, posterior(), design(), **given)  # noqa: E731
    called = SETTINGS | {"num_draws": 5000, "until": Until(ess=200), "checkpoint": tmp_path}
    first = mcmc(KEY, posterior(), design(), **called)
    assert first.draws["w"].shape[1] in (100, 150, 225, 338, 507)
    same(mcmc(KEY, posterior(), design(), **called), first)
    go_on(num_draws=5000)
    for until in (Until(ess=100), Until(seconds=1e-3)):
        assert go_on(until=until).draws["w"].shape[1] == 5000
    assert go_on(num_draws=9000, until=Until(ess=100)).draws["w"].shape[1] == 5783

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(monitor, "summarize", interrupt)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        assert go_on(num_draws=9000, until=Until(ess=1e6)).draws["w"].shape[1] == 5783


@pytest.mark.parametrize(("kernel", "num_draws"), [(NUTS(), 300), (RandomWalk(scale=0.1), 20_000)])
def test_ctrl_c_while_a_state_is_recorded_does_nothing(monkeypatch, tmp_path, kernel, num_draws):
    for module in (chain_threads, sampling, step_run):
        monkeypatch.setattr(module, "CALL_SECONDS", 1e-3)
    monkeypatch.setattr(state_writer, "RECORD_SECONDS", 2e-3)
    monkeypatch.setattr(state_writer, "_MAX_SHARE", 1.0)
    record, pressed = disk_recorder.DiskRecorder.record, []

    def press(*arguments):
        pressed.append(os.kill(os.getpid(), signal.SIGINT))
        record(*arguments)

    def fail(*_):
        raise InterruptedError

    settings = SETTINGS | {"kernel": kernel, "num_draws": num_draws}
    whole = mcmc(KEY, posterior(), design(), **settings)
    monkeypatch.setattr(disk_recorder.DiskRecorder, "record", press)
    before = signal.signal(signal.SIGINT, fail)
    try:
        same(mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **settings), whole)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(pressed) > 2


def test_draws_that_were_written_in_part_are_put_anew(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.write_manifest({})
    recorder = disk_recorder.DiskRecorder(folder, None)
    long = "の" * 80  # more bytes than names of files have, once escaped
    shapes = {"A": np.zeros(2), "a": np.zeros(()), f"{long}1": np.zeros(()), long: np.zeros(())}
    recorder.open((shapes, {}), 3, 10)
    draws = {
        name: np.arange(30.0 * x.size).reshape(3, 10, *x.shape) + i
        for i, (name, x) in enumerate(shapes.items())
    }
    rows = jax.tree.map(lambda x: x[:, 2:], draws)
    recorder.put(0, (draws, {}), np.array([[0, 4, 0, 4]] * 3))
    write, calls = disk_recorder.DiskRecorder._write, itertools.count()

    def fail(*arguments):
        if next(calls) == 4:
            raise KeyboardInterrupt
        write(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(disk_recorder.DiskRecorder, "_write", fail)
        with pytest.raises(KeyboardInterrupt):
            recorder.put(0, (rows, {}), np.array([[4, 9, 2, 7]] * 3))
    recorder.put(0, (rows, {}), np.array([[4, 9, 2, 7]] * 3))
    same(recorder.read(9)[0], jax.tree.map(lambda x: x[:, :9], draws))
    recorder.record(dict)
    recorder.close()
    files = [x.name.lower() for x in tmp_path.iterdir()]
    assert len(set(files)) == len(files) == 7
    folder = RunFolder(tmp_path)
    again = disk_recorder.DiskRecorder(folder, None)
    again.open((shapes, {}), 3, 10)  # its checksums are right
    again.close()


def test_an_error_in_an_argument_leaves_the_folder_free(tmp_path):
    mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(ValueError, match="no site is called 'v'") as kept:
        inference.resume(tmp_path, posterior(), design(), until=Until(mcse={"v": 0.1}))
    with pytest.raises(ValueError, match="num_draws must be"):
        inference.resume(tmp_path, posterior(), design(), num_draws=0)
    inference.resume(tmp_path, posterior(), design())
    assert kept  # whose traceback holds what the call had


def test_a_resumed_run_knows_its_starts(tmp_path):
    """By name; of positions that were given, that each chain had its own."""
    kernel, about = inference.ChEES(), []
    for init in ("uniform", {"w": np.linspace(-1, 1, 96).reshape(32, 3)}):
        folder = tmp_path / str(len(about))
        settings = {"kernel": kernel, "num_chains": 32, "num_warmup": 60, "num_draws": 20}
        run = mcmc(KEY, posterior(), design(), init=init, checkpoint=folder, **settings)
        more = inference.resume(folder, posterior(), design(), kernel=kernel, num_draws=30)
        about.append(more.facts)
        assert more.facts == run.facts
        np.testing.assert_array_equal(more.draws["w"][:, :20], run.draws["w"])
    assert [(x.init, x.num_superchains) for x in about] == [("uniform", 8), (None, None)]


@pytest.mark.parametrize("name", KERNELS)
def test_a_resumed_run_tells_only_its_new_draws(monkeypatch, tmp_path, name):
    settings = SETTINGS | KERNELS[name] | {"num_draws": 30}
    mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **settings)
    told = []
    monkeypatch.setattr(RunMonitor, "add", lambda _, chain, x: told.append(np.array(x)))
    more = settings | {"num_draws": 50}
    mcmc(KEY, posterior(), design(), checkpoint=tmp_path, progress=lambda _: None, **more)
    told = np.concatenate(told)
    assert len(told) == 20 * settings["num_chains"]
    assert np.all(np.any(told, 1))


def test_a_run_with_until_has_more_draws_or_fewer(tmp_path):
    """Its folder has room for many more draws than it has made."""
    folder = tmp_path / "run"
    until = inference.Until(ess=50)
    few = mcmc(KEY, posterior(), design(), num_chains=2, checkpoint=folder, until=until)
    number = few.draws["w"].shape[1]
    with pytest.raises(ValueError, match="is not kept: give it again"):
        inference.resume(folder, posterior(), design())
    for num_draws in (number + 100, number - 20):
        found = inference.resume(folder, posterior(), design(), num_draws=num_draws)
        assert found.draws["w"].shape[1] == num_draws
        common = min(number, num_draws)
        np.testing.assert_array_equal(found.draws["w"][:, :common], few.draws["w"][:, :common])
    again = mcmc(KEY, posterior(), design(), num_chains=2, checkpoint=folder, num_draws=number)
    np.testing.assert_array_equal(again.draws["w"], few.draws["w"])
