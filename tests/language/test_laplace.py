"""marginalize with Laplace: a square about the mode, and weights that tell its error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

import distributions as dist
import inference
import ppl
from tests.language.integrals import INTEGRALS

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.promotion(rank="raise")]

COUNTS = np.array([0, 1, 3, 2, 5, 0, 2, 9])
GROUP = np.array([0, 1, 2, 0, 1, 2, 3, 3])
TIME = np.linspace(0.0, 1.0, 8)


def laplace(model, sites, data=COUNTS, **settings):
    strategies = dict.fromkeys(sites, ppl.Laplace(**settings))
    return ppl.marginalize(ppl.condition(model, {"y": data}), strategies)


def poisson(key):
    """Apart: a rate for each count."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    f = ppl.sample(key, dist.Normal(0.5 * jnp.ones(8), scale), name="f")
    ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")


def levels(key):
    """A border: two effects that all counts share, and a level for each group."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    mu = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="mu")
    f = ppl.sample(key, dist.Normal(mu[0], scale * jnp.ones(4)), name="f")
    ppl.sample(
        key,
        dist.NegativeBinomial(mean=jnp.exp(f[GROUP] + mu[1] * TIME), concentration=3.0),
        name="y",
    )


def walk(key):
    """A chain, whose counts are missing at times."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")

    def step(f, key):
        f = ppl.sample(key, dist.Normal(0.9 * f, scale), name="f")
        return f, ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")

    first = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    jax.lax.scan(step, first, jax.random.split(key, 8))


def process(key):
    """A Gaussian process, dense."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    covariance = jnp.exp(-(((TIME[:, None] - TIME) / scale) ** 2)) + 1e-2 * jnp.eye(8)
    f = ppl.sample(key, dist.MultivariateNormal(jnp.zeros(8), covariance=covariance), name="f")
    ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")


def heavy_tails(key):
    """Not log-concave: some steps of Newton's method go uphill only when damped."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    f = ppl.sample(key, dist.Normal(jnp.zeros(8), 4 * scale), name="f")
    ppl.sample(key, dist.StudentT(2.0, f, 0.3), name="z")
    ppl.sample(key, dist.Poisson(jnp.exp(f / 8)), name="y")


def pairs(key):
    """Blocks of two: counts depend on both."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    f = ppl.sample(key, dist.Normal(jnp.zeros(8), scale), name="f")
    mu = ppl.sample(key, dist.Normal(jnp.zeros(8), 0.5), name="mu")
    ppl.sample(key, dist.Poisson(jnp.exp(f + mu * TIME)), name="y")


def bent_walk(key):
    """A chain of steps that are not linear."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")

    def step(f, key):
        f = ppl.sample(key, dist.Normal(jnp.tanh(f), scale), name="f")
        return f, ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")

    jax.lax.scan(step, 0.5, jax.random.split(key, 8))


MODELS = {
    poisson: ["f"],
    pairs: ["f", "mu"],
    bent_walk: ["f"],
    levels: ["f", "mu"],
    walk: ["f", "mu"],
    process: ["f"],
    heavy_tails: ["f"],
}
EXTRA = {heavy_tails: {"z": np.array([0.0, 0.3, -2.0, 4.0, 9.0, -15.0, 1.0, 30.0])}}


def dense(model, sites):
    """The approximation by a dense Hessian, at a mode of many damped steps."""
    posterior = ppl.condition(model, {"y": COUNTS} | EXTRA.get(model, {}))
    nodes = ppl.graph(posterior)().nodes
    flat, unflatten = ravel_pytree({name: jnp.zeros(nodes[name].shape) for name in sites})
    density = ppl.log_density(posterior)

    def of(scale):
        f = lambda x: density({"scale": scale, **unflatten(x)})  # noqa: E731
        slope, curvature = jax.grad(f), lambda x: -jax.hessian(f)(x)

        def step(_, x):
            values, vectors = jnp.linalg.eigh(curvature(x))
            move = vectors @ ((vectors.T @ slope(x)) / jnp.maximum(jnp.abs(values), 0.05))
            sizes = 0.5 ** jnp.arange(12.0)
            found = jax.vmap(lambda size: f(x + size * move))(sizes)
            return x + sizes[jnp.nanargmax(found)] * move

        x = jax.lax.fori_loop(0, 60, step, flat)
        log_det = jnp.linalg.slogdet(curvature(x))[1]
        return f(x) - log_det / 2 + flat.size / 2 * jnp.log(2 * jnp.pi)

    return of


STEP = 1e-3


@pytest.mark.quick_rows("poisson", "process")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_laplace_is_the_square_about_the_mode(model):
    sites = MODELS[model]
    summed = ppl.condition(laplace(model, sites, tolerance=1e-24), EXTRA.get(model, {}))
    ours = lambda scale: ppl.log_density(summed)({"scale": scale})  # noqa: E731
    scales = 0.7 + STEP * jnp.arange(-2.0, 3.0)

    @jax.jit
    def both(scales):
        slopes = jax.grad(ours)(scales[2]), jax.grad(jax.grad(ours))(scales[2])
        return jax.vmap(ours)(scales), slopes, jax.lax.map(dense(model, sites), scales)

    found, (slope, curvature), exact = both(scales)
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    first = (exact[0] - 8 * exact[1] + 8 * exact[3] - exact[4]) / (12 * STEP)
    second = (-exact[0] + 16 * exact[1] - 30 * exact[2] + 16 * exact[3] - exact[4]) / 12
    np.testing.assert_allclose(slope, first, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(curvature, second / STEP**2, rtol=1e-5, atol=1e-5)


@pytest.mark.quick_rows("schools", "second_order")
@pytest.mark.parametrize("case", INTEGRALS, ids=lambda case: case.name)
def test_laplace_is_exact_for_normal_sites(case):
    summed = ppl.marginalize(case.posterior(), dict.fromkeys(case.sites, ppl.Laplace()))
    both = jax.jit(lambda scale: [ppl.log_density(m)({"scale": scale}) for m in models])
    models = summed, case.integrated()
    np.testing.assert_allclose(*both(0.7), rtol=1e-12)


def evidence(scale):
    """The log probability of the counts of `poisson`, by quadrature."""
    points, weights = np.polynomial.hermite.hermgauss(80)
    rates = np.exp(0.5 + np.sqrt(2) * scale * points)
    each = scipy.stats.poisson.pmf(COUNTS[:, None], rates) @ weights / np.sqrt(np.pi)
    return np.log(each).sum() + scipy.stats.halfnorm.logpdf(scale, scale=2.0)


def test_weights_correct_the_approximation():
    """Their mean is the ratio of the exact integral, by quadrature, to the approximate one."""
    summed, num = laplace(poisson, ["f"]), 40_000
    draws = {"scale": jnp.full((2, num // 2), 0.7)}
    values, log_weights = ppl.recover(summed, draws, log_weights=True)(jax.random.key(0))
    assert values["f"].shape == (2, num // 2, 8)
    assert log_weights.shape == (2, num // 2)
    weights = np.exp(log_weights)
    exact = np.exp(evidence(0.7) - ppl.log_density(summed)({"scale": 0.7}))
    error = weights.std() / np.sqrt(num)
    assert error < 0.005
    assert abs(weights.mean() - exact) < 4 * error
    assert abs(1 - exact) > 4 * error  # weights of 1 would fail
    assert inference.psis(np.ravel(log_weights))[1] < 0.5

    f = np.asarray(values["f"])
    log_prob = scipy.stats.poisson.logpmf(COUNTS, np.exp(f))
    log_prob += scipy.stats.norm.logpdf(f, 0.5, 0.7)
    by_density = log_prob.sum(-1) - log_weights
    white = (f - f.mean((0, 1))) / f.std((0, 1))
    slope = np.polyfit(np.ravel((white**2).sum(-1)), np.ravel(by_density), 1)[0]
    np.testing.assert_allclose(slope, -0.5, atol=5e-3)  # the density that the draws are from


def test_weights_tell_where_the_approximation_fails():
    """Normal tails in place of those of Student's t."""

    def heavy(key):
        scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
        f = ppl.sample(key, dist.StudentT(1.0, jnp.zeros(3), scale), name="f")
        ppl.sample(key, dist.Normal(f, 30.0), name="y")

    recover = ppl.recover(
        laplace(heavy, ["f"], np.zeros(3)), {"scale": jnp.full(2000, 0.7)}, log_weights=True
    )
    assert inference.psis(recover(jax.random.key(0))[1])[1] > 0.7


def test_classes_are_summed_given_modes():
    def classes(key):
        scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
        z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
        f = ppl.sample(key, dist.Normal(jnp.where(z, 2.0, 0.0) * jnp.ones(8), scale), name="f")
        ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")

    strategies = {"z": ppl.Enumerate(), "f": ppl.Laplace(tolerance=1e-16)}
    summed = ppl.marginalize(ppl.condition(classes, {"y": COUNTS}), strategies)
    found = jax.jit(ppl.log_density(summed))({"scale": 0.7})

    def of_class(mean):
        f = np.zeros(8)
        for _ in range(50):
            f = f + (COUNTS - np.exp(f) - (f - mean) / 0.49) / (np.exp(f) + 1 / 0.49)
        log_prob = scipy.stats.poisson.logpmf(COUNTS, np.exp(f))
        log_prob += scipy.stats.norm.logpdf(f, mean, 0.7)
        return np.sum(log_prob - 0.5 * np.log((np.exp(f) + 1 / 0.49) / (2 * np.pi)))

    exact = np.logaddexp(np.log(0.7) + of_class(0.0), np.log(0.3) + of_class(2.0))
    exact += scipy.stats.halfnorm.logpdf(0.7, scale=2.0)
    np.testing.assert_allclose(found, exact, rtol=1e-10)


SMALL = [1e-4, 1e-2, 1.0]


def test_single_precision_holds_for_tiny_scales():
    """In the limit all rates are equal."""

    def densities(dtype):
        def model(key):
            scale = ppl.sample(key, dist.HalfNormal(dtype(2.0)), name="scale")
            mu = ppl.sample(key, dist.Normal(dtype(0.0), dtype(2.0)), name="mu")
            f = ppl.sample(key, dist.Normal(mu, scale * jnp.ones(8, dtype)), name="f")
            ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")

        density = ppl.log_density(laplace(model, ["f", "mu"]))
        found = jax.jit(jax.vmap(lambda x: density({"scale": x})))(np.array(SMALL, dtype))
        assert found.dtype == dtype
        return found

    np.testing.assert_allclose(densities(np.float32), densities(np.float64), rtol=3e-6)


@pytest.mark.slow
def test_newton_ends_where_a_sum_of_many_scores_is_near_0(monkeypatch):
    """Each of a thousand scores has rounding errors, whatever their sum is."""
    rng, num = np.random.default_rng(0), 500
    h = np.zeros(num)
    for t in range(1, num):
        h[t] = 0.98 * h[t - 1] + 0.15 * rng.normal()
    data = (rng.normal(size=num) * np.exp(h / 2)).astype(np.float32)
    counts, loop = [], jax.lax.while_loop

    def note(cond, body, state):
        end = loop(cond, body, state)
        if hasattr(end, "gain"):
            jax.debug.callback(counts.append, end.count)
        return end

    monkeypatch.setattr(jax.lax, "while_loop", note)
    memory, zero = np.float32(0.98), np.float32(0)

    def model(key, scale, unit):
        mean = ppl.sample(key, dist.Normal(zero, np.float32(1.0)), name="mean")

        def step(h, key):
            h = ppl.sample(key, dist.Normal(mean + memory * (h - mean), scale), name="h")
            return h, ppl.sample(key, dist.Normal(zero, unit * jnp.exp(h / 2)), name="y")

        jax.lax.scan(step, mean, jax.random.split(key, num))

    @jax.jit
    def density(shift):
        unit = jnp.exp(shift / num)
        summed = laplace(model, ["mean", "h"], unit * data)  # pyright: ignore
        return ppl.log_density(summed)({}, np.float32(0.133), unit)

    for shift in np.arange(-800, 800, 10, dtype=np.float32):  # At some, scores add up to about 0.
        density(shift).block_until_ready()
    jax.effects_barrier()
    assert len(counts) == 160
    assert max(counts) < 12


def test_large_counts_take_few_trials(monkeypatch):
    """A Newton step from 0 leads to the mean instead of its log: it is shortened."""
    counts, loop = [], jax.lax.while_loop

    def note(cond, body, state):
        end = loop(cond, body, state)
        jax.debug.callback(counts.append, end.count)
        return end

    monkeypatch.setattr(jax.lax, "while_loop", note)
    density = jax.jit(ppl.log_density(laplace(poisson, ["f"], data=10 * COUNTS)))
    density({"scale": 2.0}).block_until_ready()
    jax.effects_barrier()
    assert counts[0] <= 5


def test_a_known_density_compiles_nothing(caplog):
    """Outside of compiled functions, too."""
    density = ppl.log_density(laplace(poisson, ["f"]))
    found = [density({"scale": 0.6})]
    with jax.log_compiles():
        found.append(ppl.log_density(laplace(poisson, ["f"]))({"scale": 0.7}))
    assert not [x for x in caplog.records if "XLA compilation" in x.getMessage()]
    np.testing.assert_allclose(found[1], jax.jit(density)({"scale": 0.7}), rtol=1e-12)


def test_densities_with_two_callbacks_differ():
    def twice(x):
        return 2 * x

    def negative(x):
        return -x

    def density(function):
        def model(key):
            mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
            f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
            shift = jax.pure_callback(function, jax.ShapeDtypeStruct((), mu.dtype), mu)
            ppl.sample(key, dist.Poisson(jnp.exp(f + shift)), name="y")

        return ppl.log_density(laplace(model, ["f"], np.array(3)))

    for function in (twice, negative):
        found = density(function)
        want = jax.jit(found)({"mu": 0.3})
        np.testing.assert_allclose(found({"mu": 0.3}), want, rtol=1e-5)


def test_densities_with_two_derivative_rules_differ():
    """The derivatives, and with them the mode, belong to functions of the same values."""

    def density(factor):
        @jax.custom_jvp
        def rate(f):
            return jnp.exp(f)

        @rate.defjvp
        def _(primals, tangents):
            return rate(*primals), factor * jnp.exp(primals[0]) * tangents[0]

        def model(key):
            mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
            f = ppl.sample(key, dist.Normal(mu, 1.0), name="f")
            ppl.sample(key, dist.Poisson(rate(f)), name="y")

        return ppl.log_density(laplace(model, ["f"], np.array(3)))({"mu": 0.3})

    assert abs(density(1.0) - density(1.01)) > 1e-4


FACTOR = 1.0


def true_slope(primals, tangents):
    return jnp.exp(*primals), jnp.exp(primals[0]) * tangents[0]


def scaled_slope(primals, tangents):
    return jnp.exp(*primals), FACTOR * jnp.exp(primals[0]) * tangents[0]


def test_derivative_rules_of_a_module_are_told_apart(monkeypatch):
    def density(rule):
        rate = jax.custom_jvp(lambda f: jnp.exp(f))
        rate.defjvp(rule)

        def model(key):
            f = ppl.sample(key, dist.Normal(0.3, 1.0), name="f")
            ppl.sample(key, dist.Poisson(rate(f)), name="y")

        return ppl.log_density(laplace(model, ["f"], np.array(3)))({})

    found = [density(rule) for rule in (true_slope, scaled_slope)]
    monkeypatch.setitem(globals(), "FACTOR", 1.01)
    found.append(density(scaled_slope))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    assert abs(found[1] - found[2]) > 1e-4


def test_known_gradients_compile_nothing(caplog):
    """Outside of compiled functions, with functions of JAX that have derivatives of their own."""

    def gradient(values):
        def model(key):
            scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
            f = ppl.sample(key, dist.Normal(0.0, scale), name="f")
            ppl.sample(key, dist.Poisson(jax.nn.softplus(f)), name="y")

        density = ppl.log_density(laplace(model, ["f"], np.array(3)))
        return jax.grad(density)(values), density

    gradient({"scale": 0.6})
    with jax.log_compiles():
        found, density = gradient({"scale": 0.7})
    assert not [x for x in caplog.records if "XLA compilation" in x.getMessage()]
    want = jax.jit(jax.grad(density))({"scale": 0.7})
    np.testing.assert_allclose(found["scale"], want["scale"], rtol=1e-10)


def shape(key):
    f = ppl.sample(key, dist.Normal(1.0, 1.0), name="f")
    ppl.sample(key, dist.Gamma(1 + 2 * f, 1.0), name="y")


def cubic_shape(key):
    f = ppl.sample(key, dist.Normal(1.0, 1.0), name="f")
    ppl.sample(key, dist.Gamma(f + 2 * f**3 + 1, 1.0), name="y")


def reciprocal_shape(key):
    f = ppl.sample(key, dist.Normal(1.0, 1.0), name="f")
    ppl.sample(key, dist.Gamma(1.0, 1 / (f + 3)), name="y")


def root_of_shape(key):
    """In a loop."""

    def step(f, key):
        f = ppl.sample(key, dist.Normal(f, 1.0), name="f")
        return f, ppl.sample(key, dist.Gamma(jnp.sqrt(2 + f), 1.0), name="y")

    jax.lax.scan(step, 0.0, jax.random.split(key, 3))


def log_of_0(key):
    f = ppl.sample(key, dist.Normal(1.0, 1.0), name="f")
    ppl.sample(key, dist.Normal(jnp.log(f), 1.0), name="y")


def shape_elsewhere(key):
    """A number at -0.25 < f < -0.05, and not at the start nor one step from there."""
    f = ppl.sample(key, dist.Normal(1.0, 1.0), name="f")
    ppl.sample(key, dist.Normal(jnp.log(0.01 - (f + 0.15) ** 2), 1.0), name="y")


def shape_nowhere(key):
    f = ppl.sample(key, dist.Normal(1.0, 1.0), name="f")
    ppl.sample(key, dist.Normal(jnp.log(-1 - f**2), 1.0), name="y")


def bounded(key):
    f = ppl.sample(key, dist.Exponential(1.0), name="f")
    ppl.sample(key, dist.Poisson(f), name="y")


def unbounded(key):
    f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
    ppl.factor(f**2, name="up")
    ppl.sample(key, dist.Poisson(1 + f**2), name="y")


def endless(key):
    f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
    ppl.factor((f + 1) ** 4, name="up")
    ppl.sample(key, dist.Poisson(1 + f**2), name="y")


def shape_within(key):
    f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
    parts = [dist.Gamma(2.0 + f, 1.0), dist.Gamma(1.0, jnp.exp(f))]
    ppl.sample(key, dist.Mixture(dist.Categorical(probs=jnp.ones(2) / 2), parts), name="y")


def wide(key):
    f = ppl.sample(key, dist.Normal(jnp.zeros(9), 1.0), name="f")
    ppl.sample(key, dist.Poisson(jnp.exp(jnp.sum(f))), name="y")


REFUSED = [
    (bounded, "family Exponential, whose support is not.*ppl.Laplace"),
    (unbounded, "no mode of 'f' given the rest was found in 30 steps"),
    (endless, "no mode of 'f' given the rest was found in 30 steps"),
    (shape, "parameter concentration of site 'y' is linear in 'f', which may be any number"),
    (shape_within, "parameter components.0.concentration of site 'y' is linear in 'f'"),
    (cubic_shape, "concentration of site 'y' is a polynomial of degree 3 in 'f', which may be any"),
    (reciprocal_shape, "rate of site 'y' has no lower and no upper bound as a function of 'f'"),
    (root_of_shape, "concentration of site 'y' is not a number for some values of 'f', which may"),
    (log_of_0, "log probability of site 'y' is not finite where 'f' are 0, where ppl.Laplace"),
    (shape_elsewhere, "probability of site 'y' is not finite where 'f' are 0, .*by ppl.reparam"),
    (shape_nowhere, "probability of site 'y' is not finite .*look at the parameters of that site"),
    (wide, r"9 elements of 'f' are coupled as a whole.*ppl.Laplace\(max_block="),
]


COUNTED = (bounded, unbounded, endless, wide)


@pytest.mark.parametrize(("model", "message"), REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_what_has_no_laplace_approximation_is_refused(model, message):
    data = np.array(1 if model in COUNTED else 1.0)
    data = np.ones(3) if model is root_of_shape else data
    summed = laplace(model, ["f"], data=data, max_block=8, max_steps=30)
    with pytest.raises(ValueError, match=message):
        ppl.log_density(summed)({})


def test_a_product_with_0_is_a_parameter_without_an_edge():
    def model(key):
        f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
        ppl.sample(key, dist.Gamma(2 + 0 * f, jnp.exp(f)), name="y")

    assert np.isfinite(ppl.log_density(laplace(model, ["f"], np.array(1.0)))({}))


def test_data_of_density_0_have_density_0():
    """At all values of the sites, so that nothing is wrong."""
    assert ppl.log_density(laplace(poisson, ["f"], -COUNTS))({"scale": 0.7}) == -np.inf


def test_a_density_unknown_by_other_sites_is_no_fault_of_these():
    def model(key):
        scale = ppl.sample(key, dist.Normal(0.0, 1.0), name="scale")
        f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
        ppl.sample(key, dist.Normal(jnp.exp(f), jnp.sqrt(scale)), name="y")

    assert np.isnan(ppl.log_density(laplace(model, ["f"], np.array(1.0)))({"scale": -1.0}))


def test_without_a_mode_the_density_is_unknown_under_jit():
    """NaN where no mode is found, and beside a pole; 0 where data are impossible."""
    summed = laplace(poisson, ["f"], max_steps=1)
    assert np.isnan(jax.jit(ppl.log_density(summed))({"scale": 2.0}))
    assert np.isnan(jax.jit(ppl.log_density(laplace(log_of_0, ["f"], np.array(1.0))))({}))
    impossible = laplace(poisson, ["f"], -COUNTS)
    assert jax.jit(ppl.log_density(impossible))({"scale": 0.7}) == -np.inf


def test_a_mapped_model_has_one_weight_for_each_draw():
    """A site without elements has no effect on it."""

    def model(key):
        loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")

        def one(key):
            ppl.sample(key, dist.Normal(jnp.zeros(0), 1.0), name="nothing")
            f = ppl.sample(key, dist.Normal(loc, 1.0), name="f")
            ppl.sample(key, dist.Normal(f, 1.0), name="y")

        strategies = dict.fromkeys(["f", "nothing"], ppl.Laplace())
        jax.vmap(ppl.marginalize(one, strategies))(jax.random.split(key, 3))

    posterior = ppl.condition(model, {"y": np.arange(3.0)})
    recover = ppl.recover(posterior, {"loc": np.zeros(2)}, log_weights=True)
    values, log_weights = recover(jax.random.key(0))
    assert values["f"].shape == (2, 3)
    assert values["nothing"].shape == (2, 3, 0)
    np.testing.assert_allclose(log_weights, np.zeros(2), atol=1e-10)


def test_new_data_compile_nothing():
    num_traces = []

    @jax.jit
    def density(model):
        num_traces.append(1)
        return ppl.log_density(model)({"scale": 0.7})

    found = [density(laplace(poisson, ["f"], data)) for data in (COUNTS, COUNTS[::-1], 0 * COUNTS)]
    assert len(num_traces) == 1
    assert found[0] == pytest.approx(found[1])
    assert found[0] != found[2]


@pytest.mark.parametrize("strategy", [ppl.Gaussian(), ppl.Laplace()])
def test_data_that_are_no_numbers_are_no_impossible_ones(strategy):
    def model(key):
        f = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="f")
        ppl.sample(key, dist.Normal(f, 1.0), name="y")

    def density(y):
        return ppl.log_density(ppl.marginalize(ppl.condition(model, {"y": y}), {"f": strategy}))({})

    found = jax.jit(jax.vmap(density))(np.array([[0.0, np.nan], [0.0, 1.0]]))
    assert np.isnan(found).tolist() == [True, False]


MISTAKES = [
    (ppl.Laplace, {"tolerance": 0.0}, ValueError, "The distribution is distributions.Laplace"),
    (ppl.Laplace, {"max_steps": 0}, ValueError, "max_steps must be an integer of at least 1"),
    (
        ppl.recover,
        {"model": poisson, "draws": {}, "log_weights": "yes"},
        TypeError,
        "log_weights must be True or False, got 'yes'",
    ),
]


@pytest.mark.parametrize(("make", "arguments", "error", "message"), MISTAKES)
def test_mistakes_are_told(make, arguments, error, message):
    with pytest.raises(error, match=message):
        make(**arguments)
