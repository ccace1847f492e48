"""Laws of extremes."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case

SIGNATURES = {
    "Gumbel": "loc, scale",
    "Weibull": "concentration, scale",
    "Frechet": "concentration, scale",
    "GeneralizedExtremeValue": "loc, scale, concentration",
    "GeneralizedPareto": "loc, scale, concentration",
}

# The density of an exponential variable within rounding, and laws with an end of either side.
SHAPES = np.array([-0.25, 0.0, 0.4])
TRIPLES = np.stack([SCALAR - 1, SCALAR - 2, SCALAR - 0.5], 1)

CASES = [
    Case("Gumbel", dist.Gumbel, {"loc": 0.5, "scale": BATCH}, st.gumbel_r, PAIRS - 1, ()),
    Case(
        "Weibull",
        dist.Weibull,
        {"concentration": np.array([0.75, 2.5]), "scale": 1.5},
        lambda concentration, scale: st.weibull_min(concentration, scale=scale),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "Frechet",
        dist.Frechet,
        {"concentration": np.array([2.5, 4.0]), "scale": 1.5},
        lambda concentration, scale: st.invweibull(concentration, scale=scale),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "GeneralizedExtremeValue",
        dist.GeneralizedExtremeValue,
        {"loc": 0.5, "scale": 1.5, "concentration": SHAPES},
        lambda loc, scale, concentration: st.genextreme(-concentration, loc, scale),
        TRIPLES,
        INFINITE,
    ),
    Case(
        "GeneralizedPareto",
        dist.GeneralizedPareto,
        {"loc": 0.5, "scale": 1.5, "concentration": SHAPES},
        lambda loc, scale, concentration: st.genpareto(concentration, loc, scale),
        TRIPLES + 2.5,
        (0.25, *INFINITE),
    ),
]

KL = {"Weibull": (dist.Weibull(1.5, 2.0), dist.Weibull(0.75, 1.0))}
