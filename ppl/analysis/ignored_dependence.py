"""Audit of `ignore`: a site that depends on a missing value has no density."""

from collections.abc import Iterator, Mapping

from ppl.analysis.dependence import Dependence, MutableArrayError, SownSite
from ppl.common.missing_data import Ignored
from ppl.harvest import _values
from ppl.harvest._program import Program
from ppl.harvest._site_names import describe
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path, Sites
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
        sown = Dependence()(program.jaxpr).sites
    except MutableArrayError:  # A dependence is not seen here; it makes the density NaN.
        return
    for path in ignored:
        for child in _children(path, sown):
            raise ValueError(
                f"{model}: site {describe(child)} depends on site {describe(path)}"
                f"{' of the step before' if child == path else ''}, entries of which are ignored, "
                "so that it has no density. Infer them with ppl.impute(data), or sum them out."
            )


def _is_ignored(site: Site) -> bool:
    return any(kind is Ignored for kind, _ in _values.nodes(site.extra_tree))


def _children(path: Path, sown: Mapping[Path, SownSite]) -> Iterator[Path]:
    """Random sites and factors that depend on a site, directly or through deterministic ones."""
    through = [path]
    for parent in through:
        for child, site in sown.items():
            if parent not in site.parents | site.earlier:
                continue
            if site.site.tag != DETERMINISTIC:
                yield child
            elif child not in through:
                through.append(child)
