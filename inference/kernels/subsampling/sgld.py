"""Stochastic gradient Langevin dynamics."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_scalar
from inference.common.layout import Layout
from inference.common.matrices import Matrix, push
from inference.kernels.subsampling.gradient_estimate import (
    DEFAULT_INFLATION,
    GradientEstimate,
    StochasticGradientKernel,
)
from ppl.harvest.pytrees import register_dataclass

_UNSTABLE = 4.0  # step size for a normal density with the covariance of the kernel


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SGLD(StochasticGradientKernel):
    r"""Stochastic gradient Langevin dynamics with control variates, for data of many rows.

    A step from :math:`q` reads a batch of rows, which gives an unbiased estimate :math:`\hat g` of
    the gradient of the log density. With the covariance :math:`\Sigma`, the step size :math:`h` and
    normal :math:`z`, it leads to

    .. math:: q + \tfrac{h}{2} \Sigma \hat g + \sqrt{h} \Sigma^{1/2} z

    **Draws are biased**: no step is corrected by a test of acceptance. On a normal density with the
    covariance :math:`\Sigma`, whose gradients have the noise :math:`v` in units in which
    :math:`\Sigma` is the identity, the variances of draws are exactly

    .. math:: \frac{1 + h v / 4}{1 - h / 4}

    times too large. The summary of a result tells this factor for the coordinate with the most
    noise, by the noise that the chains have met. Means of a normal density are unbiased. A smaller
    step size lowers the bias in proportion.

    Control variates make the noise small near the mode: the gradient of all rows is computed once,
    at the mode, and batches estimate only its change since then.

    Under :func:`inference.mcmc`, pass ``SGLD(batch_size=...)``. Rows are the first axis of the
    longest arrays among the arguments of the model and the values it is conditioned on; arrays of
    the same length are split with them, all else is whole in each batch. The library finds the
    mode, checks that the log likelihood is a sum over rows, and scales batches to all rows, unless
    the model does so itself by `ppl.scale`. Chains start at draws of the normal approximation.

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
        step_size: :math:`h`; under :func:`inference.mcmc` by default the one at which variances of
            a normal density with the noise near the mode are too large by 5 % at most, as far as
            some batches tell.
        num_steps: Steps of a transition, `None` for 2 / `step_size`, 100 at most: one draw is then
            nearly independent of the next.
        control_variates: Whether gradients are estimated by their change since `center`.

    Raises:
        TypeError: if a setting has a wrong type.
        ValueError: if a setting is out of range.

    Example:
        >>> x = jax.random.normal(jax.random.key(0), (1000,)) + 3.0
        >>> kernel = SGLD(
        ...     lambda mu: -0.5 * mu**2,
        ...     lambda mu, rows: -0.5 * jnp.sum((rows - mu) ** 2),
        ...     x,
        ...     batch_size=20,
        ...     covariance=jnp.full(1, 1e-3),
        ...     center=jnp.mean(x),
        ...     step_size=0.2,
        ... )
        >>> state, info = jax.jit(kernel.step)(jax.random.key(1), kernel.init(jnp.float32(3.0)))
        >>> state.position.shape, round(float(info.variance_inflation), 3)
        ((), 0.053)

    References:
        Welling and Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics; Baker,
        Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC, section 2;
        Brosse, Durmus and Moulines (2018), The promises and pitfalls of stochastic gradient
        Langevin dynamics, on the bias.
    """

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once it and the other settings are found valid.

        Raises:
            TypeError: if a setting is not real.
            ValueError: if a setting is out of range or missing.
        """
        what = f"a positive number less than {_UNSTABLE:g}, from where chains move without end"
        step_size = super().check(layout)
        return check_scalar("step_size", step_size, layout.dtype, what, lambda x: x < _UNSTABLE)

    def _move(
        self,
        factor: Matrix,
        step_size: jax.Array,
        position: jax.Array,
        momentum: Any,
        force_at: Any,
        z: jax.Array,
    ) -> tuple[jax.Array, Any, GradientEstimate]:
        found = force_at(position)
        drift = 0.5 * step_size * found.force
        return position + push(factor, drift + jnp.sqrt(step_size) * z), None, found

    def inflation(self, step_size: Any, noise: Any) -> Any:
        """Fraction by which variances of draws of a normal density are too large.

        Infinity if the step size is unstable.
        """
        factor = (1 + step_size * noise / 4) / (1 - step_size / 4)
        return jnp.where(step_size < _UNSTABLE, factor - 1, jnp.inf)

    def step_size_for(self, noise: float, inflation: float = DEFAULT_INFLATION) -> float:
        """Step size at which variances are too large by `inflation`."""
        return 4 * inflation / (1 + noise + inflation)
