"""unobserve: a model whose data are drawn anew, for predictive distributions."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
from jax.tree_util import Partial

from ppl.common import distribution_protocol
from ppl.common.missing_data import is_imputed
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.harvest._harvest import sow_again
from ppl.harvest._interpreter import Operands
from ppl.harvest._sow import Site
from ppl.primitives.draw_primitive import hash_of_path
from ppl.primitives.site_kinds import LATENT, OBSERVED, RANDOM, kind_of


@dataclasses.dataclass(frozen=True)
class Redraw(SiteAction):
    """Action of `unobserve`: data give way to a draw from the distribution of their site."""

    tags: ClassVar = (RANDOM,)
    records = False

    def strips(self, site: Site) -> bool:
        """No site is taken out."""
        return False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, the predicate and the distribution."""
        return True, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Sow a draw in place of data; any other value as it is."""
        if kind_of(site) == OBSERVED or is_imputed(site):
            site = dataclasses.replace(site, note=LATENT)
            operands = dataclasses.replace(operands, values=_draw(site, operands))
        return sow_again(site, operands), None


def _draw(site: Site, operands: Operands) -> tuple[Any, ...]:
    """The leaves of a draw at a site, the one that `sample` makes there."""

    def one(key: Any, *leaves: Any) -> tuple[Any, ...]:
        d = jax.tree.unflatten(site.extra_tree, leaves)
        key = jax.random.fold_in(key, hash_of_path(site.path))
        return tuple(jax.tree.leaves(distribution_protocol.draw(d, key)))

    for axis in site.axes:
        mapped = (0 if is_mapped else None for is_mapped in (axis.maps_key, *axis.mapped))
        one = jax.vmap(one, in_axes=tuple(mapped), axis_size=axis.size)
    drawn = one(operands.key, *operands.extras)
    return tuple(x.astype(old.dtype) for x, old in zip(drawn, operands.values, strict=True))


def unobserve(model: Model) -> Model:
    """A model without its data: `condition` undone, with observed sites latent.

    A site observed in part, by `impute` or `ignore`, is drawn whole.

    Args:
        model: A function of a random key.

    Returns:
        A model of the same arguments, which gives the draws of `model` before `condition`.
    """
    return Partial(_run_unobserved, as_pytree(model))


def _run_unobserved(model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
    return ModelRun(model, trace_model(model, key, args, kwargs), Redraw()).output({})
