"""Classics of BUGS with counts: Poisson and binomial regressions with effects of groups.

Precisions have the prior of the originals, gamma(0.001, 0.001): half of its mass lies below 1e-300.
Draws from this prior are therefore 0 in single precision, but the posterior is far from there.
"""

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from examples.catalogue.classic import Classic, Published


def pumps(key, time):
    """Failures of pumps of a power plant, each with a rate of its own (George et al. 1993)."""
    alpha = ppl.sample(key, dist.Exponential(1.0), name="alpha")
    beta = ppl.sample(key, dist.Gamma(0.1, 1.0), name="beta")
    theta = ppl.sample(key, dist.Gamma(alpha * jnp.ones(len(time)), beta), name="theta")
    return ppl.sample(key, dist.Poisson(theta * time), name="failures")


def seeds(key, num_seeds, is_other_seed, is_cucumber):
    """Germination of two kinds of seed on two root extracts (Breslow and Clayton 1993)."""
    alpha0 = ppl.sample(key, dist.Normal(0.0, 1e3), name="alpha0")
    alpha1 = ppl.sample(key, dist.Normal(0.0, 1e3), name="alpha1")
    alpha2 = ppl.sample(key, dist.Normal(0.0, 1e3), name="alpha2")
    alpha12 = ppl.sample(key, dist.Normal(0.0, 1e3), name="alpha12")
    tau = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau")
    sigma = ppl.deterministic(tau**-0.5, name="sigma")

    b = ppl.sample(key, dist.Normal(jnp.zeros(len(num_seeds)), sigma), name="b")
    both = is_other_seed * is_cucumber
    logits = alpha0 + alpha1 * is_other_seed + alpha2 * is_cucumber + alpha12 * both + b
    return ppl.sample(key, dist.Binomial(num_seeds, logits=logits), name="germinated")


def surgical(key, num_operations):
    """Deaths after heart surgery of infants in twelve hospitals (Spiegelhalter et al. 1996)."""
    mu = ppl.sample(key, dist.Normal(0.0, 1e3), name="mu")
    tau = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau")
    sigma = ppl.deterministic(tau**-0.5, name="sigma")
    ppl.deterministic(jax.nn.sigmoid(mu), name="pop_mean")
    b = ppl.sample(key, dist.Normal(mu * jnp.ones(len(num_operations)), sigma), name="b")
    return ppl.sample(key, dist.Binomial(num_operations, logits=b), name="deaths")


def salm(key, dose, num_plates=3):
    """Mutations of salmonella by the dose of quinoline (Breslow 1984)."""
    alpha_star = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_star")
    beta = ppl.sample(key, dist.Normal(0.0, 100.0), name="beta")
    gamma = ppl.sample(key, dist.Normal(0.0, 1e5), name="gamma")
    tau = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau")
    sigma = ppl.deterministic(tau**-0.5, name="sigma")
    log_dose = jnp.log(dose + 10)
    ppl.deterministic(alpha_star - beta * log_dose.mean() - gamma * dose.mean(), name="alpha")

    shape = len(dose), num_plates
    plate = ppl.sample(key, dist.Normal(jnp.zeros(shape), sigma), name="plate")
    level = alpha_star + beta * (log_dose - log_dose.mean()) + gamma * (dose - dose.mean())
    return ppl.sample(key, dist.Poisson(log_rate=level[:, None] + plate), name="colonies")


def epil(key, base, is_treated, age, num_visits=4):
    """Seizures of epileptics at four visits, treated or not: model III of Breslow and Clayton 1993.

    There are effects of patients and of their visits.
    """
    alpha0 = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha0")
    alpha_base = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_base")
    alpha_trt = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_trt")
    alpha_bt = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_bt")
    alpha_age = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_age")
    alpha_v4 = ppl.sample(key, dist.Normal(0.0, 100.0), name="alpha_v4")
    tau_b1 = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_b1")
    tau_b = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau_b")
    sigma_b1 = ppl.deterministic(tau_b1**-0.5, name="sigma_b1")
    sigma_b = ppl.deterministic(tau_b**-0.5, name="sigma_b")

    shape = len(base), num_visits
    b1 = ppl.sample(key, dist.Normal(jnp.zeros(len(base)), sigma_b1), name="b1")
    b = ppl.sample(key, dist.Normal(jnp.zeros(shape), sigma_b), name="b")
    log_base = jnp.log(base / 4)
    patient = alpha0 + alpha_base * log_base + alpha_age * jnp.log(age) + b1
    patient += is_treated * (alpha_trt + alpha_bt * log_base)
    is_last = jnp.arange(num_visits) == num_visits - 1
    log_rate = patient[:, None] + alpha_v4 * is_last[None] + b
    return ppl.sample(key, dist.Poisson(log_rate=log_rate), name="seizures")


def blocker(key, num_control, num_treated):
    """Beta-blockers after a heart attack: a meta-analysis of 22 trials (Carlin 1992)."""
    d = ppl.sample(key, dist.Normal(0.0, 1e3), name="d")
    tau = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="tau")
    sigma = ppl.deterministic(tau**-0.5, name="sigma")
    each = jnp.ones(len(num_control))
    mu = ppl.sample(key, dist.Normal(jnp.zeros(len(num_control)), 1e5**0.5), name="mu")
    delta = ppl.sample(key, dist.Normal(d * each, sigma), name="delta")
    ppl.sample(key, dist.Normal(d, sigma), name="delta_new")  # of a further trial
    ppl.sample(key, dist.Binomial(num_control, logits=mu), name="control")
    return ppl.sample(key, dist.Binomial(num_treated, logits=mu + delta), name="treated")


def oxford(key, year, num_control, num_cases):
    """X-rays in pregnancy and cancers of children, by year of birth (Breslow and Clayton 1993)."""
    alpha = ppl.sample(key, dist.Normal(0.0, 1e3), name="alpha")
    beta1 = ppl.sample(key, dist.Normal(0.0, 1e3), name="beta1")
    beta2 = ppl.sample(key, dist.Normal(0.0, 1e3), name="beta2")
    sigma = ppl.sample(key, dist.Uniform(0.0, 3.0), name="sigma")
    mu = ppl.sample(key, dist.Normal(jnp.zeros(len(year)), 1e3), name="mu")
    b = ppl.sample(key, dist.Normal(jnp.zeros(len(year)), 1.0), name="b")
    log_odds_ratio = alpha + beta1 * year + beta2 * (year**2 - 22) + sigma * b
    ppl.sample(key, dist.Binomial(num_control, logits=mu), name="control")
    return ppl.sample(key, dist.Binomial(num_cases, logits=mu + log_odds_ratio), name="cases")


PUMP_TIME = np.array([94.3, 15.7, 62.9, 126, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])
FAILURES = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22])
NUM_SEEDS = np.array(
    [
        39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7,
    ],
    dtype=int,
)  # fmt: skip
GERMINATED = np.array(
    [
        10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3,
    ],
    dtype=int,
)  # fmt: skip
IS_OTHER_SEED = np.array(
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ],
    dtype=float,
)  # fmt: skip
IS_CUCUMBER = np.array(
    [
        0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1,
    ],
    dtype=float,
)  # fmt: skip
NUM_OPERATIONS = np.array([47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360])
DEATHS = np.array([0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24])
DOSE = np.array([0, 10, 33, 100, 333, 1000], dtype=float)
COLONIES = np.array(
    [
        [15, 21, 29], [16, 18, 21], [16, 26, 33], [27, 41, 60], [33, 38, 41], [20, 27, 42],
    ],
    dtype=int,
)  # fmt: skip
SEIZURES = np.array(
    [
        [5, 3, 3, 3], [3, 5, 3, 3], [2, 4, 0, 5], [4, 4, 1, 4], [7, 18, 9, 21], [5, 2, 8, 7],
        [6, 4, 0, 2], [40, 20, 21, 12], [5, 6, 6, 5], [14, 13, 6, 0], [26, 12, 6, 22],
        [12, 6, 8, 4], [4, 4, 6, 2], [7, 9, 12, 14], [16, 24, 10, 9], [11, 0, 0, 5], [0, 0, 3, 3],
        [37, 29, 28, 29], [3, 5, 2, 5], [3, 0, 6, 7], [3, 4, 3, 4], [3, 4, 3, 4], [2, 3, 3, 5],
        [8, 12, 2, 8], [18, 24, 76, 25], [2, 1, 2, 1], [3, 1, 4, 2], [13, 15, 13, 12],
        [11, 14, 9, 8], [8, 7, 9, 4], [0, 4, 3, 0], [3, 6, 1, 3], [2, 6, 7, 4], [4, 3, 1, 3],
        [22, 17, 19, 16], [5, 4, 7, 4], [2, 4, 0, 4], [3, 7, 7, 7], [4, 18, 2, 5], [2, 1, 1, 0],
        [0, 2, 4, 0], [5, 4, 0, 3], [11, 14, 25, 15], [10, 5, 3, 8], [19, 7, 6, 7], [1, 1, 2, 3],
        [6, 10, 8, 8], [2, 1, 0, 0], [102, 65, 72, 63], [4, 3, 2, 4], [8, 6, 5, 7], [1, 3, 1, 5],
        [18, 11, 28, 13], [6, 3, 4, 0], [3, 5, 4, 3], [1, 23, 19, 8], [2, 3, 0, 1], [0, 0, 0, 0],
        [1, 4, 3, 2],
    ],
    dtype=int,
)  # fmt: skip
SEIZURES_BEFORE = np.array(
    [
        11, 11, 6, 8, 66, 27, 12, 52, 23, 10, 52, 33, 18, 42, 87, 50, 18, 111, 18, 20, 12, 9, 17,
        28, 55, 9, 10, 47, 76, 38, 19, 10, 19, 24, 31, 14, 11, 67, 41, 7, 22, 13, 46, 36, 38, 7,
        36, 11, 151, 22, 41, 32, 56, 24, 16, 22, 25, 13, 12,
    ],
    dtype=float,
)  # fmt: skip
EPILEPTIC_AGE = np.array(
    [
        31, 30, 25, 36, 22, 29, 31, 42, 37, 28, 36, 24, 23, 36, 26, 26, 28, 31, 32, 21, 29, 21,
        32, 25, 30, 40, 19, 22, 18, 32, 20, 30, 18, 24, 30, 35, 27, 20, 22, 28, 23, 40, 33, 21,
        35, 25, 26, 25, 22, 32, 25, 35, 21, 41, 32, 26, 21, 36, 37,
    ],
    dtype=float,
)  # fmt: skip
IS_TREATED = np.repeat([0.0, 1.0], [28, 31])
NUM_CONTROL = np.array(
    [
        39, 116, 93, 1520, 365, 52, 939, 471, 282, 1921, 583, 266, 293, 883, 147, 213, 122, 154,
        134, 218, 364, 674,
    ],
    dtype=int,
)  # fmt: skip
CONTROL = np.array(
    [
        3, 14, 11, 127, 27, 6, 152, 48, 37, 188, 52, 47, 16, 45, 31, 38, 12, 6, 3, 40, 43, 39,
    ],
    dtype=int,
)  # fmt: skip
NUM_TREATED = np.array(
    [
        38, 114, 69, 1533, 355, 59, 945, 632, 278, 1916, 873, 263, 291, 858, 154, 207, 251, 151,
        174, 209, 391, 680,
    ],
    dtype=int,
)  # fmt: skip
TREATED = np.array(
    [
        3, 7, 5, 102, 28, 4, 98, 60, 25, 138, 64, 45, 9, 57, 25, 33, 28, 8, 6, 32, 27, 22,
    ],
    dtype=int,
)  # fmt: skip
YEAR = np.repeat(np.arange(-10.0, 11.0), [*range(1, 11), 10, *range(10, 0, -1)])
NUM_CHILDREN = np.array(
    [
        28, 21, 32, 35, 35, 38, 30, 43, 49, 53, 31, 35, 46, 53, 61, 40, 29, 44, 52, 55, 61, 31,
        48, 44, 42, 53, 56, 71, 43, 43, 43, 40, 44, 70, 75, 71, 37, 31, 42, 46, 47, 55, 63, 91,
        43, 39, 35, 32, 53, 49, 75, 64, 69, 64, 49, 29, 40, 27, 48, 43, 61, 77, 55, 60, 46, 28,
        33, 32, 46, 57, 56, 78, 58, 52, 31, 28, 46, 42, 45, 63, 71, 69, 43, 50, 31, 34, 54, 46,
        58, 62, 52, 41, 34, 52, 63, 59, 88, 62, 47, 53, 57, 74, 68, 61, 45, 45, 62, 73, 53, 39,
        45, 51, 55, 41, 53, 51, 42, 46, 54, 32,
    ],
    dtype=int,
)  # fmt: skip
X_RAYED_CONTROL = np.array(
    [
        0, 2, 2, 1, 2, 0, 1, 1, 1, 2, 4, 4, 2, 1, 7, 4, 3, 5, 3, 2, 4, 1, 4, 5, 2, 7, 5, 8, 2, 3,
        5, 4, 1, 6, 5, 11, 5, 2, 5, 8, 5, 6, 6, 10, 7, 5, 5, 2, 8, 1, 13, 9, 11, 9, 4, 4, 8, 6, 8,
        6, 8, 14, 6, 5, 5, 2, 4, 2, 9, 5, 6, 7, 5, 10, 3, 2, 1, 7, 9, 13, 9, 11, 4, 8, 2, 3, 7, 4,
        7, 5, 6, 6, 5, 6, 9, 7, 7, 7, 4, 2, 3, 4, 10, 3, 4, 2, 10, 5, 4, 5, 4, 6, 5, 3, 2, 2, 4,
        6, 4, 1,
    ],
    dtype=int,
)  # fmt: skip
X_RAYED_CASES = np.array(
    [
        3, 5, 2, 7, 7, 2, 5, 3, 5, 11, 6, 6, 11, 4, 4, 2, 8, 8, 6, 5, 15, 4, 9, 9, 4, 12, 8, 8, 6,
        8, 12, 4, 7, 16, 12, 9, 4, 7, 8, 11, 5, 12, 8, 17, 9, 3, 2, 7, 6, 5, 11, 14, 13, 8, 6, 4,
        8, 4, 8, 7, 15, 15, 9, 9, 5, 6, 3, 9, 12, 14, 16, 17, 8, 8, 9, 5, 9, 11, 6, 14, 21, 16, 6,
        9, 8, 9, 8, 4, 11, 11, 6, 9, 4, 4, 9, 9, 10, 14, 6, 3, 4, 6, 10, 4, 3, 3, 10, 4, 10, 5, 4,
        3, 13, 1, 7, 5, 7, 6, 3, 7,
    ],
    dtype=int,
)  # fmt: skip

CLASSICS = [
    Classic(
        pumps,
        (PUMP_TIME,),
        {"failures": FAILURES},
        {
            "theta": Published(
                [0.0602, 0.1010, 0.0893, 0.1163, 0.599, 0.608, 0.895, 0.876, 1.583, 1.983],
                [0.0252, 0.0781, 0.0378, 0.0305, 0.315, 0.137, 0.731, 0.710, 0.763, 0.424],
            ),
            "alpha": Published(0.706, 0.272),
            "beta": Published(0.949, 0.549),
        },
        "JAGS, classic-bugs, pump",
    ),
    Classic(
        seeds,
        (NUM_SEEDS, IS_OTHER_SEED, IS_CUCUMBER),
        {"germinated": GERMINATED},
        {
            "alpha0": Published(-0.549, 0.192),
            "alpha1": Published(0.081, 0.310),
            "alpha2": Published(1.343, 0.264),
            "alpha12": Published(-0.818, 0.432),
            "sigma": Published(0.282, 0.141),
        },
        "JAGS, classic-bugs, seeds",
    ),
    Classic(
        surgical,
        (NUM_OPERATIONS,),
        {"deaths": DEATHS},
        {
            "mu": Published(-2.558, 0.154),
            "pop_mean": Published(0.0726, 0.0102),
            "sigma": Published(0.408, 0.161),
        },
        "OpenBUGS, examples, volume 1, surgical: a realistic model",
    ),
    Classic(
        salm,
        (DOSE,),
        {"colonies": COLONIES},
        {
            "alpha": Published(2.161, 0.353),
            "beta": Published(0.315, 0.0954),
            "gamma": Published(-0.000994, 0.000427),
            "sigma": Published(0.259, 0.0781),
        },
        "JAGS, classic-bugs, salm",
    ),
    Classic(
        epil,
        (SEIZURES_BEFORE, IS_TREATED, EPILEPTIC_AGE),
        {"seizures": SEIZURES},
        {
            "alpha0": Published(-1.372, 1.246),
            "alpha_base": Published(0.874, 0.139),
            "alpha_trt": Published(-0.961, 0.427),
            "alpha_bt": Published(0.355, 0.218),
            "alpha_age": Published(0.480, 0.364),
            "alpha_v4": Published(-0.101, 0.0875),
            "sigma_b1": Published(0.499, 0.0715),
            "sigma_b": Published(0.363, 0.0442),
        },
        "JAGS, classic-bugs, epil3",
    ),
    Classic(
        blocker,
        (NUM_CONTROL, NUM_TREATED),
        {"control": CONTROL, "treated": TREATED},
        {
            "d": Published(-0.253, 0.0598),
            "delta_new": Published(-0.255, 0.144),
            "sigma": Published(0.115, 0.0683),
        },
        "JAGS, classic-bugs, blocker, with normal effects",
    ),
    Classic(
        oxford,
        (YEAR, NUM_CHILDREN, NUM_CHILDREN),
        {"control": X_RAYED_CONTROL, "cases": X_RAYED_CASES},
        {
            "alpha": Published(0.579, 0.0654),
            "beta1": Published(-0.0461, 0.0149),
            "beta2": Published(0.00703, 0.00305),
            "sigma": Published(0.123, 0.0859),
        },
        "JAGS, classic-bugs, oxford, whose sigma is uniform",
    ),
]
