"""Counts at extremes: against mpmath where terms of textbook formulas cancel, and at the limits."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import distributions as dist

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
MOST = 2**31 - 1
mpmath.mp.dps = 60


def log_factorial(n):
    return mpmath.loggamma(mpmath.mpf(n) + 1)


def log_choose(n, k):
    return log_factorial(n) - log_factorial(k) - log_factorial(mpmath.mpf(n) - k)


def binomial(k, n, p):
    p = mpmath.mpf(p)
    return log_choose(n, k) + k * mpmath.log(p) + (n - k) * mpmath.log1p(-p)


def binomial_logits(k, n, logits):
    logits = mpmath.mpf(logits)
    return log_choose(n, k) + k * logits - n * mpmath.log1p(mpmath.exp(logits))


def negative_binomial(k, r, mean):
    r, mean = mpmath.mpf(r), mpmath.mpf(mean)
    rising = mpmath.loggamma(k + r) - mpmath.loggamma(r) - log_factorial(k)
    return rising + k * mpmath.log(mean / (mean + r)) - r * mpmath.log1p(mean / r)


def poisson(k, rate):
    return k * mpmath.log(rate) - rate - log_factorial(k)


def rising(k, a):
    return mpmath.loggamma(mpmath.mpf(a) + k) - mpmath.loggamma(a) - log_factorial(k)


def beta_binomial(k, n, a, b):
    return rising(k, a) + rising(n - k, b) - rising(n, mpmath.mpf(a) + b)


def hypergeometric(k, n, a, b):
    return log_choose(a, k) + log_choose(b, n - k) - log_choose(a + b, n)


def multinomial(k, p):
    total = log_factorial(sum(k)) - sum(map(log_factorial, k))
    return total + sum(i * mpmath.log(q) for i, q in zip(k, p, strict=True))


def skellam(k, a, b):
    root = 2 * mpmath.sqrt(mpmath.mpf(a) * b)
    ratio = mpmath.log(mpmath.mpf(a) / b)
    bessel = mpmath.besseli(abs(k), root, maxterms=10**6)
    return -mpmath.mpf(a) - b + k * ratio / 2 + mpmath.log(bessel)


def logistic_level(a, b, loc):
    one = lambda x: 1 / (1 + mpmath.exp(mpmath.mpf(loc) - x))  # noqa: E731
    return mpmath.log(one(mpmath.mpf(b)) - one(mpmath.mpf(a)))


HALF = MOST // 2
EXTREMES = {
    "Binomial, most": (dist.Binomial(MOST, probs=0.5), HALF + 30_000, binomial, (MOST, 0.5)),
    "Binomial, logits, most": (
        dist.Binomial(MOST, logits=-1.5),
        390_000_000,
        binomial_logits,
        (MOST, -1.5),
    ),
    "Binomial, but one": (
        dist.Binomial(MOST, probs=0.999),
        MOST - 1,
        binomial,
        (MOST, 0.999),
    ),
    "Binomial, rare": (dist.Binomial(MOST, probs=1e-30), 2, binomial, (MOST, 1e-30)),
    "Binomial, far": (dist.Binomial(50, logits=1e4), 3, binomial_logits, (50, 1e4)),
    "Binomial, far below": (dist.Binomial(50, logits=-1e4), 3, binomial_logits, (50, -1e4)),
    "Poisson, many": (dist.Poisson(2e9), 2_000_050_000, poisson, (2e9,)),
    "Poisson, log": (
        dist.Poisson(log_rate=21.0),
        1_318_800_000,
        lambda k, x: poisson(k, mpmath.exp(x)),
        (21,),
    ),
    "Poisson, rare": (dist.Poisson(1e-30), 3, poisson, (1e-30,)),
    "NegativeBinomial, near to a Poisson": (
        dist.NegativeBinomial(mean=30.0, concentration=1e10),
        37,
        lambda k, mean, r: negative_binomial(k, r, mean),
        (30.0, 1e10),
    ),
    "NegativeBinomial, as good as a Poisson": (
        dist.NegativeBinomial(mean=30.0, concentration=1e30),
        0,
        lambda k, mean, r: negative_binomial(k, r, mean),
        (30.0, 1e30),
    ),
    "NegativeBinomial, all but nothing": (
        dist.NegativeBinomial(mean=30.0, concentration=1e-30),
        3,
        lambda k, mean, r: negative_binomial(k, r, mean),
        (30.0, 1e-30),
    ),
    "NegativeBinomial, many": (
        dist.NegativeBinomial(mean=2e9, concentration=1e6),
        2_001_000_000,
        lambda k, mean, r: negative_binomial(k, r, mean),
        (2e9, 1e6),
    ),
    "NegativeBinomial, few": (
        dist.NegativeBinomial(mean=1e-30, concentration=2.0),
        3,
        lambda k, mean, r: negative_binomial(k, r, mean),
        (1e-30, 2.0),
    ),
    "BetaBinomial, near to a binomial": (
        dist.BetaBinomial(total_count=50, concentration1=1e10, concentration0=3e10),
        12,
        beta_binomial,
        (50, 1e10, 3e10),
    ),
    "BetaBinomial, most": (
        dist.BetaBinomial(total_count=MOST, concentration1=2.5, concentration0=4.0),
        HALF,
        beta_binomial,
        (MOST, 2.5, 4.0),
    ),
    "Hypergeometric, many": (
        dist.Hypergeometric(total_count=10**6, num_successes=10**9, num_failures=10**9),
        501_000,
        hypergeometric,
        (10**6, 10**9, 10**9),
    ),
    "Multinomial, many": (
        dist.Multinomial(10**9, probs=np.array([0.25, 0.75])),
        np.array([250_010_000, 749_990_000]),
        lambda k, p: multinomial([int(i) for i in k], p),
        ((0.25, 0.75),),
    ),
    "Skellam, many": (dist.Skellam(1e4, 2e4), -10_100, skellam, (1e4, 2e4)),
    "Skellam, rare": (dist.Skellam(1e-20, 1e-30), 2, skellam, (1e-20, 1e-30)),
    "OrderedLogistic, far": (
        dist.OrderedLogistic(cutpoints=np.array([-1.0, 1.0]), loc=400.0),
        1,
        lambda k, *p: logistic_level(*p),
        (-1.0, 1.0, 400.0),
    ),
    "OrderedLogistic, of twenty levels": (
        dist.OrderedLogistic(cutpoints=np.arange(19.0), loc=3.0),
        12,
        lambda k, *p: logistic_level(*p),
        (11.0, 12.0, 3.0),
    ),
    "OrderedLogistic, narrow": (
        dist.OrderedLogistic(cutpoints=np.array([1.0, 1.0 + 2.0**-40]), loc=3.0),
        1,
        lambda k, *p: logistic_level(*p),
        (1.0, 1.0 + 2.0**-40, 3.0),
    ),
}


@pytest.mark.slow_rows("Skellam, many", "Multinomial, many", "OrderedLogistic, far")
@pytest.mark.parametrize("name", EXTREMES)
def test_no_terms_cancel(name, x64):
    """To 1e-10 of the log mass, or of 1 where that is less, with finite derivatives."""
    d, value, formula, parameters = EXTREMES[name]
    truth = float(formula(value if np.ndim(value) else mpmath.mpf(value), *parameters))
    score = lambda d: d.log_prob(value)  # noqa: E731
    np.testing.assert_allclose(score(d), truth, rtol=1e-10, atol=1e-10)
    assert all(np.isfinite(g).all() for g in floats(jax.grad(score, allow_int=True)(d)))


def floats(tree):
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]


LIMITS = {
    "Binomial, never": (dist.Binomial(5, probs=0.0), [0, 1, 5], [0, -np.inf, -np.inf]),
    "Binomial, always": (dist.Binomial(5, probs=1.0), [5, 4, 0], [0, -np.inf, -np.inf]),
    "Binomial, of none": (dist.Binomial(0, probs=1.0), [0, 1], [0, -np.inf]),
    "Binomial, of none, logits": (dist.Binomial(0, logits=3.0), [0, 1], [0, -np.inf]),
    "Geometric, always": (dist.Geometric(probs=1.0), [0, 1], [0, -np.inf]),
    "Geometric, never": (dist.Geometric(probs=0.0), [0, 9], [-np.inf, -np.inf]),
    "Poisson, never": (dist.Poisson(0.0), [0, 1], [0, -np.inf]),
    "NegativeBinomial, never": (
        dist.NegativeBinomial(total_count=2.0, probs=0.0),
        [0, 1],
        [0, -np.inf],
    ),
    "NegativeBinomial, always": (
        dist.NegativeBinomial(total_count=2.0, probs=1.0),
        [0, 9],
        [-np.inf] * 2,
    ),
    "Hypergeometric, all": (
        dist.Hypergeometric(total_count=7, num_successes=3, num_failures=4),
        [3, 2],
        [0, -np.inf],
    ),
    "Hypergeometric, none": (
        dist.Hypergeometric(total_count=0, num_successes=3, num_failures=4),
        [0, 1],
        [0, -np.inf],
    ),
    "BetaBinomial, of none": (
        dist.BetaBinomial(total_count=0, concentration1=2.0, concentration0=3.0),
        [0, 1],
        [0, -np.inf],
    ),
    "ZeroInflated, by the gate": (
        dist.ZeroInflated(dist.Poisson(2.0), probs=1.0),
        [0, 1],
        [0, -np.inf],
    ),
    "ZeroInflated, by counts": (
        dist.ZeroInflated(dist.Poisson(200.0), probs=0.0),
        [0, -1],
        [-200, -np.inf],
    ),
    "ZeroInflated, never 0": (dist.ZeroInflated(dist.Zipf(3.0), probs=0.5), [0], [np.log(0.5)]),
    "Hurdle, by the gate": (dist.Hurdle(dist.Poisson(2.0), probs=1.0), [0, 1], [0, -np.inf]),
    "PoissonBinomial, of what is sure": (
        dist.PoissonBinomial(probs=np.array([1.0, 0.0, 0.5])),
        [0, 1, 2, 3],
        [-np.inf, np.log(0.5), np.log(0.5), -np.inf],
    ),
    "Hurdle, never 0": (
        dist.Hurdle(dist.Weibull(concentration=0.5, scale=1.0), probs=0.0),
        [0.0, 1.0],
        [-np.inf, np.log(0.5) - 1],
    ),
    "Hurdle, always 0": (
        dist.Hurdle(dist.Weibull(concentration=0.5, scale=1.0), probs=1.0),
        [0.0, 1.0],
        [0, -np.inf],
    ),
    "Hurdle, of rare counts": (
        dist.Hurdle(dist.Poisson(1e-30), probs=0.0),
        [0, 1],
        [-np.inf, 0],
    ),
}


@pytest.mark.quick_rows(
    "Binomial, always", "Poisson, never", "Hurdle, always 0", "Geometric, never"
)
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    """Probabilities 0 and 1: values, and derivatives that are numbers."""
    d, values, expected = LIMITS[name]
    score = lambda d: d.log_prob(np.array(values))  # noqa: E731
    np.testing.assert_allclose(score(d), expected, rtol=1e-6, atol=1e-6)
    for i in range(len(values)):
        gradients = jax.grad(lambda d, i=i: score(d)[i], allow_int=True)(d)
        assert all(np.isfinite(g).all() for g in floats(gradients))


def test_the_derivative_where_a_gate_opens(x64):
    """In the probability of 0 by the gate: `1 / f(0) - 1` at 0."""
    score = lambda g: dist.ZeroInflated(dist.Poisson(2.0), probs=g).log_prob(0)  # noqa: E731
    np.testing.assert_allclose(jax.grad(score)(0.0), np.expm1(2.0), rtol=1e-12)


def test_large_integers_are_subtracted_exactly():
    """In float32, too: 3 failures of so many that the dtype has gaps of 2."""
    n = 2**24 + 2
    d = dist.Binomial(n, logits=15.0)
    truth = float(binomial_logits(n - 3, n, 15.0))
    np.testing.assert_allclose(d.log_prob(n - 3), truth, rtol=1e-5)
    assert dist.DiscreteUniform(0, 2**24 + 1).log_prob(2**24 + 2) == -np.inf


def test_the_mean_of_negative_binomial_is_parameter_and_method(x64):
    d = dist.NegativeBinomial(mean=2.0, concentration=np.array([1.0, 4.0]))
    np.testing.assert_allclose(d.mean(), [2, 2])
    assert repr(d) == "NegativeBinomial(mean=2.0, concentration=float64[2])"
    score = lambda mean: type(d)(mean=mean, concentration=1.0).log_prob(3)  # noqa: E731
    np.testing.assert_allclose(jax.grad(score)(2.0), 3 / 2 - 4 / 3, rtol=1e-12)


HURDLES = {
    "by the quantile": dist.Hurdle(dist.Poisson(0.5), probs=0.25),
    "by rejection": dist.Hurdle(
        dist.BetaBinomial(total_count=5, concentration1=1.0, concentration0=3.0), probs=0.25
    ),
}


@pytest.mark.parametrize(
    "name", ["by the quantile", pytest.param("by rejection", marks=pytest.mark.slow)]
)
def test_draws_over_a_hurdle(name):
    """Frequencies within five standard errors: a failure rate of 1e-5 in all."""
    d = HURDLES[name]
    draws = np.asarray(jax.jit(d.sample, static_argnums=1)(jax.random.key(0), (20_000,)))
    values = np.arange(6)
    probs = np.exp(np.asarray(d.log_prob(values)))
    frequencies = (draws[:, None] == values).mean(0)
    assert (np.abs(frequencies - probs) <= 5 * np.sqrt(probs * (1 - probs) / 20_000) + 1e-4).all()
    assert (draws == 0).any()


def test_gated_distributions_of_what_is_no_count():
    mistakes = {
        "ZeroInflated: distribution must be one of integers; got Normal": (
            lambda: dist.ZeroInflated(dist.Normal(0.0, 1.0), probs=0.5)
        ),
        "Hurdle: distribution must be one of nonnegative integers or positive numbers; got Skel": (
            lambda: dist.Hurdle(dist.Skellam(1.0, 1.0), probs=0.5)
        ),
        "ZeroInflated: give exactly one of logits, probs": (
            lambda: dist.ZeroInflated(dist.Poisson(1.0))
        ),
        r"Hurdle: the batch shapes \(2,\) of the gate and \(3,\) of the dist": (
            lambda: dist.Hurdle(dist.Poisson(np.ones(3)), probs=np.ones(2))
        ),
        "NegativeBinomial: give exactly one of total_count with logits, total_count with probs": (
            lambda: dist.NegativeBinomial(total_count=2.0, mean=1.0)
        ),
    }
    for message, make in mistakes.items():
        with pytest.raises(ValueError, match=message):
            make()
