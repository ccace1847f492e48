"""Latent sites whose distribution is a constant, or depends on other latent sites."""

from ppl.analysis.dependence import Dependence, Earlier, MutableArrayError
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.survey import Path
from ppl.primitives.site_kinds import DETERMINISTIC, LATENT, PARAM, STATE, kind_of


def find_constant_sites(jaxpr: Jaxpr) -> frozenset[Path]:
    """Paths of latent sites whose distribution depends on no latent site, input or captured value.

    Data and deterministic values in between are followed. If the program writes to a mutable array,
    no site is known to be constant.
    """
    try:
        sites = Dependence()(jaxpr).sites
    except MutableArrayError:
        return frozenset()

    def is_known(path: Path, seen: frozenset[Path] = frozenset()) -> bool:
        """Whether the parts of a site are constant; a site in `seen` is not visited again."""
        parts = (part for part in sites[path].parts if not part.is_added)
        sources = frozenset().union(*(part.sources for part in parts))
        return all(is_constant(source, seen | {path}) for source in sources)

    def is_constant(source: object, seen: frozenset[Path]) -> bool:
        path = source.path if isinstance(source, Earlier) else source
        if not isinstance(path, tuple):
            return False
        if path in seen:
            return True
        site = sites[path].site
        is_fitted = kind_of(site) == LATENT or site.tag in (PARAM, STATE)
        return not is_fitted and is_known(path, seen)

    latent = (path for path, sown in sites.items() if kind_of(sown.site) == LATENT)
    return frozenset(path for path in latent if is_known(path))


def find_dependent_sites(jaxpr: Jaxpr) -> frozenset[Path]:
    """Paths of latent sites whose distribution depends on a latent site.

    Deterministic values in between are followed, and data are not, whose values are known. If the
    program writes to a mutable array, no site is known to depend on another one.
    """
    try:
        sites = Dependence()(jaxpr).sites
    except MutableArrayError:
        return frozenset()
    # For each site, those whose distribution or deterministic value reads it.
    readers: dict[Path, list[Path]] = {path: [] for path in sites}
    for path, site in sites.items():
        parts = (part for part in site.parts if not part.is_added)
        for source in frozenset().union(*(part.sources for part in parts)):
            read = source.path if isinstance(source, Earlier) else source
            if isinstance(read, tuple):
                readers[read].append(path)
    kinds = {path: kind_of(site.site) for path, site in sites.items()}
    found: set[Path] = set()
    waiting = [path for path, kind in kinds.items() if kind == LATENT]
    while waiting:
        for reader in readers[waiting.pop()]:
            if reader not in found:
                found.add(reader)
                if kinds[reader] == DETERMINISTIC:
                    waiting.append(reader)
    return frozenset(path for path in found if kinds[path] == LATENT)
