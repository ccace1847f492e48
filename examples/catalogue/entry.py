"""Entry: a model of the catalogue with its data, density by hand and supports."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

Data = tuple[tuple[Any, ...], dict[str, Any]]
Support = Callable[[Any], tuple[Any, float]]


def nonnegative(x: Any) -> tuple[Any, float]:
    """A mask of the numbers that are finite and at least 0, and such a number."""
    return (x >= 0) & (x < jnp.inf), 1.0


def count(x: Any) -> tuple[Any, int]:
    """A mask of the integers that are counts, and a count."""
    return x >= 0, 0


def at_most(most: int) -> Support:
    """Support of counts up to `most`."""
    return lambda x: ((x >= 0) & (x <= most), 0)


def interval(low: float, high: float) -> Support:
    """Support of the numbers between `low` and `high`, with the midpoint as the point inside."""
    return lambda x: ((x > low) & (x < high), (low + high) / 2)


def simplex(x: Any) -> tuple[Any, float]:
    """A mask of the rows that are positive with sum 1, and the elements of such a row."""
    return (x > 0).all(-1) & (abs(x.sum(-1) - 1) < 1e-3), 1 / x.shape[-1]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model, its arguments and data, and its density written by hand.

    Attributes:
        model: The model, `f(key, *args)`.
        inner: The log joint density, `f(values, *args)`, with the values of all sites, observed and
            latent, within their supports. Nothing of this library is used in it.
        simulate: The generator of arguments and data, `rng -> (args, observed)`. Arguments are
            arrays.
        supports: Supports of the sites, observed and latent, that are not the real line.
    """

    model: Callable[..., Any]
    inner: Callable[..., Any]
    simulate: Callable[[np.random.Generator], Data]
    supports: Mapping[str, Support] = dataclasses.field(default_factory=dict)

    def density(self, values: Mapping[str, Any], *args: Any) -> Any:
        """The log joint density by hand; outside the support it is minus infinity.

        The gradient there is finite.
        """
        is_inside, values = jnp.array(True), dict(values)
        for name, support in self.supports.items():
            value = values[name]
            valid, point = support(value)
            values[name] = jnp.where(
                valid[(..., *(None,) * (value.ndim - valid.ndim))], value, point
            )
            is_inside &= valid.all()
        return jnp.where(is_inside, self.inner(values, *args), -jnp.inf)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.__name__

    def data(self) -> Data:
        """The arguments, and the values of observed sites by name, from a fixed seed."""
        return self.simulate(np.random.default_rng(0))


def join(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The union of two dicts, merged scope by scope."""
    both = {k: join(values[k], others[k]) for k in values.keys() & others.keys()}
    return {**values, **others, **both}
