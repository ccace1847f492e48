"""Autocovariances of chains by Fourier transforms: at every lag, or only at the first lags."""

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]

MANY = 10_000  # draws of a chain; from here on the rounding of float32 is no matter for ESS


def mean_autocovariance(chains: Array) -> Array:
    """Autocovariances at every lag, averaged over chains: ``(parameter, lag)``."""
    num_draws = chains.shape[2]
    length = scipy.fft.next_fast_len(2 * num_draws - 1, real=True)
    centered, unit = _center(chains)
    spectrum = scipy.fft.rfft(centered, length)
    power = (spectrum.real**2 + spectrum.imag**2).mean(1)
    return scipy.fft.irfft(power, length)[:, :num_draws] * (unit**2 / num_draws)


def first_autocovariances(chains: Array, num_lags: int) -> Array:
    """Autocovariances at the first lags, averaged over chains: ``(parameter, lag)``.

    A chain is cut into blocks of `num_lags` draws, padded by as many zeros for the transform. These
    lags need only the products of each block with itself and with the next block. The next block
    stands half a period later, which changes the sign of every second frequency.
    """
    num_parameters, num_chains, num_draws = chains.shape
    centered, unit = _center(chains)
    num_blocks = -(-num_draws // num_lags)
    signs = (-1.0) ** np.arange(num_lags + 1, dtype=np.float32)
    power = np.zeros((num_parameters, num_lags + 1), np.complex128)
    for i in range(num_parameters):
        for chain in centered[i]:
            blocks = np.zeros((num_blocks, num_lags), chain.dtype)
            blocks.ravel()[:num_draws] = chain
            spectrum = scipy.fft.rfft(blocks, 2 * num_lags)
            power[i] += np.einsum("bf,bf->f", spectrum.conj(), spectrum)
            power[i] += signs * np.einsum("bf,bf->f", spectrum[:-1].conj(), spectrum[1:])
    found = scipy.fft.irfft(power / num_chains, 2 * num_lags)
    return found[:, :num_lags] * (unit**2 / num_draws)


def _center(chains: Array) -> tuple[NDArray[np.floating], Array]:
    """Deviations of chains from their means, and a unit for each parameter.

    For long chains the deviations are in float32: its rounding is far below the Monte Carlo error.
    """
    centered = chains - chains.mean(2, keepdims=True)
    unit = np.ones((len(chains), 1))
    if chains.shape[2] >= MANY:
        unit = np.abs(centered).max((1, 2))[:, None]
        centered = (centered / unit[:, None]).astype(np.float32)
    return centered, unit
