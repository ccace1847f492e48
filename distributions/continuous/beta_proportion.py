"""The beta distribution by its mean and the sum of its parameters."""

from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.continuous.beta import Beta
from distributions.continuous.unit_support import unit
from distributions.core.derived_formulas import reparameterize_formulas
from distributions.core.family import Family, family, parameter


@family(
    support=unit,
    reads_points=True,
    **reparameterize_formulas(
        Beta, lambda loc, concentration: (loc * concentration, (1 - loc) * concentration)
    ),
)
class BetaProportion(Family):
    r"""Beta distribution, parameterized by its mean.

    `p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b)` for `0 < x < 1`, with `a = loc concentration` and
    `b = (1 - loc) concentration`.

    Args:
        loc: The mean, between 0 and 1.
        concentration: The sum of the parameters of the beta distribution, positive.

    >>> import distributions as dist
    >>> round(float(dist.BetaProportion(0.5, 4.0).log_prob(0.5)), 4)
    0.4055

    References:
        Ferrari and Cribari-Neto, "Beta regression for modelling rates and proportions", Journal of
        Applied Statistics 31 (2004), 799-815.
    """

    loc: ArrayLike = parameter(unit)
    concentration: ArrayLike = parameter(positive)
