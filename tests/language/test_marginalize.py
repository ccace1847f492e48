"""marginalize: sums equal those over all joint states, with derivatives; draws given the rest."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ppl
from tests.language.sums import SUMS

pytestmark = pytest.mark.usefixtures("x64")


def sum_by_force(case):
    """The log density with all joint states summed, and these states."""
    posterior = case.posterior()
    nodes = ppl.graph(posterior)().nodes
    shapes = {name: nodes[name].shape for name in case.summed}
    places = [n for n, shape in shapes.items() for _ in range(int(np.prod(shape)))]
    rows = np.array(list(itertools.product(*(case.summed[n] for n in places))))
    joint = {}
    for name, shape in shapes.items():
        mine = rows[:, [n == name for n in places]].reshape(-1, *shape)
        joint[name] = jnp.asarray(mine).astype(nodes[name].dtype)

    def log_densities(values):
        return jax.vmap(lambda z: ppl.log_density(posterior)({**values, **z}))(joint)

    return log_densities, joint


def values_of(case):
    values = {"mu": jnp.asarray(case.mu)}
    if case.name == "latent_between":
        values["x"] = jnp.array([0.1, 2.0, 1.0, -1.0, 0.5])
    return values


@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.name)
def test_sums_equal_those_over_all_joint_states(case):
    log_densities, _ = sum_by_force(case)
    summed = ppl.marginalize(case.posterior(), list(case.summed))
    values = values_of(case)

    @jax.jit
    def both(values):
        def by_force(values):
            return jax.nn.logsumexp(log_densities(values))

        found = []
        for f in (ppl.log_density(summed), by_force):
            slope = jax.grad(f)
            along = lambda mu, slope=slope: slope({**values, "mu": mu})["mu"]  # noqa: E731
            found.append((f(values), slope(values), jax.grad(along)(values["mu"])))
        return found

    ours, exact = both(values)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), ours, exact)
