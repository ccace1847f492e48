"""trace: one run of a model, recorded site by site."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.common.text_table import html_table, table
from ppl.core.model_pytree import Model
from ppl.core.model_run import ModelRun, SiteAction, apply_at_site, log_prob, trace_model
from ppl.harvest import jax_core
from ppl.harvest.interpreter import Operands
from ppl.harvest.names import nest_by_path
from ppl.harvest.program import Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, join_scopes, struct_of
from ppl.primitives.sample import check_key
from ppl.primitives.site_kinds import DETERMINISTIC, RANDOM, kind_of
from ppl.transforms.label import Dimension, labels_of, show_labeled

_WIDTH = 40  # characters that the description of a support may have


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SiteTrace:
    """A site in a run of a model.

    Attributes:
        value: The value drawn, observed or recorded, or the log weight of a factor.
        distribution: Its distribution, each parameter with the axes of `vmap` and loops in front;
            in a `cond`, the distribution in the branch taken. None for a deterministic site or a
            factor, and for a site whose distributions in the branches of a `cond` differ in family
            or shape.
        log_prob: The log probability of `value`, one for each element of the axes and of the batch;
            None for a deterministic site.
        kind: "latent", "observed", "deterministic" or "factor".
        families: The names of its distributions, if they differ between the branches of a `cond`.
        labels: For each axis of the value None, or the name of the dimension with the names of its
            entries, see `label`; empty without labels.
    """

    value: Any
    distribution: Any
    log_prob: jax.Array | None
    kind: str = dataclasses.field(metadata={"static": True})
    families: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    labels: tuple[Dimension | None, ...] = dataclasses.field(default=(), metadata={"static": True})

    @property
    def support(self) -> Any:
        """The set of values with positive density, or None if the distribution has no `support`."""
        return getattr(self.distribution, "support", None)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """A run of a model; it prints as a table.

    Attributes:
        output: The return value of the model.
        sites: A `SiteTrace` by name, nested as the scopes are, in the order of the program.
    """

    output: Any
    sites: dict[str, Any]

    @property
    def log_density(self) -> jax.Array:
        """The log density of all sites together."""
        found = [
            site.log_prob for _, site in flatten_sites(self.sites) if site.log_prob is not None
        ]
        return functools.reduce(operator.add, map(jnp.sum, found), jnp.zeros(()))

    def __str__(self) -> str:
        """The sites as a table: kind, shape, distribution, support, log probability."""
        return table(self._rows(), right=(5,))

    def __repr__(self) -> str:
        """The table; without values, as in a traced function, only the sites and their kinds."""
        if all(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(self.sites)):
            return str(self)
        kinds = (f"{join_scopes(path)} {site.kind}" for path, site in flatten_sites(self.sites))
        return f"Trace({', '.join(kinds)})"

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        return html_table(self._rows(), right=(5,))

    def _rows(self) -> list[tuple[str, ...]]:
        head = ("site", "kind", "value", "distribution", "support", "log prob")
        rows = [_row(path, site) for path, site in flatten_sites(self.sites)]
        return [head, *rows, ("in all", "", "", "", "", _number(self.log_density))]


def flatten_sites(sites: Mapping[str, Any], scope: Path = ()) -> Iterator[tuple[Path, SiteTrace]]:
    """Sites of a trace by path, from dicts by name."""
    for name, site in sites.items():
        path = (*scope, name)
        yield from ((path, site),) if isinstance(site, SiteTrace) else flatten_sites(site, path)


def _row(path: Path, site: SiteTrace) -> tuple[str, ...]:
    d = site.distribution
    log_prob = site.log_prob
    return (
        join_scopes(path),
        site.kind,
        show_labeled(list(map(jax.typeof, jax.tree.leaves(site.value))), site.labels),
        " | ".join(site.families) if d is None else distribution_protocol.name_of(d),
        _support(site.support),
        "" if log_prob is None else _number(jnp.sum(log_prob)),
    )


def _support(support: Any) -> str:
    text = "" if support is None else getattr(support, "description", "")
    return text if len(text) <= _WIDTH else type(support).__name__


def _number(x: Any) -> str:
    return "traced" if jax_core.is_traced(x) else f"{float(x):z.3f}"


@dataclasses.dataclass(frozen=True)
class Inspect(SiteAction):
    """Action of `trace`: records the value, distribution and log probability of each site.

    Attributes:
        in_branches: The names of the distributions of sites whose distributions differ between the
            branches of a `cond`, by path. No distribution is recorded at these sites.
    """

    in_branches: Mapping[Path, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, or the sown value if there is no plant, and its `SiteTrace`."""
        values = operands.values if plant is None else plant
        kind = kind_of(site)
        value = jax.tree.unflatten(site.tree, values)
        families = self.in_branches.get(site.path, ())
        d = None
        if site.tag == RANDOM and not families:
            d = apply_at_site(site, operands, values, _distribution_of)
        scored = None if kind == DETERMINISTIC else log_prob(site, operands, values)
        return values, SiteTrace(value, d, scored, kind, families)


def _distribution_of(_: Any, d: Any) -> Any:
    return distribution_protocol.with_all_batch_axes(d)


@dataclasses.dataclass(frozen=True)
class _LookAtBranches(SiteAction):
    """Action that notes the structure of the distribution of each site in branches.

    Attributes:
        noted: The structure, shapes and dtypes of each distribution, and its name, by path.
    """

    noted: dict[Path, list[tuple[Any, str]]]

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The sown value; no record."""
        if site.tag == RANDOM and site.path in self.noted:
            d = apply_at_site(site, operands, operands.values, _distribution_of)
            leaves, structure = jax.tree.flatten(d)
            made_of = structure, [(jnp.shape(x), jnp.result_type(x)) for x in leaves]
            self.noted[site.path].append((made_of, distribution_protocol.name_of(d)))
        return operands.values, None


def inspection(model: Model, program: Program) -> ModelRun:
    """A run of a model that records a `SiteTrace` at each site."""
    sites = ModelRun(model, program, Inspect()).sites
    noted = {path: [] for path, found in sites.items() if found.branches}
    if noted:
        _look_at(model, program, _LookAtBranches(noted))
    families = {
        path: tuple(dict.fromkeys(name for _, name in found))
        for path, found in noted.items()
        if any(made_of != found[0][0] for made_of, _ in found)
    }
    return ModelRun(model, program, Inspect(families))


def _look_at(model: Model, program: Program, action: SiteAction) -> None:
    """Run a program abstractly, without numbers, under an action that takes notes."""

    def run(inputs: Sequence[Any]) -> None:
        abstract = dataclasses.replace(program, consts=[], operands=list(inputs))
        ModelRun(model, abstract, action).run({})

    jax.eval_shape(run, [struct_of(v.aval) for v in program.jaxpr.invars])


def trace(model: Model) -> Callable[..., Trace]:
    """Run a model and record all of its sites: `(key, *args, **kwargs) -> Trace`.

    Args:
        model: A function of a random key.

    Returns:
        A function that gives a `Trace`: the `output`, and in `sites` a `SiteTrace` by name. A
        `Trace` prints as a table.

    Raises:
        TypeError: When called, if the first argument is not a random key.
        ValueError: When called, if two sites have one name, or if two draws share one key and one
            name within their scopes, so that the log probabilities would be wrong.

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
        run = inspection(model, program)
        run.check()
        outs, records = run.run({})
        for path, labels in labels_of(run.sites).items():
            records[path] = dataclasses.replace(records[path], labels=labels)
        return Trace(program.unflatten(outs), nest_by_path(records))

    return traced
