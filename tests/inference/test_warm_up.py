"""What a result says of its warm-up: counts, step sizes, matrices, and the words of a summary."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import HMC, MEADS, NUTS, WALNUTS, LowRankMatrix, MCMCResult, WarmUp, mcmc
from inference.chains import sampling
from inference.chains.recorder import Recorder
from inference.chains.sampling import sample
from inference.checkpoints.disk_recorder import DiskRecorder
from inference.drivers import centering
from inference.results.run_facts import RunFacts
from inference.warmup.adaptation import schedule, window_ends
from inference.warmup.warm_up_log import WarmUpLog, condition_number
from tests.inference.regression import design, posterior
from tests.inference.targets import FakeTarget
from tests.inference.test_mcmc_result import DRAWS, KNOWN, STATS
from tests.inference.test_own_kernels import RandomWalk

KEY = jax.random.key(1)
SHORT = {"num_warmup": 120, "num_draws": 40, "learn_centering": False}
SCALES = jnp.array([1.0, 10.0, 0.1])  # of a normal density whose covariance has condition 1e4


def normal(key):
    return ppl.sample(key, dist.Normal(jnp.zeros(3), SCALES), name="x")


def funnel(key):
    v = ppl.sample(key, dist.Normal(0.0, 1.5), name="v")
    return ppl.sample(key, dist.Normal(jnp.zeros(3), jnp.exp(v)), name="x")


class StoppedError(Exception):
    """End of a run at a moment of no choice."""


def same(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    jax.tree.map(np.testing.assert_array_equal, one, two)


def counting_target():
    """A normal density that counts its gradients on the host, and the count."""
    counts = []

    @jax.custom_vjp
    def density(x, data):
        return -0.5 * jnp.sum((x / SCALES) ** 2) + data

    def forwards(x, data):
        jax.debug.callback(lambda: counts.append(1))
        return density(x, data), x

    def backwards(x, ct):
        return -ct * x / SCALES**2, ct

    density.defvjp(forwards, backwards)
    return FakeTarget(density, (3,)), counts


def gradients_of_run(num_warmup, **settings):
    """Gradients counted on the host up to the first draw, and the samples of a run."""
    target, counts = counting_target()
    settings = {"num_draws": 20, "num_chains": 2, "target_acceptance_rate": 0.8} | settings
    samples = sample(KEY, target, NUTS(), num_warmup=num_warmup, **settings)
    jax.effects_barrier()
    return len(counts) - samples.stats["num_steps"].sum(), samples


@pytest.mark.slow_rows("low_rank", "diagonal")
@pytest.mark.parametrize("kind", ["dense", "low_rank", "diagonal"])
def test_gradients_are_those_counted_on_the_host(kind):
    of_starts, none = gradients_of_run(0, mass_matrix=kind)
    in_all, samples = gradients_of_run(120, mass_matrix=kind)
    assert none.warmup is None
    assert samples.warmup.num_gradients.sum() == in_all - of_starts
    assert (samples.warmup.num_gradients > 0).all()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mass_matrix": "low_rank"},
        {"mass_matrix": "diagonal"},
        {"mass_matrix": "diagonal", "num_chains": 40},
        {"num_chains": 33},
        {"kernel": HMC()},
        {"kernel": WALNUTS(), "num_chains": 1},
        {"num_warmup": 7},
        {"num_warmup": 1, "mass_matrix": "diagonal"},
    ],
    ids=str,
)
def test_windows_are_counted_once_and_end_at_the_step_of_draws(monkeypatch, settings):
    """The state has a counter of its own, of all gradients after the search for a start."""
    seen = []
    count = WarmUpLog.count

    def watch(log, first, num_rows, stats, num_before):
        for chain, (start, number) in enumerate(zip(first, num_rows, strict=True)):
            flags = stats["is_divergent"][chain, :number]
            seen.extend((id(log), chain, start + i, bool(x)) for i, x in enumerate(flags))
        count(log, first, num_rows, stats, num_before)

    monkeypatch.setattr(WarmUpLog, "count", watch)
    result = mcmc(KEY, funnel, **SHORT | settings)
    warmup = result.warmup
    assert isinstance(warmup, WarmUp)
    num_warmup = (SHORT | settings)["num_warmup"]
    assert warmup.window_ends[-1] == num_warmup
    step_size = result.stats["step_size"]
    np.testing.assert_array_equal(warmup.step_size[:, -1].astype(step_size.dtype), step_size[:, 0])
    total = result.chains["state"]["chain.1"] - 1
    spent = warmup.num_gradients.sum(1) + result.stats["num_steps"].sum(1)
    np.testing.assert_array_equal(spent, total)
    of_warmup = [x for x in seen if x[2] < num_warmup]
    assert len(of_warmup) == len({x[:3] for x in of_warmup}) == num_warmup * len(step_size)
    starts = (0, *warmup.window_ends)
    for i, (start, end) in enumerate(itertools.pairwise(starts)):
        expected = sum(x[3] for x in of_warmup if start <= x[2] < end)
        assert warmup.num_divergent[:, i].sum() == expected
    assert np.isfinite([warmup.step_size, warmup.condition, warmup.scale_change]).all()


@pytest.mark.parametrize("kind", ["dense", "low_rank", "diagonal"])
def test_a_normal_density_has_the_condition_that_is_known(kind):
    warmup = mcmc(KEY, normal, mass_matrix=kind, num_warmup=400, num_draws=10).warmup
    assert warmup.mass_matrix == kind
    np.testing.assert_allclose(warmup.condition[:, -2:], 1e4, rtol=0.1)
    assert (warmup.condition[:, 0] < 1e3).all()
    assert (warmup.scale_change[:, 1] > 3).all()
    np.testing.assert_allclose(warmup.scale_change[:, -2:], 1, rtol=0.1)
    assert warmup.is_settled.all()


def test_the_condition_of_a_matrix_is_that_of_linear_algebra():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(40, 3)))[0].T
    low_rank = LowRankMatrix(np.exp(rng.normal(size=40)), vectors, np.array([30.0, 5.0, 0.02]))
    dense = low_rank.dense()
    np.testing.assert_allclose(condition_number(dense), np.linalg.cond(dense), rtol=1e-6)
    np.testing.assert_allclose(condition_number(low_rank), np.linalg.cond(dense), rtol=0.02)
    assert condition_number(np.array([2.0, 8.0, 4.0])) == 4.0


def test_windows_divide_all_of_warm_up():
    for kind in ("dense", "diagonal"):
        for num_warmup in range(1, 400):
            ends = window_ends(schedule(num_warmup), kind)
            assert ends[-1] == num_warmup
            assert list(ends) == sorted(set(ends))
        assert window_ends(schedule(0), kind) == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"num_warmup": 0},
        {"kernel": RandomWalk(scale=0.1)},
        {"kernel": MEADS(), "num_chains": 64},
    ],
    ids=["no warm-up", "own kernel", "ensemble"],
)
def test_what_adapts_nothing_by_itself_has_no_record(settings):
    assert mcmc(KEY, normal, **SHORT | settings).warmup is None


@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_files_and_further_draws_keep_the_record(tmp_path, kind):
    result = mcmc(KEY, posterior(), design(), mass_matrix=kind, **SHORT)
    result.save(tmp_path / "run.npz")
    loaded = MCMCResult.load(tmp_path / "run.npz")
    same(loaded.warmup, result.warmup)
    more = inference.resume(loaded, posterior(), design(), num_draws=80)
    same(more.warmup, result.warmup)
    thinned = jax.tree.map(lambda x: x[:, ::2], result)
    same(thinned.warmup, result.warmup)


@pytest.mark.slow_rows("pooled")
@pytest.mark.parametrize(
    "settings",
    [{}, {"mass_matrix": "diagonal"}, {"num_chains": 32}],
    ids=["default", "diagonal", "pooled"],
)
def test_a_run_stopped_within_warm_up_keeps_the_record(monkeypatch, tmp_path, settings):
    settings = SHORT | {"num_draws": 10, "num_chains": 2} | settings
    whole = mcmc(KEY, funnel, **settings).warmup
    spent = []
    record = DiskRecorder.record

    def stop(recorder, state):
        record(recorder, state)
        spent.append(recorder.state["warm_up.1"].sum())
        if len(spent) % 4 == 0:
            raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(sampling, "_FIRST_BUDGET", 64)
        patch.setattr(sampling, "_MAX_GROWTH", 1)
        patch.setattr(DiskRecorder, "is_due", True)
        patch.setattr(DiskRecorder, "record", stop)
        for _ in range(3):
            with pytest.raises(StoppedError):
                mcmc(KEY, funnel, **settings, checkpoint=tmp_path / "run")
    found = mcmc(KEY, funnel, **settings, checkpoint=tmp_path / "run")
    assert 0 < spent[3] < spent[7] < spent[11] < whole.num_gradients.sum()
    same(found.warmup, whole)


def test_gradients_that_learned_coordinates_are_told(monkeypatch):
    """The states of the short runs count their gradients, as they count those of the whole run."""
    spent = []

    def counted(*args, **settings):
        recorder = Recorder()
        samples = sample(*args, recorder=recorder, **settings)
        spent.append(recorder.state["chain.1"] - 1)
        return samples

    monkeypatch.setattr(centering, "sample", counted)
    model = ppl.reparam(funnel, ppl.auto_reparam)
    result = mcmc(KEY, model, num_warmup=200, num_draws=20)
    warmup = result.warmup
    assert len(spent) == 2
    np.testing.assert_array_equal(warmup.num_earlier_gradients, sum(spent))
    assert warmup.window_ends[-1] == 100
    assert f"{sum(spent).sum()} gradients before, to learn coordinates" in repr(warmup)
    more = inference.resume(result, model, num_draws=30)
    same(more.warmup, warmup)


ARRAYS = {
    "step_size": np.array([[0.1, 0.5, 0.4, 0.5]] * 4),
    "num_gradients": np.array([[100, 200, 300, 400]] * 4),
    "num_divergent": np.array([[2, 0, 1, 0]] * 4),
    "condition": np.array([[1.0, 30.0, 28.0, 28.0]] * 4),
    "scale_change": np.array([[1.0, 9.0, 1.2, 1.0]] * 4),
    "num_earlier_gradients": np.zeros(4, int),
}
WARMUP = WarmUp(**ARRAYS, window_ends=(20, 120, 900, 1000), mass_matrix="dense")


def changed(name, chain, window, value, **others):
    array = ARRAYS[name].copy()
    array[chain, window] = value
    return dataclasses.replace(WARMUP, **{name: array}, **others)


def problems(warmup, **facts):
    result = MCMCResult(DRAWS, STATS, np.ones((4, 3)), RunFacts(**KNOWN | facts), warmup=warmup)
    return result.summary().problems


def test_the_table_has_a_row_for_each_window():
    assert repr(changed("step_size", 2, -1, 0.25)) == (
        "iterations    step size  gradients  divergent  condition  scales\n"
        "     0..20          0.1        400      10.0%          1     x 1\n"
        "   20..120          0.5        800       0.0%         30     x 9\n"
        "  120..900          0.4       1200       0.1%         28   x 1.2\n"
        " 900..1000  0.25 to 0.5       1600       0.0%         28     x 1\n"
        "4 chains, dense mass matrix"
    )
    np.testing.assert_allclose(WARMUP.divergent_share, 0.003)


def test_what_has_settled_is_not_told_of():
    assert problems(WARMUP) == ()
    assert problems(None) == ()
    assert problems(changed("step_size", 0, 0, 1e-3)) == ()  # an early window
    assert problems(changed("scale_change", 0, 1, 100.0)) == ()
    assert problems(changed("step_size", 0, -1, 0.1, mass_matrix="diagonal")) == ()
    assert problems(changed("scale_change", 0, slice(1, 3), np.nan)) == ()  # not known


def test_what_has_not_settled_is_told_with_a_remedy():
    more = (
        "; if that does not help, the scales of the posterior vary from place to place, and other "
        "coordinates or narrower priors may."
    )
    assert problems(changed("step_size", 1, -1, 0.1)) == (
        "warm-up had not settled in chain 1: its last windows still changed the step size by a "
        "factor of 4, so that steps may not fit where the draws are. Raise num_warmup to 2000"
        + more,
    )
    moving = changed("scale_change", [0, 3], 2, 5.0)
    assert problems(moving, num_warmup=300) == (
        "warm-up had not settled in chains 0, 3: its last windows still changed a standard "
        "deviation in the mass matrix by a factor of 5, so that steps may not fit where the draws "
        "are. Raise num_warmup to 1000.",
    )
    (both,) = problems(changed("step_size", 1, -1, 0.1, scale_change=moving.scale_change))
    assert "chains 0, 1, 3: its last windows still changed the step size by a factor of 4" in both
    assert "and a standard deviation in the mass matrix by a factor of 5, so" in both
    assert problems(dataclasses.replace(WARMUP, window_ends=(4, 8, 9, 12)), num_warmup=12) == (
        "a warm-up of 12 iterations is too short to learn a step size and a mass matrix. Raise "
        "num_warmup to 1000.",
    )


def test_chains_that_were_taken_out_are_not_told_of():
    whole = MCMCResult(DRAWS, STATS, np.ones((4, 3)), RunFacts(**KNOWN), warmup=WARMUP)
    whole = dataclasses.replace(whole, warmup=changed("step_size", 1, -1, 0.1))
    assert whole.summary().problems
    rest = jax.tree.map(lambda x: np.delete(x, [1], 0), whole)
    assert rest.warmup is whole.warmup
    assert rest.summary().problems == ()


@pytest.mark.parametrize("seed", range(3))
def test_runs_say_whether_their_warm_up_settled(seed):
    key = jax.random.key(seed)
    for model, args in ((posterior(), (design(),)), (normal, ())):
        result = mcmc(key, model, *args)
        assert result.warmup.is_settled.all()
        assert result.summary().problems == ()
    for num_warmup, words in ((10, "10 iterations is too short"), (30, "had not settled")):
        (found,) = mcmc(key, posterior(), design(), num_warmup=num_warmup).summary().problems
        assert words in found
