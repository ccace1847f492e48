"""Small programs, each of which asks one thing of `marginalize`, beside plain Python."""

import itertools

import jax
import numpy as np
import pytest

import ppl

from .checks import close
from .integrals import Quadratic
from .oracle import Oracle
from .to_jax import nested, to_model

pytestmark = pytest.mark.usefixtures("x64")

TWO = (0, 1)
SUMS = {
    "states that begin at 2": (
        {"z": (2, 3, 4)},
        """
def model(key):
    def row(key, x):
        z = sample(key, DiscreteUniform(2, 4), name="z")
        return sample(key, Normal(x * z, 1.0), name="y")

    vmap(row)(split(key, 3), real([0.5, -1.0, 2.0]))
""",
    ),
    "other states in each branch": (
        {"g": TWO, "z": (1, 2, 4, 5)},
        """
def model(key):
    g = sample(key, Bernoulli(logits=0.4), name="g")

    def low():
        return sample(key, DiscreteUniform(1, 2), name="z")

    def high():
        return sample(key, DiscreteUniform(4, 5), name="z")

    sample(key, Normal(real(cond(g == 1, low, high)), 1.0), name="y")
""",
    ),
    "a score in branches": (
        {"z": TWO},
        """
def model(key):
    z = sample(key, Bernoulli(logits=0.4), name="z")

    def near():
        return sample(key, Normal(0.0, 1.0), name="y")

    def far():
        return sample(key, Normal(2.0, 3.0), name="y")

    cond(z == 1, near, far)
""",
    ),
    "a start with more states than its chain": (
        {"start": (0, 1, 2), "z": TWO},
        """
def model(key):
    def step(before, row):
        key, x = row
        z = whole(sample(key, Bernoulli(logits=x * before - 0.3), name="z"))
        sample(key, Normal(x + z + 0.5 * before, 1.0), name="y")
        return z, z

    start = whole(sample(key, Categorical(logits=real([0.1, 0.7, -0.4])), name="start"))
    scan(step, start, (split(key, 3), real([0.5, -1.0, 2.0])))
""",
    ),
    "the state before the last": (
        {"z": TWO},
        """
def model(key):
    def step(carry, row):
        key, x = row
        z = whole(sample(key, Bernoulli(logits=x * carry[1] - 0.3), name="z"))
        return (carry[1], z), x

    last, _ = scan(step, (whole(0), whole(1)), (split(key, 3), real([0.5, -1.0, 2.0])))
    sample(key, Normal(2.0 * last[0] + last[1], 1.0), name="end")
""",
    ),
    "all states of a chain at once": (
        {"z": TWO},
        """
def model(key):
    def step(before, row):
        key, x = row
        z = whole(sample(key, Bernoulli(logits=x * before - 0.3), name="z"))
        return z, z

    _, z = scan(step, whole(1), (split(key, 3), real([0.5, -1.0, 2.0])))
    sample(key, Normal(real(z) @ real([1.0, -0.5, 3.0]), 1.0), name="end")
""",
    ),
    "rows of a table, by a loop": (
        {"z": TWO},
        """
def model(key):
    def step(total, row):
        key, z = row
        return total, sample(key, Normal(real([1.0, -2.0]) * z, 1.0), name="y")

    table = real([[0.2, -1.0], [0.5, 1.5], [-0.3, 0.0]])
    z = sample(key, Bernoulli(logits=table), name="z")
    scan(step, real(0.0), (split(key, 3), z))
""",
    ),
    "rows at an index, and an element of each": (
        {"z": TWO},
        """
def model(key):
    def row(key, i):
        loc = 2.0 * z[i, 0] + real(z[i]) @ real([1.0, -0.5])
        return sample(key, Normal(loc, 1.0), name="y")

    table = real([[0.2, -1.0], [0.5, 1.5], [-0.3, 0.0]])
    z = sample(key, Bernoulli(logits=table), name="z")
    vmap(row)(split(key, 4), whole([0, 2, 1, 0]))
""",
    ),
}


OTHERS_BEHIND_PLATES = """
def model(key):
    def step(before, row):
        key, x = row
        new = sample(key, Normal(x * before, 1.0 + x**2), name="x")
        sample(key, Normal(real([1.0, -0.5]) @ new, real([0.5, 1.0, 2.0])), name="y")
        return new, x

    start = xp.zeros((2, 3))
    scan(step, start, (split(key, 2), real([0.5, -1.0])))
"""


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_small_programs(name):
    states, source = SUMS[name]
    oracle = Oracle(source)
    drawn = oracle.run({}, seed=0).values
    data = {path: x for path, x in drawn.items() if path[0] not in states}
    shapes = {path: np.shape(drawn[path]) for path in drawn if path[0] in states}
    rows = {
        path: [np.reshape(row, shape) for row in itertools.product(states[path[0]], repeat=size)]
        for path, shape in shapes.items()
        for size in [int(np.prod(shape))]
    }
    joint = (dict(zip(rows, each, strict=True)) for each in itertools.product(*rows.values()))
    expected = np.logaddexp.reduce([oracle.run(data | x).log_density() for x in joint])
    model = ppl.marginalize(ppl.condition(to_model(source), nested(data)), list(states))
    close("log density", jax.jit(ppl.log_density(model))({}), expected)


def test_axes_of_a_chain_are_put_in_order_and_back():
    """Of a site with axes of steps, of elements that are coupled, and of elements apart."""
    oracle = Oracle(OTHERS_BEHIND_PLATES)
    drawn = oracle.run({}, seed=0).values
    data = {("y",): drawn["y",]}
    shape = drawn["x",].shape
    density = lambda x: oracle.run({**data, ("x",): x.reshape(shape)}).log_density()  # noqa: E731
    expected = Quadratic.of(density, drawn["x",].size).log_integral()
    model = ppl.condition(to_model(OTHERS_BEHIND_PLATES), nested(data))
    found = jax.jit(ppl.log_density(ppl.marginalize(model, {"x": ppl.Gaussian()})))({})
    close("log density", found, expected)
