"""LearnedCentering: the same densities at any weights of the elements, which are data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl
from ppl.transforms.standard_forms import has_centering_weight

from .checks import assert_close, assert_equal, check_determinant
from .test_reparam import FAMILIES, PARTS, VECTORS, in_cond, mapped, one, tfd, walk

KEY = key(5)
LEARNED = {"x": ppl.LearnedCentering()}
WITHOUT = {
    "tfp-gev",
    "tfp-gpd",
    "tfp-weibull",
    "tfp-johnson-su",
    *VECTORS,
}  # positions are no shifts by scales
OWN = {
    "logit-normal": lambda loc, scale: dist.LogitNormal(loc, scale),
    "log-logistic": lambda loc, scale: dist.LogLogistic(loc=loc, scale=scale),
    "weibull": lambda loc, scale: dist.Weibull(concentration=1.5, scale=scale),
    "pareto": lambda loc, scale: dist.Pareto(concentration=1.5, scale=scale),
    "horseshoe": lambda loc, scale: dist.Horseshoe(scale),
    "skew-normal": lambda loc, scale: dist.SkewNormal(loc=loc, scale=scale, skewness=0.5),
    "transformed": lambda loc, scale: dist.TransformedDistribution(
        dist.Gamma(2.0, scale), dist.bijectors.Exp()
    ),
    "softplus": lambda loc, scale: dist.TransformedDistribution(
        dist.Normal(loc, scale), dist.bijectors.Softplus()
    ),
    "iid-of-iid": lambda loc, scale: dist.iid(
        dist.iid(dist.Normal(loc * jnp.arange(2.0), scale), 3), 2
    ),
    "iid-of-independent-iid": lambda loc, scale: dist.iid(
        dist.Independent(dist.iid(dist.Normal(loc * jnp.arange(2.0), scale), 3), 1), 4
    ),
    "transformed-twice": lambda loc, scale: dist.TransformedDistribution(
        dist.LogNormal(loc, scale), dist.bijectors.Affine(1.0, 2.0)
    ),
}


def mapped_scans(key: Any) -> Any:
    """Walks in a vmap, whose scales differ."""
    spread = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def one_walk(key: Any, factor: Any) -> Any:
        def step(x: Any, key: Any) -> Any:
            x = ppl.sample(key, dist.Normal(x, factor * spread), name="x")
            return x, x

        return lax.scan(step, 0.0, split(key, 3))[1]

    return jax.vmap(one_walk)(split(key, 2), jnp.array([0.5, 3.0]))


MODELS = (
    {name: one(make) for name, make in (FAMILIES | PARTS | OWN).items() if name not in WITHOUT}
    | {"vmap": mapped, "scan": walk, "cond": in_cond, "scan-in-vmap": mapped_scans}
    | {"scaled": ppl.scale(mapped, 3.0)}
)


def at_random_weights(target: Any) -> Any:
    """A target at other weights for each element."""
    rng = np.random.default_rng(1)
    return target.with_centering({"x": rng.uniform(size=target.centering["x",].shape)})


@pytest.mark.quick_rows("normal", "gamma", "log-normal", "iid-batch", "scan-in-vmap", "scaled")
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_density_at_any_weights(model, x64):
    moved = ppl.reparam(model, LEARNED)
    target = ppl.unconstrain(moved)
    assert target.centering["x",].shape == target.position_shapes["x"].shape
    check_determinant(moved, KEY, {}, at_random_weights(target))
    values = target.constrain(target.initial(KEY))
    for weight in (0.0, 0.3, 1.0):
        strategy = ppl.PartiallyCentered(weight) if weight else ppl.NonCentered()
        here = target.with_centering({"x": weight})
        other = ppl.unconstrain(ppl.reparam(model, {"x": strategy}))
        position = other.unconstrain(values)
        assert_close(here.unconstrain(values), position)
        assert_close(here.log_density(position), other.log_density(position))


@pytest.mark.parametrize("name", VECTORS)
def test_families_without_weights_are_not_centered(name, x64):
    target = ppl.unconstrain(ppl.reparam(one(VECTORS[name]), LEARNED))
    other = ppl.unconstrain(ppl.reparam(one(VECTORS[name]), {"x": ppl.NonCentered()}))
    position = target.initial(KEY)
    assert_equal(target.constrain(position), other.constrain(position))
    assert_equal(at_random_weights(target).constrain(position), other.constrain(position))
    values = other.constrain(position)
    assert_close(at_random_weights(target).unconstrain(values), other.unconstrain(values))


def test_a_scale_of_zero_is_one_at_weight_zero(x64):
    def model(key):
        loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
        scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
        gaps = jnp.array([1.0, 0.0, 2.0])
        ppl.sample(key, dist.Normal(jnp.full(3, loc), scale * jnp.sqrt(gaps)), name="x")

    targets = [
        ppl.unconstrain(ppl.reparam(model, {"x": strategy}))
        for strategy in (ppl.NonCentered(), ppl.LearnedCentering())
    ]
    position = targets[0].initial(KEY)
    for function in ("log_density", "constrain"):
        old, new = (jax.jit(getattr(target, function))(position) for target in targets)
        assert_close(new, old)
    assert_close(*(jax.grad(target.log_density)(position) for target in targets))


def test_branches_may_differ_in_whether_they_have_weights(x64):
    def model(key):
        z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        lax.cond(
            z > 0,
            lambda: ppl.sample(key, dist.Normal(z, 2.0), name="x"),
            lambda: ppl.sample(key, dist.Uniform(-1.0, 1.0 + z**2), name="x"),
        )

    target = ppl.unconstrain(ppl.reparam(model, ppl.auto_reparam))
    for z in (0.7, -0.7):
        values = {"z": jnp.float64(z), "x": jnp.float64(0.4)}
        for weight in (0.0, 0.6):
            here = target.with_centering({"x": weight})
            position = here.unconstrain(values)
            assert_close(here.constrain(position), values)
            value = lambda x: here.constrain(position | {"x": x})["x"]  # noqa: B023, E731
            log_det = jnp.log(jax.grad(value)(position["x"]))
            assert_close(here.log_density(position), ppl.log_density(model)(values) + log_det)


def test_weights_that_do_not_fit_are_errors():
    target = ppl.unconstrain(ppl.reparam(mapped, LEARNED))
    with pytest.raises(ValueError, match="with_centering: 'xx' is none"):
        target.with_centering({"xx": 0.5})
    with pytest.raises(ValueError, match=r"site 'x' has the shape \(3,\), and the weights \(2,\)"):
        target.with_centering({"x": np.ones(2)})
    for wrong in (np.nan, -0.1, np.array([0.0, 0.5, 1.5])):
        with pytest.raises(ValueError, match=r"'x' lie between 0 \(non-centered\) and 1 .* got"):
            target.with_centering({"x": wrong})


def test_rule_learns_where_there_are_weights():
    vector = dist.MultivariateNormal(jnp.zeros(2), covariance=np.eye(2))
    for d in (dist.Normal(0.0, 1.0), dist.Gamma(2.0, 1.0), dist.iid(dist.LogNormal(0.0, 1.0), 3)):
        assert has_centering_weight(d)
        assert ppl.auto_reparam("x", d, is_constant=False) == ppl.LearnedCentering()
    gamma = tfd.Gamma(2.0, log_rate=0.3)
    assert not has_centering_weight(gamma)
    for d in (vector, dist.iid(vector, 2), dist.GaussianRandomWalk(1.0, 4)):
        assert not has_centering_weight(d)
        assert ppl.auto_reparam("x", d, is_constant=False) == ppl.NonCentered()


def test_weights_are_data_within_scopes_and_sums(x64):
    """One program for all weights; sites in a scope, beside a sum and data."""

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
        x = ppl.nest(ppl.sample, scope="part")(key, dist.Normal(jnp.zeros(2), scale), name="x")
        ppl.sample(key, dist.Normal(x + z, 1.0), name="y")

    data = {"y": np.array([0.3, -1.0])}
    learned = {"part": {"x": ppl.LearnedCentering()}}
    posterior = ppl.marginalize(ppl.reparam(ppl.condition(model, data), learned), ["z"])
    target = ppl.unconstrain(posterior)
    values = target.constrain(target.initial(KEY))
    num_traced = 0

    @jax.jit
    def log_density(target, position):
        nonlocal num_traced
        num_traced += 1
        return target.log_density(position)

    for weight in (0.0, 0.4, 1.0):
        here = target.with_centering({"part": {"x": weight * jnp.ones(2)}})
        other = ppl.marginalize(ppl.condition(model, data), ["z"])
        change = (1 - weight) * 2 * jnp.log(values["scale"])
        found = log_density(here, here.unconstrain(values))
        centered = ppl.unconstrain(other)
        assert_close(found, centered.log_density(centered.unconstrain(values)) + change)
    assert num_traced == 1


def everything(key: Any, prior_scale: Any) -> Any:
    """Sites that can have weights by themselves, and sites that cannot or need not."""
    loc = ppl.sample(key, dist.Normal(0.0, prior_scale), name="loc")
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
    ppl.sample(key, dist.Normal(jnp.full(2, loc), scale), name="plain")
    ppl.sample(key, dist.Exponential(1 / scale), name="positive")
    twice = ppl.deterministic(2 * scale, name="twice")
    ppl.nest(ppl.sample, scope="part")(key, dist.iid(dist.Normal(0.0, twice), 3), name="inside")
    ppl.scale(ppl.sample, 3.0)(key, dist.Normal(loc, 1.0), name="scaled")
    lax.cond(
        loc > 0,
        lambda: ppl.sample(key, dist.Normal(loc, 2.0), name="either"),
        lambda: ppl.sample(key, dist.Uniform(-1.0, 1.0), name="either"),
    )
    lax.scan(
        lambda x, key: (ppl.sample(key, dist.Normal(x, 0.5), name="walk"),) * 2, 0.0, split(key, 3)
    )
    ppl.sample(key, dist.Beta(scale, 1.0), name="share")
    ppl.sample(key, dist.Normal(loc, scale), name="chosen")
    ppl.sample(key, dist.Normal(jnp.full(2, loc), 1.0), name="gaps")
    data = ppl.sample(key, dist.Normal(scale, 1.0), name="data")
    ppl.sample(key, dist.Normal(data, 1.0), name="of_data")


def test_sites_that_can_learn_are_found(x64):
    """Families with weights, whose distribution depends on a latent site and has no strategy.

    A site that depends on data does not, though the data depend on a latent site in the model.
    """
    model = ppl.condition(everything, {"data": 0.4, "gaps": ppl.impute(np.array([0.3, np.nan]))})
    model = ppl.reparam(model, {"chosen": ppl.NonCentered()})
    target = ppl.unconstrain(model, 3.0)
    learned = target.with_learned_centering()
    names = {".".join(path) for path in learned.centering}
    assert names == {"plain", "positive", "part.inside", "scaled", "either", "walk"}
    position = target.initial(KEY)
    assert_close(learned.log_density(position), target.log_density(position))
    assert_close(learned.constrain(position), target.constrain(position))
    assert_close(learned.unconstrain(target.constrain(position)), position)


@pytest.mark.quick_rows("normal", "gamma", "scan-in-vmap", "scaled")
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_weights_need_no_strategy(model, x64):
    """The density at any weights is that of the model with `LearnedCentering`."""
    target = ppl.unconstrain(model).with_learned_centering()
    assert ("x",) in target.centering
    other = ppl.unconstrain(ppl.reparam(model, LEARNED)).with_learned_centering()
    target, other = map(at_random_weights, (target, other))
    position = target.initial(KEY)
    assert_close(target.log_density(position), other.log_density(position))
    assert_close(target.constrain(position), other.constrain(position))
    assert_close(target.frames_and_slopes(position), other.frames_and_slopes(position))


def test_a_strategy_keeps_its_weights():
    """Non-centered until learned, beside sites without a strategy, which begin centered."""

    def model(key):
        loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
        ppl.sample(key, dist.Normal(loc, 1.0), name="a")
        ppl.sample(key, dist.Normal(loc, 1.0), name="b")

    target = ppl.unconstrain(ppl.reparam(model, {"b": ppl.LearnedCentering()}))
    assert target.weights == {"b": 0.0}
    assert target.with_learned_centering().weights == {"a": 1.0, "b": 0.0}


def test_long_ladders_of_deterministic_sites_are_looked_through():
    """Each of 400 values is of the two before it: there are more ways through than can be gone."""

    def model(key, x):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        for name, start in (("data", x), ("latent", scale)):
            before, now = start, start
            for i in range(200):
                total = ppl.deterministic(0.5 * (before + now), name=f"{name}{i}")
                before, now = now, total
            ppl.sample(key, dist.Normal(now, 1.0), name=name)

    learned = ppl.unconstrain(model, 0.5).with_learned_centering()
    assert set(learned.centering) == {("latent",)}
