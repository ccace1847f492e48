"""State space whose discrete sites are summed out of each particle: probabilities of states."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.scipy.special import logsumexp

from inference.models.state_space import ModelStateSpace, Values
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path


class MixedState(NamedTuple):
    """States of a particle for all values of the summed sites, with their probabilities.

    Attributes:
        each: The state for each combination of values, with a leading axis.
        log_probs: Log probabilities of the combinations given the path and the data.
    """

    each: Any
    log_probs: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SummedStates:
    r"""State space without its discrete sites: a particle carries their probabilities.

    A particle is a sequence of the other values :math:`z`, and its weight at a step is
    :math:`p(y_t \mid z_{\le t}, y_{<t})`, by a forward algorithm of its own (Rao-Blackwellized
    particle filter). A step scores all pairs of combinations before and after it. The state after a
    step must depend on the values of this step alone: a memory of 1.

    Values have all sites: the summed ones are drawn given the data up to their step and the other
    values of the path. Scores are of the others, and read no summed value.

    Attributes:
        space: The state space with all sites.
        values: Values of the summed sites by path, one row a combination.
        paths: Their paths.

    References:
        Doucet, de Freitas, Murphy and Russell (2000), Rao-Blackwellised particle filtering for
        dynamic Bayesian networks.
    """

    space: ModelStateSpace
    values: tuple[jax.Array, ...]
    paths: tuple[Path, ...] = dataclasses.field(metadata={"static": True})

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return self.space.num_steps

    @property
    def memory(self) -> int | None:
        """None: probabilities depend on all data before."""
        return None

    def start(self, key: jax.Array) -> tuple[MixedState, Values, jax.Array]:
        """State before step 0, values drawn there, log weight."""
        state, values, weight = self.space.start(key)
        return self._certain(state), values, weight

    def score_start(self, values: Values) -> tuple[MixedState, jax.Array, jax.Array]:
        """State before step 0 for given values; their log density and the log weight."""
        state, density, weight = self.space.score_start(values)
        return self._certain(state), density, weight

    def move(
        self, key: jax.Array, state: MixedState, t: Any
    ) -> tuple[MixedState, Values, jax.Array]:
        """State after step `t`, values drawn in it, log weight."""
        of_state, of_step, of_summed = random.split(key, 3)
        before = _pick(state.each, random.categorical(of_state, state.log_probs))
        _, values, _ = self.space.move(of_step, before, t)
        state, _, weight = self.score(state, values, t)
        return state, self._put(values, random.categorical(of_summed, state.log_probs)), weight

    def score(
        self, state: MixedState, values: Values, t: Any
    ) -> tuple[MixedState, jax.Array, jax.Array]:
        """State after step `t` for given other values; their log density and the log weight."""
        each, densities, weights = self._pairs(state, values, t)
        density = logsumexp(densities)
        if len(self.paths) == len(self.space.step_sites):
            density = jnp.zeros_like(density)
        joint = logsumexp(densities + weights, 0)
        total = logsumexp(joint)
        # Combinations of a particle without weight are never read: any will do.
        log_probs = jnp.where(jnp.isfinite(total), joint - total, -jnp.log(float(joint.size)))
        return MixedState(each, log_probs), density, total - density

    def finish(self, state: MixedState) -> jax.Array:
        """Log weight of what is observed after the last step."""
        return logsumexp(self._last(state))

    def draw_path(self, key: jax.Array, start: Values, path: Values) -> tuple[Values, Values]:
        """Values of all sites: the summed ones drawn given the others and all data.

        Args:
            key: Random key.
            start: Values before the first step.
            path: Other values of all steps, ``(step, ...)``.
        """
        of_last, of_steps = random.split(key)
        first, _, _ = self.score_start(start)

        def forward(state: MixedState, inputs: Any) -> tuple[MixedState, jax.Array]:
            t, values = inputs
            _, densities, weights = self._pairs(state, values, t)
            return self.score(state, values, t)[0], densities + weights

        times = jnp.arange(self.num_steps, dtype=jnp.int32)
        last, pairs = lax.scan(forward, first, (times, path))

        def back(index: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
            key, pairs = inputs
            return random.categorical(key, pairs[:, index]), index

        keys = random.split(of_steps, self.num_steps)
        index = random.categorical(of_last, self._last(last))
        _, indices = lax.scan(back, index, (keys, pairs), reverse=True)
        return start, self._put(path, indices)

    def _put(self, values: Values, index: jax.Array) -> Values:
        """Values with those of a combination."""
        found = dict(paths_in(values, self.space.step_sites))
        found |= {path: x[index] for path, x in zip(self.paths, self.values, strict=True)}
        return nest_by_path(found)

    def _certain(self, state: Any) -> MixedState:
        """One state: the first combination stands for it."""
        size = len(self.values[0])
        each = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *jnp.shape(x))), state)
        log_probs = jnp.where(jnp.arange(size) == 0, 0.0, -jnp.inf)
        return MixedState(each, log_probs.astype(jnp.result_type(float)))

    def _last(self, state: MixedState) -> jax.Array:
        finish = jax.vmap(self.space.finish, axis_size=state.log_probs.size)
        return _add(state.log_probs, finish(state.each))

    def _pairs(self, state: MixedState, rest: Values, t: Any) -> tuple[Any, jax.Array, jax.Array]:
        """States after the step; log densities and weights by combination before and after."""

        def score(before: Any, values: Any) -> tuple[Any, jax.Array, jax.Array]:
            found = dict(paths_in(rest, self.space.step_sites))
            found |= dict(zip(self.paths, values, strict=True))
            return self.space.score(before, nest_by_path(found), t)

        over_values = jax.vmap(score, (None, 0))
        over_all = jax.vmap(over_values, (0, None), axis_size=state.log_probs.size)
        after, densities, weights = over_all(state.each, self.values)
        densities = _add(state.log_probs[:, None], densities)
        return _pick(after, 0), densities, jnp.where(densities == -jnp.inf, 0, weights)


def _pick(states: Any, index: Any) -> Any:
    return jax.tree.map(lambda x: x[index], states)


def _add(log_probs: jax.Array, terms: jax.Array) -> jax.Array:
    """Sum of log probabilities and terms, which mean nothing where the probability is 0."""
    return jnp.where(log_probs == -jnp.inf, -jnp.inf, log_probs + terms)


def combinations(states: list[np.ndarray], shapes: list[tuple[int, ...]]) -> tuple[jax.Array, ...]:
    """All combinations of the values of some sites, one row each.

    Args:
        states: States of an element of each site.
        shapes: Shape of the value of each site.
    """
    axes = [x for x, shape in zip(states, shapes, strict=True) for _ in range(int(np.prod(shape)))]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)]).tolist()
    return tuple(
        jnp.asarray(grid[:, start:end].reshape(len(grid), *shape))
        for shape, start, end in zip(shapes, ends, ends[1:], strict=False)
    )
