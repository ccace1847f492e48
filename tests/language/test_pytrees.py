"""Dataclasses as pytrees: structures, leaves of any kind, and types that look alike."""

import dataclasses
import itertools
import pathlib

import jax
import pytest

import ppl
from inference import FullRank, MeanField
from ppl.harvest.pytrees import register_dataclass

ROOT = pathlib.Path(__file__).parents[2]


def kind(number):
    made = dataclasses.make_dataclass("Kind", [("x", float)], frozen=True)
    made.number = number
    return register_dataclass(made)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Line:
    slope: float
    name: str = dataclasses.field(metadata={"static": True})

    def __post_init__(self):
        assert isinstance(self.slope, float)


def test_types_of_like_fields_are_told_apart():
    """JAX 0.10's own registration holds their structures for equal, and jit mixes them up."""
    number = jax.jit(lambda kind: kind.number + 0 * kind.x)
    kinds = [kind(i)(1.0) for i in range(60)]
    assert [int(number(k)) for k in kinds] == list(range(60))
    assert len({jax.tree.structure(k) for k in kinds}) == 60


LIKE = ppl.NonCentred(), ppl.Circular(), MeanField(), FullRank()


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(LIKE, 2)))
def test_ours_are_told_apart(a, b):
    assert jax.tree.structure(a) != jax.tree.structure(b)


def test_only_one_registration_is_used():
    files = [p for d in ("ppl", "distributions", "inference") for p in (ROOT / d).rglob("*.py")]
    used = [p.name for p in files if "@jax.tree_util.register_dataclass" in p.read_text()]
    assert not used


def test_leaves_structure_and_paths():
    line = Line(2.0, "first")
    (path, leaf), *rest = jax.tree_util.tree_flatten_with_path(line)[0]
    assert (jax.tree_util.keystr(path), leaf, rest) == (".slope", 2.0, [])
    assert jax.tree.structure(line) != jax.tree.structure(Line(2.0, "second"))
    assert jax.tree.map(lambda x: 2 * x, line) == Line(4.0, "first")


def test_any_object_may_stand_in_for_a_leaf():
    assert jax.tree.map(lambda _: "leaf", Line(2.0, "first")).slope == "leaf"
