"""State space of a model: the start, the steps and the end of one particle, read off its scan."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

import ppl
from ppl.common.arguments import Arguments
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.scan_split import DrawAndWeigh, Part, ScanSplit, split_at_scan
from ppl.harvest import jax_core
from ppl.harvest.names import fit, nest_by_path, paths_in, suggest_names
from ppl.harvest.plants import move_axis
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, describe, describe_all
from ppl.transforms.prior_weights import check_no_parameters
from ppl.transforms.trace import flatten_sites

Values = dict[str, Any]

_REAL = "finite"  # description of the support of all real numbers


class PathState(NamedTuple):
    """State of a particle between two steps.

    Attributes:
        carry: The carry of the scan, as far as later steps and data after the scan need it; None
            for other parts of it.
        held: What steps need of the draws before the scan besides the carry, such as parameters.
    """

    carry: list[Any]
    held: list[Any]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ModelStateSpace:
    r"""State space model: what one particle does, as pure functions that can be vmapped.

    With latent sites :math:`x_0` before the scan and :math:`x_t` in step `t`, and data
    :math:`y_t`, the density of a model comes apart:

    .. math:: p(x, y) = p(x_0)\, p(y_0 | x_0) \prod_t p(x_t | x_{<t})\, p(y_t | x_{\le t})
        \cdot p(y_{end} | x)

    | method        | draws   | log density | log weight                     |
    |---------------|---------|-------------|--------------------------------|
    | `start`       | `x_0`   |             | data and factors before        |
    | `move`        | `x_t`   |             | data and factors of the step   |
    | `score_start` |         | of `x_0`    | data and factors before        |
    | `score`       |         | of `x_t`    | data and factors of the step   |
    | `finish`      |         |             | data and factors after         |

    The sum of all log densities and log weights is the log density of the model. "Before" is all
    that does not depend on the scan, "after" all that does. Values are dicts by site, nested as the
    scopes are.

    It is a pytree whose leaves are the data and the values in `given`; spaces of one model with
    other data of the same shapes have one structure, so that nothing is compiled again.

    Attributes:
        inputs: Inputs of the program of the model but its key.
        shared: What steps need of the program before the scan that is the same for all particles.
        given: Values of latent sites before the scan that are fixed, by path; they count in the
            weight of the start, as observed sites do.
        split: The programs of the model.
        fixed: The paths of the sites in `given`.
    """

    inputs: list[Any]
    shared: list[Any]
    given: list[Any]
    split: ScanSplit = dataclasses.field(metadata={"static": True})
    fixed: tuple[Path, ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(
        cls, model: Model, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> "ModelStateSpace":
        """The state space of a model with one `lax.scan` with observed sites in its body.

        Args:
            model: A function of a random key, conditioned on data.
            args: Its arguments behind the key.
            kwargs: Its keyword arguments.

        Raises:
            ValueError: If the model is no such model: without a scan with observed sites, with
                several, with a site behind the scan that is latent or depends on what all steps
                return, with a `param` or a `state`, or without a density.
            NotImplementedError: If a site is observed in part, scored with others, or is latent and
                scaled.
        """
        arguments, data = Arguments.split(tuple(args), kwargs or {})
        leaves, structure = jax.tree.flatten((as_pytree(model), data))
        found: list[ScanSplit] = []

        # Traced with abstract data, so that no number of the data becomes part of the program.
        def split(*leaves: Any) -> list[Any]:
            model, data = jax.tree.unflatten(structure, leaves)
            args, kwargs = arguments.join(data)
            program = trace_model(model, None, args, kwargs)
            run = ModelRun(model, program, DrawAndWeigh(None, {}))
            check_no_parameters(run)
            run.check_density(dict.fromkeys(run.latent()))
            made, inputs = split_at_scan(run, program)
            found.append(made)
            return inputs

        inputs = jax_core.evaluate(jax.make_jaxpr(split)(*leaves), list(map(jnp.asarray, leaves)))
        return cls(inputs, [], [], found[0], ())._share()

    def fix(self, values: Mapping[str, Any]) -> "ModelStateSpace":
        """The state space with values of latent sites before the scan fixed.

        Args:
            values: Values by site. They take the place of values that are fixed already.

        Raises:
            ValueError: If a name is none of a latent site before the scan, or a shape is wrong.
            TypeError: If a value has another kind of dtype than its site.
        """
        sites = self.split.before.latent
        given = dict(zip(self.fixed, self.given, strict=True))
        for path, value in paths_in(values, sites):
            if path not in sites:
                raise ValueError(
                    f"{self.split.name} has no latent site {describe(path)} before its scan. "
                    f"{suggest_names(list(sites), path, what='latent sites')}"
                )
            found = sites[path]
            where = f"site {describe(path)}"
            given[path] = fit(where, value, found.site.tree, found.avals, same_kind=True)
        return dataclasses.replace(self, given=list(given.values()), fixed=tuple(given))._share()

    @property
    def num_steps(self) -> int:
        """The number of steps of the scan."""
        return self.split.length

    @property
    def memory(self) -> int | None:
        """The number of steps after which the carry forgets an earlier carry.

        Given the latent values of `memory` steps, the carry behind them does not depend on the
        carry before them: 1 for a Markov model whose carry is the last state, 2 if it is the last
        two states, None if it never forgets, as it never forgets a running sum, or parameters that
        are drawn with the particle.
        """
        return None if any(self._held_mask()) else self.split.memory

    @property
    def keeps_draws(self) -> bool:
        """Whether a particle keeps draws before the scan through all steps.

        It does if steps, or data behind the scan, read them besides the carry, and if the carry
        passes them on as they are.
        """
        split = self.split
        body = split.body.jaxpr
        first = len(split.constants) + split.sizes[0]
        is_random = split.before.find_random(self.fixed)
        _, places, _, _ = split.groups(range(len(split.live)))
        return any(self._held_mask()) or any(
            split.live[i] and is_random[i] and new is old
            for i, new, old in zip(places, body.outvars, body.invars[first:], strict=False)
        )

    @property
    def start_sites(self) -> tuple[Path, ...]:
        """Paths of the latent sites before the scan, without the fixed ones."""
        return tuple(path for path in self.split.before.latent if path not in self.fixed)

    @property
    def step_sites(self) -> tuple[Path, ...]:
        """Paths of the latent sites of a step."""
        return tuple(self.split.body.latent)

    @property
    def observed_sites(self) -> tuple[tuple[Path, ...], ...]:
        """Paths of observed sites and factors before the scan, in its body, and after it."""
        before = (*self.split.before.observed, *self.fixed)
        return before, self.split.body.observed, self.split.after.observed

    def start(self, key: jax.Array) -> tuple[PathState, Values, jax.Array]:
        """The first state, the values drawn before the scan, and the log weight."""
        state, records = self._start(key, {})
        return state, *self._values_and_weight(records, self.start_sites)

    def move(self, key: jax.Array, state: PathState, t: Any) -> tuple[PathState, Values, jax.Array]:
        """The state after step `t`, the values drawn in it, and the log weight of its data.

        Args:
            key: A key of its own for each step and particle.
            state: The state before the step.
            t: The number of the step from 0, which may be traced.
        """
        state, records = self._step(key, state, t, {})
        return state, *self._values_and_weight(records, self.step_sites)

    def move_by(
        self,
        proposal: Callable[..., Any],
        key: jax.Array,
        state: PathState,
        t: Any,
    ) -> tuple[PathState, Values, jax.Array]:
        """The state after step `t` by a proposal, the values drawn, and the log weight.

        Sites that the proposal does not draw are drawn as the model draws them.

        Args:
            proposal: Function of a key, the distributions of latent sites of the step that depend
                on none of the others, the data of the step (both dicts by site; gaps are what
                `ppl.ignore` was given, as a rule NaN), and the number of the step. Like a model, it
                draws latent sites of the step by `ppl.sample`.
            key: As for :meth:`move`.
            state: As for :meth:`move`.
            t: As for :meth:`move`.

        Raises:
            ValueError: if the proposal draws no latent site of a step, another site, or cannot draw
                all that the model can; or reads an entry that is not there.
        """
        for_proposal, for_rest = random.split(key)
        prior, data = self.split.body.context(self.step_inputs(state, t))
        context = nest_by_path(prior), nest_by_path(data), jnp.asarray(t)
        try:
            drawn = ppl.simulate(proposal)(for_proposal, *context)
        except KeyError as error:
            raise ValueError(
                f"the proposal for {self.split.name} raised KeyError({error}). `prior` has an entry"
                f" for {describe_all(prior)}, `data` for {describe_all(data)}. Latent sites that "
                "depend on others of the step, or stand in a lax.cond or an inner loop, have none: "
                "leave them to the model, or write down their distribution"
            ) from error
        if not jax.tree.leaves(drawn):
            raise ValueError(
                "the proposal draws no site: draw latent sites of the step by ppl.sample, under "
                f"their names. {self.split.name} has {describe_all(self.step_sites)}"
            )
        _check_supports(prior, ppl.trace(proposal)(for_proposal, *context).sites)
        proposed = ppl.log_density(proposal)(drawn, *context)
        sites = self.split.body.latent
        plants: dict[Path, Any] = {}
        for path, value in paths_in(drawn, sites):
            if path not in sites:
                raise ValueError(
                    f"the proposal draws {describe(path)}, which is no latent site in the body of "
                    f"the scan of {self.split.name}. "
                    f"{suggest_names(self.step_sites, path, what='latent sites')}"
                )
            found = sites[path]
            where = f"proposal of site {describe(path)}"
            plants[path] = fit(where, value, found.site.tree, found.avals, same_kind=True)
        state, records = self._step(for_rest, state, t, plants)
        rest = [path for path in self.step_sites if path not in plants]
        values, weight = self._values_and_weight(records, rest)
        chosen = {path: jax.tree.unflatten(sites[path].site.tree, x) for path, x in plants.items()}
        values = nest_by_path({**dict(paths_in(values, sites)), **chosen})
        return state, values, weight - proposed.astype(weight.dtype)

    def step_inputs(self, state: PathState, t: Any) -> list[Any]:
        """Inputs of the program of step `t`, None where nothing reads them."""
        return self.split.operands(self._results(state), t)

    def score_start(self, values: Values) -> tuple[PathState, jax.Array, jax.Array]:
        """The first state, the log density of given values, and the log weight."""
        plants = self._leaves(values, self.split.before, self.start_sites)
        state, records = self._start(None, plants)
        return state, *_density_and_weight(records, plants)

    def score(
        self, state: PathState, values: Values, t: Any
    ) -> tuple[PathState, jax.Array, jax.Array]:
        """The state after step `t`, the log density of its given values, and the log weight."""
        plants = self._leaves(values, self.split.body, self.step_sites)
        state, records = self._step(None, state, t, plants)
        return state, *_density_and_weight(records, plants)

    def finish(self, state: PathState) -> jax.Array:
        """The log weight of data and factors after the scan, given the last state."""
        return _total(self.split.finish(self._results(state)).values())

    def join(self, start: Values, steps: Values) -> Values:
        """Values as the model has them.

        Args:
            start: Values of the sites before the scan.
            steps: Values of the sites of a step, with the steps in order as their first axis.
        """
        found = dict(paths_in(start, self.split.before.latent))
        found |= dict(zip(self.fixed, map(self._fixed_value, self.fixed), strict=True))
        for path, value in paths_in(steps, self.split.body.latent):
            value = self._in_order(value)
            found[path] = move_axis(value, 0, self.split.body.latent[path].loop_axis)
        return nest_by_path({path: found[path] for path in self.split.order if path in found})

    def take_apart(self, values: Values) -> tuple[Values, Values]:
        """Values before the scan, and of the steps along the first axis: the inverse of `join`."""
        start: dict[Path, Any] = {}
        steps: dict[Path, Any] = {}
        for path, value in paths_in(values, self.split.order):
            if path in self.split.body.latent:
                axis = self.split.body.latent[path].loop_axis
                steps[path] = self._in_order(move_axis(value, axis, 0))
            elif path not in self.fixed:
                start[path] = value
        return nest_by_path(start), nest_by_path(steps)

    def _in_order(self, value: Any) -> Any:
        return jax.tree.map(lambda x: x[::-1], value) if self.split.is_reversed else value

    def _fixed_value(self, path: Path) -> Any:
        leaves = dict(zip(self.fixed, self.given, strict=True))[path]
        return jax.tree.unflatten(self.split.before.latent[path].site.tree, leaves)

    def _share(self) -> "ModelStateSpace":
        """The state space with all that is the same for all particles evaluated."""
        mask = self._shared_mask()
        given = dict(zip(self.fixed, self.given, strict=True))
        found = self.split.before.evaluate(self._program_inputs(), given, mask)
        shared = [x for x, is_shared in zip(found, mask, strict=True) if is_shared]
        return dataclasses.replace(self, shared=shared)

    def _shared_mask(self) -> list[bool]:
        """For each result of the program before the scan, whether particles share it."""
        split = self.split
        is_random = split.before.find_random(self.fixed)
        _, carry, _, _ = split.groups(range(len(split.live)))
        return [
            live and not drawn and i not in carry
            for i, (live, drawn) in enumerate(zip(split.live, is_random, strict=True))
        ]

    def _held_mask(self) -> list[bool]:
        """For each result of the program before the scan, whether it is held by each particle."""
        _, carry, _, _ = self.split.groups(range(len(self.split.live)))
        return [
            live and not shared and i not in carry
            for i, (live, shared) in enumerate(
                zip(self.split.live, self._shared_mask(), strict=True)
            )
        ]

    def _program_inputs(self) -> list[Any]:
        # The key of the model tells steps of inner loops apart: it is no source of randomness.
        return [*self.inputs[: self.split.key_at], random.key(0), *self.inputs[self.split.key_at :]]

    def _start(self, key: Any, plants: Mapping[Path, Any]) -> tuple[PathState, dict[Path, Any]]:
        split = self.split
        shared = self._shared_mask()
        live = [a and not b for a, b in zip(split.live, shared, strict=True)]
        given = dict(zip(self.fixed, self.given, strict=True))
        found, records = split.before.run(key, self._program_inputs(), {**given, **plants}, live)
        held = [x for x, is_held in zip(found, self._held_mask(), strict=True) if is_held]
        _, carry, _, _ = split.groups(found)
        return PathState(self._cast(carry), held), records

    def _step(
        self, key: Any, state: PathState, t: Any, plants: Mapping[Path, Any]
    ) -> tuple[PathState, dict[Path, Any]]:
        carry, records = self.split.step(key, self._results(state), t, plants)
        return PathState(self._cast(carry), state.held), records

    def _cast(self, carry: Sequence[Any]) -> list[Any]:
        """The carry in the dtypes that the body takes."""
        first = len(self.split.constants) + self.split.sizes[0]
        avals = [v.aval for v in self.split.body.jaxpr.invars[first : first + len(carry)]]
        return [
            None if x is None else jax_core.as_aval(x, a) for x, a in zip(carry, avals, strict=True)
        ]

    def _results(self, state: PathState) -> list[Any]:
        """Results of the program before the scan, with a carry in the place of the first."""
        shared, held, carry = iter(self.shared), iter(state.held), iter(state.carry)
        _, places, _, _ = self.split.groups(range(len(self.split.live)))
        masks = zip(self._shared_mask(), self._held_mask(), strict=True)
        return [
            next(carry) if i in places else next(shared) if a else next(held) if b else None
            for i, (a, b) in enumerate(masks)
        ]

    def _leaves(self, values: Values, part: Part, paths: Sequence[Path]) -> dict[Path, Any]:
        """Leaves of values by path, one value for each site."""
        found = dict(paths_in(values, part.latent))
        if found.keys() != set(paths):
            raise ValueError(
                f"{self.split.name}: expected values of the sites "
                f"{', '.join(map(describe, paths)) or '(none)'}, got "
                f"{', '.join(map(describe, found)) or 'none'}."
            )
        return {
            path: fit(
                f"site {describe(path)}",
                value,
                part.latent[path].site.tree,
                part.latent[path].avals,
                same_kind=True,
            )
            for path, value in found.items()
        }

    def _values_and_weight(
        self, records: Mapping[Path, Any], drawn: Sequence[Path]
    ) -> tuple[Values, jax.Array]:
        weight = _total([x for path, x in records.items() if path not in drawn])
        return nest_by_path({path: records[path] for path in drawn}), weight


def _density_and_weight(
    records: Mapping[Path, Any], latent: Mapping[Path, Any]
) -> tuple[jax.Array, jax.Array]:
    density = _total([x for path, x in records.items() if path in latent])
    return density, _total([x for path, x in records.items() if path not in latent])


def _total(scores: Any) -> jax.Array:
    dtype = jnp.result_type(float)
    return sum((jnp.sum(x).astype(dtype) for x in scores), jnp.zeros((), dtype))


def _check_supports(prior: Mapping[Path, Any], sites: Mapping[str, Any]) -> None:
    """Check that a proposal can draw all real numbers where the model can.

    Raises:
        ValueError: If its support is another; weights of draws would miss a part of the model.
    """
    drawn = dict(flatten_sites(sites))
    for path in prior.keys() & drawn.keys():
        own = prior[path]
        other = drawn[path].distribution
        kinds = [getattr(getattr(d, "support", None), "description", None) for d in (own, other)]
        if kinds[0] == _REAL and kinds[1] not in (None, _REAL):
            raise ValueError(
                f"the proposal draws site {describe(path)} by {type(other).__name__}, which cannot "
                f"draw all real numbers, as {type(own).__name__} of the model can: estimates would "
                "leave out the others. Take a distribution of all real numbers, as Normal or "
                "StudentT"
            )
