"""Small neural networks with masks: what a layer of a flow takes its numbers from.

For each of its coordinates a network gives a shift, that is partly linear in its input, and further
numbers. It begins with all of them 0.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.threefry import normal

_MAX_INPUT = 5.0


class Masks(NamedTuple):
    """Which weights a network has.

    Attributes:
        weights: Of each layer of the network, ``(units, inputs)``; the last has all coordinates for
            the first number, then all for the second, and so on.
        direct: Of what is linear, ``(coordinates, inputs)``.
    """

    weights: tuple[np.ndarray, ...]
    direct: np.ndarray


class Network(NamedTuple):
    r"""The parameters of a network, of the shapes of its :class:`Masks`.

    What a unit with `n` inputs takes from them is divided by `n` (by :math:`\sqrt{n}` where it is
    linear), and weights are larger for it, so that the same step of an optimiser suits networks of
    any width, and other parameters. Hidden units see inputs within (-5, 5): rare ones that are
    large do not lead them astray.

    References:
        Yang, Hu et al. (2021), Tensor programs V: tuning large neural networks via zero-shot
        hyperparameter transfer, table 3.
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    direct: jax.Array

    def mask_weights(self, masks: Masks) -> "Network":
        """The same with zeros where there is no weight, and the weights divided."""
        pairs = zip(self.weights, masks.weights, strict=True)
        weights = tuple(_mask_weight(weight, mask, 1.0) for weight, mask in pairs)
        return Network(weights, self.biases, _mask_weight(self.direct, masks.direct, 0.5))

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of each coordinate the shift, ``(coordinates,)``, and the rest, ``(numbers, ...)``."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        units = x / jnp.sqrt(1 + (x / _MAX_INPUT) ** 2)
        for weight, bias in hidden:
            units = jax.nn.silu(weight @ units + bias)
        numbers = (last[0] @ units + last[1]).reshape(-1, self.direct.shape[0])
        return numbers[0] + self.direct @ x, numbers[1:]


def init_network(seed: int, masks: Masks, dtype: Any) -> Network:
    """A network whose numbers are 0, and whose hidden units differ by `seed`."""
    *hidden, last = masks.weights
    weights = [_noise(seed, i, mask, dtype) for i, mask in enumerate(hidden)]
    return Network(
        weights=(*weights, jnp.zeros(last.shape, dtype)),
        biases=tuple(jnp.zeros(mask.shape[0], dtype) for mask in masks.weights),
        direct=jnp.zeros(masks.direct.shape, dtype),
    )


def autoregressive_masks(size: int, hidden_sizes: tuple[int, ...], num_numbers: int) -> Masks:
    """Masks with which the numbers of a coordinate depend on the coordinates before it alone.

    Hidden units have degrees, spread evenly over 1 to ``size - 1``: one of degree `d` sees the
    first `d` coordinates.

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
    """Masks with which the numbers of all of `size` coordinates depend on all inputs."""
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
