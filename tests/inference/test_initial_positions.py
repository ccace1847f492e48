"""Where chains start: finite points, by name or as given."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from inference import NUTS, MCMCResult, mcmc, optimize, svi
from inference.chains.sampling import sample
from inference.common.layout import Layout
from inference.initialization.initial_positions import MAX_ATTEMPTS, Init, starting_points
from inference.initialization.short_lbfgs import climb_briefly
from tests.inference.targets import FakeTarget

SETTINGS = {
    "num_warmup": 10,
    "num_draws": 10,
    "num_chains": 3,
    "mass_matrix": "diagonal",
    "target_acceptance_rate": 0.8,
}


def normal(x, scale):
    return -0.5 * jnp.sum((x / scale) ** 2)


def starts_of(density):
    """Where chains start: they hardly move from there."""
    settings = SETTINGS | {"num_warmup": 0, "num_draws": 1, "num_chains": 6}
    kernel = NUTS(step_size=1e-6, max_depth=1)
    target = FakeTarget(density, (2,))
    firsts = jax.vmap(target.initial)(jax.random.split(jax.random.key(0), 100))["x"]
    values = jax.vmap(jax.value_and_grad(density))(firsts, jnp.zeros(100))
    assert not all(np.all(np.isfinite(x)) for x in values)
    return sample(jax.random.key(0), target, kernel, **settings).draws["x"][:, 0]


@pytest.mark.slow
def test_positions_are_drawn_until_one_is_finite():
    def in_a_corner(x, _):
        return jnp.where(jnp.all(x > 1.0), normal(x, 1.0), -jnp.inf)

    starts = starts_of(in_a_corner)
    assert np.all(starts > 0.999)
    assert len(np.unique(starts)) == starts.size


@pytest.mark.slow
def test_a_chain_does_not_depend_on_the_attempts_of_others():
    def in_a_narrow_corner(x, _):
        return jnp.where(x[0] > 1.0, normal(x, 0.01), -jnp.inf)

    def step_sizes(num_chains):
        settings = SETTINGS | {"num_warmup": 1, "num_chains": num_chains}
        target = FakeTarget(in_a_narrow_corner, (2,))
        return sample(jax.random.key(0), target, NUTS(), **settings).stats["step_size"][:, 0]

    few, more = step_sizes(4), step_sizes(16)
    np.testing.assert_allclose(few, more[:4], rtol=1e-5)


def test_a_gradient_that_is_not_finite_is_no_start():
    def root(x, _):
        return jnp.sum(jnp.sqrt(jnp.maximum(x, 0.0)))  # its gradient at x < 0 is NaN

    assert np.all(starts_of(root) > 0)


@pytest.mark.quick_rows(
    "<lambda>-the gradient of the log density with respect to 'x' is nan at 2 of 2 elements"
)
@pytest.mark.parametrize(
    ("density", "message"),
    [
        (
            lambda x, _: jnp.sum(x) * jnp.nan,
            "site 'scope.y' has log probability nan: its value is 0.0.",
        ),
        (
            lambda x, _: jnp.sum(x) - jnp.inf,
            "site 'scope.y' has log probability -inf: its value is 0.0.",
        ),
        (
            lambda x, _: jnp.sum(jnp.sqrt(0.0 * x)),
            "the gradient of the log density with respect to 'x' is nan at 2 of 2 elements",
        ),
    ],
)
def test_a_model_that_is_finite_nowhere_names_the_site(density, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        sample(jax.random.key(0), FakeTarget(density, (2,)), NUTS(), **SETTINGS)
    assert f"in {MAX_ATTEMPTS} attempts" in str(raised.value)
    assert "init='prior'" in str(raised.value)


def pairs(key, scale):
    """Groups in a vmap, each with a pair of observations."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")

    def group(key, scale):
        x = ppl.sample(key, dist.Normal(mu, 1.0), name="x")
        return ppl.sample(key, dist.Normal(x * jnp.ones(2), scale), name="y")

    return ppl.nest(jax.vmap(group), scope="groups")(jax.random.split(key, 3), scale)


def start(model, *args, init, num_chains=2):
    """Where chains of the model start, nearly."""
    kernel, posterior = (
        NUTS(step_size=1e-6),
        ppl.condition(model, {"groups": {"y": np.ones((3, 2))}}),
    )
    settings = {"num_warmup": 0, "num_draws": 1, "num_chains": num_chains}
    key = jax.random.key(0)
    draws = mcmc(key, posterior, *args, kernel=kernel, init=init, **settings).draws
    return jax.tree.map(lambda x: x[:, 0], draws)


def test_a_failure_names_the_element_and_its_distribution():
    scale = jnp.array([1.0, -1.0, 2.0])
    message = (
        "in one attempt. At the last one, site 'groups.y' has log probability nan at 2 of 6 "
        "elements: at [1, 0] its value is 1.0, under Normal(loc=0.5, scale=-1.0)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        start(pairs, scale, init={"mu": 0.0, "groups": {"x": np.full(3, 0.5)}})


def test_chains_start_at_the_values_of_the_user():
    init = {"mu": np.array([1.0, 2.0]), "groups": {"x": np.array([5.0, 6.0, 7.0])}}
    draws = start(pairs, jnp.ones(3), init=init)
    np.testing.assert_allclose(draws["mu"], [1.0, 2.0], atol=2e-3)
    np.testing.assert_allclose(draws["groups"]["x"], [[5.0, 6.0, 7.0]] * 2, atol=2e-3)


def test_chains_start_at_values_given_for_some_sites():
    draws = start(pairs, jnp.ones(3), init={"groups": {"x": np.zeros(3)}})
    np.testing.assert_allclose(draws["groups"]["x"], np.zeros((2, 3)), atol=2e-3)
    assert len(np.unique(draws["mu"])) == 2


def test_chains_go_on_from_the_draws_of_others():
    first = start(pairs, jnp.ones(3), init="uniform")
    again = start(pairs, jnp.ones(3), init=first)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=2e-3), first, again)


@pytest.mark.slow
def test_chains_start_at_draws_from_the_prior():
    draws = start(pairs, jnp.ones(3), init="prior", num_chains=300)
    groups = draws["groups"]["x"] - draws["mu"][:, None]
    for values in (draws["mu"], groups.ravel()):  # each fails by chance once in a million
        assert st.kstest(values, st.norm.cdf).pvalue > 1e-6


def test_a_climb_comes_near_to_where_uniform_starts_are_far():
    scales = np.geomspace(0.1, 10.0, 5).astype(np.float32)

    def narrow(x, _):
        return -0.5 * jnp.sum(((x - 100.0) / scales) ** 2)

    target = FakeTarget(narrow, (5,))
    layout, attempts = Layout.of(target.initial(jax.random.key(0))), np.zeros(4, np.int32)
    key = jax.random.key(0)
    uniform, optimum = (
        jax.vmap(narrow, (0, None))(
            starting_points(key, np.arange(4), attempts, Init(name), target, layout)[1], 0
        )
        for name in ("uniform", "optimum")
    )
    assert np.all(uniform < -1e5)
    assert np.all(optimum > -50.0)


@pytest.mark.parametrize("size", [1.0, 20.0])
def test_a_climb_from_where_squares_overflow_arrives(size):
    """Rates of up to exp(87), the largest of single precision, whose gradients have no square."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(50, 3)), jnp.float32)
    log_density = lambda slopes: jnp.sum(x @ slopes - jnp.exp(x @ slopes))  # noqa: E731
    starts = jnp.asarray([[1.0, -1.0, 0.5], [-0.3, 1.0, 1.0]], jnp.float32) * size
    ends = jax.vmap(lambda start: climb_briefly(log_density, start))(starts)
    hessian = -jax.hessian(log_density)(jnp.zeros(3))
    gradient = jax.vmap(jax.grad(log_density))(ends)
    decrement = 0.5 * jnp.sum(gradient * jnp.linalg.solve(hessian, gradient.T).T, 1)
    before, after = (jax.vmap(log_density)(points) for points in (starts, ends))
    assert size == 1 or np.all(before < -1e15)
    assert np.all(after > before)
    assert np.all(decrement < 2.0)


def test_a_climb_stays_where_the_density_is_finite():
    climbed = climb_briefly(lambda x: jnp.sum(jnp.log(x)) - jnp.sum(x), jnp.array([1e-3, 30.0]))
    assert np.all(climbed > 0)
    np.testing.assert_array_equal(
        climb_briefly(lambda x: jnp.sum(x) * jnp.nan, jnp.ones(2)), np.ones(2)
    )


@pytest.mark.quick_rows("float16")
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_climbs_of_any_dtype(x64, dtype):
    def model(key):
        return ppl.sample(key, dist.Normal(jnp.asarray(50.0, dtype), jnp.ones((), dtype)), name="x")

    start = mcmc(jax.random.key(0), model, init="optimum", num_warmup=0, num_draws=1)
    np.testing.assert_allclose(start.draws["x"].astype(float), 50.0, atol=5.0)


def test_an_improper_prior_has_no_draws_to_start_from():
    def flat(key):
        return ppl.sample(key, dist.Flat(dist.constraints.real, ()), name="x")

    with pytest.raises(NotImplementedError, match="site 'x': Flat is improper"):
        mcmc(jax.random.key(0), flat, init="prior")


def with_what_follows(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")

    def follows(_):
        ppl.deterministic(x > 0, name="is_positive")
        ppl.deterministic(jnp.where(x > 0, 0.0, -jnp.inf), name="log")

    ppl.nest(follows, scope="part")(key)


@pytest.mark.parametrize("number", [1.5, jnp.bfloat16(1.5)])
def test_values_of_deterministic_sites_are_left_out(number):
    values = {"x": number, "part": {"is_positive": True, "log": -np.inf}}
    settings = {"kernel": NUTS(step_size=1e-6), "num_warmup": 0, "num_draws": 1}
    result = mcmc(jax.random.key(0), with_what_follows, init=values, **settings)
    np.testing.assert_allclose(result.draws["x"], 1.5, atol=1e-2)


MISTAKES = {
    "name": ("best", ValueError, "init must be one of 'uniform', 'prior', 'optimum', or a dict"),
    "type": (3, TypeError, "or a dict of values by site, got 3"),
    "other chains": (
        MCMCResult({}, {"is_divergent": np.zeros((2, 3), bool)}, None),
        ValueError,
        "the result does not hold its chains",
    ),
    "no site": (
        {"tau": 1.0},
        ValueError,
        "init: there is no latent site 'tau'; there are ['groups', 'mu']",
    ),
    "in no scope": ({"groups": {"z": 1.0}}, ValueError, "there is no latent site 'groups.z'"),
    "too large": (
        {"mu": 1e39},
        ValueError,
        "'mu' is given 1e+39, which float32 cannot hold",
    ),
    "complex": ({"mu": 1j}, TypeError, "init: site 'mu' expects real numbers, got"),
    "observed": ({"groups": {"y": np.ones((3, 2))}}, ValueError, "no latent site 'groups.y'"),
    "shape": (
        {"groups": {"x": np.zeros(2)}},
        ValueError,
        "init: site 'groups.x' has the shape (3,), or (2, 3) with a value for each chain, got (2,)",
    ),
    "list": (
        {"mu": [1.0, 2.0]},
        ValueError,
        "init: site 'mu' expects a number or an array (of a list, numpy.array(list)), got [1.0",
    ),
    "text": ({"mu": "one"}, TypeError, "init: site 'mu' expects real numbers, got array('one'"),
    "empty": ({"mu": np.zeros(0)}, ValueError, "init: site 'mu' has the shape ()"),
    "not finite": ({"mu": np.inf}, ValueError, "a value that is not finite: inf"),
    "not finite at": (
        {"groups": {"x": np.array([[0.0, 0, 0], [0, np.nan, 0]])}},
        ValueError,
        "init: site 'groups.x' is given a value that is not finite: nan at [1, 1] of [2, 3]",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_start_is_explained(name):
    init, error, message = MISTAKES[name]
    with pytest.raises(error, match=re.escape(message)):
        start(pairs, jnp.ones(3), init=init)


def bounded(key):
    def scoped(key):
        ppl.sample(key, dist.Uniform(0.0, 2.0), name="x")

    ppl.sample(key, dist.Dirichlet(jnp.ones(3)), name="p")
    ppl.nest(scoped, scope="scope")(key)


@pytest.mark.slow_rows("mcmc-init0-site 'scope.x' is given 3.0, expected a value inside of its")
@pytest.mark.parametrize(
    ("init", "message"),
    [
        ({"scope": {"x": 3.0}}, "site 'scope.x' is given 3.0, expected a value inside of its"),
        ({"scope": {"x": 2.0}}, "support (in the interval [0.0, 2.0]), not at its edge"),
        ({"p": np.array([1.0, 0.0, 0.0])}, "site 'p' is given [1. 0. 0.], expected"),
        ({"p": np.array([1.0, 2.0, 3.0])}, "site 'p' is given [1. 2. 3.], expected"),
    ],
)
@pytest.mark.parametrize("infer", [mcmc, optimize, svi])
def test_a_start_outside_of_the_support_is_an_error(infer, init, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        infer(jax.random.key(0), bounded, init=init)


def test_a_start_outside_of_the_support_of_one_chain_is_an_error():
    values = {"scope": {"x": np.array([1.0, 0.5, -1.0, 1.5])}}
    with pytest.raises(ValueError, match=r"site 'scope.x' is given -1.0"):
        mcmc(jax.random.key(0), bounded, init=values)


def test_a_start_outside_of_the_support_of_a_pytree_is_an_error():
    """Of a distribution of the user's own, which tells nothing of its support."""

    class Pair:
        def __init__(self):
            self.parts = {"w": dist.HalfNormal(1.0), "b": dist.Normal(0.0, 1.0)}
            self.bijector = self

        def each(self, f, *trees):
            return {name: f(d, *(t[name] for t in trees)) for name, d in self.parts.items()}

        def sample(self, key):
            return self.each(lambda d: d.sample(key))

        def log_prob(self, value):
            return sum(self.each(lambda d, x: d.log_prob(x), value).values())

        def forward(self, position):
            return self.each(lambda d, x: d.bijector.forward(x), position)

        def inverse(self, value):
            return self.each(lambda d, x: d.bijector.inverse(x), value)

        def forward_log_det_jacobian(self, position):
            log_det = lambda d, x: d.bijector.forward_log_det_jacobian(x)  # noqa: E731
            return sum(self.each(log_det, position).values())

    jax.tree_util.register_pytree_node(Pair, lambda _: ((), None), lambda *_: Pair())

    def model(key):
        ppl.sample(key, Pair(), name="net")

    with pytest.raises(ValueError, match=r"site 'net.w' is given -1.0, expected .* its support, "):
        mcmc(jax.random.key(0), model, init={"net": {"w": -1.0, "b": 0.0}})
