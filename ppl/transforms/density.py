"""log_density and log_probs: the log density of a model at given values, in total or by site."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ppl.core.joint_scores import name_scores, score_by_step
from ppl.core.model_pytree import Model
from ppl.core.model_run import ModelRun, SiteAction, score, trace_model
from ppl.harvest.interpreter import Operands
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.names import nest_by_path
from ppl.harvest.sowing import Site
from ppl.primitives.site_kinds import FACTOR, RANDOM


@dataclasses.dataclass(frozen=True)
class LogProbs(SiteAction):
    """Action of `log_probs`: records the log probability of each element of a site."""

    tags: ClassVar = (RANDOM, FACTOR)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Score the planted value, or the sown one if there is no plant."""
        values = operands.values if plant is None else plant
        return score(score_by_step(site), operands, values)


@dataclasses.dataclass(frozen=True)
class Scores(SiteAction):
    """Action that records the log probability of each site, summed over its elements."""

    tags: ClassVar = (RANDOM, FACTOR)
    batched: ClassVar[bool] = False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Score the planted value, or the sown one if there is no plant, summed over the site."""
        return score(site, operands, operands.values if plant is None else plant, summed=True)


@dataclasses.dataclass(frozen=True)
class LogDensity(Scores):
    """Action of `log_density`: records the sum of the log probabilities of all sites."""

    adds: ClassVar[bool] = True
    at_once: ClassVar[bool] = True


def total(records: Mapping[Any, jax.Array]) -> jax.Array:
    """The sum of the records of all sites, 0 if there are none."""
    return functools.reduce(operator.add, records.values()) if records else jnp.zeros(())


def _check_first(what: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{what}: expected a dict of values by site, before the arguments of the model, got "
            f"{type(values).__name__}: {short_repr(values)}. Call {what}(model)(values, *args)."
        )


def log_density(model: Model) -> Callable[..., jax.Array]:
    """The log density of all sites together: `(values, *args, **kwargs) -> scalar`.

    log p(values, data | args) = sum over sites of log p(site | the sites before it)

    If sites are observed, this is an unnormalized log density of the latent values.

    Args:
        model: A function of a random key.

    Returns:
        A function of a dict of the values of all latent sites, nested as the scopes are, and of the
        arguments of the model without its key. It gives -inf outside of the support.

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
        A function of the same arguments as `log_density(model)`. It gives a dict by site of log
        probabilities, one for each element of `vmap` axes, loops and the distribution's batch. In
        a marginalized model, entries that are scored together share one log probability a group,
        under a joint name such as "z.y". The sum of all log probabilities is the log density.

    Raises:
        ValueError: In the cases of `log_density`.
        TypeError: In the cases of `log_density`.

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
        records = run.records(run.fit(values, "log_probs", complete=True))
        return nest_by_path(name_scores(run.sites, records))

    return probs
