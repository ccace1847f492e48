"""Interpreter of jaxprs, the only one of harvest: an action decides what happens at each sow."""

import abc
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs, leaf_values
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.leaked_tracers import explain_leaked_tracer
from ppl.harvest.liveness import Liveness, LiveRule, Mask
from ppl.harvest.plants import Plants, move_axis
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site, sow_p, tangent_p
from ppl.harvest.survey import FindRule, Found, Path, Sites, Survey, describe


class Action(abc.ABC):
    """Behavior of a transformation at the sows of a program."""

    batched: ClassVar[bool] = True
    """Whether records have the `vmap` axes of the site in front, as values have."""

    adds: ClassVar[bool] = False
    """Whether only the sum of all records matters; `batched` is then False."""
    records: ClassVar[bool] = True
    """Whether `at` records anything. If not, `at` may sow again, and is given the key for it."""

    resows: ClassVar[bool] = False
    """Whether `at` may sow again although it records; it is then given the key for it."""

    at_once: ClassVar[bool] = False
    """Whether independent steps of a loop may run at once."""

    perturbs: ClassVar[bool] = False
    """Whether a plant is added to the sown value, and the sum recorded."""

    @abc.abstractmethod
    def matches(self, site: Site) -> bool:
        """Whether the transformation looks at this sow."""

    def strips(self, site: Site) -> bool:
        """Whether a sow that does not match is removed from the program; its value stays."""
        return False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """Whether `at` reads the value, the predicate and the extras."""
        return not planted, not planted, False

    def is_constant(self, path: Path) -> bool:
        """Whether a plant is known to be equal in all steps of loops, which then read it once."""
        return False

    @abc.abstractmethod
    def at(self, site: Site, operands: "Operands", plant: Any) -> tuple[Sequence[Any], Any]:
        """Leaves in place of the value, and a record to reap: a pytree, or None."""


@dataclasses.dataclass(frozen=True)
class RestrictedAction(Action):
    """Action restricted to some names; other sows stay, or are removed if it acts `alone`."""

    action: Action
    names: frozenset[Path]
    alone: bool = False

    def __post_init__(self) -> None:
        for trait in ("batched", "adds", "records", "resows", "at_once", "perturbs"):
            object.__setattr__(self, trait, getattr(self.action, trait))

    def matches(self, site: Site) -> bool:
        """Whether the sow has one of the names and the action looks at it."""
        return self.action.matches(site) and site.path in self.names

    def strips(self, site: Site) -> bool:
        """Whether a sow that does not match is removed."""
        return self.alone or (self.action.strips(site) and not self.action.matches(site))

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The operands of a sow that the action reads."""
        return self.action.reads(site, planted)

    def is_constant(self, path: Path) -> bool:
        """Whether the action knows a plant to be equal in all steps."""
        return self.action.is_constant(path)

    def at(self, site: Site, operands: "Operands", plant: Any) -> tuple[Sequence[Any], Any]:
        """Values and record by the action."""
        return self.action.at(site, operands, plant)


@dataclasses.dataclass(frozen=True)
class Operands:
    """Operands of a sow; leaves that the action does not read may be None.

    `is_used` tells whether any evaluated equation depends on the sown value.
    """

    values: tuple[Any, ...]
    pred: Any
    extras: tuple[Any, ...]
    key: Any = None
    is_used: bool = True


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Reaped:
    """Record of one occurrence of a sow.

    `pred` tells whether the sow took place; None if that is certain. A `zeroed` record is known to
    be zeros where the sow did not take place.
    """

    record: Any
    pred: Any
    site: Site = dataclasses.field(metadata={"static": True})
    zeroed: bool = dataclasses.field(default=False, metadata={"static": True})

    def override_where_taken(self, old: "Reaped") -> "Reaped":
        """Select this record where it took place, and the `old` one elsewhere."""
        if self.pred is None:
            return self
        record = jax.tree.map(lambda n, o: _select(self.pred, n, o), self.record, old.record)
        pred = None if old.pred is None else self.pred | old.pred
        return dataclasses.replace(self, record=record, pred=pred, zeroed=old.zeroed)

    def spread(self, site: Site) -> "Reaped":
        """Record broadcast to the `vmap` axes of another sow of the same name."""
        if self.site.batch_shape == site.batch_shape:
            return self

        def spread(leaf):
            return jnp.broadcast_to(leaf, site.batch_shape + leaf.shape)

        return dataclasses.replace(jax.tree.map(spread, self), site=site)

    def or_zeros(self) -> "Reaped":
        """Record with zeros where it did not take place."""
        if self.pred is None or self.zeroed:
            return self

        def select(leaf):
            return _select(self.pred, leaf, jnp.zeros_like(leaf))

        return dataclasses.replace(self, record=jax.tree.map(select, self.record))


def _select(pred: jax.Array, on_true: Any, on_false: Any) -> jax.Array:
    pred = jnp.expand_dims(pred, tuple(range(pred.ndim, on_true.ndim)))
    return jnp.where(pred, on_true, on_false)


Results = tuple[Sequence[Any], list[Reaped]]


class Opened(NamedTuple):
    """Equation to be evaluated by its rule.

    Attributes:
        eqn: The equation.
        args: Values of its operands; None for operands that are not needed.
        plants: Queues of plants for its sows.
        live_outs: Mask of its results that are needed.
        on: Interpreter of its inner programs.
    """

    eqn: jex.JaxprEqn
    args: list[Any]
    plants: Plants
    live_outs: Mask
    on: "Interpreter"


class RunRule(Protocol):
    """Evaluation of an equation with inner programs, with their plants and records."""

    def run(self, opened: Opened) -> Results:
        """Results and records of an equation with inner programs."""
        ...


class Rule(FindRule, LiveRule, RunRule, Protocol):
    """Rule of one primitive with inner programs."""


class Interpreter:
    """Evaluates a program under one action.

    An equation with inner programs is opened by its rule if it holds a sow that the action matches
    or strips, or the tangent of a planted value. Most others are evaluated as they stand.
    """

    def __init__(
        self,
        action: Action,
        rules: Mapping[str, Rule],
        planted: Iterable[Path],
        survey: Survey,
    ):
        self.action = action
        self.survey = survey
        self.rules = rules
        self._planted = frozenset(planted)
        replaced = frozenset() if action.perturbs else self._planted
        self.liveness = Liveness(survey, rules, self._reads, self._opens, replaced)
        self.holds_arrays = True  # Whether a record or plant may hold an operand.
        self._stopping: dict[int, tuple[Any, bool]] = {}
        self.functions: dict[Any, Callable[..., Any]] = {}  # One for each call, for JAX's caches.

    def under(
        self, action: Action, planted: Iterable[Path] = (), rules: Any = None
    ) -> "Interpreter":
        """Interpreter with another action, and perhaps with other rules."""
        rules = self.rules if rules is None else rules
        survey = Survey(action.matches, action.strips, rules)
        return Interpreter(action, rules, planted, survey)

    def run(
        self,
        jaxpr: Jaxpr,
        args: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        live_outs: Sequence[bool],
    ) -> tuple[list[Any], list[Reaped]]:
        """Results and records of a jaxpr; arguments and results that are not needed are None."""
        inner, consts = jaxprs.raw(jaxpr)
        env = dict(zip([*inner.constvars, *inner.invars], [*consts, *args], strict=True))
        queue = Plants(plants)
        reaps = []
        for eqn, needs in zip(inner.eqns, self.liveness.equations(jaxpr, live_outs), strict=True):
            if needs is None:
                continue
            operands = [
                _read(env, v) if read else None
                for v, read in zip(eqn.invars, needs[0], strict=True)
            ]
            self.holds_arrays = bool(reaps or self._planted)
            outs, new = self._equation(eqn, operands, queue, needs[1])
            reaps += new
            env.update(zip(eqn.outvars, outs, strict=True))
        results = [
            _read_result(env, v) if live else None
            for v, live in zip(inner.outvars, live_outs, strict=True)
        ]
        return results, self._last(reaps, jaxpr)

    def _equation(
        self, eqn: jex.JaxprEqn, args: list[Any], queue: Plants, live_outs: Mask
    ) -> Results:
        sites = self.survey.survey_equation(eqn)
        if eqn.primitive is sow_p:
            return self._sow(eqn, args, queue.take(sites), bool(sites), any(live_outs))
        if eqn.primitive is tangent_p:
            return self._tangent(eqn, args), []
        if self._opens(eqn) or any(x is None for x in args):
            args = [
                jax_core.as_aval(x, v.aval) if isinstance(v, jex.Literal) and x is not None else x
                for x, v in zip(args, eqn.invars, strict=True)
            ]
            return self._rule(eqn).run(Opened(eqn, args, queue, live_outs, self))
        return jax_core.bind(eqn, args), []

    def _sow(
        self,
        eqn: jex.JaxprEqn,
        args: list[Any],
        plants: Mapping[Path, Sequence[Any]],
        matches: bool,
        is_used: bool,
    ) -> Results:
        site = eqn.params["site"]
        if not matches and not self.action.strips(site):
            return sow_p.bind(*args, site=site), []
        operands = _operands(eqn, args)
        if not matches:
            return operands.values, []
        (plant,) = plants.get(site.path, [None])
        operands = dataclasses.replace(operands, is_used=is_used)
        with explain_leaked_tracer(f"site {describe(site.path)}: "):
            values, record = self.action.at(site, operands, plant)
        values = [jax_core.as_aval(x, v.aval) for x, v in zip(values, eqn.outvars, strict=True)]
        return values, [] if record is None else [Reaped(record, operands.pred, site)]

    def _rule(self, eqn: jex.JaxprEqn) -> Rule:
        if eqn.primitive.name in self.rules:
            return self.rules[eqn.primitive.name]
        raise NotImplementedError(
            f"the derivative of a planted value stands inside of {eqn.primitive.name!r}, which "
            "harvest cannot open. Plant inside of the differentiation, as grad(plant(f))."
        )

    def _tangent(self, eqn: jex.JaxprEqn, args: list[Any]) -> list[Any]:
        """Tangent of a sown value: zero at a planted one, in forward and in reverse mode."""
        site = eqn.params["site"]
        if self._is_planted(site):
            return [jnp.zeros_like(x) for x in args]
        return (
            args
            if self.action.matches(site) or self.action.strips(site)
            else jax_core.bind(eqn, args)
        )

    def _is_planted(self, site: Site) -> bool:
        return site.path in self._planted and self.action.matches(site) and not self.action.perturbs

    def _opens(self, eqn: jex.JaxprEqn) -> bool:
        return self.survey.opens(eqn) or self._stops(eqn)

    def _stops(self, eqn: jex.JaxprEqn) -> bool:
        """Whether an equation holds the tangent of a planted value."""
        return bool(self._planted) and any(map(self._stops_in, jax_core.subjaxprs(eqn)))

    def _stops_in(self, jaxpr: Jaxpr) -> bool:
        if id(jaxpr) not in self._stopping:
            self._stopping[id(jaxpr)] = (
                jaxpr,
                any(
                    self._is_planted(e.params["site"])
                    if e.primitive is tangent_p
                    else self._stops(e)
                    for e in jaxprs.raw(jaxpr)[0].eqns
                ),
            )
        return self._stopping[id(jaxpr)][1]

    def _reads(self, eqn: jex.JaxprEqn) -> Mask:
        site = eqn.params["site"]
        value, pred, extras = self.action.reads(site, site.path in self._planted)
        return (
            *[value] * site.num_values,
            *[pred] * site.has_pred,
            *[extras] * site.num_extras,
            *[self.action.resows or not self.action.records] * site.has_key,
        )

    def _last(self, reaps: list[Reaped], jaxpr: Jaxpr) -> list[Reaped]:
        """Records of a jaxpr, with one for each clobbered name: the last."""
        if self.action.adds:
            return reaps
        sites = self.survey(jaxpr)
        clobbered = [r for r in reaps if sites[r.site.path].clobbers]
        others = [r for r in reaps if not sites[r.site.path].clobbers]
        return others + list(self.gather(clobbered, sites).values())

    def gather(self, reaps: Iterable[Reaped], sites: Sites) -> dict[Path, Reaped]:
        """Records of one level by path: the last of a clobbered name, all of an appended one."""
        groups: dict[Path, list[Reaped]] = {}
        for reaped in reaps:
            groups.setdefault(reaped.site.path, []).append(reaped)
        return {path: self._merge(group, sites[path]) for path, group in groups.items()}

    def _merge(self, group: list[Reaped], found: Found) -> Reaped:
        group = [self.spread(reaped, {found.site.path: found}) for reaped in group]
        if found.clobbers:
            return functools.reduce(lambda old, new: new.override_where_taken(old), group)
        if found.count == 1:
            return group[0]
        axis = found.repeat_axis if self.action.batched else 0

        def stack(*leaves):
            return jnp.stack(leaves, axis)

        return Reaped(jax.tree.map(stack, *[r.record for r in group]), None, found.site)

    def condense(self, reaps: list[Reaped]) -> list[Reaped]:
        """Records of one level, summed into one if only the sum matters."""
        if not self.action.adds or not reaps:
            return reaps
        sums = [jnp.sum(r.record) if r.record.ndim else r.record for r in reaps]
        return [dataclasses.replace(reaps[0], record=functools.reduce(operator.add, sums))]

    def spread(self, reaped: Reaped, sites: Sites) -> Reaped:
        """Record broadcast to the `vmap` axes of the other sows of its name."""
        return reaped.spread(sites[reaped.site.path].site) if self.action.batched else reaped

    def from_loop_axis(self, record: Any, found: Found) -> Any:
        """Record with the axis of a scan moved from the front to its place."""
        return move_axis(record, 0, found.loop_axis) if self.action.batched else record


def _read(env: Mapping[Any, Any], atom: Any) -> Any:
    return atom.val if isinstance(atom, jex.Literal) else env[atom]


def _operands(eqn: jex.JaxprEqn, args: list[Any]) -> Operands:
    """Operands of a sow. A literal among the extras becomes a host scalar.

    Its value stays known this way; a traced number would hide it.
    """
    site = eqn.params["site"]
    literal = [
        isinstance(v, jex.Literal) and x is not None for v, x in zip(eqn.invars, args, strict=True)
    ]
    cast = [jax_core.as_aval] * site.num_mapped_always
    cast += [leaf_values.host_scalar] * (len(args) - len(cast))
    columns = zip(args, eqn.invars, literal, cast, strict=True)
    return Operands(*site.split([c(x, v.aval) if known else x for x, v, known, c in columns]))


def _read_result(env: Mapping[Any, Any], atom: Any) -> Any:
    value = _read(env, atom)
    return jax_core.as_aval(value, atom.aval) if isinstance(atom, jex.Literal) else value
