"""Parallel tempering: weights of modes, evidence, invariance, what stays at a temperature."""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random

import distributions as dist
import ppl
from inference import (
    HMC,
    MEADS,
    NUTS,
    EllipticalSlice,
    Gibbs,
    ParallelTempering,
    RandomWalk,
    Reference,
    Slice,
    evidence,
    mcmc,
    mcse_mean,
)
from inference.chains.step_chains import statistics_of
from inference.kernels.tempering.ladder import (
    first_ladder,
    spread_evenly,
    swap_rates,
    swapped_order,
)
from inference.kernels.tempering.tally import empty_tally, follow_replicas, log_evidence_of, observe
from inference.results.tempering import tempering_problems
from tests.inference.kernel_rows import LADDER, MEANS, PRECISIONS, WIDE, placed

FAILURE_RATE = 1e-5  # of one test, by chance
SIGMAS = 4.3  # of the same rate


def two_modes(key):
    """Normal distributions of weights 0.3 and 0.7 at a distance of ten standard deviations."""
    wide = dist.Normal(0.0, 5.0)
    x = ppl.sample(key, wide, name="x")
    left = jnp.log(0.3) + dist.Normal(-5.0, 1.0).log_prob(x)
    right = jnp.log(0.7) + dist.Normal(5.0, 1.0).log_prob(x)
    ppl.factor(jnp.logaddexp(left, right) - wide.log_prob(x), name="data")


def test_far_modes_get_their_weights_and_nuts_misses_one():
    alone = mcmc(random.key(1), two_modes, num_warmup=500)
    assert alone.summary().problems == ()  # all chains are in one mode, and nothing shows it
    assert np.all(alone.draws["x"] > 0)
    result = mcmc(random.key(1), two_modes, kernel=ParallelTempering(num_temperatures=6))
    is_right = (np.asarray(result.draws["x"]) > 0).astype(float)
    assert abs(is_right.mean() - 0.7) < SIGMAS * mcse_mean(is_right)
    assert mcse_mean(is_right) < 0.03
    found = evidence(result)
    assert abs(found.log_evidence) < 0.15  # of a factor that makes the density a normalized one
    assert 0 < found.standard_error < 0.05
    assert result.summary().problems == ()
    assert re.search(
        r"log evidence -?0\.\d\d \(SE .*round trips.*swap\s+rates",
        f"{result}{result.summary()}",
        re.S,
    )
    assert result.stats["num_round_trips"][:, -1].min() > 50


def conjugate(key):
    keys = random.split(key, 4)
    p = ppl.sample(keys[0], dist.Beta(2.0, 3.0), name="p")
    ppl.sample(keys[1], dist.Binomial(20, probs=p), name="count")
    mu = ppl.sample(keys[2], dist.Normal(1.0, 2.0), name="mu")
    ppl.sample(keys[3], dist.Normal(mu, jnp.ones(3)), name="y")


Y = np.array([3.0, 4.5, 2.5], np.float32)
PRIOR_PREDICTIVE = st.multivariate_normal(np.ones(3), cov=np.eye(3) + 4.0)  # pyright: ignore
EVIDENCE = st.betabinom.logpmf(15, 20, 2, 3) + PRIOR_PREDICTIVE.logpdf(Y)
KERNEL = ParallelTempering(kernel=Slice(), num_temperatures=5)
SETTINGS = {"num_warmup": 300, "kernel": KERNEL}


def conjugate_posterior():
    return ppl.condition(conjugate, {"count": jnp.array(15), "y": jnp.asarray(Y)})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder, and the result of a run in it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    model = conjugate_posterior()
    return folder, mcmc(random.key(0), model, num_draws=1000, checkpoint=folder, **SETTINGS)


def test_the_evidence_is_that_of_conjugate_models(run):
    found = evidence(run[1])
    assert abs(found.log_evidence - EVIDENCE) < 0.1
    assert found.standard_error < 0.05
    for name, (mean, variance) in {
        "p": (17 / 25, 17 * 8 / 25**2 / 26),
        "mu": ((1 / 4 + Y.sum()) / (1 / 4 + 3), 1 / (1 / 4 + 3)),
    }.items():
        x = np.asarray(run[1].draws[name], np.float64)
        squares = (x - mean) ** 2
        assert abs(x.mean() - mean) < SIGMAS * mcse_mean(x)
        assert abs(squares.mean() - variance) < SIGMAS * mcse_mean(squares)


def on_path(kernel, has_sample=True):
    """Tempering of a kernel in the plane, with the temperatures of `LADDER`."""
    return ParallelTempering(
        lambda x: -0.5 * jnp.sum((x - 2) ** 2),
        kernel=kernel,
        num_temperatures=4,
        reference=WIDE if has_sample else dataclasses.replace(WIDE, sample=None),
    )


def what_stays(kernel):
    """Whether step sizes stay at their temperatures, and caches are those of the positions."""
    kernel = on_path(kernel, has_sample=False)
    sizes = jnp.array([0.4, 0.3, 0.2, 0.1])

    @jax.jit
    def step(key, positions):
        state = placed(kernel, positions)
        moves = state.moves._replace(step_size=sizes)
        return kernel.step(key, state._replace(moves=moves))[0]

    new = step(random.key(3), jnp.asarray(MEANS[:, None] + np.ones((4, 2)), float))
    assert not np.array_equal(new.replicas, np.arange(4))
    x = np.asarray(new.positions)
    density = -0.5 * (PRECISIONS * ((x - MEANS[:, None]) ** 2).sum(1))
    shift = density - np.asarray(new.moves.log_density)
    exact = -0.5 * PRECISIONS * MEANS**2 * 2 + 4 * LADDER - (1 - LADDER) * -2 * np.log(3)
    is_cached = np.allclose(shift, exact, rtol=1e-4, atol=1e-4)
    is_placed = np.array_equal(new.positions, new.moves.position)
    return np.array_equal(new.moves.step_size, sizes) and is_cached and is_placed


@pytest.mark.quick_rows("HMC")
@pytest.mark.parametrize("kernel", [HMC(num_steps=1), RandomWalk()], ids=["HMC", "RandomWalk"])
def test_what_is_adapted_stays_at_its_temperature(kernel):
    assert what_stays(kernel)


def test_adaptation_that_moves_with_the_replica_is_caught(monkeypatch):
    def place(self, betas, moves, positions):
        order = jnp.argmax(jnp.all(positions[:, None] == moves.position[None], -1), 1)
        return honest(self, betas, jax.tree.map(lambda x: x[order], moves), positions)

    honest = ParallelTempering._place
    monkeypatch.setattr(ParallelTempering, "_place", place)
    assert not what_stays(RandomWalk())


def test_swap_rates_are_ratios_of_joint_densities():
    ladder = np.array([0.0, 0.2, 1.0])
    x = np.array([-3.0, 1.0, -2.0])

    def joint(x):
        return ladder @ x

    changes = [joint(x[order]) - joint(x) for order in np.array([[1, 0, 2], [0, 2, 1]])]
    found = swap_rates(jnp.asarray(ladder), jnp.asarray(x))
    np.testing.assert_allclose(found, np.minimum(1, np.exp(changes)), rtol=1e-5)
    impossible = jnp.array([-jnp.inf, -jnp.inf, 0.0])
    np.testing.assert_array_equal(swap_rates(jnp.asarray(ladder), impossible), [0, 0])
    np.testing.assert_array_equal(swapped_order(jnp.array([True, False, True])), [1, 0, 3, 2])


def test_ladders_have_equal_rates_and_stay_apart(x64):
    ladder = first_ladder(6, jnp.float64)
    barrier = 2 * ladder ** (1 / 3)  # straight in the cube root, so that one round finds it
    uneven = jnp.array([0.0, 0.002, 0.3, 0.5, 0.9, 1.0])
    found = spread_evenly(uneven, jnp.diff(2 * uneven ** (1 / 3)))
    np.testing.assert_allclose(2 * found ** (1 / 3), barrier, atol=1e-12)
    flat = spread_evenly(uneven, jnp.array([0.0, 0.0, 0.7, 0.0, 0.0]))
    assert np.all(np.diff(flat) > 0)
    assert (flat[0], flat[-1]) == (0, 1)


def test_stepping_stones_of_exact_draws_give_the_evidence(x64):
    """Normal likelihood of one datum 2 with a standard normal prior."""
    ladder = np.array([0.0, 0.1, 0.4, 1.0])
    precision = 1 + ladder
    noise = np.random.default_rng(0).normal(size=(4000, 4))
    draws = 2 * ladder / precision + noise / np.sqrt(precision)
    found = evidence_of(ladder, jnp.asarray(st.norm.logpdf(2.0, draws)))
    assert abs(found - st.norm.logpdf(2.0, 0, np.sqrt(2))) < 0.02


def evidence_of(ladder, log_likelihoods):
    """Log evidence by log likelihoods ``(iteration, temperature)``."""
    dtype = log_likelihoods.dtype
    betas = jnp.asarray(ladder, dtype)
    rates = jnp.zeros(betas.size - 1, dtype)
    tally, _ = lax.scan(
        lambda tally, x: (observe(tally, betas, x, rates, jnp.int32(0)), None),
        empty_tally(betas.size, dtype),
        log_likelihoods,
    )
    return log_evidence_of(tally)


def test_stones_of_a_prior_that_reaches_impossible_places(x64):
    """Uniform prior, likelihood x^2 above 1/2 and else 0: the evidence is (1 - 1/8) / 3."""
    ladder = np.array([0.0, 0.2, 1.0])
    power = 2 * ladder + 1
    low = np.where(ladder > 0, 0.5**power, 0)
    units = np.random.default_rng(0).uniform(size=(4000, 3))
    x = (low + units * (1 - low)) ** (1 / power)
    found = evidence_of(ladder, jnp.where(x > 0.5, 2 * jnp.log(x), -jnp.inf))
    assert abs(found - np.log(7 / 24)) < 0.03


def test_stones_before_the_first_possible_place_are_no_nan(x64):
    log_likelihoods = jnp.array([[-jnp.inf, -1.0, -1.0]] * 3)
    assert evidence_of(np.array([0.0, 0.0, 1.0]), log_likelihoods) == -jnp.inf


def test_sums_of_large_log_likelihoods_do_not_drift():
    spread = np.random.default_rng(0).normal(size=(20000, 2))
    offsets = np.array([-30000.0, -100.0])
    upward = np.log(np.mean(np.exp(spread[:, 0]))) + offsets[0]
    downward = offsets[1] - np.log(np.mean(np.exp(-spread[:, 1])))
    found = evidence_of([0.0, 1.0], jnp.asarray(offsets + spread, jnp.float32))
    assert abs(found - (upward + downward) / 2) < 0.02


def test_round_trips_are_those_of_a_plain_count():
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(4) for _ in range(60)])
    legs = jnp.zeros(4, jnp.int32)
    total = 0
    for replicas in jnp.asarray(orders):
        legs, number = follow_replicas(legs, replicas)
        total += int(number)
    ends = [[(i == 3) for i in np.argmax(orders == r, 1) if i in (0, 3)] for r in range(4)]
    texts = ["".join("TR"[not end] for end, _ in itertools.groupby(x)) for x in ends]
    assert total == sum(max(0, text.count("T") - 1) for text in texts) > 5


def stats(num_round_trips, lowest):
    columns = {"num_round_trips": num_round_trips, "lowest_swap_rate": lowest, "barrier": 3.2}
    return {name: np.full((2, 5), x) for name, x in (columns | {"log_evidence": 0.0}).items()}


def test_too_few_round_trips_are_a_problem():
    assert list(tempering_problems(stats(10, 0.1))) == []
    (problem,) = tempering_problems(stats(3, 0.1))
    assert "made only 3 round trips" in problem
    assert "ParallelTempering(num_temperatures=8)" in problem
    (problem,) = tempering_problems(stats(0, 0.6))
    assert "num_temperatures" not in problem
    assert list(tempering_problems({})) == []


def test_the_evidence_of_other_results_is_refused(run):
    with pytest.raises(TypeError, match="result must be a result of Markov chains"):
        evidence({"stats": 1})  # pyright: ignore[reportArgumentType]
    plain = dataclasses.replace(run[1], stats={})
    with pytest.raises(TypeError, match=r"needs the model: inference.evidence\(result, posterior"):
        evidence(plain)


def flat(key):
    ppl.sample(key, dist.Normal(0.0, 1.0), name="x")


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (ParallelTempering(kernel=NUTS), TypeError, "did you mean NUTS()?"),
        (ParallelTempering(kernel=MEADS()), TypeError, "MEADS moves all chains together"),
        (ParallelTempering(kernel=3), TypeError, "must be a kernel of one chain such as NUTS()"),
        (ParallelTempering(kernel=Slice(jnp.sum)), ValueError, "has a log density of its own"),
        (ParallelTempering(kernel=Slice(width=-1.0)), ValueError, "width must be a positive"),
        (ParallelTempering(kernel=NUTS(step_size=-1.0)), ValueError, "step_size must be"),
        (ParallelTempering(target_acceptance_rate=2), ValueError, "target_acceptance_rate must"),
        (ParallelTempering(reference=jnp.sum), TypeError, "reference must be an inference.Ref"),
        (
            ParallelTempering(kernel=Slice(), target_acceptance_rate=0.9),
            ValueError,
            "is for Hamiltonian kernels such as NUTS() or HMC(), got 0.9 with Slice(): leave it",
        ),
        (
            ParallelTempering(kernel=RandomWalk(), target_acceptance_rate=0.3),
            ValueError,
            "give it to the kernel, RandomWalk(target_acceptance_rate=...)",
        ),
        (
            ParallelTempering(kernel=EllipticalSlice()),
            TypeError,
            "for the density that ParallelTempering gives it, at each temperature; EllipticalSlice",
        ),
        (ParallelTempering(kernel=Gibbs.auto()), TypeError, "temperature; Gibbs has none"),
        (ParallelTempering(kernel=KERNEL), TypeError, "refresh(state), which evaluates anew"),
    ],
)
def test_bad_settings_are_named(kernel, error, words):
    with pytest.raises(error, match=re.escape(words)):
        mcmc(random.key(0), flat, kernel=kernel, num_warmup=2, num_draws=2)


class Stale(RandomWalk):
    """Its states keep the log density of where they were."""

    def refresh(self, state):
        return state


def test_a_kernel_that_does_not_evaluate_anew_is_refused():
    with pytest.raises(TypeError, match=r"Stale\.refresh does not evaluate the log density"):
        on_path(Stale()).init(jnp.zeros(2))


@pytest.mark.parametrize("inner", [RandomWalk(), HMC(num_steps=1)])
def test_divergences_are_of_kernels_that_may_diverge(inner):
    kernel = on_path(inner)
    state = jax.eval_shape(kernel.init, jnp.zeros(2))
    state, info = jax.eval_shape(kernel.step, jax.eval_shape(lambda: random.key(0)), state)
    names = statistics_of(info, state).keys()
    assert ("is_divergent" in names) == isinstance(inner, HMC)
    assert names >= {"swap_rate", "log_evidence", "log_density"}


def test_one_temperature_and_no_density_are_refused():
    with pytest.raises(TypeError, match=r"is by name, ParallelTempering\(kernel=Slice\(\)\)"):
        ParallelTempering(Slice())  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="num_temperatures must be an integer of at least 2"):
        ParallelTempering(num_temperatures=1)
    with pytest.raises(ValueError, match="ParallelTempering has no log_density"):
        ParallelTempering().init(jnp.zeros(2))
    with pytest.raises(ValueError, match="needs a reference beside a log_density"):
        dataclasses.replace(on_path(Slice()), reference=None).init(jnp.zeros(2))
    wide = Reference(lambda x: -0.5 * x**2)
    with pytest.raises(ValueError, match="log_density of the reference returned an array of shape"):
        dataclasses.replace(on_path(Slice()), reference=wide).init(jnp.zeros(2))


def test_a_density_without_a_prior_is_refused():
    bare = ppl.from_density(lambda q: -0.5 * q["x"] ** 2, {"x": 0.0})
    with pytest.raises(NotImplementedError, match="starts at the prior, and site 'x': a model of"):
        mcmc(random.key(0), bare, kernel=ParallelTempering(), num_warmup=2, num_draws=2)


def test_a_prior_that_is_not_apart_from_data_is_refused():
    def model(key):
        ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="y")

    posterior = ppl.condition(model, {"y": ppl.impute(np.array([1.0, np.nan]))})
    with pytest.raises(NotImplementedError, match=r"starts at the prior, and site .y. is observed"):
        mcmc(random.key(0), posterior, kernel=KERNEL, num_warmup=2, num_draws=2)
