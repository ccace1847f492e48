"""Jobs under an executor: the same bits, and errors that name the job and the remedy."""

import concurrent.futures
import multiprocessing
import os
import pickle
import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.drivers import job_futures
from inference.drivers.jobs import Jobs

SIZE = 9
Y = np.random.default_rng(0).normal(size=SIZE) * np.linspace(0.5, 3.0, SIZE)
FEW = {"num_warmup": 60, "num_draws": 60, "num_chains": 2}
SEED = 3


def model(key, scale):
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(SIZE), scale), name="y")


POSTERIOR = ppl.condition(model, {"y": Y})


class Pickling:
    """An executor without a base class, whose jobs go through bytes as to another process."""

    def submit(self, function, /, *args):
        self.function, self.args = pickle.loads(pickle.dumps((function, args)))
        return Future(self.function, self.args)


class Future:
    def __init__(self, function, args):
        self.function, self.args = function, args

    def result(self):
        return pickle.loads(pickle.dumps(self.function(*self.args)))


PROCESS_SETTINGS = "jax_num_cpu_devices", "jax_disable_most_optimizations"


def use_settings(*values):
    for name, value in zip(PROCESS_SETTINGS, values, strict=True):
        jax.config.update(name, value)


def spawn():
    """New processes, with the settings of this one; nothing above may look for devices."""
    context = multiprocessing.get_context("spawn")
    values = tuple(jax.config.values[name] for name in PROCESS_SETTINGS)
    return concurrent.futures.ProcessPoolExecutor(
        2, mp_context=context, initializer=use_settings, initargs=values
    )


def cross_validate(executor=None, of=POSTERIOR, **given):
    given = {"folds": 3} | FEW | given
    return inference.cross_validate(jax.random.key(SEED), of, 1.5, executor=executor, **given)


def test_folds_and_refits_have_the_same_bits_and_progress():
    told = []
    alone = cross_validate()
    found = cross_validate(Pickling(), progress=lambda news: told.append(news.num_done))
    assert told == [1, 2, 3]
    np.testing.assert_array_equal(found.pointwise, alone.pointwise)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        np.testing.assert_array_equal(cross_validate(threads).pointwise, alone.pointwise)
    fit = inference.mcmc(jax.random.key(SEED), POSTERIOR, 1.5, progress=False, **FEW)
    few = {"refit": -np.inf, "site": "y", **FEW}
    loos = [inference.loo(fit, POSTERIOR, 1.5, executor=x, **few) for x in (None, Pickling())]
    np.testing.assert_array_equal(loos[0].pointwise, loos[1].pointwise)
    assert loos[1].is_exact.all()
    assert loos[0].problems == loos[1].problems


def exact(key, posterior, scale, data):
    mean = data["y"].sum() / (SIZE + 1 / 9)
    return {"mu": mean + jax.random.normal(key, (50,)) / jnp.sqrt(SIZE + 1 / 9)}


def calibrate(executor, fit=exact, **given):
    given = {"observed": ["y"], "num_simulations": 30} | given
    key = jax.random.key(SEED)
    return inference.calibrate(key, model, 1.0, fit=fit, executor=executor, **given)


def test_simulations_have_the_same_bits():
    told = []
    alone = calibrate(None)
    for executor in (Pickling(), concurrent.futures.ThreadPoolExecutor(2)):
        found = calibrate(executor, progress=lambda news: told.append(news.num_done))
        np.testing.assert_array_equal(found.ranks, alone.ranks)
    assert told == 2 * [*range(1, 31)]
    begun = []
    wrong = lambda key, posterior, scale: begun.append(0) or {"mu": jnp.zeros((5, 5, 5))}  # noqa: E731
    with pytest.raises(ValueError, match="draws of site 'mu' have the shape"):
        calibrate(None, wrong)
    assert len(begun) == 1
    with pytest.raises(ValueError, match=r"vectorized makes all fits by one .* vectorized=False"):
        calibrate(Pickling(), vectorized=True)
    with pytest.raises(TypeError, match=r"^calibrate: fit is sent .* not by lambda"):
        calibrate(spawn(), lambda key, posterior, scale, data: exact(key, posterior, scale, data))


def settings_of(x):
    return jax.numpy.asarray(x).dtype.name, jax.config.jax_default_matmul_precision


def run(executor, function, arguments):
    names = [f"job {i}" for i in range(len(arguments))]
    return [*Jobs("here", executor, {}).run(function, names, arguments, one_at_a_time=True)]


def test_jobs_run_under_the_settings_of_the_caller():
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        for doubles, precision in ((True, "highest"), (False, None)):
            with jax.enable_x64(doubles), jax.default_matmul_precision(precision):
                expected = settings_of(1.0)
                assert run(threads, settings_of, [(1.0,)]) == [expected]
            assert expected == ("float64" if doubles else "float32", precision)


def divide(x):
    return 1 / x


def test_a_failed_job_is_named_and_the_rest_not_begun():
    threads = concurrent.futures.ThreadPoolExecutor(1)
    with pytest.raises(RuntimeError, match=r"^here: job 1 failed: ZeroDivisionError: division"):
        run(threads, divide, [(1,), (0,), (2,)])
    threads.shutdown()
    with pytest.raises(RuntimeError, match=r"^here: job 0 is not taken by executor: .*shutdown"):
        run(threads, divide, [(1,)])


class Losing(Pickling):
    """A pool that breaks when the jobs of some numbers are done."""

    def __init__(self, lost):
        self.lost, self.count = lost, -1

    def submit(self, function, /, *args):
        self.count += 1
        if self.count in self.lost:
            broken = concurrent.futures.Future()
            broken.set_exception(concurrent.futures.BrokenExecutor("a process died"))
            return broken
        if self.count > max(self.lost):
            raise concurrent.futures.BrokenExecutor("no more")
        return super().submit(function, *args)


def test_lost_jobs_are_done_here():
    with pytest.warns(RuntimeWarning, match=r"3 of 5 jobs are lost, job 1 the first, and are done"):
        found = run(Losing({1, 3}), divide, [(x,) for x in (1, 2, 4, 8, 16)])
    assert found == [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16]
    with pytest.raises(RuntimeError, match=r"no job is done.* if __name__ == '__main__'.*new exec"):
        run(Losing({0, 1}), divide, [(1,), (2,)])


def test_canceled_jobs_are_done_here():
    class Canceling(Pickling):  # as a client of Dask whose scheduler has ended
        def submit(self, function, /, *args):
            future = concurrent.futures.Future()
            if args[-1] == 2:
                future.cancel()
            else:
                future.set_result(function(*args))
            return future

    with pytest.warns(RuntimeWarning, match=r"1 of 3 jobs are lost, job 1 the first"):
        assert run(Canceling(), divide, [(1,), (2,), (4,)]) == [1, 1 / 2, 1 / 4]


first_may_end = threading.Event()


def divide_in_turn(x):
    assert x != 1 or first_may_end.wait(60)
    return 1 / x


def test_jobs_are_recorded_when_they_finish():
    recorded = []

    def record(i, result):
        recorded.append((i, result))
        if len(recorded) == 2:
            first_may_end.set()

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        jobs = Jobs("here", threads, {})
        args = "abc", [(1,), (2,), (4,)]
        made = jobs.run(divide_in_turn, *args, one_at_a_time=False, record=record)
        assert [*made] == [1, 1 / 2, 1 / 4]
    assert recorded == [(1, 1 / 2), (2, 1 / 4), (0, 1)]


class Late:
    """A future as of Dask, whose result is made again some times."""

    status = "finished"

    def __init__(self, result, num_looks=0, num_timeouts=0):
        self.given, self.num_looks, self.num_timeouts = result, num_looks, num_timeouts

    def done(self):
        self.num_looks -= 1
        return self.num_looks < 0

    def result(self, timeout=None):
        self.num_timeouts -= 1
        if self.num_timeouts >= 0 or isinstance(self.given, Exception):
            raise TimeoutError("of the job")
        return self.given


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(job_futures, "_SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(job_futures, "_STALL_SECONDS", 0.1)


def results_of(executor, futures):
    return {i: get() for i, get in job_futures.as_finished("here", executor, futures)}


@pytest.mark.usefixtures("impatient")
def test_silence_of_an_executor_is_told():
    class Cluster:
        def scheduler_info(self):
            return {"workers": {}}

    with pytest.warns(RuntimeWarning, match=r"^here: executor has no workers, and 1 of 1 jobs"):
        assert results_of(Cluster(), [Late("a", num_looks=9)]) == {0: "a"}
    with pytest.warns(RuntimeWarning, match=r"^here: no job is finished for .* and 1 of 2 are not"):
        assert results_of(None, [Late("a", num_looks=9), Late("b")]) == {0: "a", 1: "b"}
    assert results_of(None, [Late("a", num_looks=9)]) == {0: "a"}  # how long a job takes is unknown


def test_a_result_that_is_lost_with_its_worker_comes_again():
    assert results_of(None, [Late("a", num_timeouts=2), Late("b")]) == {0: "a", 1: "b"}
    failed = Late(TimeoutError())
    failed.status = "error"
    with pytest.raises(TimeoutError, match="of the job"):
        results_of(None, [failed])


@pytest.mark.parametrize("given", [8, "processes", concurrent.futures.ThreadPoolExecutor])
def test_what_is_no_executor_is_refused(given):
    with pytest.raises(TypeError, match=r"^cross_validate: executor must be an object .* submit"):
        cross_validate(given)


def test_an_executor_without_futures_is_refused():
    class Now:
        def submit(self, function, /, *args):
            return function(*args)

    with pytest.raises(TypeError, match=r"^here: executor.submit must return a future"):
        run(Now(), divide, [(1,)])


def test_what_processes_cannot_have_is_refused_before_any_fit():
    fork = multiprocessing.get_context("fork")
    forks = concurrent.futures.ProcessPoolExecutor(1, mp_context=fork)  # starts none
    with pytest.raises(ValueError, match=r"forks of this one.*get_context\('spawn'\)"):
        cross_validate(forks)

    def within(key, scale):
        return model(key, scale)

    local = ppl.condition(within, {"y": Y})
    for executor in (spawn(), Pickling()):
        with pytest.raises(TypeError, match=r"model is sent .* cannot be pickled.*top of a module"):
            cross_validate(executor, local)
    fit = inference.mcmc(jax.random.key(SEED), POSTERIOR, 1.5, progress=False, **FEW)
    with pytest.raises(ValueError, match=r"loo: executor is for fits, and without refit"):
        inference.loo(fit, POSTERIOR, 1.5, executor=Pickling())


def loky():
    joblib = pytest.importorskip("joblib")
    values = tuple(jax.config.values[name] for name in PROCESS_SETTINGS)
    return joblib.externals.loky.get_reusable_executor(
        2, initializer=use_settings, initargs=values, reuse=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("start", [spawn, loky])
def test_folds_in_processes_of_which_one_is_killed(start):
    alone = cross_validate(folds=6)
    with start() as processes:
        found = cross_validate(processes, folds=6)
        np.testing.assert_array_equal(found.pointwise, alone.pointwise)

        def kill(news):
            if news.num_done == 1:
                os.kill(next(iter(processes._processes)), signal.SIGKILL)

        with pytest.warns(RuntimeWarning, match=r"of 6 jobs are lost, the fit without fold \d the"):
            found = cross_validate(processes, folds=6, progress=kill)
    np.testing.assert_array_equal(found.pointwise, alone.pointwise)


@pytest.mark.slow
def test_folds_by_dask_of_whose_workers_one_is_killed(monkeypatch):
    distributed = pytest.importorskip("distributed")
    for name in PROCESS_SETTINGS:  # of workers, also of those that begin later
        monkeypatch.setenv(name.upper(), str(int(jax.config.values[name])))
    alone = cross_validate(folds=6)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        killed = []

        def kill(news):
            if not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)

        found = cross_validate(client, folds=6, progress=kill)
        np.testing.assert_array_equal(found.pointwise, alone.pointwise)
        assert killed
        with pytest.raises(RuntimeError, match=r"^here: job 1 failed: ZeroDivisionError: division"):
            run(client, divide, [(1,), (0,), (2,)])
