"""Draws: their shapes and dtypes, their law, and which keys give the same ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
from tests.distributions.cases import CASES, Case, over

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
every_case = over(CASES, exhaustive=True)

NUM = 20_000
FAILURE_RATE = 1e-6  # Of each test for a goodness of fit; there are about fifty of them.
draw = jax.jit(lambda d, key: d.sample(key, (NUM,)))


def p_value(draws: np.ndarray, oracle) -> float:
    """Of the Kolmogorov-Smirnov test, or of the chi-squared test for integers."""
    if np.issubdtype(draws.dtype, np.floating):
        return st.kstest(draws.astype(float), oracle.cdf).pvalue
    values = np.arange(draws.min(), draws.max() + 1)
    expected = np.exp(oracle.logpmf(values)) * len(draws)
    observed = np.bincount(draws - draws.min())
    often = expected > 10  # The others, with all that was not drawn, are one more cell.
    expected = np.append(expected[often], len(draws) - expected[often].sum())
    observed = np.append(observed[often], len(draws) - observed[often].sum())
    cells = expected > 1e-6 * len(draws)
    if observed[~cells].sum() > 10:
        return 0.0
    statistic = ((observed - expected) ** 2 / np.where(cells, expected, 1))[cells].sum()
    return st.chi2(max(cells.sum() - 1, 1)).sf(statistic)


def marginals(case: Case, draws: np.ndarray):
    """One-dimensional draws with their laws: all entries of a batch, projections of vectors."""
    oracle = case.truth(np.float32)
    if hasattr(oracle, "marginals"):
        integers = np.issubdtype(draws.dtype, np.integer)
        yield from oracle.marginals(draws if integers else draws.astype(float))
    else:
        for index in np.ndindex(draws.shape[1:]):
            yield draws[(slice(None), *index)], At(oracle, index, draws.shape[1:])


class At:
    """One entry of a batched oracle."""

    def __init__(self, oracle, index, shape):
        self.oracle, self.index, self.ones = oracle, index, (1,) * len(shape)
        self.shape = shape

    def _pick(self, method, x):
        x = np.asarray(x)
        batch = np.broadcast_to(x.reshape(x.size, *self.ones), (x.size, *self.shape))
        return method(batch)[(slice(None), *self.index)].reshape(x.shape)

    def cdf(self, x):
        return self._pick(self.oracle.cdf, x)

    def logpmf(self, x):
        return self._pick(self.oracle.logpmf, x)


# Those made of gamma draws, or of many, take long to compile.
GAMMAS = (
    *("Beta", "Dirichlet", "InverseGamma", "MixtureSameFamily, gammas", "StudentT"),
    *("NegativeBinomial", "ZeroInflated, logits"),
)


@pytest.mark.quick_rows(
    "Exponential",
    "Categorical, logits",
    "TransformedDistribution, Exp",
    "Weibull",
    "Uniform",
    "Laplace",
    "Logistic",
    "Bernoulli, logits",
    "Cauchy",
    "HalfCauchy",
)
@over(CASES, slow=GAMMAS, exhaustive=True)
def test_draws_have_their_law(case: Case):
    d = case.build()
    draws = np.asarray(draw(d, jax.random.key(20)))
    assert draws.shape == (NUM, *d.batch_shape, *d.event_shape)
    assert draws.dtype == d.dtype
    assert np.asarray(d.support.check(jnp.asarray(draws))).all()
    for entry, law in marginals(case, draws):
        assert p_value(entry, law) > FAILURE_RATE
    if d.event_shape and "moments of draws" not in case.excluded:
        assert_moments(d, draws.astype(float))


def assert_moments(d, draws):
    """Within six standard errors (a failure rate of 2e-9 for each number), where there are any."""
    for name, sample in (("mean", draws), ("variance", (draws - draws.mean(0)) ** 2)):
        try:
            moment = np.asarray(getattr(d, name)())
        except NotImplementedError:
            continue
        error = sample.std(0) / np.sqrt(len(sample))
        assert (np.abs(sample.mean(0) - moment) <= 6 * error + 1e-6).all(), name


def test_a_wrong_law_is_seen():
    normal = np.asarray(draw(dist.Normal(0.0, 1.1), jax.random.key(0)))
    assert p_value(normal, st.norm()) < FAILURE_RATE
    poisson = np.asarray(draw(dist.Poisson(3.2), jax.random.key(0)))
    assert p_value(poisson, st.poisson(3)) < FAILURE_RATE


@pytest.mark.slow_rows("Binomial, logits", "Truncated, Normal")
@every_case
def test_keys_and_shapes(case: Case, x64):
    """Every kind of key draws, in every shape; parameters in float64 give draws in float64."""
    d = case.build(float)
    keys = jax.random.key(0), jax.random.PRNGKey(0), jax.random.key(0, impl="rbg")
    for key, sample_shape in zip(keys, ((), 4, (3, 2)), strict=True):
        out = jax.eval_shape(lambda key, shape=sample_shape: d.sample(key, shape), key)
        front = (4,) if sample_shape == 4 else sample_shape
        assert out.shape == front + d.batch_shape + d.event_shape
        assert out.dtype == d.dtype


KEYED = [dist.Normal(0.0, 1.0), dist.Poisson(3.0), dist.Binomial(9, probs=0.5)]


@pytest.mark.slow_rows("Binomial")
@pytest.mark.parametrize("d", KEYED, ids=lambda d: type(d).__name__)
def test_the_kind_of_key(d):
    keys = jax.random.PRNGKey(3), jax.random.key(3), jax.random.key(3, impl="rbg")
    legacy, typed, rbg = (jax.jit(d.sample, static_argnums=1)(key, (8,)) for key in keys)
    assert (legacy == typed).all()
    assert (rbg != typed).any()


def test_mapped_keys_draw_as_each_of_them():
    keys = jax.random.split(jax.random.key(3), 5)
    for d in (dist.Normal(0.0, 1.0), dist.Poisson(3.0)):
        one = jax.jit(d.sample)
        np.testing.assert_allclose(jax.vmap(one)(keys), [one(key) for key in keys], rtol=1e-6)


@over([case for case in CASES if case.moments], exhaustive=True)
def test_moments(case: Case, x64):
    d, oracle = case.build(float), case.truth(float)
    shape = d.batch_shape + d.event_shape
    mean, variance = jax.jit(lambda d: (d.mean(), d.variance()))(d)
    for ours, truth in ((mean, oracle.mean()), (variance, oracle.var())):
        assert ours.shape == shape
        np.testing.assert_allclose(ours, np.broadcast_to(truth, shape), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_draws_at_the_edge_of_the_dtype_stay_inside():
    """Draws that under- or overflow are brought back to where they have a density."""
    tiny = jnp.float32(0.01)
    gammas = dist.Gamma(tiny, 1.0), dist.InverseGamma(tiny, 1.0)
    for d in (*gammas, dist.Beta(tiny, tiny), dist.Dirichlet(jnp.full(3, tiny))):
        draws = draw(d, jax.random.key(0))
        assert d.support.check(draws).all(), d
        assert np.isfinite(jax.jit(d.log_prob)(draws)).all(), d


def test_an_improper_prior_has_no_draws():
    flat = dist.Flat(dist.constraints.positive, (3,))
    for method in (lambda: flat.sample(jax.random.key(0)), flat.mean, flat.variance):
        with pytest.raises(NotImplementedError, match="Flat is improper"):
            method()


@pytest.mark.parametrize("peak", [0.0, 0.3, 1.0])
def test_draws_of_a_triangle_have_slopes(peak):
    """Of draws with a peak at an end, too, where one side is missing."""
    draw = lambda high: dist.Triangular(0.0, high, peak).sample(jax.random.key(0), (9,))  # noqa: E731
    slopes = jax.jacobian(draw)(1.0)
    assert np.isfinite(slopes).all()
    assert (slopes >= 0).all()


MAX = 2**31 - 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: dist.Poisson(3e9),
        lambda: dist.NegativeBinomial(mean=1e12, concentration=2.0),
        lambda: dist.NegativeBinomial(total_count=2.0, probs=1.0),
        lambda: dist.BetaNegativeBinomial(
            total_count=1e10, concentration1=1.0, concentration0=0.01
        ),
        lambda: dist.Geometric(probs=1e-20),
        lambda: dist.Zipf(1.001),
        lambda: dist.DiscreteWeibull(0.9999, 0.05),
        lambda: dist.Binomial(2**33, probs=0.5),
        lambda: dist.Multinomial(2**33, probs=np.full(2, 0.5, np.float32)),
        lambda: dist.iid(dist.Poisson(3e9), 2),
        lambda: dist.Quantized(dist.Normal(1e12, 1.0)),
    ],
)
def test_draws_beyond_integers_are_cut_off_with_a_warning(make):
    with pytest.warns(UserWarning, match=r"\d+ of \d+ draws are cut off at an end of int32"):
        draws = make().sample(jax.random.key(0), (9,))
    assert (draws == MAX).mean() > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda: dist.Normal(0.0, 3e38),
        lambda: dist.Exponential(1e-38),
        lambda: dist.HalfCauchy(loc=0.0, scale=3e38),
        lambda: dist.Cauchy(0.0, 3e38),
        lambda: dist.LogNormal(0.0, 1e3),
        lambda: dist.JohnsonSU(0.0, 1e-3, 0.0, 1.0),
        lambda: dist.iid(dist.Pareto(concentration=1e-3, scale=1.0), 2),
        lambda: dist.MultivariateNormal(np.zeros(2), scale_diag=np.float32([1.0, 3e38])),
        lambda: dist.Joint({"x": dist.Normal(0.0, 1.0), "y": dist.StudentT(1e-2, 0.0, 1.0)}),
    ],
)
def test_draws_beyond_floats_are_cut_off_with_a_warning(make):
    """As numbers that are infinite, or the largest; they are counted where nothing warns, too."""
    d = make()
    with pytest.warns(UserWarning, match=r"of \d+ draws are cut off at an end of float32") as told:
        draws = d.sample(jax.random.key(0), (200,))
    largest = np.finfo(np.float32).max
    num = sum(int((abs(x) >= largest).sum()) for x in jax.tree.leaves(draws))
    assert [int(str(x.message).split()[1]) for x in told] == [num]
    assert jax.jit(d.count_cut_off)(draws) == num


def test_doubles_that_are_cut_off_are_told_what_is_left_to_do(x64):
    with pytest.warns(UserWarning, match="float64, too large for it. Rescale, or bound the param"):
        dist.Normal(0.0, np.float64(1e308)).sample(jax.random.key(0), (99,))


def test_draws_of_nan_are_told_and_constants_are_not():
    def sampler(key, shape, loc):
        return np.nan * jax.random.normal(key, shape)

    d = dist.Custom(lambda x, loc: x, (0.0,), sampler=sampler)
    with pytest.warns(UserWarning, match="Custom: 4 of 4 draws are NaN: a parameter is NaN, or fl"):
        d.sample(jax.random.key(0), (4,))
    for loc in (np.inf, MAX):
        assert dist.Delta(loc).sample(jax.random.key(0)) == loc


def test_counts_that_a_search_does_not_find_are_told():
    """They are one below the support, as those of NaN are."""
    with pytest.warns(UserWarning, match="5 of 9 draws are cut off at an end of int32"):
        draws = dist.Hurdle(dist.Poisson(1e30), probs=0.5).sample(jax.random.key(0), (9,))
    assert np.sum(draws == -1) == 5


@pytest.mark.parametrize("low", [MAX - 2, -MAX - 1])
def test_integers_up_to_the_end_of_the_dtype_are_uniform(low):
    draws = dist.DiscreteUniform(low, low + 2).sample(jax.random.key(0), (600,))
    assert np.bincount(np.asarray(draws) - low).min() > 140


@pytest.mark.parametrize("rates", [(3e9, 3e9), (2e9, 4e9)])
def test_skellam_draws_have_their_law_beyond_integers(rates):
    first, second = (np.float32(rate) for rate in rates)
    draws = dist.Skellam(first, second).sample(jax.random.key(0), (NUM,)).astype(float)
    mean, scale = float(first) - float(second), np.sqrt(float(first) + float(second))
    assert st.kstest(draws, st.norm(mean, scale).cdf).pvalue > FAILURE_RATE


JUMPING = {
    "Wiener": lambda x: dist.Wiener(alpha=1.0, tau=x, beta=0.5, delta=1.0),
    "VonMisesFisher": lambda x: dist.VonMisesFisher(jnp.array([0.6, 0.8]), x),
    "SineBivariateVonMises": lambda x: dist.SineBivariateVonMises(0.0, 0.0, x, x, correlation=0.0),
}


@pytest.mark.parametrize("name", JUMPING)
def test_draws_that_jump_have_no_derivative(name):
    def draw(x, stop):
        d = JUMPING[name](jax.lax.stop_gradient(x) if stop else x)
        return jnp.sum(d.sample(jax.random.key(0)))

    assert not JUMPING[name](0.5).is_reparameterized
    for differentiate in (jax.grad, jax.jacfwd):
        with pytest.raises(NotImplementedError, match=f"{name}: a draw has no derivative"):
            jax.jit(differentiate(draw), static_argnums=1)(0.5, False)
        assert differentiate(draw)(0.5, True) == 0.0
