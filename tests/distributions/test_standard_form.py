"""Standard forms: a draw as a function of a standard variable, by the change of variables."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions.core.standard_form import ImageOf, LocationScale
from tests.distributions.cases import CASES, Case, over


def rule_of(case: Case) -> Any:
    """The rule of a family in the table, or None."""
    return getattr(getattr(getattr(dist, case.family), "_row", None), "standard", None)


BY_METHOD = ("GaussianRandomWalk", "KroneckerNormal")
FORMS = [
    case
    for case in CASES
    if (rule_of(case) or case.family in BY_METHOD) and not case.name.endswith("with noise")
]
NORMAL = dist.Normal(0.0, 1.0)

# Families of floating numbers and arrays without a form, and why.
LEFT = {
    "a shape alone": "Chi Chi2 NoncentralChi2 Wiener",
    "an interval, for which positions do not depend on the ends": (
        "Bates Beta BetaProportion ContinuousBernoulli DoublyTruncatedPowerLaw Kumaraswamy "
        "LogUniform PERT RelaxedBernoulli Triangular Uniform VonMises"
    ),
    "an end that may be infinite, and then has no slope": "TruncatedNormal",
    "a simplex, sphere, torus or set of correlations": (
        "Dirichlet LKJ LKJCholesky PowerSpherical ProjectedNormal RelaxedOneHotCategorical "
        "SineBivariateVonMises SphericalUniform StickBreakingWeights VonMisesFisher"
    ),
    "made of others": (
        "Censored Custom Delta Flat Hurdle IntervalCensored Masked Mixture MixtureSameFamily "
        "Quantized TransformedDistribution Truncated Independent iid ZeroInflated"
    ),
}


def test_every_family_has_a_form_or_a_reason():
    continuous = {case.family for case in CASES if not case.build().support.is_discrete}
    with_form = {case.family for case in FORMS}
    left = set(" ".join(LEFT.values()).split())
    assert continuous - with_form <= left
    assert not with_form & left
    for name in continuous & left:
        (case, *_) = [case for case in CASES if case.family == name]
        assert not case.build().has_standard_form
        with pytest.raises(NotImplementedError, match="no location and scale"):
            case.build().standard_form()


@pytest.mark.parametrize("weight", [None, 0.3])
@over(FORMS)
def test_density_and_round_trip(case: Case, weight, x64):
    d = case.build(np.float64)
    if weight is not None and not is_by_weight(case):
        with pytest.raises(NotImplementedError, match="no partial centering"):
            d.standard_form(weight)
        return
    values = jnp.asarray(case.values(np.float64))

    @jax.jit
    @jax.vmap
    def both(x: Any) -> Any:
        base, forward, inverse = d.standard_form(weight)
        z = inverse(x)
        by = dist.bijectors.Identity() if base is None else base.bijector
        position = by.inverse(z)
        move = lambda u: d.bijector.inverse(forward(by.forward(u)))  # noqa: E731
        jacobian = jax.jacfwd(move)(position).reshape(position.size, position.size)
        log_det = jnp.linalg.slogdet(jacobian)[1]
        log_base = NORMAL.log_prob(z) if base is None else base.log_prob(z)
        ours = log_base.sum() + jnp.sum(by.forward_log_det_jacobian(position)) - log_det
        there = d.log_prob(x).sum() + jnp.sum(
            d.bijector.forward_log_det_jacobian(d.bijector.inverse(x))
        )
        return ours, there, forward(z), forward(inverse(forward(z)))

    ours, expected, back, again = both(values)
    np.testing.assert_allclose(back, values, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(again, values, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


@over(FORMS)
def test_dtypes_and_parameters_under_vmap(case: Case):
    """Single precision stays, and the form is one of the pytree of parameters."""
    d = case.build(np.float32)
    x = jnp.asarray(case.values(np.float32))[0]
    stacked = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 3), d)

    def back(d: Any, x: Any) -> Any:
        base, forward, inverse = d.standard_form()
        z = inverse(x)
        score = NORMAL.log_prob(z) if base is None else base.log_prob(z)
        return forward(z), z, score

    for result in jax.eval_shape(jax.vmap(back, (0, None)), stacked, x):
        assert (result.dtype, result.shape[0]) == (jnp.float32, 3)


def test_the_level_of_each_part_of_a_graph_stays(x64):
    """ICAR has no law for the level: its density is that of deviations alone."""
    graph = np.zeros((5, 5))
    for i, j in ((0, 1), (1, 2), (3, 4)):
        graph[i, j] = graph[j, i] = 1 + i
    x = jnp.array([1.0, 2.0, 4.0, -1.0, 0.5])

    @jax.jit
    def both(graph: Any, scale: Any) -> Any:
        d = dist.ICAR(scale=scale, adj_matrix=graph)
        base, forward, inverse = d.standard_form()
        z = inverse(x)
        log_det = jnp.linalg.slogdet(jax.jacfwd(forward)(z))[1]
        return base.log_prob(z) - log_det, d.log_prob(x), z, forward(z), log_det

    for known in (True, False):
        of_scale = jax.jit(lambda scale: both(graph, scale)) if known else lambda s: both(graph, s)
        ours, expected, z, back, log_det = of_scale(0.3)
        np.testing.assert_allclose(ours, expected, rtol=1e-12)
        np.testing.assert_allclose(back, x, rtol=1e-12)
        np.testing.assert_allclose(log_det, 3 * np.log(0.3), rtol=1e-12)
        np.testing.assert_allclose([z[:3].mean(), z[3:].mean()], [7 / 3, -0.25], rtol=1e-12)


def test_a_walk_begins_with_the_form_of_its_first_entry(x64):
    walk = dist.GaussianRandomWalk(0.5, 3, dist.Normal(10.0, 2.0))
    base, forward, _ = walk.standard_form()
    np.testing.assert_allclose(forward(jnp.array([1.0, 2.0, -1.0])), [12.0, 13.0, 12.5])
    np.testing.assert_allclose(base.log_prob(jnp.ones(3)), 3 * NORMAL.log_prob(1.0), rtol=1e-12)
    own = dist.GaussianRandomWalk(0.5, 3, dist.Uniform(0.0, 4.0)).standard_form()
    np.testing.assert_allclose(own.forward(jnp.array([1.0, 2.0, -1.0])), [1.0, 2.0, 1.5])
    draws = base.sample(jax.random.key(0), 2000)
    np.testing.assert_allclose(np.cov(draws.T), np.eye(3), atol=5 * np.sqrt(2 / 2000))


def test_noise_leaves_a_kronecker_product_without_a_form():
    noisy = dist.KroneckerNormal(0.0, scale_trils=(jnp.eye(2),), noise_scale=0.1)
    assert not noisy.has_standard_form
    with pytest.raises(NotImplementedError, match="KroneckerNormal has no factor"):
        noisy.standard_form()


def test_low_rank_of_large_entries_has_a_form(x64):
    """A factor whose squares are large beside the diagonal, with two columns that are equal."""
    w = jnp.array([[1e2, 1e2, 0.0], [2e2, 2e2, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    v = jnp.array([1.0, 2.0, 0.5, 1e-3])
    d = dist.MultivariateNormal(0.0, cov_factor=w, cov_diag=v)
    root = jax.jacfwd(d.standard_form().forward)(jnp.zeros(4))
    exact = np.asarray(w) @ np.asarray(w).T + np.diag(v)
    np.testing.assert_allclose(root @ root.T, exact, rtol=1e-9, atol=1e-9)


def is_by_weight(case: Case) -> bool:
    """Whether a family has a form for any weight."""
    return isinstance(rule_of(case), LocationScale | ImageOf)


@pytest.mark.parametrize("name", ["LogNormal", "LogitNormal", "LogLogistic"])
def test_images_of_mapped_parameters_have_a_form(name):
    """Parameters of different rank that `vmap` returns: their alignment is no parameter."""
    make = lambda loc, scale: getattr(dist, name)(loc=loc * jnp.ones(2), scale=scale)  # noqa: E731
    d = jax.vmap(make)(jnp.arange(3.0), jnp.ones(3))
    _, forward, inverse = d.standard_form()
    z = jnp.ones((3, 2))
    np.testing.assert_allclose(inverse(forward(z)), z, rtol=1e-5)
