"""Advice of a summary of chains: it fits the run, and names nothing that the run has had."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import WALNUTS, LowRankMatrix, MCMCResult
from inference.results.run_facts import RunFacts
from tests.inference.test_mcmc_result import DRAWS, KNOWN, STATS

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
    return MCMCResult(draws, STATS | stats, matrix, RunFacts(**settings))


def problem(*args, **kwargs):
    """The only problem of a result."""
    (found,) = result(*args, **kwargs).summary().problems
    return found


FINER = "take kernel=WALNUTS(), whose steps are finer there"
NARROW = "narrow priors that allow extremes."
REPARAM = "Reparameterize hierarchical sites, as by ppl.reparam(model, ppl.auto_reparam)"
UNDO = (
    " The model is reparameterized already; try it without, too: with many data per group the "
    "centered form is better."
)


@pytest.mark.parametrize(
    ("settings", "matrix", "advice"),
    [
        (KNOWN, DIAGONAL, f"{REPARAM}, raise target_acceptance_rate to 0.95, {FINER}, or {NARROW}"),
        (
            {},
            DIAGONAL,
            f"{REPARAM}, raise target_acceptance_rate to 0.95 or more, {FINER}, or {NARROW}",
        ),
        (
            KNOWN | {"noncentering": None},
            DIAGONAL,
            f"{REPARAM}, raise target_acceptance_rate to 0.95, {FINER}, or {NARROW}",
        ),
        (
            KNOWN | {"noncentering": "impossible"},
            DIAGONAL,
            f"Raise target_acceptance_rate to 0.95, {FINER}, or {NARROW}",
        ),
        (
            KNOWN | {"noncentering": "done", "target_acceptance_rate": 0.95},
            DIAGONAL,
            f"Raise target_acceptance_rate to 0.99, {FINER}, or {NARROW}{UNDO}",
        ),
        (
            KNOWN | {"noncentering": "impossible", "target_acceptance_rate": 0.99},
            DIAGONAL,
            f"T{FINER[1:]}, or {NARROW}",
        ),
        (
            KNOWN | {"num_warmup": 0, "target_acceptance_rate": None},
            DIAGONAL,
            f"{REPARAM}, let warm-up find the step size (num_warmup=1000), {FINER}, or {NARROW}",
        ),
        (OWN, None, f"{REPARAM}, take smaller steps, or {NARROW}"),
        (
            OWN | {"kernel": "ParallelTempering", "noncentering": "impossible"},
            None,
            "Raise the rate of the kernel, ParallelTempering(target_acceptance_rate=0.95), or "
            f"{NARROW}",
        ),
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
    ("halvings", "advice"),
    [
        (10, f"to 0.95, allow WALNUTS(max_halvings=14), or {NARROW}"),
        (18, f"to 0.95, allow WALNUTS(max_halvings=20), or {NARROW}"),
        (20, f"to 0.95, or {NARROW}"),
        (0, f"to 0.95, or {NARROW}"),  # An infinite tolerance halves no step.
    ],
)
def test_advice_on_divergences_of_walnuts_is_its_own(halvings, advice):
    stats = {"halvings": np.full((4, 1000), halvings)}
    found = problem(KNOWN | {"noncentering": "impossible"}, DIAGONAL, **DIVERGENT, **stats)
    assert found.endswith(advice)


@pytest.mark.parametrize(("name", "most"), [("max_depth", 24), ("max_halvings", 20)])
def test_advice_goes_as_far_as_the_kernels_do(name, most):
    WALNUTS(**{name: most})
    with pytest.raises(ValueError, match=f"{name} must be an integer of at most {most}"):
        WALNUTS(**{name: most + 1})


def test_walnuts_that_halves_all_its_steps_has_no_problem():
    stats = with_rates(0.0, 0.05, 0.5, 0.8) | {"halvings": np.full((4, 1000), 4)}
    assert result(**stats).summary().problems == ()


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
        f"Reparameterize{by_rule} with lighter tails on an unconstrained scale, and draw more."
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
    for depth, advice in [(12, "NUTS(max_depth=14)."), (23, "(max_depth=24)."), (24, "scales.")]:
        assert problem(**TRUNCATED | {"depth": np.full((4, 1000), depth)}).endswith(advice)
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
    assert rest.facts == whole.facts
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
