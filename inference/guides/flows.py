r"""Normalizing flows: guides that transform a normal distribution by invertible layers.

A position is :math:`z = \mu + \sigma \odot T(\epsilon)`, where :math:`\epsilon` is standard normal
and :math:`T` a composition of layers. Each layer begins as the identity, so a flow begins as
independent normal coordinates, :class:`inference.MeanField`. The shift of a layer is the sum of a
linear part, for correlations, and the output of a network.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.layout import Layout
from inference.common.threefry import noise_of
from inference.guides.masked_mlp import (
    Masks,
    Network,
    autoregressive_masks,
    dense_masks,
    init_network,
)
from inference.guides.normal import log_normal, log_scales, own_scales
from inference.guides.rational_quadratic_spline import Spline
from ppl.harvest.pytrees import register_dataclass

_MAX_LOG_SCALE = 5.0  # bound on the absolute log scale of a layer


_Layer = Callable[[Network, jax.Array], tuple[jax.Array, jax.Array]]


class FlowParameters(NamedTuple):
    r"""Parameters of a flow.

    Attributes:
        loc: The shift :math:`\mu` after the last layer, ``(size,)``.
        log_scale: The logarithm of the scale :math:`\sigma` after the last layer, ``(size,)``.
        layers: The networks of all layers, stacked: each array is ``(layer, ...)``.
    """

    loc: jax.Array
    log_scale: jax.Array
    layers: Network


@dataclasses.dataclass(frozen=True)
class Flow(abc.ABC):
    """Base class of the flows; :class:`NeuralSpline` explains the arguments."""

    num_layers: int = dataclasses.field(default=2, metadata={"static": True})
    hidden_sizes: tuple[int, ...] = dataclasses.field(default=(64, 64), metadata={"static": True})
    init_scale: float = 0.1
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> FlowParameters:
        """Parameters of independent normal coordinates with mean `position`."""
        masks = self._masks(position.size)
        dtype = position.dtype
        layers = [init_network(i, masks, dtype) for i in range(self.num_layers)]
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *layers)
        return FlowParameters(position, log_scales(self.init_scale, position), stacked)

    def init_normal(self, position: jax.Array, layout: Layout, scale: jax.Array) -> FlowParameters:
        """Parameters of independent normal coordinates, the closest to the normal distribution."""
        return self.init(position, layout)._replace(log_scale=jnp.log(own_scales(scale)))

    def sample(self, parameters: FlowParameters, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        return self.sample_and_log_prob(parameters, key)[0]

    def sample_and_log_prob(
        self, parameters: FlowParameters, key: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """A position and its log density, without inverting a layer."""
        loc = parameters.loc
        noise = noise_of(key, loc.size, loc.dtype)
        position, log_det = self.forward(parameters, noise)
        return position, log_normal(noise) - log_det

    def log_prob(self, parameters: FlowParameters, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        noise, log_det = self.inverse(parameters, position)
        return log_normal(noise) - log_det

    def entropy(self, parameters: FlowParameters) -> None:
        """`None`: no closed form is known."""
        return None

    def forward(self, parameters: FlowParameters, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The position for `noise`, and the log determinant of the Jacobian there."""
        loc, log_scale, layers = parameters
        x, log_det = self._through(self._forward, layers, noise, reverse=False)
        return loc + jnp.exp(log_scale) * x, log_det + jnp.sum(log_scale)

    def inverse(
        self, parameters: FlowParameters, position: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The noise for `position`, and the log determinant of the Jacobian of :meth:`forward`."""
        loc, log_scale, layers = parameters
        y = (position - loc) * jnp.exp(-log_scale)
        x, log_det = self._through(self._inverse, layers, y, reverse=True)
        return x, log_det + jnp.sum(log_scale)

    def _through(
        self, layer: _Layer, networks: Network, x: jax.Array, *, reverse: bool
    ) -> tuple[jax.Array, jax.Array]:
        """The output of all layers in turn for `x`, and the sum of their log determinants."""
        masks = self._masks(x.size)
        orders = _orders(self.num_layers, x.size)

        def step(x: jax.Array, at: Any) -> tuple[jax.Array, jax.Array]:
            network, order, back = at
            y, log_det = layer(network.mask_weights(masks), x[order])
            return y[back], log_det

        layers = networks, orders, np.argsort(orders, axis=1)
        # Unrolled, a gradient takes half the time: its weights are not copied from layer to layer.
        x, log_dets = lax.scan(step, x, layers, reverse=reverse, unroll=True)
        return x, jnp.sum(log_dets)

    @abc.abstractmethod
    def _masks(self, size: int) -> Masks:
        """The masks of the networks' weights."""

    @abc.abstractmethod
    def _forward(self, network: Network, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The output of a layer, and the log determinant of its Jacobian."""

    @abc.abstractmethod
    def _inverse(self, network: Network, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The input of a layer for the output `y`, and the log determinant of its Jacobian."""


@register_dataclass
@dataclasses.dataclass(frozen=True)
class InverseAutoregressive(Flow):
    r"""Inverse autoregressive flow (IAF): layers with fast draws and a slow density.

    .. math:: y_i = m_i(x_{<i}) + e^{s_i(x_{<i})} x_i

    The density at a draw of the flow is computed with the draw. At any other position the density
    is found coordinate by coordinate, as under ``ELBO(stick_the_landing=True)``.

    Args:
        num_layers: Number of layers. Every second layer reverses the order of the coordinates of
            the layer before.
        hidden_sizes: Units in each hidden layer of the network for :math:`m` and :math:`s`. With
            at least as many units as coordinates, each coordinate can depend on all before it.
        init_scale: Standard deviations to begin with.

    Example:
        >>> guide, position = InverseAutoregressive(), jnp.zeros(3)
        >>> parameters = guide.init(position, Layout.of(position))
        >>> draw, log_prob = guide.sample_and_log_prob(parameters, jax.random.key(0))
        >>> bool(jnp.allclose(guide.log_prob(parameters, draw), log_prob))
        True

    References:
        Kingma, Salimans, Jozefowicz, Chen, Sutskever and Welling (2016), Improved variational
        inference with inverse autoregressive flow, section 3.
    """

    def _masks(self, size: int) -> Masks:
        return autoregressive_masks(size, self.hidden_sizes, 2)

    def _forward(self, network: Network, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        shift, log_scale = _affine(network, x)
        return shift + jnp.exp(log_scale) * x, jnp.sum(log_scale)

    def _inverse(self, network: Network, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        def solution(x: jax.Array) -> jax.Array:
            shift, log_scale = _affine(network, x)
            return (y - shift) * jnp.exp(-log_scale)

        x = _solve_one_by_one(solution, y)
        return x, jnp.sum(_affine(network, x)[1])


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MaskedAutoregressive(Flow):
    r"""Masked autoregressive flow (MAF): layers with a fast density, but slow draws.

    .. math:: y_i = m_i(y_{<i}) + e^{s_i(y_{<i})} x_i

    Draws are made coordinate by coordinate. A fit needs draws, so in many dimensions
    :class:`InverseAutoregressive` and :class:`NeuralSpline` are faster. One layer can represent a
    chain of conditional normal distributions, such as a funnel.

    Args:
        num_layers: Number of layers. Every second layer reverses the order of the coordinates of
            the layer before.
        hidden_sizes: Units in each hidden layer of the network for :math:`m` and :math:`s`. With
            at least as many units as coordinates, each coordinate can depend on all before it.
        init_scale: Standard deviations to begin with.

    References:
        Papamakarios, Pavlakou and Murray (2017), Masked autoregressive flow for density
        estimation, section 3.1.
    """

    def _masks(self, size: int) -> Masks:
        return autoregressive_masks(size, self.hidden_sizes, 2)

    def _forward(self, network: Network, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def solution(y: jax.Array) -> jax.Array:
            shift, log_scale = _affine(network, y)
            return shift + jnp.exp(log_scale) * x

        y = _solve_one_by_one(solution, x)
        return y, jnp.sum(_affine(network, y)[1])

    def _inverse(self, network: Network, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        shift, log_scale = _affine(network, y)
        return (y - shift) * jnp.exp(-log_scale), jnp.sum(log_scale)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NeuralSpline(Flow):
    r"""Neural spline flow: coupling layers with rational quadratic splines.

    A layer leaves half of the coordinates unchanged. It transforms each coordinate of the other
    half by a spline on (-5, 5), a scale and a shift, which are functions of the unchanged half.
    Draws and densities are both fast, and the distribution can have several modes.

    Args:
        num_layers: Number of layers. Two successive layers move all coordinates.
        hidden_sizes: Units in each hidden layer of a layer's network.
        init_scale: Standard deviations to begin with.
        num_bins: Bins of a spline, one fewer than its knots.

    References:
        Durkan, Bekasov, Murray and Papamakarios (2019), Neural spline flows, section 3.
    """

    num_layers: int = dataclasses.field(default=4, metadata={"static": True})
    num_bins: int = dataclasses.field(default=8, metadata={"static": True})

    def _masks(self, size: int) -> Masks:
        num_fixed = size // 2
        return dense_masks(num_fixed, self.hidden_sizes, size - num_fixed, 3 * self.num_bins + 1)

    def _forward(self, network: Network, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        fixed, moved = jnp.split(x, [x.size // 2])
        shift, log_scale, spline = self._coupling(network, fixed)
        bent, log_derivatives = spline.forward(moved)
        moved = shift + jnp.exp(log_scale) * bent
        return jnp.concatenate([fixed, moved]), jnp.sum(log_derivatives + log_scale)

    def _inverse(self, network: Network, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        fixed, moved = jnp.split(y, [y.size // 2])
        shift, log_scale, spline = self._coupling(network, fixed)
        straight, log_derivatives = spline.inverse((moved - shift) * jnp.exp(-log_scale))
        return jnp.concatenate([fixed, straight]), jnp.sum(log_derivatives + log_scale)

    def _coupling(self, network: Network, fixed: jax.Array) -> tuple[jax.Array, jax.Array, Spline]:
        """Shift, log scale and spline of the moved coordinates."""
        shift, numbers = network(fixed)
        return shift, _bound_log_scale(numbers[0]), Spline.of(numbers[1:])


def _affine(network: Network, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Shift and log scale of each coordinate."""
    shift, numbers = network(x)
    return shift, _bound_log_scale(numbers[0])


def _bound_log_scale(log_scale: jax.Array) -> jax.Array:
    return _MAX_LOG_SCALE * jnp.tanh(log_scale / _MAX_LOG_SCALE)


def _solve_one_by_one(solution: Callable[[jax.Array], jax.Array], like: jax.Array) -> jax.Array:
    """The fixed point of `solution`, if each coordinate depends only on the coordinates before."""

    def step(x: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        return x.at[i].set(solution(x)[i]), None

    return lax.scan(step, jnp.zeros_like(like), jnp.arange(like.size))[0]


def _orders(num_layers: int, size: int) -> np.ndarray:
    """Orders of the coordinates by layer, ``(layer, size)``: pairs of an order and its reverse.

    The first order is the identity, the others are random permutations.
    """
    rng = np.random.default_rng(0)
    orders = [np.arange(size)]
    while 2 * len(orders) < num_layers:
        orders.append(rng.permutation(size))
    return np.stack([order[::step] for order in orders for step in (1, -1)][:num_layers])
