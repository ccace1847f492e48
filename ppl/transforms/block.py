"""block: hide sites of a model."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from jax.tree_util import Partial

from ppl.analysis.dependence import find_ancestors
from ppl.analysis.summed_sites import find_rewritten, find_with_summed
from ppl.core.inside_sums import commutes, move_inside_if_joint, names_within
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.site_rewriting import RewriteSites
from ppl.harvest.interpreter import Operands
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.names import suggest_names
from ppl.harvest.program import Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites, join_scopes
from ppl.primitives.site_kinds import DETERMINISTIC, FACTOR, LATENT, Hidden, kind_of
from ppl.transforms.intervene import as_deterministic


@dataclasses.dataclass(frozen=True)
class Hide(RewriteSites):
    """Action of `block`: named sites get a tag that no transformation of a model looks at."""

    names: frozenset[str] = frozenset()

    def hides(self, path: Path) -> bool:
        """Whether a site, or a scope around it, has one of the names."""
        return any(join_scopes(path[:i]) in self.names for i in range(1, len(path) + 1))

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands; the distribution only if the site stays visible."""
        return True, True, not self.hides(site.path)

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site, with the hidden tag if it is named."""
        if self.hides(site.path):
            # The site stays, so that its value has the axes that its key is mapped over.
            note = LATENT if kind_of(site) == LATENT else None
            site = dataclasses.replace(as_deterministic(site), tag=Hidden.SITE, note=note)
            operands = dataclasses.replace(operands, extras=())
        return site, operands


def block(model: Model, names: Collection[str]) -> Model:
    """Hide sites of a model from every later transformation.

    A hidden site is still drawn, but is no longer part of results and densities. A density can be
    derived if all hidden sites are observed, deterministic or factors. A hidden latent site would
    leave randomness in the density, which is an error. Data and factors that `marginalize` scores
    together with other sites are hidden before its sums.

    Args:
        model: A function of a random key.
        names: Names of sites, or of scopes to hide all sites in them; a site in a scope is named
            "scope.name".

    Returns:
        A model without these sites.

    Raises:
        TypeError: If `names` is not a collection of strings.
        ValueError: When the result is called or transformed, if a name is unknown, or a site is
            scored together with others within a function.

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
    return Partial(_Blocked(frozenset(names)), as_pytree(model))


@commutes
@dataclasses.dataclass(frozen=True)
class _Blocked:
    """A model with hidden sites, as a function of the model and its arguments."""

    names: frozenset[str]

    def __call__(self, model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
        program = trace_model(model, key, args, kwargs)
        run = ModelRun(model, program, Hide(self.names))
        known = [*run.sites, *find_rewritten(program.jaxpr).difference(run.sites)]
        for name in sorted(self.names):
            if not any(Hide(frozenset([name])).hides(path) for path in known):
                raise ValueError(
                    f"block: {run.name} has no site {name!r}{run.explain_gone(name)}. "
                    f"{suggest_names(list(run.sites), what='sites')}"
                )
        hidden = [path for path in known if Hide(self.names).hides(path)]
        before = _block_inside(model, program, run.sites, hidden)
        if before is not None:
            model = before
            program = trace_model(before, key, args, kwargs)
        return ModelRun(model, program, Hide(self.names)).output({})


def _block_inside(
    model: Model, program: Program, sites: Sites, hidden: Sequence[Path]
) -> Model | None:
    """The model with the hidden sites that its sums score hidden before the sums, not after.

    Hidden after the sums, these sites would hide the sums too. A latent site that scored sites
    depend on is not hidden before: it is drawn, so that there is no density.
    """
    kinds = {path: kind_of(sites[path].site) if path in sites else FACTOR for path in hidden}
    joint = [p for p in hidden if kinds[p] != DETERMINISTIC and p in find_rewritten(program.jaxpr)]
    if any(kinds[p] == LATENT for p in joint):
        graph = find_with_summed(program.jaxpr)
        scored = [p for p in graph if p not in hidden and graph[p].kind != DETERMINISTIC]
        parents = {path: site.sown.parents | site.sown.earlier for path, site in graph.items()}
        needed = find_ancestors(parents, scored)
        joint = [p for p in joint if kinds[p] != LATENT or p not in needed]
    names = frozenset(map(join_scopes, joint))
    return move_inside_if_joint(
        "block",
        model,
        program,
        joint,
        lambda f, _, scope: block(f, names_within(names, scope)),
        "Block first: ppl.marginalize(ppl.block(model, names), sites).",
    )
