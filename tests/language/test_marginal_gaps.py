"""marginalize with missing data: entries that are imputed are taken out, ignored ones left out."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")


def log_normal(x, mean, covariance):
    """The log density of a normal vector."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), x - mean)
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return -0.5 * (white @ white + log_det)


def autoregression(key):
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")

    def step(last, key):
        return ppl.sample(key, dist.Normal(slope * last, 0.7), name="y"), None

    jax.lax.scan(step, 0.3, jax.random.split(key, 6))


@pytest.mark.parametrize(
    "strategy", [ppl.Gaussian(), ppl.Laplace()], ids=lambda s: type(s).__name__
)
def test_missing_data_of_a_chain_are_integrated_out(strategy):
    """Of an autoregression, in which the next step reads each."""
    data = np.array([0.4, np.nan, -0.2, np.nan, np.nan, 1.1])
    known, slope = ~np.isnan(data), 0.6

    def exact(slope):
        steps = np.linalg.inv(np.eye(6) - slope * np.eye(6, k=-1))
        mean, covariance = steps @ np.r_[0.3 * slope, np.zeros(5)], 0.49 * steps @ steps.T
        prior = -0.5 * (slope**2 + np.log(2 * np.pi))
        return log_normal(data[known], mean[known], covariance[known][:, known]) + prior

    summed = ppl.marginalize(
        ppl.condition(autoregression, {"y": ppl.impute(data)}), {"y": strategy}
    )
    density = lambda slope: ppl.log_density(summed)({"slope": slope})  # noqa: E731
    found, derivative = jax.jit(jax.value_and_grad(density))(slope)
    np.testing.assert_allclose(found, exact(slope), rtol=1e-12)
    difference = (exact(slope + 1e-4) - exact(slope - 1e-4)) / 2e-4
    np.testing.assert_allclose(derivative, difference, rtol=1e-6)


def test_covariates_missing_in_part_are_integrated_out():
    """Rows of jointly normal covariates of a regression; recover completes them."""
    rng = np.random.default_rng(0)
    x, y, spread = rng.normal(size=(4, 3)), rng.normal(size=4), 0.6 * np.eye(3) + 0.4
    x[0, 0] = x[1, 1:] = x[3] = np.nan
    slope = np.array([0.5, -1.0, 2.0])

    def model(key):
        slope = ppl.sample(key, dist.Normal(np.zeros(3), 1.0), name="slope")
        prior = dist.MultivariateNormal(np.zeros((4, 3)), covariance=spread)
        x = ppl.sample(key, prior, name="x")
        ppl.sample(key, dist.Normal(x @ slope, 0.5), name="y")

    posterior = ppl.condition(model, {"x": ppl.impute(x), "y": y})
    summed = ppl.marginalize(posterior, {"x": ppl.Gaussian()})
    rows, across = np.c_[x, y], spread @ slope
    covariance = np.block([[spread, across[:, None]], [across, slope @ across + 0.25]])
    known = ~np.isnan(rows)
    parts = [
        log_normal(row[k], 0.0, covariance[k][:, k]) for row, k in zip(rows, known, strict=True)
    ]
    exact = sum(parts) - 0.5 * slope @ slope - 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(jax.jit(ppl.log_density(summed))({"slope": slope}), exact)

    num = 20_000
    drawn = ppl.recover(summed, {"slope": jnp.broadcast_to(slope, (num, 3))})(jax.random.key(0))
    drawn = np.asarray(drawn["x"])
    for i, k in enumerate(known):
        gaps = ~k
        weights = np.linalg.solve(covariance[k][:, k], covariance[k][:, gaps])
        mean = rows[i, k] @ weights
        inner = covariance[gaps][:, gaps] - covariance[gaps][:, k] @ weights
        np.testing.assert_array_equal(
            drawn[:, i, k[:3]], np.broadcast_to(x[i, k[:3]], (num, sum(k[:3])))
        )
        rest = drawn[:, i, gaps[:3]] - mean
        assert np.all(np.abs(rest.mean(0)) < 4.5 * np.sqrt(np.diag(inner) / num))
        error = 4.5 * np.sqrt(2 / num) * np.sqrt(np.outer(np.diag(inner), np.diag(inner)))
        assert np.all(np.abs(rest.T @ rest / num - inner) < error)


def test_known_entries_of_a_summed_site_are_scored():
    """Of a site observed in part, on which nothing depends."""

    def model(key):
        chance = ppl.sample(key, dist.Beta(2.0, 2.0), name="chance")
        z = ppl.sample(key, dist.Bernoulli(probs=chance), name="z")
        probs = jnp.where(z == 1, 0.9, 0.2) * jnp.ones(3)
        ppl.sample(key, dist.Bernoulli(probs=probs), name="y")

    gaps = ppl.impute(jnp.array([1, 0, 1]), np.array([False, True, False]))
    summed = ppl.marginalize(ppl.condition(model, {"y": gaps}), ["z", "y"])
    exact = np.log(0.3 * 0.9**2 + 0.7 * 0.2**2) + np.log(6 * 0.3 * 0.7)
    found = jax.jit(ppl.log_density(summed))({"chance": 0.3})
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-15)


def test_known_entries_are_scored_of_a_site_that_is_alone():
    def model(key):
        ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.2, 0.7, 0.4])), name="y")

    gaps = ppl.impute(jnp.array([1, 0, 1]), np.array([False, True, False]))
    summed = ppl.marginalize(ppl.condition(model, {"y": gaps}), ["y"])
    np.testing.assert_allclose(jax.jit(ppl.log_density(summed))({}), np.log(0.2 * 0.4), rtol=1e-12)


def two_outcomes(key):
    share = ppl.sample(key, dist.Beta(2.0, 2.0), name="share")
    z = ppl.sample(key, dist.Bernoulli(probs=share * jnp.ones(4)), name="z")
    ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="a")
    ppl.sample(key, dist.Normal(-1.0 * z, 1.0), name="b")


def test_ignored_entries_of_several_outcomes_of_a_sum():
    """They are scored together, but do not depend on each other."""
    a, b = np.array([0.3, np.nan, -0.2, np.nan]), np.array([1.1, 0.4, np.nan, np.nan])
    posterior = ppl.condition(two_outcomes, {"a": ppl.ignore(a), "b": ppl.ignore(b)})
    summed = ppl.marginalize(posterior, ["z"])
    log_normal = lambda y, mean: -0.5 * (y - mean) ** 2 - 0.5 * np.log(2 * np.pi)  # noqa: E731
    of_state = [
        np.nan_to_num(log_normal(a, 2 * z)) + np.nan_to_num(log_normal(b, -z)) for z in (0, 1)
    ]
    exact = np.logaddexp(np.log(0.7) + of_state[0], np.log(0.3) + of_state[1])
    for model, name in ((summed, "b"), (ppl.nest(summed, scope="in"), "in.b")):
        share = {"share": 0.3} if name == "b" else {"in": {"share": 0.3}}
        found = ppl.log_probs(model)(share)
        found = found["z.a.b"] if name == "b" else found["in"]["z.a.b"]
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-15)


def reading(key, reads):
    ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="unrelated")
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.3)), name="z")
    a = ppl.sample(key, dist.Normal(1.0 * z, 1.0), name="a")
    loc = {"x": x, "a": a, "nothing": 0.0 * jnp.ones(3)}[reads]
    ppl.sample(key, dist.Normal(loc + z, 1.0), name="b")


@pytest.mark.parametrize("reads", ["x", "a"])
def test_what_reads_an_ignored_entry_is_told_behind_a_sum(reads):
    values = {name: np.zeros(3) for name in ("unrelated", "x", "a", "b")}
    gap = ppl.ignore(np.array([0.0, np.nan, 0.0]))
    for name in ("unrelated", "x", "a"):
        data = {**values, name: gap}
        models = [ppl.marginalize(ppl.condition(reading, data), ["z"])]
        if name != "a":
            models.append(ppl.condition(ppl.marginalize(reading, ["z"]), data))
        for model in models:
            for nested in (model, ppl.nest(model, scope="in")):
                if name == reads:
                    with pytest.raises(ValueError, match=f"b' depends on site '(in.)?{reads}'"):
                        ppl.log_density(nested)({}, reads)
                else:
                    assert np.isfinite(ppl.log_density(nested)({}, reads))


def test_entries_ignored_behind_a_sum_are_left_out_of_it():
    a, b = np.array([0.3, np.nan, -0.2, 0.1]), np.array([0.5, -1.0, 0.2, 0.0])
    rule = lambda model: lambda *args, **kwargs: {"z": ppl.Enumerate()}  # noqa: E731
    score = [stats.norm.logpdf(a, 2 * z) * ~np.isnan(a) for z in (0, 1)]
    score = [np.nan_to_num(x) + stats.norm.logpdf(b, -z) for z, x in enumerate(score)]
    expected = np.logaddexp(np.log(0.7) + score[0], np.log(0.3) + score[1]).sum()
    expected += stats.beta.logpdf(0.3, 2, 2)
    for sites in (["z"], rule):
        summed = ppl.condition(ppl.marginalize(two_outcomes, sites), {"b": b})
        posterior = ppl.condition(summed, {"a": ppl.ignore(a)})
        found = jax.jit(ppl.log_density(posterior))({"share": 0.3})
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        drawn = ppl.recover(posterior, {"share": np.full(2000, 0.3)})(jax.random.key(0))["z"]
        odds = np.log(0.3 / 0.7) + score[1] - score[0]
        np.testing.assert_allclose(drawn.mean(0), 1 / (1 + np.exp(-odds)), atol=0.05)
    scaled = ppl.scale(ppl.marginalize(two_outcomes, ["z"]), 2.0)
    found = ppl.log_density(ppl.condition(scaled, {"a": ppl.ignore(a), "b": b}))({"share": 0.3})
    np.testing.assert_allclose(found, 2 * expected, rtol=1e-12)
    within = lambda key: scaled(key)  # noqa: E731
    with pytest.raises(ValueError, match="a transformation of that model stands between"):
        ppl.log_density(ppl.condition(within, {"a": ppl.ignore(a), "b": b}))({"share": 0.3})


def test_a_discrete_site_behind_an_integral_is_told():
    """Its elements have joint scores for each group of what was integrated."""

    def responses(key):
        skill = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="skill")
        knows = ppl.sample(key, dist.Bernoulli(logits=skill[:, None] + jnp.zeros(2)), name="knows")
        ppl.sample(key, dist.Bernoulli(probs=jnp.where(knows == 1, 0.9, 0.2)), name="y")

    posterior = ppl.condition(responses, {"y": np.ones((3, 2), int)})
    both = ppl.marginalize(posterior, {"knows": ppl.Enumerate(), "skill": ppl.Laplace()})
    with pytest.raises(ValueError, match="site 'knows' depends on sites that are taken out before"):
        ppl.log_density(both)({})
    first = ppl.marginalize(posterior, ["knows"])
    assert np.isfinite(ppl.log_density(ppl.marginalize(first, {"skill": ppl.Laplace()}))({}))


def test_recover_needs_draws_of_all_other_sites():
    """A latent site without draws would be drawn from its prior, and not given the data."""
    data = {"a": np.zeros(4), "b": np.zeros(4)}
    summed = ppl.marginalize(ppl.condition(two_outcomes, data), ["z"])
    with pytest.raises(ValueError, match=r"recover: .* every latent site; missing: 'share'"):
        ppl.recover(summed, {})(jax.random.key(0))


def test_a_site_that_is_taken_out_twice_is_told():
    twice = ppl.marginalize(ppl.marginalize(two_outcomes, ["z"]), ["z"])
    with pytest.raises(ValueError, match=r"site 'z' of .* is taken out already"):
        ppl.log_density(twice)({})


def test_a_joint_conditional_prints_its_dtype_and_shape():
    posterior = ppl.condition(autoregression, {"slope": 0.5})
    assert repr(ppl.conditional(posterior, "y")({})) == "NormalConditional(float64[6])"


def test_gaps_of_summed_sites_and_gaps_as_values_are_told():
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
        ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")

    summed = ppl.marginalize(model, ["z"])
    for name, words in {"z": "taken out by ppl.marginalize", "other": "no site 'other'"}.items():
        with pytest.raises(ValueError, match=rf"^condition: .*{words}.*: 'mu', 'y'"):
            ppl.log_density(ppl.condition(summed, {name: ppl.ignore(np.nan)}))({"mu": 0.1})
    with pytest.raises(TypeError, match=r"ppl\.condition\(model, \{'y': ppl\.ignore\(data\)\}\)"):
        ppl.log_density(summed)({"mu": 0.1, "y": ppl.ignore(np.nan)})


def plain(key, x_prior, y_of):
    x = ppl.sample(key, x_prior(4), name="x")
    ppl.sample(key, y_of(x), name="y")


def mapped(key, x_prior, y_of):
    jax.vmap(lambda key: plain_row(key, x_prior, y_of))(jax.random.split(key, 4))


def looped(key, x_prior, y_of):
    step = lambda _, key: (None, plain_row(key, x_prior, y_of))  # noqa: E731
    jax.lax.scan(step, None, jax.random.split(key, 4))


def plain_row(key, x_prior, y_of):
    ppl.sample(key, y_of(ppl.sample(key, x_prior(None), name="x")), name="y")


@pytest.mark.parametrize(("rows", "factor"), [(plain, 0.5), (mapped, None), (looped, None)])
def test_data_are_scored_given_seen_covariates(rows, factor):
    """A covariate and a label, each seen in part: `y[i]` given them where they are seen."""
    x, z = np.array([0.5, np.nan, -1.0, 2.5]), np.array([0.0, 1.0, np.nan, 1.0])
    y, slope = np.array([0.4, 1.0, -0.7, 2.1]), 0.7
    count = lambda n, p: p if n is None else jnp.full(n, p)  # noqa: E731

    def real(key):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        prior = lambda n: dist.Normal(count(n, slope), 1.5)  # noqa: E731
        rows(key, prior, lambda x: dist.Normal(slope * x, 0.5))

    def discrete(key):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        prior = lambda n: dist.Bernoulli(probs=count(n, 0.3))  # noqa: E731
        rows(key, prior, lambda z: dist.Normal(slope * z, 0.5))

    def scores(model, gaps, strategy):
        data = {"x": ppl.impute(gaps), "y": y}
        posterior = ppl.marginalize(ppl.condition(model, data), {"x": strategy})
        posterior = posterior if factor is None else ppl.scale(posterior, factor)
        found = ppl.log_probs(posterior)({"slope": slope})
        total = ppl.log_density(posterior)({"slope": slope})
        assert re.search(r"^x +summed", str(ppl.graph(posterior)()), re.MULTILINE)
        np.testing.assert_allclose(total, sum(map(np.sum, found.values())))
        return {name: found[name] / (factor or 1) for name in ("x", "y")}

    spread = np.where(np.isnan(x), np.hypot(slope * 1.5, 0.5), 0.5)
    of_y = stats.norm.logpdf(y, slope * np.where(np.isnan(x), slope, x), spread)
    of_x = np.nan_to_num(stats.norm.logpdf(x, slope, 1.5))
    for strategy in [ppl.Gaussian(), ppl.Laplace()][: 1 + (rows is plain)]:
        found = scores(real, x, strategy)
        np.testing.assert_allclose(found["y"], of_y, rtol=1e-6)
        np.testing.assert_allclose(found["x"], of_x)
    found = scores(discrete, z, ppl.Enumerate())
    one, zero = stats.norm.pdf(y, slope, 0.5), stats.norm.pdf(y, 0.0, 0.5)
    mixed = np.where(np.isnan(z), 0.3 * one + 0.7 * zero, np.where(z == 1, one, zero))
    np.testing.assert_allclose(found["y"], np.log(mixed))
    np.testing.assert_allclose(found["x"], np.nan_to_num(stats.bernoulli.logpmf(z, 0.3)))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_covariates_with_gaps_are_integrated_within_a_sum(shape):
    """The slope of `x` depends on the class, one for all or one for each."""
    x, y, slopes = np.array([0.1, np.nan, 0.4]), np.array([1.0, 2.0, 0.3]), np.array([-1.0, 0.5])

    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        k = ppl.sample(key, dist.Bernoulli(probs=jnp.full(shape, 0.3)), name="k")
        ppl.sample(key, dist.Normal(jnp.asarray(slopes)[k] * x, 1.0), name="y")

    posterior = ppl.condition(model, {"y": y, "x": ppl.impute(x)})
    summed = ppl.marginalize(posterior, {"x": ppl.Gaussian(), "k": ppl.Enumerate()})
    variance = np.where(np.isnan(x), 1.0 + slopes[:, None] ** 2, 1.0)  # by class and entry
    mean = slopes[:, None] * np.nan_to_num(x)
    by_class = stats.norm.logpdf(y, mean, np.sqrt(variance)).reshape(2, *shape, -1).sum(-1)
    weights = np.log([0.7, 0.3]).reshape(2, *[1] * len(shape))
    expected = np.logaddexp.reduce(weights + by_class).sum() + np.nansum(stats.norm.logpdf(x))
    np.testing.assert_allclose(ppl.log_density(summed)({}), expected, rtol=1e-12)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: ppl.nest(f, scope="a"), jax.jit])
def test_a_value_used_outside_of_its_sum_is_told(wrap):
    """A model that draws from its key beside it is told as that."""

    def inner(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
        ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="y")
        return z

    def outer(key):
        loc = wrap(ppl.marginalize(inner, ["z"]))(key)
        ppl.sample(key, dist.Normal(1.0 * loc, 1.0), name="last")

    def noisy(key):
        ppl.marginalize(inner, ["z"])(key)
        ppl.sample(key, dist.Normal(jax.random.normal(key), 1.0), name="last")

    y = {"a": {"y": 0.0}} if "a" in ppl.trace(outer)(jax.random.key(0)).sites else {"y": 0.0}
    with pytest.raises(ValueError, match=r"value of '(a\.)?z', which ppl\.marginalize has taken"):
        ppl.log_density(outer)({**y, "last": 0.7})
    with pytest.raises(ValueError, match="depends on its random key elsewhere"):
        ppl.log_density(noisy)({"y": 0.0, "last": 0.7})
