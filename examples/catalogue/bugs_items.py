"""Classics of BUGS on items: answers to a law school test, and the age of bones."""

import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from examples.catalogue.classic import Classic, Published


def lsat(key, num_students=1000, num_items=5):
    """Rasch model of five items of the Law School Admission Test (Bock and Lieberman 1970)."""
    alpha = ppl.sample(key, dist.Normal(jnp.zeros(num_items), 100.0), name="alpha")
    beta = ppl.sample(key, dist.HalfNormal(100.0), name="beta")
    theta = ppl.sample(key, dist.Normal(jnp.zeros(num_students), 1.0), name="theta")
    logits = beta * theta[:, None] - alpha
    return ppl.sample(key, dist.Bernoulli(logits=logits), name="is_right")


def bones(key, child, item, discrimination, thresholds, num_children=13):
    """Skeletal age of boys from the grades of 34 bones (Roche, Wainer and Thissen 1975).

    Each grade that was seen has a child and an item.
    """
    theta = ppl.sample(key, dist.Normal(jnp.zeros(num_children), 1e3**0.5), name="theta")
    cutpoints = (discrimination[:, None] * thresholds)[item]
    loc = discrimination[item] * theta[child]
    return ppl.sample(key, dist.OrderedLogistic(cutpoints=cutpoints, loc=loc), name="grade")


# Numbers of students by pattern of answers: 00000, 00001, ..., 11111.
NUM_STUDENTS = np.array(
    [
        3, 6, 2, 11, 1, 1, 3, 4, 1, 8, 0, 16, 0, 3, 2, 15, 10, 29, 14, 81, 3, 28, 15, 80, 16, 56,
        21, 173, 11, 61, 28, 298,
    ],
    dtype=int,
)  # fmt: skip
PATTERNS = np.arange(32)[:, None] // 2 ** np.arange(5)[::-1] % 2

# Grades of each bone: one digit for each of 13 boys, 0 for those that were not seen.
GRADES = np.array(
    [
        list(row)
        for row in (
            "1222222222222", "1111111111122", "1111111212022", "1111111222222", "1222222222222",
            "1222222222222", "1111111222022", "1111121222222", "1111211122222", "1111110011122",
            "1111110011020", "1111111111022", "1110111222222", "1111121212222", "1111111112022",
            "1111111111022", "1111222222222", "1111100210122", "1111111112222", "2333333333333",
            "1111223233333", "1111111111033", "1111111111110", "1111111111002", "1111111111120",
            "1111111111112", "1111333333333", "1111111111124", "2344555555555", "1135555555555",
            "1134555555555", "2233455555555", "1111233345555", "1111333445555",
        )
    ],
    dtype=int,
)  # fmt: skip
DISCRIMINATION = np.array(
    [
        2.9541, 0.6603, 0.7965, 1.0495, 5.7874, 3.8376, 0.6324, 0.8272, 0.6968, 0.8747, 0.8136,
        0.8246, 0.6711, 0.978, 1.1528, 1.6923, 1.0331, 0.5381, 1.0688, 8.1123, 0.9974, 1.2656,
        1.1802, 1.368, 1.5435, 1.5006, 1.6766, 1.4297, 3.385, 3.3085, 3.4007, 2.0906, 1.0954,
        1.5329,
    ],
    dtype=float,
)  # fmt: skip
NO_GRADE = [1000.0, 1001.0, 1002.0]  # thresholds above any age, for bones with fewer grades
THRESHOLDS = np.array(
    [
        [0.7425, *NO_GRADE], [10.267, *NO_GRADE], [10.5215, *NO_GRADE], [9.3877, *NO_GRADE],
        [0.2593, *NO_GRADE], [-0.5998, *NO_GRADE], [10.5891, *NO_GRADE], [6.6701, *NO_GRADE],
        [8.8921, *NO_GRADE], [12.4275, *NO_GRADE], [12.4788, *NO_GRADE], [13.7778, *NO_GRADE],
        [5.8374, *NO_GRADE], [6.9485, *NO_GRADE], [13.7184, *NO_GRADE], [14.3476, *NO_GRADE],
        [4.8066, *NO_GRADE], [9.1037, *NO_GRADE], [10.7483, *NO_GRADE],
        [0.3887, 1.0153, *NO_GRADE[:2]], [3.2573, 7.0421, *NO_GRADE[:2]],
        [11.6273, 14.4242, *NO_GRADE[:2]], [15.8842, 17.4685, *NO_GRADE[:2]],
        [14.8926, 16.7409, *NO_GRADE[:2]], [15.5487, 16.872, *NO_GRADE[:2]],
        [15.4091, 17.0061, *NO_GRADE[:2]], [3.9216, 5.2099, *NO_GRADE[:2]],
        [15.475, 16.9406, 17.4944, *NO_GRADE[:1]], [0.4927, 1.3556, 2.3016, 3.2535],
        [1.3059, 1.8793, 2.497, 3.2306], [1.5012, 1.8902, 2.3689, 2.9495],
        [0.8021, 2.3873, 3.9525, 5.3198], [5.0022, 6.3704, 8.2832, 10.4988],
        [4.0168, 5.1537, 7.1053, 10.3038],
    ],
    dtype=float,
)  # fmt: skip
ITEM, CHILD = np.nonzero(GRADES)

CLASSICS = [
    Classic(
        lsat,
        (),
        {"is_right": np.repeat(PATTERNS, NUM_STUDENTS, axis=0)},
        {
            "alpha": Published(
                [-2.746, -1.003, -0.247, -1.313, -2.107], [0.135, 0.0775, 0.0742, 0.0841, 0.109]
            ),
            "beta": Published(0.759, 0.0711),
        },
        "JAGS, classic-bugs, lsat",
    ),
    Classic(
        bones,
        (CHILD, ITEM, DISCRIMINATION, THRESHOLDS),
        {"grade": GRADES[ITEM, CHILD] - 1},
        {
            "theta": Published(
                [
                    0.329,
                    1.362,
                    2.355,
                    2.905,
                    5.529,
                    6.750,
                    6.449,
                    8.930,
                    8.990,
                    11.962,
                    11.568,
                    15.799,
                    16.944,
                ],
                [
                    0.206,
                    0.254,
                    0.276,
                    0.292,
                    0.505,
                    0.600,
                    0.599,
                    0.708,
                    0.669,
                    0.694,
                    0.899,
                    0.565,
                    0.759,
                ],
            ),
        },
        "JAGS, classic-bugs, bones",
    ),
]
