"""condition: fix sites of a model to data."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jax.tree_util import Partial

from ppl._model import Model, Run, SiteAction, as_pytree, trace_model
from ppl._sample import OBSERVED
from ppl.harvest._harvest import sow_again
from ppl.harvest._interpreter import Operands
from ppl.harvest._sow import Site


@dataclasses.dataclass(frozen=True)
class Observe(SiteAction):
    """The value gives way to the planted one, and the site is marked as observed."""

    records = False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return not planted, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        if plant is not None:
            site = dataclasses.replace(site, note=OBSERVED)
            operands = dataclasses.replace(operands, values=plant)
        return sow_again(site, operands), None


def condition(model: Model, data: Mapping[str, Any]) -> Model:
    """Fix sites of a model to data, which are scored in its density.

    Args:
        model: A function of a random key.
        data: The values of sites by name, nested as the scopes are. A site under `vmap` or in a
            scan has the axes of `vmap` and of the loop in front.

    Returns:
        The model with these sites observed, a function of the same arguments: again a model. It is
        a pytree whose leaves are the data, so that new data of the same shapes do not recompile.

    Raises:
        ValueError: When the result is called or transformed, if a name is unknown, a site is
            observed already, or a value has another shape than its site.
        TypeError: Then, if a value has another kind of dtype.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 0.1), name="y")
        >>> posterior = ppl.condition(model, {"y": 2.0})
        >>> posterior(jax.random.key(0)).item()
        2.0
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"condition: expected a dict of values by site, got {data!r}.")
    return Partial(_run_conditioned, as_pytree(model), dict(data))


def _run_conditioned(
    model: Model, data: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    program = trace_model(model, key, args, kwargs)
    run = Run(model, program, Observe())
    plants = run.fit(data, "condition", complete=False)
    run.check_keys(plants)  # Later nothing tells how the observed sites were drawn.
    outs, _ = run.run(plants)
    return program.unflatten(outs)
