"""deterministic: a site for a derived quantity of a model, without a density."""

from typing import Any

from ppl.common.peer_names import explain_name_by_position, explaining_calls
from ppl.harvest.sowing import bind_site
from ppl.primitives.sample import Labels, check_name
from ppl.primitives.site_kinds import DETERMINISTIC


@explaining_calls(explain_name_by_position("deterministic(value"))
def deterministic(value: Any, *, name: str) -> Any:
    """Record a derived quantity of a model under a name.

    The site has no density. `simulate`, `trace` and `predict` give its value, and `intervene` can
    fix it; `inference` keeps its draws with the draws of the latent sites. In a density, the site
    is only its value. A value that is equal for all elements of a `vmap` has no axis for this
    `vmap`.

    Args:
        value: Any pytree of arrays.
        name: The name of the site, unique within the model and its scope.

    Returns:
        `value`, its leaves as arrays.

    Raises:
        TypeError: If `name` is not a string or a leaf of `value` is not an array.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ...     return ppl.deterministic(x**2, name="square")
        >>> values = ppl.simulate(model)(jax.random.key(0))
        >>> bool(values["square"] == values["x"] ** 2)
        True
    """
    check_name("deterministic", name)
    return sow_value(value, name=name)


def sow_value(value: Any, *, name: str, labels: Labels = ()) -> Any:
    """A deterministic site."""
    return bind_site(
        value,
        tag=DETERMINISTIC,
        name=name,
        mode="append",
        note=DETERMINISTIC,
        where="deterministic",
        labels=labels,
    )
