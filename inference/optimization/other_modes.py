"""Search for other modes than one that is known, by climbs from draws of the prior."""

from typing import Any, NamedTuple

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.target import Target
from inference.optimization.host_lbfgs import Ends, Evaluate, climb_in_step
from inference.runtime.compiled_program import compile_once

_MAX_SIZE = 4096  # coordinates; beyond, climbs take too long
_OWN = 0x6D6F6465  # by which random numbers of the search differ from others of the key
_MAX_STEPS = 200
_DRAWS_A_COORDINATE = 4  # least number from which correlations are estimated
_SHARES = 0.5 ** np.arange(-2.0, 6.0)  # of the coordinates that are drawn, for each start
_NUM_STARTS = 2 + len(_SHARES)  # the known point and its reflection, too
_FRACTIONS = np.linspace(0.0, 1.0, _NUM_STARTS + 2)[1:-1]  # of the way from one end to another
_LEAST_RISE = 1e-3  # nats; a climb has ended where its mode is estimated to be no higher
_LEAST_DIP = 1.0  # nats below the lower end
_LEAST_MODE = 7.0  # nats below the known mode; lower ones do not count
_KICKS = np.linspace(0.05, 0.25, _NUM_STARTS // 2)  # of the way to another end, away from a mode
_LEFT = 0.2  # largest share of a kick that is left after a climb back to a mode
_LEAST_KICK = 1e-5  # nats, as `_LEAST_RISE` for these climbs
_LEAST_MOVE = 1.0  # scaled coordinates; nearer ends are one mode
_ROUNDING = 64  # units in the last place of a log density
_RIDGE = 1e-6  # of correlations


def count_modes(
    key: jax.Array,
    target: Any,
    draws: Any,
    nearest: int,
    options: tuple[tuple[str, Any], ...] = (),
) -> int:
    """Number of modes that are found, 2 for more than one, and 0 if nothing is known.

    Climbs begin at draws of the prior, or at the known point with some coordinates drawn, and at
    its reflection through 0. An end is another mode where the density between it and that of the
    known point is lower than at both. As no density with a concave logarithm has such a dip, the
    answer 2 is no error of the climbs.

    Args:
        key: Random key.
        target: Density with draws of its prior.
        draws: Positions spread about the mode, ``(draw, ...)``, which scale the coordinates.
        nearest: Number of the draw that is the known point.
        options: Options of XLA.
    """
    layout = Layout.of(target.position_shapes)
    if layout.size > _MAX_SIZE:
        return 0
    try:
        draw = compile_once(_draw, key, np.uint32(0), target, layout, options=options)
    except (ValueError, NotImplementedError):  # no prior to draw from
        return 0
    leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(draws)]
    near = np.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)
    center = near[nearest]
    near = near[np.all(np.isfinite(near), axis=1)]  # no draw comes from where no mode was found
    if len(near) < 2:
        return 0
    center = center if np.all(np.isfinite(center)) else np.mean(near, axis=0)
    scaling = _Scaling.of(near)
    example = np.zeros((_NUM_STARTS, layout.size), layout.dtype)
    program = compile_once(_evaluate, example, target, layout, options=options)

    def evaluate(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities and gradients in scaled coordinates, ``(point, size)``."""
        x = center + scaling.multiply(z)
        heights, slopes = jax.device_get(program(x.astype(layout.dtype), target, layout))
        return heights.astype(np.float64), scaling.multiply_transposed(slopes.astype(np.float64))

    rng = np.random.default_rng([_OWN, *np.asarray(jax.random.key_data(key)).ravel()])
    moves = [np.zeros(layout.size), -2 * center]
    for number, share in enumerate(_SHARES):
        drawn = np.asarray(draw(key, np.uint32(number), target, layout), np.float64)
        is_drawn = rng.random(layout.size) < share
        is_drawn[rng.integers(layout.size)] = True
        moves.append(np.where(is_drawn & np.isfinite(drawn), drawn - center, 0.0))
    eps = float(np.finfo(layout.dtype).eps)
    starts = scaling.solve(np.stack(moves))
    ends = climb_in_step(evaluate, starts, tolerance=_LEAST_RISE, eps=eps, max_steps=_MAX_STEPS)
    converged = ends.have_converged
    if not converged[0] or not converged[1:].any():
        return 0
    others = [i for i, counts in enumerate(converged) if counts and i]
    return 2 if any(_is_apart(evaluate, ends, i, eps) for i in others) else 1


class _Scaling(NamedTuple):
    """Matrix that scales coordinates: standard deviations, or a Cholesky factor of a covariance."""

    factor: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> "_Scaling":
        """The scaling by draws, ``(draw, size)``; without correlations if draws are few."""
        num, size = draws.shape
        sds = np.std(draws, axis=0)
        sds = np.where(sds > 0, sds, 1.0)
        if num < _DRAWS_A_COORDINATE * size:
            return cls(sds)
        correlations = np.cov(draws / sds, rowvar=False).reshape(size, size)
        return cls(sds[:, None] * np.linalg.cholesky(correlations + _RIDGE * np.eye(size)))

    def multiply(self, z: np.ndarray) -> np.ndarray:
        return self.factor * z if self.factor.ndim == 1 else z @ self.factor.T

    def multiply_transposed(self, z: np.ndarray) -> np.ndarray:
        return self.factor * z if self.factor.ndim == 1 else z @ self.factor

    def solve(self, x: np.ndarray) -> np.ndarray:
        return x / self.factor if self.factor.ndim == 1 else np.linalg.solve(self.factor, x.T).T


def _is_apart(evaluate: Evaluate, ends: Ends, number: int, eps: float) -> bool:
    """Whether an end counts, and the density between it and the first end is lower than at both."""
    first = ends.heights[0]
    here = ends.heights[number]
    move = ends.positions[number] - ends.positions[0]
    if here < first - _LEAST_MODE or np.linalg.norm(move) < _LEAST_MOVE:
        return False
    lowest = np.min(evaluate(ends.positions[0] + _FRACTIONS[:, None] * move)[0])
    rounding = _ROUNDING * eps * max(abs(first), 1)
    if lowest >= min(here, first) - _LEAST_DIP - rounding:
        return False
    # Where a ridge is bent, climbs may end on its way. From beside it they end beside it.
    both = np.stack([ends.positions[0], ends.positions[number]])
    kicks = _KICKS[:, None, None] * np.stack([move, -move])
    starts = (both + kicks).reshape(_NUM_STARTS, -1)
    again = climb_in_step(evaluate, starts, tolerance=_LEAST_KICK, eps=eps, max_steps=_MAX_STEPS)
    left = again.positions.reshape(kicks.shape) - both
    ratios = np.linalg.norm(left, axis=-1) / np.linalg.norm(kicks, axis=-1)
    return bool(np.all(np.median(ratios, axis=0) < _LEFT))


def _draw(key: jax.Array, number: jax.Array, target: Target, layout: Layout) -> jax.Array:
    """A numbered draw of the prior, ``(size,)``."""
    own = jax.random.fold_in(jax.random.fold_in(key, _OWN), number)
    return layout.ravel(target.prior(own))  # pyright: ignore[reportAttributeAccessIssue]


def _evaluate(x: jax.Array, target: Target, layout: Layout) -> tuple[jax.Array, jax.Array]:
    """Log densities and their gradients, at points ``(point, size)``."""
    return jax.vmap(jax.value_and_grad(lambda x: target.log_density(layout.unravel(x))))(x)
