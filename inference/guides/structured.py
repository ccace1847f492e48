"""Structured: a guide for hierarchical models, with global sites and local sites given them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from inference.common.layout import Layout
from inference.common.threefry import noise_of
from inference.guides.normal import log_normal, normal_entropy, own_scales, rows_of_scale
from inference.guides.normal import log_scales as initial_log_scales
from inference.guides.site_groups import full_names, gather, group_sites, select_sites
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class StructuredParameters:
    """Parameters of :class:`Structured`; `global` and `local` count coordinates.

    Attributes:
        loc: The mean, ``(size,)``.
        log_scale: The logarithms of the diagonals `D`, ``(size,)``. Local coordinates have these
            scales if the global coordinates are at their mean.
        factor: The entries of :math:`L` below its diagonal of ones, ``(global, global)``.
        slopes: :math:`W`, ``(local, global)``.
        log_scale_slopes: :math:`C`, ``(local, global)``; without varying scales ``(0, global)``.
        layout: Split of a flat position into sites.
    """

    loc: jax.Array
    log_scale: jax.Array
    factor: jax.Array
    slopes: jax.Array
    log_scale_slopes: jax.Array
    layout: Layout

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)[:-1]
        shown = ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields)
        return f"StructuredParameters({shown})"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Structured:
    r"""A guide with global sites of any covariance, and local sites independent given these.

    .. math::
        g = \mu_g + D_g L \epsilon_g, \qquad
        l = \mu_l + D_l (W \epsilon_g + e^{C \epsilon_g} \odot \epsilon_l)

    with diagonals `D` and a lower triangle :math:`L` that has ones on its diagonal. The factors of
    covariance and precision are arrowheads, so a step takes time in proportion to the number of
    local coordinates. The scales :math:`e^{C \epsilon_g}` follow the global coordinates, as the
    spread of effects in a hierarchical model follows their standard deviation. Without these scales
    the distribution is normal.

    Args:
        global_sites: The sites that many others depend on, such as means and standard deviations of
            effects. They are named as in the draws, scopes joined by dots; all other sites are
            local.
        init_scale: Standard deviations to begin with.
        has_varying_scales: Whether scales vary; otherwise :math:`C` is 0.

    Raises:
        TypeError: if `global_sites` is neither a name nor a tuple of names.

    Example:
        >>> guide = Structured(("mu", "tau"))
        >>> position = {"mu": jnp.zeros(()), "tau": jnp.ones(()), "theta": jnp.ones(8)}
        >>> layout = Layout.of(position)
        >>> parameters = guide.init(layout.ravel(position), layout)
        >>> parameters.slopes.shape
        (8, 2)

    References:
        Tan and Nott (2018), Gaussian variational approximation with sparse precision matrices,
        Statistics and Computing 28, section 3; Tan, Bhaskaran and Nott (2020), Conditionally
        structured variational Gaussian approximation with importance weights, Statistics and
        Computing 30, section 3, on scales that follow the global coordinates.
    """

    global_sites: str | tuple[str, ...] = dataclasses.field(metadata={"static": True})
    init_scale: float = 0.1
    has_varying_scales: bool = dataclasses.field(default=True, metadata={"static": True})
    has_density = True

    def __post_init__(self) -> None:
        names = (self.global_sites,) if isinstance(self.global_sites, str) else self.global_sites
        if not isinstance(names, tuple) or not all(isinstance(x, str) for x in names):
            raise TypeError(
                "global_sites of Structured must be a site or a tuple of sites, such as 'mu' or "
                f"('mu', 'tau'), got {self.global_sites!r}"
            )

    def init(self, position: jax.Array, layout: Layout) -> StructuredParameters:
        """Parameters whose mean is `position`, without correlations.

        Raises:
            ValueError: if a name belongs to no site, or a site is named twice.
        """
        num_global = self._indices(layout)[0].size
        num_local = position.size - num_global
        return StructuredParameters(
            loc=position,
            log_scale=initial_log_scales(self.init_scale, position),
            factor=jnp.zeros((num_global, num_global), position.dtype),
            slopes=jnp.zeros((num_local, num_global), position.dtype),
            log_scale_slopes=jnp.zeros(
                (num_local * self.has_varying_scales, num_global), position.dtype
            ),
            layout=layout,
        )

    def init_normal(
        self, position: jax.Array, layout: Layout, scale: jax.Array
    ) -> StructuredParameters:
        """Parameters with the highest ELBO if the target is this normal distribution."""
        start, (first, others) = self.init(position, layout), self._indices(layout)
        if scale.ndim == 1:
            return dataclasses.replace(start, log_scale=jnp.log(scale))
        index = np.concatenate([first, others])
        size = first.size
        rows = rows_of_scale(scale, index)
        own = jnp.concatenate([jnp.diag(rows)[:size], own_scales(rows[size:, size:])])
        linear = jnp.tril(rows, -1)[:, :size] / own[:, None]
        return dataclasses.replace(
            start,
            log_scale=gather(jnp.log(own), np.argsort(index)),
            factor=linear[:size],
            slopes=linear[size:],
        )

    def sample(self, parameters: StructuredParameters, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        loc = parameters.loc
        return self.forward(parameters, noise_of(key, loc.size, loc.dtype))[0]

    def log_prob(self, parameters: StructuredParameters, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        noise, log_det = self.inverse(parameters, position)
        return log_normal(noise) - log_det

    def forward(
        self, parameters: StructuredParameters, noise: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The position for `noise`, and the log determinant of the Jacobian there."""
        lower = jnp.tril(parameters.factor, -1)
        shared, own = jnp.split(noise, [len(lower)])
        log_scales = self._log_scales(parameters, shared)
        own = own * jnp.exp(log_scales)
        scaled = jnp.concatenate([shared + lower @ shared, parameters.slopes @ shared + own])
        order = np.argsort(np.concatenate(self._indices(parameters.layout)))
        position = parameters.loc + jnp.exp(parameters.log_scale) * gather(scaled, order)
        return position, jnp.sum(parameters.log_scale) + jnp.sum(log_scales)

    def inverse(
        self, parameters: StructuredParameters, position: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The noise for `position`, and the log determinant of the Jacobian of :meth:`forward`."""
        first, others = self._indices(parameters.layout)
        scaled = (position - parameters.loc) * jnp.exp(-parameters.log_scale)
        shared = solve_triangular(
            parameters.factor, gather(scaled, first), lower=True, unit_diagonal=True
        )
        log_scales = self._log_scales(parameters, shared)
        own = (gather(scaled, others) - parameters.slopes @ shared) * jnp.exp(-log_scales)
        log_det = jnp.sum(parameters.log_scale) + jnp.sum(log_scales)
        return jnp.concatenate([shared, own]), log_det

    def entropy(self, parameters: StructuredParameters) -> jax.Array:
        """The entropy, a scalar; varying scales do not change it, as their logs have mean 0."""
        return normal_entropy(parameters.log_scale)

    def covariance(self, parameters: StructuredParameters) -> jax.Array:
        """The covariance matrix, ``(size, size)``."""
        num_global = len(parameters.factor)
        lower = jnp.tril(parameters.factor, -1) + jnp.eye(num_global, dtype=parameters.loc.dtype)
        rows = jnp.concatenate([lower, parameters.slopes])
        own = jnp.exp(2 * jnp.sum(parameters.log_scale_slopes**2, axis=1))
        own = own if self.has_varying_scales else jnp.ones(len(rows) - num_global, rows.dtype)
        scaled = rows @ rows.T + jnp.diag(jnp.pad(own, (num_global, 0)))
        order = np.argsort(np.concatenate(self._indices(parameters.layout)))
        scale = jnp.exp(parameters.log_scale)
        return jnp.outer(scale, scale) * scaled[order][:, order]

    def _log_scales(self, parameters: StructuredParameters, shared: jax.Array) -> jax.Array:
        """Log scales of local coordinates, less their values at the mean of global coordinates."""
        if self.has_varying_scales:
            return parameters.log_scale_slopes @ shared
        return jnp.zeros(len(parameters.slopes), shared.dtype)

    def _indices(self, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the global and of the local coordinates."""
        names = (self.global_sites,) if isinstance(self.global_sites, str) else self.global_sites
        chosen = select_sites("Structured", layout, names)
        others = [name for name in full_names(layout) if name not in chosen]
        return group_sites(layout, chosen).index, group_sites(layout, others).index
