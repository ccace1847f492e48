"""A model with discrete sites, and its density with these summed out by hand."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln

import ppl


def beta(x, a, b):
    """The log density of Beta(a, b), summed; that of JAX is off by 1e-6."""
    constant = gammaln(a + b) - gammaln(a) - gammaln(b)
    return jnp.sum((a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x) + constant)


@dataclasses.dataclass(frozen=True)
class Discrete:
    """A model with discrete sites to be summed out.

    Attributes:
        model: The model, as a user would write it.
        by_hand: The log density of the other latent sites by name, with the data in it.
        summed: The names of the discrete sites.
        args: The arguments of the model.
        data: The observed sites.
        missing: By observed site, which of its values are missing.
    """

    model: Callable[..., Any]
    by_hand: Callable[[Any], Any]
    summed: tuple[str, ...]
    args: tuple[Any, ...] = ()
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.__name__

    def posterior(self) -> Any:
        """The model conditioned on its data."""
        ignored = {name: ppl.ignore(self.data[name], mask) for name, mask in self.missing.items()}
        return ppl.condition(self.model, {**self.data, **ignored})

    def marginal(self) -> Any:
        """The model conditioned on its data, without its discrete sites."""
        return ppl.marginalize(self.posterior(), self.summed)
