"""A hierarchical regression by vmap: the growth of thirty young rats (Gelfand et al. 1990).

Each rat was weighed at five ages. Every rat has its own line, with an intercept and a slope, and
the thirty lines come from one population. The model of one rat is a plain function; `vmap` turns it
into the model of all rats. The published posterior means (BUGS examples, volume 1) are:

    growth           6.19 g a day (sd 0.11)
    weight at birth  106.6 g (sd 3.7)
    residual sd      6.1 g (sd 0.5)

    python examples/growth_of_rats.py
"""

import jax
import jax.numpy as jnp

import distributions as dist
import inference
import ppl
from distributions import constraints

age = jnp.array([8.0, 15.0, 22.0, 29.0, 36.0])  # days
weight = jnp.array(  # grams, a row for each rat
    [
        [151, 199, 246, 283, 320], [145, 199, 249, 293, 354], [147, 214, 263, 312, 328],
        [155, 200, 237, 272, 297], [135, 188, 230, 280, 323], [159, 210, 252, 298, 331],
        [141, 189, 231, 275, 305], [159, 201, 248, 297, 338], [177, 236, 285, 350, 376],
        [134, 182, 220, 260, 296], [160, 208, 261, 313, 352], [143, 188, 220, 273, 314],
        [154, 200, 244, 289, 325], [171, 221, 270, 326, 358], [163, 216, 242, 281, 312],
        [160, 207, 248, 288, 324], [142, 187, 234, 280, 316], [156, 203, 243, 283, 317],
        [157, 212, 259, 307, 336], [152, 203, 246, 286, 321], [154, 205, 253, 298, 334],
        [139, 190, 225, 267, 302], [146, 191, 229, 272, 302], [157, 211, 250, 285, 323],
        [132, 185, 237, 286, 331], [160, 207, 257, 303, 345], [169, 216, 261, 295, 333],
        [157, 205, 248, 289, 316], [137, 180, 219, 258, 291], [153, 200, 244, 286, 324],
    ],
    dtype=float,
)  # fmt: skip


def growth(key, age, num_rats):
    mean_age = age.mean()
    size = ppl.sample(key, dist.Flat(constraints.real), name="size")  # at the mean age
    slope = ppl.sample(key, dist.Flat(constraints.real), name="slope")
    size_sd = ppl.sample(key, dist.HalfCauchy(0.0, 25.0), name="size_sd")
    slope_sd = ppl.sample(key, dist.HalfCauchy(0.0, 2.5), name="slope_sd")
    sigma = ppl.sample(key, dist.HalfCauchy(0.0, 25.0), name="sigma")

    def rat(key):
        own_size = ppl.sample(key, dist.Normal(size, size_sd), name="own_size")
        own_slope = ppl.sample(key, dist.Normal(slope, slope_sd), name="own_slope")
        line = own_size + own_slope * (age - mean_age)
        return ppl.sample(key, dist.Normal(line, sigma), name="weight")

    return jax.vmap(rat)(jax.random.split(key, num_rats))


def main() -> None:
    posterior = ppl.condition(growth, {"weight": weight})
    result = inference.mcmc(jax.random.key(0), posterior, age, len(weight))
    print(result.summary())

    draws = result.draws
    at_birth = draws["size"] - draws["slope"] * age.mean()
    published = {
        "growth, g a day": (draws["slope"], 6.19, 0.11),
        "weight at birth, g": (at_birth, 106.6, 3.7),
        "residual sd, g": (draws["sigma"], 6.1, 0.5),
    }
    for name, (ours, mean, sd) in published.items():
        print(f"{name}: {ours.mean():.2f} ({ours.std():.2f}); published {mean} ({sd})")
        assert abs(ours.mean() - mean) < 0.15 * sd
        assert 0.85 < ours.std() / sd < 1.15


if __name__ == "__main__":
    main()
