"""reparam: the same densities and draws in other coordinates, by the determinant and by hand."""

# ruff: noqa: E501

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

from .checks import assert_close, check_determinant
from .programs import EFFECTS, SIGMA, eight_schools

tfd = tfp.distributions
KEY = key(5)
POSITION = {"scale": jnp.float32(-0.3), "x": jnp.array([0.5, -1.0, 2.0])}
NON_CENTERED, HALF = ppl.NonCentered(), ppl.PartiallyCentered(0.3)
NORMAL = stats.norm.logpdf


def one(make: Any) -> Any:
    """A site whose distribution depends on two others."""

    def model(key: Any) -> Any:
        loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
        scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
        return ppl.sample(key, make(loc, scale), name="x")

    return model


def mapped(key: Any) -> Any:
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    site = lambda key, loc: ppl.sample(key, dist.Normal(loc, scale), name="x")  # noqa: E731
    return jax.vmap(site)(split(key, 3), jnp.arange(3.0))


def walk(key: Any) -> Any:
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def step(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(x, scale), name="x")
        return x, x

    return lax.scan(step, 0.0, split(key, 4))[1]


def in_cond(key: Any) -> Any:
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    branch = lambda scale: lambda: ppl.sample(key, dist.Normal(z, scale), name="x")  # noqa: E731
    return lax.cond(z > 0, branch(2.0), branch(3.0))


def by_square(d: Any) -> Any:
    return ppl.Pushforward(
        dist.HalfNormal(1.0), lambda z: z**2 / (2 * d.rate), lambda x: jnp.sqrt(2 * d.rate * x)
    )


COVARIANCE = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
TRIL = np.linalg.cholesky(COVARIANCE)
FAMILIES = {
    "normal": lambda loc, scale: dist.Normal(loc, scale * jnp.ones(2)),
    "student-t": lambda loc, scale: dist.StudentT(3.0, loc, scale),
    "cauchy": lambda loc, scale: dist.Cauchy(loc * jnp.ones(2), scale),
    "laplace": lambda loc, scale: dist.Laplace(loc, scale),
    "half-cauchy": lambda loc, scale: dist.HalfCauchy(loc, scale),
    "half-student-t": lambda loc, scale: dist.HalfStudentT(3.0, loc=loc, scale=scale),
    "half-normal": lambda loc, scale: dist.HalfNormal(scale),
    "exponential": lambda loc, scale: dist.Exponential(scale),
    "gamma": lambda loc, scale: dist.Gamma(2.5, scale),
    "inverse-gamma": lambda loc, scale: dist.InverseGamma(2.5, scale),
    "log-normal": lambda loc, scale: dist.LogNormal(loc, scale),
    "tfp-normal": lambda loc, scale: tfd.Normal(loc, scale),
    "tfp-gumbel": lambda loc, scale: tfd.Gumbel(loc, scale),
    "tfp-johnson-su": lambda loc, scale: tfd.JohnsonSU(0.5, 2.0, loc, scale),
    "tfp-sinh-arcsinh": lambda loc, scale: tfd.SinhArcsinh(loc, scale, 0.5, 1.5),
    "tfp-gev": lambda loc, scale: tfd.GeneralizedExtremeValue(loc, scale, 0.3),
    "tfp-gpd": lambda loc, scale: tfd.GeneralizedPareto(loc, scale, 0.3),
    "tfp-moyal": lambda loc, scale: tfd.Moyal(loc, scale),
    "tfp-two-piece": lambda loc, scale: tfd.TwoPieceNormal(loc, scale, 1.5),
    "tfp-two-piece-t": lambda loc, scale: tfd.TwoPieceStudentT(4.0, loc, scale, 1.5),
    "tfp-generalized-normal": lambda loc, scale: tfd.GeneralizedNormal(loc, scale, 1.5),
    "tfp-maxwell": lambda loc, scale: tfd.DoublesidedMaxwell(loc, scale),
    "tfp-horseshoe": lambda loc, scale: tfd.Horseshoe(scale),
    "tfp-logit-normal": lambda loc, scale: tfd.LogitNormal(loc, scale),
    "tfp-weibull": lambda loc, scale: tfd.Weibull(1.5, scale),
}
VECTORS = {
    "covariance": lambda loc, scale: dist.MultivariateNormal(
        loc, covariance=scale * jnp.asarray(COVARIANCE)
    ),
    "precision": lambda loc, scale: dist.MultivariateNormal(
        loc, precision=scale * jnp.asarray(COVARIANCE)
    ),
    "scale-tril": lambda loc, scale: dist.MultivariateNormal(
        loc * jnp.ones((2, 3)), scale_tril=scale * TRIL
    ),
    "tfp-tril": lambda loc, scale: tfd.MultivariateNormalTriL(loc * jnp.ones(3), scale * TRIL),
    "tfp-diag": lambda loc, scale: tfd.MultivariateNormalDiag(
        loc * jnp.ones(3), scale * jnp.ones(3)
    ),
}
PARTS = {
    "iid": lambda loc, scale: dist.iid(dist.Normal(loc, scale), 3),
    "iid-batch": lambda loc, scale: dist.iid(dist.Normal(loc * jnp.arange(3.0), scale), (2, 2)),
    "iid-log-normal": lambda loc, scale: dist.iid(dist.LogNormal(loc + jnp.arange(2.0), scale), 3),
    "independent": lambda loc, scale: dist.Independent(dist.Normal(loc * jnp.ones(2), scale), 1),
    "iid-independent": lambda loc, scale: dist.iid(
        dist.Independent(dist.Gamma(2.0, scale * jnp.arange(1.0, 3.0)), 1), 2
    ),
}
IID_VECTORS = lambda loc, scale: dist.iid(VECTORS["scale-tril"](loc, scale), 4)  # noqa: E731
ROWS = (
    {f"{name}-non-centered": (one(make), {"x": NON_CENTERED}) for name, make in (FAMILIES | VECTORS).items()}
    | {f"{name}-partly": (one(make), {"x": HALF}) for name, make in FAMILIES.items() if name in ("normal", "half-cauchy", "gamma", "log-normal", "tfp-weibull")}
    | {f"{name}-auto": (one(make), ppl.auto_reparam) for name, make in (FAMILIES | VECTORS).items() if name in ("normal", "gamma", "log-normal", "precision")}
    | {f"{name}-{i}": (one(make), strategies) for name, make in PARTS.items() for i, strategies in enumerate(({"x": NON_CENTERED}, {"x": HALF}, ppl.auto_reparam))}
    | {
        "iid-vectors": (one(IID_VECTORS), {"x": NON_CENTERED}),
        "transformed": (one(FAMILIES["log-normal"]), {"x": ppl.Transformed()}),
        "transformed-then": (one(FAMILIES["log-normal"]), {"x": ppl.Transformed(NON_CENTERED)}),
        "transformed-of-a-half-line": (one(lambda loc, scale: dist.TransformedDistribution(dist.HalfNormal(scale), dist.bijectors.Affine(loc, 3.0))), {"x": ppl.Transformed()}),
        "transformed-then-of-a-half-line": (one(lambda loc, scale: dist.TransformedDistribution(dist.HalfNormal(scale), dist.bijectors.Affine(loc, 3.0))), {"x": ppl.Transformed(NON_CENTERED)}),
        "transformed-iid": (one(lambda loc, scale: dist.iid(dist.LogNormal(loc, scale), 3)), {"x": ppl.Transformed()}),
        "transformed-independent": (one(lambda loc, scale: dist.Independent(dist.LogNormal(loc, scale * jnp.ones(2)), 1)), {"x": ppl.Transformed(NON_CENTERED)}),
        "transformed-iid-of-transformed": (one(lambda loc, scale: dist.iid(dist.TransformedDistribution(dist.HalfNormal(scale), dist.bijectors.Exp()), (2, 2))), {"x": ppl.Transformed(NON_CENTERED)}),
        "transformed-tfp-independent": (one(lambda loc, scale: tfd.Independent(tfd.LogNormal(loc, scale * jnp.ones(2)), 1)), {"x": ppl.Transformed(NON_CENTERED)}),
        "transformed-tfp": (one(lambda loc, scale: tfd.TransformedDistribution(tfd.Normal(loc, scale), tfp.bijectors.Softplus())), {"x": ppl.Transformed(HALF)}),
        "own": (one(lambda loc, scale: dist.Gamma(0.5, scale)), {"x": by_square}),
        "weights-by-element": (one(FAMILIES["normal"]), {"x": ppl.PartiallyCentered(np.array([0.2, 0.9]))}),
        "vmap": (mapped, {"x": NON_CENTERED}),
        "scan": (walk, {"x": NON_CENTERED}),
        "cond": (in_cond, {"x": NON_CENTERED}),
        "nest": (ppl.nest(mapped, scope="a"), {"a": {"x": NON_CENTERED}}),
        "scaled-before": (ppl.scale(mapped, 3.0), {"x": NON_CENTERED}),
        "several": (mapped, {"x": HALF, "scale": NON_CENTERED}),
        "rule": (mapped, lambda name, d: HALF if name == "x" else None),
    }
)  # fmt: skip


@pytest.mark.quick_rows(
    "transformed-tfp-independent",
    "iid-log-normal-2",
    "log-normal-non-centered",
    "transformed-independent",
    "log-normal-auto",
    "iid-log-normal-0",
    "transformed-then",
    "log-normal-partly",
    "iid-2",
    "normal-auto",
)
@pytest.mark.parametrize(("model", "strategies"), ROWS.values(), ids=ROWS)
def test_density_and_inverse(model, strategies, x64):
    check_determinant(ppl.reparam(model, strategies), KEY, {})


def test_scaled_after(x64):
    check_determinant(ppl.scale(ppl.reparam(mapped, {"x": NON_CENTERED}), 3.0), KEY, {})


def test_values_and_densities_stay():
    """Only positions change: draws, values and densities by name are those of the model."""
    other = ppl.reparam(mapped, {"x": NON_CENTERED})
    values = ppl.simulate(mapped)(KEY)
    assert_close(ppl.simulate(other)(KEY), values, "float32")
    assert_close(ppl.log_density(other)(values), ppl.log_density(mapped)(values), "float32")
    assert_close(ppl.log_probs(other)(values), ppl.log_probs(mapped)(values), "float32")
    assert (
        ppl.unconstrain(other).constrain({"scale": jnp.log(2.0), "x": jnp.ones(3)})["x"][2] == 4.0
    )


@pytest.mark.quick_rows("before-condition")
@pytest.mark.parametrize("before", [False, True], ids=["after-condition", "before-condition"])
def test_non_centered_eight_schools(before, x64):
    """The density of z ~ Normal(0, 1), theta = mu + tau z by hand, for any order of transformations."""
    change = lambda model: ppl.reparam(model, {"theta": NON_CENTERED})  # noqa: E731
    observe = lambda model: ppl.condition(model, {"y": EFFECTS})  # noqa: E731
    model = observe(change(eight_schools)) if before else change(observe(eight_schools))
    target = ppl.unconstrain(model, SIGMA)

    def by_hand(position):
        mu, tau, z = position["mu"], jnp.exp(position["tau"]), position["theta"]
        prior = (
            NORMAL(mu, 0.0, 5.0) + jnp.log(2) + stats.cauchy.logpdf(tau, 0.0, 5.0) + jnp.log(tau)
        )
        return prior + NORMAL(z).sum() + NORMAL(EFFECTS, mu + tau * z, SIGMA).sum()

    position = target.initial(KEY)
    for of in (by_hand, jax.grad(by_hand)):
        ours = target.log_density if of is by_hand else jax.grad(target.log_density)
        assert_close(ours(position), of(position))


def test_small_scales_keep_their_precision():
    """theta rounds to mu, and the density must not be that of the rounded value."""
    target = ppl.unconstrain(ppl.reparam(one(FAMILIES["normal"]), {"x": NON_CENTERED}))
    position = {"loc": 1.0, "scale": -20.0, "x": jnp.array([0.7, -1.3])}
    assert_close(jax.grad(target.log_density)(position)["x"], -position["x"], "float32")


def test_a_weight_is_learned():
    """Gradients reach the weight, and a new one compiles nothing anew."""

    def target(weight: Any) -> Any:
        return ppl.unconstrain(ppl.reparam(mapped, {"x": ppl.PartiallyCentered(weight)}))

    position = target(0.5).initial(KEY)
    traced = []

    @jax.jit
    def density(target, position):
        traced.append(None)
        return target.log_density(position)

    at = [density(target(jnp.float32(w)), position) for w in (0.5, 0.501)]
    assert len(traced) == 1
    slope = jax.grad(lambda w: target(w).log_density(position))(0.5)
    np.testing.assert_allclose(slope, (at[1] - at[0]) / 0.001, rtol=0.05)


def test_a_weight_that_is_not_known_passes():
    """Traced, or the gradient with respect to one."""
    weight = ppl.PartiallyCentered(0.5)
    assert jax.jit(lambda w: ppl.PartiallyCentered(w).centeredness)(2.0) == 2.0
    assert jax.grad(lambda w: -3.0 * w.centeredness)(weight).centeredness == -3.0
    ((path, leaf),) = jax.tree_util.tree_leaves_with_path(weight)
    assert (jax.tree_util.keystr(path), leaf) == (".centeredness", 0.5)


@pytest.mark.parametrize("name", ["value", "cosine", "sine"])
def test_an_angle_has_its_distribution(name, x64):
    """Integrals over the plane are those over the circle."""
    d = tfd.VonMises(1.0, 2.0)
    of = {"value": jnp.ones_like, "cosine": jnp.cos, "sine": jnp.sin}[name]
    target = ppl.unconstrain(
        ppl.reparam(lambda key: ppl.sample(key, d, name="x"), {"x": ppl.Circular()})
    )
    assert target.initial(KEY)["x"].shape == (2,)
    points, step = jnp.linspace(-9, 9, 600, retstep=True)
    plane = jnp.stack(jnp.meshgrid(points, points), -1).reshape(-1, 2)

    def term(point):
        position = {"x": point}
        return of(target.constrain(position)["x"]) * jnp.exp(target.log_density(position))

    by_plane = jax.vmap(term)(plane).sum() * step**2
    circle, step = jnp.linspace(-jnp.pi, jnp.pi, 400, endpoint=False, retstep=True)
    by_circle = (of(circle) * jnp.exp(d.log_prob(circle))).sum() * step
    np.testing.assert_allclose(by_plane, by_circle, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dist.VonMises(1.0, 2.0),
        lambda: dist.Uniform(-np.pi, np.pi),
        lambda: dist.iid(dist.VonMises(1.0, 2.0), 3),
        lambda: tfd.Independent(tfd.VonMises(jnp.ones(3), 2.0), 1),
    ],
)
def test_angles_have_coordinates(make):
    target = ppl.unconstrain(
        ppl.reparam(lambda key: ppl.sample(key, make(), name="x"), {"x": ppl.Circular()})
    )
    points = target.unconstrain(target.constrain(target.initial(KEY)))["x"]
    squared = jnp.sum(points**2, -1)
    assert_close(squared, jnp.ones_like(squared), "float32")


@pytest.mark.parametrize(
    "make",
    [
        lambda: dist.Normal(3.0, 2.0),
        lambda: dist.Uniform(0.0, 2 * np.pi),
        lambda: dist.HalfNormal(1.0),
        lambda: dist.iid(dist.Uniform(0.0, 2 * np.pi), 3),
        lambda: tfd.Normal(0.0, 1.0),
    ],
)
def test_numbers_that_are_no_angles_are_none(make):
    model = ppl.reparam(lambda key: ppl.sample(key, make(), name="x"), {"x": ppl.Circular()})
    with pytest.raises(ValueError, match=r"reparam: site 'x': Circular\(\) is for angles"):
        ppl.unconstrain(model)


def test_the_position_of_an_angle():
    target = ppl.unconstrain(
        ppl.reparam(
            lambda key: ppl.sample(key, tfd.VonMises(jnp.zeros(3), 1.0), name="x"),
            {"x": ppl.Circular()},
        )
    )
    values = {"x": jnp.array([-3.0, 0.5, 3.0])}
    assert_close(target.constrain(target.unconstrain(values)), values, "float32")


def centered(key: Any) -> Any:
    return ppl.sample(key, dist.Normal(1.0, 2.0), name="x")


def test_an_error_in_a_strategy_names_its_site():
    with pytest.raises(AttributeError, match="'rate'") as caught:
        ppl.unconstrain(ppl.reparam(centered, {"x": lambda d: 1 / d.rate}))
    assert "This is from the strategy that reparam has for site 'x'." in caught.value.__notes__


def test_branches_of_a_cond_need_positions_of_one_shape():
    def model(key: Any, flag: Any) -> Any:
        simplex = lambda: ppl.sample(key, dist.Dirichlet(jnp.ones(3)), name="x")  # noqa: E731
        cube = lambda: ppl.sample(key, dist.iid(dist.Beta(1.0, 1.0), 3), name="x")  # noqa: E731
        return lax.cond(flag, simplex, cube)

    words = r"model 'model': site 'x': the branches.*disagree in what is made of it: float32\[3\]"
    with pytest.raises(ValueError, match=words):
        ppl.unconstrain(model, True)


def test_auto_leaves_constants_alone():
    assert ppl.auto_reparam("x", dist.Normal(0.0, 1.0)) is None
    assert ppl.auto_reparam("x", dist.Beta(jnp.ones(2), 1.0)) is None
    assert ppl.auto_reparam("x", dist.iid(dist.Normal(0.0, 1.0), 3)) is None
    assert ppl.auto_reparam("x", dist.Normal(jnp.zeros(3), np.ones(3))) is None

    @jax.jit
    def traced(loc: Any) -> Any:
        for d in (dist.Normal(loc, 1.0), dist.iid(dist.Normal(loc, 1.0), 3)):
            assert ppl.auto_reparam("x", d) == ppl.LearnedCentering()
            assert ppl.auto_reparam("x", d, is_constant=True) is None
        return loc

    traced(0.0)


def test_a_rule_passes_over_sites_that_have_their_coordinates():
    """Those that have been reparameterized, and those that are observed in part."""
    half = ppl.reparam(mapped, {"x": HALF})
    for model in (half, ppl.scale(half, 2.0)):
        ours = ppl.unconstrain(ppl.reparam(model, ppl.auto_reparam))
        assert_close(ours.constrain(POSITION), ppl.unconstrain(model).constrain(POSITION))
    partly = ppl.condition(mapped, {"x": ppl.impute(np.array([0.0, np.nan, 1.0]))})
    target = ppl.unconstrain(ppl.reparam(partly, lambda name, d: NON_CENTERED))
    values = target.constrain({"scale": 2.0, "x": jnp.array([0.7])})
    assert_close(values["x"], jnp.array([0.0, 0.7, 1.0]), "float32")


SAMPLE = lambda key: ppl.sample(key, dist.Beta(1.0, 2.0), name="x")  # noqa: E731
ERRORS = {
    "family": (lambda: ppl.unconstrain(ppl.reparam(SAMPLE, {"x": NON_CENTERED})), ValueError, "'x': Beta has no location and scale.*Pushforward"),
    "family-of-parts": (lambda: ppl.unconstrain(ppl.reparam(lambda key: ppl.sample(key, dist.iid(dist.Beta(1.0, 2.0), 3), name="x"), {"x": NON_CENTERED})), ValueError, "'x': Beta has no location and scale"),
    "vector-partly": (lambda: ppl.unconstrain(ppl.reparam(one(VECTORS["covariance"]), {"x": HALF})), ValueError, "'x': MultivariateNormal"),
    "not-transformed": (lambda: ppl.unconstrain(ppl.reparam(SAMPLE, {"x": ppl.Transformed()})), ValueError, "'x': Transformed.*Beta"),
    "not-transformed-but-truncated": (lambda: ppl.unconstrain(ppl.reparam(lambda key: ppl.sample(key, dist.Truncated(dist.Normal(0.0, 1.0), 0.5, 2.0), name="x"), {"x": ppl.Transformed()})), ValueError, "'x': Transformed.*got Truncated"),
    "not-transformed-but-iid": (lambda: ppl.unconstrain(ppl.reparam(lambda key: ppl.sample(key, dist.iid(dist.Gamma(1.0, 1.0), 2), name="x"), {"x": ppl.Transformed()})), ValueError, "'x': Transformed.*got Gamma"),
    "then": (lambda: ppl.Transformed(3), TypeError, r"Transformed: then must be a strategy, as ppl.NonCentered\(\), got 3"),
    "unknown": (lambda: ppl.reparam(SAMPLE, {"y": NON_CENTERED})(KEY), ValueError, "reparam: .*no site 'y'.*'x'"),
    "observed": (lambda: ppl.reparam(ppl.condition(mapped, {"x": jnp.ones(3)}), {"x": NON_CENTERED})(KEY), ValueError, "'x' of model 'mapped' is observed"),
    "twice": (lambda: ppl.reparam(ppl.reparam(mapped, {"x": NON_CENTERED}), {"x": HALF})(KEY), ValueError, "'x' is reparameterized already"),
    "rule's number": (lambda: ppl.unconstrain(ppl.reparam(SAMPLE, lambda name, d: 3)), TypeError, r"the rule, of site .x.: expected a strategy, as ppl.NonCentered\(\).*, got 3"),
    "rule's class": (lambda: ppl.unconstrain(ppl.reparam(SAMPLE, lambda name, d: ppl.NonCentered)), TypeError, "reparam: the rule, of site 'x': expected a strategy, as ppl.NonCentered()"),
    "class": (lambda: ppl.reparam(SAMPLE, {"x": ppl.NonCentered}), TypeError, "expected a strategy, as ppl.NonCentered()"),
    "one strategy": (lambda: ppl.reparam(SAMPLE, NON_CENTERED), TypeError, "expected a dict of strategies.*NonCentered"),
    "text as weight": (lambda: ppl.PartiallyCentered("a"), TypeError, "PartiallyCentered: expected a number or an array as centeredness, got 'a'"),
    "list as weight": (lambda: ppl.PartiallyCentered([0.5]), TypeError, r"expected a number or an array as centeredness, got \[0.5\]"),
    "number": (lambda: ppl.reparam(SAMPLE, 3), TypeError, "expected a dict of strategies.*3"),
    "weight": (lambda: ppl.PartiallyCentered(2.0), ValueError, r"centeredness must lie in \[0, 1\], got 2.0. 0 is NonCentered"),
    "weight-below": (lambda: ppl.PartiallyCentered(jnp.array([0.5, -0.1])), ValueError, r"in \[0, 1\], got \[ 0.5 -0.1\]"),
    "weight-nan": (lambda: ppl.PartiallyCentered(np.nan), ValueError, r"in \[0, 1\], got nan"),
    "weight-in-jit": (lambda: jax.jit(lambda x: ppl.PartiallyCentered(np.float32(1.5)).centeredness * x)(1.0), ValueError, r"in \[0, 1\], got 1.5"),
    "weight-shape": (lambda: ppl.unconstrain(ppl.reparam(mapped, {"x": ppl.PartiallyCentered(np.array([0.1, 0.5, 0.9]))})), ValueError, r"'x': a draw has the shape \(\), but what the strategy makes of it, \(3,\)"),
    "no-pushforward": (lambda: ppl.unconstrain(ppl.reparam(SAMPLE, {"x": lambda d: d})), TypeError, "'x': expected of the strategy ppl.Pushforward"),
}  # fmt: skip


@pytest.mark.parametrize(("misuse", "exception", "message"), ERRORS.values(), ids=ERRORS)
def test_error(misuse, exception, message):
    with pytest.raises(exception, match=message):
        misuse()
