r"""The random numbers of one transition.

A transition needs a momentum, and a uniform number for each leaf of a trajectory whose length is
not known beforehand. This is JAX's own generator, Threefry, as a pure function of a seed and a
counter: in plain arithmetic that fuses with what surrounds it, it compiles in a third of the time
of a call of `jax.random` and costs next to nothing in a loop.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.runtime.xla import materialize, materialize_by_loop

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_NORMALS = np.uint32(1 << 31)
_COUNTERS_AT_ONCE = 8  # as many as a vector of the CPU holds; draws depend on it


def seed_of(key: jax.Array) -> jax.Array:
    """The two uint32 words of a typed or legacy key; of a longer key, all of its words hashed.

    Those of JAX's own longer keys are two words twice, so that nothing simpler will do.
    """
    words = random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    first, *others = words.reshape(-1, 2)
    for word in jnp.concatenate([jnp.zeros(0, jnp.uint32), *others]):
        first = jnp.stack(threefry(first, word))
    return first


def threefry(seed: jax.Array, counter: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds: two words of uint32 for each `counter`.

    References:
        Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    keys = (seed[0], seed[1], seed[0] ^ seed[1] ^ jnp.uint32(_PARITY))
    counter = jnp.asarray(counter).astype(jnp.uint32)
    x, y = jnp.broadcast_to(keys[0], counter.shape), counter + keys[1]
    for block in range(1, 6):
        for rotation in _ROTATIONS[(block - 1) % 2]:
            x = x + y
            y = ((y << rotation) | (y >> (32 - rotation))) ^ x
        x, y = x + keys[block % 3], y + keys[(block + 1) % 3] + jnp.uint32(block)
    return x, y


def uniform(seed: jax.Array, counter: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """A number in (0, 1), as fine as float32, for each `counter`."""
    return unit_of(threefry(seed, counter)[0]).astype(dtype)


def random_words(seed: jax.Array, first: jax.typing.ArrayLike, size: int) -> jax.Array:
    """A vector of random words of uint32, two for each counter from `first` on."""
    return materialize(jnp.concatenate(_pairs(seed, first, -(-size // 2))))[:size]


def _pairs(seed: jax.Array, first: jax.typing.ArrayLike, size: int) -> tuple[jax.Array, jax.Array]:
    """Both words of `size` counters, and of some more, up to a multiple of eight."""
    size += -size % _COUNTERS_AT_ONCE
    return threefry(seed, jnp.asarray(first, jnp.uint32) + jnp.arange(size, dtype=jnp.uint32))


def normal(seed: jax.Array, size: int, dtype: jax.typing.DTypeLike) -> jax.Array:
    r"""A vector of standard normal numbers, :math:`\sqrt{2}\,\mathrm{erf}^{-1}(2u - 1)`.

    Its counters begin at ``2**31``, and leave those below it to :func:`uniform`.
    """
    if jnp.dtype(dtype).itemsize == 8:
        high, low = _pairs(seed, _NORMALS, size)
        word = (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
        unit = unit_of(materialize(word)[:size])
    else:
        unit = unit_of(random_words(seed, _NORMALS, size))
    return (math.sqrt(2.0) * lax.erf_inv(2 * unit - 1)).astype(dtype)


def noise_of(key: jax.Array, size: int, dtype: jax.typing.DTypeLike) -> jax.Array:
    """The normal numbers of a draw that a density follows at once, in the same program."""
    return materialize_by_loop(normal(seed_of(key), size, dtype))


def unit_of(word: jax.Array) -> jax.Array:
    """The midpoint of the cell of the unit interval that `word` falls in; all are representable.

    It is in the floating dtype of as many bits, and does not depend on the lowest ones of `word`.
    """
    dtype = jnp.dtype(f"float{jnp.iinfo(word.dtype).bits}")
    mantissa = jnp.finfo(dtype).nmant
    cell = word >> (jnp.iinfo(word.dtype).bits - mantissa)
    return (cell.astype(dtype) + 0.5) * 2.0**-mantissa
