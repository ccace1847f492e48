"""State space whose steps are drawn given their data: the locally optimal proposal."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

import ppl
from inference.models.state_space import ModelStateSpace, PathState, Values
from ppl.common.scaled_distribution import factors_at
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.scan_split import ScanSplit
from ppl.harvest import jax_core
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, describe, describe_all, join_scopes
from ppl.marginal.conditional import find_scored
from ppl.transforms.density import LogDensity

_GUIDE = (
    "Take proposal=None, the model's own distributions; inference.particle_filter also takes a "
    "function (key, prior, data, t)"
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class OptimalProposal:
    r"""State space whose sites of a step :math:`x_t` are drawn given the data of their step.

    Sites with an exact conditional distribution are drawn from it, the others :math:`z_t` from the
    model, before them. The density of the model comes apart in another way than in
    `ModelStateSpace`, with the same sum, so that filters and smoothers need not know:

    .. math:: p(z_t, x_t, y_t \mid s) = p(z_t \mid s)\, p(x_t \mid z_t, s, y_t)
        \cdot p(y_t \mid z_t, s)

    with the state :math:`s` before the step. The last factor is the weight, which does not depend
    on :math:`x_t`: given the state, no other proposal has weights of less variance.

    Attributes:
        space: The state space of the model.
        alone: Paths of the sites whose full conditionals `ppl.conditional` gives; no two of them
            share a score.
        joint: Paths of the sites that are drawn jointly, by `ppl.marginalize` and `ppl.recover`.
        reasons: Why the other sites of a step are drawn from the model, by path.

    References:
        Doucet, Godsill and Andrieu (2000), On sequential Monte Carlo sampling methods for Bayesian
        filtering, Statistics and Computing 10, proposition 2.
    """

    space: ModelStateSpace
    alone: tuple[Path, ...] = dataclasses.field(metadata={"static": True})
    joint: tuple[Path, ...] = dataclasses.field(metadata={"static": True})
    reasons: tuple[tuple[Path, str], ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, space: ModelStateSpace) -> "OptimalProposal":
        """The state space with all sites drawn given the data of their step that can be.

        Raises:
            ValueError: If there is none; it says why.
        """
        if not space.step_sites:
            raise ValueError(
                f'proposal="optimal": the scan of {space.split.name} has no latent sites, so that '
                "there is nothing to propose: take proposal=None"
            )
        found: list[_Search] = []

        def look(space: ModelStateSpace, key: jax.Array, t: jax.Array) -> None:
            state, _, _ = space.start(key)
            _, values, _ = space.move(key, state, t)
            step = _Step.of(space, state, t, {})
            found.append(_Search(step, dict(paths_in(values, space.step_sites)), key))

        key = jax.eval_shape(lambda: random.key(0))
        jax.eval_shape(look, space, key, jax.ShapeDtypeStruct((), jnp.int32))
        (search,) = found
        if not search.groups:
            why = in_words(search.reasons.items())
            raise ValueError(
                f'proposal="optimal": no latent site of a step of {space.split.name} has an exact '
                f"distribution given the carry and the data of the step ({why}). {_GUIDE}"
            )
        alone = [group[0] for group in search.groups if len(group) == 1]
        joint = [path for group in search.groups if len(group) > 1 for path in group]
        return cls(space, tuple(alone), tuple(joint), tuple(search.reasons.items()))

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return self.space.num_steps

    @property
    def memory(self) -> int | None:
        """Number of steps that the state remembers, as in the model."""
        return self.space.memory

    def start(self, key: jax.Array) -> tuple[PathState, Values, jax.Array]:
        """State before step 0, values drawn there by the model, log weight."""
        return self.space.start(key)

    def score_start(self, values: Values) -> tuple[PathState, jax.Array, jax.Array]:
        """State before step 0 for given values; their log density and the log weight."""
        return self.space.score_start(values)

    def finish(self, state: PathState) -> jax.Array:
        """Log weight of what is observed after the last step."""
        return self.space.finish(state)

    def move(self, key: jax.Array, state: PathState, t: Any) -> tuple[PathState, Values, jax.Array]:
        """State after step `t`, values drawn in it, log weight."""
        for_rest, for_alone, for_joint = random.split(key, 3)
        _, values, _ = self.space.move(for_rest, state, t)
        drawn = dict(paths_in(values, self.space.step_sites))
        step = _Step.of(self.space, state, t, self._rest(drawn))
        found = self._conditionals(step, drawn)
        for i, path in enumerate(self.alone):
            value = found[i].sample(random.fold_in(for_alone, i))
            drawn[path] = value.astype(drawn[path].dtype)
        if self.joint:
            drawn |= step.draw(for_joint, self.joint, drawn)
        after, _, _ = self.space.score(state, nest_by_path(drawn), t)
        return after, nest_by_path(drawn), self._weigh(step, found, drawn)

    def score(
        self, state: PathState, values: Values, t: Any
    ) -> tuple[PathState, jax.Array, jax.Array]:
        """State after step `t` for given values; their log density and the log weight.

        The density is the one that `move` draws from. For values that `move` cannot draw, both are
        those of the model, as the weight cannot be computed from them.
        """
        after, density, weight = self.space.score(state, values, t)
        given = dict(paths_in(values, self.space.step_sites))
        step = _Step.of(self.space, state, t, self._rest(given))
        drawn = self._drawn_density(self._conditionals(step, given), given)
        is_outside = jnp.isneginf(drawn)
        own = self._joint_density(step, given) - jnp.where(is_outside, 0, drawn)
        own = jnp.where(is_outside, weight.astype(own.dtype), own)
        return after, density + weight - jnp.where(jnp.isfinite(own), own, 0), own

    def _rest(self, values: Mapping[Path, Any]) -> dict[Path, Any]:
        """Values of the sites that the model draws."""
        return {path: x for path, x in values.items() if path not in (*self.alone, *self.joint)}

    def _conditionals(self, step: "_Step", values: Mapping[Path, Any]) -> list[Any]:
        """Full conditionals of the sites that are drawn alone."""
        return [step.conditional(path, values) for path in self.alone]

    def _weigh(
        self, step: "_Step", conditionals: Sequence[Any], values: Mapping[Path, Any]
    ) -> jax.Array:
        """Log density of the data of a step given the values of sites that the model draws."""
        return self._joint_density(step, values) - self._drawn_density(conditionals, values)

    def _joint_density(self, step: "_Step", values: Mapping[Path, Any]) -> jax.Array:
        """Log density of a step without the sites that are drawn jointly."""
        return step.log_density(self.joint, values).astype(jnp.result_type(float))

    def _drawn_density(self, conditionals: Sequence[Any], values: Mapping[Path, Any]) -> jax.Array:
        """Log density of the sites that are drawn alone, given all others."""
        total = jnp.zeros((), float)
        for path, found in zip(self.alone, conditionals, strict=True):
            total += jnp.sum(found.log_prob(values[path])).astype(total.dtype)
        return total


@register_dataclass
@dataclasses.dataclass(frozen=True)
class _Body:
    """Body of a scan as a model: a function of a key, which it ignores, and of its inputs."""

    split: ScanSplit = dataclasses.field(metadata={"static": True})

    def __call__(self, key: jax.Array, *inputs: Any) -> list[Any]:
        return jax_core.evaluate(self.split.body.jaxpr, inputs)


@dataclasses.dataclass(frozen=True)
class _Step:
    """One step as a model, given the state before it and values of some of its sites.

    Attributes:
        model: The model; these sites are fixed and not scored.
        inputs: Its arguments.
        sites: Paths of the other latent sites.
    """

    model: Any
    inputs: Sequence[Any]
    sites: tuple[Path, ...]

    @classmethod
    def of(
        cls, space: ModelStateSpace, state: PathState, t: Any, given: Mapping[Path, Any]
    ) -> "_Step":
        body = _Body(space.split)
        model = ppl.intervene(body, nest_by_path(dict(given))) if given else body
        avals = [v.aval for v in space.split.body.jaxpr.invars]
        inputs = map(_fill, space.step_inputs(state, t), avals)
        return cls(model, list(inputs), tuple(p for p in space.step_sites if p not in given))

    def conditional(self, path: Path, values: Mapping[Path, Any]) -> Any:
        """Full conditional of a site, or None."""
        others = {p: values[p] for p in self.sites if p != path}
        return ppl.conditional(self.model, join_scopes(path))(nest_by_path(others), *self.inputs)

    def log_density(self, joint: tuple[Path, ...], values: Mapping[Path, Any]) -> jax.Array:
        """Log density of the step without the sites that are integrated or summed out."""
        model, others = self._without(joint, values)
        return ppl.log_density(model)(others, *self.inputs)

    def draw(
        self, key: jax.Array, joint: tuple[Path, ...], values: Mapping[Path, Any]
    ) -> dict[Path, Any]:
        """Joint draw of some sites given the others and the data."""
        model, others = self._without(joint, values)
        found = dict(paths_in(ppl.recover(model, others)(key, *self.inputs), joint))
        return {path: found[path].astype(values[path].dtype) for path in joint}

    def _without(self, joint: tuple[Path, ...], values: Mapping[Path, Any]) -> tuple[Any, Values]:
        others = nest_by_path({p: values[p] for p in self.sites if p not in joint})
        how = {join_scopes(path): _strategy(values[path]) for path in joint}
        return (ppl.marginalize(self.model, how) if joint else self.model), others


class _Search:
    """Search for the sites of a step that can be drawn given its data; nothing is evaluated.

    Sites are asked from the last to the first, so that those that the model draws from a site are
    known.

    Attributes:
        groups: Sites that can be; those of a group share scores, and those of two do not.
        reasons: Why others cannot be, by path.
    """

    def __init__(self, step: _Step, values: Mapping[Path, Any], key: jax.Array):
        self.groups: list[tuple[Path, ...]] = []
        self.reasons: dict[Path, str] = {}
        self._step = step
        self._values = values
        self._key = key
        program = trace_model(step.model, None, tuple(step.inputs), {})
        self._found = ModelRun(step.model, program, LogDensity()).sites
        self._scored = {
            path: frozenset(find_scored(program, self._found, path)) for path in step.sites
        }
        self._is_scaled = any(map(factors_at, (x.site for x in self._found.values())))
        for path in reversed(step.sites):
            if why := self._add(path):
                self.reasons[path] = why

    def _add(self, path: Path) -> str | None:
        """Add a site to a group, or say why it cannot be."""
        scored = self._scored[path]
        if left := [x for x in self._step.sites if x in scored and x in self.reasons]:
            return f"the model draws {describe_all(left)} given it"
        if len(jax.tree.leaves(self._values[path])) != 1:
            return "its value is not one array"
        met = [group for group in self.groups if scored & self._scores_of(group)]
        if not met:
            if len(scored) == 1:
                return "no data of the step depend on it"
            if self._step.conditional(path, self._values) is None:
                return "its full conditional has no closed form that ppl.conditional knows"
            self.groups.append((path,))
            return None
        merged = (path, *(other for group in met for other in group))
        if why := self._why_not_jointly(merged):
            return f"it cannot be drawn jointly with {describe_all(merged[1:])}: {why}"
        self.groups = [*(group for group in self.groups if group not in met), merged]
        return None

    def _scores_of(self, group: Iterable[Path]) -> frozenset[Path]:
        return frozenset().union(*(self._scored[path] for path in group))

    def _why_not_jointly(self, paths: tuple[Path, ...]) -> str | None:
        if self._is_scaled:
            return "ppl.scale multiplies scores of the step"
        try:
            self._step.log_density(paths, self._values)
            self._step.draw(self._key, paths, self._values)
        except (ValueError, NotImplementedError) as error:
            return str(error).removeprefix("marginalize: ").split(". ")[0].rstrip(".")
        return None


def in_words(reasons: Iterable[tuple[Path, str]]) -> str:
    """Reasons by path as text."""
    return "; ".join(f"{describe(path)}: {why}" for path, why in reasons)


def _fill(value: Any, aval: Any) -> Any:
    """An input of a program; zeros for one that nothing reads, such as a key."""
    return jax_core.as_aval(jnp.zeros(aval.shape, aval.dtype) if value is None else value, aval)


def _strategy(value: Any) -> Any:
    is_real = jnp.issubdtype(value.dtype, jnp.floating)
    return ppl.Gaussian() if is_real else ppl.Enumerate()
