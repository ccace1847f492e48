"""Survey of the sows of a program, before it is evaluated; misuse of a mode is an error here.

Sows of one name have one path: the scopes around them and the name, printed with dots between.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import jax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.hidden_sows import hides_sow, sows
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.sowing import Site, sow_p

Path = tuple[Hashable, ...]
Sites = Mapping[Path, "Found"]
CLOBBERS = ("clobber", "cond_clobber")


def join_scopes(path: Path) -> str:
    """Path of a site as one name, scopes joined by dots: `a.x`."""
    return ".".join(map(str, path))


def describe(path: Path) -> str:
    """Path of a site as errors print it: `'a.x'`."""
    return repr(join_scopes(path))


def describe_all(paths: Iterable[Path]) -> str:
    """Paths of sites as errors print them: `'a.x', 'y'`."""
    return ", ".join(map(describe, paths))


@dataclasses.dataclass(frozen=True)
class Found:
    """Record of all sows of one name at one level of a program.

    Attributes:
        site: The sow; of several sows, the one under the most `vmap` axes.
        avals: Abstract leaves of one occurrence, with the axes of the loops already left.
        count: Number of occurrences side by side ("append" only).
        depth: Number of loops around the sow that have been left.
        certain: Whether at least one of the sows is sure to take place.
        uniform: Whether all the sows stand under the same `vmap` axes.
        branches: Sows of all branches of a cond, whose extras may differ; empty outside of a cond.
        lead: Shape of a predicate of the sow: its `vmap` axes, and an axis for each shard_map left.
        varying: For each leaf, the mesh axes over which it differs between shards.
        shared: Whether several shards are known to share one value.
    """

    site: Site
    avals: tuple[jax.ShapeDtypeStruct, ...]
    count: int = 1
    depth: int = 0
    certain: bool = True
    uniform: bool = True
    branches: tuple[Site, ...] = ()
    lead: tuple[int, ...] = ()
    varying: tuple[frozenset[Hashable], ...] = ()
    shared: bool = False

    @classmethod
    def of(cls, site: Site, avals: Sequence[Any]) -> "Found":
        """Record of one sow."""
        return cls(
            site,
            tuple(map(struct_of, avals)),
            certain=not site.has_pred,
            lead=site.batch_shape,
            varying=tuple(map(jax_core.varying_axes, avals)),
        )

    @property
    def sites(self) -> tuple[Site, ...]:
        """Sows of all branches; outside of a cond, the single sow."""
        return self.branches or (self.site,)

    @property
    def clobbers(self) -> bool:
        """Whether a sow of a name replaces the previous sow."""
        return self.site.mode in CLOBBERS

    @property
    def repeat_axis(self) -> int:
        """Axis along which occurrences of an appended value are stacked: behind the `vmap` axes."""
        return self.site.num_axes_outside(0 if self.clobbers else self.depth)

    @property
    def loop_axis(self) -> int:
        """Axis along which the next loop stacks an appended value."""
        return self.site.num_axes_outside(self.depth + 1)

    def collapse(self) -> "Found":
        """Record with all occurrences stacked into one."""
        if self.count == 1:
            return self
        return dataclasses.replace(
            self, avals=_with_axis(self.avals, self.repeat_axis, self.count), count=1
        )

    def out_of_loop(self, length: int) -> "Found":
        """Record as seen from outside of a scan of `length` iterations."""
        inner = self.collapse()
        certain = self.certain and length > 0
        if self.clobbers:
            return dataclasses.replace(inner, depth=self.depth + 1, certain=certain)
        avals = _with_axis(inner.avals, self.loop_axis, length)
        return dataclasses.replace(inner, avals=avals, depth=self.depth + 1)

    def out_of_vmap(self, size: int) -> "Found":
        """Record as seen from outside of a vmapped cond of `size` elements."""
        site, *branches = (s.out_of_vmap(self.depth, size) for s in (self.site, *self.branches))
        avals = _with_axis(self.avals, 0, size)
        lead = (size, *self.lead)
        return dataclasses.replace(
            self, site=site, branches=tuple(branches), avals=avals, lead=lead
        )

    def out_of_shards(self, axes: Mapping[Hashable, int], *, tracked: bool) -> "Found":
        """Record as seen from outside of a shard_map over some mesh axes.

        `tracked` tells whether JAX keeps track of the axes over which values vary.
        """
        inner = self.collapse()
        axis = self.loop_axis
        size = math.prod(axes.values())
        return dataclasses.replace(
            inner,
            avals=_with_axis(inner.avals, axis, size),
            depth=self.depth + 1,
            lead=(*self.lead[:axis], size, *self.lead[axis:]),
            shared=self.shared or (tracked and any(axes.keys() - v for v in self.varying)),
        )


def _with_axis(
    avals: Iterable[jax.ShapeDtypeStruct], axis: int, size: int
) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(
        jax.ShapeDtypeStruct(
            (*a.shape[:axis], size, *a.shape[axis:]), a.dtype, weak_type=a.weak_type
        )
        for a in avals
    )


def show(avals: Iterable[Any]) -> str:
    """Abstract values as errors print them: `float32[3], int32[]`."""
    return ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in avals) or "no arrays"


class SowError(ValueError):
    """Error for sows of one name that contradict one another or the construct around them."""

    def __init__(self, path: Path, message: str):
        super().__init__(f"sow {describe(path)}: {message}")
        self.path = path
        self.message = message


# By construct: where it is, and the name of it.
_PLACES = {
    "scan": ("in every iteration of a `scan`", "loop"),
    "while": ("in a `while_loop`, whose number of iterations is not known", "loop"),
    "cond": ("in some branches of a `cond` and not in others", "cond"),
}


def explain_made(site: Site, construct: str) -> str | None:
    """Words for a misplaced value that a library makes once, or renews; None for other sows.

    Its kind is the note of the site.
    """
    if site.mode not in ("strict", "clobber") or not isinstance(site.note, str):
        return None
    if construct not in _PLACES:
        return None
    what = site.note.replace("_", " ")
    place, name = _PLACES[construct]
    if site.mode == "clobber":
        return f"{what} is given {place}. Give it behind the {name}, or in all branches."
    return (
        f"{what} is made outside of {name}s, and this one {place}. Make it before the {name}, and "
        "use its value inside."
    )


class MisplacedError(SowError):
    """Error for a sow in a construct where it may never take place, or any number of times."""

    def __init__(self, site: Site, construct: str, message: str):
        super().__init__(site.path, explain_made(site, construct) or message)
        self.site = site
        self.construct = construct


def struct_of(aval: Any) -> jax.ShapeDtypeStruct:
    """Abstract value without its sharding."""
    weak = getattr(aval, "weak_type", False)  # a random key has none
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak)


class FindRule(Protocol):
    """Sites of an equation with inner programs, as seen from outside."""

    def find(self, eqn: jex.JaxprEqn, survey: "Survey") -> Sites:
        """Sites of the equation by path, in program order."""
        ...


class Survey:
    """Finds the sows that match, level by level; each jaxpr is walked once."""

    def __init__(
        self,
        matches: Callable[[Site], bool],
        strips: Callable[[Site], bool],
        rules: Mapping[str, FindRule],
    ):
        self._matches = matches
        self._strips = strips
        self._rules = rules
        self._found: dict[int, tuple[Any, Sites]] = {}
        self._strippable: dict[int, tuple[Any, bool]] = {}
        self._staying: dict[int, tuple[Any, list[Path]]] = {}

    def __call__(self, jaxpr: Jaxpr) -> Sites:
        """Matching sows of a jaxpr by path, in program order."""
        if id(jaxpr) not in self._found:
            found: dict[Path, Found] = {}
            if sows(jaxpr):
                for eqn in jaxprs.raw(jaxpr)[0].eqns:
                    for path, new in self.survey_equation(eqn).items():
                        found[path] = self.join(path, found[path], new) if path in found else new
            self._found[id(jaxpr)] = (jaxpr, found)
        return self._found[id(jaxpr)][1]

    def survey_equation(self, eqn: jex.JaxprEqn) -> Sites:
        """Matching sows of one equation by path."""
        if not jax_core.has_sow(eqn) and not hides_sow(eqn):
            return {}
        if eqn.primitive is sow_p:
            site = eqn.params["site"]
            if not self._matches(site):
                return {}
            if site.selected:
                raise MisplacedError(
                    site,
                    "vmap of cond",
                    "it stands in a branch of a cond whose predicate a vmap maps, beside a "
                    "collective over elements or an effect, or under spmd_axis_name, so that JAX "
                    "runs all branches and selects. Harvest inside of the vmap, as vmap(reap(f)), "
                    "or sow the result of the cond.",
                )
            return {site.path: Found.of(site, [v.aval for v in eqn.outvars])}
        if rule := self._rules.get(eqn.primitive.name):
            return rule.find(eqn, self)
        jaxprs = jax_core.subjaxprs(eqn)
        if not jaxprs:
            raise NotImplementedError(
                f"sow: the primitive {eqn.primitive.name!r} sows, and shows no program that "
                "harvest could open. Move the sow out of it."
            )
        for jaxpr in jaxprs:
            for path in self(jaxpr):
                raise NotImplementedError(
                    f"sow {describe(path)} stands inside of {eqn.primitive.name!r}, which harvest "
                    "cannot open. Move the sow out of it."
                )
        return {}

    def staying(self, jaxpr: Jaxpr) -> list[Path]:
        """Paths of the sows in a jaxpr, at any depth, that neither match nor are stripped."""
        if id(jaxpr) not in self._staying:
            eqns = jaxprs.raw(jaxpr)[0].eqns if jax_core.has_sow(jaxpr) else ()
            paths = [path for eqn in eqns for path in self._staying_in(eqn)]
            self._staying[id(jaxpr)] = jaxpr, list(dict.fromkeys(paths))
        return self._staying[id(jaxpr)][1]

    def _staying_in(self, eqn: jex.JaxprEqn) -> list[Path]:
        if eqn.primitive is sow_p:
            site = eqn.params["site"]
            return [site.path] * (not self._matches(site) and not self._strips(site))
        return [path for inner in jax_core.subjaxprs(eqn) for path in self.staying(inner)]

    def strips(self, eqn: jex.JaxprEqn) -> bool:
        """Whether an equation is a sow that is removed; its value stays."""
        if eqn.primitive is not sow_p:
            return False
        site = eqn.params["site"]
        return not self._matches(site) and self._strips(site)

    def opens(self, eqn: jex.JaxprEqn) -> bool:
        """Whether an equation must be opened, for a sow that matches or is stripped."""
        if not jax_core.has_sow(eqn):
            return False
        if self.survey_equation(eqn):
            return True
        return eqn.primitive.name in self._rules and any(
            map(self._has_stripped, jax_core.subjaxprs(eqn))
        )

    def _has_stripped(self, jaxpr: Jaxpr) -> bool:
        if id(jaxpr) not in self._strippable:
            eqns = jaxprs.raw(jaxpr)[0].eqns if jax_core.has_sow(jaxpr) else ()
            self._strippable[id(jaxpr)] = jaxpr, any(map(self._strips_in, eqns))
        return self._strippable[id(jaxpr)][1]

    def _strips_in(self, eqn: jex.JaxprEqn) -> bool:
        return self.strips(eqn) or any(map(self._has_stripped, jax_core.subjaxprs(eqn)))

    def join(self, path: Path, old: Found, new: Found) -> Found:
        """Record of two sows of one name, one after the other."""
        modes = (old.site.mode, new.site.mode)
        if old.clobbers != new.clobbers or "strict" in modes:
            raise SowError(
                path,
                f"Variable has already been reaped: the name is sown again (modes {modes[0]!r}, "
                f"then {modes[1]!r}). Give each sow its own name, put one into a scope with "
                "nest, or "
                "sow all of them with mode='append' or mode='clobber'.",
            )
        _check_same_values(path, old, new)
        widest = max(old, new, key=lambda f: len(f.site.axes))
        return dataclasses.replace(
            widest,
            count=1 if old.clobbers else old.count + new.count,
            certain=old.certain or new.certain,
            uniform=old.uniform and new.uniform and old.site.batch_shape == new.site.batch_shape,
        )


def _check_same_values(path: Path, old: Found, new: Found) -> None:
    """Check that two sows of a name have like values; one may stand outside of the `vmap`s."""
    same = old.site.tree == new.site.tree and _event_avals(old) == _event_avals(new)
    shapes = {old.site.batch_shape, new.site.batch_shape}
    movable = all(f.repeat_axis in (0, len(f.site.axes)) for f in (old, new))
    movable &= len({len(f.lead) - len(f.site.axes) for f in (old, new)}) == 1
    if not (same and len(shapes - {()}) <= 1 and movable):
        raise SowError(
            path,
            f"the same name is sown with different values: {show(old.avals)} and then "
            f"{show(new.avals)}. Give each its own name, and lax.map a batch_size that divides its "
            "length.",
        )


def _event_avals(found: Found) -> list[tuple[Any, ...]]:
    outside = found.repeat_axis
    return [(a.shape[outside:], a.dtype) for a in found.avals]
