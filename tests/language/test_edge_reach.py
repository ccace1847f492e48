"""Values that leave all bounds as their inputs take all numbers: what is sure of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ppl.marginal.degree import CONSTANT, Degree
from ppl.marginal.edge_reach import Reach, Value, find_reach

pytestmark = pytest.mark.usefixtures("x64")

C = np.array([0.5, 1.5, 2.0])
UNBOUNDED, UNDEFINED = Reach.UNBOUNDED, Reach.UNDEFINED

SURE = [
    (lambda z, c: c * z + 1, 1),
    (lambda z, c: z**3 + 1, 3),
    (lambda z, c: (z * z * z - 2 * z**2).reshape(1, 3), 3),
    (lambda z, c: (z**3.0 + z)[1:] * c[1:], 3),
    (lambda z, c: 1 / (z + 1), UNBOUNDED),
    (lambda z, c: c + (2 * z) ** -3, UNBOUNDED),
    (lambda z, c: jnp.cbrt(z) - c, UNBOUNDED),
    (lambda z, c: jnp.sinh(c * z), UNBOUNDED),
    (lambda z, c: jnp.log(z + c), UNDEFINED),
    (lambda z, c: -jnp.log1p(z), UNDEFINED),
    (lambda z, c: jnp.exp(jnp.sqrt(z + 4)) * jnp.exp(z), UNDEFINED),
    (lambda z, c: z**1.5 + c, UNDEFINED),
    (lambda z, c: jax.lax.scan(lambda s, x: (s + x, jnp.log(s)), 1.0, z)[1], UNDEFINED),
]
UNKNOWN = {
    "exp": lambda z, c: jnp.exp(z),
    "softplus": lambda z, c: jax.nn.softplus(z),
    "sigmoid": lambda z, c: jax.nn.sigmoid(z),
    "sigmoid by hand": lambda z, c: 1 / (1 + jnp.exp(-z)),
    "tanh": lambda z, c: 1 + jnp.tanh(z),
    "ndtr": lambda z, c: jax.scipy.special.ndtr(z),
    "square": lambda z, c: c + (z - 1) ** 2,
    "product": lambda z, c: (z - 1) * (z - 1) + c,
    "quartic": lambda z, c: z**4 - z**3,
    "cosh": lambda z, c: jnp.cosh(z),
    "reciprocal of a square": lambda z, c: 1 / (1 + z**2),
    "root of a square": lambda z, c: jnp.sqrt(1 + z**2),
    "log of a square": lambda z, c: jnp.log(2 + z**2),
    "exp of a cube": lambda z, c: jnp.exp(z**3 + 1 / z),
    "abs": lambda z, c: jnp.abs(z),
    "maximum": lambda z, c: jnp.maximum(z, 0.1),
    "relu": lambda z, c: jax.nn.relu(z) + 0.1,
    "leaky": lambda z, c: jax.nn.leaky_relu(z),
    "clip": lambda z, c: jnp.clip(z, 0.1, 2.0),
    "where": lambda z, c: jnp.where(z > 0, jnp.log(z), c),
    "log of a maximum": lambda z, c: jnp.log(jnp.maximum(z, 0.1)),
    "cubes that cancel": lambda z, c: z**3 - z * z**2 + 1,
    "beside a function": lambda z, c: jnp.exp(z) + 1 + z**3,
    "times a function": lambda z, c: (jnp.cosh(z) + 1) * z**-1 * z,
    "square of a pole": lambda z, c: (1 / z) ** 2,
}


def reach_of(f):
    jaxpr = jax.make_jaxpr(f)(jnp.asarray(C), jnp.asarray(C))
    operands = [Value(Degree(1, frozenset("z")), 1), Value(CONSTANT, 0)]
    return find_reach(jaxpr, operands)[0].reach


@pytest.mark.parametrize(("f", "reach"), SURE)
def test_what_leaves_all_bounds_is_known(f, reach):
    assert reach_of(f) == reach


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_be_bounded_is_not_refused(name):
    found = reach_of(UNKNOWN[name])
    assert found is None or (isinstance(found, int) and found % 2 == 0)
