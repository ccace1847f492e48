"""Families on the real line."""

import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, PAIRS, SCALAR, Case

CASES = [
    Case(
        name="Normal",
        make=dist.Normal,
        signature="loc=0.0, scale=1.0",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=st.norm,
        inside=PAIRS - 2,
        outside=(),
    ),
    Case(
        name="Cauchy",
        make=dist.Cauchy,
        signature="loc=0.0, scale=1.0",
        parameters={"loc": 0.5, "scale": 2.0},
        oracle=st.cauchy,
        inside=SCALAR - 2,
        outside=(),
        moments=False,
    ),
    Case(
        name="StudentT",
        make=dist.StudentT,
        signature="df, loc=0.0, scale=1.0",
        parameters={"df": 3.5, "loc": 0.5, "scale": 2.0},
        oracle=st.t,
        inside=SCALAR - 2,
        outside=(),
    ),
    Case(
        name="StudentT, many degrees",
        make=dist.StudentT,
        parameters={"df": 1e4, "loc": 0.5, "scale": BATCH},
        oracle=st.t,
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="Laplace",
        make=dist.Laplace,
        signature="loc=0.0, scale=1.0",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=st.laplace,
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="Logistic",
        make=dist.Logistic,
        signature="loc=0.0, scale=1.0",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=st.logistic,
        inside=PAIRS - 1,
        outside=(),
    ),
]

KL = {
    "Cauchy": (dist.Cauchy(0.5, 2.0), dist.Cauchy(-1.0, 0.75)),
    "Laplace": (dist.Laplace(0.5, 2.0), dist.Laplace(-1.0, 0.75)),
    "Normal": (dist.Normal(0.5, 2.0), dist.Normal(-1.0, 0.75)),
}
