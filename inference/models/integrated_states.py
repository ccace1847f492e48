"""State space whose normal sites are integrated out of each particle: means and precisions."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.scipy.linalg import solve_triangular

from inference.models.state_space import ModelStateSpace, Values
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, Sites, struct_of


class NormalState(NamedTuple):
    """State of a particle as a linear function of normal coordinates of mean 0.

    Attributes:
        base: The state at the mean.
        columns: Its derivatives by the coordinates, leaf by leaf; None for leaves of integers.
        mean: The mean of the integrated values of the last step, flat and padded, ``(d,)``.
        precision: The precision of the coordinates, ``(d, d)``; that of padding is 1.
    """

    base: Any
    columns: list[jax.Array | None]
    mean: jax.Array
    precision: jax.Array


class Square(NamedTuple):
    """Log density of a step as a square of `d` coordinates before it and `n` values in it.

    Attributes:
        point: Coordinates about which it is expanded, ``(d + n,)``.
        slope: Gradient there.
        factor: Cholesky factor of the negative Hessian.
    """

    point: jax.Array
    slope: jax.Array
    factor: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class IntegratedStates:
    r"""State space without its normal sites: a particle carries their mean and precision.

    Given all other values, the log density of a step is a square of the normal values :math:`x`
    before and after it. So a particle is a sequence of the other values :math:`z`, and its weight
    at a step is :math:`p(y_t \mid z_{\le t}, y_{<t})`, by a Kalman filter of its own
    (Rao-Blackwellized particle filter). The square is read off by a Hessian, whose cost grows with
    the number of normal values of a step.

    Values have all sites: the normal ones are drawn given the data up to their step and the other
    values of the path. Scores are of the others, and read no normal value but as a place from where
    to begin.

    Attributes:
        space: The state space with all sites.
        at_start: Paths of the normal sites before the first step.
        in_step: Paths of the normal sites of a step.

    References:
        Doucet, de Freitas, Murphy and Russell (2000), Rao-Blackwellised particle filtering for
        dynamic Bayesian networks; Schön, Gustafsson and Nordlund (2005), Marginalized particle
        filters for mixed linear/nonlinear state-space models, IEEE Transactions on Signal
        Processing 53.
    """

    space: ModelStateSpace
    at_start: tuple[Path, ...] = dataclasses.field(metadata={"static": True})
    in_step: tuple[Path, ...] = dataclasses.field(metadata={"static": True})

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return self.space.num_steps

    @property
    def memory(self) -> int | None:
        """None: a mean depends on all data before."""
        return None

    def start(self, key: jax.Array) -> tuple[NormalState, Values, jax.Array]:
        """State before step 0, values drawn there, log weight."""
        of_space, of_normal = random.split(key)
        _, values, _ = self.space.start(of_space)
        rest, near = self._start_parts.split(values)
        state, _, weight = self._begin(rest, near)
        return state, self._start_parts.merge(rest, _draw_values(of_normal, state)), weight

    def score_start(self, values: Values) -> tuple[NormalState, jax.Array, jax.Array]:
        """State before step 0 for given other values; their log density and the log weight."""
        return self._begin(*self._start_parts.split(values))

    def move(
        self, key: jax.Array, state: NormalState, t: Any
    ) -> tuple[NormalState, Values, jax.Array]:
        """State after step `t`, values drawn in it, log weight."""
        of_state, of_step, of_normal = random.split(key, 3)
        normal = random.normal(of_state, state.mean.shape, state.mean.dtype)
        factor = jnp.linalg.cholesky(state.precision)
        before = self._at(state, solve_triangular(factor, normal, lower=True, trans=1))
        _, values, _ = self.space.move(of_step, before, t)
        rest, near = self._step_parts.split(values)
        state, _, weight, _ = self._advance(state, rest, near, t)
        return state, self._step_parts.merge(rest, _draw_values(of_normal, state)), weight

    def score(
        self, state: NormalState, values: Values, t: Any
    ) -> tuple[NormalState, jax.Array, jax.Array]:
        """State after step `t` for given other values; their log density and the log weight."""
        return self._advance(state, *self._step_parts.split(values), t)[:3]

    def finish(self, state: NormalState) -> jax.Array:
        """Log weight of what is observed after the last step."""
        return self._finish(state)[0]

    def draw_path(self, key: jax.Array, start: Values, path: Values) -> tuple[Values, Values]:
        """Values of all sites: the normal ones drawn given the others and all data.

        Args:
            key: Random key.
            start: Other values before the first step.
            path: Other values of all steps, ``(step, ...)``.
        """
        of_last, of_steps = random.split(key)
        first, _, _ = self.score_start(start)

        def forward(state: NormalState, inputs: Any) -> tuple[NormalState, Any]:
            t, values = inputs
            state, _, _, square = self._advance(state, *self._step_parts.split(values), t)
            return state, (square, state.mean)

        times = jnp.arange(self.num_steps, dtype=jnp.int32)
        last, (squares, means) = lax.scan(forward, first, (times, path))

        def back(delta: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
            key, square, mean = inputs
            drawn = (mean + delta)[: self._step_parts.size]
            return _draw_before(key, square, drawn), drawn

        delta = _draw(of_last, self._finish(last)[1])
        keys = random.split(of_steps, self.num_steps)
        delta, drawn = lax.scan(back, delta, (keys, squares, means), reverse=True)
        at_start = (first.mean + delta)[: self._start_parts.size]
        return self._start_parts.merge(start, at_start), self._step_parts.merge(path, drawn)

    @property
    def _size(self) -> int:
        return max(self._start_parts.size, self._step_parts.size)

    @property
    def _start_parts(self) -> "_Parts":
        return _Parts.of(self.space.split.before.latent, self.at_start)

    @property
    def _step_parts(self) -> "_Parts":
        return _Parts.of(self.space.split.body.latent, self.in_step)

    def _finish(self, state: NormalState) -> tuple[jax.Array, Square]:
        def terms(delta: jax.Array) -> tuple[jax.Array, jax.Array]:
            weight = self.space.finish(self._at(state, delta))
            return _log_normal(delta, state.precision), weight

        _, weight, square = _integrate(terms, jnp.zeros_like(state.mean), has_rest=False)
        return weight, square

    def _begin(self, rest: Values, near: jax.Array) -> tuple[NormalState, jax.Array, jax.Array]:
        parts = self._start_parts

        def score(x: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
            return self.space.score_start(parts.merge(rest, x))

        has_rest = len(self.at_start) < len(self.space.start_sites)
        density, weight, square = _integrate(lambda x: score(x)[1:], near, has_rest=has_rest)
        return self._state(lambda x: score(x)[0], square, 0), density, weight

    def _advance(
        self, state: NormalState, rest: Values, near: jax.Array, t: Any
    ) -> tuple[NormalState, jax.Array, jax.Array, Square]:
        parts = self._step_parts
        size = state.mean.size

        def score(both: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
            values = parts.merge(rest, both[size:])
            return self.space.score(self._at(state, both[:size]), values, t)

        def terms(both: jax.Array) -> tuple[jax.Array, jax.Array]:
            _, density, weight = score(both)
            return density + _log_normal(both[:size], state.precision), weight

        start = jnp.concatenate([jnp.zeros_like(state.mean), near])
        has_rest = len(self.in_step) < len(self.space.step_sites)
        density, weight, square = _integrate(terms, start, has_rest=has_rest)
        before = jnp.zeros_like(state.mean)
        after = self._state(lambda x: score(jnp.concatenate([before, x]))[0], square, size)
        return after, density, weight, square

    def _state(
        self, state_at: Callable[[jax.Array], Any], square: Square, first: int
    ) -> NormalState:
        """State as a function of the coordinates from `first` on, with padding."""
        mean = (square.point + _solve(square.factor, square.slope))[first:]
        own = square.factor[first:, first:]
        leaves, structure = jax.tree.flatten(state_at(mean))
        is_real = [jnp.issubdtype(x.dtype, jnp.inexact) for x in leaves]

        def real(x: jax.Array) -> list[jax.Array]:
            found = jax.tree.leaves(state_at(x))
            return [leaf for leaf, keep in zip(found, is_real, strict=True) if keep]

        slopes = iter(jax.jacfwd(real)(mean))
        pad = self._size - mean.size
        columns = [
            jnp.pad(next(slopes), [(0, 0)] * x.ndim + [(0, pad)]) if keep else None
            for x, keep in zip(leaves, is_real, strict=True)
        ]
        precision = jnp.eye(self._size, dtype=mean.dtype)
        precision = precision.at[: mean.size, : mean.size].set(own @ own.T)
        base = jax.tree.unflatten(structure, leaves)
        return NormalState(base, columns, jnp.pad(mean, (0, pad)), precision)

    def _at(self, state: NormalState, delta: jax.Array) -> Any:
        leaves, structure = jax.tree.flatten(state.base)
        moved = [
            x if c is None else x + (c @ delta).astype(x.dtype)
            for x, c in zip(leaves, state.columns, strict=True)
        ]
        return jax.tree.unflatten(structure, moved)


@dataclasses.dataclass(frozen=True)
class _Parts:
    """Some sites of one program, and their values as one vector.

    Attributes:
        paths: Their paths.
        shapes: Shapes and dtypes of their values.
        all_paths: Paths of all latent sites of the program.
    """

    paths: tuple[Path, ...]
    shapes: tuple[jax.ShapeDtypeStruct, ...]
    all_paths: tuple[Path, ...]

    @classmethod
    def of(cls, sites: Sites, paths: tuple[Path, ...]) -> "_Parts":
        return cls(paths, tuple(struct_of(sites[path].avals[0]) for path in paths), tuple(sites))

    @property
    def size(self) -> int:
        return sum(x.size for x in self.shapes)

    def zeros(self) -> jax.Array:
        return jnp.zeros(self.size, jnp.result_type(float, *(x.dtype for x in self.shapes)))

    def split(self, values: Values) -> tuple[Values, jax.Array]:
        """Values of the other sites, and those of these sites, flat; zeros where there are none."""
        found = dict(paths_in(values, self.all_paths))
        zeros = self.zeros()
        if not self.paths or self.paths[0] not in found:
            return nest_by_path(found), zeros
        parts = [jnp.ravel(found.pop(path)).astype(zeros.dtype) for path in self.paths]
        return nest_by_path(found), jnp.concatenate(parts)

    def merge(self, rest: Values, flat: jax.Array) -> Values:
        """Values of all sites."""
        found = dict(paths_in(rest, self.all_paths))
        ends = np.cumsum([0, *(x.size for x in self.shapes)]).tolist()
        for path, x, start, end in zip(self.paths, self.shapes, ends, ends[1:], strict=False):
            value = flat[..., start:end]
            found[path] = value.reshape(*value.shape[:-1], *x.shape).astype(x.dtype)
        return nest_by_path(found)


def _integrate(
    terms: Callable[[jax.Array], tuple[jax.Array, jax.Array]], near: jax.Array, *, has_rest: bool
) -> tuple[jax.Array, jax.Array, Square]:
    r"""Logs of :math:`\int e^{f}` and :math:`\int e^{f + g} / \int e^f` over squares f and g.

    Args:
        terms: Function of a vector, with f and g as its results.
        near: Vector near the mode of f + g: the farther, the more rounding.
        has_rest: Whether f has other factors than a density that integrates to 1.

    Returns:
        Both logs, and f + g as a square about its mode.
    """
    if not near.size:
        density, weight = terms(near)
        return density, weight, Square(near, near, jnp.zeros((0, 0), near.dtype))

    def total(x: jax.Array) -> jax.Array:
        return jnp.add(*terms(x))

    # A Newton step first: far from the mode, values of squares lose their digits.
    factor = jnp.linalg.cholesky(-jax.hessian(total)(near))
    mode = near + _solve(factor, jax.grad(total)(near))
    both, slope = jax.value_and_grad(total)(mode)
    log_total = both + _log_integral(factor, slope)
    square = Square(mode, slope, factor)
    if not has_rest:
        return jnp.zeros_like(log_total), log_total, square
    alone = jnp.linalg.cholesky(-jax.hessian(lambda x: terms(x)[0])(mode))
    value, slope = jax.value_and_grad(lambda x: terms(x)[0])(mode)
    log_density = value + _log_integral(alone, slope)
    return log_density, log_total - log_density, square


def _log_integral(factor: jax.Array, slope: jax.Array) -> jax.Array:
    half = solve_triangular(factor, slope, lower=True)
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return half @ half / 2 - log_det + slope.size * math.log(2 * math.pi) / 2


def _log_normal(x: jax.Array, precision: jax.Array) -> jax.Array:
    """Log density of a normal vector of mean 0."""
    factor = jnp.linalg.cholesky(precision)
    white = factor.T @ x
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return log_det - white @ white / 2 - x.size * math.log(2 * math.pi) / 2


def _solve(factor: jax.Array, x: jax.Array) -> jax.Array:
    half = solve_triangular(factor, x, lower=True)
    return solve_triangular(factor, half, lower=True, trans=1)


def _draw(key: jax.Array, square: Square) -> jax.Array:
    """Vector with the density of a square."""
    noise = random.normal(key, square.slope.shape, square.slope.dtype)
    half = solve_triangular(square.factor, square.slope, lower=True)
    return square.point + solve_triangular(square.factor, half + noise, lower=True, trans=1)


def _draw_values(key: jax.Array, state: NormalState) -> jax.Array:
    """Integrated values of the last step given the data up to it, flat and padded."""
    noise = random.normal(key, state.mean.shape, state.mean.dtype)
    factor = jnp.linalg.cholesky(state.precision)
    return state.mean + solve_triangular(factor, noise, lower=True, trans=1)


def _draw_before(key: jax.Array, square: Square, after: jax.Array) -> jax.Array:
    """Coordinates before a step given the values in it."""
    d = square.point.size - after.size
    own = square.factor[:d, :d]
    cross = square.factor[d:, :d]
    slope = square.slope[:d] - own @ (cross.T @ (after - square.point[d:]))
    return _draw(key, Square(square.point[:d], slope, own))
