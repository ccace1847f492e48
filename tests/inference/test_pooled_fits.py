"""mcmc_each under an executor and with a folder: the same bits, what is compared, named errors."""

import concurrent.futures
import os
import signal
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import HMC, Gibbs, Slice
from inference.chains import target_pool
from inference.chains.target_pool import TargetPool
from tests.inference.test_checkpoints import KilledError
from tests.inference.test_executors import Pickling, spawn

DATA = np.linspace(-2.0, 3.0, 15).reshape(5, 3)
SETTINGS = {"num_warmup": 40, "num_draws": 30, "num_chains": 2}


def normal(key, width):
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(3), width), name="y")


def posterior(key, y, width):
    return ppl.condition(normal, {"y": y})(key, width)


def wide(key, y, width):
    return ppl.condition(normal, {"y": y})(key, width + 0 * y[0] + 1)


def coins(key, width):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3 * jnp.ones(3)), name="z")
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    return ppl.sample(key, dist.Normal(mu + z, width), name="y")


def with_coins(key, y, width):
    return ppl.condition(coins, {"y": y})(key, width)


def each(model=posterior, data=DATA, width=1.5, seed=0, **more: Any):
    key = jax.random.key(seed)
    given: Any = {"in_axes": (0, None)} | SETTINGS | more
    return inference.mcmc_each(key, model, data, width, **given)


@pytest.fixture
def few_batches(monkeypatch):
    """Batches of three chains of ten, so that some have chains of two data sets, and one is cut."""
    monkeypatch.setattr(target_pool, "_NUM_BATCHES", 3)


def same(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.usefixtures("few_batches")
def test_batches_have_the_same_bits_anywhere_and_progress(tmp_path):
    told = []
    alone = each()
    same(each(executor=Pickling(), progress=lambda news: told.append(news.num_done)), alone)
    assert told == [3, 6, 9, 10]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        same(each(executor=threads, checkpoint=tmp_path), alone)
    same(each(checkpoint=tmp_path), alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "kernel"), [(with_coins, Gibbs.auto()), (posterior, Slice())], ids=["gibbs", "slice"]
)
def test_other_kernels_have_the_same_bits_anywhere(tmp_path, model, kernel):
    alone = each(model, kernel=kernel)
    same(each(model, kernel=kernel, executor=Pickling(), checkpoint=tmp_path), alone)
    same(each(model, kernel=kernel, checkpoint=tmp_path), alone)


class Pair(NamedTuple):
    one: Any
    two: Any


def with_pair(key, y):
    mu = ppl.sample(key, dist.Normal(y, 1.0), name="mu")
    return ppl.deterministic(Pair(mu, 2 * mu), name="pair")


def test_a_folder_keeps_structures_and_knows_axes_by_other_names(tmp_path):
    def given(in_axes):
        few: Any = {"num_warmup": 4, "num_draws": 3, "num_chains": 1, "checkpoint": tmp_path}
        return inference.mcmc_each(
            jax.random.key(0), with_pair, jnp.arange(2.0), in_axes=in_axes, **few
        ).draws

    whole = given(0)
    same(given((0,)), whole)
    assert isinstance(whole["pair"], Pair)


def test_every_chain_is_in_one_batch_with_its_target():
    for num_targets, num_chains, most in ((5, 2, 3), (7, 4, 5), (1, 3, 2), (9, 1, 4), (2, 8, 3)):
        rows = np.arange(num_targets)
        targets = target_pool.Targets([rows, None], [None, np.float32(2.0)], None)
        run: Any = type("Run", (), {"is_mapped": False})
        pool = TargetPool(np.zeros(2, np.uint32), run, targets, num_targets, num_chains)
        size = num_targets * num_chains
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(target_pool, "_NUM_BATCHES", -(-size // most))
            batches: list[Any] = [pool.batch(i) for i in range(pool.num_batches)]
            covered = [x for i in range(pool.num_batches) for x in pool.chains_of(i)]
        assert covered == [*range(size)]
        assert len({jax.tree.structure(x.targets) for x in batches}) == 1
        assert len({x.targets.stacked[0].shape for x in batches}) == 1
        for x in batches:
            np.testing.assert_array_equal(x.targets.stacked[0][x.places], x.of_target)
        pairs = {pair for x in batches for pair in zip(x.of_target, x.of_chain, strict=True)}
        assert pairs == {(i, j) for i in range(num_targets) for j in range(num_chains)}


class Failing(Pickling):
    """An executor whose job of one number fails."""

    def __init__(self, number):
        self.number, self.count = number, -1

    def submit(self, function, /, *args):
        self.count += 1
        return super().submit(function, *args) if self.count != self.number else Failed()


class Failed:
    def result(self):
        raise MemoryError("out of memory")


@pytest.mark.usefixtures("few_batches")
def test_what_is_finished_before_a_failure_is_not_made_again(tmp_path):
    words = r"^mcmc_each: one of the fits to data sets 3 to 4 failed: MemoryError: out of memory"
    with pytest.raises(RuntimeError, match=words):
        each(executor=Failing(2), checkpoint=tmp_path)
    executor = Failing(None)
    same(each(executor=executor, checkpoint=tmp_path), each())
    assert executor.count == 1


def test_a_run_that_ends_early_goes_on_to_the_same_bits(monkeypatch, tmp_path):
    whole = each()
    batch = TargetPool.batch
    numbers = []

    def die(self, i):
        numbers.append(i)
        if i == 4:
            raise KilledError
        return batch(self, i)

    with monkeypatch.context() as patched:
        patched.setattr(TargetPool, "batch", die)
        with pytest.raises(KilledError):
            each(checkpoint=tmp_path)
        finished = len({*numbers} - {4})
        numbers.clear()
        patched.setattr(TargetPool, "batch", lambda self, i: numbers.append(i) or batch(self, i))
        same(each(checkpoint=tmp_path), whole)
        assert 3 <= finished < 10
        assert len({*numbers}) == 10 - finished
    same(each(checkpoint=tmp_path, executor=Failing(0)), whole)  # there is no job to fail


OTHERS = {
    "key": ({"seed": 1}, "key: the run has"),
    "data": ({"data": DATA + 1}, r"argument 0 \(y\): the run has float"),
    "shared": ({"width": 2.5}, r"argument 1 \(width\): the run has"),
    "model": ({"model": wide}, "the model's program: the run has"),
    "draws": ({"num_draws": 31}, "num_draws: the run has 30, the call 31"),
    "kernel": ({"kernel": HMC(num_steps=3)}, r"kernel: the run has 'NUTS\("),
    "keep": ({"keep": "mu"}, r"keep: the run has None, the call \['mu'\]"),
}


def test_another_call_is_refused_and_said(tmp_path):
    each(checkpoint=tmp_path)
    before = {x.name: x.read_bytes() for x in tmp_path.iterdir() if x.name != "lock"}
    for given, words in OTHERS.values():
        with pytest.raises(ValueError, match=f"is the folder of another run(.|\n)*{words}"):
            each(**given, checkpoint=tmp_path)
    assert before == {x.name: x.read_bytes() for x in tmp_path.iterdir() if x.name != "lock"}
    with pytest.raises(
        ValueError, match=r"a run of mcmc_each, not of chains: call inference\.mcmc"
    ):
        inference.resume(tmp_path, posterior)
    with pytest.raises(TypeError, match=r"^mcmc_each: executor must be an object .* submit"):
        each(executor=4)
    with pytest.raises(TypeError, match=r"^mcmc_each: model is sent .* not by lambda"):
        each(lambda key, y, width: posterior(key, y, width), executor=spawn())


@pytest.mark.slow
def test_batches_in_processes_of_which_one_is_killed(tmp_path):
    given = {"num_warmup": 500, "num_draws": 500, "data": np.repeat(DATA, 8, 0)}
    alone = each(**given)
    with spawn() as processes:
        same(each(executor=processes, **given), alone)

        def kill(news):
            if news.num_done == 1:
                os.kill(next(iter(processes._processes)), signal.SIGKILL)

        with pytest.warns(
            RuntimeWarning, match=r"of 80 jobs are lost, the fit to data set \d+ the"
        ):
            found = each(executor=processes, progress=kill, checkpoint=tmp_path, **given)
    same(found, alone)
    same(each(checkpoint=tmp_path, executor=Failing(0), **given), alone)
