"""simulate and trace: what a model does at a key."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ppl._model import Model, Run, SiteAction, at_site, log_prob, trace_model
from ppl._sample import check_key
from ppl.harvest._interpreter import Operands
from ppl.harvest._names import nested
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path


@dataclasses.dataclass(frozen=True)
class Record(SiteAction):
    """Values are recorded."""

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return True, False, False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        return operands.values, jax.tree.unflatten(site.tree, operands.values)


def simulate(model: Model) -> Callable[..., dict[str, Any]]:
    """Every site's draw: `(key, *args, **kwargs) -> values`.

    Args:
        model: A function of a random key.

    Returns:
        A function that gives a dict of values by site, observed sites included, nested as the
        scopes are; a site under `vmap` or in a scan has these axes in front.

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
        run = Run(model, trace_model(model, key, args, kwargs), Record())
        return nested(run.run({}, live_outs=False)[1])

    return simulated


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SiteTrace:
    """A site of a model's run.

    Attributes:
        value: What was drawn or observed.
        distribution: Its distribution, each parameter with the axes of `vmap` and loops in front;
            None for a site in a `cond`, whose branches may have different ones.
        log_prob: The log probability of `value`, one for each element of the axes and of the batch.
        kind: "latent" or "observed".
    """

    value: Any
    distribution: Any
    log_prob: jax.Array
    kind: str = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """A model's run: its output, and its sites by name, nested as the scopes are."""

    output: Any
    sites: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Inspect(SiteAction):
    """Value, distribution and log probability are recorded."""

    conditional: frozenset[Path] = frozenset()

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return True, False, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        values = operands.values
        d = None
        if site.path not in self.conditional:
            d = at_site(site, operands, values, lambda _, d: d)
        value = jax.tree.unflatten(site.tree, values)
        return values, SiteTrace(value, d, log_prob(site, operands, values), str(site.note))


def trace(model: Model) -> Callable[..., Trace]:
    """A model's run with all that there is to know of its sites: `(key, *args, **kwargs) -> Trace`.

    Args:
        model: A function of a random key.

    Returns:
        A function that gives a `Trace`: the `output`, and in `sites` a `SiteTrace` by name.

    Raises:
        TypeError: When called, if the first argument is no random key.
        ValueError: When called, if two sites have one name.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     return ppl.sample(key, dist.Normal(0.0, 1.0), name="x") ** 2
        >>> t = ppl.trace(ppl.condition(model, {"x": 3.0}))(jax.random.key(0))
        >>> t.output.item(), t.sites["x"].kind, round(t.sites["x"].log_prob.item(), 3)
        (9.0, 'observed', -5.419)
    """

    def traced(key: jax.Array, *args: Any, **kwargs: Any) -> Trace:
        check_key("trace", key)
        program = trace_model(model, key, args, kwargs)
        sites = Run(model, program, Record()).sites
        conditional = frozenset(path for path, found in sites.items() if found.conditional)
        outs, records = Run(model, program, Inspect(conditional)).run({})
        return Trace(program.unflatten(outs), nested(records))

    return traced
