"""Results from whose draws the posterior goes on with more data."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

Driver = TypeVar("Driver", bound=Callable[..., Any])

_drivers: list[Callable[..., Any]] = []


def updates_results(driver: Driver) -> Driver:
    """Name a driver the one that goes on from results: results do not import drivers."""
    _drivers[:] = [driver]
    return driver


class Updatable:
    """Base of results with draws of a posterior that goes on with more data."""

    def update(self, key: jax.Array, model: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The posterior of all data, from these draws of the posterior of the first rows.

        It is ``inference.smc(key, model, *args, init=result, **kwargs)``: draws are weighted by the
        new rows, resampled, and moved where the weights are worth little.

        Args:
            key: Typed or legacy key.
            model: The model of this result, conditioned on all data, the old rows first.
            *args: Arguments of the model: data, of all rows.
            **kwargs: More arguments of the model, and of :func:`inference.smc`, such as
                `num_particles` and `kernel`.

        Returns:
            An :class:`inference.SMCResult`. Its summary says where the old draws do not carry the
            new data.

        Raises:
            TypeError: if an argument has the wrong type.
            ValueError: if this result is of another model or other data, or there are no new rows.

        Example:
            >>> import jax.numpy as jnp, ppl, distributions as dist, inference
            >>> def normal(key, y):
            ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
            ...     return ppl.sample(key, dist.Normal(mu * jnp.ones(y.shape), 1.0), name="y")
            >>> y = jnp.linspace(0.0, 4.0, 20)
            >>> first = ppl.condition(normal, {"y": y[:12]})
            >>> result = inference.mcmc(jax.random.key(0), first, y[:12])
            >>> both = ppl.condition(normal, {"y": y})
            >>> result = result.update(jax.random.key(1), both, y, num_particles=512)
            >>> bool(abs(result.draws["mu"].mean() - 2.0) < 0.1)  # exactly 40 / (20 + 1/9)
            True

        References:
            Chopin (2002), A sequential particle filter method for static models, Biometrika 89.
        """
        (driver,) = _drivers
        return driver(key, model, *args, init=self, **kwargs)
