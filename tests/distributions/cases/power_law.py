"""Power laws."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case

SIGNATURES = {
    "Pareto": "concentration, scale",
    "Lomax": "concentration, scale",
    "LogLogistic": "loc, scale",
    "Dagum": "concentration, sharpness, scale",
    "GammaGamma": "concentration, mixing_concentration, mixing_rate",
    "Levy": "loc, scale",
}
OUTSIDE = (-1.0, 0.0, *INFINITE)

CASES = [
    Case(
        "Pareto",
        dist.Pareto,
        {"concentration": np.array([2.5, 4.0]), "scale": 1.5},
        lambda concentration, scale: st.pareto(concentration, scale=scale),
        PAIRS + 1.5,
        (1.25, *OUTSIDE),
    ),
    Case(
        "Lomax",
        dist.Lomax,
        {"concentration": np.array([2.5, 4.0]), "scale": 1.5},
        lambda concentration, scale: st.lomax(concentration, scale=scale),
        PAIRS,
        (-1.0, *INFINITE),
    ),
    Case(
        "LogLogistic",
        dist.LogLogistic,
        {"loc": 0.5, "scale": 0.4},
        lambda loc, scale: st.fisk(1 / scale, scale=np.exp(loc)),
        SCALAR,
        OUTSIDE,
    ),
    Case(
        "Dagum",
        dist.Dagum,
        {"concentration": np.array([0.25, 2.0]), "sharpness": 2.5, "scale": 1.5},
        lambda concentration, sharpness, scale: st.burr(sharpness, concentration, scale=scale),
        PAIRS,
        OUTSIDE,
    ),
    Case(
        "GammaGamma",
        dist.GammaGamma,
        {"concentration": BATCH, "mixing_concentration": 2.5, "mixing_rate": 1.5},
        lambda concentration, mixing_concentration, mixing_rate: st.betaprime(
            concentration, mixing_concentration, scale=mixing_rate
        ),
        PAIRS,
        OUTSIDE,
    ),
    Case(
        "Levy", dist.Levy, {"loc": -0.5, "scale": BATCH}, st.levy, PAIRS, (-1.0, *INFINITE), False
    ),
]
