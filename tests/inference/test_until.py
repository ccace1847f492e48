"""Runs that end when they are precise enough: the rule, its coverage, and what a result says."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal

import distributions as dist
import inference
import ppl
from inference import Until, mcmc
from inference.chains import chain_run, chain_threads, sampling
from inference.monitoring.until import FIRST_LOOK, looks
from inference.results.diagnostics import mcse_mean
from inference.results.summary import summarize
from inference.results.summary_columns import SummaryRow
from tests.inference.test_own_kernels import RandomWalk


def model(key):
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    theta = ppl.sample(key, dist.iid(dist.Normal(mu, 1.0), 3), name="theta")
    ppl.deterministic(jnp.zeros(2), name="zero")
    return ppl.sample(key, dist.Normal(theta, 1.0), name="y")


POSTERIOR = ppl.condition(model, {"y": jnp.arange(3.0)})
KEY = jax.random.key(0)


def run(until, **settings):
    return mcmc(KEY, POSTERIOR, until=until, **{"num_warmup": 200} | settings)


def test_a_run_ends_at_the_first_look_at_which_all_holds(monkeypatch):
    """The draws are those of a run without a rule, whatever the number of cores."""
    until = Until(mcse={"mu": 0.02}, ess={"theta[0]": 900}, rhat=1.05)
    result = run(until)
    number = result.draws["mu"].shape[1]
    assert number in looks(10**5)
    assert number > FIRST_LOOK
    assert not until.unmet(result.summary())
    before = max(n for n in looks(number) if n < number)
    early = {name: x[:, :before] for name, x in result.draws.items()}
    assert until.unmet(summarize(early))
    whole = run(None, num_draws=number)
    jax.tree.map(np.testing.assert_array_equal, result.draws, whole.draws)
    jax.tree.map(np.testing.assert_array_equal, result.stats, whole.stats)
    monkeypatch.setattr(chain_threads, "num_cores", lambda: 1)
    for module in (chain_threads, sampling):
        monkeypatch.setattr(module, "CALL_SECONDS", 1e-3)
    jax.tree.map(np.testing.assert_array_equal, run(until).draws, result.draws)
    assert f"all criteria of until hold after {number} draws of each" in str(result.summary())


KERNELS = {
    "own": (RandomWalk(scale=1.0), {}),
    "ensemble": (inference.ChEES(), {"num_chains": 32, "init": {"mu": 0.0}}),
}


@pytest.mark.parametrize(("kernel", "settings"), KERNELS.values(), ids=KERNELS)
def test_other_kernels_end_so_too(kernel, settings, monkeypatch):
    monkeypatch.setattr(chain_run, "_MAX_ROWS", 130)  # rows are read between looks, too
    until = Until(ess=4000 if settings else 60)
    result = run(until, kernel=kernel, num_draws=4000, **settings)
    number = result.draws["mu"].shape[1]
    assert number in looks(4000)
    assert number < 4000
    assert not until.unmet(summarize(result.draws))
    whole = run(None, kernel=kernel, num_draws=number, **settings)
    jax.tree.map(np.testing.assert_array_equal, result.draws, whole.draws)


def test_a_result_says_what_was_not_reached():
    result = run(Until(mcse={"mu": 1e-6}, ess=10), num_draws=150)
    assert result.draws["mu"].shape[1] == 150
    problem = result.summary().problems[0]
    assert "num_draws, 150, were drawn; at the last look, MCSE of mu is" in problem
    assert "not 1e-06" in problem
    assert "ESS of theta" not in problem


def test_time_ends_a_run_once_there_are_draws():
    result = run(Until(seconds=1e-6))
    assert 4 <= result.draws["mu"].shape[1] < 100_000
    assert "1e-06 seconds of until are over" in str(result.summary())
    result = run(Until(seconds=1e-6, rhat=1.01))
    assert "1e-06 seconds of until are over" in result.summary().problems[0]


def test_an_interrupt_ends_a_run_and_is_told():
    def interrupt(report):
        if report.num_done > 2000:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted: the result holds"):
        result = run(Until(ess=10**7), progress=interrupt)
    assert 1000 < result.draws["mu"].shape[1] < 100_000
    assert "an interrupt ended the run; at the last look, bulk ESS" in result.summary().problems[0]


def test_sites_are_named_by_site_scope_row_or_scalar():
    draws = np.random.default_rng(0).normal(size=(4, 500, 2, 2)) * np.array([[1, 2], [4, 8]])
    summary = summarize({"a": {"u": draws}, "b": draws[..., 0, 0]})
    worst = lambda name: Until(mcse={name: 1e-9}).unmet(summary)[0].split()[2]  # noqa: E731
    names = ("a", "a.u", "a.u[0]", "a.u[1,0]", "b")
    found = [worst(name) for name in names]
    assert found == ["a.u[1,1]", "a.u[1,1]", "a.u[0,1]", "a.u[1,0]", "b"]


def test_an_error_of_few_effective_draws_is_below_the_minimum():
    draws = np.random.default_rng(0).normal(size=(4, 90))
    (unmet,) = Until(mcse={"x": 10.0}).unmet(summarize({"x": draws}))
    assert "not the 400 that mcse needs" in unmet
    assert not Until(ess=100).unmet(summarize({"x": draws}))


def test_constants_need_no_precision_and_nan_is_none():
    draws = np.random.default_rng(0).normal(size=(4, 500))
    until = Until(ess=400, rhat=1.05, mcse={"x": 0.1})
    assert not until.unmet(summarize({"x": draws, "c": np.ones_like(draws)}))
    draws[0, 0] = np.nan
    assert len(until.unmet(summarize({"x": draws}))) == 5
    assert math.isnan(until.growth(summarize({"x": draws})))


def test_what_is_named_must_vary_and_all_scalars_need_not():
    draws = np.random.default_rng(0).normal(size=(4, 500))
    corr = np.stack([np.ones_like(draws), np.tanh(draws)], -1)
    corr = np.stack([corr, corr[..., ::-1]], -1)
    summary = summarize(
        {"x": draws, "c": np.ones_like(draws), "u": np.zeros((4, 500, 2)), "corr": corr}
    )
    for name in ("corr", "corr[0]"):
        assert not Until(mcse={name: 0.1}, ess={name: 400}).unmet(summary)
        (unmet,) = Until(mcse={name: 1e-3}).unmet(summary)
        assert unmet.startswith("MCSE of corr[0,1] is")
    for name, scalar in {"c": "c", "u": "u[0]", "u[1]": "u[1]", "corr[1,1]": "corr[1,1]"}.items():
        for until in (Until(mcse={name: 1e-5}), Until(ess={name: 4})):
            assert until.unmet(summary) == (f"{scalar} has not varied yet",)
            assert math.isnan(until.growth(summary))
    alone = summarize({"c": np.ones_like(draws)})
    assert Until(ess=4, rhat=1.1).unmet(alone) == ("no scalar has varied yet",)
    with pytest.raises(ValueError, match="no site is called 'y'; there are c, corr, u, x"):
        Until(mcse={"y": 0.1}).unmet(summary)


def test_a_rare_event_does_not_end_a_run_before_it_varies():
    def rare(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.deterministic((mu > 30.0).astype(jnp.float32), name="rare")

    settings = {"until": Until(mcse={"rare": 1e-5}), "num_warmup": 100, "num_draws": 150}
    result = mcmc(KEY, rare, **settings)
    assert result.draws["mu"].shape[1] == 150
    assert "rare has not varied yet" in result.summary().problems[0]


def test_complex_sites_are_named_as_in_the_summary():
    shapes = {"z": jax.ShapeDtypeStruct((2,), jnp.complex64)}
    draws = np.random.default_rng(0).normal(size=(4, 500, 2)) * (1 + 2j)
    for name in ("z", "z.real", "z.imag[1]"):
        Until(mcse={name: 0.1}).check_names(shapes, 4)
        assert Until(mcse={name: 1e-9}).unmet(summarize({"z": draws}))
    with pytest.raises(ValueError, match=r"no site is called 'z\[0\]'; there are z.real, z.imag"):
        Until(mcse={"z[0]": 0.1}).check_names(shapes, 4)


MISTAKES = {
    "mcse of Until: no site is called 'nu'; there are mu, theta, zero": {"mcse": {"nu": 0.1}},
    "ess of Until: no entry is called 'theta.3.'; there are theta.0., theta.1.": {
        "ess": {"theta[3]": 10}
    },
    "mcse of Until must be a dict of numbers by name": {"mcse": 0.1},
    "mcse.'mu'. of Until must be a positive number, got -1": {"mcse": {"mu": -1}},
    "ess of Until must be a positive number, got 'many'": {"ess": "many"},
    "rhat of Until must be a number above 1": {"rhat": 0.9},
    "seconds of Until must be a positive number, got 0": {"seconds": 0},
    "Until needs at least one of": {},
    "num_chains must be at least 2, got 1": {"rhat": 1.01, "num_chains": 1},
}


@pytest.mark.parametrize(("message", "given"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_mistakes_are_told_before_anything_runs(message, given):
    criteria = {name: x for name, x in given.items() if name != "num_chains"}
    with pytest.raises((TypeError, ValueError), match=message):
        run(Until(**criteria), num_chains=given.get("num_chains", 4))


def test_a_rule_is_an_until():
    with pytest.raises(TypeError, match=r"until must be inference.Until\(...\) or None, got 0.01"):
        run(0.01)


def autoregressions(num_runs, num_draws, correlation, seed):
    """Chains ``(4, draw, run)`` of mean 0 and variance 1, stationary."""
    noise = np.random.default_rng(seed).normal(size=(4, num_draws, num_runs))
    noise[:, 0] /= np.sqrt(1 - correlation**2)
    chains = scipy.signal.lfilter([1.0], [1.0, -correlation], noise, axis=1)
    return chains * np.sqrt(1 - correlation**2)


def coverage(draws, stops, is_enough):
    """Share of runs whose 95 % interval at the stop holds the mean."""
    going, covers = np.arange(draws.shape[2]), np.zeros(draws.shape[2], bool)
    for stop in itertools.chain(stops, [draws.shape[1]]):
        now = draws[:, :stop, going]
        mean, error = now.mean((0, 1)), mcse_mean(now)
        ends = is_enough(now, error) | (stop == draws.shape[1])
        covers[going[ends]] = (np.abs(mean) <= 1.96 * error)[ends]
        going = going[~ends]
        if not len(going):
            break
    return covers.mean()


def by_until(error):
    """The rule itself, of each run alone."""
    until = Until(mcse={"x": error})
    columns = (*SummaryRow._fields, "is_constant")

    def is_enough(draws, _):
        whole = summarize({"x": draws})
        parts = [
            {name: getattr(whole, name)[i : i + 1] for name in columns} for i in range(len(whole))
        ]
        alone = [dataclasses.replace(whole, names=("x",), **part) for part in parts]
        return np.array([not until.unmet(one) for one in alone])

    return is_enough


@pytest.mark.slow
@pytest.mark.parametrize(
    ("correlation", "error", "most"), [(0.5, 0.05, 1500), (0.9, 0.2, 4000), (0.9, 0.05, 4000)]
)
def test_intervals_at_the_end_hold_the_mean_as_often_as_said(correlation, error, most):
    draws = autoregressions(2000, most, correlation, seed=1)
    assert coverage(draws, looks(most - 1), by_until(error)) >= 0.94


@pytest.mark.slow
def test_a_look_after_each_draw_without_a_minimum_fails():
    draws = autoregressions(2000, 300, 0.9, seed=1)
    assert coverage(draws, range(8, 300), lambda _, error: error <= 0.2) < 0.85
