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

from distributions.bijectors.base import Bijector as Bijector
from distributions.bijectors.base import Independent as Independent
from distributions.bijectors.composed import Affine as Affine
from distributions.bijectors.composed import Chain as Chain
from distributions.bijectors.composed import Invert as Invert
from distributions.bijectors.composed import Softplus as Softplus
from distributions.bijectors.correlation import Correlation as Correlation
from distributions.bijectors.correlation import CorrelationCholesky as CorrelationCholesky
from distributions.bijectors.direction import UnitVector as UnitVector
from distributions.bijectors.direction import ZeroSum as ZeroSum
from distributions.bijectors.matrix import CholeskyFactor as CholeskyFactor
from distributions.bijectors.matrix import PositiveDefinite as PositiveDefinite
from distributions.bijectors.scalar import Bounded as Bounded
from distributions.bijectors.scalar import Exp as Exp
from distributions.bijectors.scalar import Identity as Identity
from distributions.bijectors.scalar import Lower as Lower
from distributions.bijectors.scalar import Sigmoid as Sigmoid
from distributions.bijectors.scalar import Upper as Upper
from distributions.bijectors.vector import Ordered as Ordered
from distributions.bijectors.vector import PositiveOrdered as PositiveOrdered
from distributions.bijectors.vector import StickBreaking as StickBreaking

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
