"""Joint distributions: a pytree of distributions as one site."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl

KEY = jax.random.key(0)
PARTS = {
    "w": dist.Normal(jnp.arange(6.0).reshape(2, 3), 2.0),
    "p": (dist.Dirichlet(jnp.ones(3)), dist.HalfNormal(jnp.array([1.0, 2.0]))),
}
JOINT = dist.Joint(PARTS)


def each(f, *trees):
    is_leaf = lambda x: isinstance(x, dist.Distribution)  # noqa: E731
    return jax.tree.leaves(jax.tree.map(f, PARTS, *trees, is_leaf=is_leaf))


def test_the_density_is_the_product_of_those_of_the_parts():
    value = JOINT.sample(KEY)
    assert jax.tree.map(jnp.shape, value) == {"w": (2, 3), "p": ((3,), (2,))}
    expected = sum(each(lambda d, x: d.log_prob(x).sum(), value))
    np.testing.assert_allclose(JOINT.log_prob(value), expected, rtol=1e-6)
    several = JOINT.sample(KEY, (5,))
    found = jax.jit(JOINT.log_prob)(several)
    np.testing.assert_allclose(found, jax.vmap(JOINT.log_prob)(several), rtol=1e-6)
    assert found.shape == (5,)
    assert len({float(x) for x in value["p"][1]}) == 2  # parts have keys of their own


def test_moments_are_those_of_the_parts():
    means = each(lambda d, x: jnp.array_equal(d.mean(), x), JOINT.mean())
    variances = each(lambda d, x: jnp.array_equal(d.variance(), x), JOINT.variance())
    modes = each(lambda d, x: jnp.array_equal(d.mode(), x), dist.Joint(PARTS).mode())
    assert all((*means, *variances, *modes))
    np.testing.assert_allclose(JOINT.entropy(), sum(each(lambda d: d.entropy().sum())), rtol=1e-6)


def test_the_map_from_unconstrained_space():
    position = jax.tree.map(lambda x: 0.1 * x, JOINT.bijector.inverse(JOINT.sample(KEY)))
    back = JOINT.bijector.inverse(JOINT.bijector.forward(position))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, 1e-4, 1e-6), back, position)
    log_det = lambda d, x: d.bijector.forward_log_det_jacobian(x).sum()  # noqa: E731
    found = JOINT.bijector.forward_log_det_jacobian(position)
    np.testing.assert_allclose(found, sum(each(log_det, position)), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="Poisson is discrete"):
        _ = dist.Joint([dist.Poisson(3.0)]).bijector


def test_a_joint_distribution_is_a_site():
    """Under vmap, too, with parameters that depend on others; its values are pytrees."""

    def model(key, x):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        line = lambda key: ppl.sample(  # noqa: E731
            key,
            dist.Joint({"a": dist.Normal(0.0, scale), "b": dist.Normal(jnp.ones(2), 1.0)}),
            name="line",
        )
        lines = jax.vmap(line)(jax.random.split(key, 3))
        mean = lines["a"][:, None] + lines["b"] @ x
        return ppl.sample(key, dist.Normal(mean, 0.5), name="y")

    x = jnp.ones((2, 4))
    posterior = ppl.condition(model, {"y": jnp.ones((3, 4))})
    target = ppl.unconstrain(posterior, x)
    assert jax.tree.map(jnp.shape, target.initial(KEY)["line"]) == {"a": (3,), "b": (3, 2)}
    values = ppl.simulate(posterior)(KEY, x)
    line, scale = values["line"], values["scale"]
    parts = [
        dist.HalfNormal(1.0).log_prob(scale),
        dist.Normal(0.0, scale).log_prob(line["a"]),
        dist.Normal(1.0, 1.0).log_prob(line["b"]),
        dist.Normal(line["a"][:, None] + line["b"] @ x, 0.5).log_prob(jnp.ones((3, 4))),
    ]
    latent = {"line": line, "scale": scale}
    found = ppl.log_density(posterior)(latent, x)
    np.testing.assert_allclose(found, sum(jnp.sum(part) for part in parts), rtol=1e-5)
    result = inference.mcmc(KEY, posterior, x, num_warmup=100, num_draws=50, num_chains=2)
    assert result.draws["line"]["b"].shape == (2, 50, 3, 2)
    assert "line.b[2,1]" in result.summary().names


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="must be a pytree of distributions; got a float among"):
        dist.Joint({"a": dist.Normal(), "b": 1.0})
    with pytest.raises(TypeError, match="a part is a Joint; put its own parts in its place"):
        dist.Joint({"a": JOINT})
    with pytest.raises(TypeError, match="got none among them"):
        dist.Joint(())
    with pytest.raises(ValueError, match="Joint: expected a value for each part"):
        JOINT.log_prob({"w": jnp.zeros((2, 3))})
