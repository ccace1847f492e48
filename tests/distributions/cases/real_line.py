"""Families on the real line."""

import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, PAIRS, SCALAR, Case

SIGNATURES = {
    "Normal": "loc, scale",
    "Cauchy": "loc, scale",
    "StudentT": "df, loc, scale",
    "Laplace": "loc, scale",
    "Logistic": "loc, scale",
}

CASES = [
    Case("Normal", dist.Normal, {"loc": 0.5, "scale": BATCH}, st.norm, PAIRS - 2, ()),
    Case("Cauchy", dist.Cauchy, {"loc": 0.5, "scale": 2.0}, st.cauchy, SCALAR - 2, (), False),
    Case("StudentT", dist.StudentT, {"df": 3.5, "loc": 0.5, "scale": 2.0}, st.t, SCALAR - 2, ()),
    Case(
        "StudentT, many degrees",
        dist.StudentT,
        {"df": 1e4, "loc": 0.5, "scale": BATCH},
        st.t,
        PAIRS - 1,
        (),
    ),
    Case("Laplace", dist.Laplace, {"loc": 0.5, "scale": BATCH}, st.laplace, PAIRS - 1, ()),
    Case("Logistic", dist.Logistic, {"loc": 0.5, "scale": BATCH}, st.logistic, PAIRS - 1, ()),
]

KL = {
    "Cauchy": (dist.Cauchy(0.5, 2.0), dist.Cauchy(-1.0, 0.75)),
    "Laplace": (dist.Laplace(0.5, 2.0), dist.Laplace(-1.0, 0.75)),
    "Normal": (dist.Normal(0.5, 2.0), dist.Normal(-1.0, 0.75)),
}
