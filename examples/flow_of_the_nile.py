"""A state-space model by scan: the annual flow of the Nile at Aswan, 1871 to 1970 (Cobb 1978).

The level of the river is a random walk observed with noise: the local level model of Durbin and
Koopman (2012, section 2.2). `lax.scan` runs over the years, with one latent step in each. The
Kalman filter integrates the walk out, so the exact posterior of the two standard deviations is
known on a grid. Means and standard deviations by NUTS over all 102 unknowns must agree with it.

    python examples/flow_of_the_nile.py
"""

import jax
import jax.numpy as jnp
from jax import lax

import distributions as dist
import inference
import ppl

flow = jnp.array(  # 1e8 cubic metres a year
    [
        1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020,
        960, 1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840,
        874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120,
        1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759, 781, 865,
        845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874,
        848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170,
        912, 746, 919, 718, 714, 740,
    ],
    dtype=float,
)  # fmt: skip


def local_level(key, num_years):
    walk_sd = ppl.sample(key, dist.HalfNormal(100.0), name="walk_sd")
    noise_sd = ppl.sample(key, dist.HalfNormal(200.0), name="noise_sd")

    def year(level, key):
        level = level + walk_sd * ppl.sample(key, dist.Normal(0.0, 1.0), name="step")
        ppl.sample(key, dist.Normal(level, noise_sd), name="flow")
        return level, None

    first, *_ = keys = jax.random.split(key, num_years + 1)
    start = ppl.sample(first, dist.Normal(1000.0, 500.0), name="start")
    lax.scan(year, start, keys[1:])


def log_evidence(walk_sd: jax.Array, noise_sd: jax.Array) -> jax.Array:
    """The log density of the flows given the two standard deviations, by the Kalman filter."""

    def year(state, y):
        mean, variance, total = state
        variance = variance + walk_sd**2
        total = total + dist.Normal(mean, jnp.sqrt(variance + noise_sd**2)).log_prob(y)
        gain = variance / (variance + noise_sd**2)
        return (mean + gain * (y - mean), (1 - gain) * variance, total), None

    (_, _, total), _ = lax.scan(year, (1000.0, 500.0**2, 0.0), flow)
    return jnp.asarray(total)


def exact_moments() -> dict[str, tuple[jax.Array, jax.Array]]:
    """Exact posterior mean and standard deviation of both parameters, summed over a grid."""
    walk, noise = jnp.meshgrid(jnp.linspace(1, 150, 200), jnp.linspace(80, 180, 200))
    log_prior = dist.HalfNormal(100.0).log_prob(walk) + dist.HalfNormal(200.0).log_prob(noise)
    weights = jax.nn.softmax(log_prior + jax.vmap(jax.vmap(log_evidence))(walk, noise), (0, 1))
    means = {name: (weights * x).sum() for name, x in (("walk_sd", walk), ("noise_sd", noise))}
    grid = {"walk_sd": walk, "noise_sd": noise}
    return {k: (m, jnp.sqrt((weights * (grid[k] - m) ** 2).sum())) for k, m in means.items()}


def main() -> None:
    posterior = ppl.condition(local_level, {"flow": flow})
    result = inference.mcmc(
        jax.random.key(0), posterior, len(flow), num_draws=2000, target_acceptance_rate=0.95
    )
    summary = result.summary()
    print(summary)
    for name, (mean, sd) in exact_moments().items():
        ours = summary[name]
        print(f"{name}: {ours.mean:.1f} ({ours.sd:.1f}); exact {mean:.1f} ({sd:.1f})")
        assert abs(ours.mean - mean) < 5 * ours.mcse_mean
        assert abs(ours.sd / sd - 1) < 0.15


if __name__ == "__main__":
    main()
