"""intervene: Pearl's do-operator, sites fixed without being scored."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
from jax.tree_util import Partial

from ppl.common import foreign_arrays
from ppl.common.missing_data import Missing, check_no_nan, is_imputed
from ppl.core.inside_sums import commutes, entries_within, move_inside_if_joint
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.site_rewriting import RewriteSites
from ppl.harvest.interpreter import Operands
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.sowing import Site
from ppl.harvest.survey import describe
from ppl.primitives.site_kinds import DETERMINISTIC, LATENT


@dataclasses.dataclass(frozen=True)
class Fix(RewriteSites):
    """Action of `intervene`: the planted value replaces the site, which becomes deterministic."""

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The predicate always; value and distribution only if nothing is planted."""
        return not planted, True, not planted

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The planted value as a deterministic site, or the site unchanged if there is no plant."""
        if plant is not None:
            if is_imputed(site):
                raise ValueError(
                    f"intervene: site {describe(site.path)} is observed in part. Intervene first, "
                    "or leave its data out."
                )
            site = as_deterministic(site)
            operands = dataclasses.replace(operands, values=plant, extras=())
        return site, operands


def as_deterministic(site: Site) -> Site:
    """A random site as a deterministic site, with its value and without its distribution."""
    return dataclasses.replace(
        site,
        tag=DETERMINISTIC,
        note=DETERMINISTIC,
        extra_tree=jax.tree.structure(None),
        axes=tuple(dataclasses.replace(axis, mapped=()) for axis in site.axes),
    )


def intervene(model: Model, values: Mapping[str, Any]) -> Model:
    """Fix sites of a model to values without scoring them: Pearl's do-operator.

    The sites become deterministic. Unlike the data of `condition`, the values have no density: they
    change the sites that depend on them, and tell nothing about the sites that they depend on. In a
    marginalized model the sites are fixed before sums and integrals are taken.

    Args:
        model: A function of a random key.
        values: The values of latent or deterministic sites by name, nested as the scopes are, with
            the axes of `vmap` and of loops in front.

    Returns:
        A model with these sites fixed: a pytree whose leaves are the values.

    Raises:
        ValueError: If values are known to be NaN. When the result is called or transformed, if a
            name is unknown, a site is observed, a value has another shape than its site, or sites
            were taken out within a function.
        TypeError: If `values` is not a dict. When the result is called or transformed, if a value
            has another kind of dtype than its site.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     dose = ppl.sample(key, dist.Normal(0.0, 1.0), name="dose")
        ...     return ppl.sample(key, dist.Normal(2.0 * dose, 1.0), name="effect")
        >>> treated = ppl.intervene(model, {"dose": 3.0})
        >>> round(ppl.log_density(treated)({"effect": 6.0}).item(), 4)
        -0.9189

    References:
        Pearl, *Causality*, 2nd ed. (2009), section 3.2.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"intervene: expected a dict of values by site, got {short_repr(values)}.")
    remedy = "Give numbers, or leave the site out to have it drawn."
    values = foreign_arrays.convert_values(values)
    check_no_nan("intervene", "values", values, remedy)
    return Partial(_run_intervened, as_pytree(model), values)


@functools.partial(commutes, by_name=True)
def _run_intervened(
    model: Model, values: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    program = trace_model(model, key, args, kwargs)
    run = ModelRun(model, program, Fix())
    entries = run.entries(values, "intervene", kinds=(LATENT, DETERMINISTIC))
    for path, value in entries.items():
        if isinstance(value, Missing):
            raise TypeError(
                f"intervene: site {describe(path)} is given data with missing entries, which "
                "condition takes. An intervention sets all entries: give an array."
            )
    plants = run.fit_entries(entries, "intervene")
    before = move_inside_if_joint(
        "intervene",
        model,
        program,
        plants,
        lambda f, _, scope: intervene(f, entries_within(values, scope)),
        "Intervene first: ppl.marginalize(ppl.intervene(model, values), sites).",
    )
    return run.output(plants) if before is None else before(key, *args, **kwargs)
