"""Sites that `marginalize` has taken out of a program, with their dependences before that."""

import dataclasses
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import jax

from ppl.analysis.dependence import Dependence, Earlier, SownSite
from ppl.harvest import jaxprs
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.survey import Found, Path, Survey, describe
from ppl.primitives.draw_primitive import draw_p
from ppl.primitives.site_kinds import (
    DETERMINISTIC,
    FACTOR,
    RANDOM,
    SUMMED,
    TAGS,
    Hidden,
    kind_of,
)


class Elimination(Protocol):
    """A sum or an integral over some sites of a program."""

    is_exact: ClassVar[bool]

    @property
    def jaxpr(self) -> Any:
        """The program."""

    @property
    def sites(self) -> Collection[Path]:
        """The paths of the sites that are summed or integrated out."""
        ...

    @property
    def scored(self) -> Collection[Path]:
        """The paths of these sites, and of all sites that depend on them."""
        ...


class SummedProgram(Protocol):
    """The program before a sum, as static parts of what the draw of summed sites is sown with."""

    @property
    def summation(self) -> Elimination:
        """The sum or the integral."""
        ...

    @property
    def recorded(self) -> tuple[Path, ...]:
        """Deterministic sites that depend on summed sites, and draws of those summed before."""
        ...


@dataclasses.dataclass(frozen=True)
class GraphSite:
    """A site with its kind and its dependences."""

    found: Found
    sown: SownSite
    kind: str


def find_with_summed(jaxpr: Any) -> dict[Path, GraphSite]:
    """All sites of a program with their dependences, including sites that were summed out."""
    found = Survey(lambda site: site.tag in TAGS, lambda _: False, CONSTRUCTS)(jaxpr)
    graph = Dependence()(jaxpr).sites
    sites = {p: GraphSite(found[p], graph[p], kind_of(found[p].site)) for p in graph}
    for scope, summed in summed_programs(jaxpr):
        sites = _restore(sites, summed, scope)
    return {path: dataclasses.replace(x, sown=_among(sites, x.sown)) for path, x in sites.items()}


def _among(sites: Collection[Path], sown: SownSite) -> SownSite:
    """A site without dependences on sites that are gone, as their values were replaced."""

    def is_there(source: Any) -> bool:
        path = source.path if isinstance(source, Earlier) else source
        return not isinstance(path, tuple) or path in sites

    parts = (
        dataclasses.replace(part, sources=frozenset(filter(is_there, part.sources)))
        for part in sown.parts
    )
    return dataclasses.replace(sown, parts=tuple(parts))


def check_scored(model: str, jaxpr: Any) -> None:
    """Check that the sites at which sums and integrals are scored are still in a program.

    Raises:
        ValueError: If such a site is gone: its value was replaced, and the score went with it.
    """
    summed = summed_programs(jaxpr)
    if not summed:
        return

    def is_site(site):
        return site.tag in TAGS or site.tag == Hidden.SITE

    def is_random(site):
        return site.tag == RANDOM

    there = set(Survey(is_site, lambda _: False, CONSTRUCTS)(jaxpr))
    there |= {(*scope, *path) for scope, x in summed for path in x.summation.sites}
    for scope, x in summed:
        random = Survey(is_random, lambda _: False, CONSTRUCTS)(x.summation.jaxpr)
        paths = [(*scope, *path) for path in x.summation.scored if path in random]
        if gone := [path for path in paths if path not in there]:
            raise ValueError(
                f"{model}: what ppl.marginalize has taken out is scored at "
                f"{', '.join(map(describe, gone))}, whose values harvest's plant or handle has "
                "replaced, so that they are no sites any more, and there is no density. Fix them "
                "by ppl.intervene, or observe them by ppl.condition."
            )


def find_approximate(jaxpr: Any) -> tuple[Path, ...]:
    """Paths of the sites that `Laplace` has taken out of a program."""
    found = []
    for scope, summed in summed_programs(jaxpr):
        own = () if summed.summation.is_exact else summed.summation.sites
        paths = (*find_approximate(summed.summation.jaxpr), *own)
        found += [(*scope, *path) for path in paths]
    return tuple(found)


def find_drawn(jaxpr: Any, equations: Sequence[Any]) -> tuple[Path, ...]:
    """Paths of sites that were taken out of a program but that `equations` draw from the prior."""
    gone = [(*scope, *p) for scope, x in summed_programs(jaxpr) for p in x.summation.sites]
    drawn: set[Path] = set()
    stack = list(equations) if gone else []
    while stack:
        eqn = stack.pop()
        if eqn.primitive is draw_p:
            drawn.add((*eqn.params["draw"].scope, eqn.params["draw"].name))
        for value in eqn.params.values():
            stack += [e for inner in jaxprs.jaxprs_in(value) for e in jaxprs.raw(inner)[0].eqns]
    return tuple(path for path in gone if path in drawn)


def explain_drawn(model: str, gone: Sequence[Path]) -> str:
    """Error message for a density that needs a draw of sites that were taken out."""
    names = ", ".join(map(describe, gone))
    return (
        f"{model}: its density depends on a value of {names}, which ppl.marginalize has taken out "
        "of an inner function, used outside of it (as the inner function returns it). What uses "
        "the value has to be summed or integrated with it: marginalize the outer function, "
        f"ppl.marginalize(model, [{names}]), in place of the inner one."
    )


def explain_gone(jaxpr: Any) -> dict[Path, str]:
    """Sites that transformations have hidden or taken out of a program, each with a clause on it.

    Args:
        jaxpr: The program.
    """
    taken_out = ": ppl.marginalize has taken it out, and only the model before that has it"
    blocked = ": ppl.block hides it, and only the model before that has it"
    return dict.fromkeys(_find_taken_out(jaxpr), taken_out) | dict.fromkeys(
        _find_hidden(jaxpr), blocked
    )


def _find_hidden(jaxpr: Any) -> frozenset[Path]:
    """Paths of the sites that are hidden in a program, or were before it was summed."""

    def is_hidden(site):
        return site.tag == Hidden.SITE

    found: set[Path] = set(Survey(is_hidden, lambda _: False, CONSTRUCTS)(jaxpr))
    for scope, summed in summed_programs(jaxpr):
        found |= {(*scope, *path) for path in _find_hidden(summed.summation.jaxpr)}
    return frozenset(found)


def find_eliminated(jaxpr: Any) -> dict[Path, tuple[Path, ...]]:
    """The sites that a sum or an integral scores, each with the sites that this takes out."""
    return {
        (*scope, *path): tuple((*scope, *gone) for gone in summed.summation.sites)
        for scope, summed in summed_programs(jaxpr)
        for path in summed.summation.scored
    }


def _find_taken_out(jaxpr: Any) -> frozenset[Path]:
    """Paths of the sites that were summed or integrated out of a program."""
    found: set[Path] = set()
    for scope, summed in summed_programs(jaxpr):
        paths = {*summed.summation.sites, *_find_taken_out(summed.summation.jaxpr)}
        found |= {(*scope, *path) for path in paths}
    return frozenset(found)


def find_rewritten(jaxpr: Any) -> frozenset[Path]:
    """Paths of the sites that `marginalize` has scored together or computed anew.

    The first depend on sites that were taken out; the second are all deterministic sites.
    """
    found: set[Path] = set()

    def is_derived(site):
        return site.tag == DETERMINISTIC

    for scope, summed in summed_programs(jaxpr):
        inner = summed.summation.jaxpr
        derived = Survey(is_derived, lambda _: False, CONSTRUCTS)(inner)
        paths = {*summed.summation.scored, *derived, *find_rewritten(inner)}
        found |= {(*scope, *path) for path in paths.difference(summed.summation.sites)}
    return frozenset(found)


def summed_programs(jaxpr: Any) -> list[tuple[tuple[Hashable, ...], SummedProgram]]:
    """Each `SummedProgram` in a program, without leaves, with the scope of its sites."""

    def is_hidden(site):
        return site.tag == Hidden.RECOVERED

    found = [x.site for x in Survey(is_hidden, lambda _: False, CONSTRUCTS)(jaxpr).values()]
    return [(x.scope, jax.tree.unflatten(x.extra_tree, [None] * x.num_extras)) for x in found]


def _restore(
    sites: Mapping[Path, GraphSite], summed: Any, scope: tuple[Hashable, ...]
) -> dict[Path, GraphSite]:
    """The sites together with the sites of a sum, in the order of the program before the sum."""
    restored = {}
    for path, site in find_with_summed(summed.summation.jaxpr).items():
        now = sites.get((*scope, *path))
        before = dataclasses.replace(site, sown=_move_into_scope(site.sown, scope))
        if path in summed.summation.sites:  # Its known entries may be a factor by its name now.
            restored[*scope, *path] = dataclasses.replace(before, kind=SUMMED)
        elif now is not None:
            is_alike = now.found.site.tag == site.found.site.tag
            sown = before.sown if is_alike else now.sown
            restored[*scope, *path] = dataclasses.replace(now, sown=sown)
        elif path in summed.recorded or site.kind in (FACTOR, SUMMED):
            restored[*scope, *path] = before
    return restored | {path: site for path, site in sites.items() if path not in restored}


def _move_into_scope(sown: SownSite, scope: tuple[Hashable, ...]) -> SownSite:
    def move(source: Any) -> Any:
        if isinstance(source, tuple):
            return (*scope, *source)
        return Earlier((*scope, *source.path)) if isinstance(source, Earlier) else source

    parts = [
        dataclasses.replace(part, sources=frozenset(map(move, part.sources))) for part in sown.parts
    ]
    return dataclasses.replace(sown, parts=tuple(parts))
