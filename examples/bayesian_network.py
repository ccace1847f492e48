"""A Bayesian neural network: an equinox module with a prior for each of its arrays.

`ppl.module` draws the arrays of a network and returns the network; a rule gives each its prior. The
data have a gap in the middle, where the posterior of the function is wider, as it should be. At the
end, a draw is put back together to a network.

    python examples/bayesian_network.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import distributions as dist
import inference
import ppl

template = eqx.nn.MLP(1, 1, width_size=8, depth=1, activation=jnp.tanh, key=jax.random.key(0))


def prior(path: str, array: jax.Array) -> dist.Normal:
    """The prior of a weight matrix or bias, narrower for more inputs."""
    fan_in = array.shape[1] if path.endswith("weight") else 1
    return dist.Normal(0.0, 3.0 / fan_in**0.5)


def network(key):
    return ppl.module(key, template, prior, name="network")


def regression(key, x):
    sigma = ppl.sample(key, dist.HalfNormal(0.5), name="sigma")
    f = ppl.deterministic(jax.vmap(network(key))(x[:, None])[:, 0], name="f")
    return ppl.sample(key, dist.Normal(f, sigma), name="y")


def main() -> None:
    x = jnp.concatenate([jnp.linspace(-1.5, -0.5, 15), jnp.linspace(0.5, 1.5, 15)])
    y = jnp.sin(3 * x) + 0.1 * jax.random.normal(jax.random.key(1), x.shape)
    posterior = ppl.condition(regression, {"y": y})
    result = inference.mcmc(jax.random.key(2), posterior, x, num_warmup=300, num_draws=300)

    at = jnp.linspace(-1.5, 1.5, 7)
    f = ppl.predict(regression, result.draws)(jax.random.key(3), at)["f"].reshape(-1, at.size)
    mean, sd = f.mean(0), f.std(0)
    print("    x  sin(3x)   mean     sd")
    for row in zip(at, jnp.sin(3 * at), mean, sd, strict=True):
        print("{:5.1f}  {:7.2f}  {:5.2f}  {:5.2f}".format(*row))
    assert (jnp.abs(mean - jnp.sin(3 * at))[jnp.abs(at) >= 0.5] < 0.25).all()
    assert sd[3] > 2 * max(sd[1], sd[5])

    last = jax.tree.map(lambda x: x[-1, -1], {"network": result.draws["network"]})
    net = ppl.intervene(network, last)(jax.random.key(0))  # an equinox module again
    assert jnp.allclose(jax.vmap(net)(at[:, None])[:, 0], f[-1], atol=1e-4)


if __name__ == "__main__":
    main()
