"""Classics of BUGS with normal data: growth of rats, batches of dye, bioequivalence.

Precisions have the prior of the originals, gamma(0.001, 0.001): half of its mass lies below 1e-300.
Draws from this prior are therefore 0 in single precision, but the posterior is far from there.
"""

import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from examples.catalogue.classic import Classic, Published


def rats(key, age, num_rats=30):
    """Growth of young rats: a line for each, all from one population (Gelfand et al. 1990)."""
    alpha_c = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_c")
    beta_c = ppl.sample(key, dist.Normal(0.0, 100.0), name="beta_c")
    tau_alpha = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_alpha")
    tau_beta = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_beta")
    tau_c = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_c")
    ppl.deterministic(alpha_c - beta_c * age.mean(), name="alpha0")
    sigma = ppl.deterministic(tau_c**-0.5, name="sigma")

    each = jnp.ones(num_rats)
    alpha = ppl.sample(key, dist.Normal(alpha_c * each, tau_alpha**-0.5), name="alpha")
    beta = ppl.sample(key, dist.Normal(beta_c * each, tau_beta**-0.5), name="beta")
    line = alpha[:, None] + beta[:, None] * (age - age.mean())
    return ppl.sample(key, dist.Normal(line, sigma), name="weight")


def dyes(key, num_batches=6, num_samples=5):
    """Yield of dyestuff: variance between and within batches (Box and Tiao 1973)."""
    theta = ppl.sample(key, dist.Normal(0.0, 1e5), name="theta")
    tau_between = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_between")
    tau_within = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_within")
    between = 1 / tau_between
    within = ppl.deterministic(1 / tau_within, name="within")
    ppl.deterministic(between / (between + within), name="f_between")

    mu = ppl.sample(key, dist.Normal(theta * jnp.ones(num_batches), tau_between**-0.5), name="mu")
    loc = mu[:, None] * jnp.ones(num_samples)
    return ppl.sample(key, dist.Normal(loc, tau_within**-0.5), name="y")


def equiv(key, group):
    """Bioequivalence of two tablets in a cross-over trial (Gelfand et al. 1990).

    The treatments have effects phi / 2 and -phi / 2, the two periods pi / 2 and -pi / 2.
    """
    mu = ppl.sample(key, dist.Normal(0.0, 1e3), name="mu")
    phi = ppl.sample(key, dist.Normal(0.0, 1e3), name="phi")
    pi = ppl.sample(key, dist.Normal(0.0, 1e3), name="pi")
    tau1 = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau1")
    tau2 = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau2")
    sigma1 = ppl.deterministic(tau1**-0.5, name="sigma1")
    sigma2 = ppl.deterministic(tau2**-0.5, name="sigma2")
    theta = ppl.deterministic(jnp.exp(phi), name="theta")
    is_equivalent = (theta > 0.8) & (theta < 1.2)
    ppl.deterministic(is_equivalent.astype(theta.dtype), name="equivalence")

    delta = ppl.sample(key, dist.Normal(jnp.zeros(len(group)), sigma2), name="delta")
    period = jnp.array([1.0, -1.0])
    loc = mu + group[:, None] * period * phi / 2 + period * pi / 2 + delta[:, None]
    return ppl.sample(key, dist.Normal(loc, sigma1), name="y")


AGE = np.array([8.0, 15.0, 22.0, 29.0, 36.0])  # days
WEIGHT = np.array(
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
DYESTUFF = np.array(
    [
        [1545, 1440, 1440, 1520, 1580], [1540, 1555, 1490, 1560, 1495],
        [1595, 1550, 1605, 1510, 1560], [1445, 1440, 1595, 1465, 1545],
        [1595, 1630, 1515, 1635, 1625], [1520, 1455, 1450, 1480, 1445],
    ],
    dtype=float,
)  # fmt: skip
GROUP = np.array(
    [
        1, 1, -1, -1, -1, 1, 1, 1, -1, -1,
    ],
    dtype=float,
)  # fmt: skip
LOG_CONCENTRATION = np.array(
    [
        [1.4, 1.65], [1.64, 1.57], [1.44, 1.58], [1.36, 1.68], [1.65, 1.69], [1.08, 1.31],
        [1.09, 1.43], [1.25, 1.44], [1.25, 1.39], [1.3, 1.52],
    ],
    dtype=float,
)  # fmt: skip

CLASSICS = [
    Classic(
        rats,
        (AGE,),
        {"weight": WEIGHT},
        {
            "alpha0": Published(106.4, 3.60),
            "beta_c": Published(6.186, 0.109),
            "sigma": Published(6.092, 0.467),
        },
        "JAGS, classic-bugs, rats; sigma: OpenBUGS, whose prior of the means is wider",
    ),
    Classic(
        dyes,
        (),
        {"y": DYESTUFF},
        {
            "theta": Published(1527.6, 21.4),
            "within": Published(3042.0, 1066.0),
            "f_between": Published(0.335, 0.241),
        },
        "JAGS, classic-bugs, dyes",
    ),
    Classic(
        equiv,
        (GROUP,),
        {"y": LOG_CONCENTRATION},
        {
            "theta": Published(0.994, 0.0504),
            "equivalence": Published(0.9985, 0.0387),
            "sigma1": Published(0.108, 0.0318),
            "sigma2": Published(0.141, 0.0522),
        },
        "JAGS, classic-bugs, equiv",
    ),
]
