"""Eight schools: the effect of coaching on test scores in eight schools (Rubin 1981).

Each school reports an estimated effect and its standard error. The model partially pools them. The
posterior means are known: posteriordb (Magnusson et al. 2025) gives 4.41 for the average effect,
mu, and 3.60 for the spread between schools, tau.

    python examples/eight_schools.py
"""

import jax
import jax.numpy as jnp

import distributions as dist
import inference
import ppl

effect = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
standard_error = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(key, standard_error):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.full(8, mu), tau), name="theta")
    return ppl.sample(key, dist.Normal(theta, standard_error), name="effect")


def main() -> None:
    posterior = ppl.condition(eight_schools, {"effect": effect})
    result = inference.mcmc(
        jax.random.key(0), posterior, standard_error, target_acceptance_rate=0.95
    )
    summary = result.summary()
    print(summary)

    published = {"mu": 4.41, "tau": 3.60}
    for name, mean in published.items():
        ours = summary[name]
        print(f"{name}: mean {ours.mean:.2f} (published {mean}), MCSE {ours.mcse_mean:.2f}")
        assert abs(ours.mean - mean) < 5 * ours.mcse_mean + 0.05


if __name__ == "__main__":
    main()
