"""block: hide sites of a model."""

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any

from jax.tree_util import Partial

from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.harvest._harvest import sow_again
from ppl.harvest._interpreter import Operands
from ppl.harvest._names import suggest_names
from ppl.harvest._site_names import join_scopes
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path
from ppl.harvest._values import short_repr
from ppl.primitives.site_kinds import Hidden
from ppl.transforms.intervene import as_deterministic


@dataclasses.dataclass(frozen=True)
class Hide(SiteAction):
    """Action of `block`: named sites get a tag that no transformation of a model looks at."""

    names: frozenset[str] = frozenset()
    records = False

    def hides(self, path: Path) -> bool:
        """Whether a site, or a scope around it, has one of the names."""
        return any(join_scopes(path[:i]) in self.names for i in range(1, len(path) + 1))

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands; the distribution only if the site stays visible."""
        return True, True, not self.hides(site.path)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Sow the value again, with the hidden tag if the site is named."""
        if self.hides(site.path):
            # The site stays, so that its value has the axes that its key is mapped over.
            site = dataclasses.replace(as_deterministic(site), tag=Hidden.SITE, note=None)
            operands = dataclasses.replace(operands, extras=())
        return sow_again(site, operands), None


def block(model: Model, names: Collection[str]) -> Model:
    """Hide sites of a model from every later transformation.

    A hidden site is still drawn, but is no longer part of results and densities. A density can be
    derived if all hidden sites are observed, deterministic or factors. A hidden latent site would
    leave randomness in the density, which is an error.

    Args:
        model: A function of a random key.
        names: Names of sites, or of scopes to hide all sites in them; a site in a scope is named
            "scope.name".

    Returns:
        A model without these sites.

    Raises:
        TypeError: If `names` is no collection of strings.
        ValueError: When the result is called or transformed, if a name is unknown.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ...     return ppl.sample(key, dist.Normal(x, 1.0), name="y")
        >>> list(ppl.simulate(ppl.block(model, ["x"]))(jax.random.key(0)))
        ['y']
    """
    is_collection = isinstance(names, Collection) and not isinstance(names, str)
    if not is_collection or not all(isinstance(name, str) for name in names):
        raise TypeError(f"block: expected a collection of names of sites, got {short_repr(names)}.")
    return Partial(functools.partial(_run_blocked, frozenset(names)), as_pytree(model))


def _run_blocked(names: frozenset[str], model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
    run = ModelRun(model, trace_model(model, key, args, kwargs), Hide(names))
    for name in sorted(names):
        if not any(Hide(frozenset([name])).hides(path) for path in run.sites):
            raise ValueError(
                f"block: {run.name} has no site {name!r}. "
                f"{suggest_names(list(run.sites), what='sites')}"
            )
    return run.output({})
