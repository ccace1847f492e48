"""Twenty models with discrete sites: what marginalize makes equals the sum by hand, to 1e-10."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ppl
from tests.models import discrete_chains, discrete_mixtures

MODELS = [*discrete_mixtures.MODELS, *discrete_chains.MODELS]
pytestmark = pytest.mark.usefixtures("x64")
EVERY_MODEL = pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)


@pytest.mark.quick_rows("dawid_skene", "capture_recapture")
@EVERY_MODEL
def test_density_and_gradient(case):
    target = ppl.unconstrain(case.marginal(), *case.args)
    ours = lambda values: ppl.log_density(case.marginal())(values, *case.args)  # noqa: E731

    @jax.jit
    def both(position):
        values = target.constrain(position)
        return [jax.value_and_grad(f)(values) for f in (ours, case.by_hand)]

    rng = np.random.default_rng(1)
    avals = jax.eval_shape(target.initial, jax.random.key(0))
    for _ in range(3):
        position = jax.tree.map(lambda x: rng.uniform(-2, 2, x.shape).astype(x.dtype), avals)
        found, exact = both(position)
        assert np.isfinite(exact[0])
        np.testing.assert_allclose(found[0], exact[0], rtol=1e-10)
        # Along a simplex gradients are equal but for a constant.
        pairs = [target_gradient(target, position, values) for values in (found[1], exact[1])]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), *pairs)


def target_gradient(target, position, gradient):
    """The gradient with respect to the position, from that with respect to the values."""
    return jax.vjp(target.constrain, position)[1](gradient)[0]


@pytest.mark.quick_rows("groups_of_classes")
@EVERY_MODEL
def test_what_is_recovered_has_the_shape_and_states_of_the_sites(case):
    drawn = ppl.simulate(case.posterior())(jax.random.key(0), *case.args)
    rest = {name: x for name, x in drawn.items() if name not in (*case.summed, *case.data)}
    draws = jax.tree.map(lambda x: jnp.stack([x] * 3), rest)
    found = ppl.recover(case.marginal(), draws)(jax.random.key(1), *case.args)
    assert set(found) == set(case.summed)
    for name in case.summed:
        assert (found[name].shape, found[name].dtype) == (
            (3, *drawn[name].shape),
            drawn[name].dtype,
        )
        joint = ppl.log_density(case.posterior())
    for i in range(3):
        values = {**rest, **{name: x[i] for name, x in found.items()}}
        assert joint(values, *case.args) > -np.inf
