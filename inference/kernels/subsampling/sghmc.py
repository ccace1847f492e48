"""Stochastic gradient Hamiltonian Monte Carlo."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_positive_scalar, check_scalar
from inference.common.layout import Layout
from inference.common.matrices import Matrix, push
from inference.kernels.subsampling.gradient_estimate import (
    DEFAULT_INFLATION,
    GradientEstimate,
    StochasticGradientKernel,
)
from ppl.harvest.pytrees import register_dataclass

_FRICTION = 2.0  # critical damping of a standard normal density
_MOST_DAMPING = 0.9  # of the momentum in a step that is chosen


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SGHMC(StochasticGradientKernel):
    r"""Stochastic gradient Hamiltonian Monte Carlo with control variates, for data of many rows.

    A step moves the position :math:`q` along the momentum :math:`p`, in units in which the
    covariance :math:`\Sigma` is the identity. Then it reads a batch of rows, which gives an
    unbiased estimate :math:`\hat g` of the gradient at the new position. Friction :math:`C` takes
    away what the noise of gradients adds. With the step size :math:`\epsilon` and normal :math:`z`:

    .. math::
        q' = q + \epsilon p, \quad
        p' = p + \epsilon \hat g(q') - \epsilon C p + \sqrt{2 C \epsilon}\, z

    **Draws are biased**, as those of :class:`SGLD`. On a normal density with the covariance
    :math:`\Sigma` and gradients with the noise :math:`v`, variances of draws are exactly

    .. math:: \frac{1 + \epsilon v / 2C}{1 - \epsilon^2 / (4 - 2 \epsilon C)}

    times too large, as the summary of a result tells. With little noise, as with control variates,
    the bias is quadratic in the step size, and steps may be longer than those of :class:`SGLD`.

    Under :func:`inference.mcmc`, pass ``SGHMC(batch_size=...)``; :class:`SGLD` says which arrays
    are split into rows.

    Attributes:
        log_prior: Function of a position that returns a scalar; `None` if a driver is to supply it,
            with the next two. A position is a pytree of floating-point arrays.
        log_likelihood: Function of a position and some rows of `data` that returns a scalar, the
            sum over these rows.
        data: Pytree of arrays with a first axis of rows, of one length.
        batch_size: Rows of a batch, an even number, drawn with replacement.
        covariance: Rough covariance of positions, ``(size, size)`` or ``(size,)``. `None` for ones,
            under :func:`inference.mcmc` for the inverse curvature at the mode.
        center: Position of the control variates, under :func:`inference.mcmc` the mode.
        step_size: :math:`\epsilon`; under :func:`inference.mcmc` by default the one at which
            variances of a normal density with the noise near the mode are too large by 5 % at most,
            as far as some batches tell.
        num_steps: Steps of a transition, `None` for 2 / `step_size`, 100 at most.
        control_variates: Whether gradients are estimated by their change since `center`.
        friction: :math:`C`; 2 damps a normal density critically. The product with the step size
            must be less than 1.

    Raises:
        TypeError: if a setting has a wrong type.
        ValueError: if a setting is out of range.

    Example:
        >>> x = jax.random.normal(jax.random.key(0), (1000,)) + 3.0
        >>> kernel = SGHMC(
        ...     lambda mu: -0.5 * mu**2,
        ...     lambda mu, rows: -0.5 * jnp.sum((rows - mu) ** 2),
        ...     x,
        ...     batch_size=20,
        ...     covariance=jnp.full(1, 1e-3),
        ...     center=jnp.mean(x),
        ...     step_size=0.2,
        ... )
        >>> state, info = jax.jit(kernel.step)(jax.random.key(1), kernel.init(jnp.float32(3.0)))
        >>> state.position.shape, round(float(info.variance_inflation), 4)
        ((), 0.0127)

    References:
        Chen, Fox and Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, algorithm 2;
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC.
    """

    friction: jax.typing.ArrayLike = dataclasses.field(default=_FRICTION, kw_only=True)

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once it and the other settings are found valid.

        Raises:
            TypeError: if a setting is not real.
            ValueError: if a setting is out of range or missing.
        """
        step_size = super().check(layout)
        friction = check_positive_scalar("friction", self.friction, layout.dtype)
        what = "a positive number less than 1"
        damping = step_size * friction
        check_scalar("step_size * friction", damping, layout.dtype, what, lambda x: 0 < x < 1)
        return step_size

    def _first_momentum(self, layout: Layout) -> jax.Array:
        return jnp.zeros(layout.size, layout.dtype)

    def _move(
        self,
        factor: Matrix,
        step_size: jax.Array,
        position: jax.Array,
        momentum: Any,
        force_at: Any,
        z: jax.Array,
    ) -> tuple[jax.Array, Any, GradientEstimate]:
        damping = step_size * jnp.asarray(self.friction, step_size.dtype)
        position = position + push(factor, step_size * momentum)
        found = force_at(position)
        kept = (1 - damping) * momentum
        return position, kept + step_size * found.force + jnp.sqrt(2 * damping) * z, found

    def inflation(self, step_size: Any, noise: Any) -> Any:
        """Fraction by which variances of draws of a normal density are too large.

        Infinity if the step size is unstable.
        """
        friction = jnp.asarray(self.friction, jnp.result_type(0.0, step_size))
        friction = friction.astype(jnp.asarray(step_size).dtype)
        rest = 1 - step_size**2 / (4 - 2 * step_size * friction)
        factor = (1 + step_size * noise / (2 * friction)) / rest
        return jnp.where(rest > 0, factor - 1, jnp.inf)

    def step_size_for(self, noise: float, inflation: float = DEFAULT_INFLATION) -> float:
        """Step size at which variances are too large by `inflation`, or a little less."""
        friction = float(self.friction)  # pyright: ignore[reportArgumentType]
        low = 0.0
        high = _MOST_DAMPING / friction
        for _ in range(50):
            middle = 0.5 * (low + high)
            rest = 1 - middle**2 / (4 - 2 * middle * friction)
            excess = (1 + middle * noise / (2 * friction)) / rest - 1 if rest > 0 else math.inf
            low, high = (middle, high) if excess < inflation else (low, middle)
        return low
