"""Slice sampling along the axes of the covariance of the draws."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_positive_scalar
from inference.common.layout import Layout
from inference.common.log_densities import without_infinity
from inference.common.matrices import kind_of
from inference.common.threefry import seed_of, threefry, uniform
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.gradient_free.scale import Scale, init_scale
from ppl.harvest.pytrees import register_dataclass

_MAX_EXPANSIONS = 32  # widths of an interval, at most; Neal's m
_MAX_SHRINKS = 100  # the interval is then less than rounding


class SliceState(NamedTuple):
    """State of a chain of :class:`Slice` or :class:`CountSlice`.

    Attributes:
        position: Pytree of floating-point arrays; of counts, of integers or booleans.
        log_density: Scalar, the log density at `position`.
        scale: Covariance of positions, whose factor has the axes; of counts, variances of elements.
    """

    position: Any
    log_density: jax.Array
    scale: Scale


class SliceInfo(NamedTuple):
    """Statistics of a transition of :class:`Slice` or :class:`CountSlice`.

    Attributes:
        num_evaluations: Evaluations of the density, a scalar.
    """

    num_evaluations: jax.Array


class _Line(NamedTuple):
    """Search for the next point on a line through the present one.

    Attributes:
        low, high: Ends of the interval, relative to the present point.
        point: Point that was tried last.
        log_density: Log density there.
        count: Tries so far.
    """

    low: jax.Array
    high: jax.Array
    point: jax.Array
    log_density: jax.Array
    count: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Slice(GradientFreeKernel):
    """Slice sampling: a uniform draw from the part of a line where the density is high enough.

    A transition moves along each of as many axes as there are coordinates: an interval about the
    present point steps out until it covers the slice, and shrinks until a draw from it is in the
    slice. Every transition moves, without a step size to tune. The axes are the columns of the
    Cholesky factor of the covariance, which warm-up learns. A transition costs some four to eight
    evaluations of the density a coordinate.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. It needs no gradient.
        covariance: Covariance of positions before warm-up, ``(size, size)`` or ``(size,)``.
        width: Positive scalar: the width of the first interval in units of standard deviations.

    Example:
        >>> kernel = Slice(lambda x: -0.5 * jnp.sum(x**2))
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_evaluations) >= 9
        ((3,), True)

    References:
        Neal (2003), Slice sampling, Annals of Statistics 31, figures 3 and 5.
    """

    width: jax.typing.ArrayLike = dataclasses.field(default=3.0, kw_only=True)

    def init(self, position: Any) -> SliceState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if a setting or the log density is not real, or the position has leaves that
                are not floating-point arrays.
            ValueError: if a setting is out of range, or there is no log density.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        self.check(layout)
        log_density = self.density_of(layout)(layout.ravel(position))
        return SliceState(position, log_density, init_scale(self.covariance, layout))

    def check(self, layout: Layout) -> None:
        """Checks the settings that are not traced.

        Raises:
            TypeError: if a setting is not a real number.
            ValueError: if a setting is out of range.
        """
        super().check(layout)
        check_positive_scalar("width", self.width, layout.dtype)

    def step(self, key: jax.Array, state: SliceState) -> tuple[SliceState, SliceInfo]:
        """One transition, along each axis in turn."""
        layout = Layout.of(state.position)
        density = self.density_of(layout)
        seed = seed_of(key)
        width = jnp.asarray(self.width, layout.dtype)
        factor = state.scale.factor
        is_dense = kind_of(factor) == "dense"

        def move(i: Any, carry: Any) -> Any:
            position, log_density, total = carry
            axis = factor[:, i] if is_dense else jnp.zeros_like(factor).at[i].set(factor[i])
            words = jnp.stack(threefry(seed, i))

            def on_line(point: jax.Array) -> jax.Array:
                return density(position + point * axis)

            point, log_density, number = move_on_line(words, on_line, log_density, width)
            return position + point * axis, log_density, total + number

        start = layout.ravel(state.position), state.log_density, jnp.int32(0)
        position, log_density, total = lax.fori_loop(0, layout.size, move, start)
        new = SliceState(layout.unravel(position), log_density, state.scale)
        return new, SliceInfo(total)

    def adapt(
        self, state: SliceState, info: SliceInfo, iteration: jax.Array, num_warmup: jax.Array
    ) -> SliceState:
        """The state with the covariance adapted."""
        layout = Layout.of(state.position)
        return state._replace(scale=self.adapt_scale(state, layout, iteration, num_warmup))


def move_on_line(
    seed: jax.Array,
    density: Callable[[jax.Array], jax.Array],
    log_density: jax.Array,
    width: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Next point on a line, relative to the present one, by stepping out and shrinking.

    Args:
        seed: Two words of uint32.
        density: Log density as a function of a point on the line; a point where it is NaN or
            infinite is outside of the slice.
        log_density: Log density at zero, the present point.
        width: Width of the first interval.

    Returns:
        The point, the log density there, and the number of evaluations.
    """
    dtype = width.dtype
    density = without_infinity(density)
    units = uniform(seed, jnp.arange(3), dtype)
    level = log_density + jnp.log(units[0])
    start = -width * units[1]
    num_left = jnp.floor(_MAX_EXPANSIONS * units[2]).astype(jnp.int32)
    num_right = _MAX_EXPANSIONS - 1 - num_left
    low, at_low = _step_out(density, level, start, -width, num_left)
    high, at_high = _step_out(density, level, start + width, width, num_right)

    def try_point(line: _Line) -> _Line:
        unit = uniform(seed, 3 + line.count, dtype)
        point = line.low + unit * (line.high - line.low)
        value = density(point)
        is_inside = value >= level
        low = jnp.where(is_inside | (point >= 0), line.low, point)
        high = jnp.where(is_inside | (point < 0), line.high, point)
        return _Line(low, high, point, value, line.count + 1)

    def goes_on(line: _Line) -> jax.Array:
        return ~(line.log_density >= level) & (line.count < _MAX_SHRINKS)

    none = jnp.full((), -jnp.inf, dtype)
    line = lax.while_loop(goes_on, try_point, _Line(low, high, 0 * low, none, jnp.int32(0)))
    is_found = line.log_density >= level
    point = jnp.where(is_found, line.point, 0)
    value = jnp.where(is_found, line.log_density, log_density)
    return point, value, line.count + at_low + at_high


def _step_out(
    density: Callable[[jax.Array], jax.Array],
    level: jax.Array,
    end: jax.Array,
    width: jax.Array,
    most: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """End of an interval that has stepped out of the slice, in `most` steps at most.

    Returns:
        The end, and the number of evaluations.
    """

    def goes_on(carry: Any) -> jax.Array:
        _, is_inside, count = carry
        return is_inside & (count < most)

    def look(carry: Any) -> Any:
        end, _, count = carry
        is_inside = density(end) > level
        return jnp.where(is_inside, end + width, end), is_inside, count + 1

    end, _, count = lax.while_loop(goes_on, look, (end, jnp.ones((), bool), jnp.int32(0)))
    return end, count
