r"""Multi-sample objectives, from importance weights :math:`w_k = p(z_k, y) / q(z_k)`.

They are the Rényi bound, the importance weighted bound (IWAE) and the forward KL divergence. Their
gradients are doubly reparameterized (DReG) by default. With normalized weights :math:`\tilde w_k`
and `z` held fixed, :math:`E[\sum_k \tilde w_k \nabla \log q(z_k)]` has the form of a score
function gradient. A second reparameterization turns it into

.. math:: E\left[\sum_k (\tilde w_k - \tilde w_k^2) \frac{\partial \log w_k}{\partial z_k}
          \nabla z_k\right],

which has no variance where the guide equals the posterior. Parameters of the model itself move the
weights along no path; they follow the bound's own gradient,
:math:`\sum_k \tilde w_k \nabla \log p(z_k, y)`.

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
from inference.variational.elbo import LogDensity, Objective, with_gradient_of


class _Weighted:
    """Base class of the objectives of several weights."""

    name: ClassVar[str] = "importance weighted bound"
    min_particles: ClassVar[int] = 2
    is_linear: ClassVar[bool] = False
    needs_density: ClassVar[bool] = True
    learns_centering: ClassVar[bool] = True

    @property
    def for_model(self: Any) -> Objective:
        """The bound with its own gradient."""
        return dataclasses.replace(self, doubly_reparameterized=False)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Renyi(_Weighted):
    r"""The variational Rényi bound, between the evidence and the ELBO for `alpha` from 0 to 1.

    .. math:: \frac{1}{1 - \alpha} \log \frac1K \sum_{k=1}^K w_k^{1 - \alpha}

    with `K` draws of the guide, `num_particles`.

    ================  ====================================================
    `alpha`           Objective
    ================  ====================================================
    0                 :class:`ImportanceWeighted`
    between 0 and 1   covers more of the posterior, the smaller `alpha` is
    1                 :class:`inference.ELBO`
    above 1           seeks a mode
    ================  ====================================================

    The estimate is biased toward the ELBO, less so for larger `K`. A fit maximizes the mean of the
    estimate, and the gradients of this mean are unbiased.

    Args:
        alpha: The order, not negative: below 0 the bound lies above the evidence.
        doubly_reparameterized: Whether to use doubly reparameterized gradients, which have little
            variance; otherwise, the derivative of the formula as it stands.

    Example:
        >>> from inference.guides.normal import LocScale, MeanField
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
        if self.alpha < 0:
            raise ValueError(
                f"alpha of Renyi must not be negative, got {self.alpha!r}: the bound would lie "
                "above the evidence, and a fit that maximizes it leads away from the posterior. "
                "Renyi(0.0) is ImportanceWeighted(), a number between 0 and 1 covers more of the "
                "posterior than ELBO()"
            )

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
        # The path derivative of the weights has the share w. The score term in log q, followed once
        # more along the path, takes away power * (w - w^2).
        shares = softmax(lax.stop_gradient(power * log_weights))
        slopes = self.alpha * shares + power * shares**2
        return with_gradient_of(bound, jnp.sum(slopes * log_weights))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ImportanceWeighted(_Weighted):
    r"""The importance weighted bound, :math:`E[\log \frac1K \sum_k w_k] \le \log p(y)`.

    The objective of importance weighted autoencoders (IWAE). With `K` draws of the guide,
    `num_particles`, it lies between the ELBO and the evidence, and rises to the evidence with `K`.
    The best guide is a proposal for :func:`inference.importance`: it is wider than the ELBO's best
    guide, and no approximation of the posterior by itself.

    Args:
        doubly_reparameterized: Whether to use doubly reparameterized gradients, which have little
            variance. For large `K`, the signal of plain gradients is lost in noise.

    Example:
        >>> from inference.guides.normal import LocScale, MeanField
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
    r"""The forward divergence :math:`KL(p \| q)`, minimized by guides that cover the posterior.

    The best guide has the means of the posterior. The best normal guide also has the variances of
    the posterior, whatever the correlations; the variances of the ELBO's best normal guide are too
    small. The gradient is the derivative of :math:`\sum_k \tilde w_k \log q(z_k)`, with the `K`
    draws (`num_particles`) and their normalized weights held fixed. Its bias is of order `1/K`. If
    few draws carry all weight, as a high Pareto k shows, the gradient is biased toward the current
    guide. The value at each step is the importance weighted bound.

    Args:
        doubly_reparameterized: Whether to use doubly reparameterized gradients, which have the same
            mean and less variance. Otherwise draws may be discrete, and the log density needs no
            gradient.

    Example:
        >>> from inference.guides.normal import LocScale, MeanField
        >>> at, keys = LocScale(jnp.zeros(1), jnp.zeros(1)), jax.random.split(jax.random.key(0), 5)
        >>> log_density = lambda x: MeanField().log_prob(at, x) + 2.0  # the posterior, and 2
        >>> round(ForwardKL().mean(log_density, MeanField(), at, keys).item(), 4)
        2.0

    References:
        Bornschein and Bengio (2015), Reweighted wake-sleep, ICLR, equation 6, the wake phase of q.
    """

    doubly_reparameterized: bool = True
    learns_centering: ClassVar[bool] = False  # its gradient is not that of the model's bound

    @property
    def needs_paths(self) -> bool:
        """Whether draws must be differentiable: only if doubly reparameterized."""
        return self.doubly_reparameterized

    @property
    def for_model(self) -> ImportanceWeighted:
        """The bound that is the value: the model rises along it."""
        return ImportanceWeighted(doubly_reparameterized=False)

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
