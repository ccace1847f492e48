"""log_density and log_probs: a model scored at given values."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ppl.core.model_pytree import Model
from ppl.core.model_run import ModelRun, SiteAction, score, trace_model
from ppl.harvest._interpreter import Operands
from ppl.harvest._names import nest_by_path
from ppl.harvest._sow import Site
from ppl.primitives.site_kinds import FACTOR, RANDOM


@dataclasses.dataclass(frozen=True)
class LogProbs(SiteAction):
    """Log probabilities are recorded as they are."""

    tags: ClassVar = (RANDOM, FACTOR)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        return score(site, operands, operands.values if plant is None else plant)


@dataclasses.dataclass(frozen=True)
class Scores(SiteAction):
    """Log probabilities are summed where they arise, and kept apart by site."""

    tags: ClassVar = (RANDOM, FACTOR)
    batched: ClassVar[bool] = False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        return score(site, operands, operands.values if plant is None else plant, summed=True)


@dataclasses.dataclass(frozen=True)
class LogDensity(Scores):
    """Log probabilities are summed where they arise, and of all sites."""

    adds: ClassVar[bool] = True
    at_once: ClassVar[bool] = True


def total(records: Mapping[Any, jax.Array]) -> jax.Array:
    """The sum over sites."""
    return functools.reduce(operator.add, records.values()) if records else jnp.zeros(())


def _check_first(what: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{what}: expected a dict of values by site, before the arguments of the model, got "
            f"{type(values).__name__}: {values!r}. Call {what}(model)(values, *args)."
        )


def log_density(model: Model) -> Callable[..., jax.Array]:
    """The log density of all sites together: `(values, *args, **kwargs) -> scalar`.

    log p(values, data | args) = sum over sites of log p(site | the sites before it)

    It is unnormalised as a function of the latent values if sites are observed.

    Args:
        model: A function of a random key.

    Returns:
        A function of a dict of the values of all latent sites, nested as the scopes are, and of the
        arguments of the model without its key. Outside of the support it is -inf.

    Raises:
        ValueError: When called, if a name is missing, unknown, observed or used twice, if a value
            has another shape than its site, or if the model uses its key elsewhere than in
            `sample`.
        TypeError: When called, if a value has another kind of dtype.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key, scale):
        ...     return ppl.sample(key, dist.Normal(0.0, scale), name="x")
        >>> round(ppl.log_density(model)({"x": 1.0}, 2.0).item(), 4)
        -1.7371
    """

    def density(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> jax.Array:
        _check_first("log_density", values)
        run = ModelRun(model, trace_model(model, None, args, kwargs), LogDensity())
        return total(run.records(run.fit(values, "log_density", complete=True)))

    return density


def log_probs(model: Model) -> Callable[..., dict[str, Any]]:
    """The log probability of every site: `(values, *args, **kwargs) -> dict`.

    Args:
        model: A function of a random key.

    Returns:
        A function of the same arguments as `log_density(model)`, that gives by site the log
        probability for each element of `vmap` and loop axes and of the distribution's batch.

    Raises:
        ValueError: As `log_density`.
        TypeError: As `log_density`.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key):
        ...     return ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
        >>> ppl.log_probs(model)({"x": jnp.zeros(2)})["x"].shape
        (2,)
    """

    def probs(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        _check_first("log_probs", values)
        run = ModelRun(model, trace_model(model, None, args, kwargs), LogProbs())
        return nest_by_path(run.records(run.fit(values, "log_probs", complete=True)))

    return probs
