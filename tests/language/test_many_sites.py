"""Scalar sites of a loop of Python, summed out: right, at a cost for each that does not grow."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import logsumexp

import distributions as dist
import ppl
from ppl.harvest.interpreter import Interpreter
from ppl.marginal.elimination import Eliminator
from ppl.marginal.score_dependence import DependenceReader

pytestmark = pytest.mark.usefixtures("x64")
ROWS = np.array([[0.7, 0.3], [0.2, 0.8]])
VALUES = {"level": np.array([-0.4, 1.1])}


def chain(num, is_chain=True):
    """A hidden Markov model, or a mixture, without its states."""

    def model(key):
        level = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="level")
        z = 0
        for i in range(num):
            z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(ROWS)[z]), name=f"z{i}")
            ppl.sample(key, dist.Normal(level[z], 1.0), name=f"y{i}")
            z = z if is_chain else 0

    data = {f"y{i}": np.sin(i) for i in range(num)}
    return ppl.marginalize(ppl.condition(model, data), [f"z{i}" for i in range(num)])


def by_hand(num, is_chain, level):
    def normal(x, loc):
        return -0.5 * (x - loc) ** 2 - 0.5 * np.log(2 * np.pi)

    each = [normal(np.sin(i), level) for i in range(num)]
    prior = normal(level, 0.0).sum()
    if not is_chain:
        return prior + sum(logsumexp(np.log(ROWS[0]) + x) for x in each)
    alpha = np.log(ROWS[0]) + each[0]
    for x in each[1:]:
        alpha = logsumexp(alpha[:, None] + np.log(ROWS), 0) + x
    return prior + logsumexp(alpha)


@pytest.mark.parametrize("is_chain", [True, False], ids=["chain", "apart"])
def test_density_and_gradient_are_those_by_hand(is_chain):
    found = jax.jit(jax.value_and_grad(ppl.log_density(chain(5, is_chain))))(VALUES)
    hand = functools.partial(by_hand, 5, is_chain)
    value, slope = jax.value_and_grad(hand)(VALUES["level"])
    np.testing.assert_allclose(found[0], value, rtol=1e-12)
    np.testing.assert_allclose(found[1]["level"], slope, rtol=1e-12)


@pytest.mark.parametrize("is_chain", [True, False], ids=["chain", "apart"])
def test_work_grows_as_the_number_of_sites(is_chain, monkeypatch):
    counts = dict.fromkeys(["read", "evaluated", "simplified"], 0)

    def count(kind, name, what):
        real = getattr(kind, name)

        def counted(self, *args):
            counts[what] += 1
            return real(self, *args)

        monkeypatch.setattr(kind, name, counted)

    count(DependenceReader, "_equation", "read")
    count(Interpreter, "_equation", "evaluated")
    count(Eliminator, "_simplify", "simplified")
    found = []
    for num in (4, 8, 16):
        counts.update(dict.fromkeys(counts, 0))
        jax.make_jaxpr(ppl.log_density(chain(num, is_chain)))(VALUES)
        found.append(dict(counts))
    for what in counts:
        few, some, many = (each[what] for each in found)
        assert many - some <= 2 * (some - few) + 2, what
