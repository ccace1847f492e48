"""Scale of moves: a covariance learned from the draws of one chain in windows that double.

| Iterations of warm-up             | Covariance                                                 |
|-----------------------------------|------------------------------------------------------------|
| up to 25                          | a diagonal, by the curvature along each coordinate         |
| from 25, 50, 100, 200, ... on     | of the draws since the iteration that is half as late      |
| the last tenth                    | fixed; the last window takes all iterations up to here     |

References:
    Haario, Saksman and Tamminen (2001), An adaptive Metropolis algorithm; Andrieu and Thoms (2008),
    A tutorial on adaptive MCMC, section 5, on step size and covariance learned together.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.matrices import (
    MAX_DENSE_SIZE,
    LowRankMatrix,
    Matrix,
    check_mass_matrix,
    check_positive,
    factorize,
    kind_of,
)
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_restart,
    dual_averaging_update,
)

_FIRST_WINDOW = 25  # iterations
_MAX_DOUBLINGS = 50  # doublings or halvings, a factor of 1e15
_LEARNING = 0.9  # share of warm-up after which the covariance is fixed
_TRANSITIONS_PER_DRAW = 5  # of a random walk at its best scale


class Scale(NamedTuple):
    """Factor of the covariance of moves, and the draws of the window so far.

    Attributes:
        factor: Lower triangular ``(size, size)``, or standard deviations ``(size,)``.
        count: Number of draws.
        mean: Their mean, ``(size,)``.
        deviations: Sum of products, or of squares, of deviations from the mean; as `factor`.
    """

    factor: jax.Array
    count: jax.Array
    mean: jax.Array
    deviations: jax.Array


def init_scale(covariance: Matrix | None, layout: Layout) -> Scale:
    """Scale before warm-up.

    Args:
        covariance: Matrix ``(size, size)``, variances ``(size,)`` or :class:`LowRankMatrix`; `None`
            for ones, in a matrix for up to 100 coordinates.
        layout: Layout of positions.

    Raises:
        TypeError: if the covariance does not hold real numbers.
        ValueError: if it is of another shape, or known not to be positive definite.
    """
    if covariance is None:
        is_dense = layout.size <= MAX_DENSE_SIZE
        covariance = jnp.eye(layout.size) if is_dense else jnp.ones(layout.size)
    covariance = check_mass_matrix(covariance, layout, "covariance")
    if isinstance(covariance, LowRankMatrix):
        covariance = covariance.dense()
    factor = factorize(covariance)
    check_positive(factor, covariance, "covariance")
    return Scale(factor, *_empty_window(factor))


def learning_stop(num_warmup: jax.Array) -> jax.Array:
    """Number of iterations of warm-up after which the covariance is fixed."""
    return (_LEARNING * jnp.asarray(num_warmup, float)).astype(jnp.int32)


def is_window_end(iteration: jax.Array, num_warmup: jax.Array) -> jax.Array:
    """Whether the covariance is renewed after an iteration of warm-up, as it is by the first."""
    count = iteration + 1
    stop = learning_stop(num_warmup)
    number = count // _FIRST_WINDOW
    is_double = (count % _FIRST_WINDOW == 0) & (number & (number - 1) == 0)
    return (iteration == 0) | (count == stop) | (is_double & (2 * count <= stop))


def adapt_scale(
    scale: Scale, position: jax.Array, iteration: jax.Array, num_warmup: jax.Array
) -> Scale:
    """Scale after an iteration of warm-up that has ended at `position`, ``(size,)``."""
    learns = iteration < learning_stop(num_warmup)
    scale = jax.tree.map(lambda a, b: jnp.where(learns, a, b), _observe(scale, position), scale)
    is_end = is_window_end(iteration, num_warmup) & (iteration > 0)
    return lax.cond(is_end, _renew, lambda scale: scale, scale)


def average_step_size(
    averaging: DualAveraging,
    acceptance_rate: jax.Array,
    target: jax.typing.ArrayLike,
    iteration: jax.Array,
    num_warmup: jax.Array,
    gain: jax.typing.ArrayLike = 0.0,
) -> tuple[DualAveraging, jax.Array]:
    """Dual averaging after an iteration of warm-up, and the step size of the next one.

    The step size is in units of the covariance: its average starts anew with each covariance. After
    the last iteration, the step size is the averaged one. A new average starts at the old one, with
    `gain` added to its logarithm.
    """
    dtype = averaging.log_average.dtype
    updated = dual_averaging_update(averaging, acceptance_rate, jnp.asarray(target, dtype))
    is_end = is_window_end(iteration, num_warmup)
    updated = select_leaves(is_end, dual_averaging_restart(updated, gain), updated)
    updated = select_leaves(iteration == 0, averaging, updated)  # by another scale
    is_last = iteration + 1 == num_warmup
    return updated, jnp.exp(jnp.where(is_last, updated.log_average, updated.log_step_size))


def search_scale(
    density: Callable[[jax.Array], jax.Array],
    position: jax.Array,
    log_density: jax.Array,
    is_wanted: jax.Array,
) -> jax.Array:
    """Standard deviation along each coordinate with the others fixed, ``(size,)``.

    A distance is doubled or halved until the mean log density at that distance on both sides is
    half a nat below the log density in the middle. Of a normal density this is one standard
    deviation, wherever the middle is. It is 1 where no distance is found.

    Args:
        density: Log density of a flat vector.
        position: The middle, ``(size,)``.
        log_density: Log density there.
        is_wanted: Whether the result is used; without it no density is evaluated.
    """

    def search(i: Any) -> jax.Array:
        def look(carry: Any) -> Any:
            distance, trend, count, _ = carry
            above = density(position.at[i].add(distance))
            below = density(position.at[i].add(-distance))
            is_near = log_density - (above + below) / 2 < 0.5  # not so if it is NaN
            new = jnp.where(is_near, jnp.int32(1), jnp.int32(-1))
            crosses = (trend != 0) & (new != trend)
            factor = jnp.where(is_near, jnp.where(crosses, 1.0, 2.0), 0.5)
            return distance * factor.astype(distance.dtype), new, count + 1, crosses

        def goes_on(carry: Any) -> jax.Array:
            *_, count, is_found = carry
            return is_wanted & ~is_found & (count < _MAX_DOUBLINGS)

        one = jnp.ones((), position.dtype)
        start = one, jnp.int32(0), jnp.int32(0), jnp.zeros((), bool)
        distance, _, _, is_found = lax.while_loop(goes_on, look, start)
        return jnp.where(is_found, distance, one)

    return lax.map(search, jnp.arange(position.size))


def _empty_window(factor: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    zero = jnp.zeros((), factor.dtype)
    return zero, jnp.zeros(factor.shape[:1], factor.dtype), jnp.zeros_like(factor)


def _observe(scale: Scale, position: jax.Array) -> Scale:
    """Scale with one more draw, by Welford's algorithm."""
    count = scale.count + 1
    before = position - scale.mean
    mean = scale.mean + before / count
    after = position - mean
    product = before * after if scale.factor.ndim == 1 else jnp.outer(before, after)
    return scale._replace(count=count, mean=mean, deviations=scale.deviations + product)


def _renew(scale: Scale) -> Scale:
    """Scale with the covariance of the window's draws, which are dropped.

    Draws of a walk are correlated, so that a few directions of their covariance are too small. It
    is shrunk to its diagonal by the number of independent draws. A coordinate that has not moved
    keeps its variance.
    """
    size = scale.mean.size
    variance = scale.deviations / jnp.maximum(scale.count - 1, 1)
    is_dense = kind_of(variance) == "dense"
    old = scale.factor**2 if not is_dense else jnp.sum(scale.factor**2, 1)
    found = jnp.diagonal(variance) if is_dense else variance
    has_moved = (found > 0) & jnp.isfinite(found)
    diagonal = jnp.where(has_moved, found, old)
    if not is_dense:
        return Scale(jnp.sqrt(diagonal), *_empty_window(scale.factor))
    weight = scale.count / (scale.count + _TRANSITIONS_PER_DRAW)
    both = has_moved[:, None] & has_moved[None]
    shrunk = jnp.where(both, weight * variance, 0)
    covariance = jnp.where(jnp.eye(size, dtype=bool), jnp.diag(diagonal), shrunk)
    factor = jnp.linalg.cholesky(covariance)
    factor = jnp.where(jnp.all(jnp.isfinite(factor)), factor, jnp.diag(jnp.sqrt(diagonal)))
    return Scale(factor, *_empty_window(scale.factor))
