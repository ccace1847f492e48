"""Models with normal sites: what marginalize makes equals the integral by hand, to 1e-10."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ppl
from tests.models import normal_chains, normal_counts, normal_mixed

MODELS = [*normal_mixed.MODELS, *normal_counts.MODELS, *normal_chains.MODELS]
EVERY_MODEL = pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
IS_EXACT = {
    case.name: not any(isinstance(how, ppl.Laplace) for how in case.strategies.values())
    for case in MODELS
}
EXACT_MODELS = pytest.mark.parametrize(
    "case", [case for case in MODELS if IS_EXACT[case.name]], ids=lambda case: case.name
)
STEP = 1e-3


def position_of(target, seed=1):
    avals = jax.eval_shape(target.initial, jax.random.key(0))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: rng.uniform(-1, 1, x.shape).astype(x.dtype), avals)


@pytest.mark.usefixtures("x64")
@pytest.mark.quick_rows("effects_in_a_scope", "crossed_counts")
@EVERY_MODEL
def test_density_and_gradient(case):
    target = ppl.unconstrain(case.marginal(), *case.args)
    density = ppl.log_density(case.marginal())
    position, direction = position_of(target), position_of(target, 2)
    along = lambda t: jax.tree.map(lambda x, v: x + t * v, position, direction)  # noqa: E731
    values = jax.vmap(lambda t: target.constrain(along(t)))(STEP * jnp.arange(-2.0, 3.0))

    @jax.jit
    def both(t):
        return jax.value_and_grad(lambda t: density(target.constrain(along(t)), *case.args))(t)

    found, slope = both(0.0)
    each = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), values) for i in range(5)]
    exact = list(map(case.by_hand, each))
    np.testing.assert_allclose(found, exact[2], rtol=1e-10)
    by_hand = (exact[0] - 8 * exact[1] + 8 * exact[3] - exact[4]) / (12 * STEP)
    np.testing.assert_allclose(slope, by_hand, rtol=1e-7, atol=1e-7)


@pytest.mark.quick_rows("nested")
@EVERY_MODEL
def test_single_precision(case):
    case = copy.deepcopy(case)  # JAX keeps the dtype of an array's copy under x64 while that lives
    target = ppl.unconstrain(case.marginal(), *case.args)
    position = position_of(target)
    values = jax.tree.map(np.asarray, target.constrain(position))
    density = ppl.log_density(case.marginal())
    found = jax.jit(jax.value_and_grad(lambda v: density(v, *case.args)))(values)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(found))
    in_double = jax.tree.map(lambda x: x.astype(np.float64), values)
    np.testing.assert_allclose(found[0], case.by_hand(in_double), rtol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.quick_rows("varying_intercepts")
@EXACT_MODELS
def test_recovered_normal_sites_have_the_moments_of_exact_draws(case):
    """Identity of Stein: E[x score(x)^T] = -I about the mean, and E[score(x)] = 0."""
    num = 4000
    marginal, posterior = case.marginal(), ppl.log_density(case.posterior())
    target = ppl.unconstrain(marginal, *case.args)
    rest = target.constrain(position_of(target))
    draws = jax.tree.map(lambda x: jnp.broadcast_to(x, (num, *x.shape)), rest)
    found = keep(ppl.recover(marginal, draws)(jax.random.key(1), *case.args), case.summed)
    flags = {"flag": found.pop("flag")} if "flag" in found else {}

    def score(normal, flags):
        return jax.grad(lambda x: posterior(merge({**rest, **flags}, x), *case.args))(normal)

    scores = jax.jit(jax.vmap(score))(found, flags)
    x, s = (
        np.concatenate([np.reshape(leaf, (num, -1)) for leaf in jax.tree.leaves(tree)], 1)
        for tree in (found, scores)
    )
    assert np.all(np.abs(s.mean(0)) < 4.5 * s.std(0) / np.sqrt(num))
    products = (x - x.mean(0))[:, :, None] * s[:, None]

    def excess(products):
        """The largest error in standard errors."""
        errors = np.abs(products.mean(0) + np.eye(x.shape[1])) / products.std(0)
        return np.max(errors) * np.sqrt(num)

    assert excess(products) < 5
    assert excess(1.3 * products) > 5  # those of draws that are too wide


def keep(values, names):
    """The values of sites by dotted names, in dicts of scopes."""
    found = {}
    for name in names:
        scope, _, last = name.rpartition(".")
        of, into = (values[scope], found.setdefault(scope, {})) if scope else (values, found)
        into[last] = jnp.asarray(of[last])
    return found


def merge(a, b):
    both = a.keys() & b.keys()
    return {**a, **b, **{name: merge(a[name], b[name]) for name in both}}


@pytest.mark.usefixtures("x64")
@pytest.mark.quick_rows("outlying_groups")
@EXACT_MODELS
def test_the_rule_takes_out_what_a_user_would(case):
    plan = ppl.auto_marginal(case.posterior())(*case.args)
    assert {name: type(how) for name, how in plan.items()} == {
        name: type(how) for name, how in case.strategies.items()
    }


@pytest.mark.quick_rows("panel")
@EVERY_MODEL
def test_the_graph_shows_what_is_taken_out(case):
    case = copy.deepcopy(case)  # as above
    nodes = ppl.graph(case.marginal())(*case.args).nodes
    assert {name for name, node in nodes.items() if node.kind == "summed"} == set(case.summed)
    assert nodes["y"].kind == "observed"
