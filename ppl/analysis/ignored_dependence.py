"""Audit of `ignore`: a site that depends on a missing value has no density."""

from collections.abc import Iterator, Mapping
from typing import Any

from ppl.analysis.dependence import Dependence, MutableArrayError
from ppl.common import distribution_protocol
from ppl.common.missing_data import Ignored
from ppl.harvest import leaf_values
from ppl.harvest.program import Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites, describe
from ppl.primitives.site_kinds import DETERMINISTIC


def check_ignored(model: str, program: Program, sites: Sites) -> None:
    """Check that no random site or factor depends on a site with entries that are ignored.

    Args:
        model: The name of the model in errors.
        program: The traced model.
        sites: Its sites.

    Raises:
        ValueError: If a random site or a factor does.
    """
    ignored = [path for path, found in sites.items() if any(map(_is_ignored, found.sites))]
    if not ignored:
        return
    try:
        graph = _graph(program.jaxpr)
    except MutableArrayError:  # A dependence is not seen here; it makes the density NaN.
        return
    for path in ignored:
        for child in _children(path, graph):
            raise ValueError(_explain(model, child, path))


def _explain(model: str, child: Path, path: Path) -> str:
    """Error message for a site that depends on one with entries that are ignored."""
    if child == path:
        return (
            f"{model}: site {describe(path)} depends on site {describe(path)} of the step before, "
            "entries of which are ignored. Which ones is data, so that the last, on which no step "
            "depends, are not told from others, and no density is derived. End the loop before "
            "those, or infer them with ppl.impute(data)."
        )
    return (
        f"{model}: site {describe(child)} depends on site {describe(path)}, entries of which are "
        "ignored. Which ones is data, so that it may depend on these, and no density is derived. "
        "Infer them with ppl.impute(data), or sample apart what is known and used."
    )


def _is_ignored(site: Site) -> bool:
    return any(kind is Ignored for kind, _ in leaf_values.nodes(site.extra_tree))


def _graph(jaxpr: Any) -> dict[Path, tuple[Any, frozenset[Path]]]:
    """The tag and the parents of each site.

    Sites that depend on summed sites are scored from the values of all other sites. Their parents
    are read from the program before the sum.
    """
    sown = Dependence()(jaxpr).sites
    graph = {path: (found.site.tag, found.parents | found.earlier) for path, found in sown.items()}
    sums = (sum_ for path, found in sown.items() for sum_ in _sums(path, found.site))
    for scope, summation in dict.fromkeys(sums):
        inner = {(*scope, *path): found for path, found in _graph(summation.jaxpr).items()}
        for path, (tag, parents) in inner.items():
            outer = graph[path][1] if path in graph else frozenset()
            own = frozenset((*scope, *parent) for parent in parents)
            graph[path] = tag, own | (outer - inner.keys())
    return graph


def _sums(path: Path, site: Site) -> Iterator[tuple[Path, Any]]:
    """The sums that a site is scored in, each with the scope of its model."""
    for _, statics in distribution_protocol.wrappers(site.extra_tree):
        if "summation" in statics:
            yield path[: len(path) - len(statics["path"])], statics["summation"]


def _children(path: Path, graph: Mapping[Path, tuple[Any, frozenset[Path]]]) -> Iterator[Path]:
    """Random sites and factors that depend on a site, directly or through deterministic ones."""
    through = [path]
    for parent in through:
        for child, (tag, parents) in graph.items():
            if parent not in parents:
                continue
            if tag != DETERMINISTIC:
                yield child
            elif child not in through:
                through.append(child)
