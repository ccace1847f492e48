"""What the tests of the language share: comparison at a tolerance, and counts of tracings."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy import stats

import distributions as dist
import ppl

CLOSE = {"float64": 1e-10, "float32": 1e-5}


def assert_close(actual: Any, expected: Any, dtype: str = "float64") -> None:
    """Equal structure and shapes; leaves as near as `dtype` allows, relative to their maximum."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected), (actual, expected)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, e = np.asarray(a), np.asarray(e)
        assert a.shape == e.shape, (actual, expected)
        scale = max(1.0, np.max(np.abs(e), initial=0.0, where=np.isfinite(e)))
        np.testing.assert_allclose(a, e, rtol=0, atol=CLOSE[dtype] * scale)


def assert_equal(actual: Any, expected: Any) -> None:
    """Equal structure, and every leaf bit for bit."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected), (actual, expected)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def shapes(tree: Any) -> Any:
    """A pytree of arrays as one of shapes."""
    return jax.tree.map(jnp.shape, tree)


def check_determinant(
    model: Any, key: Any, free: Mapping[str, Callable[[Any], Any]], target: Any = None
) -> None:
    """The density of a position is that of its values and the determinant, the map has an inverse.

    The determinant is that of the free coordinates of each site, which are all but for `free`. The
    target is the model's, unless another one is given.
    """
    target = ppl.unconstrain(model) if target is None else target
    position = jax.jit(target.initial)(key)
    flat, unravel = ravel_pytree(position)

    def values(flat: Any) -> Any:
        values = target.constrain(unravel(flat))
        return ravel_pytree([free.get(name, lambda x: x)(x) for name, x in values.items()])[0]

    @jax.jit
    def both(flat: Any) -> Any:
        at = target.constrain(unravel(flat))
        log_det = jnp.linalg.slogdet(jax.jacfwd(values)(flat))[1]
        by_hand = ppl.log_density(model)(at) + log_det
        return target.log_density(unravel(flat)), by_hand, target.unconstrain(at)

    ours, by_hand, back = both(flat)
    assert jnp.isfinite(by_hand)
    assert_close(ours, by_hand)
    assert_close(back, position)


class Calls:
    """Counts; one of them is part of a pytree's structure, so it is compared by identity."""

    def __init__(self) -> None:
        self.sample = self.log_prob = 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Counted:
    """A user's own distribution, Normal(loc, 1), that counts the tracings of its methods."""

    loc: Any
    calls: Calls = dataclasses.field(metadata={"static": True})

    event_shape = ()
    bijector = dist.bijectors.Identity()

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.loc)

    @property
    def dtype(self) -> Any:
        return jnp.result_type(self.loc, float)

    def sample(self, key: Any) -> jax.Array:
        self.calls.sample += 1
        return self.loc + jax.random.normal(key, self.batch_shape, self.dtype)

    def log_prob(self, value: Any) -> jax.Array:
        self.calls.log_prob += 1
        return stats.norm.logpdf(value, self.loc)


def counting(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[None]]:
    """`f` jitted, and a list that grows by one each time that it is traced."""
    traces: list[None] = []

    def counted(*args: Any) -> Any:
        traces.append(None)
        return f(*args)

    return jax.jit(counted), traces
