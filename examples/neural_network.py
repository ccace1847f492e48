"""Uncertainty of a Bayesian neural network: mean-field and low-rank guides against NUTS.

A network with one hidden layer is fitted to data with a gap in the middle. Near the data, the bands
of all three methods agree. In the gap, NUTS finds many functions that fit. The normal guides lie
around one mode of the posterior and are too certain, as Foong et al. prove for mean field. Pareto k
says so in each summary. Draws examples/neural_network.png.

    python examples/neural_network.py

References:
    Foong, Burt, Li and Turner (2020), On the expressiveness of approximate inference in Bayesian
    neural networks, NeurIPS 33.
"""

import pathlib

import jax
import jax.numpy as jnp
import matplotlib.figure
import optax

import distributions as dist
import inference
import ppl

WIDTH = 5


def layer(key, x, width):
    """A linear layer; the prior of its weights is narrower for more inputs."""
    fan_in = x.shape[-1]
    scale = 3.0 / fan_in**0.5
    weights = ppl.sample(key, dist.Normal(jnp.zeros((fan_in, width)), scale), name="weights")
    return x @ weights + ppl.sample(key, dist.Normal(jnp.zeros(width), 3.0), name="bias")


def network(key, x):
    first, second = jax.random.split(key)
    hidden = jnp.tanh(ppl.nest(layer, scope="hidden")(first, x[:, None], WIDTH))
    output = ppl.nest(layer, scope="output")(second, hidden, 1)
    f = ppl.deterministic(output[:, 0], name="f")
    sigma = ppl.sample(key, dist.HalfNormal(0.5), name="sigma")
    return ppl.sample(key, dist.Normal(f, sigma), name="y")


def data(num_points=120):
    """A sine with noise, observed on both sides of a gap."""
    half = jnp.linspace(0.5, 1.5, num_points // 2)
    x = jnp.concatenate([-half, half])
    return x, jnp.sin(3 * x) + 0.1 * jax.random.normal(jax.random.key(1), x.shape)


def fit(x, y, guide, num_steps=10_000):
    """A guide fitted from a narrow start at a good fit; a wide start ends by ignoring the data."""
    return inference.svi(
        jax.random.key(0),
        ppl.condition(network, {"y": y}),
        x,
        guide=guide,
        init="optimum",
        num_steps=num_steps,
        num_particles=4,
        optimizer=optax.adam(optax.exponential_decay(0.02, num_steps // 2, 0.5)),
        objective=inference.ELBO(stick_the_landing=True),
    )


def band(result, at):
    """Posterior mean and standard deviation of the function at the points `at`."""
    f = ppl.predict(network, result.draws)(jax.random.key(3), at)["f"].reshape(-1, at.size)
    return f.mean(0), f.std(0)


def picture(x, y, at, bands) -> matplotlib.figure.Figure:
    figure = matplotlib.figure.Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, len(bands), sharey=True)
    for axes, (title, (mean, sd)) in zip(panels, bands.items(), strict=True):
        axes.fill_between(at, mean - 2 * sd, mean + 2 * sd, color="#0072b2", alpha=0.25, lw=0)
        axes.plot(at, mean, color="#0072b2", label="mean, two standard deviations")
        axes.plot(at, jnp.sin(3 * at), "k--", lw=1, label="truth")
        axes.plot(x, y, ".", color="#333333", ms=3, label="data")
        axes.set(title=title, xlabel="x")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    x, y = data()
    posterior = ppl.condition(network, {"y": y})
    settings = {"num_warmup": 500, "num_draws": 500, "target_acceptance_rate": 0.95}
    results = {
        "mean field": fit(x, y, inference.MeanField(init_scale=0.02)),
        "low rank": fit(x, y, inference.LowRank(5, init_scale=0.02)),
        "NUTS": inference.mcmc(jax.random.key(2), posterior, x, **settings),
    }
    at = jnp.linspace(-1.5, 1.5, 121)
    bands = {name: band(result, at) for name, result in results.items()}
    is_seen, gap = jnp.abs(at) >= 0.6, jnp.argmin(jnp.abs(at))
    reference, exact_sd = bands["NUTS"]
    for name in ("mean field", "low rank"):
        mean, sd = bands[name]
        ratio = jnp.median((sd / exact_sd)[is_seen])
        far = jnp.abs(mean - reference)[is_seen].max()
        print(f"{name}: ELBO {results[name].elbo:.1f}, Pareto k {results[name].pareto_k:.2f}")
        print(f"  where there are data: means at most {far:.2f} apart, bands {ratio:.2f} as wide")
        print(f"  in the gap: sd {sd[gap]:.2f}, that of NUTS {exact_sd[gap]:.2f}")
        assert far < 0.1
        assert 0.8 < ratio < 1.3
        assert sd[gap] < 0.85 * exact_sd[gap]
    assert results["low rank"].elbo > results["mean field"].elbo
    picture(x, y, at, bands).savefig(pathlib.Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
