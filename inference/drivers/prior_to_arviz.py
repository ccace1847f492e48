"""prior_to_arviz: draws from the prior of a model in ArviZ's container, before any fit."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from inference.common.argument_checks import check_count
from inference.drivers.check_inputs import check_inputs
from inference.models.model_groups import prior_groups
from inference.results.inference_data import import_arviz, make_container


def prior_to_arviz(
    key: jax.Array,
    model: Callable[..., Any],
    *args: Any,
    num_draws: int = 500,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Draws from the prior and its predictions in ArviZ's container, before any fit.

    | group | holds |
    |---|---|
    | `prior` | draws of latent and deterministic sites |
    | `prior_predictive` | data drawn for each of them |
    | `observed_data`, `constant_data` | data, and arguments of the model that are arrays |

    The draws are those of ``ppl.predict(model, num_draws)(key, *args)``, as a single chain. What
    `ppl.param` and `ppl.state` make has its initial value.

    Args:
        key: Typed or legacy key.
        model: Function of a key, `args` and `kwargs`, with observed sites conditioned on. Without
            observed sites, all sites are in the group `prior`.
        *args: Arguments of the model: data.
        num_draws: Number of draws.
        coords: Labels by dimension, as ``{"school": names}``. Labels of ``ppl.label`` stand without
            being named here.
        dims: Names of the dimensions of sites, as ``{"theta": ["school"]}``.
        **kwargs: More arguments of the model.

    Returns:
        An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``.

    Raises:
        ImportError: if ArviZ is not installed.
        TypeError: if an argument has the wrong type.
        ValueError: if `coords` or `dims` do not fit the sites.
        NotImplementedError: if the prior is improper.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu * jnp.ones(20), 1.0), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.zeros(20)})
        >>> data = inference.prior_to_arviz(jax.random.key(0), posterior)
        >>> data["prior_predictive"]["y"].shape
        (1, 500, 20)
    """
    check_inputs(prior_to_arviz, key, model, args, kwargs)
    num_draws = check_count("num_draws", num_draws, least=1)
    import_arviz("prior_to_arviz")
    found = prior_groups(key, model, args, kwargs, num_draws)
    return make_container(found.groups, found.axes, coords, dims, labels=found.labels)
