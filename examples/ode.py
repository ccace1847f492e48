"""A differential equation in a model: hares and lynxes at Hudson's Bay, 1900 to 1920.

The numbers of animals follow the equations of Lotka and Volterra, which diffrax solves from year to
year in a scan. The pelts traded each year are noisy observations of the animals. The data are from
Carpenter (2018), "Predator-prey population dynamics: the Lotka-Volterra model in Stan".

The posterior means must be near those of posteriordb (Magnusson et al. 2025), although the priors
here are narrower. Under wide priors, a chain may get stuck where noise explains all data.

    python examples/ode.py
"""

import diffrax
import jax
import jax.numpy as jnp
from jax import lax

import distributions as dist
import inference
import ppl

pelts = jnp.array(  # thousands of hares and of lynxes, a row for each year
    [
        [30.0, 4.0], [47.2, 6.1], [70.2, 9.8], [77.4, 35.2], [36.3, 59.4], [20.6, 41.7],
        [18.1, 19.0], [21.4, 13.0], [22.0, 8.3], [25.4, 9.1], [27.1, 7.4], [40.3, 8.0],
        [57.0, 12.3], [76.6, 19.5], [52.3, 45.7], [19.5, 51.1], [11.2, 29.7], [7.6, 15.8],
        [14.6, 9.7], [16.2, 10.1], [24.7, 8.6],
    ]
)  # fmt: skip


def field(time, log_sizes, rates):
    """The growth rates of both species, derivatives of log sizes, so that no size is negative."""
    hares, lynxes = jnp.exp(log_sizes)
    birth, hunting, death, feeding = rates
    return jnp.stack([birth - hunting * lynxes, feeding * hares - death])


def next_year(log_sizes, rates):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=1.0,
        dt0=0.5,
        y0=log_sizes,
        args=rates,
        max_steps=4,
        adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=4),
    )
    return solution.ys[0]  # pyright: ignore[reportOptionalSubscript]


def predator_prey(key, num_years):
    typical_rates, typical_sizes = jnp.array([0.5, 0.03, 0.8, 0.03]), jnp.array([30.0, 5.0])
    rates = ppl.sample(key, dist.LogNormal(jnp.log(typical_rates), 0.3), name="rates")
    start = ppl.sample(key, dist.LogNormal(jnp.log(typical_sizes), 0.5), name="start")
    sigma = ppl.sample(key, dist.LogNormal(-jnp.ones(2), 0.5), name="sigma")

    def year(log_sizes, _):
        return next_year(log_sizes, rates), log_sizes

    _, log_sizes = lax.scan(year, jnp.log(start), length=num_years)
    return ppl.sample(key, dist.LogNormal(log_sizes, sigma), name="pelts")


def main() -> None:
    posterior = ppl.condition(predator_prey, {"pelts": pelts})
    non_centered = dict.fromkeys(["rates", "start", "sigma"], ppl.NonCentered())
    posterior = ppl.reparam(
        posterior, non_centered
    )  # so that positions have the scale of the prior
    result = inference.mcmc(
        jax.random.key(0),
        posterior,
        len(pelts),
        num_warmup=300,
        num_draws=300,
        mass_matrix="dense",
    )
    summary = result.summary()
    print(summary)

    published = {"rates": (0.547, 0.0277, 0.800, 0.0241), "start": (34.0, 5.94)}
    for name, means in published.items():
        for i, mean in enumerate(means):
            ours = summary[f"{name}[{i}]"]
            print(f"{name}[{i}]: {ours.mean:.4g} (sd {ours.sd:.2g}); published {mean}")
            assert abs(ours.mean - mean) < 0.5 * ours.sd


if __name__ == "__main__":
    main()
