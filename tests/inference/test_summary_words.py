"""Advice of a summary of chains: it fits the run, and names nothing that the run has had."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import NUTS, LowRankMatrix, MCMCResult
from inference.drivers.noncentering import noncentering_of_chains, noncentering_of_guide
from inference.results.guide_result import describe_tail
from tests.inference.test_mcmc_result import DRAWS, KNOWN, STATS
from tests.inference.test_own_kernels import POSTERIOR, RandomWalk

CHAINS = np.arange(4)[:, None]
OWN = {"num_warmup": 1000, "target_acceptance_rate": None, "init": "uniform", "num_coordinates": 3}
DIAGONAL, DENSE = np.ones((4, 3)), np.ones((4, 3, 3))
LOW_RANK = LowRankMatrix(np.ones((4, 3)), np.ones((4, 2, 3)), np.ones((4, 2)))
DIVERGENT = {"is_divergent": np.arange(4000).reshape(4, 1000) < 3}
TRUNCATED = {"is_truncated": np.arange(4000).reshape(4, 1000) < 5, "depth": np.full((4, 1000), 10)}
QUICK = {"x": np.random.default_rng(1).normal(size=(4, 1000, 2))}
WALK = np.cumsum(np.random.default_rng(0).normal(size=(4, 1000)), axis=1)
SLOW_ENERGY = {"energy": np.where(CHAINS == 2, WALK, STATS["energy"])}


def result(settings=KNOWN, matrix=DIAGONAL, draws=DRAWS, **stats):
    return MCMCResult(draws, STATS | stats, matrix, tuple(settings.items()))


def problem(*args, **kwargs):
    """The only problem of a result."""
    (found,) = result(*args, **kwargs).summary().problems
    return found


NARROW = "narrow priors that allow extremes."
REPARAM = "Reparameterise hierarchical sites, as by ppl.reparam(model, ppl.auto_reparam)"
UNDO = (
    " The model is reparameterised already; try it without, too: with many data per group the "
    "centred form is better."
)


@pytest.mark.parametrize(
    ("settings", "matrix", "advice"),
    [
        (KNOWN, DIAGONAL, f"{REPARAM}, raise target_acceptance_rate to 0.95, or {NARROW}"),
        ({}, DIAGONAL, f"{REPARAM}, raise target_acceptance_rate to 0.95 or more, or {NARROW}"),
        (
            KNOWN | {"noncentering": None},
            DIAGONAL,
            f"{REPARAM}, raise target_acceptance_rate to 0.95, or {NARROW}",
        ),
        (
            KNOWN | {"noncentering": "impossible"},
            DIAGONAL,
            f"Raise target_acceptance_rate to 0.95, or {NARROW}",
        ),
        (
            KNOWN | {"noncentering": "done", "target_acceptance_rate": 0.95},
            DIAGONAL,
            f"Raise target_acceptance_rate to 0.99, or {NARROW}{UNDO}",
        ),
        (
            KNOWN | {"noncentering": "impossible", "target_acceptance_rate": 0.99},
            DIAGONAL,
            f"N{NARROW[1:]}",
        ),
        (
            KNOWN | {"num_warmup": 0, "target_acceptance_rate": None},
            DIAGONAL,
            f"{REPARAM}, let warm-up find the step size (num_warmup=1000), or {NARROW}",
        ),
        (OWN, None, f"{REPARAM}, take smaller steps, or {NARROW}"),
    ],
)
def test_advice_on_divergences_is_for_this_run(settings, matrix, advice):
    rate = settings.get("target_acceptance_rate") or 0.8
    found = problem(settings, matrix, **DIVERGENT, **with_rates(rate, rate, rate, rate))
    assert found == (
        "3 of 4000 transitions diverged: the posterior curves more sharply somewhere than the "
        f"step size can follow, and the draws are biased away from there. {advice}"
    )


@pytest.mark.parametrize(
    ("noncentering", "by_rule", "more"),
    [
        ("possible", ", as by ppl.reparam(model, ppl.auto_reparam) or", ""),
        (None, ", as by ppl.reparam(model, ppl.auto_reparam) or", ""),
        ("impossible", "", ""),
        ("done", "", UNDO),
    ],
)
def test_advice_on_slow_energy_is_for_this_model(noncentering, by_rule, more):
    assert problem(KNOWN | {"noncentering": noncentering}, **SLOW_ENERGY) == (
        "E-BFMI is below 0.3 in chain 2: the energy mixes slowly, as with heavy tails or a funnel. "
        f"Reparameterise{by_rule} with lighter tails on an unconstrained scale, and draw more."
        f"{more}"
    )


TRY = "Try mass_matrix='dense', bring"
DEEPER = " parameters to similar scales, or allow NUTS(max_depth=12)."


@pytest.mark.parametrize(
    ("settings", "matrix", "advice"),
    [
        (KNOWN, DIAGONAL, f"{TRY}{DEEPER}"),
        (KNOWN, LOW_RANK, f"{TRY}{DEEPER}"),
        ({}, DIAGONAL, f"{TRY}{DEEPER}"),
        (KNOWN, DENSE, f"Bring{DEEPER}"),
        (
            KNOWN | {"num_warmup": 0},
            DIAGONAL,
            f"Let warm-up learn the mass matrix (num_warmup=1000), bring{DEEPER}",
        ),
        (OWN, None, "Bring parameters to similar scales, or allow longer trajectories."),
    ],
    ids=["diagonal", "low rank", "unknown", "dense", "no warm-up", "own kernel"],
)
def test_advice_on_short_trajectories_is_for_this_run(settings, matrix, advice):
    assert problem(settings, matrix, **TRUNCATED) == (
        "5 of 4000 trajectories were cut short by max_depth, so that chains move slowly. " + advice
    )


def test_more_depth_is_more_than_the_run_had():
    assert problem(**TRUNCATED | {"depth": np.full((4, 1000), 12)}).endswith("max_depth=14).")
    stats = {name: x for name, x in (STATS | TRUNCATED).items() if name != "depth"}
    (found,) = MCMCResult(DRAWS, stats, DIAGONAL).summary().problems
    assert found.endswith("max_depth=12).")


def everything_wrong(settings, matrix):
    rates = np.where(CHAINS == 0, 0.05, 0.3) * np.ones((4, 1000))
    wrong = DIVERGENT | TRUNCATED | SLOW_ENERGY | {"acceptance_rate": rates}
    wrong["step_size"] = np.where(CHAINS == 1, 0.02, STATS["step_size"])
    wrong["log_density"] = STATS["log_density"] - 1000 * (CHAINS == 3)
    return result(settings, matrix, {"mu": WALK}, **wrong).summary().problems


def test_a_kernel_that_is_not_adapted_is_not_told_to_be():
    adapted = " ".join(everything_wrong(KNOWN, DIAGONAL))
    assert adapted.count("aise num_warmup") == 4
    assert adapted.count("target_acceptance_rate") == 3
    assert "late in warm-up. Raise num_warmup, start elsewhere (" in adapted
    assert "Raise num_warmup and num_draws; if" in adapted
    own = " ".join(everything_wrong(OWN, None))
    for words in ("warmup", "warm-up", "target_acceptance_rate", "mass_matrix", "NUTS"):
        assert words not in own
    assert "Propose less far, or start elsewhere" in own
    assert "as in a narrow place. Start elsewhere (" in own
    assert "Raise num_draws; if" in own


def with_rates(*rates):
    return {"acceptance_rate": np.array(rates)[:, None] * np.ones((4, 1000))}


@pytest.mark.parametrize(
    ("rates", "target", "words"),
    [
        (
            (0.8, 0.64, 0.9, 0.66),
            0.8,
            "chain 1 accepted fewer proposals than intended: a mean acceptance rate of 0.64, with "
            "target_acceptance_rate=0.8. The step size is too large for where the draws are. "
            "Raise target_acceptance_rate to 0.95, or raise num_warmup.",
        ),
        (
            (0.8, 0.7, 0.3, 0.9),
            0.95,
            "chains 1, 2 accepted fewer proposals than intended: a mean acceptance rate of 0.70, "
            "0.30, with target_acceptance_rate=0.95. The step size is too large for where the "
            "draws are. Raise target_acceptance_rate to 0.99, or raise num_warmup.",
        ),
        (
            (0.8, 0.9, 0.99, 0.99),
            0.99,
            "chain 0 accepted fewer proposals than intended: a mean acceptance rate of 0.80, with "
            "target_acceptance_rate=0.99. The step size is too large for where the draws are. "
            "Raise num_warmup.",
        ),
    ],
)
def test_rates_far_below_their_target_are_told_of(rates, target, words):
    settings = KNOWN | {"target_acceptance_rate": target}
    assert problem(settings, **with_rates(*rates)) == words


def test_each_chain_has_one_warning_of_its_rate():
    problems = result(**with_rates(0.8, 0.05, 0.4, 0.8)).summary().problems
    assert [text.partition(" a")[0] for text in problems] == [
        "chain 1 hardly moved: fewer than 10% of proposals were",
        "chain 2",
    ]


@pytest.mark.parametrize("target", [None, 0.3])
def test_rates_near_or_without_a_target_are_no_problem(target):
    settings = KNOWN | {"target_acceptance_rate": target}
    assert not result(settings, **with_rates(0.2, 0.3, 0.4, 0.3)).summary().problems
    assert not result({}, **with_rates(0.2, 0.3, 0.4, 0.3)).summary().problems


def with_log_densities(*means):
    return {"log_density": STATS["log_density"] * 1e-3 + np.array(means)[:, None]}


LOST = with_log_densities(-266, -266.5, -400, -265.5)


def test_a_chain_far_from_the_others_is_told_of():
    assert problem(**LOST) == (
        "chain 2 is far from the others: mean log density -400, others -266; its draws are not of "
        "the same region. Leave it out by jax.tree.map(lambda x: np.delete(x, [2], 0), result), "
        "or start elsewhere: init='prior', 'optimum' or values that you know."
    )
    arrays = jax.tree.map(jnp.asarray, result(**LOST))
    assert arrays.summary().problems == result(**LOST).summary().problems


def test_several_chains_far_from_the_others_are_told_of():
    repeat = lambda x: np.concatenate([x, x[:1]])  # noqa: E731
    five = jax.tree.map(repeat, result(**with_log_densities(-5, -300, np.nan, -5)))
    (found,) = five.summary().problems
    assert "chains 1, 2 are far from the others: mean log density -300, nan, others -5;" in found
    assert "their draws are not of the same region. Leave them out by" in found
    assert "np.delete(x, [1, 2], 0)" in found


@pytest.mark.parametrize("matrix", [DIAGONAL, DENSE, LOW_RANK, None])
def test_a_chain_is_left_out_as_advised(matrix):
    whole = result(matrix=matrix, **LOST)
    (found,) = whole.summary().problems
    code = found.partition("Leave it out by ")[2].partition(", or start")[0]
    rest = eval(code, {"jax": jax, "np": np, "result": whole})
    assert rest.settings == whole.settings
    assert rest.summary().num_chains == 3
    assert not rest.summary().problems
    np.testing.assert_array_equal(rest.draws["mu"], DRAWS["mu"][[0, 1, 3]])


def test_how_far_is_far_depends_on_the_number_of_coordinates():
    """The limit is ten times the square root of half their number: 12.2 for 3, 70.7 for 100."""
    apart = with_log_densities(0, 0, -20, 0)
    assert "chain 2 is far" in problem(KNOWN | {"num_coordinates": 3}, **apart)
    assert not result(KNOWN | {"num_coordinates": 100}, **apart).summary().problems
    many = DRAWS | {"z": np.random.default_rng(1).normal(size=(4, 1000, 97))}
    assert "chain 2 is far" in problem({}, **apart)  # of three scalars
    assert not [
        text for text in result({}, draws=many, **apart).summary().problems if "far" in text
    ]


@pytest.mark.parametrize(
    ("init", "starts"),
    [
        ("uniform", "init='prior', 'optimum' or values"),
        ("prior", "init='optimum' or values"),
        ("optimum", "init='prior' or values"),
        (None, "init='prior', 'optimum' or values"),
    ],
)
def test_other_starts_are_others_than_those_of_the_run(init, starts):
    step_size = np.where(CHAINS == 1, 0.02, STATS["step_size"])
    for stats in (LOST, with_rates(0.8, 0.05, 0.8, 0.8), {"step_size": step_size}):
        assert starts in problem(KNOWN | {"init": init}, **stats)


Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def schools(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.full(8, mu), tau), name="theta")
    ppl.sample(key, dist.Normal(theta, sigma), name="y")


CENTRED = ppl.condition(schools, {"y": Y})
NONCENTRED = ppl.reparam(CENTRED, ppl.auto_reparam)


def within(key):
    ppl.nest(ppl.reparam(pair, {"x": ppl.NonCentered()}), scope="part")(key)


def pair(key):
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
    ppl.sample(key, dist.Normal(0.0, scale), name="x")


def partly(key):
    ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="y")


PARTLY = ppl.condition(partly, {"y": ppl.impute(np.array([1.0, np.nan]))})
DENSITY = ppl.from_density(lambda x: -0.5 * x["a"] ** 2, {"a": 0.0})


@pytest.mark.parametrize(
    ("model", "args", "expected"),
    [
        (CENTRED, (SIGMA,), "possible"),
        (NONCENTRED, (SIGMA,), "done"),
        (ppl.reparam(CENTRED, {"theta": ppl.NonCentered()}), (SIGMA,), "done"),
        (within, (), "done"),
        (pair, (), "possible"),
        (PARTLY, (), "impossible"),
        (DENSITY, (), "impossible"),
    ],
    ids=["centred", "by the rule", "by name", "in a scope", "pair", "partly observed", "density"],
)
def test_what_the_rule_would_change_is_found(model, args, expected):
    target = ppl.unconstrain(model, *args)
    for stats in (DIVERGENT, SLOW_ENERGY):
        assert noncentering_of_chains(target, DRAWS, STATS | stats) == expected


def test_the_rule_is_applied_in_one_trace_and_only_where_needed():
    num_traces = 0

    def model(key):
        nonlocal num_traces
        num_traces += 1
        pair(key)

    target = ppl.unconstrain(model)
    before = num_traces
    for stats in (STATS, {}, {"is_divergent": np.zeros((4, 10), bool)}):
        assert noncentering_of_chains(target, QUICK, stats) is None
    assert num_traces == before
    assert noncentering_of_chains(target, QUICK, DIVERGENT) == "possible"
    assert num_traces == before + 1


def test_low_ess_asks_for_the_rule():
    target, slow = ppl.unconstrain(pair), {"x": np.stack([QUICK["x"][..., 0], WALK], 2)}
    assert noncentering_of_chains(target, slow, STATS) == "possible"
    settings = KNOWN | {"noncentering": "possible"}
    found = " ".join(result(settings, draws=slow).summary().problems)
    assert "Raise num_draws, or reparameterise hierarchical sites, as by ppl.reparam" in found
    settings = KNOWN | {"noncentering": "impossible"}
    assert "eparam" not in " ".join(result(settings, draws=slow).summary().problems)


def test_guides_recommend_the_rule_where_it_changes_sites():
    targets = [ppl.unconstrain(model, *args) for model, args in ((pair, ()), (PARTLY, ()))]
    assert [noncentering_of_guide(x, 1.5, 1000) for x in targets] == ["possible", "impossible"]
    assert noncentering_of_guide(targets[0], 0.2, 1000) is None
    words = {
        x: next(describe_tail(1.5, 1000, noncentering=x)) for x in (None, "impossible", "done")
    }
    assert "as by ppl.reparam(model, ppl.auto_reparam), or use mcmc." in words[None]
    assert "eparam" not in words["impossible"]
    assert words["done"].endswith(UNDO)


def test_many_chains_are_not_listed():
    """Of 20 chains, each in a place of its own."""
    shift = np.where(np.arange(20) < 9, 0.05, 0.9)[:, None] * np.ones((20, 100))
    stats = {"acceptance_rate": shift, "is_divergent": np.zeros((20, 100), bool)}
    draws = {"x": np.random.default_rng(0).normal(size=(20, 100))}
    summary = MCMCResult(draws, stats, np.ones((20, 1)), tuple(KNOWN.items())).summary()
    assert "chains 0, 1, 2, ... (9 of 20) hardly moved" in " ".join(summary.problems)


def test_a_failure_to_apply_the_rule_costs_no_draws(monkeypatch):
    def fails(model):
        raise RuntimeError(model)

    monkeypatch.setattr(ppl, "coordinates", fails)
    assert noncentering_of_chains(ppl.unconstrain(pair), QUICK, DIVERGENT) is None
    assert noncentering_of_chains(ppl.unconstrain(pair), QUICK, {"energy": "none"}) is None


def divergences(model, sigma, **settings):
    """Settings and the warning of a run in which transitions diverged."""
    run = inference.mcmc(jax.random.key(2), model, sigma, num_warmup=200, num_draws=400, **settings)
    assert run.stats["is_divergent"].any()
    (warning,) = [text for text in run.summary().problems if "diverged" in text]
    return dict(run.settings), warning


def test_centred_schools_are_to_be_reparameterised():
    """With few data per group: standard errors ten times as large as they were."""
    settings, warning = divergences(CENTRED, 10 * SIGMA)
    assert settings == {
        "num_warmup": 200,
        "target_acceptance_rate": 0.8,
        "init": "uniform",
        "num_coordinates": 10,
        "noncentering": "possible",
    }
    assert f"{REPARAM}, raise target_acceptance_rate to 0.95, or" in warning
    assert "reparameterised already" not in warning


def test_reparameterised_schools_are_not_to_be_again():
    """With many data per group, for which the centred form is better."""
    settings, warning = divergences(NONCENTRED, SIGMA / 100, init="prior")
    assert (settings["noncentering"], settings["init"]) == ("done", "prior")
    assert "ppl.auto_reparam" not in warning
    assert warning.endswith(UNDO)


@pytest.mark.parametrize(
    ("kernel", "num_warmup"),
    [(RandomWalk(), 20), (NUTS(step_size=0.5), 0)],
    ids=["own", "as it is"],
)
def test_a_run_without_adaptation_has_no_target(kernel, num_warmup):
    init = {"mu": 0.0}
    run = inference.mcmc(
        jax.random.key(0), POSTERIOR, kernel=kernel, num_warmup=num_warmup, num_draws=5, init=init
    )
    assert dict(run.settings) == {
        "num_warmup": num_warmup,
        "target_acceptance_rate": None,
        "init": None,
        "num_coordinates": 2,
        "noncentering": "impossible",  # ESS of five draws is low
    }
    assert (run.inverse_mass_matrix is None) == isinstance(kernel, RandomWalk)
