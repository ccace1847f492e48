"""Results: the table, its advice, files and ArviZ."""

import dataclasses
import functools
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import LowRankMatrix, MCMCResult, ess_bulk, ess_tail, mcse_mean, rhat
from inference.drivers.approximate_sites import look_at_approximate_sites
from inference.results.run_facts import RunFacts

RNG = np.random.default_rng(0)
DRAWS = {
    "mu": RNG.normal(2.0, 3.0, size=(4, 1000)),
    "part": {"theta": RNG.normal(size=(4, 1000, 2, 1))},
}
STATS = {
    "is_divergent": np.zeros((4, 1000), bool),
    "is_truncated": np.zeros((4, 1000), bool),
    "energy": RNG.normal(size=(4, 1000)),
    "acceptance_rate": np.full((4, 1000), 0.8),
    "step_size": np.full((4, 1000), 0.3),
    "num_steps": np.full((4, 1000), 7),
    "depth": np.full((4, 1000), 3),
    "log_density": RNG.normal(size=(4, 1000)),
}
KNOWN = {
    "num_warmup": 1000,
    "target_acceptance_rate": 0.8,
    "init": "uniform",
    "num_coordinates": 3,
    "noncentering": "possible",
}
RESULT = MCMCResult(DRAWS, STATS, np.ones((4, 3)))


def test_summary_columns_are_the_statistics_of_the_draws():
    summary = RESULT.summary()
    assert summary.names == ("mu", "part.theta[0,0]", "part.theta[1,0]")
    assert list(summary) == list(summary.names)
    assert len(summary) == 3
    values = np.concatenate([DRAWS["mu"][..., None], DRAWS["part"]["theta"][..., 0]], 2)
    np.testing.assert_allclose(summary.mean, values.mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(summary.sd, values.std((0, 1), ddof=1), rtol=1e-12)
    for field, prob in (("q5", 0.05), ("q50", 0.5), ("q95", 0.95)):
        expected = np.quantile(values, prob, axis=(0, 1))
        np.testing.assert_allclose(getattr(summary, field), expected, rtol=1e-12)
    for statistic in (mcse_mean, ess_bulk, ess_tail, rhat):
        np.testing.assert_array_equal(getattr(summary, statistic.__name__), statistic(values))
    assert summary["part.theta[1,0]"].mean == summary.mean[2]
    site = summary["part.theta"]
    assert site.mean.shape == site.rhat.shape == (2, 1)
    np.testing.assert_array_equal(site.mean.ravel(), summary.mean[1:])
    assert summary.select("part")["part.theta"].mean.shape == (2, 1)
    with pytest.raises(KeyError, match=r"named 'part.theta'"):
        summary.select("part.theta[0,0]")["part.theta"]
    with pytest.raises(
        KeyError, match=r"no site or scalar is named 'theta'; there are mu, part.theta\[0,0\]"
    ):
        summary["theta"]


def test_numbers_of_any_dtype_have_a_row():
    x, n = DRAWS["mu"], np.arange(4000).reshape(4, 1000)
    draws = {"z": x - 2j * x, "n": n, "half": n.astype(jnp.bfloat16), "is_even": n % 2 == 0}
    summary = dataclasses.replace(RESULT, draws=draws).summary()
    assert summary.names == ("half", "is_even", "n", "z.real", "z.imag")
    half = np.mean(draws["half"].astype(np.float64))
    expected = [half, 0.5, 1999.5, np.mean(x), -2 * np.mean(x)]
    np.testing.assert_allclose(summary.mean, expected, rtol=1e-12)


def problems(draws=DRAWS, **stats):
    return MCMCResult(draws, STATS | stats, np.ones((4, 3))).summary().problems


def walk(scale):
    return np.cumsum(RNG.normal(size=(4, 1000)), axis=1) * scale


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            problems(is_divergent=np.arange(4000).reshape(4, 1000) < 3),
            r"3 of 4000 transitions diverged: .*auto_reparam.*target_acceptance_rate to 0.95",
        ),
        (
            problems(is_truncated=np.arange(4000).reshape(4, 1000) < 5),
            r"5 of 4000 trajectories were cut short by max_depth, .*mass_matrix='dense'",
        ),
        (
            problems(energy=np.where(np.arange(4)[:, None] == 2, walk(1.0), STATS["energy"])),
            r"E-BFMI is below 0.3 in chain 2: .*Reparameterize",
        ),
        (
            problems(acceptance_rate=np.where(np.arange(4)[:, None] % 2, 0.8, 0.03)),
            r"chains 0, 2 hardly moved: fewer than 10% of proposals.*init='prior'",
        ),
        (
            problems(step_size=np.where(np.arange(4)[:, None] == 1, 0.02, STATS["step_size"])),
            r"chain 1 took steps 15 times smaller than the others.*init='prior', 'optimum'",
        ),
        (
            problems(step_size=np.where(np.arange(4)[:, None] == 1, 1e-6, STATS["step_size"])),
            r"chain 1 took steps 3e\+05 times smaller .* not precise enough .*jax_enable_x64",
        ),
        (
            problems(log_density=np.full((4, 1000), -2e6, np.float32)),
            r"log densities of about 2e\+06 are rounded to 0.24 in float32, .*jax_enable_x64",
        ),
        (
            problems({"mu": DRAWS["mu"] + 3 * np.arange(4)[:, None]}),
            r"R-hat exceeds 1.01 for 1 of 1 scalars, most for mu \(.*Raise num_warmup",
        ),
        (problems({"mu": walk(1.0)}), r"ESS is below 400 .*least for mu .*Raise num_draws"),
        (problems({"mu": DRAWS["mu"][:1]}), r"R-hat needs two chains"),
        (
            problems({"mu": np.where(DRAWS["mu"] > 9, np.inf, DRAWS["mu"])}),
            r"1 of 1 scalars, mu first, have draws that are not finite",
        ),
    ],
)
def test_each_problem_comes_with_what_to_do(found, message):
    assert any(re.search(message, problem) for problem in found), found


def test_a_density_that_is_nan_is_told_by_name():
    """Half of the space is NaN: no curvature that smaller steps could follow."""

    def rooted(key):
        x = ppl.sample(key, dist.Normal(0.5, 1.0), name="x")
        ppl.sample(key, dist.Normal(jnp.sqrt(x), 1.0), name="y")

    settings = {"num_warmup": 100, "num_draws": 100, "num_chains": 2}
    result = inference.mcmc(jax.random.key(0), ppl.condition(rooted, {"y": 0.5}), **settings)
    (told,) = [x for x in result.summary().problems if "diverged" in x]
    assert "NaN at points near the draws: site 'y' has log probability nan" in told
    assert "curves" not in told


def _three_effects(tails, noise):
    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
        w = ppl.sample(key, tails(jnp.zeros(3), 0.1 + scale), name="w")
        ppl.sample(key, dist.Normal(w, noise), name="y")

    return ppl.marginalize(ppl.condition(model, {"y": np.zeros(3)}), {"w": ppl.Laplace()})


def test_a_poor_approximation_of_sites_taken_out_is_told(tmp_path):
    """Normal tails in place of those of Student's t; normal sites are exact."""
    poor = _three_effects(functools.partial(dist.StudentT, 1.0), 30.0)
    result = inference.mcmc(jax.random.key(0), poor, num_warmup=200, num_draws=250)
    result.save(tmp_path / "run")
    for kept in (result, MCMCResult.load(tmp_path / "run")):
        assert any(
            "poor approximation for site 'w': Pareto k" in x for x in kept.summary().problems
        )
        assert kept.facts.num_inner_modes == 1

    exact = ppl.unconstrain(_three_effects(dist.Normal, 1.0))
    found = look_at_approximate_sites(jax.random.key(0), exact, result.draws, result.stats)
    assert found == {"approximate": (("w",), -np.inf, 1000), "num_inner_modes": 1}
    told = []
    for num_modes, words in ((2, "site 'w' has more modes than one"), (1, "One mode of w given")):
        facts = dataclasses.replace(result.facts, **found | {"num_inner_modes": num_modes})
        summary = dataclasses.replace(result, facts=facts).summary()
        assert not any("poor approximation" in x for x in summary.problems)
        told.append([words in x for x in (*summary.problems, summary.verdict)])
    assert [sum(x) for x in told] == [1, 1]


def test_many_short_chains_are_judged_all_together():
    """Independent draws, of which no chain has a hundred; or chains that do not agree."""
    few = RNG.normal(size=(512, 46)), RNG.normal(size=(16, 30))
    for mu in few:
        summary = MCMCResult({"mu": mu}, {}, None).summary()
        assert summary.problems == (), summary.problems
        assert "ESS at least 400." in str(summary).replace("\n ", "")
    stuck = few[0] + np.where(np.arange(512) % 8 == 0, 1.0, 0.0)[:, None]
    assert re.search("R-hat exceeds 1.0", MCMCResult({"mu": stuck}, {}, None).summary().problems[0])


def test_no_problem_is_said_to_be_none():
    assert problems() == ()
    assert "No problem found" in str(RESULT.summary())


def test_a_result_is_a_pytree():
    doubled = jax.tree.map(lambda x: 2 * x, RESULT)
    np.testing.assert_array_equal(doubled.draws["mu"], 2 * DRAWS["mu"])
    assert repr(RESULT) == "MCMCResult(4 chains x 1000 draws: mu (), part.theta (2, 1))"


def test_save_and_load_are_inverse(tmp_path):
    path = tmp_path / "result"
    RESULT.save(path)
    loaded = MCMCResult.load(path)
    assert jax.tree.structure(loaded) == jax.tree.structure(RESULT)
    jax.tree.map(np.testing.assert_array_equal, loaded, RESULT)
    assert loaded.stats["is_divergent"].dtype == bool


SETTLED = MCMCResult(DRAWS, STATS, np.ones((4, 3)), RunFacts(**KNOWN))


def test_facts_are_part_of_the_structure():
    assert jax.tree.map(lambda x: 2 * x, SETTLED).facts == RunFacts(**KNOWN)
    assert jax.tree.structure(SETTLED) == jax.tree.structure(RESULT)  # so that they can be joined
    assert hash(jax.tree.structure(SETTLED)) == hash(jax.tree.structure(RESULT))
    assert RESULT.facts == RunFacts()


def test_facts_are_saved(tmp_path):
    SETTLED.save(tmp_path / "result")
    loaded = MCMCResult.load(tmp_path / "result")
    assert loaded.facts == SETTLED.facts
    assert hash(jax.tree.structure(loaded)) == hash(jax.tree.structure(SETTLED))


def test_a_dtype_that_numpy_does_not_know_is_kept(tmp_path):
    half = dataclasses.replace(RESULT, draws={"x": DRAWS["mu"].astype(jnp.bfloat16)})
    half.save(tmp_path / "result")
    loaded = MCMCResult.load(tmp_path / "result")
    assert loaded.draws["x"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(loaded.draws["x"], half.draws["x"])


def test_a_matrix_of_low_rank_is_saved_too(tmp_path):
    matrix = LowRankMatrix(np.ones((4, 3)), np.ones((4, 2, 3)), np.ones((4, 2)))
    result = dataclasses.replace(RESULT, inverse_mass_matrix=matrix)
    result.save(tmp_path / "result")
    loaded = MCMCResult.load(tmp_path / "result")
    assert jax.tree.structure(loaded) == jax.tree.structure(result)
    jax.tree.map(np.testing.assert_array_equal, loaded, result)


def test_load_refuses_other_files(tmp_path):
    for content in ({"x": np.zeros(3)}, {'["draws", "x"]': np.zeros(3)}):
        np.savez(tmp_path / "other.npz", **content)
        with pytest.raises(ValueError, match="is not a saved MCMCResult"):
            MCMCResult.load(tmp_path / "other.npz")


def test_to_arviz():
    data = RESULT.to_arviz()
    assert set(data["posterior"].data_vars) == {"mu", "part.theta"}
    np.testing.assert_array_equal(data["posterior"]["part.theta"], DRAWS["part"]["theta"])
    np.testing.assert_array_equal(data["sample_stats"]["diverging"], STATS["is_divergent"])
    assert {"lp", "n_steps", "tree_depth", "energy"} < set(data["sample_stats"].data_vars)


def test_two_sites_of_one_name_are_none_to_arviz():
    draws = {"a.b": np.ones((4, 1000)), "a": {"b": np.ones((4, 1000))}}
    with pytest.raises(ValueError, match=r"two sites are 'a\.b'"):
        MCMCResult(draws, STATS, None).to_arviz()


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="pip install arviz"):
        RESULT.to_arviz()


def test_results_of_other_settings_join_in_one():
    first, more = (
        MCMCResult({"x": np.zeros((2, 3))}, {}, None, RunFacts(num_warmup=n, init="prior"))
        for n in (1000, 0)
    )
    both = jax.tree.map(lambda *x: np.concatenate(x, 1), first, more)
    assert both.draws["x"].shape == (2, 6)
    assert both.facts == first.facts
