"""simulate: one draw of every site of a model."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax

from ppl.core.model_pytree import Model
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.harvest._interpreter import Operands
from ppl.harvest._names import nest_by_path
from ppl.harvest._sow import Site
from ppl.primitives.sample import check_key
from ppl.primitives.site_kinds import DETERMINISTIC, RANDOM
from ppl.transforms.draw_checks import count_ends, warn_of_ends


@dataclasses.dataclass(frozen=True)
class Record(SiteAction):
    """Action of `simulate`: records the value of each site."""

    tags: ClassVar = (RANDOM, DETERMINISTIC)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value."""
        return True, False, False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The sown value, and the value as its record."""
        return operands.values, jax.tree.unflatten(site.tree, operands.values)


def simulate(model: Model) -> Callable[..., dict[str, Any]]:
    """Draw every site of a model: `(key, *args, **kwargs) -> values`.

    Args:
        model: A function of a random key.

    Returns:
        A function that gives a dict of values by site, nested as the scopes are, with observed and
        deterministic sites. A site under `vmap` or in a scan has these axes in front.

    Raises:
        TypeError: When called, if the first argument is no random key.
        ValueError: When called, if two sites have one name.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     return jax.vmap(lambda k: ppl.sample(k, dist.Normal(0.0, 1.0), name="x"))(
        ...         jax.random.split(key, 3))
        >>> ppl.simulate(model)(jax.random.key(0))["x"].shape
        (3,)
    """

    def simulated(key: jax.Array, *args: Any, **kwargs: Any) -> dict[str, Any]:
        check_key("simulate", key)
        run = ModelRun(model, trace_model(model, key, args, kwargs), Record())
        values = run.run({}, live_outs=False)[1]
        warn_of_ends("simulate", count_ends(values, run.sites))
        return nest_by_path(values)

    return simulated
