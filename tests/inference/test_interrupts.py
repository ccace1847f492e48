"""What an interrupt leaves of a run, and how soon it is heard."""

import itertools
import signal
import types

import jax
import numpy as np
import pytest

from inference import mcmc
from inference.chains import chain_run, chain_threads, sampling, step_run
from tests.inference.regression import design, posterior
from tests.inference.test_own_kernels import RandomWalk


def interrupted(monkeypatch, iteration, num_warmup=300, num_chains=2, **more):
    """A run whose user interrupts when chains have come to `iteration` on the average."""

    def interrupt(report):
        if report.num_done >= iteration:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        for module in (chain_threads, sampling, step_run):
            patched.setattr(module, "CALL_SECONDS", 1e-3)
        settings = {"num_warmup": num_warmup, "num_draws": 200_000, "num_chains": num_chains}
        settings |= {"progress": interrupt, **more}
        return mcmc(jax.random.key(2), posterior(), design(), **settings)


@pytest.mark.slow
def test_an_interrupt_keeps_what_has_been_drawn(monkeypatch):
    with pytest.warns(RuntimeWarning, match=r"the result holds the \d+ draws per chain of 200000"):
        result = interrupted(monkeypatch, 50_000)  # on the average: no chain is in warm-up then
    num_drawn = result.draws["w"].shape[1]
    assert 0 < num_drawn < 200_000
    whole = mcmc(
        jax.random.key(2), posterior(), design(), num_warmup=300, num_draws=num_drawn, num_chains=2
    )
    jax.tree.map(np.testing.assert_array_equal, result, whole)


def test_an_interrupt_keeps_draws_of_a_kernel_of_ones_own(monkeypatch):
    """On one core, which moves all chains in turn."""
    monkeypatch.setattr(chain_threads, "num_cores", lambda: 1)
    settings = {"num_warmup": 300, "num_chains": 4, "kernel": RandomWalk(scale=0.1)}
    with pytest.warns(RuntimeWarning, match=r"the result holds the \d+ draws per chain of 200000"):
        result = interrupted(monkeypatch, 4000, **settings)
    num_drawn = result.draws["w"].shape[1]
    assert 0 < num_drawn < 200_000
    whole = mcmc(jax.random.key(2), posterior(), design(), num_draws=num_drawn, **settings)
    jax.tree.map(np.testing.assert_array_equal, result, whole)


@pytest.fixture
def _ctrl_c():
    """Ctrl-C as at a terminal: a job in the background is started without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("_ctrl_c")
def test_further_interrupts_lose_nothing(monkeypatch):
    """While calls that are under way end, and while the result is put together."""
    interrupts = []

    def after_another(fn):
        def interrupt_and_call(*args, **kwargs):
            interrupts.append(fn.__name__)
            signal.raise_signal(signal.SIGINT)
            return fn(*args, **kwargs)

        return interrupt_and_call

    for owner, name in (
        (chain_threads.ThreadPoolExecutor, "shutdown"),
        (sampling._HamiltonianRun, "samples"),
    ):
        monkeypatch.setattr(owner, name, after_another(getattr(owner, name)))
    with pytest.warns(RuntimeWarning, match="the result holds"):
        result = interrupted(monkeypatch, 50_000)
    assert interrupts == ["shutdown", "samples"]
    assert result.draws["w"].shape[1] > 0
    with pytest.raises(KeyboardInterrupt):  # as before
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("seconds", "budget"), [(1.0, 1), (1e-2, 10), (1e-9, 1024)])
def test_the_first_call_takes_no_longer_than_a_sign_of_life(monkeypatch, seconds, budget):
    """Of a density whose evaluation, and every call, takes so many seconds."""
    budgets, move = [], sampling._HamiltonianRun._move

    def recorded(self, batch, budget):
        budgets.append(int(budget))
        return move(self, batch, budget)

    monkeypatch.setattr(sampling._HamiltonianRun, "_move", recorded)
    for module in (chain_run, sampling):
        now = map(seconds.__mul__, itertools.count(0.0))
        ticking = types.SimpleNamespace(monotonic=now.__next__)
        monkeypatch.setattr(module, "time", ticking)
    mcmc(jax.random.key(0), posterior(), design(), num_warmup=0, num_draws=10, num_chains=1)
    starts = list(itertools.takewhile(lambda number: number == 1, budgets))
    first = budgets[len(starts) :][:1]
    assert not first if budget == 1 else first[0] in (budget - 1, budget)
    assert 10 <= len(starts) <= 20 or budget == 1  # ten starts, and neighbors of one


def test_an_interrupt_in_warm_up_is_one(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, 10, num_warmup=200_000)


def test_an_error_in_a_thread_is_told_before_others_are_done(monkeypatch):
    calls, runs, move = itertools.count(), [], sampling._HamiltonianRun._move

    def failing(self, *arguments):
        runs.append(self)
        if next(calls) == 40:
            raise MemoryError("no more")
        return move(self, *arguments)

    for module in (chain_threads, sampling):
        monkeypatch.setattr(module, "CALL_SECONDS", 1e-3)
    monkeypatch.setattr(sampling._HamiltonianRun, "_move", failing)
    with pytest.raises(MemoryError, match="no more"):
        mcmc(jax.random.key(0), posterior(), design(), num_draws=100_000, num_chains=8)
    assert runs[0].num_done < 50_000
