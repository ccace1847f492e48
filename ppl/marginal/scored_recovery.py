"""Log density and draws of integrated sites at a position, by one evaluation of each integral."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.interpreter import Operands
from ppl.harvest.names import nest_by_path
from ppl.harvest.plants import PathDict
from ppl.harvest.sowing import Site
from ppl.marginal.block_integral import BlockIntegral
from ppl.marginal.marginal_sites import Marginal, Recovery
from ppl.primitives.site_kinds import FACTOR, RANDOM, Hidden
from ppl.transforms.density import total
from ppl.transforms.unconstrain import ConstrainApart, Unconstrained


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreAndRecover(ConstrainApart):
    """Action that records draws of integrated sites, and log densities of all others.

    The log of an integral comes with the draw, so that no site is scored by it again.

    Attributes:
        key: Random key of the draws.
        is_wanted: Whether they are draws; else they are points about which the integral expands.
    """

    key: jax.Array
    is_wanted: jax.Array
    tags: ClassVar = (RANDOM, FACTOR, Hidden.RECOVERED)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The distribution, and the value if nothing is planted; of integrated sites, no value."""
        return not planted and site.tag != Hidden.RECOVERED, False, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The draws of integrated sites, or the value of another site and its log density."""
        if site.tag == FACTOR:
            return super().at(site, operands, plant)
        if site.axes and (site.tag == Hidden.RECOVERED or _is_host(site)):
            raise NotImplementedError("integrals under vmap have no draws with log densities yet")
        if site.tag == Hidden.RECOVERED:
            recovery: Recovery = jax.tree.unflatten(site.extra_tree, operands.extras)
            leaves = jax.tree.leaves(recovery.sample(self.key, self.is_wanted))
            return leaves, jax.tree.unflatten(site.tree, leaves)
        return super().at(_without_integral(site), operands, plant)


def _marginal(site: Site) -> Any:
    """The distribution of a site, with placeholders for its arrays."""
    tree = site.extra_tree
    return jax.tree.unflatten(tree, [0] * tree.num_leaves)


def _is_host(site: Site) -> bool:
    """Whether the log of an integral is scored at a site."""
    found = _marginal(site)
    if not isinstance(found, Marginal) or not isinstance(found.summation, BlockIntegral):
        return False
    return found.is_host and bool(found.summation.groups[found.path])


def _without_integral(site: Site) -> Site:
    """A site that scores no integral; it is scored with the draw."""
    if not _is_host(site):
        return site
    found = dataclasses.replace(_marginal(site), is_host=False)
    return dataclasses.replace(site, extra_tree=jax.tree.structure(found))


def score_and_recover(
    target: Unconstrained, key: jax.Array, position: Mapping[str, Any], is_wanted: jax.Array
) -> tuple[jax.Array, dict[str, Any], jax.Array]:
    """Log density of a position, a draw of the integrated sites there, and its log weight.

    The density is that of ``target.log_density``, and the draw that of :func:`ppl.recover` with
    ``log_weights``; each integral is evaluated once for both.

    Args:
        target: Target of a model with sites that ``ppl.Gaussian`` or ``ppl.Laplace`` takes out.
        key: Random key.
        position: Position of the others.
        is_wanted: Whether a draw is wanted; else the point comes about which the integral expands.
    """
    args, kwargs = target.arguments.join(target.data)
    program = trace_model(target.model, key, args, kwargs)
    run = ModelRun(target.model, program, ScoreAndRecover(key, is_wanted))
    records = run.run(target._plants(position), live_outs=False)[1]
    drawn = {p: x for r in records.values() if isinstance(r, PathDict) for p, x in r.items()}
    log_weights = [drawn.pop(path) for path in list(drawn) if Hidden.LOG_WEIGHT in path]
    totals = {path: drawn.pop(path) for path in list(drawn) if Hidden.LOG_TOTAL in path}
    scores = {path: jnp.sum(x) for path, x in records.items() if not isinstance(x, PathDict)}
    return total({**scores, **totals}), nest_by_path(drawn), total(dict(enumerate(log_weights)))
