"""Masked multilayer perceptrons (MADE): the networks of the layers of a flow.

A network outputs a shift and further numbers for each coordinate. The shift has a part that is
linear in the input. At the start all outputs are 0.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.threefry import normal

_MAX_INPUT = 5.0  # bound on the absolute inputs of hidden units


class Masks(NamedTuple):
    """Masks of the weights of a network, true at the weights that exist.

    Attributes:
        weights: The mask of each layer of the network, ``(units, inputs)``. The rows of the last
            are ordered by number, then by coordinate.
        direct: The mask of the linear part of the shift, ``(coordinates, inputs)``.
    """

    weights: tuple[np.ndarray, ...]
    direct: np.ndarray


class Network(NamedTuple):
    r"""The parameters of a network, of the shapes of its :class:`Masks`.

    A unit with `n` inputs divides its weights by `n`; the linear part divides its weights by
    :math:`\sqrt{n}`. The stored weights are larger by these factors. So one step size of an
    optimizer suits networks of any width and the other parameters of the flow. Inputs of hidden
    units are squashed into (-5, 5), so that rare large inputs do not lead the network astray.

    References:
        Yang, Hu et al. (2021), Tensor programs V: tuning large neural networks via zero-shot
        hyperparameter transfer, table 3.
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    direct: jax.Array

    def mask_weights(self, masks: Masks) -> "Network":
        """A copy with masked weights set to 0 and the others divided as the class says."""
        pairs = zip(self.weights, masks.weights, strict=True)
        weights = tuple(_mask_weight(weight, mask, 1.0) for weight, mask in pairs)
        return Network(weights, self.biases, _mask_weight(self.direct, masks.direct, 0.5))

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The shifts, ``(coordinates,)``, and the other numbers, ``(numbers, coordinates)``."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        units = x / jnp.sqrt(1 + (x / _MAX_INPUT) ** 2)
        for weight, bias in hidden:
            units = jax.nn.silu(weight @ units + bias)
        numbers = (last[0] @ units + last[1]).reshape(-1, self.direct.shape[0])
        return numbers[0] + self.direct @ x, numbers[1:]


def init_network(seed: int, masks: Masks, dtype: Any) -> Network:
    """A network with outputs 0 and random weights of hidden units, determined by `seed`."""
    *hidden, last = masks.weights
    weights = [_noise(seed, i, mask, dtype) for i, mask in enumerate(hidden)]
    return Network(
        weights=(*weights, jnp.zeros(last.shape, dtype)),
        biases=tuple(jnp.zeros(mask.shape[0], dtype) for mask in masks.weights),
        direct=jnp.zeros(masks.direct.shape, dtype),
    )


def autoregressive_masks(size: int, hidden_sizes: tuple[int, ...], num_numbers: int) -> Masks:
    """MADE's masks: the numbers of a coordinate depend only on the coordinates before it.

    Each hidden unit has a degree `d` and sees the first `d` coordinates. Degrees are spread evenly
    over 1 to ``size - 1``.

    References:
        Germain, Gregor, Murray and Larochelle (2015), MADE: masked autoencoder for distribution
        estimation, sections 3 and 4.
    """
    degrees = [np.arange(1, size + 1)]
    degrees += [1 + np.arange(units) * (size - 1) // units for units in hidden_sizes]
    inner = [above[:, None] >= below for below, above in itertools.pairwise(degrees)]
    outer = [degrees[0][:, None] > below for below in (degrees[-1], degrees[0])]
    return Masks((*inner, np.tile(outer[0], (num_numbers, 1))), outer[1])


def dense_masks(
    num_inputs: int, hidden_sizes: tuple[int, ...], size: int, num_numbers: int
) -> Masks:
    """Masks without zeros: the numbers of all `size` coordinates depend on all inputs."""
    sizes = (num_inputs, *hidden_sizes, size * num_numbers)
    shapes = zip(sizes[1:], sizes, strict=False)
    return Masks(tuple(np.ones(shape, bool) for shape in shapes), np.ones((size, num_inputs), bool))


def _noise(seed: int, layer: int, mask: np.ndarray, dtype: Any) -> jax.Array:
    noise = normal(jnp.array([seed, layer], jnp.uint32), mask.size, dtype)
    return noise.reshape(mask.shape) * jnp.asarray(_num_inputs(mask) ** 0.5, dtype)


def _mask_weight(weight: jax.Array, mask: np.ndarray, power: float) -> jax.Array:
    return weight * jnp.asarray(mask / _num_inputs(mask) ** power, weight.dtype)


def _num_inputs(mask: np.ndarray) -> np.ndarray:
    return np.maximum(mask.sum(1, keepdims=True), 1)
