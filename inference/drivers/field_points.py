"""Points of the sites that are not integrated out: log densities, and draws of the latent field."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.layout import Layout
from inference.drivers.calibration_models import merge
from inference.runtime.compiled_program import compile_once
from inference.runtime.core_threads import call_on_cores
from ppl.marginal.random_values import brisk_options, quick_options
from ppl.marginal.scored_recovery import score_and_recover
from ppl.transforms.unconstrain import Unconstrained

_AT_ONCE = 32  # points of one call
_MAX_ELEMENTS = 2**25  # numbers of one array of draws
_FEW_ELEMENTS = 2**11  # numbers of a point; such programs compile faster than they could run
_SOME_ELEMENTS = 2**16

Tell = Callable[[int, int], None]


class Drawn(NamedTuple):
    """Draws at points.

    Attributes:
        draws: Values of all sites, ``(point, *shape)``.
        log_density: Log density of each point, ``(point,)``.
        log_weights: Log importance weights of the draws of the field, ``(point,)``.
    """

    draws: dict[str, Any]
    log_density: np.ndarray
    log_weights: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class FieldPoints:
    """Log densities of points, and draws of the field there, all by one compiled program.

    Attributes:
        target: Density of the points, with the field integrated out.
        key: Random key of the draws.
        num_proposals: Number of draws of each independent part of which one is chosen.
        tell: Function that gets the number of finished points and of all, while they are evaluated.
    """

    target: Unconstrained
    key: jax.Array
    num_proposals: int
    tell: Tell

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """The log density of points on the host, ``(point, size)``."""
        numbers = np.zeros(len(points), np.uint32)
        return self._evaluate(numbers, points, is_drawn=False)[0]

    def draw(self, points: np.ndarray, first: int = 0, *, is_common: bool = False) -> Drawn:
        """Draws of all sites, one at each point.

        Args:
            points: The points, ``(point, size)``.
            first: Number of the first draw; draws of equal numbers have the same random numbers.
            is_common: Whether all have the number of the first.
        """
        numbers = first + (np.zeros if is_common else np.arange)(len(points), dtype=np.uint32)
        log_density, values, drawn, log_weights = self._evaluate(numbers, points)
        merged = merge(values, drawn)
        return Drawn(merged, log_density, log_weights.astype(np.float64))

    def _evaluate(self, numbers: np.ndarray, points: np.ndarray, *, is_drawn: bool = True) -> Any:
        """Log densities, values, draws and log weights at points; those without a mode are lost."""
        layout = Layout.of(self.target.position_shapes)
        largest = max(map(np.size, jax.tree.leaves(self.target)), default=1)
        num_elements = self.num_proposals * max(largest, 1)  # of a draw, or nearly
        at_once = int(np.clip(_MAX_ELEMENTS // num_elements, 1, _AT_ONCE))
        calls = []
        for first in range(0, len(points), at_once):
            count = np.int32(min(len(points) - first, at_once))
            rows = np.minimum(np.arange(first, first + at_once), len(points) - 1)
            chunk = numbers[rows], points[rows].astype(layout.dtype)
            calls.append((self.key, count, np.bool_(is_drawn), *chunk, self.target, layout))
        program = compile_once(_evaluate, *calls[0], options=_options(num_elements))
        found = call_on_cores(
            program, calls, lambda x: self.tell(min(x * at_once, len(points)), len(points))
        )
        joined = jax.tree.map(lambda *x: np.concatenate(x)[: len(points)], *found)
        log_density = joined[0].astype(np.float64)
        return np.where(np.isnan(log_density), -np.inf, log_density), *joined[1:]


def _evaluate(
    key: jax.Array,
    count: jax.Array,
    is_drawn: jax.Array,
    numbers: jax.Array,
    points: jax.Array,
    target: Unconstrained,
    layout: Layout,
) -> Any:
    """Log density, values of the sites, a draw of the field and its log weight, at each point.

    On a CPU, one point at a time: each ends with its own last Newton step, and the program is
    smaller. An accelerator takes all points together.

    Args:
        key: Random key.
        count: Number of points that count; the others may be left out.
        is_drawn: Whether draws are wanted.
        numbers: Numbers of the draws, ``(point,)``.
        points: The points, ``(point, size)``.
        target: Density of the points.
        layout: Its layout.
    """

    @jax.jit  # traced once, for the shapes of the results and for the loop
    def at_point(number: jax.Array, flat: jax.Array) -> Any:
        position = layout.unravel(flat)
        own = jax.random.fold_in(key, number)
        log_density, drawn, log_weight = score_and_recover(target, own, position, is_drawn)
        return log_density.astype(layout.dtype), target.constrain(position), drawn, log_weight

    if jax.default_backend() != "cpu":
        return jax.vmap(at_point)(numbers, points)
    shapes = jax.eval_shape(at_point, numbers[0], points[0])
    empty = jax.tree.map(lambda x: jnp.zeros((len(points), *x.shape), x.dtype), shapes)

    def step(i: jax.Array, found: Any) -> Any:
        here = at_point(numbers[i], points[i])
        return jax.tree.map(lambda x, new: x.at[i].set(new), found, here)

    return jax.lax.fori_loop(0, count, step, empty)


def _options(num_elements: int) -> tuple[tuple[str, Any], ...]:
    """Options of XLA for a program most of whose time goes to compiling.

    | Numbers of a point | Program                                                    |
    |--------------------|------------------------------------------------------------|
    | up to 2048         | not optimized                                              |
    | up to 65536        | optimized, by the faster of two ways of making loops       |
    | more               | optimized, which takes twice as long; runs as fast as ever |

    Args:
        num_elements: Number of elements of the draws at one point, proposals included.
    """
    if jax.default_backend() != "cpu":
        return ()
    if num_elements <= _FEW_ELEMENTS:
        return tuple(quick_options().items())
    if num_elements <= _SOME_ELEMENTS:
        return tuple(brisk_options().items())
    return (("xla_backend_optimization_level", 1),)  # as fast as at 3
