"""simulate: one draw of every site of a model."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax

from ppl.common.cut_off_draws import warn_of_cut_off
from ppl.core.model_pytree import Model
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.harvest.interpreter import Operands
from ppl.harvest.names import nest_by_path
from ppl.harvest.sowing import Site
from ppl.primitives.sample import check_key
from ppl.primitives.site_kinds import DETERMINISTIC, LATENT, RANDOM, kind_of
from ppl.transforms.draw_checks import draw_at_site


@dataclasses.dataclass(frozen=True)
class Record(SiteAction):
    """Action of `simulate`: records the value of each site, and how many integers are cut off."""

    tags: ClassVar = (RANDOM, DETERMINISTIC)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, and the distribution of a draw."""
        return True, False, kind_of(site) == LATENT

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The sown value, and its record."""
        return operands.values, draw_at_site(site, operands)


def simulate(model: Model) -> Callable[..., dict[str, Any]]:
    """Draw every site of a model: `(key, *args, **kwargs) -> values`.

    Args:
        model: A function of a random key.

    Returns:
        A function that gives a dict of values by site, nested as the scopes are, with observed and
        deterministic sites. A site under `vmap` or in a scan has these axes in front.

    Raises:
        TypeError: When called, if the first argument is not a random key.
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
        records = run.run({}, live_outs=False)[1]
        for path, (value, num_cut_off) in records.items():
            if kind_of(run.sites[path].site) == LATENT:
                warn_of_cut_off("simulate", path, num_cut_off, value)
        return nest_by_path({path: value for path, (value, _) in records.items()})

    return simulated
