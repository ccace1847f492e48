"""scale: the log probabilities of a model times a factor, as for a minibatch."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ppl.common import distribution_protocol
from ppl.core.model_pytree import as_pytree
from ppl.core.model_run import SiteAction
from ppl.core.replaced_distribution import replace_distribution
from ppl.harvest import _jax, _values
from ppl.harvest._harvest import sow_again
from ppl.harvest._interpreter import Operands
from ppl.harvest._program import Harvester, trace
from ppl.harvest._sow import Site
from ppl.harvest.pytrees import register_dataclass
from ppl.primitives.site_kinds import FACTOR, RANDOM


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Scaled(distribution_protocol.DistributionWrapper):
    """A distribution with its log probability multiplied by `factor`."""

    base: Any
    factor: Any

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability under `base` times the factor, -inf outside of the support."""
        return _multiply_score(distribution_protocol.log_prob(self.base, value), self.factor)

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The value, and its scaled log probability plus the unscaled log determinant."""
        value, log_density = distribution_protocol.constrain(self.base, position)
        unscaled = distribution_protocol.log_prob(self.base, value)
        finite = jnp.where(unscaled == -jnp.inf, 0, unscaled)
        return value, log_density + distribution_protocol.sum_all(
            _multiply_score(finite, self.factor) - finite
        )


@dataclasses.dataclass(frozen=True)
class Multiply(SiteAction):
    """Action of `scale`: multiplies log probabilities and factors."""

    factor: Any = None
    records = False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands."""
        return True, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Sow the site again: a random one in `Scaled`, a factor multiplied."""
        if site.tag == RANDOM:
            make = lambda d: Scaled(d, self.factor)  # noqa: E731
            site, operands = replace_distribution(site, operands, make)
        elif site.tag == FACTOR:
            values = [_multiply_score(x, self.factor) for x in operands.values]
            operands = dataclasses.replace(operands, values=tuple(values))
        return sow_again(site, operands), None


def scale(f: Callable[..., Any], factor: Any) -> Callable[..., Any]:
    """Multiply the log probabilities of all sites in a function, and its factors.

    With a random minibatch of a data set, `scale(likelihood, len(data) / len(batch))` gives an
    unbiased estimate of the log likelihood of all data. Draws stay as they are.

    Args:
        f: A model or a part of one, any function that samples.
        factor: A number or a scalar array, not negative, finite.

    Returns:
        A function of the same arguments: a pytree whose leaf is the factor.

    Raises:
        ValueError: If `factor` is known to be negative or not finite, or is no scalar.
        TypeError: If `factor` is no real number.

    Example:
        >>> import ppl, distributions as dist
        >>> def likelihood(key, x):
        ...     return ppl.sample(key, dist.Normal(x, 1.0), name="y")
        >>> half = ppl.scale(likelihood, 0.5)
        >>> round(ppl.log_density(half)({"y": 0.0}, 0.0).item(), 4)
        -0.4595
    """
    factor = _check_factor(factor)
    return Partial(_run_scaled, as_pytree(f), factor)


def _run_scaled(f: Callable[..., Any], factor: Any, *args: Any, **kwargs: Any) -> Any:
    program = trace(f, args, kwargs)
    return program.unflatten(Harvester(program, Multiply(factor)).run({})[0])


def _multiply_score(log_prob: jax.Array, factor: Any) -> jax.Array:
    product = log_prob * jnp.asarray(factor, log_prob.dtype)
    return jnp.where(log_prob == -jnp.inf, log_prob, product)


def _check_factor(factor: Any) -> jax.Array:
    try:
        factor = _values.as_array(factor)
    except TypeError as error:
        raise TypeError(f"scale: expected a number as factor, got {factor!r}.") from error
    if factor.dtype == bool:
        raise TypeError(f"scale: expected a number as factor, got {factor}, a boolean.")
    if jnp.issubdtype(factor.dtype, jnp.complexfloating):
        raise TypeError(f"scale: expected a real number as factor, got {factor}.")
    if factor.ndim:
        raise ValueError(
            f"scale: expected a scalar as factor, got the shape {factor.shape}. To weigh the "
            "elements of a site apart, vmap over them."
        )
    if not _jax.is_traced(factor) and not 0 <= factor < jnp.inf:
        raise ValueError(f"scale: factor must be finite and not negative, got {factor}.")
    return factor
