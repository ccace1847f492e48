r"""Monotone rational quadratic splines: smooth bijections of the line with a closed-form inverse.

Between the knots :math:`(x_k, y_k)` and :math:`(x_{k+1}, y_{k+1})`, with the slope :math:`s_k` of
the line through the two knots, the derivatives :math:`\delta_k` at the knots, and
:math:`\xi = (x - x_k) / (x_{k+1} - x_k)`, the spline is

.. math::
    y = y_k + (y_{k+1} - y_k) \frac{s_k \xi^2 + \delta_k \xi (1 - \xi)}
    {s_k + (\delta_{k+1} + \delta_k - 2 s_k) \xi (1 - \xi)}.

Beyond the outer knots the spline is the identity.

References:
    Gregory and Delbourgo (1982), Piecewise rational quadratic interpolation to monotonic data;
    Durkan, Bekasov, Murray and Papamakarios (2019), Neural spline flows, section 3.1.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

BOUND = 5.0  # the outer knots are at -5 and 5, along both axes
_MIN_SHARE = 1e-2  # least share of a bin in the axis, and least derivative; keeps inverses accurate
# Added before softplus: the number 0 then gives the derivative 1.
_UNIT = math.log(math.expm1(1 - _MIN_SHARE))


class Bins(NamedTuple):
    """One bin of a spline for each coordinate, all fields ``(coordinate,)``.

    `x` and `y` are its lower knot, `lower` and `upper` the derivatives at its knots.
    """

    x: jax.Array
    y: jax.Array
    width: jax.Array
    height: jax.Array
    lower: jax.Array
    upper: jax.Array

    @property
    def slope(self) -> jax.Array:
        """The slope of the line from knot to knot."""
        return self.height / self.width

    @property
    def bend(self) -> jax.Array:
        """The sum of the derivatives at both knots, less twice the slope."""
        return self.lower + self.upper - 2 * self.slope


class Spline(NamedTuple):
    """One spline for each coordinate: knots and the derivatives there, ``(knot, coordinate)``."""

    x: jax.Array
    y: jax.Array
    derivatives: jax.Array

    @classmethod
    def of(cls, numbers: jax.Array) -> "Spline":
        """Splines from any numbers, ``(3 * bins - 1, coordinate)``; zeros give the identity."""
        num_bins = (numbers.shape[0] + 1) // 3
        inner = _MIN_SHARE + jax.nn.softplus(numbers[2 * num_bins :] + _UNIT)
        one = jnp.ones((1, numbers.shape[1]), numbers.dtype)
        x, y = (_knots(part) for part in (numbers[:num_bins], numbers[num_bins : 2 * num_bins]))
        return cls(x, y, jnp.concatenate([one, inner, one]))

    def forward(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The values at `x`, ``(coordinate,)``, and the logarithms of the derivatives there."""
        inside = jnp.clip(x, -BOUND, BOUND)
        bins = self._bins(self.x, inside)
        part = (inside - bins.x) / bins.width
        mixed = part * (1 - part)
        rise = (bins.slope * part**2 + bins.lower * mixed) / (bins.slope + bins.bend * mixed)
        y = bins.y + bins.height * rise
        return _identity_outside(x, y, _log_derivative(bins, part))

    def inverse(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The `x` with values `y`, and the logarithms of the derivatives of :meth:`forward` there.

        References:
            Durkan et al. (2019), appendix A.
        """
        inside = jnp.clip(y, -BOUND, BOUND)
        bins = self._bins(self.y, inside)
        rise = (inside - bins.y) / bins.height
        a = bins.slope - bins.lower + rise * bins.bend
        b = bins.lower - rise * bins.bend
        c = -bins.slope * rise
        part = 2 * c / (-b - jnp.sqrt(b**2 - 4 * a * c))
        return _identity_outside(y, bins.x + part * bins.width, _log_derivative(bins, part))

    def _bins(self, knots: jax.Array, at: jax.Array) -> Bins:
        """The bins that hold `at`, by the `knots` along its axis."""
        lower_knots = jnp.sum(at[None] >= knots[1:-1], axis=0, keepdims=True)
        is_bin = jnp.arange(len(knots) - 1)[:, None] == lower_knots
        sizes = [jnp.diff(axis, axis=0) for axis in (self.x, self.y)]
        columns = self.x[:-1], self.y[:-1], *sizes, self.derivatives[:-1], self.derivatives[1:]
        # A one-term sum in place of a gather: less to compile, and no scatter in its derivative.
        return Bins(*jnp.sum(jnp.where(is_bin[None], jnp.stack(columns), 0), axis=1))


def _knots(numbers: jax.Array) -> jax.Array:
    """Knots along an axis, with a least distance between neighbors."""
    num_bins = numbers.shape[0]
    least = min(_MIN_SHARE, 0.5 / num_bins)
    shares = least + (1 - least * num_bins) * jax.nn.softmax(numbers, axis=0)
    inner = 2 * BOUND * jnp.cumsum(shares[:-1], axis=0) - BOUND
    edge = jnp.full((1, numbers.shape[1]), BOUND, numbers.dtype)
    return jnp.concatenate([-edge, inner, edge])


def _log_derivative(bins: Bins, part: jax.Array) -> jax.Array:
    """The logarithm of the derivative at `part`, a fraction of the width of a bin."""
    mixed = part * (1 - part)
    slope = bins.slope
    rise = bins.upper * part**2 + 2 * slope * mixed + bins.lower * (1 - part) ** 2
    return 2 * jnp.log(slope) + jnp.log(rise) - 2 * jnp.log(slope + bins.bend * mixed)


def _identity_outside(
    x: jax.Array, value: jax.Array, log_derivative: jax.Array
) -> tuple[jax.Array, jax.Array]:
    is_inside = jnp.abs(x) < BOUND
    return jnp.where(is_inside, value, x), jnp.where(is_inside, log_derivative, 0)
