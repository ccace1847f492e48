"""Slice sampling of counts, one element after the other."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_positive_scalar
from inference.common.threefry import seed_of, threefry, uniform
from inference.kernels.discrete.counts import MAX_CHANGE, CountKernel
from inference.kernels.gradient_free.scale import adapt_scale, init_scale
from inference.kernels.gradient_free.slice import SliceInfo, SliceState, move_on_line
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class CountSlice(CountKernel):
    """Slice sampling of counts: a uniform draw from the integers whose density is high enough.

    Each element moves in turn: an interval about the present value steps out until it covers the
    slice, and shrinks until a draw from it is in the slice. A uniform number is added to the
    integer for that, and taken away after. Warm-up learns the widths of intervals from the draws. A
    transition costs some four to eight evaluations of the density an element.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. It needs no gradient.
        lower: Least value of each element: integer, or arrays that broadcast to the position.
            `None` for 0, unless a driver supplies it.
        upper: Largest value, likewise. `None` for no bound but that of the dtype, 2**30 at most.
        width: Positive scalar: the width of the first interval in units of standard deviations.

    Example:
        >>> def log_density(x):  # Poisson(4), twice
        ...     x = jnp.asarray(x, float)
        ...     return jnp.sum(x * jnp.log(4.0) - jax.scipy.special.gammaln(x + 1.0))
        >>> kernel = CountSlice(log_density)
        >>> state = kernel.init(jnp.array([3, 5]))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_evaluations) >= 6
        ((2,), True)

    References:
        Neal (2003), Slice sampling, Annals of Statistics 31, figures 3 and 5.
    """

    width: jax.typing.ArrayLike = dataclasses.field(default=3.0, kw_only=True)

    def init(self, position: Any) -> SliceState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if the position, a setting or the log density is of a wrong type.
            ValueError: if the position is out of bounds or a setting out of range, or there is no
                log density.
        """
        form = self.form_of(position)
        check_positive_scalar("width", self.width, form.real)
        position, log_density = self.begin(position)
        scale = init_scale(self.first_sizes(form, position) ** 2, form.layout)
        return SliceState(position, log_density, scale)

    def step(self, key: jax.Array, state: SliceState) -> tuple[SliceState, SliceInfo]:
        """One transition: each element in turn."""
        form = self.form_of(state.position)
        seed = seed_of(key)
        widths = jnp.maximum(self.width * state.scale.factor, 1).astype(form.real)
        fractions = uniform(seed, form.size + jnp.arange(form.size), form.real)

        def move(i: Any, carry: Any) -> Any:
            vector, log_density, total = carry

            def at(point: jax.Array) -> jax.Array:
                change = jnp.clip(jnp.floor(fractions[i] + point), -MAX_CHANGE, MAX_CHANGE)
                return vector.at[i].add(change.astype(form.dtype))

            point, log_density, number = move_on_line(
                jnp.stack(threefry(seed, i)),
                lambda point: self.value(form, at(point)),
                log_density,
                widths[i],
            )
            return at(point), log_density, total + number

        start = form.ravel(state.position), state.log_density, jnp.int32(0)
        vector, log_density, total = lax.fori_loop(0, form.size, move, start)
        new = SliceState(form.unravel(vector), log_density, state.scale)
        return new, SliceInfo(total)

    def adapt(
        self, state: SliceState, info: SliceInfo, iteration: jax.Array, num_warmup: Any
    ) -> SliceState:
        """The state with the variances adapted."""
        form = self.form_of(state.position)
        position = form.ravel(state.position).astype(form.real)
        return state._replace(scale=adapt_scale(state.scale, position, iteration, num_warmup))
