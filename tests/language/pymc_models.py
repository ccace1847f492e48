"""Models of PyMC, small ones of the kinds that its gallery has."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools():
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        errors = pm.Data("errors", ERRORS, dims="school")
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, errors, observed=EFFECTS, dims="school")
    return model


def radon():
    rng = np.random.default_rng(0)
    county = rng.integers(0, 5, 30)
    coords = {"county": [f"c{i}" for i in range(5)], "house": np.arange(30)}
    with pm.Model(coords=coords) as model:
        floor = pm.Data("floor", rng.integers(0, 2, 30), dims="house")
        sd_a = pm.HalfNormal("sd_a", 1)
        a = pm.Normal("a", pm.Normal("mu_a", 0, 10), sd_a, dims="county")
        b = pm.Normal("b", 0, 1)
        sd = pm.Exponential("sd", 1)
        pm.Normal("level", a[county] + b * floor, sd, observed=rng.normal(size=30), dims="house")
    return model


def logistic():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(25, 2))
    with pm.Model() as model:
        beta = pm.Laplace("beta", 0, 2, shape=2)
        intercept = pm.StudentT("intercept", nu=4, mu=0, sigma=2)
        y = rng.integers(0, 2, 25)
        pm.Bernoulli("y", logit_p=intercept + x @ beta, observed=y)
    return model


def counts():
    rng = np.random.default_rng(2)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 0.5)
        psi = pm.Beta("psi", 2, 2)
        alpha = pm.InverseGamma("alpha", 3, 2)
        y = pm.Data("y_data", rng.poisson(3, 12))
        pm.ZeroInflatedPoisson("y", psi, rate, observed=y)
        pm.NegativeBinomial("z", mu=rate, alpha=alpha, observed=rng.poisson(3, 12))
        pm.Binomial("w", 10, psi, observed=rng.integers(0, 11, 4))
    return model


def gaussian_process():
    x = np.linspace(0, 1, 8)[:, None]
    with pm.Model() as model:
        length = pm.LogNormal("length", -1, 0.5)
        eta = pm.HalfNormal("eta", 1)
        gp = pm.gp.Latent(cov_func=eta**2 * pm.gp.cov.Matern52(1, length))
        f = gp.prior("f", X=x)
        pm.Poisson("y", pt.exp(f), observed=np.arange(8) % 4)
    return model


def mixture():
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(3))
        mu = pm.Normal(
            "mu",
            0,
            5,
            shape=3,
            transform=pm.distributions.transforms.ordered,
            initval=np.array([-1.0, 0.0, 1.0]),
        )
        pm.NormalMixture("y", w, mu, 1.0, observed=rng.normal(size=15))
    return model


def ordered_logistic():
    with pm.Model() as model:
        cutpoints = pm.Normal(
            "cutpoints",
            0,
            2,
            shape=3,
            transform=pm.distributions.transforms.ordered,
            initval=np.array([-1.0, 0.0, 1.0]),
        )
        slope = pm.Normal("slope", 0, 1)
        x = np.linspace(-1, 1, 12)
        pm.OrderedLogistic("y", slope * x, cutpoints, observed=np.arange(12) % 4)
    return model


def categorical():
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.array([1.0, 2.0, 3.0]))
        pm.Categorical("y", p, observed=np.array([0, 2, 1, 2]))
        pm.Multinomial("counts", 6, p, observed=np.array([1, 2, 3]))
    return model


def truncated_and_censored():
    rng = np.random.default_rng(4)
    with pm.Model() as model:
        mu = pm.Uniform("mu", -2, 3)
        sd = pm.TruncatedNormal("sd", 1, 1, lower=0.1)
        low = pm.HalfNormal("low", 1)
        pm.Uniform("between", low, low + mu**2 + 1)
        pm.Censored(
            "c", pm.Normal.dist(mu, sd), None, 1.0, observed=np.minimum(rng.normal(size=9), 1)
        )
        pm.Truncated("t", pm.Normal.dist(mu, sd), 0.0, None, observed=np.abs(rng.normal(size=9)))
        pm.Weibull("w", 1.5, sd, observed=np.abs(rng.normal(size=3)) + 0.1)
    return model


def correlated():
    rng = np.random.default_rng(5)
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.Exponential.dist(1.0))
        mu = pm.MvNormal("mu", np.zeros(3), chol=chol)
        pm.MvNormal("y", mu, chol=chol, observed=rng.normal(size=(6, 3)))
    return model


def random_walk():
    rng = np.random.default_rng(6)
    with pm.Model() as model:
        step = pm.HalfStudentT("step", 3, 1)
        walk = pm.GaussianRandomWalk("walk", 0, step, init_dist=pm.Normal.dist(0, 1), shape=10)
        zero = pm.ZeroSumNormal("zero", 1, shape=4)
        pm.Normal("y", walk + zero[0], 0.5, observed=rng.normal(size=10))
    return model


def autoregression():
    rng = np.random.default_rng(7)
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 0.5, shape=2)
        sd = pm.HalfNormal("sd", 1)
        pm.AR(
            "y",
            rho,
            sd,
            constant=True,
            init_dist=pm.Normal.dist(0, 1),
            observed=rng.normal(size=12),
        )
    return model


def potential_and_gaps():
    data = np.array([1.0, np.nan, 2.0, 0.5])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=data)
        pm.Potential("tilt", -0.5 * mu**4)
        pm.VonMises("angle", 0, 2)
        pm.Flat("flat")
        pm.Kumaraswamy("k", 2, 3)
    return model


def line():
    with pm.Model() as model:
        x = pm.Data("x", np.arange(4.0))
        y = pm.Data("y_data", np.arange(4.0))
        pm.Normal("y", pm.Normal("slope", 0, 5) * x, 1e-3, observed=y, shape=x.shape)
    return model


def families():
    """Families that PyTensor cannot draw from by itself, 400 of each."""
    with pm.Model() as model:
        pm.HalfNormal("half_normal", 2, shape=400)
        pm.LogNormal("log_normal", 0.3, 0.7, shape=400)
        pm.InverseGamma("inverse_gamma", 3, 2, shape=400)
        pm.Weibull("weibull", 1.5, 2, shape=400)
        pm.Wald("wald", mu=1.5, lam=2, alpha=0.3, shape=400)
        pm.Moyal("moyal", 0.3, 2, shape=400)
        pm.Rice("rice", nu=1.3, sigma=2, shape=400)
        pm.Triangular("triangular", lower=-1, c=0.5, upper=3, shape=400)
        pm.TruncatedNormal("truncated_normal", 1, 2, lower=0, upper=2.5, shape=400)
        pm.SkewNormal("skew_normal", mu=1, sigma=2, alpha=3, shape=400)
        pm.VonMises("von_mises", 1, 2, shape=400)
        pm.Categorical("categorical", [0.1, 0.2, 0.7], shape=400)
        pm.Geometric("geometric", 0.3, shape=400)
        pm.Binomial("binomial", 7, 0.3, shape=400)
        pm.NegativeBinomial("negative_binomial", mu=3, alpha=1.5, shape=400)
        pm.BetaBinomial("beta_binomial", alpha=1.5, beta=2, n=7, shape=400)
    return model


def labels_of_two():
    with pm.Model() as model:
        p = pm.Beta("p", 2, 2)
        z = pm.Bernoulli("z", p, shape=3)
        pm.Normal("y", pt.as_tensor([-1.0, 2.0])[z], 1, observed=[0.0, 1.0, 3.0])
    return model


def marbles():
    with pm.Model() as model:
        pm.HyperGeometric("n", 20, 7, 5)
    return model


MODELS = {
    f.__name__: f
    for f in (
        eight_schools,
        radon,
        logistic,
        counts,
        gaussian_process,
        mixture,
        ordered_logistic,
        categorical,
        truncated_and_censored,
        correlated,
        random_walk,
        autoregression,
        potential_and_gaps,
        line,
    )
}
