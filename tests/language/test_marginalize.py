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
    sites = {name: ppl.graph(posterior)().nodes[name] for name in case.summed}
    shapes = {name: site.shape for name, site in sites.items()}
    drawn = [ppl.simulate(posterior)(k) for k in jax.random.split(jax.random.key(0), 200)]
    states = {n: np.unique(np.stack([d[n] for d in drawn]).astype(int)) for n in shapes}
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    rows = np.array(
        list(itertools.product(*(states[n] for n in shapes for _ in range(sizes[n]))))
    )
    ends = np.cumsum(list(sizes.values()))
    parts = np.split(rows, ends[:-1], axis=1)
    joint = {
        n: jnp.asarray(part.reshape(-1, *shapes[n])).astype(sites[n].dtype)
        for n, part in zip(shapes, parts, strict=True)
    }

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
    summed = ppl.marginalize(case.posterior(), case.summed)
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
