"""Laws of extremes."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case

# The density of an exponential variable within rounding, and laws with an end of either side.
SHAPES = np.array([-0.25, 0.0, 0.4])
TRIPLES = np.stack([SCALAR - 1, SCALAR - 2, SCALAR - 0.5], 1)

CASES = [
    Case(
        name="Gumbel",
        make=dist.Gumbel,
        signature="loc=0.0, scale=1.0",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=st.gumbel_r,
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="Weibull",
        make=dist.Weibull,
        signature="*, concentration, scale",
        parameters={"concentration": np.array([0.75, 2.5]), "scale": 1.5},
        oracle=lambda concentration, scale: st.weibull_min(concentration, scale=scale),
        inside=PAIRS,
        outside=(-1.0, 0.0, *INFINITE),
    ),
    Case(
        name="Frechet",
        make=dist.Frechet,
        signature="concentration, scale",
        parameters={"concentration": np.array([2.5, 4.0]), "scale": 1.5},
        oracle=lambda concentration, scale: st.invweibull(concentration, scale=scale),
        inside=PAIRS,
        outside=(-1.0, 0.0, *INFINITE),
    ),
    Case(
        name="GeneralizedExtremeValue",
        make=dist.GeneralizedExtremeValue,
        signature="loc, scale, concentration",
        parameters={"loc": 0.5, "scale": 1.5, "concentration": SHAPES},
        oracle=lambda loc, scale, concentration: st.genextreme(-concentration, loc, scale),
        inside=TRIPLES,
        outside=INFINITE,
    ),
    Case(
        name="GeneralizedPareto",
        make=dist.GeneralizedPareto,
        signature="loc, scale, concentration",
        parameters={"loc": 0.5, "scale": 1.5, "concentration": SHAPES},
        oracle=lambda loc, scale, concentration: st.genpareto(concentration, loc, scale),
        inside=TRIPLES + 2.5,
        outside=(0.25, *INFINITE),
    ),
]

KL = {
    "Weibull": (
        dist.Weibull(concentration=1.5, scale=2.0),
        dist.Weibull(concentration=0.75, scale=1.0),
    )
}
