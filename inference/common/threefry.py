r"""Threefry: JAX's counter-based random number generator, in plain arithmetic.

A transition needs a momentum, and one uniform number per leaf of a trajectory of unknown length.
Both are pure functions of a seed and a counter. Plain arithmetic fuses with the operations around
it: it compiles in a third of the time of a call of `jax.random`, and costs next to nothing in a
loop.

| Counters          | Random numbers                     |
|-------------------|------------------------------------|
| below ``2**31``   | uniform numbers and words          |
| from ``2**31`` on | normal numbers                     |
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.runtime.xla import materialize, materialize_by_loop

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits, of alternating blocks of four rounds
_PARITY = 0x1BD11BDA  # the constant of Threefry's key schedule
_NORMALS = np.uint32(1 << 31)  # first counter of normal numbers
_COUNTERS_AT_ONCE = 8  # counters in a vector register of the CPU; draws depend on it


def seed_of(key: jax.Array) -> jax.Array:
    """Seed of a typed or legacy key: two words of uint32.

    They are the words of a Threefry key, or a hash of all words of a longer key. A hash is needed,
    as JAX's own longer keys hold two words twice.
    """
    words = random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    first, *others = words.reshape(-1, 2)
    for word in jnp.concatenate([jnp.zeros(0, jnp.uint32), *others]):
        first = jnp.stack(threefry(first, word))
    return first


def neighbors(key: jax.Array, num: int) -> jax.Array:
    """Keys for independent draws, ``(num,)``: numbered, and not hashed one by one.

    Threefry is made for keys that are plain numbers. Each key must serve a draw of ``jax.random``,
    or ``random.split``; its words are no random numbers. Keys of other generators are split.

    References:
        Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = random.key_data(key) if is_typed else key
    if words.shape != (2,):
        return random.split(key, num)
    last = words[1] + jnp.arange(num, dtype=jnp.uint32)
    words = jnp.stack([jnp.broadcast_to(words[0], (num,)), last], axis=-1)
    return random.wrap_key_data(words, impl=random.key_impl(key)) if is_typed else words


def threefry(seed: jax.Array, counter: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds: two random words of uint32 for each `counter`.

    References:
        Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    keys = (seed[0], seed[1], seed[0] ^ seed[1] ^ jnp.uint32(_PARITY))
    counter = jnp.asarray(counter).astype(jnp.uint32)
    x = jnp.broadcast_to(keys[0], counter.shape)
    y = counter + keys[1]
    for block in range(1, 6):
        for rotation in _ROTATIONS[(block - 1) % 2]:
            x = x + y
            y = ((y << rotation) | (y >> (32 - rotation))) ^ x
        x = x + keys[block % 3]
        y = y + keys[(block + 1) % 3] + jnp.uint32(block)
    return x, y


def uniform(seed: jax.Array, counter: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Uniform number in (0, 1) for each `counter`, with the resolution of float32."""
    return unit_of(threefry(seed, counter)[0]).astype(dtype)


def random_words(seed: jax.Array, first: jax.typing.ArrayLike, size: int) -> jax.Array:
    """Vector of `size` random words of uint32, two for each counter from `first` on."""
    return materialize(jnp.concatenate(_pairs(seed, first, -(-size // 2))))[:size]


def _pairs(seed: jax.Array, first: jax.typing.ArrayLike, size: int) -> tuple[jax.Array, jax.Array]:
    """Both words of `size` counters from `first` on, rounded up to a multiple of eight counters."""
    size += -size % _COUNTERS_AT_ONCE
    return threefry(seed, jnp.asarray(first, jnp.uint32) + jnp.arange(size, dtype=jnp.uint32))


def normal(seed: jax.Array, size: int, dtype: jax.typing.DTypeLike) -> jax.Array:
    r"""Vector of standard normal numbers, :math:`\sqrt{2}\,\mathrm{erf}^{-1}(2u - 1)`, ``(size,)``.

    The counters begin at ``2**31``; smaller ones are left to :func:`uniform`.
    """
    if jnp.dtype(dtype).itemsize == 8:
        high, low = _pairs(seed, _NORMALS, size)
        word = (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
        unit = unit_of(materialize(word)[:size])
    else:
        unit = unit_of(random_words(seed, _NORMALS, size))
    return (math.sqrt(2.0) * lax.erf_inv(2 * unit - 1)).astype(dtype)


def noise_of(key: jax.Array, size: int, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Normal numbers of a draw whose density is evaluated in the same program, ``(size,)``.

    On the CPU these numbers are evaluated only once, see
    :func:`inference.runtime.xla.materialize_by_loop`.
    """
    return materialize_by_loop(normal(seed_of(key), size, dtype))


def unit_of(word: jax.Array) -> jax.Array:
    """Number in (0, 1) of a random word: the midpoint of the word's cell of the unit interval.

    The result has the floating dtype of the word's size. With a mantissa of `m` bits there are
    ``2**m`` cells, so that all midpoints are exact. The lowest bits of `word` are not used.
    """
    dtype = jnp.dtype(f"float{jnp.iinfo(word.dtype).bits}")
    mantissa = jnp.finfo(dtype).nmant
    cell = word >> (jnp.iinfo(word.dtype).bits - mantissa)
    return (cell.astype(dtype) + 0.5) * 2.0**-mantissa
