"""Classic: a model of the BUGS examples with its data and its published posterior."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Published:
    """A published posterior mean and standard deviation of a site, or of each of its elements."""

    mean: Any
    sd: Any


@dataclasses.dataclass(frozen=True)
class Classic:
    """A model, its arguments, its data, and published figures of its posterior.

    Attributes:
        model: The model, `f(key, *args)`.
        args: Its arguments, arrays.
        observed: Values of observed sites.
        published: Figures by site, latent or deterministic.
        source: Where the figures come from.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    observed: Mapping[str, Any]
    published: Mapping[str, Published]
    source: str

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.__name__
