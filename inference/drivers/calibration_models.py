"""Models that calibration fits: conditioned on simulated data, or on observed data as well."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import ppl
from ppl.core.model_pytree import as_pytree
from ppl.harvest.pytrees import register_dataclass

Values = dict[str, Any]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Conditioned:
    """Model of a key and data: `model` conditioned on the data."""

    model: Any

    def __call__(self, key: jax.Array, data: Values, *args: Any) -> Any:
        """Runs the conditioned model."""
        return ppl.condition(self.model, data)(key, *args)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Combined:
    """Model of a key and replicated data: `model` conditioned on them and on observed ones.

    The density of the model is the density of the latent sites given both, over unconstrained
    space. The values of the latent sites are deterministic sites of their own names.
    """

    model: Any
    observed: Values

    def __call__(self, key: jax.Array, data: Values, *args: Any) -> None:
        """Runs the combined model."""
        target = ppl.unconstrain(ppl.condition(self.model, self.observed), *args)
        again = ppl.unconstrain(ppl.condition(self.model, data), *args)

        def log_density(position: Any) -> jax.Array:
            return target.log_density(position) + again.prior_and_likelihood(position)[1]

        flat = ppl.from_density(log_density, target.position_shapes)
        position = ppl.nest(flat, scope="position")(key)
        for name, value in target.constrain(position).items():
            ppl.deterministic(value, name=name)


def pick(values: Mapping[str, Any], names: Sequence[str]) -> Values:
    """Values of some sites, scopes joined by dots in their names, as a nested dict."""
    out: Values = {}
    for name in names:
        value: Any = values
        *scopes, last = name.split(".")
        into = out
        for scope in scopes:
            value = value[scope]
            into = into.setdefault(scope, {})
        into[last] = value[last]
    return out


def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> Values:
    """Values of the sites of two nested dicts, as one nested dict."""
    out = dict(one)
    for name, value in other.items():
        is_scope = isinstance(value, Mapping) and isinstance(out.get(name), Mapping)
        out[name] = merge(out[name], value) if is_scope else value
    return out


def log_likelihood(model: Any, values: Values, data: Values, args: Sequence[Any]) -> jax.Array:
    """Log probability of the data given the latent sites."""
    scores = ppl.log_probs(as_pytree(model))(merge(values, data), *args)
    return _sum_without(scores, values)


def _sum_without(scores: Any, latent: Any) -> jax.Array:
    """The sum of all scores but the scores of latent sites by themselves."""
    total = jnp.zeros(())
    for name, score in scores.items():
        own = latent.get(name) if isinstance(latent, Mapping) else None
        if isinstance(score, Mapping):
            total += _sum_without(score, own or {})
        elif own is None:
            total += jnp.sum(score)
    return total
