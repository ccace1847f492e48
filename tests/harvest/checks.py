"""Exact comparison of pytrees, and what the tests look for in a jaxpr."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs

TAG = "t"
OTHER = "other"


def floats(*values: Any) -> np.ndarray:
    """A float32 array."""
    return np.array(values, np.float32)


def assert_same(actual: Any, expected: Any) -> None:
    """Equal structure, shapes, dtypes and values. A Python float stands for a float32."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected), (actual, expected)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, e = _as_numpy(a), _as_numpy(e)
        assert (a.shape, a.dtype) == (e.shape, e.dtype), (actual, expected)
        np.testing.assert_array_equal(a, e)


def _as_numpy(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    defaults: dict[type, type] = {bool: np.bool_, int: np.int32, float: np.float32}
    return np.asarray(leaf, defaults.get(type(leaf)))


def stack(trees: list[Any]) -> Any:
    """Pytrees of one structure with a new axis in front."""
    return jax.tree.map(lambda *leaves: np.stack([_as_numpy(x) for x in leaves]), *trees)


def equations(f: Callable[..., Any], *args: Any) -> Iterator[jex.JaxprEqn]:
    """Every equation of the traced function, those of inner jaxprs too."""
    yield from _walk(jax.make_jaxpr(f)(*args).jaxpr)


def _walk(jaxpr: Any) -> Iterator[jex.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jax_core.subjaxprs(eqn):
            yield from _walk(jaxprs.raw(inner)[0])


def primitives(f: Callable[..., Any], *args: Any) -> list[str]:
    """The names of the primitives of a traced function, in program order."""
    return [eqn.primitive.name for eqn in equations(f, *args)]
