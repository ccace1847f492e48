"""Compiled functions are found again for their own arguments only; what is known of their work."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from inference.programs import program, work_of


def kind(i):
    fields = [("x", float)]
    made = dataclasses.make_dataclass("Kind", fields, frozen=True, namespace={"number": i})
    return jax.tree_util.register_dataclass(made)


def number(kind):
    return kind.number + 0 * kind.x


def test_types_of_like_fields_are_told_apart():
    """JAX 0.10 holds their structures for equal, and mixes up one in ten of so many."""
    kinds = [kind(i)(1.0) for i in range(60)]
    assert [int(program(number, kind)(kind)) for kind in kinds] == list(range(60))


X = jnp.ones((3, 40, 5))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda: X + 1, (0, False)),
        (lambda: X.sum(), (600, False)),
        (lambda: X.sum(1).max(), (600, False)),
        (lambda: jax.jit(jnp.sum)(X) + X[0].sum(), (600, False)),
        (lambda: jax.lax.map(lambda x: x.sum(), X), (200, False)),
        (lambda: jax.lax.cond(X[0, 0, 0] > 0, lambda: X.sum(), lambda: X[0].sum()), (600, False)),
        (lambda: X[0] @ X[0, 0], (0, False)),
        (lambda: X[0, :, 0] @ X[0], (0, False)),
        (lambda: jnp.einsum("bij,bj->bi", X, X[:, 0]), (0, False)),
        (lambda: X[0] @ X[0].T, (0, True)),
        (lambda: jnp.einsum("bij,bkj->bik", X, X), (0, True)),
        (lambda: jnp.convolve(X[0, :, 0], X[0, 0]), (0, True)),
        (lambda: jax.lax.map(lambda x: (x @ x.T).sum(1), X), (1600, True)),
    ],
)
def test_the_work_of_a_program(f, expected):
    """The largest array that is summed, and whether a product has matrices on both sides."""
    assert work_of(jax.make_jaxpr(f)().jaxpr) == expected
