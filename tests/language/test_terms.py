"""The audit of keys calls two values equal only if they are, in programs that handle keys at random."""

# ruff: noqa: E501

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import fold_in, key, split

from ppl.analysis.symbolic_evaluation import Occurrence, Symbolic
from ppl.harvest.program import trace
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.survey import Survey


def flat(keys):
    return keys.reshape(-1)


# From a key, an array of keys, an index and a number that is not known, to a key or an array.
OPERATIONS = {
    "split": lambda k, ks, i, n: split(k, i + 2),
    "split-grid": lambda k, ks, i, n: split(k, (2, 3)),
    "fold_in": lambda k, ks, i, n: fold_in(k, i),
    "fold_in-traced": lambda k, ks, i, n: fold_in(k, n),
    "index": lambda k, ks, i, n: ks[i % len(ks)],
    "index-traced": lambda k, ks, i, n: flat(ks)[n % ks.size],
    "tail": lambda k, ks, i, n: ks[i % len(ks) :],
    "inner-slice": lambda k, ks, i, n: ks[..., :2],
    "every-second": lambda k, ks, i, n: ks[i % len(ks) :: 2],
    "reverse": lambda k, ks, i, n: ks[::-1],
    "stack": lambda k, ks, i, n: jnp.stack([k, ks.reshape(-1)[0], k]),
    "concatenate": lambda k, ks, i, n: jnp.concatenate([ks, ks[:1]]),
    "repeat": lambda k, ks, i, n: jnp.repeat(ks, 2, axis=0),
    "repeat-one": lambda k, ks, i, n: jnp.repeat(k[None], i + 1),
    "tile": lambda k, ks, i, n: jnp.tile(flat(ks), 2),
    "broadcast": lambda k, ks, i, n: jnp.broadcast_to(ks, (2, *ks.shape)),
    "flatten": lambda k, ks, i, n: flat(ks),
    "swap": lambda k, ks, i, n: jnp.swapaxes(ks, 0, -1),
    "vmap-split": lambda k, ks, i, n: jax.vmap(lambda k: split(k)[1])(flat(ks)),
    "vmap-unpack": lambda k, ks, i, n: jax.vmap(lambda k: tuple(split(k, 3)))(flat(ks))[i % 3],
    "vmap-fold_in": lambda k, ks, i, n: jax.vmap(lambda k: fold_in(k, i))(flat(ks)),
    "vmap-fold_in-index": lambda k, ks, i, n: jax.vmap(lambda j: fold_in(k, j))(jnp.arange(3)),
    "vmap-fold_in-both": lambda k, ks, i, n: jax.vmap(lambda k: jax.vmap(lambda j: fold_in(k, j))(jnp.arange(2)))(flat(ks)),
    "data": lambda k, ks, i, n: jax.random.wrap_key_data(jax.random.key_data(ks)),
    "vmap-data": lambda k, ks, i, n: jax.vmap(jax.random.wrap_key_data)(jax.random.key_data(flat(ks))),
    "clone": lambda k, ks, i, n: jax.random.clone(k),
    "scan": lambda k, ks, i, n: lax.scan(lambda k, _: tuple(split(k)), k, length=3)[i % 2],
    "scan-over": lambda k, ks, i, n: lax.scan(lambda c, k: (c, split(k)[0]), 0, flat(ks), reverse=bool(i % 2))[1],
    "fori_loop": lambda k, ks, i, n: lax.fori_loop(0, 2, lambda j, k: fold_in(k, j), k),
    "while": lambda k, ks, i, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, fold_in(s[1], s[0])), (0, k))[1],
    "cond": lambda k, ks, i, n: lax.cond(n > i, lambda k: k, lambda k: fold_in(k, 0), k),
    "where": lambda k, ks, i, n: jnp.where(n > i, k, flat(ks)[0]),
}  # fmt: skip


def program(seed):
    """A random sequence of operations, each on results of those before."""

    def run(one, other, n):
        rng = random.Random(seed)
        keys, arrays = [one, other], [split(one, 3)]
        for _ in range(14):
            operation = OPERATIONS[rng.choice(list(OPERATIONS))]
            new = operation(rng.choice(keys), rng.choice(arrays), rng.randrange(3), n)
            if new.size <= 48:
                (arrays if new.ndim else keys).append(new)
        return keys + arrays

    return run


def known(term, value, terms, found):
    """What is said to be equal to what: the values by term, elements of arrays too."""
    found.setdefault(term, set()).add((value.shape, value.tobytes()))
    for i, element in enumerate(value) if value.ndim > 1 else ():
        known(terms.element(term, i), element, terms, found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_values_of_one_term_are_equal(seed):
    args = key(seed), key(100 + seed), jnp.array(seed % 4)
    traced = trace(program(seed), args, {})
    no_sites = Survey(lambda _: False, lambda _: False, CONSTRUCTS)
    symbolic = Symbolic(traced, no_sites, lambda *_: None)
    inputs = [symbolic.terms.of("input", i) for i in range(len(traced.inputs))]
    outs = symbolic._walk(traced.jaxpr, inputs, [True] * len(traced.out_avals), Occurrence())
    found = {}
    for term, keys in zip(outs, program(seed)(*args), strict=True):
        known(term, np.asarray(jax.random.key_data(keys)), symbolic.terms, found)
    assert {term: values for term, values in found.items() if len(values) > 1} == {}
    distinct = set().union(*found.values())
    assert len(found) < 1.6 * len(distinct)  # So most of what is equal is seen to be.
