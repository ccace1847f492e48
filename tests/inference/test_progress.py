"""How many steps a call is given, and how far a loop is said to be."""

import io
import re
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.chains.chain_batch import ChainBatch
from inference.runtime import progress
from inference.runtime.progress import Live, Pace, ProgressReport, show_progress


@pytest.mark.parametrize(
    ("seconds", "numbers"),
    [(0.0, [64, 256, 1000, 1000]), (0.1, [64, 64, 64]), (3.0, [64, 32, 16, 8, 4, 2, 1, 1])],
    ids=["quick", "as wanted", "slow"],
)
def test_calls_come_to_take_a_tenth_of_a_second(monkeypatch, seconds, numbers):
    now = iter(range(10**6))
    clock = types.SimpleNamespace(monotonic=lambda: seconds * next(now))
    monkeypatch.setattr(progress, "time", clock)
    pace, found = Pace(1000), []
    for _ in numbers:
        found.append(pace.num_steps)
        with pace.call():
            pass
    assert found == numbers


def test_no_call_has_more_steps_than_there_is_room_for():
    assert Pace(10).num_steps == 10


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("is_shown", [None, True])
def test_a_terminal_shows_a_bar_that_begins_with_compiling(monkeypatch, is_shown):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress(is_shown, 10) as report:
        assert "compiling" in sys.stderr.getvalue()
        report(10, "draws", "ELBO 1.5")
    last = sys.stderr.getvalue().split("\r")[-1]
    assert "draws" in last
    assert "10/10" in last
    assert "ELBO 1.5" in last


def test_what_is_no_boolean_is_refused():
    with (
        pytest.raises(TypeError, match=r"progress must be .*inference.Live.*, got 'no'"),
        show_progress("no", 10),
    ):
        pass


def test_nothing_is_shown_where_nobody_looks(monkeypatch, capsys):
    with show_progress(None, 10) as report:
        report(10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress(False, 10) as report:
        report(10)
    assert sys.stderr.getvalue() == ""


def test_a_log_file_gets_a_line_every_ten_seconds(monkeypatch, capsys):
    now = iter([0.0, 5.0, 12.0, 15.0, 23.0, 24.0])
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    with show_progress(True, 100, "iteration") as report:
        for num_done in (10, 30, 40, 60, 100):
            report(num_done, "warm-up" if num_done < 50 else "draws")
    assert capsys.readouterr().err.splitlines() == [
        "warm-up, 30 of 100 iterations after 12 s",
        "draws, 60 of 100 iterations after 23 s",
        "draws, 100 of 100 iterations after 24 s",
    ]


def test_a_program_without_standard_error_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with show_progress(None, 10) as report:
        report(10)


def model(key):
    x = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), 3), name="x")
    return ppl.sample(key, dist.Normal(x, 1.0), name="y")


POSTERIOR = ppl.condition(model, {"y": jnp.arange(3.0)})
DRIVERS = {
    "optimize": (inference.optimize, {}, "mode found, 1 of 1 stages"),
    "laplace": (inference.laplace, {"num_draws": 50}, "draws, 3 of 3 stages"),
    "pathfinder": (inference.pathfinder, {"num_draws": 50}, "draws, 2 of 2 stages"),
    "importance": (inference.importance, {"num_draws": 50}, "draws, 1 of 1 stages"),
}


@pytest.mark.parametrize(("driver", "settings", "line"), DRIVERS.values(), ids=DRIVERS)
def test_stages_are_lines_in_a_file_and_a_bar_in_a_terminal(
    driver, settings, line, monkeypatch, capsys
):
    run = lambda **shown: driver(jax.random.key(0), POSTERIOR, **settings, **shown)  # noqa: E731
    run(progress=True)
    assert re.fullmatch(rf"{line} after \d+ s\n", capsys.readouterr().err)
    run()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    run()
    assert "compiling" in sys.stderr.getvalue()
    assert "100%" in sys.stderr.getvalue()
    with pytest.raises(TypeError, match=r"progress must be True, False, None, inference.Live"):
        run(progress=1)


def cut_off(key):
    """Trajectories that cross the edge of the support diverge."""
    x = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), 3), name="x")
    ppl.factor(jnp.where(x.sum() > 1.0, -jnp.inf, 0.0), name="edge")


def test_the_bar_of_mcmc_tells_divergences_and_the_step_size():
    """The last words are those of the result: they are counted as rows come in."""
    settings = {"num_warmup": 50, "num_draws": 400}
    told = []
    result = inference.mcmc(jax.random.key(0), cut_off, progress=told.append, **settings)
    number = int(np.sum(result.stats["is_divergent"]))
    size = np.median(result.stats["step_size"][:, -1])
    assert number > 1
    assert (told[-1].num_done, told[-1].num_iterations, told[-1].phase) == (450, 450, "draws")
    assert told[-1].describe() == f"step size {size:.2g}, {number} divergences"


def test_a_look_takes_in_each_new_draw_once_of_chains_anywhere():
    """Chains of a batch are at iterations of their own, and the rows begin anew when read."""
    rng, size, num_rows = np.random.default_rng(0), 2, 8
    numbers = rng.normal(size=(3, 40, 4)).astype(np.float32)  # position, is_divergent, step_size
    numbers[..., 2] = rng.integers(2, size=(3, 40))
    chains = types.SimpleNamespace(
        progress=types.SimpleNamespace(
            iteration=np.zeros(3, np.int32), adaptation=types.SimpleNamespace(has_windows=False)
        ),
        trajectory=types.SimpleNamespace(position=np.zeros((3, size))),
    )
    plan = types.SimpleNamespace(schedule=types.SimpleNamespace(num_warmup=5), num_iterations=40)
    batch = ChainBatch(chains, plan, {"is_divergent": bool, "step_size": float}, None, place=7)
    taken = {7: [], 8: [], 9: []}
    add = lambda chain, draws: taken[chain].append(draws.copy())  # noqa: E731
    batch.monitor = types.SimpleNamespace(look_seconds=0.5, add=add)
    batch.first = np.zeros(3, np.int32)
    for iteration in ([3, 5, 0], [6, 8, 0], [6, 8, 2], [12, 14, 10]):
        batch.iteration = np.array(iteration, np.int32)
        rows = np.full((3, num_rows + 1, 4), np.nan, np.float32)
        for i, (first, last) in enumerate(zip(batch.first, iteration, strict=True)):
            rows[i, : last - first] = numbers[i, first:last]
        batch.buffers.filling = jnp.asarray(rows)
        batch.look()
        batch.look()
        if iteration == [6, 8, 2]:
            batch.first = batch.iteration
    for i, last in enumerate((12, 14, 10)):
        drawn = np.concatenate(taken[7 + i])
        np.testing.assert_array_equal(drawn, numbers[i, 5:last, :size])
        assert batch.step_size[i] == numbers[i, last - 1, 3]
    expected = sum(numbers[i, 5:last, 2].sum() for i, last in enumerate((12, 14, 10)))
    assert batch.num_divergent == expected > 5


CALL = {"num_warmup": 100, "num_draws": 2000}


def test_live_is_one_line_in_a_terminal_with_all_news(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "100")
    inference.mcmc(jax.random.key(0), POSTERIOR, progress=Live(), **CALL)
    shown = sys.stderr.getvalue()
    assert "compiling" in shown
    assert "\n" not in shown.rstrip("\n")
    line = r"100%\|.* draws, 4 chains, 0 divergences, step \S+, ESS \d+, R-hat 1\.0\d\d\s*"
    assert re.fullmatch(line, shown.split("\r")[-1])


def test_live_is_a_line_without_control_characters_in_a_file(capsys):
    inference.mcmc(jax.random.key(0), POSTERIOR, progress=Live(), **CALL)
    line = (
        r"draws, 2100 of 2100 iterations after \d+ s, 4 chains, 0 divergences, step \S+, ESS .*\n"
    )
    found = capsys.readouterr().err
    assert re.fullmatch(line, found)
    assert found.isprintable() or found[:-1].isprintable()


@pytest.mark.parametrize("kernel", [inference.NUTS(), inference.ChEES()], ids=["NUTS", "ChEES"])
def test_a_callback_gets_what_the_draws_tell(kernel):
    reports, settings = [], {"kernel": kernel, "num_chains": 16, **CALL}
    result = inference.mcmc(jax.random.key(0), POSTERIOR, progress=reports.append, **settings)
    last = reports[-1]
    assert last.seconds_left == 0
    assert {report.phase for report in reports} <= {"warm-up", "draws"}
    assert (last.num_done, last.num_iterations, last.num_chains) == (2100, 2100, 16)
    assert last.num_divergent == np.sum(result.stats["is_divergent"])
    assert np.isclose(last.step_size, np.median(result.stats["step_size"][:, -1]))
    exact = inference.ess_mean(result.draws["x"]).min()  # the site is unconstrained
    assert 0.5 < last.ess / exact < 2
    assert abs(last.rhat - inference.rhat(result.draws["x"]).max()) < 0.01
    assert all(0 <= report.seconds <= last.seconds for report in reports)


def test_an_error_in_a_callback_keeps_the_draws():
    def fail(report):
        if report.num_done > 500:
            raise ZeroDivisionError("mine")

    settings = {"num_warmup": 100, "num_draws": 500_000}
    with pytest.warns(RuntimeWarning, match=r"interrupted by an error .* ZeroDivisionError\('mine"):
        result = inference.mcmc(jax.random.key(0), POSTERIOR, progress=fail, **settings)
    assert 100 < result.draws["x"].shape[1] < 500_000
    assert "progress ended the run" in result.summary().problems[0]
    settings["num_warmup"] = 500_000
    with pytest.raises(ZeroDivisionError, match="mine"):
        inference.mcmc(jax.random.key(0), POSTERIOR, progress=fail, **settings)


def test_a_callback_hears_of_other_loops_too():
    reports = []
    inference.svi(jax.random.key(0), POSTERIOR, num_steps=200, progress=reports.append)
    assert (reports[-1].num_done, reports[-1].num_iterations) == (200, 200)
    assert reports[-1].seconds_left == 0
    assert reports[-1].text.startswith("ELBO")


@pytest.mark.parametrize(("seconds", "error"), [("1", TypeError), (0, ValueError)])
def test_seconds_of_live_are_positive(seconds, error):
    with pytest.raises(error, match="seconds of Live must be a positive number"):
        Live(seconds)


def test_log_files_of_long_runs_stay_short(capsys):
    with show_progress(Live(), 10**6) as report:
        for second in range(36_000):
            report.tell(ProgressReport("draws", second, 10**6, seconds=float(second)))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "draws, 10 of 1000000 steps after 10 s"
    assert len(lines) < 80
