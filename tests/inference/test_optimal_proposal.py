"""Locally optimal proposals of particle filters: evidence by grids, paths and Kalman filters."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.scipy.special import logsumexp

import distributions as dist
import inference
import ppl
from inference.models.optimal_proposal import OptimalProposal
from inference.models.state_space import ModelStateSpace
from inference.particles.particle_filter import particle_filter as run_filter

KEY = random.key(0)
NUM_RUNS = 2_000
Y = jnp.array([0.3, 1.9, jnp.nan, -1.0, 0.4, 2.0])
GAPS = {"y": ppl.ignore(Y)}
COUNTS = jnp.array([2, 0, 4, 3, 9, 7])
GRID = jnp.linspace(-16.0, 16.0, 801)
POSITIVE = jnp.linspace(0.01, 12.0, 1200)


def scanned(body, start=0.2):
    """Model of six steps, each a function of the carry and a key."""

    def model(key):
        lax.scan(lambda carry, key: (body(carry, key), None), start, random.split(key, 6))

    return model


def bend(x):
    return x / 2 + 5 * x / (1 + x**2)


@scanned
def nonlinear(x, key):
    """Nonlinear in the carry, and normal in a step."""
    x = ppl.sample(key, dist.Normal(bend(x), 1.5), name="x")
    ppl.sample(key, dist.Normal(0.8 * x, 0.5), name="y")
    return x


@scanned
def with_scale(x, key):
    """A scale that only the model can draw, and a state that is normal given it."""
    h = ppl.sample(key, dist.Logistic(0.0, 0.5), name="h")
    x = ppl.sample(key, dist.Normal(bend(x), jnp.exp(h)), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")
    return x


@scanned
def of_counts(x, key):
    x = ppl.sample(key, dist.Gamma(4.0, 4.0 / (0.5 + x / (1 + x))), name="x")
    ppl.sample(key, dist.Poisson(3 * x), name="y")
    return x


@scanned
def pair(x, key):
    """Two normal sites, both of which the data see; the carry is their difference."""
    x = ppl.sample(key, dist.Normal(0.9 * x, 0.7), name="x")
    v = ppl.sample(key, dist.Normal(0.5 * x, 0.4), name="v")
    ppl.sample(key, dist.Normal(x + v, 0.5), name="y")
    return x - v


@scanned
def switching(x, key):
    """A discrete and a normal site."""
    k = ppl.sample(key, dist.Bernoulli(probs=0.3), name="k")
    x = ppl.sample(key, dist.Normal(0.9 * x, jnp.where(k == 1, 2.0, 0.3)), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")
    return x


@functools.partial(scanned, start=0)
def hidden_chain(state, key):
    rows = jnp.array([[0.9, 0.1], [0.3, 0.7]])
    state = ppl.sample(key, dist.Categorical(probs=rows[state]), name="state")
    ppl.sample(key, dist.Normal(2.0 * state, 1.0), name="y")
    return state


def by_grid(grid, move, see, data=Y):
    """Log evidence by sums over the cells of a grid, and the mean of the last state."""
    cell = jnp.log(grid[1] - grid[0])
    moves = move(grid[:, None], grid) + cell
    terms = move(jnp.asarray(0.2), grid) + cell
    for i, y in enumerate(data):
        terms = logsumexp(terms[:, None] + moves, 0) if i else terms
        terms = terms + (0 if jnp.isnan(y) else see(grid, y))
    return logsumexp(terms), jax.nn.softmax(terms) @ grid


def move_by_scale(x, after):
    """Density of the next state of `with_scale`, its scale integrated out by 400 points."""

    def add(total, h):
        return jnp.logaddexp(total, dist.Normal(bend(x), jnp.exp(h)).log_prob(after)), None

    h = dist.Logistic(0.0, 0.5).quantile((jnp.arange(400) + 0.5) / 400)
    start = jnp.full(jnp.broadcast_shapes(x.shape, after.shape), -jnp.inf)
    return lax.scan(add, start, h)[0] - jnp.log(400.0)


def by_paths(model, site):
    """Log evidence by a sum over all paths of a site of two values."""
    paths = jnp.array([*itertools.product((0, 1), repeat=6)])
    normal = ppl.marginalize(model, {"x": ppl.Gaussian()}) if site == "k" else model
    return logsumexp(jax.vmap(lambda x: ppl.log_density(normal)({site: x}))(paths))


def of_kalman(model):
    return ppl.log_density(ppl.marginalize(model, {"x": ppl.Gaussian(), "v": ppl.Gaussian()}))({})


MODELS = {
    "nonlinear": ppl.condition(nonlinear, GAPS),
    "with_scale": ppl.condition(with_scale, GAPS),
    "of_counts": ppl.condition(of_counts, {"y": COUNTS}),
    "pair": ppl.condition(pair, GAPS),
    "switching": ppl.condition(switching, GAPS),
    "hidden_chain": ppl.condition(hidden_chain, GAPS),
}
EXACT = {
    "nonlinear": lambda: by_grid(
        GRID,
        lambda x, z: dist.Normal(bend(x), 1.5).log_prob(z),
        lambda x, y: dist.Normal(0.8 * x, 0.5).log_prob(y),
    ),
    "with_scale": lambda: by_grid(
        GRID, move_by_scale, lambda x, y: dist.Normal(x, 0.5).log_prob(y)
    ),
    "of_counts": lambda: by_grid(
        POSITIVE,
        lambda x, z: dist.Gamma(4.0, 4.0 / (0.5 + x / (1 + x))).log_prob(z),
        lambda x, y: dist.Poisson(3 * x).log_prob(y),
        COUNTS,
    ),
    "pair": lambda: of_kalman(MODELS["pair"]),
    "switching": lambda: by_paths(MODELS["switching"], "k"),
    "hidden_chain": lambda: by_paths(MODELS["hidden_chain"], "state"),
}


def exact(name):
    """Log evidence, and the mean of the last state where it comes by a grid."""
    found = EXACT[name]()
    return found if isinstance(found, tuple) else (found, None)


def log_ratios(name, make):
    """Logs of estimated over exact evidence, one for each of many runs of 30 particles."""
    space = make(ModelStateSpace.of(MODELS[name]))
    runs = jax.vmap(lambda key: run_filter(key, space, 30, keeps_values=False).log_evidence)
    return np.asarray(jax.jit(runs)(random.split(KEY, NUM_RUNS)) - exact(name)[0], float)


def is_unbiased(log_ratios):
    """Whether the mean ratio is 1 within 4 standard errors: 1 false alarm in 16,000."""
    ratios = np.exp(log_ratios)
    return abs(ratios.mean() - 1) < 4 * ratios.std() / NUM_RUNS**0.5


@pytest.mark.quick_rows("nonlinear")
@pytest.mark.parametrize("name", MODELS)
def test_evidence_is_unbiased_and_varies_less(name):
    """Gaps; real, discrete and positive sites; one or two a step, also one from the model."""
    optimal = log_ratios(name, OptimalProposal.of)
    assert is_unbiased(optimal)
    assert optimal.std() < 0.9  # else the test would see nothing
    assert optimal.std() < 0.7 * log_ratios(name, lambda space: space).std()


@pytest.mark.quick_rows("nonlinear", "pair")
@pytest.mark.parametrize("name", MODELS)
def test_weights_do_not_depend_on_what_is_drawn(name):
    """The weight is a density of the data; with that of the draw, it is the one of the model."""
    space = ModelStateSpace.of(MODELS[name])
    optimal = OptimalProposal.of(space)
    assert [*optimal.alone, *optimal.joint] == [x for x in space.step_sites if x != ("h",)]

    @jax.jit
    def run(key, other):
        state, _, _ = space.start(key)
        _, values, weight = optimal.move(key, state, 0)
        more = space.move(other, state, 0)[1]
        more = {**more, **({"h": values["h"]} if name == "with_scale" else {})}
        return weight, [
            (*optimal.score(state, x, 0)[1:], sum(space.score(state, x, 0)[1:]))
            for x in (values, more)
        ]

    weight, found = run(KEY, random.key(1))
    for density, own, total in found:
        np.testing.assert_allclose(own, weight, rtol=1e-4)
        np.testing.assert_allclose(density + own, total, rtol=1e-4)


@functools.partial(scanned, start=1)
def absorbed(state, key):
    """A chain that never leaves its second state."""
    rows = jnp.array([[0.6, 0.4], [0.0, 1.0]])
    state = ppl.sample(key, dist.Categorical(probs=rows[state]), name="state")
    ppl.sample(key, dist.Normal(2.0 * state, 1.0), name="y")
    return state


def test_values_that_cannot_be_have_density_zero():
    """The log density is minus infinity, as is its sum with the weight, which is not NaN."""
    space = ModelStateSpace.of(ppl.condition(absorbed, GAPS))
    optimal = OptimalProposal.of(space)
    assert optimal.alone
    state, _, _ = space.start(KEY)
    with jax.debug_nans(True):
        density, weight = jax.jit(lambda: optimal.score(state, {"state": jnp.int32(0)}, 0)[1:])()
    assert density == -jnp.inf
    assert jnp.isfinite(weight)


class WeighedByTheModel(OptimalProposal):
    """A broken variant: particles are drawn given the data, and weighed as if by the model."""

    def move(self, key, state, t):
        after, values, _ = super().move(key, state, t)
        return after, values, self.space.score(state, values, t)[2]


def test_weights_without_the_density_of_the_draw_are_caught():
    assert not is_unbiased(
        log_ratios("nonlinear", lambda x: WeighedByTheModel(**vars(OptimalProposal.of(x))))
    )


def test_results_name_the_sites_and_have_the_exact_mean():
    """The mean of the last state within 5 standard errors of some 200 independent draws."""
    result = inference.particle_filter(KEY, MODELS["nonlinear"], proposal="optimal")
    assert result.optimal == ("x",)
    assert not result.why_not_optimal
    assert "drawn given the data of their step: x" in " ".join(str(result.summary()).split())
    assert result.smoothing == "backward"
    log_evidence, mean = exact("nonlinear")
    assert abs(result.log_evidence - log_evidence) < 5 * result.standard_error
    x = result.draws["x"][0, :, -1]
    assert abs(x.mean() - mean) < 5 * x.std() / 200**0.5


@pytest.mark.slow
def test_results_say_why_a_site_is_drawn_by_the_model():
    result = inference.particle_filter(KEY, MODELS["with_scale"], proposal="optimal")
    assert result.optimal == ("x",)
    words = "others by the model ('h': it cannot be drawn jointly with 'x': "
    assert words in " ".join(str(result.summary()).split())


@scanned
def without_form(x, key):
    x = ppl.sample(key, dist.StudentT(3.0, x, 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")
    return x


@scanned
def with_late_site(x, key):
    x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
    z = ppl.sample(key, dist.Laplace(x, 1.0), name="z")
    ppl.sample(key, dist.Normal(z, 0.5), name="y")
    return x


@scanned
def seen_later(x, key):
    ppl.sample(key, dist.Normal(x, 0.5), name="y")
    return ppl.sample(key, dist.Normal(x, 1.0), name="x")


@scanned
def without_sites(x, key):
    ppl.sample(key, dist.Normal(x, 0.5), name="y")
    return 0.9 * x


REFUSED = {
    "without_form": (without_form, "'x': its full conditional has no closed form"),
    "with_late_site": (with_late_site, "'z': its full .*; 'x': the model draws 'z' given it"),
    "seen_later": (seen_later, "'x': no data of the step depend on it"),
    "without_sites": (without_sites, "has no latent sites, so that there is nothing to propose"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_steps_without_a_form_are_refused_in_words(name):
    model, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        inference.particle_filter(KEY, ppl.condition(model, GAPS), proposal="optimal")
