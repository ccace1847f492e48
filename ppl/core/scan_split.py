"""Program split at its scan: what comes before the loop, one step of it, and what comes after.

A model with one scan that observes data in its body is a state space. `ScanSplit` has the three
programs, with the latent sites of each; all that is asked of a program is asked of its jaxpr.
"""

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import jax
import numpy as np
from jax import random
from jax.extend import core as jex

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.common.missing_data import is_imputed
from ppl.common.scaled_distribution import factors_at
from ppl.core.captured_constants import fingerprint_constants, fingerprint_wiring
from ppl.core.joint_scores import joint_scores_of
from ppl.core.model_run import ModelRun, SiteAction, score
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.construct import construct_of
from ppl.harvest.interpreter import Operands
from ppl.harvest.liveness import Mask
from ppl.harvest.program import Harvester, Program, trace
from ppl.harvest.rules import CONSTRUCTS, wiring_of
from ppl.harvest.rules.call import CallRule
from ppl.harvest.rules.shard_map import ShardMapRule
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites, Survey, describe, describe_all, struct_of
from ppl.harvest.wirings import Scan
from ppl.primitives.draw_primitive import hash_of_path
from ppl.primitives.site_kinds import FACTOR, LATENT, OBSERVED, RANDOM, kind_of

_PUT_INSIDE = (
    "The weight of a whole path cannot come step by step: put the observed site into the body of "
    "the scan, where it sees the values of its step"
)


@dataclasses.dataclass(frozen=True)
class DrawAndWeigh(SiteAction):
    """Action that draws latent sites without a plant, and scores all other sites.

    The record of a site that is drawn is its value. All other records are log probabilities, one
    for each element. A draw depends on `key`, on its `vmap` axes and, unless its site is the only
    one that is drawn, on the path of the site; it does not depend on the key of the model.

    Attributes:
        key: The random key of the draws.
        dtypes: Dtypes of the leaves of the latent sites without a plant, by path.
    """

    tags: ClassVar = (RANDOM, FACTOR)
    key: Any
    dtypes: Mapping[Path, Sequence[Any]]

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value of data and factors, and the distribution."""
        return not planted and kind_of(site) != LATENT, False, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """A draw as value and record, or a given value and its log probability."""
        if plant is None and kind_of(site) == LATENT:
            values = self._draw(site, operands)
            return values, jax.tree.unflatten(site.tree, values)
        return score(site, operands, operands.values if plant is None else plant)

    def _draw(self, site: Site, operands: Operands) -> list[Any]:
        def one(key: Any, of_model: Any, *leaves: Any) -> tuple[Any, ...]:
            d = jax.tree.unflatten(site.extra_tree, leaves)
            try:
                return tuple(
                    jax.tree.leaves(distribution_protocol.draw(d, self._mix(key, of_model)))
                )
            except NotImplementedError as error:
                raise NotImplementedError(f"site {describe(site.path)}: {error}") from error

        for axis in site.axes:
            mapped = (0 if is_mapped else None for is_mapped in axis.mapped)
            of_model = 0 if axis.maps_key else None
            one = jax.vmap(one, in_axes=(0, of_model, *mapped), axis_size=axis.size)
        # The key of a lone draw serves no other: no hash is needed.
        is_lone = len(self.dtypes) == 1
        keys = self.key if is_lone else random.fold_in(self.key, hash_of_path(site.path))
        keys = random.split(keys, site.batch_shape) if site.axes else keys
        drawn = one(keys, operands.key, *operands.extras)
        return [x.astype(t) for x, t in zip(drawn, self.dtypes[site.path], strict=True)]

    def _mix(self, key: jax.Array, of_model: Any) -> jax.Array:
        """The key of a draw; `of_model` is the key that the model gives to the site."""
        return key


@dataclasses.dataclass(frozen=True)
class DrawInLoops(DrawAndWeigh):
    """Action as `DrawAndWeigh` for programs with inner loops, whose steps have keys of the model.

    A draw depends on `key` and on the key of the model, which tells one step from another.
    """

    resows: ClassVar[bool] = True

    def _mix(self, key: jax.Array, of_model: Any) -> jax.Array:
        is_typed = jax.numpy.issubdtype(of_model.dtype, jax.dtypes.prng_key)
        words = random.key_data(of_model) if is_typed else of_model
        for i in range(words.shape[-1]):
            key = random.fold_in(key, words[i])
        return key


@dataclasses.dataclass(frozen=True)
class _Cut(SiteAction):
    """Action that reads nothing at some random sites, where plants are, and strips all others."""

    paths: frozenset[Path]

    def matches(self, site: Site) -> bool:
        return site.tag == RANDOM and site.path in self.paths

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return not planted, False, False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        return operands.values if plant is None else plant, None


@dataclasses.dataclass(frozen=True)
class _Context(SiteAction):
    """Action that records the distributions of some latent sites, and the values of data.

    Attributes:
        latent: These latent sites, whose values are not read.
    """

    latent: Sites

    def matches(self, site: Site) -> bool:
        kind = kind_of(site)
        return kind == OBSERVED or (kind == LATENT and site.path in self.latent)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return kind_of(site) == OBSERVED, False, kind_of(site) == LATENT

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        def restore(*leaves: Any) -> Any:
            d = jax.tree.unflatten(site.extra_tree, leaves)
            return distribution_protocol.with_all_batch_axes(d)

        if kind_of(site) == OBSERVED:
            return operands.values, jax.tree.unflatten(site.tree, operands.values)
        unread = [jax.numpy.zeros(a.shape, a.dtype) for a in self.latent[site.path].avals]
        return unread, lift(restore, site.axes)(*operands.extras)


@dataclasses.dataclass(frozen=True)
class Part:
    """One of the three programs of a model that is split at its scan.

    Attributes:
        jaxpr: The open jaxpr.
        latent: The latent sites.
        mixes: Whether a latent site stands in a loop, so that draws need the key of the model.
    """

    jaxpr: Any
    latent: Sites
    mixes: bool

    @classmethod
    def of(cls, jaxpr: Any) -> "Part":
        """The part with a jaxpr."""
        sites = _survey(LATENT)(jaxpr)
        return cls(jaxpr, sites, any(found.depth for found in sites.values()))

    @property
    def observed(self) -> tuple[Path, ...]:
        """Paths of observed sites and factors."""
        return tuple(_survey(OBSERVED, FACTOR)(self.jaxpr))

    def action(self, key: Any, plants: Collection[Path] = ()) -> DrawAndWeigh:
        """The action that draws latent sites without a plant by `key`, and weighs all others."""
        drawn = {path: found for path, found in self.latent.items() if path not in plants}
        dtypes = {path: [a.dtype for a in found.avals] for path, found in drawn.items()}
        return (DrawInLoops if self.mixes else DrawAndWeigh)(key, dtypes)

    def run(
        self, key: Any, args: Sequence[Any], plants: Mapping[Path, Any], live_outs: Sequence[bool]
    ) -> tuple[list[Any], dict[Path, Any]]:
        """Results, None where not live, and records by path, see `DrawAndWeigh`."""
        return self._harvester(self.action(key, plants), args).run(plants, live_outs=live_outs)

    def needs(self, live_outs: Sequence[bool]) -> Mask:
        """Mask of the inputs that some results and all draws and scores depend on."""
        return self._harvester(self.action(None), None).needs({}, live_outs)

    def evaluate(
        self, args: Sequence[Any], plants: Mapping[Path, Any], live_outs: Sequence[bool]
    ) -> list[Any]:
        """Results that depend on no latent site without a plant, None where not live."""
        action = _Cut(frozenset(plants))
        return self._harvester(action, args).run(plants, live_outs=live_outs)[0]

    def depends_on(self, live_outs: Sequence[bool]) -> Mask:
        """Mask of the inputs that some results depend on, given all latent sites."""
        plants = dict.fromkeys(self.latent)
        return self._harvester(_Cut(frozenset(plants)), None).needs(plants, live_outs)

    def find_random(self, given: Sequence[Path]) -> Mask:
        """Mask of the results that may depend on a latent site that is not given."""
        survey = _survey(LATENT)
        random_vars: set[Any] = set()
        for eqn in self.jaxpr.eqns:
            draws = any(path not in given for path in survey.survey_equation(eqn))
            if draws or any(v in random_vars for v in _variables(eqn.invars)):
                random_vars |= set(eqn.outvars)
        return tuple(
            not isinstance(v, jex.Literal) and v in random_vars for v in self.jaxpr.outvars
        )

    def context(self, args: Sequence[Any]) -> tuple[dict[Path, Any], dict[Path, Any]]:
        """Distributions of latent sites that depend on no other one, and values of data, by path.

        Latent sites within a branch or an inner loop are left out.
        """
        flat = _inline(self._program(args), jax_core.has_sow)
        first = {path: self.latent[path] for path in _find_first(flat.jaxpr)}
        nothing = [False] * len(self.jaxpr.outvars)
        records = Harvester(flat, _Context(first)).run({}, live_outs=nothing)[1]
        prior = {path: x for path, x in records.items() if path in first}
        return prior, {path: x for path, x in records.items() if path not in first}

    def _harvester(self, action: SiteAction, args: Sequence[Any] | None) -> Harvester:
        return Harvester(self._program(args), action)

    def _program(self, args: Sequence[Any] | None) -> Program:
        operands = [None] * len(self.jaxpr.invars) if args is None else list(args)
        return Program(self.jaxpr, [], operands, list)


@dataclasses.dataclass(frozen=True, eq=False)
class ScanSplit:
    """Model split at its scan; two are equal if their programs are.

    The results of `before` are the operands of the scan (constants, carry, rows) and then `extras`,
    which `after` reads besides the last carry. Inputs and results that nothing needs are not
    evaluated.

    Attributes:
        name: The name of the model, for errors.
        before: The program of all that does not depend on the scan.
        body: The program of one step; its inputs are constants, carry and a row.
        after: The program of all that depends on the scan; its inputs are the carry and `extras`.
        sizes: Numbers of constants, carried values, rows and extras.
        constants: Numbers in the body, its first inputs.
        length: Number of steps.
        is_reversed: Whether the last row comes first.
        live: For each result of `before`, whether anything needs it.
        memory: Number of steps after which the carry does not depend on an earlier carry, given the
            latent values of these steps; None if it always does.
        order: Paths of all latent sites, in the order of the model.
        key_at: Place of the key of the model among the inputs of `before`.
        fingerprint: What the programs are compared by.
    """

    name: str
    before: Part
    body: Part
    after: Part
    sizes: tuple[int, ...]
    constants: tuple[Any, ...]
    length: int
    is_reversed: bool
    live: Mask
    memory: int | None
    order: tuple[Path, ...]
    key_at: int
    fingerprint: Hashable

    def __eq__(self, other: object) -> bool:
        """Whether the programs are equal."""
        return isinstance(other, ScanSplit) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        """The hash of the fingerprint."""
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """The name of the model and the number of steps."""
        return f"ScanSplit({self.name}, {self.length} steps)"

    def groups(self, results: Sequence[Any]) -> list[list[Any]]:
        """Constants, carry, rows and extras among the results of `before`."""
        ends = np.cumsum(self.sizes).tolist()
        return [list(results[end - n : end]) for end, n in zip(ends, self.sizes, strict=True)]

    def step(
        self, key: Any, results: Sequence[Any], t: Any, plants: Mapping[Path, Any]
    ) -> tuple[list[Any], dict[Path, Any]]:
        """The next carry and the records of one step; see `Part.run`.

        Args:
            key: The key of draws.
            results: Results of `before`, with the carry of this step in the place of the first.
            t: The number of the step.
            plants: Values of latent sites of the step.
        """
        num_rest = len(self.body.jaxpr.outvars) - self.sizes[1]
        _, live, _, _ = self.groups(self.live)
        args = self.operands(results, t)
        outs, records = self.body.run(key, args, plants, [*live, *[False] * num_rest])
        return outs[: self.sizes[1]], records

    def operands(self, results: Sequence[Any], t: Any) -> list[Any]:
        """Inputs of the body in step `t`, None where nothing needs them; see `step`."""
        consts, carry, xs, _ = self.groups(results)
        at = self.length - 1 - t if self.is_reversed else t
        row = [
            None if x is None else jax.lax.dynamic_index_in_dim(x, at, keepdims=False) for x in xs
        ]
        return [*self.constants, *consts, *carry, *row]

    def finish(self, results: Sequence[Any]) -> dict[Path, Any]:
        """Log probabilities after the scan by path.

        Args:
            results: Results of `before`, with the last carry in the place of the first.
        """
        _, carry, _, extras = self.groups(results)
        num_stacked = len(self.after.jaxpr.invars) - len(carry) - len(extras)
        return self.after.run(None, [*carry, *[None] * num_stacked, *extras], {}, [])[1]


def split_at_scan(run: ModelRun, program: Program) -> tuple[ScanSplit, list[Any]]:
    """Split a model at its one scan with observed sites.

    Args:
        run: The model under any action, whose density is checked already.
        program: Its program.

    Returns:
        The split, and the inputs of `before` without the key of the model.

    Raises:
        ValueError: If there is no such scan, or there are several, or a site stands where no weight
            can come step by step.
        NotImplementedError: If a site is observed in part, scaled, or scored with others.
    """
    _check_sites(run)
    flat = _inline(program, _holds_scan)
    eqns = jaxprs.raw(flat.jaxpr)[0].eqns
    eqn = _find_scan(run.name, eqns)
    wiring = wiring_of(eqn)
    assert isinstance(wiring, Scan)
    if not wiring.length:
        raise ValueError(f"{run.name}: its scan has no steps, so there is nothing to filter.")
    num_carry = wiring.num_carry
    # Before and after: by dependence on the scan, whatever the order of the program.
    late = find_dependent(eqns, eqn.outvars)
    is_late = {id(other) for other in (eqn, *late)}
    before = [other for other in eqns if id(other) not in is_late]
    _check_no_latent(run.name, late)
    made = {v for other in late for v in other.outvars}
    read = dict.fromkeys(v for other in late for v in _variables(other.invars))
    extras = [v for v in read if v not in made and v not in eqn.outvars]
    after = Part.of(_program_of(late, [*eqn.outvars, *extras], []))
    needs = after.needs([])
    if any(needs[num_carry : len(eqn.outvars)]):
        _refuse_stacked(run.name, late, eqn.outvars[num_carry:])
    # The body: carried values that anything needs, and how long they remember.
    jaxpr, constants = jaxprs.without_consts(wiring.body)
    body = Part.of(jaxpr)
    live_body = _find_live_inputs(body, wiring, needs[:num_carry])[len(constants) :]
    _, live_carry, _ = wiring.split(live_body)
    operands = Part.of(_program_of(before, flat.jaxpr.invars, [*eqn.invars, *extras]))
    split = ScanSplit(
        name=run.name,
        before=operands,
        body=body,
        after=after,
        sizes=(*map(len, wiring.split(eqn.invars)), len(extras)),
        constants=tuple(constants),
        length=wiring.length,
        is_reversed=wiring.reverse,
        live=(*live_body, *needs[len(eqn.outvars) :]),
        memory=_find_memory(body, tuple(live_carry), len(constants) + wiring.num_consts),
        order=tuple(run.latent()),
        key_at=len(flat.consts),
        fingerprint=_fingerprint(run.name, flat.jaxpr),
    )
    return split, [x for i, x in enumerate(flat.inputs) if i != split.key_at]


def _survey(*kinds: str) -> Survey:
    """Survey of the sites of some kinds."""

    def matches(site: Site) -> bool:
        return site.tag in (RANDOM, FACTOR) and kind_of(site) in kinds

    return Survey(matches, lambda _: False, CONSTRUCTS)


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [v for v in atoms if not isinstance(v, jex.Literal)]


def find_dependent(eqns: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The equations that depend on some variables, in their order."""
    reached = set(variables)
    found = []
    for eqn in eqns:
        if not reached.isdisjoint(_variables(eqn.invars)):
            reached |= set(eqn.outvars)
            found.append(eqn)
    return found


def _fingerprint(name: str, jaxpr: Any) -> Hashable:
    return name, tuple(fingerprint_constants(jaxpr, ())), fingerprint_wiring(jaxpr)


def _program_of(eqns: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Open jaxpr of some equations."""

    def run(*args: Any) -> list[Any]:
        env = dict(zip(inputs, args, strict=True))

        def read(atom: Any) -> Any:
            if isinstance(atom, jex.Literal):
                return jax_core.as_aval(atom.val, atom.aval)
            return env[atom]

        for eqn in eqns:
            env.update(
                zip(eqn.outvars, jax_core.bind(eqn, list(map(read, eqn.invars))), strict=True)
            )
        return list(map(read, outputs))

    program = trace(run, tuple(struct_of(v.aval) for v in inputs), {})
    assert not program.consts
    return program.jaxpr


def _find_first(jaxpr: Any) -> list[Path]:
    """Paths of the latent sites whose distribution depends on no other latent site."""
    survey = _survey(LATENT)
    drawn: set[Any] = set()
    found = []
    for eqn in jaxpr.eqns:
        paths = list(survey.survey_equation(eqn))
        if paths and eqn.primitive.name == "sow":
            extras = _variables(eqn.params["site"].split(eqn.invars)[2])
            found += paths * drawn.isdisjoint(extras)
        if paths or not drawn.isdisjoint(_variables(eqn.invars)):
            drawn |= set(eqn.outvars)
    return found


def _inline(program: Program, is_opened: Callable[[Any], bool]) -> Program:
    """The program with some calls opened; their equations stand in the place of the call.

    A `shard_map` stays: the equations of its body are those of one shard.
    """

    def evaluate(jaxpr: Any, args: Sequence[Any]) -> list[Any]:
        inner, consts = jaxprs.raw(jaxpr)
        env = dict(zip([*inner.constvars, *inner.invars], [*consts, *args], strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, jex.Literal) else env[atom]

        for eqn in inner.eqns:
            values = list(map(read, eqn.invars))
            construct = construct_of(eqn)
            in_shards = isinstance(construct, ShardMapRule)
            if isinstance(construct, CallRule) and not in_shards and is_opened(eqn):
                outs = evaluate(eqn.params[construct.body], values)
            else:
                outs = jax_core.bind(eqn, values)
            env.update(zip(eqn.outvars, outs, strict=True))
        return [
            jax_core.as_aval(read(v), v.aval) if isinstance(v, jex.Literal) else read(v)
            for v in inner.outvars
        ]

    def run(*inputs: Any) -> list[Any]:
        return evaluate(program.jaxpr, inputs)

    traced = trace(run, tuple(struct_of(v.aval) for v in program.jaxpr.invars), {})
    return Program(
        traced.jaxpr, [*traced.consts, *program.consts], program.operands, program.unflatten
    )


def _holds_scan(eqn: Any) -> bool:
    """Whether a scan with sites stands inside of an equation."""
    if not jax_core.has_sow(eqn):
        return False
    return any(
        (inner.primitive.name == "scan" and jax_core.has_sow(inner)) or _holds_scan(inner)
        for jaxpr in jax_core.subjaxprs(eqn)
        for inner in jaxprs.raw(jaxpr)[0].eqns
    )


def _find_scan(name: str, eqns: Sequence[Any]) -> Any:
    """The one scan of a flat program with observed sites in its body."""
    observed = _survey(OBSERVED, FACTOR)
    found = [eqn for eqn in eqns if eqn.primitive.name == "scan" and observed.survey_equation(eqn)]
    if len(found) > 1:
        names = describe_all(path for eqn in found for path in observed.survey_equation(eqn))
        raise ValueError(
            f"{name}: {len(found)} scans have observed sites, {names}, and particles go through "
            "one. Put the steps into one lax.scan, or condition on the data of one scan only."
        )
    if found:
        return found[0]
    for eqn in eqns:
        sites = observed.survey_equation(eqn)
        if sites and eqn.primitive.name != "sow":
            raise ValueError(
                f"{name}: no lax.scan with observed sites stands at the top of the program: "
                f"{describe_all(sites)} stand inside of {eqn.primitive.name!r}, which decides at "
                "run time, or on several devices, whether there is a loop. Put the lax.scan "
                "outside of it."
            )
    latent = _survey(LATENT)
    loops = [
        path for eqn in eqns if eqn.primitive.name == "scan" for path in latent.survey_equation(eqn)
    ]
    if loops and not any(observed.survey_equation(eqn) for eqn in eqns):
        raise ValueError(
            f"{name}: no site is observed, so that no step has a weight. Give the data, "
            "ppl.condition(model, {name: values}), of a site in the body of the scan; there are "
            f"{describe_all(loops)}."
        )
    if loops:
        raise ValueError(
            f"{name}: the scan that draws {describe_all(loops)} has no observed sites in its body, "
            f"so that no step has a weight. {_PUT_INSIDE}; data are given by ppl.condition."
        )
    raise ValueError(
        f"{name} has no lax.scan with sites, whose steps particles could go through. Write the "
        "series as a lax.scan that samples the observed site in its body, and condition on the "
        "data; for a model without steps, use inference.mcmc with NUTS() or, for discrete sites, "
        "Gibbs.auto(); or inference.smc or inference.importance."
    )


def _check_sites(run: ModelRun) -> None:
    """Refuse sites that have no draws and weights of their own."""
    for path, found in run.sites.items():
        for site in found.sites:
            if joint_scores_of(site):
                raise NotImplementedError(
                    f"{run.name}: site {describe(path)} is scored together with others, by a sum "
                    "or an integral over the whole program, so that it has no weight a step. "
                    "Filter the model before ppl.marginalize."
                )
            if kind_of(site) != LATENT:
                continue
            if is_imputed(site):
                raise NotImplementedError(
                    f"{run.name}: site {describe(path)} is observed in part, by ppl.impute: its "
                    "draws given the known entries are not those of its distribution. Leave the "
                    "missing entries out, by ppl.ignore."
                )
            if factors_at(site):
                raise NotImplementedError(
                    f"{run.name}: site {describe(path)} is latent and scaled, by ppl.scale: a "
                    "power of its density has no draws. Scale observed sites only."
                )


def _check_no_latent(name: str, eqns: Sequence[Any]) -> None:
    survey = _survey(LATENT)
    if found := [path for eqn in eqns for path in survey.survey_equation(eqn)]:
        raise ValueError(
            f"{name}: the latent site {describe(found[0])} depends on the scan and stands behind "
            "it, where no step would draw it. Draw it in the body of the scan; or, if no data "
            "depend on it, leave it out, and draw it by ppl.predict of a model that has it."
        )


def _refuse_stacked(name: str, eqns: Sequence[Any], stacked: Sequence[Any]) -> NoReturn:
    survey = _survey(OBSERVED, FACTOR)
    found = find_dependent(eqns, stacked)
    paths = [path for eqn in found for path in survey.survey_equation(eqn)]
    raise ValueError(
        f"{name}: site {describe(paths[0])} depends on what all steps of the scan return. "
        f"{_PUT_INSIDE}. What depends on the last carry alone may stand behind the scan."
    )


def _find_live_inputs(body: Part, wiring: Scan, live_carry: Mask) -> Mask:
    """The inputs of the body that carried values or scores of any step need."""
    num_ys = len(body.jaxpr.outvars) - wiring.num_carry
    while True:
        needs = body.needs([*live_carry, *[False] * num_ys])
        inner = len(needs) - len(jaxprs.inputs(wiring.body))
        _, read, _ = wiring.split(needs[inner:])
        wider = tuple(a or b for a, b in zip(live_carry, read, strict=True))
        if wider == live_carry:
            return needs
        live_carry = wider


def _find_memory(body: Part, live_carry: Mask, start: int) -> int | None:
    """Number of steps after which no live carried value depends on an earlier carry."""
    num_carry = len(live_carry)
    depends = np.zeros((num_carry, num_carry), bool)
    for i in range(num_carry):
        if live_carry[i]:
            wanted = [j == i for j in range(len(body.jaxpr.outvars))]
            depends[i] = body.depends_on(wanted)[start : start + num_carry]
    depends &= np.asarray(live_carry, bool)
    power = depends
    for steps in range(1, num_carry + 2):
        if not power.any():
            return steps
        power = (power.astype(int) @ depends.astype(int)) > 0
    return None
