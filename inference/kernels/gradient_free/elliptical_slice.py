"""Elliptical slice sampling, for a normal prior and any likelihood."""

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular

from inference.common.argument_checks import as_real
from inference.common.layout import Layout
from inference.common.log_densities import without_infinity, wrap_log_density
from inference.common.matrices import (
    LowRankMatrix,
    Matrix,
    check_mass_matrix,
    check_positive,
    factorize,
    push,
)
from inference.common.threefry import normal, seed_of, uniform
from inference.kernels.gradient_free.kernel import flat_density
from ppl.harvest.pytrees import register_dataclass

_MAX_SHRINKS = 100  # the arc is then less than rounding


class EllipticalSliceState(NamedTuple):
    """State of a chain of :class:`EllipticalSlice`.

    Attributes:
        position: Pytree of floating-point arrays.
        log_density: Scalar, the log likelihood and the log prior density at `position`.
        log_likelihood: Scalar, the log likelihood at `position`.
    """

    position: Any
    log_density: jax.Array
    log_likelihood: jax.Array


class EllipticalSliceInfo(NamedTuple):
    """Statistics of a transition of :class:`EllipticalSlice`.

    Attributes:
        num_evaluations: Evaluations of the log likelihood, a scalar.
    """

    num_evaluations: jax.Array


class _Arc(NamedTuple):
    """Search for the next point on an ellipse through the present one.

    Attributes:
        low, high: Ends of the arc, as angles from the present point.
        angle: Angle that was tried last.
        log_likelihood: Log likelihood there.
        count: Tries so far.
    """

    low: jax.Array
    high: jax.Array
    angle: jax.Array
    log_likelihood: jax.Array
    count: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class EllipticalSlice:
    r"""Elliptical slice sampling: a normal prior, and a likelihood without a gradient.

    A draw :math:`\nu` from the prior, and the position :math:`q`, span an ellipse about the prior
    mean :math:`\mu`, whose points are as probable a priori:

    .. math:: \mu + (q - \mu) \cos\theta + (\nu - \mu) \sin\theta

    A transition draws an angle from the arc on which the likelihood is high enough. It always
    moves, and has nothing to tune. It suits Gaussian processes and other strongly correlated
    priors, where data tell little of each coordinate.

    Under :func:`inference.mcmc`, the prior and the likelihood are the model's: pass
    ``EllipticalSlice()``. All latent sites have to be jointly normal a priori; as a block of
    :class:`Gibbs`, those of the block, given all others, which its mean and covariance may depend
    on.

    Attributes:
        log_likelihood: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. A position is a pytree of floating-point arrays.
        mean: Mean of the prior, ``(size,)``, in the order of ``jax.tree.leaves`` of a position;
            `None` for zeros.
        covariance: Covariance of the prior, ``(size, size)``, or variances ``(size,)``.
        factor: Its lower triangular factor, or standard deviations, instead of the covariance,
            which is factorized in every transition.

    Example:
        >>> kernel = EllipticalSlice(lambda x: -jnp.sum(jnp.exp(x) - 2 * x), factor=jnp.ones(3))
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_evaluations) >= 1
        ((3,), True)

    References:
        Murray, Adams and MacKay (2010), Elliptical slice sampling, AISTATS, figure 2.
    """

    log_likelihood: Callable[[Any], jax.Array] | None = None
    mean: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)
    covariance: Matrix | None = dataclasses.field(default=None, kw_only=True)
    factor: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        wrap_log_density(self, "log_likelihood")

    def init(self, position: Any) -> EllipticalSliceState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if the prior or the log likelihood is not real, or the position has leaves
                that are not floating-point arrays.
            ValueError: if there is no log likelihood or no covariance, the prior does not fit the
                position, or the covariance is not positive definite.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        mean, factor = self._prior(layout)
        vector = layout.ravel(position)
        log_likelihood = flat_density(self, "log_likelihood", layout)(vector)
        log_density = log_likelihood + log_normal(factor, vector - mean)
        return EllipticalSliceState(position, log_density, log_likelihood)

    def refresh(self, state: EllipticalSliceState) -> EllipticalSliceState:
        """The state at the same position, for a prior or a likelihood that has changed since.

        Raises:
            TypeError: in the cases of :meth:`init`.
            ValueError: in the cases of :meth:`init`.
        """
        return self.init(state.position)

    def step(
        self, key: jax.Array, state: EllipticalSliceState
    ) -> tuple[EllipticalSliceState, EllipticalSliceInfo]:
        """One transition: the next state, and the number of evaluations.

        Raises:
            TypeError: in the cases of :meth:`init`.
            ValueError: in the cases of :meth:`init`.
        """
        layout = Layout.of(state.position)
        mean, factor = self._prior(layout)
        density = without_infinity(flat_density(self, "log_likelihood", layout))
        seed = seed_of(key)
        here = layout.ravel(state.position)
        start = here - mean
        across = push(factor, normal(seed, layout.size, layout.dtype))
        now = jnp.asarray(state.log_likelihood, layout.dtype)
        units = uniform(seed, jnp.arange(2), layout.dtype)
        level = now + jnp.log(units[0])

        def point(angle: jax.Array) -> jax.Array:
            return mean + start * jnp.cos(angle) + across * jnp.sin(angle)

        def try_angle(arc: _Arc) -> _Arc:
            value = density(point(arc.angle))
            low = jnp.where(arc.angle < 0, arc.angle, arc.low)
            high = jnp.where(arc.angle < 0, arc.high, arc.angle)
            is_inside = value > level
            unit = uniform(seed, 2 + arc.count, layout.dtype)
            angle = jnp.where(is_inside, arc.angle, low + unit * (high - low))
            return _Arc(low, high, angle, value, arc.count + 1)

        def goes_on(arc: _Arc) -> jax.Array:
            return ~(arc.log_likelihood > level) & (arc.count < _MAX_SHRINKS)

        first = 2 * math.pi * units[1]
        nothing = jnp.full((), jnp.nan, layout.dtype)
        arc = _Arc(first - 2 * math.pi, first, first, nothing, jnp.int32(0))
        arc = lax.while_loop(goes_on, try_angle, arc)
        is_found = arc.log_likelihood > level
        vector = jnp.where(is_found, point(arc.angle), here)
        log_likelihood = jnp.where(is_found, arc.log_likelihood, now)
        log_density = log_likelihood + log_normal(factor, vector - mean)
        new = EllipticalSliceState(layout.unravel(vector), log_density, log_likelihood)
        return new, EllipticalSliceInfo(arc.count)

    def _prior(self, layout: Layout) -> tuple[jax.Array, jax.Array]:
        """Mean and factor of the prior."""
        if (self.covariance is None) == (self.factor is None):
            raise ValueError(
                "EllipticalSlice needs the covariance of the normal prior or its factor, one of "
                "the two, or a model: EllipticalSlice(f, covariance=matrix), or "
                f"inference.mcmc(key, model, kernel=EllipticalSlice()); got {self.covariance!r} "
                f"and {self.factor!r}"
            )
        mean = jnp.zeros(layout.size, layout.dtype)
        if self.mean is not None:
            mean = _check_mean(self.mean, layout)
        if self.factor is not None:
            return mean, _check_factor(self.factor, layout)
        covariance = check_mass_matrix(self.covariance, layout, "covariance")
        if isinstance(covariance, LowRankMatrix):
            covariance = covariance.dense()
        factor = factorize(covariance)
        check_positive(factor, covariance, "covariance")
        return mean, factor


def log_normal(factor: jax.Array, deviation: jax.Array) -> jax.Array:
    """Log density of a normal distribution at a deviation from its mean."""
    if factor.ndim == 1:
        scale = factor
        standard = deviation / scale
    else:
        scale = jnp.diagonal(factor)
        standard = solve_triangular(factor, deviation, lower=True)
    constant = 0.5 * deviation.size * math.log(2 * math.pi)
    return -0.5 * jnp.sum(standard**2) - jnp.sum(jnp.log(scale)) - constant


def _check_mean(given: Any, layout: Layout) -> jax.Array:
    mean = as_real(given)
    if mean is None:
        raise TypeError(f"mean must hold real numbers, got {given!r}")
    if mean.shape != (layout.size,):
        raise ValueError(
            f"mean has shape {mean.shape}; the position has {layout.size} elements, so it must be "
            f"a vector of shape {(layout.size,)}"
        )
    with suppress(jax.errors.TracerArrayConversionError):
        if not np.all(np.isfinite(np.asarray(mean))):
            raise ValueError(f"mean must be finite, got {given}")
    return mean.astype(layout.dtype)


def _check_factor(given: Any, layout: Layout) -> jax.Array:
    size = layout.size
    factor = as_real(given)
    if factor is None:
        raise TypeError(f"factor must hold real numbers, got {given!r}")
    if factor.shape not in ((size,), (size, size)):
        raise ValueError(
            f"factor has shape {factor.shape}; the position has {size} elements; it must be a "
            f"vector of standard deviations of shape {(size,)}, or a lower triangular matrix of "
            f"shape {(size, size)}, such as numpy.linalg.cholesky gives of a covariance"
        )
    with suppress(jax.errors.TracerArrayConversionError):
        known = np.asarray(factor)
        scale = known if known.ndim == 1 else np.diag(known)
        is_lower = known.ndim == 1 or not np.any(np.triu(known, 1))
        if not (is_lower and np.all(np.isfinite(known)) and np.all(scale > 0)):
            raise ValueError(
                "factor must be finite and lower triangular, with a positive diagonal, such as "
                f"numpy.linalg.cholesky gives of a covariance, got {given}"
            )
    return factor.astype(layout.dtype)
