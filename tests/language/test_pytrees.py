"""Dataclasses as pytrees: structures, leaves of any kind, and types that look alike."""

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
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


LIKE = ppl.NonCentered(), ppl.Circular(), MeanField(), FullRank()


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(LIKE, 2)))
def test_ours_are_told_apart(a, b):
    assert jax.tree.structure(a) != jax.tree.structure(b)


def test_only_one_registration_is_used():
    files = [p for d in ("ppl", "distributions", "inference") for p in (ROOT / d).rglob("*.py")]
    decorator = re.compile(r"^\s*@jax.tree_util.register_dataclass", re.MULTILINE)
    used = [p.name for p in files if decorator.search(p.read_text())]
    assert decorator.search("@jax.tree_util.register_dataclass")
    assert not used


def test_leaves_structure_and_paths():
    line = Line(2.0, "first")
    (path, leaf), *rest = jax.tree_util.tree_flatten_with_path(line)[0]
    assert (jax.tree_util.keystr(path), leaf, rest) == (".slope", 2.0, [])
    assert jax.tree.structure(line) != jax.tree.structure(Line(2.0, "second"))
    assert jax.tree.map(lambda x: 2 * x, line) == Line(4.0, "first")


def test_any_object_may_stand_in_for_a_leaf():
    assert jax.tree.map(lambda _: "leaf", Line(2.0, "first")).slope == "leaf"


@dataclasses.dataclass(frozen=True)
class Shifted:
    """A model that neither has a hash nor can be compared."""

    shift: np.ndarray

    def __call__(self, key):
        ppl.sample(key, dist.Normal(self.shift, 1e-3), name="x")


class Network(eqx.Module):
    """A model of which a leaf is a function."""

    weight: jax.Array
    activation: Callable[[jax.Array], jax.Array]

    def __call__(self, key):
        ppl.sample(key, dist.Normal(self.activation(self.weight), 1e-3), name="x")


def test_new_weights_of_a_module_are_not_traced_again():
    traced = []
    posterior = lambda x: ppl.condition(Network(jnp.full(3, x), jax.nn.relu), {})  # noqa: E731

    @jax.jit
    def density(target):
        traced.append(target)
        return target.log_density({"x": jnp.full(3, 2.0)})

    values = [density(ppl.unconstrain(posterior(x))) for x in (1.0, 2.0)]
    assert len(traced) == 1
    assert values[0] < 0 < values[1]


MODELS = {
    "dataclass of NumPy arrays": lambda x: Shifted(np.full(3, x, np.float32)),
    "module with functions": lambda x: Network(jnp.full(3, x), jax.nn.relu),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_objects_of_any_kind_are_models(make):
    for shift in (1.0, 2.0):
        model = make(shift)
        assert jnp.allclose(ppl.predict(model, 2)(jax.random.key(0))["x"], shift, atol=0.1)
        target = ppl.unconstrain(model)
        density = jax.jit(lambda target: target.log_density({"x": jnp.full(3, 2.0)}))
        assert (density(target) > 0) == (shift == 2.0)
        with pytest.raises(ValueError, match=f"model '{type(model).__name__}' has no site 'y'"):
            ppl.condition(model, {"y": 0.0})(jax.random.key(0))
