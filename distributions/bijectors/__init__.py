"""Smooth maps from unconstrained space onto the supports of distributions.

Every bijector is a pytree whose leaves are its bounds. `event_ndims` is the number of trailing axes
of the unconstrained value that one event takes; `forward_log_det_jacobian` has one number per
event.

    >>> from distributions import bijectors
    >>> print(bijectors.Sigmoid(0.0, 10.0).forward(0.0))
    5.0

References:
    Stan Development Team, *Stan Reference Manual*, chapter "Constraint Transforms".
"""

from distributions.bijectors.base import Bijector, Independent
from distributions.bijectors.composed import Affine, Chain, Invert, Softplus
from distributions.bijectors.correlation import Correlation, CorrelationCholesky
from distributions.bijectors.direction import UnitVector, ZeroSum
from distributions.bijectors.matrix import CholeskyFactor, PositiveDefinite
from distributions.bijectors.scalar import Bounded, Exp, Identity, Lower, Sigmoid, Upper
from distributions.bijectors.vector import Ordered, PositiveOrdered, StickBreaking

__all__ = [
    "Affine",
    "Bijector",
    "Bounded",
    "Chain",
    "CholeskyFactor",
    "Correlation",
    "CorrelationCholesky",
    "Exp",
    "Identity",
    "Independent",
    "Invert",
    "Lower",
    "Ordered",
    "PositiveDefinite",
    "PositiveOrdered",
    "Sigmoid",
    "Softplus",
    "StickBreaking",
    "UnitVector",
    "Upper",
    "ZeroSum",
]
