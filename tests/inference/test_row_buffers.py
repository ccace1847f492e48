"""Draws that leave an accelerator while the next ones are made: their order, bits and ends."""

import contextlib
import dataclasses
import itertools
from contextlib import suppress
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest

from inference import MEADS, Until, mcmc
from inference.chains import chain_run, chain_threads, sampling, step_run
from inference.chains.ensemble_sampling import EnsembleRun
from inference.chains.recorder import Recorder
from inference.chains.row_buffers import RowBuffers
from inference.chains.step_sampling import PlainRun
from inference.checkpoints import disk_recorder
from inference.monitoring.monitor import RunMonitor
from inference.runtime import devices
from tests.inference.regression import design, posterior
from tests.inference.test_own_kernels import RandomWalk

KEY, NUM_ROWS = jax.random.key(2), 7
KERNELS = {
    "nuts": (sampling._HamiltonianRun, {"num_chains": 3, "mass_matrix": "diagonal"}),
    "dense": (sampling._HamiltonianRun, {"num_chains": 3, "mass_matrix": "dense"}),
    "own": (PlainRun, {"kernel": RandomWalk(scale=0.1), "num_chains": 3}),
    "ensemble": (EnsembleRun, {"kernel": MEADS(), "num_chains": 32}),
}
SETTINGS = {"num_warmup": 40, "num_draws": 45}


@dataclasses.dataclass(frozen=True)
class Watched:
    """Program that tells an event before each call."""

    program: Any
    events: list[str] = dataclasses.field(hash=False, compare=False)

    def __call__(self, *arguments):
        self.events.append("start")
        return self.program(*arguments)

    def __getattr__(self, name):
        return getattr(self.program, name)


@contextlib.contextmanager
def told(run):
    """A context of the events of runs of a class, in their order, without those of the start."""
    events, go_on, send, put = [], run.go_on, RowBuffers.send, Recorder.put

    def watch(self, *arguments):
        self.advance = Watched(self.advance, events)
        go_on(self, *arguments)

    def tells(event, method):
        return lambda *arguments: (events.append(event), method(*arguments))[1]

    with (
        mock.patch.object(run, "go_on", watch),
        mock.patch.object(RowBuffers, "send", tells("send", send)),
        mock.patch.object(Recorder, "put", tells("put", put)),
    ):
        yield events


@pytest.fixture
def _mapped(monkeypatch):
    """Chains mapped over as on an accelerator, with memory for a few draws of each."""
    on = devices._share_on_devices
    mapped = lambda *arguments: dataclasses.replace(on(*arguments), is_mapped=True)  # noqa: E731
    monkeypatch.setattr(devices, "_share_on_devices", mapped)
    monkeypatch.setattr(chain_run, "_MAX_ROWS", NUM_ROWS)


def sent_at_once(monkeypatch):
    """Draws leave before the next call, so that nothing overlaps."""
    send = RowBuffers.send
    monkeypatch.setattr(
        RowBuffers, "send", lambda self, *arguments: (send(self, *arguments), self.receive())
    )


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.usefixtures("_mapped")
@pytest.mark.slow_rows("dense")
@pytest.mark.parametrize("name", KERNELS)
def test_the_next_call_starts_before_draws_are_read(monkeypatch, name):
    """Full rows are sent, the next call is started, the recorder gets them; so are the bits."""
    run, given = KERNELS[name]
    with told(run) as events:
        result = mcmc(KEY, posterior(), design(), **SETTINGS | given)
    *early, last = [i for i, event in enumerate(events) if event == "send"]
    overlaps = [events[i : i + 3] == ["send", "start", "put"] for i in early]
    assert sum(overlaps) >= 45 // NUM_ROWS - 1
    assert all(overlaps) or name == "dense"  # one chain waits for its matrix, others have draws
    assert events[last:] == ["send", "put"]
    sent_at_once(monkeypatch)
    with told(run) as events:
        whole = mcmc(KEY, posterior(), design(), **SETTINGS | given)
    assert "send,put,start" in ",".join(events)
    same(result, whole)


@pytest.mark.usefixtures("_mapped")
@pytest.mark.quick_rows("own")
@pytest.mark.parametrize("name", KERNELS)
def test_a_state_belongs_to_the_draws_on_disk(monkeypatch, tmp_path, name):
    """Of runs that are killed, with a state after every few calls."""
    settings = SETTINGS | KERNELS[name][1] | {"num_draws": 600}
    whole = mcmc(KEY, posterior(), design(), **settings)
    for module in (chain_threads, sampling, step_run):
        monkeypatch.setattr(module, "CALL_SECONDS", 1e-3)
    calls, asked, dies = itertools.count(1), itertools.count(2), []
    is_due = property(lambda _: next(asked) % 5 < 2)
    monkeypatch.setattr(disk_recorder.DiskRecorder, "is_due", is_due)

    def tell(*_):
        if next(calls) % 9 == 0 and len(dies) < 3:
            dies.append(True)
            raise ZeroDivisionError

    monkeypatch.setattr(RunMonitor, "tell", tell)
    result = None
    while result is None:
        with suppress(ZeroDivisionError):
            result = mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **settings)
    assert dies
    same(result, whole)


@pytest.mark.usefixtures("_mapped")
@pytest.mark.quick_rows("own")
@pytest.mark.parametrize("name", KERNELS)
def test_an_interrupt_or_a_look_finds_draws_that_leave(monkeypatch, name):
    settings = SETTINGS | KERNELS[name][1]
    monkeypatch.setattr(chain_threads, "CALL_SECONDS", 1e-3)

    def interrupt(report):
        if report.num_done >= 60:
            raise KeyboardInterrupt

    more = settings | {"num_draws": 20_000}
    with pytest.warns(RuntimeWarning, match="interrupted"):
        some = mcmc(KEY, posterior(), design(), progress=interrupt, **more)
    num_drawn = some.draws["w"].shape[1]
    assert 0 < num_drawn < 20_000
    ended = mcmc(KEY, posterior(), design(), until=Until(seconds=1e-6), **more)
    for part in (some, ended):
        num_drawn = part.draws["w"].shape[1]
        whole = mcmc(KEY, posterior(), design(), **settings | {"num_draws": num_drawn})
        same(part.draws, whole.draws)


def test_buffers_keep_draws_until_they_are_handed_over():
    """Rows with draws on their way are not filled; those with room go on being filled."""
    buffers, kept = RowBuffers(), []
    put = lambda piece: kept.append(np.array(piece))  # noqa: E731
    empty = np.zeros(3)
    assert buffers.fill(empty) is not empty
    first = buffers.filling = jax.numpy.arange(3.0)
    buffers.send(first, put)
    assert buffers.is_sending
    second = buffers.filling = jax.numpy.asarray(buffers.fill(empty)) + 5
    assert second is not first
    buffers.send(second, put)  # hands over the first
    assert len(kept) == 1
    assert buffers.fill(empty) is first
    buffers.receive()
    buffers.receive()
    np.testing.assert_array_equal(kept, [[0, 1, 2], [5, 5, 5]])
    assert not buffers.is_sending
    assert buffers.filling is first
