"""Noise of log densities between points close to each other, from too little precision."""

import warnings
from collections.abc import Callable

import numpy as np

_PLACES = np.array([-3, -1, 1, 3])  # along a line, in units of the stride
_THIRD = np.array([-1, 3, -3, 1])  # third difference: zero for parabolas, its noise is 20 ** 0.5
_STRIDES = 2.0**-12, 2.0**-10  # relative; the noise of single precision is far below a stride
_MAX_GROWTH = 8  # of third differences between strides; 64 for smooth functions, 1 for noise
_MAX_NOISE = 0.3  # nats
_MAX_ROUNDINGS = 64  # units in the last place of the log density
_MEDIAN = 0.6745  # median of the absolute value, for a standard normal number


def find_noise(
    log_densities_at: Callable[[np.ndarray], np.ndarray], positions: np.ndarray
) -> float:
    r"""Standard deviation of a log density's noise, in nats; 0 where it can be a smooth function's.

    At each position, the log density is evaluated at four places of a line, for two strides. Its
    third differences grow by :math:`4^3` from the short to the long stride if it is smooth, and do
    not grow if they are noise. Medians over positions decide.

    Args:
        log_densities_at: Function from positions ``(chain, size)`` to log densities ``(chain,)``.
        positions: Flat positions, ``(chain, size)``.
    """
    signs = np.where(np.random.default_rng(0).uniform(size=positions.shape[1]) < 0.5, -1, 1)

    def third_difference(stride: float) -> tuple[float, float]:
        factors = 1 + stride * _PLACES[:, None] * signs
        values = [log_densities_at((positions * f).astype(positions.dtype)) for f in factors]
        values = np.asarray(values, np.float64)
        with np.errstate(invalid="ignore"):
            differences = np.abs(_THIRD @ values)
        differences[~np.isfinite(differences)] = 0
        return float(np.median(differences)), float(np.median(np.abs(values)))

    (short, size), (long, _) = (third_difference(stride) for stride in _STRIDES)
    noise = short / (_MEDIAN * np.sqrt(np.sum(_THIRD**2)))
    is_noise = long < _MAX_GROWTH * short
    rounding = _MAX_ROUNDINGS * float(np.finfo(positions.dtype).eps) * size
    return noise if is_noise and noise > _MAX_NOISE + rounding else 0.0


def warn_of_noise(
    log_densities_at: Callable[[np.ndarray], np.ndarray], positions: np.ndarray
) -> None:
    """Warns of a log density that is not precise enough for its differences; see `find_noise`."""
    if positions.dtype not in (np.float32, np.float64) or not positions.size:
        return
    if noise := find_noise(log_densities_at, positions):
        warnings.warn(
            f"the log density jumps by about {noise:.2g} nats between points that are close to "
            f"each other, far more than {positions.dtype} rounds it by. Chains freeze or take tiny "
            "steps where such noise decides about acceptance. Run in double precision "
            '(jax.config.update("jax_enable_x64", True)), and on an accelerator leave '
            'jax_default_matmul_precision at its default or set it to "highest"; or look for '
            "differences of large numbers in the model, and for parts of it in half precision.",
            RuntimeWarning,
            stacklevel=6,
        )
