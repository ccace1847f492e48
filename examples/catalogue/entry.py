"""What the catalogue holds of a model."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Data = tuple[tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model, its arguments and data, and its density written by hand.

    Attributes:
        model: `f(key, *args)`.
        density: `(values, *args) -> log joint density`, with the values of all sites, observed and
            latent. It uses nothing of this library.
        simulate: Makes arguments and data: `rng -> (args, observed)`. Arguments are arrays.
    """

    model: Callable[..., Any]
    density: Callable[..., Any]
    simulate: Callable[[np.random.Generator], Data]

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
