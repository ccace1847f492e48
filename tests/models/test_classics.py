"""The classics of BUGS: densities against SciPy, conjugacy by hand, published posteriors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as st
from scipy.special import expit

import inference
import ppl
from examples.catalogue.bugs import CLASSICS
from inference.results.diagnostics import mcse_mean

EVERY_CLASSIC = pytest.mark.parametrize("classic", CLASSICS.values(), ids=CLASSICS)
VAGUE = st.gamma(1e-3, scale=1e3)


def rats(v, y, age):
    prior = st.norm(0, 100).logpdf([v["alpha_c"], v["beta_c"]])
    precisions = VAGUE.logpdf([v["tau_alpha"], v["tau_beta"], v["tau_c"]])
    alpha = st.norm(v["alpha_c"], v["tau_alpha"] ** -0.5).logpdf(v["alpha"])
    beta = st.norm(v["beta_c"], v["tau_beta"] ** -0.5).logpdf(v["beta"])
    line = np.add.outer(v["alpha"], -22 * np.ones(5)) + 22 + np.outer(v["beta"], age - 22)
    return [prior, precisions, alpha, beta, st.norm(line, v["tau_c"] ** -0.5).logpdf(y["weight"])]


def dyes(v, y):
    batches = st.norm(v["theta"], v["tau_between"] ** -0.5).logpdf(v["mu"])
    samples = st.norm(v["mu"][:, None], v["tau_within"] ** -0.5).logpdf(y["y"])
    precisions = VAGUE.logpdf([v["tau_between"], v["tau_within"]])
    return [st.norm(0, 1e5).logpdf(v["theta"]), precisions, batches, samples]


def equiv(v, y, group):
    """The first group has the treatments in the order 1, 2; the other in the order 2, 1."""
    effects = st.norm(0, 1e3).logpdf([v["mu"], v["phi"], v["pi"]])
    subjects = st.norm(0, v["tau2"] ** -0.5).logpdf(v["delta"])
    treatment = np.where(np.outer(group, [1, -1]) > 0, v["phi"] / 2, -v["phi"] / 2)
    loc = v["mu"] + treatment + np.array([v["pi"], -v["pi"]]) / 2 + v["delta"][:, None]
    seen = st.norm(loc, v["tau1"] ** -0.5).logpdf(y["y"])
    return [effects, VAGUE.logpdf([v["tau1"], v["tau2"]]), subjects, seen]


def pumps(v, y, time):
    prior = [st.expon.logpdf(v["alpha"]), st.gamma.logpdf(v["beta"], 0.1)]
    rates = st.gamma.logpdf(v["theta"], v["alpha"], scale=1 / v["beta"])
    return [prior, rates, st.poisson.logpmf(y["failures"], v["theta"] * time)]


def seeds(v, y, num_seeds, is_other_seed, is_cucumber):
    names = ["alpha0", "alpha1", "alpha2", "alpha12"]
    prior = st.norm(0, 1e3).logpdf([v[name] for name in names])
    design = [np.ones(21), is_other_seed, is_cucumber, is_other_seed * is_cucumber]
    logits = np.array([v[name] for name in names]) @ np.array(design) + v["b"]
    plates = st.norm(0, v["tau"] ** -0.5).logpdf(v["b"])
    seen = st.binom.logpmf(y["germinated"], num_seeds, expit(logits))
    return [prior, VAGUE.logpdf(v["tau"]), plates, seen]


def surgical(v, y, num_operations):
    hospitals = st.norm(v["mu"], v["tau"] ** -0.5).logpdf(v["b"])
    seen = st.binom.logpmf(y["deaths"], num_operations, expit(v["b"]))
    return [st.norm(0, 1e3).logpdf(v["mu"]), VAGUE.logpdf(v["tau"]), hospitals, seen]


def salm(v, y, dose):
    prior = st.norm(0, [100, 100, 1e5]).logpdf([v["alpha_star"], v["beta"], v["gamma"]])
    slopes = np.stack([np.log(dose + 10), dose])
    slopes = slopes - slopes.mean(1, keepdims=True)
    level = v["alpha_star"] + np.array([v["beta"], v["gamma"]]) @ slopes
    plates = st.norm(0, v["tau"] ** -0.5).logpdf(v["plate"])
    seen = st.poisson.logpmf(y["colonies"], np.exp(level[:, None] + v["plate"]))
    return [prior, VAGUE.logpdf(v["tau"]), plates, seen]


def epil(v, y, base, is_treated, age):
    names = ["alpha0", "alpha_base", "alpha_trt", "alpha_bt", "alpha_age", "alpha_v4"]
    prior = st.norm(0, 100).logpdf([v[name] for name in names])
    precisions = VAGUE.logpdf([v["tau_b1"], v["tau_b"]])
    patients = st.norm(0, v["tau_b1"] ** -0.5).logpdf(v["b1"])
    visits = st.norm(0, v["tau_b"] ** -0.5).logpdf(v["b"])
    log_base = np.log(base) - np.log(4)
    design = [np.ones(59), log_base, is_treated, is_treated * log_base, np.log(age)]
    rows = np.array([v[name] for name in names[:5]]) @ np.array(design) + v["b1"]
    log_rate = np.add.outer(rows, v["alpha_v4"] * np.array([0, 0, 0, 1])) + v["b"]
    seen = st.poisson.logpmf(y["seizures"], np.exp(log_rate))
    return [prior, precisions, patients, visits, seen]


def blocker(v, y, num_control, num_treated):
    prior = [st.norm(0, 1e3).logpdf(v["d"]), VAGUE.logpdf(v["tau"])]
    levels = st.norm(0, 1e5**0.5).logpdf(v["mu"])
    effects = st.norm(v["d"], v["tau"] ** -0.5).logpdf([*v["delta"], v["delta_new"]])
    control = st.binom.logpmf(y["control"], num_control, expit(v["mu"]))
    treated = st.binom.logpmf(y["treated"], num_treated, expit(v["mu"] + v["delta"]))
    return [prior, levels, effects, control, treated]


def oxford(v, y, year, num_control, num_cases):
    prior = st.norm(0, 1e3).logpdf([v["alpha"], v["beta1"], v["beta2"], *v["mu"]])
    log_odds_ratio = np.polynomial.Polynomial([v["alpha"], v["beta1"], v["beta2"]])(year)
    log_odds_ratio += v["sigma"] * v["b"] - 22 * v["beta2"]
    control = st.binom.logpmf(y["control"], num_control, expit(v["mu"]))
    cases = st.binom.logpmf(y["cases"], num_cases, expit(v["mu"] + log_odds_ratio))
    return [prior, st.uniform(0, 3).logpdf(v["sigma"]), st.norm.logpdf(v["b"]), control, cases]


def lsat(v, y):
    prior = [*st.norm(0, 100).logpdf(v["alpha"]), st.halfnorm(0, 100).logpdf(v["beta"])]
    chances = expit(np.add.outer(v["beta"] * v["theta"], -v["alpha"]))
    seen = st.bernoulli.logpmf(y["is_right"], chances)
    return [prior, st.norm.logpdf(v["theta"]), seen]


def bones(v, y, child, item, discrimination, thresholds):
    """The chance to pass a threshold is logistic; thresholds above any age are never passed."""
    distance = v["theta"][child, None] - thresholds[item]
    passes = np.where(thresholds[item] < 100, expit(discrimination[item, None] * distance), 0)
    chances = -np.diff(np.pad(passes, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0))))
    seen = np.log(np.take_along_axis(chances, y["grade"][:, None], 1))
    return [st.norm(0, 1e3**0.5).logpdf(v["theta"]), seen]


BY_HAND = (
    rats,
    dyes,
    equiv,
    pumps,
    seeds,
    surgical,
    salm,
    epil,
    blocker,
    oxford,
    lsat,
    bones,
)
DENSITIES = {density.__name__: density for density in BY_HAND}


SMALL = {"gamma": 1e-3, "beta1": 0.1, "beta2": 0.01}  # slopes of doses of 1000, and of years


@EVERY_CLASSIC
def test_density_agrees_with_scipy(classic, x64):
    posterior = ppl.condition(classic.model, classic.observed)
    shapes = ppl.unconstrain(posterior, *classic.args).shapes
    rng = np.random.default_rng(0)
    values = {name: SMALL.get(name, 1) * rng.uniform(0.3, 0.7, x.shape) for (name,), x in shapes}
    exact = DENSITIES[classic.name](values, classic.observed, *classic.args)
    found = jax.jit(ppl.log_density(posterior))(values, *map(jnp.asarray, classic.args))
    np.testing.assert_allclose(found, sum(np.sum(term) for term in exact), rtol=1e-10)


CONJUGATE = {
    "rats": {
        **dict.fromkeys(["alpha_c", "beta_c", "alpha", "beta"], "Normal"),
        **dict.fromkeys(["tau_alpha", "tau_beta", "tau_c"], "Gamma"),
    },
    "dyes": {"theta": "Normal", "mu": "Normal", "tau_between": "Gamma", "tau_within": "Gamma"},
    "equiv": {
        **dict.fromkeys(["mu", "phi", "pi", "delta"], "Normal"),
        **dict.fromkeys(["tau1", "tau2"], "Gamma"),
    },
    "pumps": {"theta": "Gamma", "beta": "Gamma"},
    "seeds": {"tau": "Gamma"},
    "surgical": {"mu": "Normal", "tau": "Gamma"},
    "salm": {"tau": "Gamma"},
    "epil": {"tau_b1": "Gamma", "tau_b": "Gamma"},
    "blocker": {"d": "Normal", "delta_new": "Normal", "tau": "Gamma"},
    "oxford": {},
    "lsat": {},
    "bones": {},
}


@pytest.mark.slow
@EVERY_CLASSIC
def test_conjugate_sites_are_those_of_theory(classic):
    """The full conditionals that Gibbs sampling of these models has in closed form, and no more."""
    posterior = ppl.condition(classic.model, classic.observed)
    target = ppl.unconstrain(posterior, *classic.args)
    values = target.constrain(target.initial(jax.random.key(0)))
    latent = [name for (name,), _ in target.shapes]
    found = {name: ppl.conditional(posterior, name)(values, *classic.args) for name in latent}
    families = {name: type(d).__name__ for name, d in found.items() if d is not None}
    assert families == CONJUGATE[classic.name]


def check_published(classic, result):
    for name, published in classic.published.items():
        draws = np.asarray(result.draws[name], float)
        draws = draws.reshape(*draws.shape[:2], -1)
        means = np.atleast_1d(published.mean)
        sds = np.atleast_1d(published.sd)
        for i, (mean, sd) in enumerate(zip(means, sds, strict=True)):
            bound = 0.15 * sd + mcse_mean(draws[..., i])
            assert abs(draws[..., i].mean() - mean) < bound, (name, i)


@pytest.mark.quick_rows("equiv", "bones")
@EVERY_CLASSIC
def test_nuts_agrees_with_the_published_posterior(classic):
    """Within 0.15 standard deviations, as JAGS tests itself, and the Monte Carlo error."""
    posterior = ppl.condition(classic.model, classic.observed)
    result = inference.mcmc(jax.random.key(0), posterior, *classic.args)
    check_published(classic, result)


@pytest.mark.slow
@EVERY_CLASSIC
def test_gibbs_agrees_with_the_published_posterior(classic):
    """Exact draws of the sites with a full conditional; NUTS moves the others."""
    posterior = ppl.condition(classic.model, classic.observed)
    kernel = inference.Gibbs.auto()
    result = inference.mcmc(jax.random.key(0), posterior, *classic.args, kernel=kernel)
    check_published(classic, result)
