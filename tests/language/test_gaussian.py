"""marginalize with Gaussian: integrals equal those of the quadratic form, and draws are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import distributions as dist
import ppl
from ppl.marginal.gaussian_integral import GaussianIntegral
from tests.language.integrals import INTEGRALS

pytestmark = pytest.mark.usefixtures("x64")

BY_NAME = {case.name: case for case in INTEGRALS}


def zeros_of(case):
    nodes = ppl.graph(case.posterior())().nodes
    found = {}
    for name in case.sites:
        *scopes, last = name.split(".")
        inner = found
        for scope in scopes:
            inner = inner.setdefault(scope, {})
        inner[last] = jnp.zeros(nodes[name].shape)
    return found


def as_normal(case):
    """Of the integrated sites at some scale, as one vector: the log integral, mean, covariance."""
    flat, unflatten = ravel_pytree(zeros_of(case))
    density = ppl.log_density(case.posterior())

    def of(scale):
        f = lambda x: density({"scale": scale, **unflatten(x)})  # noqa: E731
        precision = -jax.hessian(f)(flat)
        mean = jnp.linalg.solve(precision, jax.grad(f)(flat))
        log_det = jnp.linalg.slogdet(precision)[1]
        log_integral = f(mean) - log_det / 2 + flat.size / 2 * jnp.log(2 * jnp.pi)
        return log_integral, mean, jnp.linalg.inv(precision)

    return of


STEP = 1e-3
QUICK = ["second_order"]


@pytest.mark.quick_rows(*QUICK)
@pytest.mark.parametrize("case", INTEGRALS, ids=lambda case: case.name)
def test_integrals_equal_those_of_the_quadratic_form(case, monkeypatch):
    layouts = []
    layout_of = GaussianIntegral._layout  # pyright: ignore

    def note(self, group):
        found = layout_of(self, group)
        sizes = found.num_plates, found.num_blocks, found.size_of_block, found.size_of_border
        layouts.append(sizes)
        return found

    monkeypatch.setattr(GaussianIntegral, "_layout", note)
    density = ppl.log_density(case.integrated())
    ours = lambda scale: density({"scale": scale})  # noqa: E731
    scales = 0.7 + STEP * jnp.arange(-2.0, 3.0)

    @jax.jit
    def both(scales):
        slopes = jax.grad(ours)(scales[2]), jax.grad(jax.grad(ours))(scales[2])
        exact = jax.lax.map(lambda scale: as_normal(case)(scale)[0], scales)
        return jax.lax.map(ours, scales), slopes, exact

    found, (slope, curvature), exact = both(scales)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
    first = (exact[0] - 8 * exact[1] + 8 * exact[3] - exact[4]) / (12 * STEP)
    second = (-exact[0] + 16 * exact[1] - 30 * exact[2] + 16 * exact[3] - exact[4]) / 12
    np.testing.assert_allclose(slope, first, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(curvature, second / STEP**2, rtol=1e-5, atol=1e-5)
    assert case.blocks in layouts


def test_a_chain_and_its_gradient_take_four_loops():
    """The factor, the mode with the inverse, and the solution for the slope, there and back."""
    density = jax.value_and_grad(ppl.log_density(BY_NAME["local_level"].integrated()))
    compiled = jax.jit(density).lower({"scale": 0.7}).compile()
    assert str(compiled.as_text()).count(" while(") == 4


NUM_DRAWS = 40_000
DRAWN = ["second_order", "schools", "several_chains", "level_and_trend", "levels_and_slopes"]
DRAWN += ["nested_twice"]


@pytest.mark.quick_rows("schools")
@pytest.mark.parametrize("case", [BY_NAME[name] for name in DRAWN], ids=lambda case: case.name)
def test_recovered_draws_have_the_exact_moments(case):
    _, mean, covariance = jax.jit(as_normal(case))(0.7)
    draws = ppl.recover(case.integrated(), {"scale": jnp.full(NUM_DRAWS, 0.7)})(jax.random.key(0))
    assert set(draws) == set(case.sites)
    flat = np.concatenate([np.reshape(draws[n], (NUM_DRAWS, -1)) for n in sorted(draws)], 1)
    error = np.sqrt(np.diag(covariance) / NUM_DRAWS)
    assert np.all(np.abs(flat.mean(0) - mean) < 4.5 * error)

    def excess(draws):
        """The largest error of the covariance of whitened draws, in standard errors."""
        white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
        return np.abs(white @ white.T / NUM_DRAWS - np.eye(len(white))).max() * np.sqrt(
            NUM_DRAWS / 2
        )

    assert excess(flat) < 4.5
    rng = np.random.default_rng(0)
    apart = np.stack([rng.permutation(column) for column in flat.T], 1)  # right one by one
    assert excess(apart) > 4.5


def test_single_precision_holds():
    """A slow walk far from 0, whose precision matrix has a condition number of 4e5."""
    data = 1e3 + np.random.default_rng(0).normal(size=2000)

    def density_in(dtype):
        def model(key):
            def step(x, key):
                x = ppl.sample(key, dist.Normal(x, dtype(3e-3)), name="x")
                return x, ppl.sample(key, dist.Normal(x, dtype(1.0)), name="y")

            return jax.lax.scan(step, dtype(1e3), jax.random.split(key, 2000))

        summed = refused({"y": data.astype(dtype)}, model)
        found = jax.jit(ppl.log_density(summed))({})
        assert found.dtype == dtype
        return found

    np.testing.assert_allclose(density_in(np.float32), density_in(np.float64), rtol=1e-5)


def refused(data, model, sites=("x",), max_block=100):
    posterior = ppl.condition(model, data)
    return ppl.marginalize(posterior, dict.fromkeys(sites, ppl.Gaussian(max_block)))


def scaled(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.sample(key, dist.Normal(0.0, jnp.exp(x)), name="y")


def logistic(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.sample(key, dist.Bernoulli(logits=x), name="y")


def heavy_tailed(key):
    ppl.sample(key, dist.StudentT(3.0, 0.0, 1.0), name="x")


def positive(key):
    ppl.sample(key, dist.Flat(dist.constraints.positive), name="x")


def product(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    ppl.sample(key, dist.Normal(x * z, 1.0), name="y")


def discrete(key):
    ppl.sample(key, dist.Bernoulli(probs=0.5), name="x")


def unknown_level(key):
    ppl.sample(key, dist.Flat(dist.constraints.real), name="x")


def two_unknown_levels(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    z = ppl.sample(key, dist.Flat(dist.constraints.real), name="z")
    ppl.sample(key, dist.Normal(x + z, 1.0), name="y")


def wide(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(9), 1.0), name="x")
    ppl.sample(key, dist.Normal(jnp.sum(x), 1.0), name="y")


def local(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 1.0), name="y")


GAPS = np.array([0.3, np.nan, 1.0])
REFUSED = [
    ((scaled,), {"y": 0.5}, r"site 'y' is not quadratic in 'x', by the operation"),
    ((logistic,), {"y": 1}, r"site 'y' is not quadratic in 'x'"),
    ((heavy_tailed,), {}, r"site 'x' is not quadratic in 'x'"),
    ((positive,), {}, r"site 'x' has the family Flat, whose support is not"),
    ((product, "xz"), {"y": 0.5}, r"not jointly quadratic in 'x', 'z'.*'square'"),
    ((discrete,), {}, r"site 'x' is no array of real numbers.*ppl.Enumerate"),
    ((unknown_level,), {}, r"'x' is improper given the rest"),
    ((two_unknown_levels, "xz"), {"y": 0.5}, r"'x', 'z' are improper given"),
    ((wide, "x", 8), {"y": 0.5}, r"9 elements of 'x' are coupled as a whole"),
    ((wide, ["v"]), {"y": 0.5}, r"has no site 'v'"),
]


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_what_is_no_gaussian_integral_is_refused(row):
    arguments, data, message = REFUSED[row]
    with pytest.raises(ValueError, match=message):
        ppl.log_density(refused(data, *arguments))({})


def differences(key, level, scale):
    """A random walk of which data see only the differences."""
    first = ppl.sample(key, level, name="first")

    def step(x, key):
        x = ppl.sample(key, dist.Normal(x, scale), name="x")
        return x, x

    x = jax.lax.scan(step, first, jax.random.split(key, 20))[1]
    ppl.sample(key, dist.Normal(jnp.diff(x), 1.0), name="y")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strategy", [ppl.Gaussian(), ppl.Laplace()], ids=["gaussian", "laplace"])
def test_a_level_that_rounding_hides_is_no_number(strategy, dtype):
    """The last pivot of an improper field is a rounding error, and of an odd prior some of them."""
    y = np.linspace(-1.0, 1.0, 19).astype(dtype)
    with jax.enable_x64(dtype == "float64"):

        def density(level, scale):
            strategies = {"first": strategy, "x": strategy}
            return ppl.log_density(
                ppl.marginalize(ppl.condition(differences, {"y": y}), strategies)
            )({}, level, scale)

        flat = dist.Flat(dist.constraints.real)
        with pytest.raises(ValueError, match="'first', 'x'"):
            density(flat, 1.0)
        assert np.isnan(jax.jit(density)(flat, 1.0))
        exact = stats.norm.logpdf(y, 0.0, np.sqrt(1 + 0.1**2)).sum()
        # In single precision, the last pivot is of 7 rounding errors.
        tolerance = 0.2 if dtype == "float32" else 1e-6
        np.testing.assert_allclose(density(dist.Normal(0.0, 100.0), 0.1), exact, atol=tolerance)


def test_one_of_two_factors_of_a_product_is_integrated():
    summed = refused({"y": 0.5}, product)
    exact = -0.5 * (0.5**2 / 5 + np.log(5) + 2.0**2 + 2 * np.log(2 * np.pi))
    np.testing.assert_allclose(ppl.log_density(summed)({"z": 2.0}), exact, rtol=1e-12)


NILE = np.fromstring(
    """
    1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958
    1140 1100 1210 1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020
    1050 969 831 726 456 824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040
    759 781 865 845 944 984 897 822 1010 771 676 649 846 812 742 801 1040 860 874 848 890
    744 749 838 1050 918 986 797 923 975 815 1020 906 901 1170 912 746 919 718 714 740
    """,
    sep=" ",
)  # annual flow at Aswan, 1871 to 1970


def nile(key):
    log_noise = ppl.sample(key, dist.Flat(dist.constraints.real), name="log_noise")
    log_step = ppl.sample(key, dist.Flat(dist.constraints.real), name="log_step")

    def step(level, key):
        level = ppl.sample(key, dist.Normal(level, jnp.exp(log_step)), name="level")
        return level, ppl.sample(key, dist.Normal(level, jnp.exp(log_noise)), name="y")

    first, rest = jax.random.split(key)
    start = ppl.sample(first, dist.Flat(dist.constraints.real), name="start")
    return jax.lax.scan(step, start, jax.random.split(rest, len(NILE)))


def test_the_nile_is_likeliest_at_the_published_variances():
    """Durbin and Koopman, Time Series Analysis by State Space Methods (2001), section 2.10."""
    posterior = ppl.condition(nile, {"y": NILE})
    summed = ppl.marginalize(posterior, dict.fromkeys(["level", "start"], ppl.Gaussian()))
    density = ppl.log_density(summed)
    slope = jax.jit(jax.grad(lambda x: density({"log_noise": x[0], "log_step": x[1]})))
    best = 0.5 * np.log([15_099.0, 1469.1])
    assert np.all(np.abs(slope(best)) < 3e-3)
    assert np.all(slope(best - 1e-2) > 0.05)
    assert np.all(slope(best + 1e-2) < -0.05)


def kalman(y, transition, loading, noise, step, mean, covariance):
    """The log likelihood of a state-space model, by the Kalman filter in NumPy."""
    total = 0.0
    for row in y:
        mean, covariance = transition @ mean, transition @ covariance @ transition.T + step
        spread = loading @ covariance @ loading.T + noise
        error = row - loading @ mean
        gain = covariance @ loading.T @ np.linalg.inv(spread)
        total -= 0.5 * (error @ np.linalg.solve(spread, error) + np.linalg.slogdet(spread)[1])
        total -= 0.5 * len(error) * np.log(2 * np.pi)
        mean, covariance = mean + gain @ error, covariance - gain @ spread @ gain.T
    return total


def test_a_state_space_model_has_the_likelihood_of_kalman():
    rng = np.random.default_rng(0)
    transition = np.array([[0.9, 0.3], [-0.4, 0.8]])
    loading = rng.normal(size=(3, 2))
    step, noise = np.array([[0.4, 0.1], [0.1, 0.3]]), 0.5 * np.eye(3) + 0.2
    y = rng.normal(size=(7, 3))

    def model(key):
        def one(x, key):
            x = ppl.sample(key, dist.MultivariateNormal(transition @ x, covariance=step), name="x")
            d = dist.MultivariateNormal(loading @ x, covariance=noise)
            return x, ppl.sample(key, d, name="y")

        d = dist.MultivariateNormal(jnp.array([0.5, -1.0]), covariance=np.eye(2))
        return jax.lax.scan(one, ppl.sample(key, d, name="start"), jax.random.split(key, 7))

    summed = ppl.marginalize(
        ppl.condition(model, {"y": y}), dict.fromkeys(["x", "start"], ppl.Gaussian())
    )
    exact = kalman(y, transition, loading, noise, step, np.array([0.5, -1.0]), np.eye(2))
    np.testing.assert_allclose(jax.jit(ppl.log_density(summed))({}), exact, rtol=1e-12)


def test_a_mixed_model_has_its_closed_form():
    """Radon: varying levels and slopes of counties, and their means."""
    rng = np.random.default_rng(0)
    county, floor, y = rng.integers(6, size=30), rng.integers(2, size=30), rng.normal(size=30)

    def radon(key, county, floor):
        scale = ppl.sample(key, dist.HalfNormal(jnp.ones(3)), name="scale")
        mean = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="mean")
        level = ppl.sample(key, dist.Normal(mean[0], scale[0] * jnp.ones(6)), name="level")
        slope = ppl.sample(key, dist.Normal(mean[1], scale[1] * jnp.ones(6)), name="slope")
        loc = level[county] + slope[county] * floor
        ppl.sample(key, dist.Normal(loc, scale[2]), name="y")

    gaussian = dict.fromkeys(["mean", "level", "slope"], ppl.Gaussian())
    summed = ppl.marginalize(ppl.condition(radon, {"y": y}), gaussian)
    scale = np.array([0.5, 0.8, 1.2])
    found = jax.jit(ppl.log_density(summed))({"scale": scale}, county, floor)
    same = (county[:, None] == county).astype(float)
    covariance = scale[2] ** 2 * np.eye(30) + 4.0 + 4.0 * np.outer(floor, floor)
    covariance += same * (scale[0] ** 2 + scale[1] ** 2 * np.outer(floor, floor))
    exact = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1])
    exact += -15 * np.log(2 * np.pi) + np.sum(0.5 * np.log(2 / np.pi) - scale**2 / 2)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def mixture(key):
    """Of each element, a class and a level are latent."""
    shift = ppl.sample(key, dist.Normal(0.0, 1.0), name="shift")
    z = ppl.sample(key, dist.Bernoulli(probs=0.3 * jnp.ones(4)), name="z")
    x = ppl.sample(key, dist.Normal(jnp.where(z, 1.0, -1.0) + shift, 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")


def test_discrete_sites_are_summed_by_element_after_normal_ones():
    y = np.array([0.3, 1.2, -0.4, 0.1])
    summed = ppl.marginalize(
        ppl.condition(mixture, {"y": y}), {"z": ppl.Enumerate(max_states=2), "x": ppl.Gaussian()}
    )
    density = np.stack([0.7 * np.exp(-0.4 * (y + 1) ** 2), 0.3 * np.exp(-0.4 * (y - 1) ** 2)])
    exact = np.log(density.sum(0) / np.sqrt(2 * np.pi * 1.25))
    np.testing.assert_allclose(
        jax.jit(ppl.log_probs(summed))({"shift": 0.0})["y"], exact, rtol=1e-12
    )

    num = 40_000
    drawn = ppl.recover(summed, {"shift": jnp.zeros(num)})(jax.random.key(0))
    chance = density[1] / density.sum(0)
    error = 4.5 / np.sqrt(num)
    assert np.all(np.abs(np.mean(drawn["z"], 0) - chance) < error * np.sqrt(chance * (1 - chance)))
    loc = np.stack([(4 * y - 1) / 5, (4 * y + 1) / 5])
    for k in (0, 1):  # Given the class, the level is normal.
        mine = np.asarray(drawn["z"]) == k
        rest = np.where(mine, drawn["x"] - loc[k], 0.0)
        count = mine.sum(0)
        assert np.all(np.abs(rest.sum(0) / count) < 4.5 * np.sqrt(0.2 / count))
        assert np.all(np.abs((rest**2).sum(0) / count - 0.2) < 4.5 * 0.2 * np.sqrt(2 / count))


def test_ignored_data_stay_quadratic():
    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")

    posterior = ppl.condition(model, {"y": ppl.ignore(GAPS, np.isnan(GAPS))})
    summed = ppl.marginalize(posterior, {"x": ppl.Gaussian()})
    exact = stats.norm.logpdf(GAPS[[0, 2]], 0, 1.25**0.5).sum()
    np.testing.assert_allclose(jax.jit(ppl.log_density(summed))({}), exact, rtol=1e-12)


def test_new_data_compile_nothing():
    num_traces = []

    @jax.jit
    def density(model):
        num_traces.append(1)
        return ppl.log_density(model)({"scale": 0.7})

    model, gaussian = BY_NAME["levels_and_slopes"].model, ppl.Gaussian()
    for y in (np.zeros(5), np.ones(5)):
        posterior = ppl.condition(model, {"y": y})
        density(ppl.marginalize(posterior, dict.fromkeys(["x", "z", "mu", "slope"], gaussian)))
    assert len(num_traces) == 1


TINY = {  # effects of some scale about a mean, as a function of their noise
    "centered": lambda mu, scale: dist.Normal(mu, scale * jnp.ones(4, jnp.float32)),
    "not_centered": lambda mu, scale: dist.Normal(jnp.zeros(4, jnp.float32), np.float32(1.0)),
}


@pytest.mark.parametrize("form", TINY)
def test_single_precision_holds_for_tiny_scales(form):
    """The scale of the effects is 1e-5 of that of the data."""
    data, error = np.array([28.0, 8.0, -3.0, 7.0]), np.float32([15, 10, 16, 11])

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(np.float32(5.0)), name="scale")
        mu = ppl.sample(key, dist.Normal(np.float32(0.0), np.float32(5.0)), name="mu")
        x = ppl.sample(key, TINY[form](mu, scale), name="x")
        ppl.sample(key, dist.Normal(x if form == "centered" else mu + scale * x, error), name="y")

    summed = refused({"y": data.astype(np.float32)}, model, ["mu", "x"])
    density = lambda scale: ppl.log_density(summed)({"scale": scale})  # noqa: E731
    scales = np.array([1e-4, 1e-2, 1.0, 1e3])
    found, slope = jax.jit(jax.vmap(jax.value_and_grad(density)))(scales.astype(np.float32))
    covariance = (error**2 + scales[:, None] ** 2)[..., None] * np.eye(4) + 25.0
    inverse = np.linalg.inv(covariance)
    exact = -0.5 * (np.einsum("i,sij,j->s", data, inverse, data) + np.linalg.slogdet(covariance)[1])
    exact += -2 * np.log(2 * np.pi) + 0.5 * np.log(2 / np.pi) - np.log(5.0) - scales**2 / 50
    exact_slope = np.sum(np.einsum("sij,j->si", inverse, data) ** 2, -1)
    exact_slope = scales * (exact_slope - np.trace(inverse, axis1=1, axis2=2) - 1 / 25)
    np.testing.assert_allclose(found, exact, rtol=3e-6)
    np.testing.assert_allclose(slope, exact_slope, rtol=1e-3, atol=1e-3)
