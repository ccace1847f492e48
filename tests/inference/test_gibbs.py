"""Gibbs sampling with derived conditionals: exact posteriors, Geweke's joint test, refusals."""

import collections
import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from jax import lax, random

import distributions as dist
import ppl
from inference import (
    MALA,
    NUTS,
    CountSlice,
    GibbsWithGradients,
    RandomWalk,
    Slice,
    loo,
    mcmc,
    mcse_mean,
    resume,
)
from inference.initialization.initial_positions import Init
from inference.kernels.gibbs import sweep
from inference.kernels.gibbs.block_density import block_density
from inference.kernels.gibbs.gibbs import Conjugate, Gibbs
from inference.kernels.gibbs.gibbs_plan import gibbs_plan
from inference.kernels.gibbs.gibbs_target import GibbsTarget
from inference.kernels.gibbs.sweep import Sweep
from inference.runtime.compiled_program import compile_program

Z = 4.3  # of ten estimates, one is beyond by chance in a run of 6,000
DATA = np.array([0.1, 2.9, 3.1, -0.2])


def switches(key):
    """Which entries have the mean `mu`, and which have 0."""
    p = ppl.sample(key, dist.Beta(2.0, 2.0), name="p")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(4, p)), name="z")
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    ppl.deterministic(2 * mu, name="twice")
    ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")


POSTERIOR = ppl.condition(switches, {"y": jnp.asarray(DATA, jnp.float32)})


def exact_means():
    """Posterior means of `z` and `mu`: `p` and `mu` in closed form for each of the 16 states."""
    weights, zs, mus = [], [], []
    for z in itertools.product([0, 1], repeat=4):
        number = sum(z)
        score = sp.betaln(2 + number, 6 - number) - sp.betaln(2, 2)
        covariance = np.eye(4) + 9 * np.outer(z, z)
        score += np.asarray(st.multivariate_normal(cov=covariance).logpdf(DATA))  # type: ignore
        weights.append(score)
        zs.append(z)
        mus.append(np.dot(z, DATA) / (number + 1 / 9))
    weights = sp.softmax(weights)
    return weights @ np.array(zs), weights @ np.array(mus)


BLOCKS = {
    "rest by NUTS": Gibbs({"z": Conjugate()}),
    "all exact": Gibbs({("z", "p", "mu"): Conjugate()}),
    "states jointly": Gibbs({"z": ppl.Enumerate(), "p": Conjugate()}),
    "two kernels": Gibbs({"z": Conjugate(), "p": Slice()}, rest=RandomWalk()),
    "planned": Gibbs.auto(),
    "states by proposals": Gibbs({"z": GibbsWithGradients(gradient=False), "p": Conjugate()}),
    "rest by slices": Gibbs({"z": Conjugate(), "p": Conjugate()}, rest=Slice()),
    "rest by a walk": Gibbs({("p", "z"): Conjugate()}, rest=RandomWalk()),
}


def scores(result):
    """How many standard errors means are from the exact ones."""
    draws = {name: np.asarray(x, np.float64) for name, x in result.draws.items()}
    z, mu = exact_means()
    errors = [(draws["mu"].mean() - mu) / mcse_mean(draws["mu"])]
    for i in range(4):
        errors.append((draws["z"][..., i].mean() - z[i]) / mcse_mean(draws["z"][..., i]))
    return np.abs(errors)


@pytest.mark.quick_rows("planned")
@pytest.mark.parametrize("name", BLOCKS)
def test_draws_have_the_exact_means(name):
    result = mcmc(random.key(0), POSTERIOR, kernel=BLOCKS[name], num_draws=8000)
    assert np.all(scores(result) < Z)
    assert {name for name, *_ in result.sites} == {"p", "z", "mu", "twice"}
    np.testing.assert_allclose(result.draws["twice"], 2 * result.draws["mu"], rtol=1e-5)


def test_a_density_of_before_the_exact_draws_is_caught(monkeypatch):
    compile_program.cache_clear()
    monkeypatch.setattr(sweep, "_refresh", lambda kernel, state: state)
    result = mcmc(random.key(0), POSTERIOR, kernel=BLOCKS["rest by a walk"], num_draws=25_000)
    compile_program.cache_clear()
    assert np.max(scores(result)) > Z


def test_a_run_is_known_by_its_data():
    settings = {"kernel": BLOCKS["rest by slices"], "num_warmup": 60}
    long = mcmc(random.key(0), POSTERIOR, num_draws=30, **settings)
    assert loo(long, POSTERIOR).elpd < 0
    other = ppl.condition(switches, {"y": jnp.asarray(DATA + 1, jnp.float32)})
    with pytest.raises(ValueError, match="its data are not those of the run"):
        loo(long, other)


ENDLESS = (
    "block {} by Enumerate(): site 'n' has the family Poisson, which has infinitely many states. "
    "Move counts by CountSlice()"
)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Gibbs({"z": Conjugate}), TypeError, "did you mean Conjugate()?"),
        (lambda: Gibbs("z"), TypeError, "blocks must be a dict by site, got 'z'"),
        (lambda: Gibbs({"z": Forgetful()}), TypeError, "with a method refresh(state)"),
        (lambda: Gibbs({3: Conjugate()}), TypeError, "by name of a site, or by tuple of names"),
        (
            lambda: Gibbs({"z": Conjugate(), ("z", "p"): Conjugate()}),
            ValueError,
            "'z' is in 2 blocks",
        ),
        (
            lambda: run({"w": Conjugate()}),
            ValueError,
            "(observed ones are data, and do not move); there are ['p', 'z', 'mu']",
        ),
        (lambda: run({"z": NUTS()}), ValueError, "'z' is discrete, and NUTS moves real numbers"),
        (lambda: run({"z": GibbsWithGradients()}), ValueError, "takes integers at discrete sites"),
        (lambda: run({"p": GibbsWithGradients(gradient=False)}), ValueError, "moves integers"),
        (lambda: run({("p", "z"): Slice()}), ValueError, "has real and discrete sites"),
        (lambda: run({"p": Conjugate()}), ValueError, "site 'z' is discrete, and in no block"),
        (lambda: Gibbs({"z": Conjugate()}).init({}), TypeError, "pass it to inference.mcmc"),
        (lambda: sampled(Conjugate()), TypeError, 'has sites, kernel=Gibbs({"z": Conjugate()})'),
        (lambda: sampled(ppl.Enumerate()), TypeError, 'kernel=Gibbs({"z": Enumerate()})'),
        (lambda: Gibbs.auto(NUTS()), TypeError, "by name, Gibbs.auto(rest=NUTS())"),  # pyright: ignore
        (
            lambda: Gibbs({"z": Conjugate()}, rest=Gibbs.auto()),
            TypeError,
            "to plan all other sites, give the blocks to Gibbs.auto({...})",
        ),
        (lambda: Gibbs({}), ValueError, "there is no block, so the rest would move all sites"),
        (lambda: run({"p": ppl.Enumerate()}), ValueError, "site 'p' is real. Move counts by"),
        (lambda: sampled(CountSlice()), TypeError, 'kernel=inference.Gibbs({"z": CountSlice()})'),
        (
            lambda: sampled(GibbsWithGradients()),
            TypeError,
            'inference.Gibbs({"z": GibbsWithGradients(gradient=False)})',
        ),
        (lambda: sampled(NUTS()), ValueError, "kernel=inference.Gibbs.auto()), or condition on it"),
    ],
)
def test_mistakes_are_told(make, error, words):
    with pytest.raises(error) as raised:
        make()
    assert words in str(raised.value)


def heavy(key, x):
    """Regression without any full conditional."""
    scale = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="scale")
    weights = ppl.sample(key, dist.StudentT(4.0, jnp.zeros(2), scale), name="weights")
    ppl.sample(key, dist.Normal(x @ weights, 1.0), name="y")


def test_a_rest_without_blocks_runs_by_itself(tmp_path):
    x = jnp.array([[1.0, 0.2], [0.3, -1.0], [-0.5, 0.8]])
    posterior = ppl.condition(heavy, {"y": jnp.array([1.0, 2.0, -0.4])})
    planned = Gibbs.auto(rest=NUTS(max_depth=5))
    assert str(gibbs_plan(posterior, x, kernel=planned)).endswith("NUTS runs by itself")
    settings = {"num_warmup": 120, "mass_matrix": "dense", "target_acceptance_rate": 0.9}
    plain = mcmc(random.key(0), posterior, x, kernel=NUTS(max_depth=5), num_draws=30, **settings)
    assert "weights" in plain.centering
    folder = tmp_path / "run"
    settings |= {"num_draws": 10, "kernel": planned}
    found = mcmc(random.key(0), posterior, x, checkpoint=folder, **settings)
    assert found.facts == plain.facts
    assert found.facts.kernel == "NUTS"
    held = mcmc(random.key(0), posterior, x, **settings)
    for run in (folder, held):
        more = resume(run, posterior, x, kernel=planned, num_draws=30)
        jax.tree.map(np.testing.assert_array_equal, more.draws, plain.draws)
    with pytest.raises(ValueError, match=r"kernel: the run has .*NUTS.*, the call .*Slice"):
        resume(held, posterior, x, kernel=Gibbs.auto(rest=Slice()), num_draws=30)


def run(blocks):
    return sampled(Gibbs(blocks))


def sampled(kernel, posterior=POSTERIOR):
    return mcmc(random.key(0), posterior, kernel=kernel, num_warmup=2, num_draws=2)


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (Gibbs({("n", "k"): ppl.Enumerate()}), ValueError, ENDLESS.format("'n', 'k'")),
        (Gibbs({"n": ppl.Enumerate()}), ValueError, ENDLESS.format("'n'")),
        (Gibbs({"n": Conjugate()}), ValueError, "Move it by CountSlice() or GibbsWithGradients("),
    ],
)
def test_counts_without_an_end_are_told(kernel, error, words):
    def model(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        k = ppl.sample(key, dist.Poisson(3.0), name="k")
        ppl.sample(key, dist.Normal(1.0 * n + k, 1.0), name="y")

    with pytest.raises(error) as raised:
        sampled(kernel, ppl.condition(model, {"y": 3.0}))
    assert words in str(raised.value)


def test_a_kernel_of_integers_needs_a_discrete_site():
    normal = lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x")  # noqa: E731
    with pytest.raises(TypeError, match="the model has no discrete latent site: take NUTS"):
        sampled(CountSlice(), normal)


def test_a_site_without_an_exact_conditional_is_told():
    def model(key):
        mu = ppl.sample(key, dist.StudentT(3.0, 0.0, 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu, 1.0), name="y")

    with pytest.raises(ValueError, match="full conditional of site 'mu' is no distribution"):
        mcmc(random.key(0), ppl.condition(model, {"y": 1.0}), kernel=Gibbs({"mu": Conjugate()}))


def weighted(key, weight):
    """Conditional of `x` that is improper for a weight above 0.5; `above` depends on `x`."""
    x = ppl.sample(key, dist.Normal(0.0, jnp.ones(2)), name="x")
    ppl.factor(weight * x**2, name="weight")
    ppl.sample(key, dist.Normal(x[0], 1.0), name="above")


@pytest.mark.parametrize("num_warmup", [0, 20])
def test_exact_draws_that_are_not_finite_are_told(num_warmup):
    settings = {"kernel": Gibbs.auto(), "num_warmup": num_warmup, "num_draws": 5}
    fine = mcmc(random.key(0), weighted, 0.1, **settings)
    assert np.all(np.isfinite(fine.draws["above"]))
    with pytest.raises(ValueError, match=r"exact draws of sites? .*'x'.* full conditional is impr"):
        mcmc(random.key(0), weighted, 30.0, **settings)


def hierarchy(key, y=None):
    """A mean, its scale by log, and counts of two groups of a hidden class."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    rate = ppl.sample(key, dist.Gamma(2.0, 2.0), name="rate")
    z = ppl.sample(key, dist.Categorical(probs=jnp.array([0.2, 0.5, 0.3])), name="z")
    x = ppl.sample(key, dist.Normal(mu + z, 0.7), name="x")
    n = ppl.sample(key, dist.Poisson(rate * jnp.exp(0.3 * mu) * jnp.ones(2)), name="n")
    return x, n


def bounded(key):
    """A bound that is drawn exactly, and a value below it that another kernel moves."""
    steps = ppl.sample(key, dist.Categorical(probs=jnp.array([0.5, 0.3, 0.2])), name="steps")
    x = ppl.sample(key, dist.Uniform(0.0, 1.0 + steps), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")


def test_a_value_stays_while_its_bounds_move():
    posterior = ppl.condition(bounded, {"y": 1.2})
    kernel = Gibbs({"steps": ppl.Enumerate()}, rest=Slice())
    result = mcmc(random.key(1), posterior, kernel=kernel, num_draws=4000, num_warmup=300)
    tops = np.array([1.0, 2.0, 3.0])
    likelihood = (st.norm.cdf(tops, 1.2, 0.5) - st.norm.cdf(0.0, 1.2, 0.5)) / tops
    weights = np.array([0.5, 0.3, 0.2]) * likelihood
    weights /= weights.sum()
    draws = np.asarray(result.draws["steps"])
    for i in range(3):
        flags = np.asarray(draws == i, np.float64)
        assert abs(flags.mean() - weights[i]) < Z * mcse_mean(flags)


def counted(key):
    """Counts that only some are seen of, at an unknown rate."""
    rate = ppl.sample(key, dist.Gamma(3.0, 0.5), name="rate")
    number = ppl.sample(key, dist.Poisson(rate), name="number")
    ppl.sample(key, dist.Binomial(number, probs=0.5), name="seen")


def test_a_plan_moves_counts_and_keeps_blocks_of_the_user():
    posterior = ppl.condition(counted, {"seen": jnp.array(4)})
    plan = gibbs_plan(posterior)
    assert {site: by for site, by, _ in plan.sites} == {
        "number": "CountSlice",
        "rate": "exact draw",
    }
    mine = gibbs_plan(posterior, kernel=Gibbs.auto({"rate": Slice()}))
    assert {site: by for site, by, _ in mine.sites} == {"number": "CountSlice", "rate": "Slice"}
    with pytest.raises(TypeError, match=r"such as Gibbs.auto\(\), got NUTS"):
        gibbs_plan(posterior, kernel=NUTS())  # type: ignore


def test_parents_of_what_nuts_moves_move_with_it():
    """A scale is hardly free while its effects stay; a child of such sites is drawn."""

    def germination(key):
        level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
        precision = ppl.sample(key, dist.Gamma(2.0, 1.0), name="precision")
        center = ppl.deterministic(level + 1.0, name="center")
        effect = ppl.sample(key, dist.Normal(center, precision**-0.5 * jnp.ones(3)), name="effect")
        ppl.sample(key, dist.Normal(level, precision**-0.5), name="new")
        ppl.sample(key, dist.Binomial(9, logits=effect), name="germinated")

    posterior = ppl.condition(germination, {"germinated": jnp.array([3, 5, 9])})
    by_gradient = {site: why for site, by, why in gibbs_plan(posterior).sites if by == "NUTS"}
    moves = "but effect depends on it and moves with it"
    assert by_gradient == {
        "level": f"its full conditional is Normal, {moves}",
        "precision": f"its full conditional is Gamma, {moves}",
        "effect": "no full conditional in closed form",
    }
    plan = gibbs_plan(posterior, kernel=Gibbs.auto(rest=Slice()))
    assert [site for site, by, _ in plan.sites if by == "Slice"] == ["effect"]


def test_parents_of_what_is_drawn_are_drawn():
    """The weights behind states that are drawn, and what a block of the user is between."""

    def mixture(key):
        weight = ppl.sample(key, dist.Beta(2.0, 2.0), name="weight")
        z = ppl.sample(key, dist.Bernoulli(probs=weight), name="z")
        rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        size = ppl.sample(key, dist.Exponential(rate), name="size")
        x = ppl.sample(key, dist.StudentT(3.0, z + size, 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 1.0), name="y")

    posterior = ppl.condition(mixture, {"y": 1.0})
    plan = gibbs_plan(posterior, kernel=Gibbs.auto({"size": Slice()}))
    assert {site: by for site, by, _ in plan.sites} == {
        "weight": "exact draw",
        "z": "exact draw",
        "rate": "exact draw",
        "size": "Slice",
        "x": "NUTS",
    }


def test_a_block_takes_shorter_steps_where_many_transitions_fail():
    """In a funnel the mean acceptance rate is above the target, in a normal density at it."""

    def funnel(key, steepness):
        log_scale = ppl.sample(key, dist.Normal(0.0, 3.0), name="log_scale")
        scale = jnp.exp(steepness * log_scale)
        ppl.sample(key, dist.Normal(jnp.zeros(4), scale), name="x")
        ppl.sample(key, dist.Bernoulli(probs=0.5), name="coin")

    def rates(steepness, rest=NUTS()):
        kernel = Gibbs({"coin": Conjugate()}, rest=rest)
        result = mcmc(random.key(0), funnel, jnp.float32(steepness), kernel=kernel)
        return np.asarray(result.stats["acceptance_rate"])

    assert rates(0.0).mean() < 0.87
    assert np.median(rates(0.5)) > 0.96  # 0.92 at most if the target stays
    assert abs(rates(0.5, MALA()).mean() - 0.574) < 0.12  # whose target never rises


def test_counts_without_bounds_move_beside_real_numbers():
    posterior = ppl.condition(counted, {"seen": jnp.array(4)})
    kernel = Gibbs({"number": CountSlice(), "rate": Conjugate()})
    result = mcmc(random.key(0), posterior, kernel=kernel, num_draws=4000, num_warmup=300)
    # Unseen counts are negative binomial: rate is Gamma(3 + 4, 0.5 + 0.5), thinned by one half.
    expected = 4 + 0.5 * 7.0
    draws = np.asarray(result.draws["number"], np.float64)
    assert abs(draws.mean() - expected) < Z * mcse_mean(draws)
    assert draws.min() >= 4


def test_joint_draws_count_the_factors_of_scale():
    def two(key):
        mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
        w = ppl.sample(key, dist.Normal(mu, 1.0), name="w")
        ppl.sample(key, dist.Normal(w, 0.5), name="y")

    posterior = ppl.scale(ppl.condition(two, {"y": 1.3}), 0.25)
    kernel = Gibbs({("mu", "w"): Conjugate()})
    result = mcmc(random.key(0), posterior, kernel=kernel, num_warmup=50, num_draws=6000)
    precision = 0.25 * np.array([[1 / 4 + 1, -1], [-1, 1 + 4]])
    covariance = np.linalg.inv(precision)
    mean = covariance @ np.array([0, 0.25 * 4 * 1.3])
    for name, center, variance in zip(["mu", "w"], mean, np.diag(covariance), strict=True):
        draws = np.asarray(result.draws[name], np.float64)
        squares = (draws - center) ** 2
        assert abs(draws.mean() - center) < Z * mcse_mean(draws)
        assert abs(squares.mean() - variance) < Z * mcse_mean(squares)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Forgetful:
    """A kernel that adapts, and cannot evaluate its density anew."""

    log_density: Any = None

    def init(self, position):
        return None

    def step(self, key, state):
        return None

    def adapt(self, state, info, iteration, num_warmup):
        return state


def test_improper_priors_need_no_draw():
    def model(key):
        mu = ppl.sample(key, dist.Flat(dist.constraints.real), name="mu")
        ppl.sample(key, dist.Normal(mu, 1.0), name="y")

    posterior = ppl.condition(model, {"y": 0.7})
    result = mcmc(random.key(0), posterior, kernel=Gibbs.auto(), num_warmup=20, num_draws=2000)
    draws = np.asarray(result.draws["mu"], np.float64)
    assert abs(draws.mean() - 0.7) < Z * mcse_mean(draws)


@pytest.mark.parametrize(
    ("kernel", "bounds"),
    [
        (CountSlice(), (-3, None)),
        (CountSlice(upper=9), (-3, 9)),
        (GibbsWithGradients(gradient=False), (-3, 9)),
        (GibbsWithGradients(gradient=False, lower=-2), (-2, 9)),
        (GibbsWithGradients(gradient=False, num_values=5), (-3, None)),
    ],
)
def test_bounds_that_are_not_given_are_those_of_the_model(kernel, bounds):
    def model(key):
        k = ppl.sample(key, dist.DiscreteUniform(-3, 9), name="k")
        ppl.sample(key, dist.Normal(k, 1.0), name="y")

    target = GibbsTarget.of(ppl.condition(model, {"y": 1.0}), (), {}, Gibbs({"k": kernel}))
    found = [getattr(target.blocks[0].kernel, name) for name in ("lower", "upper")]
    assert tuple(x["k"] if isinstance(x, dict) else x for x in found) == bounds


@pytest.mark.parametrize(
    "kernel",
    [CountSlice(lower=2, upper=4), GibbsWithGradients(gradient=False, lower=2, upper=4)],
)
def test_chains_start_and_stay_within_bounds_of_the_user(kernel):
    """Draws of the prior, about 20, are out of bounds, and a kernel would never leave them."""

    def model(key):
        n = ppl.sample(key, dist.iid(dist.Poisson(20.0), (2,)), name="n")
        ppl.sample(key, dist.Normal(n, 1.0), name="y")

    posterior = ppl.condition(model, {"y": jnp.array([2.2, 3.9])})
    n = np.arange(2, 5)
    log_weights = (
        st.poisson.logpmf(n, 20.0)[:, None] - 0.5 * (n[:, None] - np.array([2.2, 3.9])) ** 2
    )
    weights = np.exp(log_weights)
    exact = (n @ weights) / weights.sum(0)
    settings: Any = {"kernel": Gibbs({"n": kernel}), "num_warmup": 200, "num_draws": 1000}
    draws = np.asarray(mcmc(random.key(0), posterior, **settings).draws["n"], np.float64)
    assert set(np.unique(draws)) == {2, 3, 4}
    errors = [mcse_mean(draws[..., i]) for i in range(2)]
    assert (np.abs(draws.mean((0, 1)) - exact) < Z * np.array(errors)).all()
    if isinstance(kernel, CountSlice):
        with pytest.raises(ValueError, match="a value is out of the bounds of the kernel"):
            mcmc(random.key(0), posterior, init={"n": jnp.array([2, 9])}, **settings)


def test_every_block_tells_of_its_transitions():
    posterior = ppl.condition(wide, {"counts": jnp.array([3, 4]), "y": jnp.array([0.1, 0.5, 0.2])})
    target = GibbsTarget.of(posterior, (), {}, Gibbs({"a": NUTS()}, rest=NUTS()))
    kernel = Sweep(target)
    state: Any = kernel.init({"a": jnp.float32(0.3), "b": jnp.float32(0.2)})
    wild = state.blocks[0].kernel._replace(step_size=jnp.float32(50.0))
    state = state._replace(blocks=(state.blocks[0]._replace(kernel=wild), state.blocks[1]))
    _, info = jax.jit(kernel.step)(random.key(0), state)
    assert info.is_divergent
    assert not hasattr(info, "energy")
    assert {"acceptance_rate", "acceptance_rate_of_a"} <= set(info._fields)


@pytest.mark.parametrize("strategy", ["uniform", "optimum", "prior"])
def test_starts_are_values_of_the_sites(strategy):
    def model(key):
        weights = ppl.sample(key, dist.Dirichlet(jnp.ones(3)), name="weights")
        z = ppl.sample(key, dist.Categorical(probs=weights), name="z")
        ppl.sample(key, dist.Normal(5.0 * z, 1.0), name="y")

    posterior = ppl.condition(model, {"y": 9.0})
    target = GibbsTarget.of(posterior, (), {}, Gibbs({"z": Conjugate()}))
    place = jax.jit(Init(strategy).position, static_argnums=1)
    for attempt in (0, 25):  # late ones are drawn nearer to 0 on unconstrained space
        flat = place(target, target.layout, random.key(1), None, jnp.int32(attempt))
        start = target.layout.unravel(flat)
        np.testing.assert_allclose(jnp.sum(start["weights"]), 1.0, rtol=1e-5)
        assert start["z"] in (0, 1, 2)
        assert np.isfinite(target.log_density(start))


def wide(key):
    """Two groups that have nothing to do with each other, given the data of both."""
    a = ppl.sample(key, dist.StudentT(3.0, 0.0, 1.0), name="a")
    b = ppl.sample(key, dist.StudentT(4.0, 0.0, 1.0), name="b")
    ppl.sample(key, dist.Poisson(jnp.exp(a * jnp.ones(2))), name="counts")
    ppl.sample(key, dist.Normal(jnp.sinh(b) * jnp.ones(3), 1.0), name="y")


def primitives(jaxpr):
    """How often each primitive stands in a jaxpr, inner ones included."""
    found = collections.Counter()
    for eqn in jaxpr.eqns:
        found[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for item in value if isinstance(value, tuple | list) else (value,):
                if hasattr(item, "eqns") or hasattr(item, "jaxpr"):
                    found += primitives(getattr(item, "jaxpr", item))
    return found


def test_a_kernel_evaluates_its_markov_blanket_alone():
    posterior = ppl.condition(wide, {"counts": jnp.array([3, 4]), "y": jnp.array([0.1, 0.5, 0.2])})
    target = GibbsTarget.of(posterior, (), {}, Gibbs({"a": Slice(), "b": Slice()}))
    values = {"a": jnp.float32(0.3), "b": jnp.float32(0.2)}

    def gradient(name):
        others = {path: x for path, x in target.by_path(values).items() if path != (name,)}
        space = sweep._Coordinates(target, ((name,),), others)
        density = block_density(space.log_density, {name: values[name]})
        whole = jax.make_jaxpr(jax.grad(lambda x: space.log_density({name: x})))
        alone = jax.make_jaxpr(jax.grad(lambda x: density({name: x})))
        slopes = [jax.grad(f)({name: values[name]})[name] for f in (density, space.log_density)]
        np.testing.assert_allclose(*slopes, rtol=1e-5)
        return primitives(whole(values[name]).jaxpr), primitives(alone(values[name]).jaxpr)

    whole, alone = gradient("a")
    assert whole["sinh"]
    assert not alone["sinh"]
    assert alone["exp"] == whole["exp"]
    whole, alone = gradient("b")
    assert whole["exp"]
    assert not alone["exp"]
    assert alone["sinh"] == whole["sinh"]


@pytest.mark.parametrize(
    ("num", "by", "reason"),
    [
        (8, "exact draw", "its full conditional is finite"),
        (14, "GibbsWithGradients", "joint draws would sum over more than 4096 states at once"),
        (17, "GibbsWithGradients", "no full conditional in closed form"),
    ],
)
def test_a_plan_sums_coupled_elements_while_their_states_are_few(num, by, reason):
    def together(key):
        z = ppl.sample(key, dist.Bernoulli(probs=np.full(num, 0.5)), name="z")
        ppl.factor(-jnp.square(jnp.sum(z) - 3.0), name="three")

    assert gibbs_plan(together).sites == (("z", by, reason),)


def test_the_plan_says_what_moves_each_site_and_why():
    def model(key):
        tau = ppl.sample(key, dist.Gamma(2.0, 1.0), name="tau")
        top = ppl.sample(key, dist.Normal(0.0, 5.0), name="top")
        groups = ppl.sample(key, dist.Normal(top * jnp.ones(3), 1.0), name="groups")
        shape = ppl.sample(key, dist.Exponential(1.0), name="shape")
        ppl.sample(key, dist.Gamma(shape, 2.0), name="waits")
        ppl.sample(key, dist.Normal(groups, tau**-0.5), name="y")

    posterior = ppl.condition(model, {"y": jnp.array([0.1, 0.3, -0.2]), "waits": 0.7})
    plan = gibbs_plan(posterior)
    assert {site: by for site, by, _ in plan.sites} == {
        "top": "exact draw",
        "groups": "exact draw",
        "tau": "exact draw",
        "shape": "NUTS",
    }
    lines = str(plan).splitlines()
    assert lines[0].split() == ["site", "by", "reason"]
    assert "groups  exact draw  jointly normal given all others" in lines
    assert "tau     exact draw  its full conditional is Gamma" in lines


def test_the_plan_names_coupled_normal_elements_in_words():
    def model(key):
        steps = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="steps")
        ppl.sample(key, dist.Normal(jnp.cumsum(steps), 1.0), name="y")

    (site,) = gibbs_plan(ppl.condition(model, {"y": jnp.array([0.1, 0.3])})).sites
    assert site == ("steps", "exact draw", "jointly normal given all others")


@pytest.mark.slow
def test_joint_draws_keep_their_law():
    """Geweke (2004): data given latent sites, then a sweep, in turn, from exact joint draws."""
    blocks = Gibbs({("z", "rate"): Conjugate()}, rest=NUTS(step_size=0.5))

    def chain(key):
        for_start, for_steps = random.split(key)
        joint = {n: s.value for n, s in ppl.trace(hierarchy)(for_start).sites.items()}

        def step(joint, key):
            for_data, for_sweep = random.split(key)
            data = {name: joint[name] for name in ("x", "n")}
            posterior = ppl.condition(hierarchy, data)
            kernel = Sweep(GibbsTarget.of(posterior, (), {}, blocks))
            position = {name: joint[name] for name in ("z", "rate", "mu")}
            values = kernel.step(for_sweep, kernel.init(position))[0].position
            new = ppl.trace(ppl.condition(hierarchy, values))(for_data).sites
            return {n: s.value for n, s in new.items()}, None

        return lax.scan(step, joint, random.split(for_steps, 3))[0]

    joint = jax.jit(jax.vmap(chain))(random.split(random.key(0), 4000))
    assert st.kstest(joint["mu"], "norm").pvalue > 1e-5
    assert st.kstest(joint["rate"], st.gamma(2.0, scale=0.5).cdf).pvalue > 1e-5
    counts = np.bincount(joint["z"], minlength=3)
    assert st.chisquare(counts, 4000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-5
    assert st.kstest((joint["x"] - joint["mu"] - joint["z"]) / 0.7, "norm").pvalue > 1e-5
    assert abs(np.corrcoef(joint["mu"], joint["rate"])[0, 1]) < 4.5 / np.sqrt(4000)


SWITCH = np.array([[0.98, 0.02], [0.02, 0.98]])


def states_by_name(key):
    """A chain of states that seldom change, a site each, and a state apart from it."""
    z = 0
    for i in range(4):
        probs = jnp.asarray(SWITCH)[z] if i else jnp.full(2, 0.5)
        z = ppl.sample(key, dist.Categorical(probs=probs), name=f"z{i}")
        ppl.sample(key, dist.Normal(jnp.float32(z), 1.0), name=f"y{i}")
    ppl.sample(key, dist.Bernoulli(probs=0.3), name="apart")


def chance(planned):
    """Chance of counts as those of the chain after one sweep from one start."""
    noise = [0.3, 0.9, 0.2, 0.8]
    posterior = ppl.condition(states_by_name, {f"y{i}": y for i, y in enumerate(noise)})
    kernel = Sweep(GibbsTarget.of(posterior, (), {}, planned))
    start = {name: jnp.int32(1) for name in ("z0", "z1", "z2", "z3", "apart")}

    def one(key):
        return kernel.step(key, kernel.init(start))[0].position

    draws = jax.jit(jax.vmap(one))(random.split(random.key(0), 4000))
    found = np.stack([draws[f"z{i}"] for i in range(4)], 1) @ [8, 4, 2, 1]
    states = np.array(list(itertools.product([0, 1], repeat=4)))
    changes = sum(np.log(SWITCH)[states[:, i - 1], states[:, i]] for i in range(1, 4))
    exact = sp.softmax(changes - np.sum((noise - states) ** 2, 1) / 2)
    common = exact > 2e-3
    counts = np.bincount(found, minlength=16)
    seen = [*counts[common], counts[~common].sum()]
    return st.chisquare(seen, 4000 * np.array([*exact[common], exact[~common].sum()])).pvalue


def test_states_that_are_coupled_are_drawn_in_one_draw():
    """Independent draws of the chain, which draws one after the other are not."""
    assert chance(Gibbs.auto()) > 1e-5


@pytest.mark.slow
def test_states_one_after_the_other_are_told_from_joint_draws():
    names = ("z0", "z1", "z2", "z3", "apart")
    assert chance(Gibbs({name: Conjugate() for name in names})) < 1e-5


@pytest.mark.slow
def test_a_model_whose_states_are_summed_out_has_the_exact_mean():
    summed = ppl.marginalize(POSTERIOR, ["z"])
    result = mcmc(random.key(0), summed, kernel=Gibbs.auto(), num_draws=4000)
    draws = np.asarray(result.draws["mu"], np.float64)
    assert abs(draws.mean() - exact_means()[1]) < Z * mcse_mean(draws)
