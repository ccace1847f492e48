"""The random numbers of one transition, from one call of the key's generator.

A transition needs a momentum, and then a uniform number for each leaf of a trajectory whose length
is not known. Threefry costs as much as several leapfrog steps of a small model, so it is called once:
for the momentum and for a seed of 64 bits, from which a counter-based hash makes the uniforms.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random


def momentum_and_seed(key: jax.Array, size: int, dtype: jax.typing.DTypeLike) -> tuple[jax.Array, jax.Array]:
    r"""A standard normal vector and a seed for :func:`uniform`, independent of each other.

    The normals are :math:`\sqrt{2}\,\mathrm{erf}^{-1}(u)`, with `u` uniform on a symmetric grid in
    (-1, 1) that is as fine as the dtype's mantissa.

    Args:
        key: Typed or legacy key.
        size: Length of the vector.
        dtype: Floating-point dtype of the vector.

    Returns:
        The vector, of shape ``(size,)``, and the seed, two uint32 words.
    """
    mantissa, word = (52, jnp.uint64) if jnp.dtype(dtype).itemsize == 8 else (23, jnp.uint32)
    bits = random.bits(key, (size + 2,), word)
    grid = (bits[:size] >> (jnp.iinfo(word).bits - mantissa)).astype(f"float{bits.itemsize * 8}")
    signed = (grid + 0.5) * 2.0 ** (1 - mantissa) - 1.0
    return (np.sqrt(2.0) * lax.erf_inv(signed)).astype(dtype), bits[size:].astype(jnp.uint32)


def uniform(seed: jax.Array, counter: jax.Array) -> jax.Array:
    """A float32 in (0, 1), a pure function of `seed` and `counter`.

    The counter steps through a Weyl sequence from the first word of the seed; two rounds of a
    multiply-xorshift mixer, with the second word between them, scramble it.

    References:
        Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators, section 3;
        the multipliers are those of Wellons (2018), Prospecting for hash functions.
    """
    x = seed[0] + jnp.asarray(counter).astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
    for word in (jnp.uint32(0), seed[1]):
        x = x ^ word
        x = (x ^ (x >> 16)) * jnp.uint32(0x21F0AAAD)
        x = (x ^ (x >> 15)) * jnp.uint32(0x735A2D97)
        x = x ^ (x >> 15)
    return ((x >> 9).astype(jnp.float32) + 0.5) * 2.0**-23
