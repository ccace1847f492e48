"""Normal guides (mean field, full rank, low rank) and the point mass.

A guide is a family of distributions over unconstrained space that is fitted to a posterior. It sees
flat positions, vectors of all unconstrained coordinates (:class:`Layout`), and knows nothing of the
sites of a model. Its parameters are a pytree of arrays, which may have any real values, as an
optimizer moves them without bounds.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from inference.common.layout import Layout
from inference.common.threefry import noise_of, normal
from ppl.harvest.pytrees import register_dataclass

_LOG_2PI = math.log(2 * math.pi)


_FACTOR_SCALE = 0.1  # relative to D; at 0 the factor of a low-rank guide would have no gradient


class LocScale(NamedTuple):
    """Parameters of :class:`MeanField`: mean and log standard deviation, ``(size,)``."""

    loc: jax.Array
    log_scale: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MeanField:
    r"""The mean-field guide: independent normals, :math:`z = \mu + \sigma \odot \epsilon`.

    The ELBO's best fit to a normal distribution with precision matrix :math:`\Lambda` has variances
    :math:`1 / \Lambda_{ii}`. They are too small where coordinates are correlated.

    Args:
        init_scale: Standard deviations to begin with.

    Example:
        >>> guide = MeanField(init_scale=0.5)
        >>> parameters = guide.init(jnp.zeros(3), Layout.of(jnp.zeros(3)))
        >>> guide.sample(parameters, jax.random.key(0)).shape
        (3,)
        >>> round(guide.log_prob(parameters, jnp.zeros(3)).item(), 3)  # -3 log(0.5 sqrt(2 pi))
        -0.677

    References:
        Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), Automatic differentiation variational
        inference, JMLR 18, section 2.4.
    """

    init_scale: float = 0.1
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> LocScale:
        """Parameters whose mean is `position`."""
        return LocScale(position, log_scales(self.init_scale, position))

    def init_normal(self, position: jax.Array, layout: Layout, scale: jax.Array) -> LocScale:
        """Parameters with the highest ELBO if the target is this normal distribution."""
        return LocScale(position, jnp.log(own_scales(scale)))

    def sample(self, parameters: LocScale, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        loc = parameters.loc
        return self.forward(parameters, noise_of(key, loc.size, loc.dtype))[0]

    def log_prob(self, parameters: LocScale, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        noise, log_det = self.inverse(parameters, position)
        return log_normal(noise) - log_det

    def forward(self, parameters: LocScale, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The position for `noise`, and the log determinant of the Jacobian there."""
        loc, log_scale = parameters
        return loc + jnp.exp(log_scale) * noise, jnp.sum(log_scale)

    def inverse(self, parameters: LocScale, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The noise for `position`, and the log determinant of the Jacobian of :meth:`forward`."""
        loc, log_scale = parameters
        return (position - loc) * jnp.exp(-log_scale), jnp.sum(log_scale)

    def entropy(self, parameters: LocScale) -> jax.Array:
        """The entropy, a scalar."""
        return normal_entropy(parameters.log_scale)

    def covariance(self, parameters: LocScale) -> jax.Array:
        """The covariance matrix, ``(size, size)``."""
        return jnp.diag(jnp.exp(2 * parameters.log_scale))


class LocFactor(NamedTuple):
    r"""Parameters of the guides whose covariance is :math:`D B B^\top D` with a diagonal `D`.

    Attributes:
        loc: The mean, ``(size,)``.
        log_scale: The logarithm of `D`, ``(size,)``.
        factor: The free entries of `B`. For :class:`FullRank`, the entries below the diagonal of
            ones, ``(size, size)``; for :class:`LowRank`, the columns to the right of the identity,
            ``(size, rank)``.
    """

    loc: jax.Array
    log_scale: jax.Array
    factor: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FullRank:
    r"""The full-rank normal guide: any covariance, :math:`z = \mu + D L \epsilon`.

    `D` is a positive diagonal and :math:`L` a lower triangle with ones on its diagonal. One step
    size of an optimizer then suits coordinates of any scale.

    Args:
        init_scale: Standard deviations to begin with.

    References:
        Kucukelbir et al. (2017), Automatic differentiation variational inference, JMLR 18,
        section 2.4.
    """

    init_scale: float = 0.1
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> LocFactor:
        """Parameters whose mean is `position`, without correlations."""
        factor = jnp.zeros((position.size, position.size), position.dtype)
        return LocFactor(position, log_scales(self.init_scale, position), factor)

    def init_normal(self, position: jax.Array, layout: Layout, scale: jax.Array) -> LocFactor:
        """Parameters of exactly this normal distribution."""
        scale_tril = scale if scale.ndim == 2 else jnp.diag(scale)
        diagonal = jnp.diag(scale_tril)
        return LocFactor(position, jnp.log(diagonal), jnp.tril(scale_tril / diagonal[:, None], -1))

    def sample(self, parameters: LocFactor, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        loc = parameters.loc
        return self.forward(parameters, noise_of(key, loc.size, loc.dtype))[0]

    def log_prob(self, parameters: LocFactor, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        noise, log_det = self.inverse(parameters, position)
        return log_normal(noise) - log_det

    def forward(self, parameters: LocFactor, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The position for `noise`, and the log determinant of the Jacobian there."""
        loc, log_scale, factor = parameters
        scaled = noise + jnp.tril(factor, -1) @ noise
        return loc + jnp.exp(log_scale) * scaled, jnp.sum(log_scale)

    def inverse(self, parameters: LocFactor, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The noise for `position`, and the log determinant of the Jacobian of :meth:`forward`."""
        loc, log_scale, factor = parameters
        scaled = (position - loc) * jnp.exp(-log_scale)
        noise = solve_triangular(factor, scaled, lower=True, unit_diagonal=True)
        return noise, jnp.sum(log_scale)

    def entropy(self, parameters: LocFactor) -> jax.Array:
        """The entropy, a scalar."""
        return normal_entropy(parameters.log_scale)

    def scale_tril(self, parameters: LocFactor) -> jax.Array:
        """The Cholesky factor of the covariance matrix, ``(size, size)``."""
        lower = jnp.tril(parameters.factor, -1) + _identity(parameters)
        return jnp.exp(parameters.log_scale)[:, None] * lower

    def covariance(self, parameters: LocFactor) -> jax.Array:
        """The covariance matrix, ``(size, size)``."""
        scale_tril = self.scale_tril(parameters)
        return scale_tril @ scale_tril.T


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LowRank:
    r"""The low-rank normal guide, with covariance :math:`D (I + W W^\top) D`.

    `D` is a positive diagonal and :math:`W` has `rank` columns, the directions in which coordinates
    vary together. A step takes time in proportion to ``size * rank**2``.

    Args:
        rank: Columns of :math:`W`.
        init_scale: Diagonal of `D` to begin with.

    References:
        Ong, Nott and Smith (2018), Gaussian variational approximation with a factor covariance
        structure, Journal of Computational and Graphical Statistics 27.
    """

    rank: int = dataclasses.field(default=10, metadata={"static": True})
    init_scale: float = 0.1
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> LocFactor:
        """Parameters whose mean is `position`, with small correlations."""
        noise = normal(jnp.zeros(2, jnp.uint32), position.size * self.rank, position.dtype)
        factor = _FACTOR_SCALE * noise.reshape(position.size, self.rank)
        return LocFactor(position, log_scales(self.init_scale, position), factor)

    def init_normal(self, position: jax.Array, layout: Layout, scale: jax.Array) -> LocFactor:
        """Parameters with the `rank` most stretched directions of the normal distribution."""
        start = self.init(position, layout)
        own = own_scales(scale)
        rank = min(self.rank, position.size - 1)
        if scale.ndim == 1 or not rank:
            return start._replace(log_scale=jnp.log(own))
        vectors, stretch, _ = jnp.linalg.svd(scale / own[:, None])
        rest = jnp.mean(stretch[rank:] ** -2) ** -0.5  # the single number with the highest ELBO
        width = jnp.sqrt(jnp.maximum((stretch / rest) ** 2 - 1, _FACTOR_SCALE**2))
        factor = start.factor.at[:, :rank].set((vectors * width[None])[:, :rank])
        return LocFactor(position, jnp.log(own * rest), factor)

    def sample(self, parameters: LocFactor, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        loc, log_scale, factor = parameters
        noise = noise_of(key, loc.size + self.rank, loc.dtype)
        along = factor @ noise[loc.size :]
        return loc + jnp.exp(log_scale) * (noise[: loc.size] + along)

    def log_prob(self, parameters: LocFactor, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        loc, log_scale, factor = parameters
        scaled = (position - loc) * jnp.exp(-log_scale)
        cholesky = self._cholesky(factor)
        along = factor.T @ scaled
        outside = 0.5 * along @ cho_solve((cholesky, True), along)
        return log_normal(scaled) + outside - jnp.sum(log_scale) - _half_log_det(cholesky)

    def entropy(self, parameters: LocFactor) -> jax.Array:
        """The entropy, a scalar."""
        half_log_det = _half_log_det(self._cholesky(parameters.factor))
        return normal_entropy(parameters.log_scale) + half_log_det

    def covariance(self, parameters: LocFactor) -> jax.Array:
        """The covariance matrix, ``(size, size)``."""
        _, log_scale, factor = parameters
        scale = jnp.exp(log_scale)
        return jnp.outer(scale, scale) * (_identity(parameters) + factor @ factor.T)

    def _cholesky(self, factor: jax.Array) -> jax.Array:
        """The Cholesky factor of :math:`I + W^T W`.

        By Sylvester's identity, :math:`I + W W^T` and :math:`I + W^T W` have equal determinants.
        """
        return jnp.linalg.cholesky(jnp.eye(self.rank, dtype=factor.dtype) + factor.T @ factor)


class Loc(NamedTuple):
    """Parameters of :class:`PointMass`: the point, ``(size,)``."""

    loc: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PointMass:
    """A point mass; the ELBO moves it to a mode of the density on unconstrained space.

    The density on unconstrained space includes the Jacobian determinant of the map from there. So
    the point differs from the mode of the constrained values. A point does not show the spread of
    the posterior.
    """

    has_density = False

    def init(self, position: jax.Array, layout: Layout) -> Loc:
        """The point `position`."""
        return Loc(position)

    def sample(self, parameters: Loc, key: jax.Array) -> jax.Array:
        """The point, ``(size,)``."""
        return parameters.loc

    def log_prob(self, parameters: Loc, position: jax.Array) -> jax.Array:
        """The log probability of the point, 0."""
        return jnp.zeros((), position.dtype)

    def entropy(self, parameters: Loc) -> jax.Array:
        """The entropy, 0."""
        return jnp.zeros((), parameters.loc.dtype)


def log_scales(init_scale: Any, position: jax.Array) -> jax.Array:
    """The logarithm of `init_scale` for each coordinate of `position`."""
    return jnp.full(position.shape, jnp.log(jnp.asarray(init_scale, position.dtype)))


def own_scales(scale: jax.Array) -> jax.Array:
    """The standard deviation of each coordinate given all others, ``(size,)``.

    `scale` is the Cholesky factor of the covariance, or standard deviations.
    """
    if scale.ndim == 1:
        return scale
    inverse = solve_triangular(scale, jnp.eye(len(scale), dtype=scale.dtype), lower=True)
    return jnp.linalg.norm(inverse, axis=0) ** -1


def rows_of_scale(scale: jax.Array, index: Any) -> jax.Array:
    """The Cholesky factor of the covariance of some coordinates, or their standard deviations.

    `scale` is the Cholesky factor of the covariance of all coordinates, or their standard
    deviations.
    """
    rows = scale[index]
    if rows.ndim == 1:
        return rows
    triangle = jnp.linalg.qr(rows.T, mode="r").T
    return triangle * jnp.sign(jnp.diag(triangle))[None]


def log_normal(noise: jax.Array) -> jax.Array:
    """The log density of standard normal numbers, a scalar."""
    return -0.5 * jnp.sum(noise**2) - noise.size * (0.5 * _LOG_2PI)


def normal_entropy(log_scale: jax.Array) -> jax.Array:
    """The entropy of a normal distribution, from the log diagonal of its Cholesky factor."""
    return jnp.sum(log_scale) + log_scale.size * (0.5 * (1 + _LOG_2PI))


def _identity(parameters: LocFactor) -> jax.Array:
    return jnp.eye(parameters.loc.size, dtype=parameters.loc.dtype)


def _half_log_det(cholesky: jax.Array) -> jax.Array:
    return jnp.sum(jnp.log(jnp.diag(cholesky)))
