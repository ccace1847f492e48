"""Power laws."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case

OUTSIDE = (-1.0, 0.0, *INFINITE)

CASES = [
    Case(
        name="Pareto",
        make=dist.Pareto,
        signature="*, concentration, scale",
        parameters={"concentration": np.array([2.5, 4.0]), "scale": 1.5},
        oracle=lambda concentration, scale: st.pareto(concentration, scale=scale),
        inside=PAIRS + 1.5,
        outside=(1.25, *OUTSIDE),
    ),
    Case(
        name="Lomax",
        make=dist.Lomax,
        signature="concentration, scale",
        parameters={"concentration": np.array([2.5, 4.0]), "scale": 1.5},
        oracle=lambda concentration, scale: st.lomax(concentration, scale=scale),
        inside=PAIRS,
        outside=(-1.0, *INFINITE),
    ),
    Case(
        name="LogLogistic",
        make=dist.LogLogistic,
        signature="*, loc, scale",
        parameters={"loc": 0.5, "scale": 0.4},
        oracle=lambda loc, scale: st.fisk(1 / scale, scale=np.exp(loc)),
        inside=SCALAR,
        outside=OUTSIDE,
    ),
    Case(
        name="Dagum",
        make=dist.Dagum,
        signature="concentration, sharpness, scale",
        parameters={"concentration": np.array([0.25, 2.0]), "sharpness": 2.5, "scale": 1.5},
        oracle=lambda concentration, sharpness, scale: st.burr(
            sharpness, concentration, scale=scale
        ),
        inside=PAIRS,
        outside=OUTSIDE,
    ),
    Case(
        name="GammaGamma",
        make=dist.GammaGamma,
        signature="concentration, mixing_concentration, mixing_rate",
        parameters={"concentration": BATCH, "mixing_concentration": 2.5, "mixing_rate": 1.5},
        oracle=lambda concentration, mixing_concentration, mixing_rate: st.betaprime(
            concentration, mixing_concentration, scale=mixing_rate
        ),
        inside=PAIRS,
        outside=OUTSIDE,
    ),
    Case(
        name="Levy",
        make=dist.Levy,
        signature="loc, scale",
        parameters={"loc": -0.5, "scale": BATCH},
        oracle=st.levy,
        inside=PAIRS,
        outside=(-1.0, *INFINITE),
        moments=False,
    ),
]
