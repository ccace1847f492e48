"""conditional: full conditionals beside closed forms and the joint density, and what has none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

import distributions as dist
import ppl
from tests.language.integrals import INTEGRALS
from tests.language.sums import SUMS

X, COUNTS = np.array([0.3, -1.0, 2.0, 1.2]), np.array([4, 2, 3])


def conjugate(key):
    """A site for each family."""
    rate = ppl.sample(key, dist.Gamma(2.0, 1.5), name="rate")
    ppl.sample(key, dist.Poisson(rate * np.array([1.0, 2.0, 0.5])), name="counts")
    probs = ppl.sample(key, dist.Beta(2.0, np.array([3.0, 1.0])), name="probs")
    ppl.sample(key, dist.Binomial(10, probs=probs), name="successes")
    mu = ppl.sample(key, dist.Normal(0.5, 2.0), name="mu")
    variance = ppl.sample(key, dist.InverseGamma(3.0, 2.0), name="variance")
    ppl.sample(key, dist.Normal(mu * np.ones(4), jnp.sqrt(variance)), name="x")
    precision = ppl.sample(key, dist.Exponential(0.7), name="precision")
    ppl.sample(key, dist.Normal(mu * np.ones(2), 1 / jnp.sqrt(precision)), name="w")
    weights = ppl.sample(key, dist.Dirichlet(np.array([1.0, 2.0, 0.5])), name="weights")
    z = ppl.sample(key, dist.Categorical(probs=weights * np.ones((5, 1))), name="z")
    ppl.sample(key, dist.Normal(z, 1.0), name="v")
    angle = ppl.sample(key, dist.VonMises(0.5, 2.0), name="angle")
    ppl.sample(key, dist.VonMises(angle, 1.5), name="turned")
    size = ppl.sample(key, dist.LogNormal(0.2, 1.0), name="size")
    ppl.sample(key, dist.LogNormal(jnp.log(size), 0.5), name="measured")


DATA = {
    "counts": COUNTS,
    "successes": np.array([3, 9]),
    "x": X,
    "w": np.array([0.2, 2.5]),
    "v": np.array([0.1, 1.8, -0.5, 1.0, 2.2]),
    "turned": 1.1,
    "measured": 3.0,
}
VALUES = {
    "rate": 1.2,
    "probs": np.array([0.4, 0.7]),
    "mu": 0.3,
    "variance": 1.7,
    "precision": 0.6,
    "weights": np.array([0.2, 0.5, 0.3]),
    "z": np.array([0, 1, 1, 2, 1]),
    "angle": 0.2,
    "size": 2.0,
}


def normal_mean():
    precision = 1 / 4 + 4 / 1.7 + 2 * 0.6
    return (0.5 / 4 + X.sum() / 1.7 + 2.7 * 0.6) / precision, precision**-0.5


def turned():
    c, s = 2 * np.cos(0.5) + 1.5 * np.cos(1.1), 2 * np.sin(0.5) + 1.5 * np.sin(1.1)
    return np.arctan2(s, c), np.hypot(s, c)


FORMS = {
    "rate": ("Gamma", 2 + COUNTS.sum(), 1.5 + 3.5),
    "probs": ("Beta", [5, 11], [10, 2]),
    "mu": ("Normal", *normal_mean()),
    "variance": ("InverseGamma", 5, 2 + np.sum((X - 0.3) ** 2) / 2),
    "precision": ("Gamma", 2, 0.7 + (0.1**2 + 2.2**2) / 2),
    "weights": ("Dirichlet", [2, 5, 1.5]),
    "angle": ("VonMises", *turned()),
    "size": ("LogNormal", (0.2 + np.log(3) * 4) / 5, 5**-0.5),
}


def at(site, values=VALUES, data=DATA):
    return ppl.conditional(ppl.condition(conjugate, data), site)(values)


def check_form(site, found, rtol):
    name, *parameters = FORMS[site]
    assert type(found).__name__ == name
    leaves = [x for x in jax.tree.leaves(found) if x is not None]
    for leaf, exact in zip(leaves, parameters, strict=True):
        np.testing.assert_allclose(leaf, exact, rtol=rtol)


@pytest.mark.quick_rows("mu")
@pytest.mark.parametrize("site", FORMS)
def test_conjugate_sites_have_the_parameters_of_textbooks(site, x64):
    check_form(site, at(site), 1e-11)


@pytest.mark.quick_rows("variance", "mu")
@pytest.mark.parametrize("site", FORMS)
def test_parameters_hold_in_single_precision(site):
    """Traced data and values: the family is found from the program alone."""
    found = jax.jit(lambda values, data: at(site, values, data))(VALUES, DATA)
    assert all(x.dtype == np.float32 for x in jax.tree.leaves(found))
    check_form(site, found, 1e-5)


def test_states_of_independent_elements_have_their_weights(x64):
    found = at("z")
    weights = VALUES["weights"] * np.exp(-((DATA["v"][:, None] - np.arange(3)) ** 2) / 2)
    np.testing.assert_allclose(found.probs, weights / weights.sum(1, keepdims=True), rtol=1e-12)
    draws = found.sample(key(0), 20_000)
    assert draws.dtype == jax.eval_shape(lambda: ppl.simulate(conjugate)(key(0))["z"]).dtype
    share = np.mean(np.asarray(draws)[..., None] == np.arange(3), 0)
    error = np.sqrt(found.probs * (1 - found.probs) / 20_000)
    assert np.all(np.abs(share - found.probs) < 4.5 * error)
    np.testing.assert_array_equal(found.log_prob(np.full(5, 7)), -np.inf)


def of_sites(cases, sites):
    return [
        pytest.param(case, site, id=f"{case.name}_{site}") for case in cases for site in sites(case)
    ]


COUPLED = of_sites(SUMS, lambda case: case.summed) + of_sites(INTEGRALS, lambda case: case.sites)


def draw_others(posterior, site, seed):
    """Draws of all latent sites but one."""
    nodes = ppl.graph(posterior)().nodes
    fixed = ppl.intervene(posterior, with_value({}, site, jnp.zeros_like(nodes[site].value)))
    values = ppl.simulate(fixed)(key(seed))

    def keep(values, scope):
        found = {}
        for name, x in values.items():
            path = ".".join((*scope, name))
            if isinstance(x, dict):
                found[name] = keep(x, (*scope, name))
            elif path != site and nodes[path].kind == "latent":
                found[name] = x
        return found

    return keep(values, ())


def with_value(values, site, x):
    scope, _, rest = site.partition(".")
    return {**values, scope: with_value(values.get(scope, {}), rest, x) if rest else x}


QUICK = ["markov_z", "schools_x", "in_scope_part.x", "indexed_z"]


@pytest.mark.quick_rows(*QUICK)
@pytest.mark.parametrize(("case", "site"), COUPLED)
def test_log_probs_differ_from_the_joint_density_by_a_constant(case, site, x64):
    posterior = case.posterior()
    density = ppl.log_density(posterior)

    @jax.jit
    def both(seed):
        values = draw_others(posterior, site, seed)
        found = ppl.conditional(posterior, site)(values)
        draws = found.sample(key(seed + 1), (12,))
        log_probs = found.log_prob(draws)
        log_probs = jnp.sum(log_probs, range(1, log_probs.ndim))
        return log_probs - jax.lax.map(lambda x: density(with_value(values, site, x)), draws)

    constants = both(3)
    assert np.isfinite(constants).all()
    np.testing.assert_allclose(constants, constants[0], rtol=1e-9, atol=1e-9)


def case_of(cases, name):
    return next(case for case in cases if case.name == name)


def test_a_chain_has_normalized_weights_and_joint_draws(x64):
    posterior, num = case_of(SUMS, "markov").posterior(), 20_000

    @jax.jit
    def look():
        values = draw_others(posterior, "z", 3)
        found = ppl.conditional(posterior, "z")(values)
        states = jnp.stack(
            [x.ravel() for x in jnp.meshgrid(*[jnp.arange(2)] * 5, indexing="ij")], 1
        )
        return found.log_prob(states), found.log_prob(states[0] + 5), found.sample(key(0), (num,))

    log_probs, outside, draws = look()
    probs = np.exp(log_probs)
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-12)
    assert outside == -np.inf
    counts = np.bincount(np.asarray(draws) @ (2 ** np.arange(5)[::-1]), minlength=32)

    def excess(probs):
        """Chi-square, as a number of standard deviations from its mean."""
        return (np.sum((counts - num * probs) ** 2 / (num * probs)) - 31) / np.sqrt(62)

    assert excess(probs) < 4.5
    apart = np.ones(())
    for axis in range(5):
        other = tuple(i for i in range(5) if i != axis)
        apart = np.multiply.outer(apart, probs.reshape([2] * 5).sum(other))
    assert excess(apart.ravel()) > 4.5  # right one by one


@pytest.mark.quick_rows("local_level-x")
@pytest.mark.parametrize(("name", "site"), [("local_level", "x"), ("regression", "x")])
def test_normal_sites_have_the_moments_of_the_quadratic_form(name, site, x64):
    posterior = case_of(INTEGRALS, name).posterior()
    density = ppl.log_density(posterior)

    @jax.jit
    def look():
        values = draw_others(posterior, site, 3)
        found = ppl.conditional(posterior, site)(values)
        mean = found.mean()
        precision = -jax.hessian(lambda x: density(with_value(values, site, x)))(mean)
        slope = jax.grad(lambda x: density(with_value(values, site, x)))(mean)
        moments = mean, found.variance(), found.log_prob(mean)
        return moments, found.sample(key(0), 20_000), slope, precision

    (mean, variance, log_prob), draws, slope, precision = look()
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)
    np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-10)
    exact = (np.linalg.slogdet(precision)[1] - len(mean) * np.log(2 * np.pi)) / 2
    np.testing.assert_allclose(log_prob, exact, rtol=1e-10)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert np.abs(white.mean(1)).max() * np.sqrt(20_000) < 4.5
    assert np.abs(white @ white.T / 20_000 - np.eye(len(mean))).max() * np.sqrt(10_000) < 4.5


def unlike(key):
    """Sites without a full conditional that is known."""
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    ppl.sample(key, dist.Bernoulli(logits=slope * np.arange(3.0)), name="hits")
    loc = ppl.sample(key, dist.StudentT(4.0, 0.0, 1.0), name="loc")
    scale = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="scale")
    ppl.sample(key, dist.Normal(loc, scale), name="x")
    shape = ppl.sample(key, dist.Gamma(2.0, 1.0), name="shape")
    ppl.sample(key, dist.Gamma(shape, 1.0), name="t")
    upper = ppl.sample(key, dist.Gamma(2.0, 1.0), name="upper")
    ppl.sample(key, dist.Uniform(0.0, upper), name="u")
    capped = ppl.sample(key, dist.Gamma(2.0, 1.0), name="capped")
    ppl.factor(jnp.where(capped < 1e4, 0.0, -jnp.inf), name="cap")
    weak = ppl.sample(key, dist.Gamma(1e4, 1e4), name="weak")
    ppl.sample(key, dist.Normal(1e-2 * weak, 1.0), name="v")
    pair = ppl.sample(key, dist.Gamma(2.0, np.ones(2)), name="pair")
    ppl.sample(key, dist.Poisson(jnp.prod(pair)), name="n")
    alone = ppl.sample(key, dist.Gamma(2.0, 1.0), name="alone")
    count = ppl.sample(key, dist.Poisson(3.0 * alone), name="count")
    ppl.sample(key, dist.Normal(count, 1.0), name="m")
    ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="partly")


UNLIKE_DATA = {"hits": [0, 1, 1], "x": 0.5, "t": 2.0, "u": 0.3, "v": 0.1, "n": 3, "m": 2.0}
UNLIKE = {
    "slope": 0.0,
    "loc": 0.1,
    "scale": 1.0,
    "shape": 1.5,
    "upper": 1.0,
    "capped": 1.0,
    "weak": 1.0,
    "pair": np.ones(2),
    "alone": 1.0,
    "count": 3,
    "partly": np.zeros(2),
}


@pytest.mark.quick_rows("slope", "loc", "scale", "capped", "alone", "count", "partly")
@pytest.mark.parametrize("site", UNLIKE)
def test_other_sites_have_none(site):
    data = {k: np.asarray(x) for k, x in UNLIKE_DATA.items()}
    posterior = ppl.condition(unlike, {**data, "partly": ppl.impute([np.nan, 5.0])})
    found = ppl.conditional(posterior, site)(UNLIKE)
    assert type(found).__name__ == ("Gamma" if site == "alone" else "NoneType")


@pytest.mark.quick_rows("far")
@pytest.mark.parametrize(
    "prior", [dist.Normal(0.0, 10.0), dist.Normal(1e3, 1.0)], ids=["wide", "far"]
)
def test_values_that_only_priors_give_are_tried(prior):
    """A model that is conjugate below a threshold, near 0, and not above, where its prior is."""

    def model(key, power):
        rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        n = ppl.sample(key, prior, name="n")
        ppl.sample(key, dist.Poisson(jnp.where(n > 3, rate**power, rate)), name="y")

    of_rate = ppl.conditional(ppl.condition(model, {"y": 4}), "rate")
    assert of_rate({"n": 5.0}, 2) is None
    assert type(of_rate({"n": 5.0}, 1)).__name__ == "Gamma"


def test_rounding_under_vague_priors_is_not_another_form():
    """Draws of the effect are huge: what is left of the data beside them has few digits."""

    def model(key):
        effect = ppl.sample(key, dist.Normal(0.0, 1e11), name="effect")
        precision = ppl.sample(key, dist.Gamma(2.0, 1.0), name="precision")
        half = ppl.sample(key, dist.HalfNormal(1.0), name="half")
        ppl.sample(key, dist.Normal(half + effect + np.zeros(3), precision**-0.5), name="y")

    posterior = ppl.condition(model, {"y": X[:3]})
    values = {"effect": 0.5, "precision": 2.0, "half": 1.0}
    names = [type(ppl.conditional(posterior, site)(values)).__name__ for site in values]
    assert names == ["Normal", "Gamma", "TruncatedNormal"]


def test_narrow_densities_far_from_zero_have_their_family():
    """At far values, points of a narrow density differ in their last digits alone."""

    def model(key):
        half = ppl.sample(key, dist.HalfNormal(1.0), name="half")
        ppl.sample(key, dist.Normal(half, 0.01), name="y")

    found = ppl.conditional(ppl.condition(model, {"y": 0.5}), "half")({})
    assert type(found).__name__ == "TruncatedNormal"


def test_draws_at_an_end_of_a_support_refuse_no_family():
    """Draws of such a prior are rounded to 0 or 1, where the binomial has no density."""

    def model(key):
        p = ppl.sample(key, dist.Beta(0.01 * jnp.ones(3), 0.01), name="p")
        ppl.sample(key, dist.Binomial(100_000, probs=p), name="y")

    y = np.array([0, 40_000, 100_000])
    found = ppl.conditional(ppl.condition(model, {"y": y}), "p")({})
    # Parameters are recovered from slopes in float32.
    np.testing.assert_allclose(found.concentration1, y + 0.01, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.concentration0, 100_000.01 - y, rtol=1e-6, atol=1e-6)


BETA_BINOMIAL = dist.BetaBinomial(total_count=6, concentration1=2.0, concentration0=3.0)


@pytest.mark.parametrize(("num", "family"), [(10, "FiniteJointConditional"), (17, "NoneType")])
def test_coupled_elements_with_too_many_states_have_none(num, family):
    """A sum over 2^17 joint states is refused: what says that it can be drawn can be drawn."""

    def together(key):
        z = ppl.sample(key, dist.Bernoulli(probs=np.full(num, 0.5)), name="z")
        ppl.factor(-jnp.square(jnp.sum(z) - 3.0), name="three")

    found = ppl.conditional(together, "z")({})
    assert type(found).__name__ == family


def test_gibbs_draws_have_the_exact_posterior():
    """A latent count, seen with noise, and its probability: a table of seven states."""

    def model(key):
        p = ppl.sample(key, dist.Beta(2.0, 3.0), name="p")
        count = ppl.sample(key, dist.Binomial(6, probs=p), name="count")
        ppl.sample(key, dist.Normal(count, 1.0), name="y")

    posterior = ppl.condition(model, {"y": 4.2})
    of_p, of_count = (ppl.conditional(posterior, site) for site in ("p", "count"))

    def step(values, key):
        first, second = jax.random.split(key)
        values = {**values, "p": of_p(values).sample(first)}
        values = {**values, "count": of_count(values).sample(second)}
        return values, values

    num = 20_000
    start = {"p": jnp.float32(0.5), "count": jnp.int32(3)}
    draws = jax.jit(lambda: jax.lax.scan(step, start, jax.random.split(key(0), num))[1])()
    counts = np.arange(7)
    prior = np.exp(BETA_BINOMIAL.log_prob(counts))
    exact = prior * np.exp(-((4.2 - counts) ** 2) / 2)
    exact /= exact.sum()
    chains = np.asarray(draws["count"]).reshape(100, -1)
    shares = np.mean(chains[:, :, None] == counts, 1)
    error = shares.std(0, ddof=1) / np.sqrt(100)

    def excess(exact):
        """The largest error of the share of a common state, in standard errors."""
        return np.max(np.abs(shares.mean(0) - exact)[2:] / error[2:])

    assert excess(exact) < 4.5
    assert excess(prior) > 4.5
    mean = np.sum(exact * (2 + counts) / 11)
    p = np.asarray(draws["p"]).reshape(100, -1).mean(1)
    assert abs(p.mean() - mean) < 4.5 * p.std(ddof=1) / 10


def test_conditionals_are_mapped_over_values(x64):
    posterior = ppl.condition(conjugate, DATA)
    variances = np.array([0.5, 1.0, 2.0])
    of = lambda site, v: ppl.conditional(posterior, site)({**VALUES, "variance": v})  # noqa: E731
    found = jax.jit(jax.vmap(lambda v: of("mu", v)))(variances)
    assert found.batch_shape == (3,)
    precision = 1 / 4 + 4 / variances + 2 * 0.6
    np.testing.assert_allclose(found.scale, precision**-0.5, rtol=1e-12)
    slope = jax.jit(jax.jacfwd(lambda v: of("mu", v).scale))(2.0)
    np.testing.assert_allclose(slope, precision[2] ** -1.5 / 2, rtol=1e-12)


def test_masks_and_improper_priors_are_taken_for_what_they_are():
    """A traced mask may leave out the data that are not conjugate."""

    def model(key, mask):
        loc = ppl.sample(key, dist.Flat(dist.constraints.real), name="loc")
        rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        other = ppl.sample(key, dist.Gamma(2.0, 1.0), name="other")
        ppl.sample(key, dist.Normal(loc, 1 / jnp.sqrt(rate)), name="x")
        ppl.sample(key, dist.Normal(other, 1.0), name="y")

    @jax.jit
    def of(mask):
        posterior = ppl.condition(model, {"x": 1.0, "y": ppl.ignore(jnp.float32(2.0), mask)})
        values = {"loc": 0.5, "rate": 1.0, "other": 1.0}
        return [ppl.conditional(posterior, site)(values, mask) for site in ("rate", "other")]

    rate, other = of(True)
    np.testing.assert_allclose([rate.concentration, rate.rate], [2.5, 1.125], rtol=1e-5)
    assert other is None


def test_data_that_have_no_draws_decide_for_themselves():
    """An answer holds for the data it was found at; a latent site without draws has any value."""

    def model(key):
        power = ppl.sample(key, dist.Flat(dist.constraints.real), name="power")
        rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        ppl.sample(key, dist.Normal(power * rate, 1 / jnp.sqrt(rate)), name="y")

    of_rate = ppl.conditional(ppl.condition(model, {"y": 1.0}), "rate")
    assert of_rate({"power": 0.0}) is None
    for power in (0.0, 1.0):
        of_rate = ppl.conditional(ppl.condition(model, {"y": 1.0, "power": power}), "rate")
        assert (of_rate({}) is None) == (power == 1.0)


def test_marginalized_models_have_full_conditionals(x64):
    """Of sites that depend on no summed one, or that are left discrete."""

    def model(key):
        rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        ppl.sample(key, dist.Poisson(rate), name="n")
        theta = ppl.sample(key, dist.Normal(0.0, 2.0), name="theta")
        g = ppl.sample(key, dist.Bernoulli(probs=0.3), name="g")
        ppl.sample(key, dist.Normal(theta + g, 1.0), name="y")

    posterior = ppl.condition(model, {"n": 3, "y": 1.7})
    rest = ppl.marginalize(posterior, {"theta": ppl.Gaussian()})
    rate = ppl.conditional(rest, "rate")({"g": 1})
    np.testing.assert_allclose([rate.concentration, rate.rate], [5, 2], rtol=1e-11)
    weights = np.array([0.7, 0.3]) * np.exp(-((1.7 - np.arange(2)) ** 2) / 10)
    g = ppl.conditional(rest, "g")({"rate": 1.0})
    np.testing.assert_allclose(g.probs, weights / weights.sum(), rtol=1e-11)
    assert ppl.conditional(ppl.marginalize(posterior, ["g"]), "theta")({"rate": 1.0}) is None


def test_full_conditionals_are_distributions_of_sites(x64):
    chain = case_of(INTEGRALS, "local_level_from_number").posterior()
    path, states = ppl.conditional(chain, "x")({"scale": 0.7}), at("z")
    model = lambda key: [ppl.sample(key, path, name="a"), ppl.sample(key, states, name="b")]  # noqa: E731
    draws = ppl.simulate(model)(key(0))
    exact = path.log_prob(draws["a"]) + jnp.sum(states.log_prob(draws["b"]))
    np.testing.assert_allclose(ppl.log_density(model)(draws), exact, rtol=1e-12)
