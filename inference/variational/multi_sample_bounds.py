r"""Objectives made of several importance weights, :math:`w_k = p(z_k, y) / q(z_k)`.

Their gradients are doubly reparameterised by default. With the normalised weights
:math:`\tilde w_k`, :math:`E[\sum_k \tilde w_k \nabla \log q(z_k)]` with `z` held fixed has the same
form as what the score function gives, and following the path once more turns it into

.. math:: E\left[\sum_k (\tilde w_k - \tilde w_k^2) \frac{\partial \log w_k}{\partial z_k}
          \nabla z_k\right],

which has no variance where the guide is the posterior.

References:
    Tucker, Lawson, Gu and Maddison (2019), Doubly reparameterized gradient estimators for Monte
    Carlo objectives, ICLR, equations 6 to 8.
"""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp, softmax

from inference.guides.guide import Guide
from inference.variational.elbo import LogDensity, with_gradient_of


class _Weighted:
    """What objectives of several weights have in common."""

    name: ClassVar[str] = "importance weighted bound"
    least_particles: ClassVar[int] = 2
    is_linear: ClassVar[bool] = False
    needs_density: ClassVar[bool] = True


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Renyi(_Weighted):
    r"""The variational Rényi bound, between the evidence and the ELBO for `alpha` from 0 to 1.

    .. math:: \frac{1}{1 - \alpha} \log \frac1K \sum_{k=1}^K w_k^{1 - \alpha}

    with `K` draws of the guide, `num_particles`. At `alpha` 1 it is the ELBO, at 0
    :class:`ImportanceWeighted`, and the smaller it is, the more of the posterior the guide covers.
    The estimate is biased towards the ELBO, the less so, the larger `K`: what is maximised is its
    mean, the gradients of which are unbiased.

    Args:
        alpha: The order; above 1, the guide seeks a mode.
        doubly_reparameterized: Whether to take gradients with little variance, as the module says;
            else, the derivative of the formula as it stands.

    Example:
        >>> from inference.guides import LocScale, MeanField
        >>> at, keys = LocScale(jnp.zeros(1), jnp.zeros(1)), jax.random.split(jax.random.key(0), 5)
        >>> log_density = lambda x: MeanField().log_prob(at, x) + 2.0  # the posterior, and 2
        >>> round(Renyi(0.5).mean(log_density, MeanField(), at, keys).item(), 4)
        2.0

    References:
        Li and Turner (2016), Rényi divergence variational inference, NeurIPS, equation 8.
    """

    alpha: float
    doubly_reparameterized: bool = True
    name: ClassVar[str] = "Rényi bound"
    needs_paths = True

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, int | float) or not math.isfinite(self.alpha):
            raise ValueError(f"alpha of Renyi must be a finite number, got {self.alpha!r}")

    def mean(
        self, log_density: LogDensity, guide: Guide, parameters: Any, keys: jax.Array
    ) -> jax.Array:
        """The bound from draws with each of `keys`; see :class:`inference.Objective`."""
        held = lax.stop_gradient(parameters) if self.doubly_reparameterized else parameters

        def one(key: jax.Array) -> jax.Array:
            position = guide.sample(parameters, key)
            return log_density(position) - guide.log_prob(held, position)

        return self._bound(jax.vmap(one)(keys))

    def _bound(self, log_weights: jax.Array) -> jax.Array:
        power = 1 - self.alpha
        bound = jnp.mean(log_weights) if power == 0 else log_mean(power * log_weights) / power
        if not self.doubly_reparameterized:
            return bound
        # The path of the weights themselves has the share w, that of their parameters in log q
        # leaves w - w^2 of it, times the power, to be taken away.
        shares = softmax(lax.stop_gradient(power * log_weights))
        slopes = self.alpha * shares + power * shares**2
        return with_gradient_of(bound, jnp.sum(slopes * log_weights))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ImportanceWeighted(_Weighted):
    r"""The importance weighted bound, :math:`E[\log \frac1K \sum_k w_k] \le \log p(y)`.

    With `K` draws of the guide, `num_particles`, it lies between the ELBO and the evidence, and
    rises to that with `K`. Its best guide is one to draw importance weights from, by
    :func:`inference.importance`: wider than that of the ELBO, and no approximation by itself.

    Args:
        doubly_reparameterized: Whether to take gradients with little variance, as the module says;
            the signal of plain ones is lost in noise for large `K`.

    Example:
        >>> from inference.guides import LocScale, MeanField
        >>> at, keys = LocScale(jnp.zeros(1), jnp.zeros(1)), jax.random.split(jax.random.key(0), 5)
        >>> log_density = lambda x: MeanField().log_prob(at, x) + 2.0  # the posterior, and 2
        >>> round(ImportanceWeighted().mean(log_density, MeanField(), at, keys).item(), 4)
        2.0

    References:
        Burda, Grosse and Salakhutdinov (2016), Importance weighted autoencoders, ICLR, equation 8;
        Rainforth et al. (2018), Tighter variational bounds are not necessarily better, ICML, on the
        noise.
    """

    doubly_reparameterized: bool = True
    needs_paths = True

    def mean(
        self, log_density: LogDensity, guide: Guide, parameters: Any, keys: jax.Array
    ) -> jax.Array:
        """The bound from draws with each of `keys`; see :class:`inference.Objective`."""
        renyi = Renyi(0.0, self.doubly_reparameterized)
        return renyi.mean(log_density, guide, parameters, keys)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ForwardKL(_Weighted):
    r"""The divergence :math:`KL(p \| q)` from posterior to guide, which is to cover all of it.

    The best guide has the posterior's means and, if it is normal, its variances, whatever the
    correlations, where the ELBO's has variances that are too small. The gradient is that of
    :math:`\sum_k \tilde w_k \log q(z_k)` with the `K` draws, `num_particles`, and their normalised
    weights held fixed. It is biased, by an order of `1/K`: towards the guide as it is, where few
    draws carry all weight; Pareto k tells. The value at each step is the importance weighted bound.

    Args:
        doubly_reparameterized: Whether to take gradients with the same mean and less variance, as
            the module says; else, draws may be discrete and the log density needs no gradient.

    Example:
        >>> from inference.guides import LocScale, MeanField
        >>> at, keys = LocScale(jnp.zeros(1), jnp.zeros(1)), jax.random.split(jax.random.key(0), 5)
        >>> log_density = lambda x: MeanField().log_prob(at, x) + 2.0  # the posterior, and 2
        >>> round(ForwardKL().mean(log_density, MeanField(), at, keys).item(), 4)
        2.0

    References:
        Bornschein and Bengio (2015), Reweighted wake-sleep, ICLR, equation 6, the wake phase of q.
    """

    doubly_reparameterized: bool = True

    @property
    def needs_paths(self) -> bool:
        """Only if doubly reparameterised."""
        return self.doubly_reparameterized

    def mean(
        self, log_density: LogDensity, guide: Guide, parameters: Any, keys: jax.Array
    ) -> jax.Array:
        """The bound from draws with each of `keys`; see :class:`inference.Objective`."""

        def along(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            position = guide.sample(parameters, key)
            log_prob = guide.log_prob(lax.stop_gradient(parameters), position)
            log_weight = log_density(position) - log_prob
            return log_weight, log_weight

        def held(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            position = lax.stop_gradient(guide.sample(parameters, key))
            log_prob = guide.log_prob(parameters, position)
            return log_density(position) - lax.stop_gradient(log_prob), log_prob

        one = along if self.doubly_reparameterized else held
        log_weights, followed = jax.vmap(one)(keys)
        shares = softmax(lax.stop_gradient(log_weights))
        slopes = shares - shares**2 if self.doubly_reparameterized else shares
        return with_gradient_of(log_mean(log_weights), jnp.sum(slopes * followed))


def log_mean(log_weights: jax.Array) -> jax.Array:
    """The logarithm of the mean of weights."""
    return logsumexp(log_weights) - math.log(log_weights.size)
