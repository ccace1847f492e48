"""The comparisons of NUTS run, count gradients as they should, and write what they found."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from benchmarks import doors, nested_laplace
from benchmarks.comparison.counting import counted_runs
from benchmarks.comparison.hard_problems import funnel
from benchmarks.comparison.problems import Problem
from benchmarks.comparison.quality import learns_centering, with_learned_centering
from benchmarks.comparison.report import markdown, ratios
from benchmarks.comparison.run import reason, with_distances
from benchmarks.comparison.tools import Output, Settings, Tool
from benchmarks.comparison.worker import distance, executed
from benchmarks.everyday import HEADINGS, compared
from benchmarks.everyday import markdown as everyday_markdown
from benchmarks.kernels import in_order, ours, ratio
from benchmarks.kernels import report as kernels_report

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"
MODEL = "Gaussian along the axes"
TINY = ["--models", MODEL, "--tools", "ppl", "--warmup", "20", "--draws", "20", "--repeats", "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "chains", "is_mapped"),
    [
        pytest.param(["nuts.py", "--chains", "4"], [4], False, id="nuts"),
        pytest.param(["gpu.py", "--cpu", "--chains", "1", "3"], [1, 3], True, id="mapped"),
        pytest.param(
            ["many_chains.py", "--cpu", "--chains", "32", "--tools", "ppl ChEES"],
            [32],
            False,
            id="many chains",
        ),
    ],
)
def test_a_tiny_comparison_runs(tmp_path, arguments, chains, is_mapped):
    """Chains that are mapped over wait for the last one, and no others."""
    name, *more = arguments
    out = ["--out", str(tmp_path), "--name", "tiny"]
    command = [sys.executable, str(BENCHMARKS / name), *TINY, *out, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    entries = json.loads((tmp_path / "tiny.json").read_text())["entries"]
    assert [entry["chains"] for entry in entries] == chains
    for entry in entries:
        assert "error" not in entry, entry
        assert entry["executed_over_useful"] >= 1
        assert (entry["executed_over_useful"] > 1) == (is_mapped and entry["chains"] > 1)
    assert MODEL in (tmp_path / "tiny.md").read_text()


def test_chains_in_lock_step_wait_for_the_longest_trajectory():
    output = Output({}, np.array([[1, 3], [1, 1]]), np.array([[7], [7]]))
    assert executed(Tool(print, is_lockstep=True), output) == 2 * (1 + 3 + 7) / 20
    assert executed(Tool(print), output) == 1.0
    assert executed(Tool(print), output._replace(executed=40)) == 2.0


def test_rounds_that_learn_centering_are_counted():
    model = with_learned_centering(funnel())
    numbers = {"num_warmup": 100, "num_draws": 30, "num_chains": 2}
    with counted_runs() as runs:
        result = inference.mcmc(jax.random.key(0), model, progress=False, **numbers)
    iterations = [15 + 10, 15 + 10, 100 - 2 * 25]
    num_drawn = [0, 0, result.stats["num_steps"].sum()]
    assert len(runs) == 3
    for run, each, drawn in zip(runs, iterations, num_drawn, strict=True):
        assert run.num_useful - drawn >= 2 * each  # a gradient for each transition at least


@pytest.mark.parametrize(("name", "learns"), [("funnel", True), ("horseshoe", False)])
def test_posteriors_with_centered_sites_are_found(name, learns):
    assert learns_centering(name) == learns


def test_centering_is_learned_where_the_rule_has_it():
    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        ppl.sample(key, dist.GaussianRandomWalk(scale, 3), name="walk")
        ppl.sample(key, dist.Normal(0.0, scale), name="x")

    sites = ppl.coordinates(with_learned_centering(Problem(model, (), {})))().sites
    found = {name: site.strategy for name, site in sites.items()}
    assert found == {"scale": None, "walk": None, "x": "LearnedCentering"}


def test_the_distance_is_in_standard_errors_of_both():
    ours = {"mu": (1.0, 3.0), "x": (0.0, 1.0)}
    assert distance(ours, {"mu": (11.0, 4.0)}) == 2.0
    assert distance(ours, {"mu": (11.0, 4.0), "x": (3.0, 0.0)}) == 3.0


def entry(tool, seconds, **more):
    return {
        "tool": tool,
        "problem": "radon",
        "chains": 4,
        "num_warmup": 10,
        "num_draws": 10,
        "float": 32,
        "device": "cpu",
        "note": "",
        "first_s": 1.0,
        "again_s": [seconds],
        "exec_s": [seconds],
        "is_compiled_again": False,
        "warmup_gradients": 100,
        "draw_gradients": 100,
        "executed_over_useful": 1.0,
        "min_ess": [40.0],
        "max_rhat": 1.0,
        "means": {"mu": (0.0 if tool == "ppl" else 1.0, 0.1)},
    } | more


ENTRIES = [
    entry("ppl", 1.0),
    entry("NumPyro", 4.0),
    entry("BlackJAX", 2.0),
    {"tool": "nutpie", "problem": "radon", "chains": 4, "error": "not finished after 3 s"},
]


def test_peers_are_compared_with_us_where_nothing_is_published():
    ours, numpyro, *_ = with_distances(ENTRIES)
    assert "z" not in ours
    assert numpyro["z"] == pytest.approx(1 / 0.02**0.5)
    assert "means" not in numpyro


def test_the_ratio_is_to_the_best_peer():
    assert "best peer: 2.00 (radon 2.00)" in ratios(ENTRIES)


def test_the_reason_of_a_failure_is_the_error_itself():
    stderr = "Traceback\n  line\nValueError: no start: x\n---\nFor simplicity, JAX has removed"
    assert reason(stderr) == "ValueError: no start: x"
    assert reason("Killed\n") == "Killed"


def test_a_failure_stands_in_the_table():
    head = {"command": "c", "date": "2026-01-01T", "python": "3", "versions": {}} | {
        "platform": "p",
        "cores": 2,
    }
    assert "| nutpie | not finished after 3 s |" in markdown(head, ENTRIES)


def everyday_entry(tool, seconds, means, errors):
    names = ("fit", "summary", "container", "report")
    found = {"problem": "rugby", "tool": tool, "means": means, "errors": errors}
    found["seconds"] = dict(zip(names, seconds, strict=False))
    return found | {"divergences": 2, "max_rhat": 1.0, "min_ess": 1234.0}


def test_tools_are_compared_from_data_to_report():
    """Means in standard errors of their difference, 0.3 and 0.4; and times of the common steps."""
    ours = everyday_entry("ppl", [1.0, 2.0, 3.0, 9.0], [1.0, 2.0], [0.3, 1.0])
    theirs = everyday_entry("PyMC", [10.0, 1.0, 1.0], [2.5, 2.0], [0.4, 1.0])
    entries = compared(ours, theirs)
    assert entries[1]["z"] == pytest.approx(1.5 / 0.5)
    assert not any(name in entry for entry in entries for name in ("means", "errors"))
    failed = [{"problem": "radon", "tool": tool, "error": "a | b"} for tool in ("ppl", "PyMC")]
    head = {"versions": {"jax": "1"}, "command": "c", "date": "2026-01-01T00", "python": "3"}
    head |= {"platform": "Linux", "cores": 2}
    lines = list(everyday_markdown(head, entries + compared(*failed)))
    rows = [[x.strip() for x in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert {len(row) for row in rows} == {len(HEADINGS)}
    table = dict(zip(HEADINGS, rows[2], strict=True))
    assert table["model"] == "rugby"
    assert table["first three, ratio"] == "0.50"
    assert rows[3][-1] == "3.0"
    assert rows[4][2] == "a / b"
    assert "0.50 (geometric)" in lines[-1]


def door_entry(tool, cpu, ess, means, part="pymc"):
    calls = {"seconds": cpu, "cpu": cpu, "ess": ess, "max_rhat": 1.0, "divergences": 0}
    moments = {"means": means, "errors": [0.3, 1.0]}
    return {"part": part, "problem": "rugby", "tool": tool, **calls, **moments}


def test_doors_are_compared_with_their_own_tools():
    """ESS a CPU second 50 and 200, beside 10 and 400; a mean 3 errors away; a tool that fails."""
    ours = door_entry("ppl", [10.0, 2.0], [500.0, 400.0], [1.0, 2.0])
    theirs = door_entry("PyMC", [50.0, 1.0], [500.0, 400.0], [1.0 + 3 * 0.3 * 2**0.5, 2.0])
    failed = {"part": "pymc", "problem": "rugby", "tool": "nutpie", "error": "a | b"}
    entries = doors.compared([ours, theirs, failed])
    assert entries[1]["z"] == pytest.approx(3.0)
    old = [failed, {**entries[1], "cpu": [9.0, 9.0]}]
    entries = doors.in_order(doors.replaced(old, entries))
    head = {"versions": {"jax": "1"}, "command": "c", "date": "2026-01-01T00", "python": "3"}
    head |= {"platform": "Linux", "cores": 2, "note": ""}
    lines = list(doors.markdown(head, entries))
    rows = [[x.strip() for x in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert [row[1] for row in rows[2:]] == ["ppl", "PyMC", "nutpie"]
    table = dict(zip(doors.HEADINGS, rows[3], strict=True))
    assert [x for name, x in table.items() if name.startswith("ratio")] == ["5", "0.5"]
    assert table["z"] == "3.0 of 2"
    assert rows[4][2] == "a / b"
    assert lines[-2:] == [
        "- Ours over PyMC, geometric: 5 in first calls, 0.5 again; below 1 again in 1 of 1.",
        "- nutpie: none.",
    ]


def latent_entry(name, tool, cpu, error, **more):
    times = {"problem": name, "tool": tool, "seconds": 9.0, "cpu": cpu, "note": "500"}
    return {**times, "means": (error, 2 * error), "sds": (0.01, 0.02), **more}


def test_nested_laplace_is_compared_with_chains_that_agree():
    """Ratios of 20 and 4, one at an error of 0.15; NumPyro's chains disagree on one model."""
    groups = [
        [
            latent_entry("seeds", "nested_laplace", 2.0, 0.03),
            latent_entry("seeds", "NUTS", 40.0, 0.01, rhat=1.02),
            latent_entry("seeds", "NumPyro", 8.0, 0.01, rhat=1.0, versions={"jax": "1"}),
        ],
        [
            latent_entry("salm", "nested_laplace", 1.0, 0.15),
            latent_entry("salm", "NUTS", 20.0, 0.01, rhat=1.0),
            latent_entry("salm", "NumPyro", 50.0, 0.3, rhat=1.06, versions={"jax": "2"}),
            {"problem": "salm", "tool": "pymc-extras", "error": "a | b"},
        ],
    ]
    lines = [x for group in groups for x in nested_laplace.rows(group)]
    table = [[x.strip() for x in line.split("|")[1:-1]] for line in lines]
    assert {len(row) for row in table} == {len(nested_laplace.HEADINGS)}
    assert [row[4] for row in table] == ["", "20.0", "4.0", "", "20.0", "", ""]
    assert [row[0] for row in table] == ["seeds", "", "", "salm", "", "", ""]
    assert table[1][-1] == "500, R-hat 1.02"
    assert table[-1][2] == "a / b"
    assert nested_laplace.versions([*groups[0], *groups[1]]) == "jax 1 and 2"
    assert nested_laplace.summary(groups) == [
        "- Errors of nested Laplace, root mean square: below 0.1 sd in 1 of 2.",
        "- NUTS over nested Laplace, CPU seconds: median 20.0, from 20.0 to 20.0; above 1 in 2 of "
        "2, above 10 at an error below 0.1 sd in 1.",
        "- NumPyro over nested Laplace, CPU seconds: median 4.0, from 4.0 to 4.0; above 1 in 1 of "
        "1, above 10 at an error below 0.1 sd in 0.",
        "- NumPyro: errors below 0.1 sd in 1 of 2, all means within 0.2 sd in 1.",
    ]


def test_moments_of_nested_laplace_are_in_those_of_the_long_run(tmp_path):
    """A mean half a standard deviation away, one that is right, and logarithms of a scale."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4, 500, 2))
    draws = {"x": z, "sigma": np.exp(2 * z[..., 0])}
    shifted = {"x": z + np.array([0.5, 0.0]), "sigma": np.exp(2 * z[..., 0]), "more": z}
    files = [str(tmp_path / f"{name}.npz") for name in ("long", "other")]
    found = nested_laplace.moments((draws, None, ""), draws, files[0])
    assert found["rhat"] < 1.01
    assert 500 < float(found["note"]) < 3000
    weights = np.full((4, 500), 1 / 2000)
    assert nested_laplace.moments((shifted, weights, "k"), draws, files[1]) == {"note": "k"}
    errors = nested_laplace.errors(files[1], files[0])
    sd = z[..., 0].std()
    assert errors["means"] == pytest.approx((0.5 / sd / 3**0.5, 0.5 / sd))
    assert errors["sds"] == pytest.approx((0.0, 0.0), abs=1e-9)


def test_cpu_time_has_that_of_processes_that_run():
    before = doors.cpu_seconds()
    work = "sum(range(30_000_000)); print(flush=True); input()"
    command = [sys.executable, "-c", work]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running = doors.cpu_seconds()
        process.communicate(b"\n")
    assert before + 0.1 < running <= doors.cpu_seconds()


def test_ratios_of_kernels_are_of_rounds_that_both_have():
    rounds = {
        "ours": [{"ess": 6.0}, {"ess": 2.0, "seconds": 1.0}, {"ess": 3.0, "seconds": 3.0}],
        "peer": [{"ess": 1.0}, {"ess": 2.0, "seconds": 2.0}, {"ess": 1.0, "seconds": 1.0}],
    }
    assert ratio(rounds, "ess") == "3 (1 to 6)"
    assert ratio(rounds, "seconds") == "1.75 (0.5 to 3)"
    assert ratio({"ours": rounds["ours"]}, "ess") == ""
    rounds["peer"][1]["rhat"] = 1.6  # chains that do not agree
    assert ratio(rounds, "ess") == "4.5 (3 to 6)"


def test_rows_of_kernels_stand_in_the_order_of_the_report():
    figures = {"ess_per_1000": 1.0, "rhat": 1.0, "error": 0.1}
    rows = [
        {"part": part, "posterior": name, "kernel": kernel, "rounds": {"ours": [figures]}}
        for part, name, kernel in [
            ("classics", "pumps", "NUTS"),
            ("kernels", "two modes", "NUTS"),
            ("kernels", "logistic", "Slice"),
            ("kernels", "logistic", "NUTS"),
        ]
    ]
    found = [(row["posterior"], row["kernel"]) for row in in_order(rows)]
    assert found == [
        ("logistic", "NUTS"),
        ("logistic", "Slice"),
        ("two modes", "NUTS"),
        ("pumps", "NUTS"),
    ]
    assert "| logistic | NUTS | 1 |" in kernels_report(rows)


def test_effective_draws_of_kernels_are_counted_as_they_say():
    data = Problem(lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x"), (), {})
    settings = Settings(2, 30, 20)
    assert ours(inference.MALA(), data, settings).call(0).sampling.sum() == 40
    assert ours(inference.RandomWalk(), data, settings).call(0).sampling.sum() == 40
