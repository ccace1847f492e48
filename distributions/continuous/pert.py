"""The PERT distribution: a beta distribution on an interval, by its mode."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import open_interval, positive, real
from distributions.continuous.beta import Beta
from distributions.continuous.unit_support import clip_unit, peak_inside
from distributions.core.derived_formulas import transform_formulas
from distributions.core.family import Family, family, parameter
from distributions.numerics.beta_functions import beta_entropy, beta_variance


def _pert_beta(low, peak, high, temperature):
    a = 1 + temperature * (peak - low) / (high - low)
    return a, 2 + temperature - a


def _pert_variance(low, peak, high, temperature):
    return jnp.square(high - low) * beta_variance(*_pert_beta(low, peak, high, temperature))


@family(
    support=lambda low, peak, high, temperature: open_interval(low, high),
    requires=lambda low, peak, high, temperature: peak_inside(low, peak, high),
    increasing=("low", "high"),
    **transform_formulas(
        Beta,
        forward=lambda z, low, peak, high, temperature: low + (high - low) * z,
        inverse=lambda x, low, peak, high, temperature: clip_unit((x - low) / (high - low)),
        log_det=lambda x, low, peak, high, temperature: -jnp.log(high - low),
        to_base=_pert_beta,
        mean=lambda low, peak, high, temperature: (
            (low + temperature * peak + high) / (temperature + 2)
        ),
        variance=_pert_variance,
        mode=lambda low, peak, high, temperature: peak,
        entropy=lambda low, peak, high, temperature: (
            beta_entropy(*_pert_beta(low, peak, high, temperature)) + jnp.log(high - low)
        ),
    ),
)
class PERT(Family):
    r"""PERT distribution of durations: a beta distribution by its ends and its mode.

    `p(x) = z^(a - 1) (1 - z)^(b - 1) / ((high - low) B(a, b))` for `low < x < high`, with
    `z = (x - low) / (high - low)`, `a = 1 + temperature (peak - low) / (high - low)` and
    `b = 2 + temperature - a`.

    Args:
        low: The lower end.
        peak: The mode.
        high: The upper end, greater than `low`.
        temperature: The concentration around the mode, positive.

    >>> import distributions as dist
    >>> round(float(dist.PERT(0.0, 0.5, 1.0).log_prob(0.5)), 4)
    0.6286

    References:
        Malcolm et al., "Application of a technique for research and development program
        evaluation", Operations Research 7 (1959), 646-669.
    """

    low: ArrayLike = parameter(real)
    peak: ArrayLike = parameter(real)
    high: ArrayLike = parameter(real)
    temperature: ArrayLike = parameter(positive, default=4.0)
