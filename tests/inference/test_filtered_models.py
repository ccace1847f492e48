"""particle_filter of models: against Kalman filters, forward algorithms and normal smoothers."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.extend.core import jaxprs_in_params
from jax.flatten_util import ravel_pytree
from jax.scipy.special import logsumexp

import distributions as dist
import inference
import ppl
from inference.drivers.particle_filter import _check_alive, _run, _Sizes, _sources_of_nan
from inference.models.exact_sites import carry_exactly
from inference.models.state_space import ModelStateSpace
from inference.models.value_target import ValueTarget
from inference.particles.particle_filter import particle_filter as run_filter
from ppl.harvest.function_equality import ComparedByContents
from tests.inference.test_evidence import joint_normal

KEY = random.key(0)
NUM_RUNS = 2_000
SIZES = {"num_particles": 1_000, "num_draws": 500}  # compiled once for all tests
Y = jnp.array([0.3, 1.9, jnp.nan, -1.0, 0.4, 2.0])


def walk(key, num_steps=6):
    """Autoregression from a drawn start, with data behind the last state."""
    start_key, key = random.split(key)

    def body(x, key):
        x = ppl.sample(key, dist.Normal(0.9 * x, 0.7), name="x")
        ppl.deterministic(2 * x, name="twice")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")
        return x, None

    x = ppl.sample(start_key, dist.Normal(0.0, 1.0), name="x0")
    x, _ = lax.scan(body, x, random.split(key, num_steps))
    ppl.sample(start_key, dist.Normal(x, 1.0), name="last")


def second_order(key):
    def body(carry, key):
        before, last = carry
        x = ppl.sample(key, dist.Normal(1.2 * last - 0.5 * before, 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")
        return (last, x), None

    lax.scan(body, (0.0, 0.0), random.split(key, 6))


def sum_of_path(key):
    def body(carry, key):
        x, total = carry
        x = ppl.sample(key, dist.Normal(0.5 * x, 1.0), name="x")
        ppl.sample(key, dist.Normal(total + x, 1.0), name="y")
        return (x, total + x), None

    lax.scan(body, (0.0, 0.0), random.split(key, 6))


TRANSITION = jnp.array([[0.9, 0.1], [0.3, 0.7]])


def hidden_chain(key):
    def body(state, key):
        state = ppl.sample(key, dist.Categorical(probs=TRANSITION[state]), name="state")
        ppl.sample(key, dist.Normal(2.0 * state, 1.0), name="y")
        return state, None

    lax.scan(body, 0, random.split(key, 6))


WALK = ppl.condition(walk, {"y": ppl.ignore(Y), "last": 0.5})
GAPS = {"y": ppl.ignore(Y)}
NORMAL = {
    "walk": (WALK, {"x0": ppl.Gaussian(), "x": ppl.Gaussian()}),
    "second_order": (ppl.condition(second_order, GAPS), {"x": ppl.Gaussian()}),
    "sum_of_path": (ppl.condition(sum_of_path, GAPS), {"x": ppl.Gaussian()}),
}
MODELS = {**NORMAL, "hidden_chain": (ppl.condition(hidden_chain, GAPS), {"state": ppl.Enumerate()})}


def best_guide(key, prior, data, t):
    """The distribution of a state of `walk` given the last state and the data of its step."""
    d = prior["x"]
    is_there = ~jnp.isnan(data["y"])
    precision = d.scale**-2 + is_there / 0.5**2
    mean = (d.loc * d.scale**-2 + jnp.where(is_there, data["y"], 0) / 0.5**2) / precision
    ppl.sample(key, dist.Normal(mean, precision**-0.5), name="x")


def log_ratios(model, sites, *, proposal=None, num_particles=30):
    """Logs of estimated over exact evidence, one for each of many runs."""
    exact = ppl.log_density(ppl.marginalize(model, sites))({})
    space = ModelStateSpace.of(model)

    def run(key):
        def move(key, state, t):
            if proposal is None:
                return space.move(key, state, t)
            return space.move_by(proposal, key, state, t)

        return run_filter(key, space, num_particles, move=move).log_evidence - exact

    return jax.jit(jax.vmap(run))(random.split(KEY, NUM_RUNS))


def is_unbiased(log_ratios):
    """Whether the mean ratio is 1 within 4 standard errors: 1 false alarm in 16,000."""
    ratios = np.exp(np.asarray(log_ratios, float))
    error = ratios.std() / NUM_RUNS**0.5
    assert error < 0.05  # else the test would see nothing
    return abs(ratios.mean() - 1) < 4 * error


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", ["hidden_chain", *slow("sum_of_path", "walk", "second_order")])
def test_likelihood_is_unbiased_for_few_particles(name):
    """Missing data, data behind the scan, a carry of two states, a sum, a discrete state."""
    assert is_unbiased(log_ratios(*MODELS[name]))


def test_likelihood_by_a_proposal_is_unbiased_and_more_exact():
    """The locally optimal proposal has some half of the prior's standard deviation, 0.83."""
    guided = log_ratios(*MODELS["walk"], proposal=best_guide)
    assert is_unbiased(guided)
    assert guided.std() < 0.5


def test_a_proposal_without_its_own_density_is_caught():
    """A broken variant: the density of the proposal is left out of the weight."""

    def broken(key, prior, data, t):
        best_guide(key, prior, data, t)
        x = data["y"] * 0
        ppl.factor(jnp.where(jnp.isnan(x), 0.0, 0.3), name="lost")

    assert not is_unbiased(log_ratios(*MODELS["walk"], proposal=broken))


def exact_moments(model):
    """Mean and covariance of the normal sites of a model, from gradient and Hessian."""
    drawn = {k: jnp.zeros_like(x) for k, x in ppl.simulate(model)(KEY).items() if k in ("x0", "x")}
    flat, unflatten = ravel_pytree(drawn)

    def density(flat):
        return ppl.log_density(model)(unflatten(flat))

    covariance = jnp.linalg.inv(-jax.hessian(density)(flat))
    mean = covariance @ jax.grad(density)(flat)
    return unflatten(mean), unflatten(jnp.sqrt(jnp.diagonal(covariance)))


@pytest.mark.parametrize("name", ["walk", *slow("second_order", "sum_of_path")])
def test_paths_have_the_exact_means(name):
    """Means of paths within 5 standard errors of some 300 independent draws; the words are right.

    Draws are 500, the particles 1,000; paths of `sum_of_path` are histories, as sums remember.
    """
    model, _ = NORMAL[name]
    result = inference.particle_filter(KEY, model, **SIZES)
    mean, sd = exact_moments(model)
    for site in mean:
        error = abs(result.draws[site][0].mean(0) - mean[site])
        assert (error < 5 * sd[site] / 300**0.5).all(), site
        assert (abs(result.draws[site][0].std(0) / sd[site] - 1) < 0.2).all(), site
    assert result.smoothing == ("ancestors" if name == "sum_of_path" else "backward")
    last = result.filtered["x"][0, :, -1]
    if name != "walk":  # there, data behind the scan come with the last step
        assert abs(last.mean() - mean["x"][-1]) < 5 * sd["x"][-1] / 300**0.5
    text = str(result.summary())
    assert f"log evidence {result.log_evidence:.2f}" in text
    assert "No problem found" in text


@pytest.mark.slow
def test_filtered_draws_see_the_data_so_far():
    """Draws of each step agree with the smoother of the data up to it, whose later data are cut."""
    model, _ = NORMAL["second_order"]
    filtered = inference.particle_filter(KEY, model, num_particles=2_000).filtered["x"][0]
    for t in range(6):
        cut = ppl.condition(second_order, {"y": ppl.ignore(Y, jnp.isnan(Y) | (jnp.arange(6) > t))})
        mean, sd = exact_moments(cut)
        assert abs(filtered[:, t].mean() - mean["x"][t]) < 5 * sd["x"][t] / 300**0.5


@pytest.mark.slow
def test_standard_error_is_that_of_many_runs():
    """Within a factor 2 of the spread over runs, on average, with many particles."""
    space = ModelStateSpace.of(WALK)
    errors = [
        float(inference.particle_filter(random.key(i), WALK).standard_error) for i in range(3)
    ]
    runs = jax.vmap(lambda key: run_filter(key, space, 1_000).log_evidence)
    spread = jax.jit(runs)(random.split(KEY, 200)).std()
    assert 0.7 < np.mean(errors) / spread < 2.5


@pytest.mark.parametrize("name", ["hidden_chain", *slow("walk")])
def test_exact_sites_give_the_exact_evidence(name):
    """A normal or discrete model has no particles left, and paths of the smoother itself."""
    model, sites = MODELS[name]
    exact = ppl.log_density(ppl.marginalize(model, sites))({})
    result = inference.particle_filter(KEY, model, num_particles=10, num_draws=500, exact=True)
    verdict = result.summary().verdict
    assert verdict.startswith("No problem found: weights nearly equal in each step, standard error")
    assert verdict.endswith("at most 1, all 10 first particles have descendants.")
    assert abs(result.log_evidence - exact) < 1e-3
    assert result.standard_error < 1e-3
    assert set(result.exact) == set(sites)
    assert "carried exactly: " in str(result.summary()).replace("\n  ", " ")
    if name == "walk":
        mean, sd = exact_moments(model)
        error = abs(result.draws["x"][0].mean(0) - mean["x"])
        assert (error < 5 * sd["x"] / 500**0.5).all()
    else:
        paths = jnp.array([*itertools.product((0, 1), repeat=6)])
        weights = jax.nn.softmax(jax.vmap(lambda x: ppl.log_density(model)({"state": x}))(paths))
        error = abs(result.draws["state"][0].mean(0) - weights @ paths)
        assert (error < 5 * 0.5 / 500**0.5).all()


def program_size(num_steps):
    """Number of equations of the whole program, at all depths."""

    def count(jaxpr):
        inner = [x for eqn in jaxpr.eqns for x in jaxprs_in_params(eqn.params)]
        return len(jaxpr.eqns) + sum(count(getattr(x, "jaxpr", x)) for x in inner)

    model = ppl.condition(walk, {"y": jnp.zeros(num_steps), "last": 0.5})
    space = ModelStateSpace.of(model, (num_steps,))
    target = ValueTarget.of(model, (num_steps,), {})
    sizes = _Sizes(10, 10, "backward")
    guide = ComparedByContents.of(None)
    inputs = KEY, space, space, target
    return count(jax.make_jaxpr(lambda x: _run(x, guide, sizes))(inputs).jaxpr)


def test_ten_thousand_steps_compile_as_ten():
    """The program has as many equations."""
    assert program_size(10_000) == program_size(10)


def test_results_are_like_others(tmp_path):
    """Deterministic sites, files, ArviZ, predictions; new data compile nothing."""
    result = inference.particle_filter(KEY, WALK, **SIZES)
    assert np.array_equal(result.draws["twice"], 2 * result.draws["x"])
    assert result.draws["x"].shape == result.filtered["x"].shape == (1, 500, 6)
    assert "twice" not in result.filtered
    assert result.increments.shape == result.ess.shape == result.num_ancestors.shape == (7,)
    assert np.allclose(result.increments.sum(), result.log_evidence)
    result.save(tmp_path / "filter.npz")
    loaded = inference.ParticleFilterResult.load(tmp_path / "filter.npz")
    assert str(loaded.summary()) == str(result.summary())
    assert result.to_arviz().posterior["x"].shape == (1, 500, 6)
    assert "ParticleFilterResult(1000 particles" in repr(result)
    nested = dataclasses.replace(
        result, draws={"a": result.draws}, filtered={"a": result.filtered}, sites=()
    )
    assert "500 paths drawn backward" in str(nested.summary())
    again = inference.particle_filter(KEY, WALK, **SIZES)
    assert np.array_equal(again.draws["x"], result.draws["x"])
    predicted = ppl.predict(walk, result.draws)(KEY)
    assert predicted["y"].shape == (1, 500, 6)


def test_a_summary_has_the_order_of_the_model():
    def model(key):
        z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        ppl.deterministic(z, name="c")
        ppl.nest(lambda: ppl.sample(key, dist.Normal(z, 1.0), name="a"), scope="s")()
        ppl.deterministic(z, name="b")

    order = [path for path, _ in ValueTarget.of(model, (), {}).order]
    assert order == [("z",), ("s", "a"), ("c",), ("b",)]


def walk_by(key, sd):
    def body(x, key):
        x = ppl.sample(key, dist.Normal(x, sd), name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")
        return x, None

    lax.scan(body, 0.0, random.split(key, 6))


def test_filters_are_compared_by_evidence(tmp_path):
    """The log Bayes factor is within 4.5 standard errors, which are rather too large."""
    model = ppl.condition(walk_by, {"y": ppl.ignore(Y)})
    sizes = {"slow": jnp.float32(0.2), "fast": jnp.float32(1.0)}
    runs = {k: inference.particle_filter(KEY, model, x, num_draws=20) for k, x in sizes.items()}
    runs["slow"].save(tmp_path / "slow.npz")
    runs["slow"] = inference.ParticleFilterResult.load(tmp_path / "slow.npz")
    found = {k: inference.evidence(x, model, sizes[k]) for k, x in runs.items()}
    assert found["slow"].about.startswith("Particle filter: 1000 particles, 6 steps; ")
    assert found["slow"].num_observed == 5
    table = inference.compare(found)
    seen = np.flatnonzero(~np.isnan(Y))
    shared = np.minimum.outer(seen, seen) + 1.0
    exact = {k: joint_normal(Y[seen], sd**2 * shared + 0.25 * np.eye(5)) for k, sd in sizes.items()}
    assert table.names == ("fast", "slow")
    assert not any("conditioned on" in x for x in table.problems)
    factor, error = table.log_bayes_factor[1], table.log_bayes_factor_se[1]
    assert abs(factor - (exact["slow"] - exact["fast"])) < 4.5 * error < 1
    other = ppl.condition(walk_by, {"y": ppl.ignore(Y.at[2].set(0.1))})
    whole = inference.evidence(inference.particle_filter(KEY, other, sizes["slow"], num_draws=20))
    told = inference.compare({"slow": found["slow"], "whole": whole}).problems
    assert any("slow and whole are conditioned on 5 and 6 numbers" in x for x in told)
    with pytest.raises(
        ValueError, match=r"is conditioned on 6 numbers, and the run 5\. Give what was"
    ):
        inference.evidence(runs["slow"], other, sizes["slow"])
    assert any(
        "parameters that are known as arguments: conditioned on, they count" in x for x in told
    )
    with pytest.raises(ValueError, match=r"at the last draw the log density is .* was filtered$"):
        inference.evidence(runs["slow"], model, sizes["fast"])
    moved = ppl.condition(walk_by, {"y": ppl.ignore(Y[::-1])})
    with pytest.raises(ValueError, match="at the last draw the log density is"):
        inference.evidence(runs["slow"], moved, sizes["slow"])
    with pytest.raises(ValueError, match="its latent sites are 'x', 'x0', and the filter drew 'x'"):
        inference.evidence(runs["slow"], WALK)
    with pytest.raises(TypeError, match=r"give \{name: inference.evidence\(.*\.\.\.\}$"):
        inference.compare(runs)  # pyright: ignore


def unseen_scale(key):
    """Walk whose step size is drawn with the particle."""
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def body(x, key):
        x = ppl.sample(key, dist.Normal(x, scale), name="x")
        ppl.sample(key, dist.Normal(x, 0.3), name="y")
        return x, None

    lax.scan(body, 0.0, random.split(key, 60))


def test_words_where_particles_die():
    """An outlier, a single ancestor, parameters in particles, and a step without any weight."""
    y = jnp.zeros(60).at[30].set(8.0)
    model = ppl.condition(unseen_scale, {"y": y})
    found = inference.particle_filter(KEY, model, num_particles=100, num_draws=20).summary()
    words = "\n".join(found.problems)
    assert "in step 30 the weights of 100 particles are worth 1" in words
    assert "come from 1 of the 100 first ones" in words
    assert "give parameters, by ppl.condition" in words

    def bounded(key):
        def body(x, key):
            x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
            ppl.sample(key, dist.Uniform(x - 1.0, x + 1.0), name="y")
            return x, None

        lax.scan(body, 0.0, random.split(key, 5))

    far = ppl.condition(bounded, {"y": jnp.zeros(5).at[3].set(100.0)})
    with pytest.raises(ValueError, match="weight zero in step 3 of 5: the density of 'y' is 0"):
        inference.particle_filter(KEY, far, num_particles=100, num_draws=20)


def test_wrong_arguments_are_refused_in_words():
    """A proposal that is none, or draws other sites; smoothing of another name."""

    def other(key, prior, data, t):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="z")

    with pytest.raises(ValueError, match="give one of both"):
        inference.particle_filter(KEY, WALK, exact=True, proposal=best_guide)
    with pytest.raises(ValueError, match="the proposal draws 'z', which is no latent site in"):
        inference.particle_filter(KEY, WALK, proposal=other)

    def elsewhere(key, prior, data, t):
        ppl.sample(key, prior["x0"], name="x")

    with pytest.raises(ValueError, match=r"KeyError.'x0'.*`prior` has an entry for 'x', `data`"):
        inference.particle_filter(KEY, WALK, proposal=elsewhere)
    with pytest.raises(ValueError, match="proposal must be 'optimal', a function or None, got 'p"):
        inference.particle_filter(KEY, WALK, proposal="prior")
    with pytest.raises(TypeError, match="proposal must be a function"):
        inference.particle_filter(KEY, WALK, proposal=1)  # pyright: ignore
    with pytest.raises(TypeError, match=r"\(key, prior, data, t\) .*, got <lambda>\(key, data\)"):
        inference.particle_filter(KEY, WALK, proposal=lambda key, data: None)
    with pytest.raises(ValueError, match=r"the proposal draws no site: .* has 'x'"):
        inference.particle_filter(KEY, WALK, proposal=lambda key, prior, data, t: data["y"])

    def half(key, prior, data, t):
        ppl.sample(key, dist.HalfNormal(1.0), name="x")

    with pytest.raises(ValueError, match="'x' by HalfNormal, which cannot draw all real"):
        inference.particle_filter(KEY, WALK, proposal=half)
    with pytest.raises(ValueError, match="smoothing must be 'backward', 'ancestors' or None"):
        inference.particle_filter(KEY, WALK, smoothing="forward")
    with pytest.raises(ValueError, match="num_particles"):
        inference.particle_filter(KEY, WALK, num_particles=1)

    def noisy(key):
        ppl.factor(inference.particle_filter(KEY, WALK).log_evidence, name="likelihood")

    with pytest.raises(TypeError, match=r"so that NUTS cannot follow it: .*PMMH\(\)"):
        inference.mcmc(KEY, noisy)


def test_a_proposal_sees_sites_of_an_inner_call():
    """Of `x`, drawn under jit, and not of `z`, which depends on it."""

    def model(key):
        @jax.jit
        def draw(key, x):
            x = ppl.sample(key, dist.Normal(0.9 * x, 0.7), name="x")
            return ppl.sample(key, dist.Normal(x, 0.1), name="z")

        def body(x, key):
            x = draw(key, x)
            ppl.sample(key, dist.Normal(x, 0.5), name="y")
            return x, None

        lax.scan(body, 0.3, random.split(key, 2))

    space = ModelStateSpace.of(ppl.condition(model, {"y": jnp.array([0.4, 0.2])}))

    def proposal(key, prior, data, t):
        assert prior.keys() == {"x"}
        ppl.sample(key, dist.Normal(prior["x"].loc + data["y"], 1e-6), name="x")

    state, _, _ = space.start(KEY)
    _, values, _ = space.move_by(proposal, KEY, state, 0)
    assert np.allclose(values["x"], 0.9 * 0.3 + 0.4, atol=1e-4)


def test_weights_that_are_nan_have_true_words():
    """A proposal that passes over a gap; a precision beyond float32; neither."""

    def careless(key, prior, data, t):
        ppl.sample(key, dist.Normal(data["y"], 0.5), name="x")

    with pytest.raises(ValueError, match=r"NaN in step 2 of 6.*gap of ppl.ignore is NaN in its"):
        inference.particle_filter(KEY, WALK, num_particles=9, num_draws=2, proposal=careless)
    space = ModelStateSpace.of(WALK)
    increments = np.array([0.0, np.nan])
    words = _sources_of_nan(carry_exactly(space), None)
    with pytest.raises(ValueError, match=r"of the normal sites .*'x0', 'x', does not fit float32"):
        _check_alive(space, increments, words)
    with pytest.raises(ValueError, match=r"as a scale of 0$"):
        _check_alive(space, increments, _sources_of_nan(space, None))


@pytest.mark.slow
def test_stochastic_volatility_against_a_grid_filter():
    """200 likelihoods of 200 returns, each by 1,000 particles: right on average, by 400 cells."""
    level, phi, sigma = -0.5, 0.97, 0.2

    def volatility(key):
        def body(h, key):
            h = ppl.sample(key, dist.Normal(level + phi * (h - level), sigma), name="h")
            ppl.sample(key, dist.Normal(0.0, jnp.exp(h / 2)), name="y")
            return h, None

        first = ppl.sample(key, dist.Normal(level, sigma / (1 - phi**2) ** 0.5), name="h0")
        lax.scan(body, first, random.split(key, 200))

    y = ppl.simulate(volatility)(random.key(5))["y"]
    spread = sigma / (1 - phi**2) ** 0.5
    grid = jnp.linspace(level - 6 * spread, level + 6 * spread, 400)
    cell = jnp.log(grid[1] - grid[0])
    moves = dist.Normal(level + phi * (grid[:, None] - level), sigma).log_prob(grid[None]) + cell

    def step(log_weights, y):
        ahead = logsumexp(log_weights[:, None] + moves, axis=0)
        return ahead + dist.Normal(0.0, jnp.exp(grid / 2)).log_prob(y), None

    first = dist.Normal(level, spread).log_prob(grid) + cell
    exact = logsumexp(lax.scan(step, first, y)[0])
    space = ModelStateSpace.of(ppl.condition(volatility, {"y": y}))
    runs = jax.vmap(lambda key: run_filter(key, space, 1_000).log_evidence)
    ratios = np.exp(np.asarray(jax.jit(runs)(random.split(KEY, 200)) - exact, float))
    assert ratios.std() < 1
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / 200**0.5


@pytest.mark.slow
def test_a_nonlinear_series_against_a_grid_filter():
    """The benchmark of Gordon, Salmond and Smith (1993): right on average, by 1,000 cells.

    The variances are those of Andrieu, Doucet and Holenstein (2010), section 3.1.
    """

    def mean(x, t):
        return x / 2 + 25 * x / (1 + x**2) + 8 * jnp.cos(1.2 * t)

    def model(key):
        def body(x, row):
            key, t = row
            x = ppl.sample(key, dist.Normal(mean(x, t), 10**0.5), name="x")
            ppl.sample(key, dist.Normal(x**2 / 20, 1.0), name="y")
            return x, None

        first = ppl.sample(key, dist.Normal(0.0, 5**0.5), name="x0")
        lax.scan(body, first, (random.split(key, 20), jnp.arange(1.0, 21.0)))

    y = ppl.simulate(model)(random.key(6))["y"]
    grid = jnp.linspace(-45.0, 45.0, 1_000)
    cell = jnp.log(grid[1] - grid[0])

    def step(log_weights, row):
        y, t = row
        moves = dist.Normal(mean(grid[:, None], t), 10**0.5).log_prob(grid[None]) + cell
        ahead = logsumexp(log_weights[:, None] + moves, axis=0)
        return ahead + dist.Normal(grid**2 / 20, 1.0).log_prob(y), None

    first = dist.Normal(0.0, 5**0.5).log_prob(grid) + cell
    exact = logsumexp(lax.scan(step, first, (y, jnp.arange(1.0, 21.0)))[0])
    space = ModelStateSpace.of(ppl.condition(model, {"y": y}))
    runs = jax.vmap(lambda key: run_filter(key, space, 1_000).log_evidence)
    ratios = np.exp(np.asarray(jax.jit(runs)(random.split(KEY, 500)) - exact, float))
    assert ratios.std() < 1
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / 500**0.5
