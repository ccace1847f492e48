"""What the catalogue holds of a model."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

Data = tuple[tuple[Any, ...], dict[str, Any]]
Support = Callable[[Any], tuple[Any, float]]


def nonnegative(x: Any) -> tuple[Any, float]:
    """Which numbers are finite and at least 0, and a point that is."""
    return (x >= 0) & (x < jnp.inf), 1.0


def count(x: Any) -> tuple[Any, int]:
    """Which integers are counts, and one that is."""
    return x >= 0, 0


def at_most(most: int) -> Support:
    """Which integers are counts up to `most`, and one that is."""
    return lambda x: ((x >= 0) & (x <= most), 0)


def interval(low: float, high: float) -> Support:
    """Which numbers are between two, and the point in the middle."""
    return lambda x: ((x > low) & (x < high), (low + high) / 2)


def simplex(x: Any) -> tuple[Any, float]:
    """Which rows are positive and of sum 1, and the numbers of a row that is."""
    return (x > 0).all(-1) & (abs(x.sum(-1) - 1) < 1e-3), 1 / x.shape[-1]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model, its arguments and data, and its density written by hand.

    Attributes:
        model: `f(key, *args)`.
        inner: `(values, *args) -> log joint density`, with the values of all sites, observed and
            latent, within their supports. It uses nothing of this library.
        simulate: Makes arguments and data: `rng -> (args, observed)`. Arguments are arrays.
        supports: Those of the sites, observed and latent, that are not real.
    """

    model: Callable[..., Any]
    inner: Callable[..., Any]
    simulate: Callable[[np.random.Generator], Data]
    supports: Mapping[str, Support] = dataclasses.field(default_factory=dict)

    def density(self, values: Mapping[str, Any], *args: Any) -> Any:
        """The log joint density by hand: `-inf`, and with a finite gradient, out of the support."""
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
        """That of the model."""
        return self.model.__name__

    def data(self) -> Data:
        """The arguments, and the values of the observed sites by name: the same every time."""
        return self.simulate(np.random.default_rng(0))


def join(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The union of two dicts, scope by scope."""
    both = {k: join(values[k], others[k]) for k in values.keys() & others.keys()}
    return {**values, **others, **both}
