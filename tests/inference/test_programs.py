"""Compiled functions are found again for their own arguments only."""

import dataclasses

import jax

from inference.programs import program


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
