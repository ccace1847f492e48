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

X = np.array([0.3, -1.0, 2.0, 1.2])
COUNTS = np.array([4, 2, 3])


def conjugate(key):
    """A site for each family, with data that share some of them."""
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


@pytest.mark.quick_rows("rate", "weights", "mu")
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
    return [pytest.param(case, site, id=f"{case.name}_{site}") for case in cases for site in sites(case)]


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


QUICK = ["batch_z", "markov_z", "local_level_x", "schools_x", "in_scope_part.x", "indexed_z"]


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
