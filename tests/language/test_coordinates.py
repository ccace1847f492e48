"""Standard forms in models, and coordinates, which says which sites auto_reparam leaves."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

from .checks import assert_close, check_determinant
from .test_reparam import COVARIANCE, KEY, NORMAL, TRIL, in_cond, mapped, one

tfd = tfp.distributions
PATHS = jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
ISLANDS = np.kron(np.eye(2), [[0.0, 1.0], [1.0, 0.0]])
STRUCTURED = {
    "walk": lambda loc, scale: dist.GaussianRandomWalk(scale, 4),
    "walk-from": lambda loc, scale: dist.GaussianRandomWalk(scale, 4, dist.Normal(loc, 2.0)),
    "walk-from-t": lambda loc, scale: dist.GaussianRandomWalk(
        scale * jnp.ones(2), 3, dist.StudentT(3.0, loc, scale)
    ),
    "walk-from-own": lambda loc, scale: dist.GaussianRandomWalk(
        scale,
        3,
        dist.TransformedDistribution(dist.Normal(loc, 1.0), dist.bijectors.Affine(1.0, 2.0)),
    ),
    "autoregression": lambda loc, scale: dist.AutoRegressive(loc, jnp.tanh(loc), scale, 4),
    "process": lambda loc, scale: dist.GaussianProcess(
        lambda x, y: scale * jnp.exp(-jnp.square(x - y)), jnp.arange(3.0), loc, 0.1
    ),
    "car": lambda loc, scale: dist.CAR(
        loc, correlation=jnp.tanh(loc), conditional_precision=scale, adj_matrix=np.asarray(PATHS)
    ),
    "car-traced": lambda loc, scale: dist.CAR(
        loc, correlation=jnp.tanh(loc), conditional_precision=scale, adj_matrix=PATHS + 0 * PATHS
    ),
    "icar": lambda loc, scale: dist.ICAR(scale=scale, adj_matrix=ISLANDS),
    "icar-traced": lambda loc, scale: dist.ICAR(
        scale=scale * jnp.ones(2), adj_matrix=PATHS + 0 * PATHS
    ),
    "circulant": lambda loc, scale: dist.CirculantNormal(loc, scale * jnp.array([1.0, 0.5, 0.5])),
    "kronecker": lambda loc, scale: dist.KroneckerNormal(
        loc, scale_trils=(scale * jnp.eye(2), TRIL)
    ),
    "matrix": lambda loc, scale: dist.MatrixNormal(
        loc, scale_tril_row=scale * jnp.eye(2), scale_tril_column=TRIL
    ),
    "multivariate-t": lambda loc, scale: dist.MultivariateStudentT(
        3.0, loc * jnp.ones((2, 3)), scale_tril=scale * TRIL
    ),
    "diagonal": lambda loc, scale: dist.MultivariateNormal(loc, scale_diag=scale * jnp.ones(3)),
    "low-rank": lambda loc, scale: dist.MultivariateNormal(
        loc, cov_factor=scale * jnp.asarray(COVARIANCE[:, :2]), cov_diag=jnp.ones(3)
    ),
    "horseshoe": lambda loc, scale: dist.Horseshoe(scale * jnp.ones(2)),
    "logit-normal": lambda loc, scale: dist.LogitNormal(loc, scale),
    "inverse-chi2": lambda loc, scale: dist.InverseChi2(3.0, scale),
    "skew-normal": lambda loc, scale: dist.SkewNormal(loc=loc, scale=scale, skewness=2.0),
    "transformed": lambda loc, scale: dist.TransformedDistribution(
        dist.GaussianRandomWalk(scale, 3), dist.bijectors.Exp()
    ),
    "iid-walk": lambda loc, scale: dist.iid(dist.GaussianRandomWalk(scale * jnp.ones(2), 3), 2),
    "iid-autoregression": lambda loc, scale: dist.iid(dist.AutoRegressive(loc, 0.5, scale, 3), 2),
    "iid-icar": lambda loc, scale: dist.iid(
        dist.ICAR(scale=scale * jnp.ones(2), adj_matrix=ISLANDS), 3
    ),
    "iid-tfp": lambda loc, scale: dist.iid(tfd.Normal(loc, scale), 2),
    "independent-t": lambda loc, scale: dist.Independent(
        dist.MultivariateStudentT(3.0, loc * jnp.ones((2, 3)), scale_tril=scale * TRIL), 1
    ),
    "independent-kronecker": lambda loc, scale: dist.Independent(
        dist.KroneckerNormal(loc, scale_trils=(scale * jnp.ones((2, 1, 1)) * jnp.eye(2), TRIL)), 1
    ),
}


def mapped_walks(key: Any) -> Any:
    scales = ppl.sample(key, dist.LogNormal(jnp.zeros(3), 1.0), name="scales")
    coefficient = ppl.sample(key, dist.Uniform(-1.0, 1.0), name="coefficient")

    def one(key: Any, scale: Any) -> Any:
        walk = ppl.sample(key, dist.GaussianRandomWalk(scale, 3), name="walk")
        path = dist.AutoRegressive(walk[0], coefficient, scale, 3)
        car = dist.CAR(
            walk, correlation=coefficient, conditional_precision=scale, adj_matrix=np.asarray(PATHS)
        )
        return ppl.sample(key, path, name="path") + ppl.sample(key, car, name="car")

    return jax.vmap(one)(split(key, 3), scales)


def walks_in_scan(key: Any) -> Any:
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")

    def step(x: Any, key: Any) -> Any:
        d = dist.GaussianRandomWalk(scale, 3, dist.Normal(x, scale))
        x = ppl.sample(key, d, name="walk")[-1]
        return x, x

    return lax.scan(step, 0.0, split(key, 2))[1]


ROWS = {name: one(make) for name, make in STRUCTURED.items()} | {
    "vmap": mapped_walks,
    "scan": walks_in_scan,
    "scaled": ppl.scale(mapped_walks, 3.0),
}


@pytest.mark.quick_rows("vmap", "walk-from")
@pytest.mark.parametrize("model", ROWS.values(), ids=ROWS)
def test_density_and_inverse_of_a_factor(model, x64):
    moved = ppl.reparam(model, ppl.auto_reparam)
    sites = ppl.coordinates(moved)().sites
    changed = {name for name, site in sites.items() if site.strategy is not None}
    assert changed & {"x", "walk", "path", "car"} == sites.keys() & {"x", "walk", "path", "car"}
    check_determinant(moved, KEY, {})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Own:
    """A user's own distribution, normal with the standard deviation `width`, with a form."""

    width: Any
    batch_shape = event_shape = ()
    bijector = dist.bijectors.Identity()
    has_standard_form = True

    @property
    def dtype(self) -> Any:
        return jnp.result_type(self.width)

    def sample(self, key: Any) -> jax.Array:
        return self.width * jax.random.normal(key, (), self.dtype)

    def log_prob(self, value: Any) -> jax.Array:
        return NORMAL(value, 0.0, self.width)

    def standard_form(self, centeredness: Any = None) -> Any:
        return None, lambda z: self.width * z, lambda x: x / self.width


def test_a_distribution_of_ones_own_may_have_a_form(x64):
    model = ppl.reparam(one(lambda loc, scale: Own(scale)), ppl.auto_reparam)
    check_determinant(model, KEY, {})
    position = {"loc": 0.0, "scale": jnp.log(3.0), "x": 2.0}
    assert_close(ppl.unconstrain(model).constrain(position)["x"], 6.0)


def left_and_changed(key: Any, width: Any) -> Any:
    """Sites that the rule leaves, and others that it changes."""
    draw = lambda d, name: ppl.sample(key, d, name=name)  # noqa: E731
    zeros = draw(dist.Normal(jnp.zeros(3), jnp.ones(3)), "zeros")
    draw(dist.MultivariateNormal(jnp.zeros(2), covariance=jnp.eye(2)), "vector")
    fixed = ppl.deterministic(jnp.ones(2), name="fixed")
    draw(dist.Normal(fixed, 1.0), "after-fixed")
    follows = ppl.deterministic(zeros.sum(), name="follows")
    draw(dist.Normal(follows, 1.0), "after-follows")
    draw(dist.Normal(0.0, width), "argument")
    share = draw(dist.Beta(jnp.exp(zeros[0]), 1.0), "share")
    draw(dist.KroneckerNormal(share, scale_trils=(jnp.eye(2),), noise_scale=0.1), "noisy")
    site = lambda key, loc: ppl.sample(key, dist.Normal(loc, 1.0), name="mapped")  # noqa: E731
    jax.vmap(site)(split(key, 3), zeros)
    still = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="still")  # noqa: E731
    jax.vmap(still)(split(key, 3))
    step = lambda x, key: (ppl.sample(key, dist.Normal(x, share), name="loop"),) * 2  # noqa: E731
    return lax.scan(step, 0.0, split(key, 4))[1]


REASONS = {
    "zeros": "constant parameters",
    "vector": "constant parameters",
    "after-fixed": "constant parameters",
    "after-follows": None,
    "argument": None,
    "share": "Beta has no location or scale",
    "noisy": "KroneckerNormal has no location or scale",
    "mapped": None,
    "still": "constant parameters",
    "loop": None,
}


@pytest.mark.parametrize("where", ["plain", "scaled", "nested"])
def test_what_the_rule_leaves_is_said(where):
    change = {
        "plain": lambda model: model,
        "scaled": lambda model: ppl.scale(model, 2.0),
        "nested": lambda model: ppl.nest(model, scope="a"),
    }[where]
    scope = "a." if where == "nested" else ""
    model = change(left_and_changed)
    before = ppl.coordinates(model)(2.0)
    assert {name: site.reason for name, site in before.sites.items()} == {
        f"{scope}{name}": reason for name, reason in REASONS.items()
    }
    assert {site.strategy for site in before.sites.values()} == {None}
    after = ppl.coordinates(ppl.reparam(model, ppl.auto_reparam))(2.0)
    for name, site in after.sites.items():
        if before.sites[name].reason is None:
            assert site.strategy in ("LearnedCentering", "NonCentered")
            assert site.reason == "reparameterized already"
        else:
            assert site == before.sites[name]


def test_what_is_said_is_what_happens():
    """Under jit, the positions of the sites said to change are not those of the model."""
    model = ppl.scale(left_and_changed, 2.0)
    sites = ppl.coordinates(model)(2.0).sites
    moved = ppl.reparam(model, ppl.auto_reparam)

    @jax.jit
    def positions(values: Any, width: Any) -> Any:
        targets = (ppl.unconstrain(m, width) for m in (model, moved))
        return [target.unconstrain(values) for target in targets]

    values = ppl.simulate(model)(KEY, 2.0)
    old, new = positions(values, 2.0)
    for name, site in sites.items():
        changed = not np.array_equal(old[name], new[name])
        assert changed == (site.reason is None), name


def test_sites_of_one_captured_value_are_changed():
    """A submodel does not know what the value that it captures depends on."""

    def whole(key: Any) -> Any:
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        part = lambda key: ppl.sample(key, dist.Normal(0.0, scale), name="x")  # noqa: E731
        return ppl.reparam(part, ppl.auto_reparam)(key)

    assert ppl.coordinates(whole)().sites["x"].strategy == "LearnedCentering"


def test_sites_observed_in_part_or_in_a_branch():
    partly = ppl.condition(mapped, {"x": ppl.impute(np.array([0.0, np.nan, 1.0]))})
    sites = ppl.coordinates(ppl.reparam(partly, ppl.auto_reparam))().sites
    assert sites["x"].reason == "observed in part"
    assert ppl.coordinates(in_cond)().sites["x"].reason is None
    assert str(ppl.coordinates(in_cond)()).splitlines()[0].split() == [
        *("site", "family", "coordinates", "auto_reparam")
    ]


def test_coordinates_that_are_not_called_yet_say_so():
    def model(key):
        return ppl.sample(key, dist.Normal(0.0, 1.0), name="x")

    assert repr(ppl.coordinates(model)) == (
        "<ppl.coordinates of model 'model': call it, as ppl.coordinates(model)(*args)>"
    )
