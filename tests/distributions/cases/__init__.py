"""The table of families, a file for each kind of them."""

from typing import Any

import pytest

from distributions import Distribution
from tests.distributions.cases import (
    bell,
    bounded,
    categories,
    chi_square,
    circular,
    counts,
    directional,
    extreme_value,
    half_line,
    lifetime,
    matrices,
    mixture,
    multivariate,
    passage,
    power_law,
    processes,
    real_line,
    skewed,
    unit_interval,
    wrapped,
)
from tests.distributions.cases.base import Case as Case
from tests.distributions.cases.base import log_probs as log_probs

MODULES = (
    real_line,
    skewed,
    bell,
    circular,
    half_line,
    chi_square,
    power_law,
    extreme_value,
    lifetime,
    passage,
    bounded,
    unit_interval,
    categories,
    counts,
    multivariate,
    matrices,
    processes,
    directional,
    mixture,
    wrapped,
)
CASES: list[Case] = [case for module in MODULES for case in module.CASES]

# The parameters of every public distribution, as users write them: of families without a row, and
# of all others as the first row of the family has them.
SIGNATURES: dict[str, str] = {
    "Censored": "distribution, low=-inf, high=inf",
    "Delta": "loc, log_density=0.0, event_ndims=0",
    "Flat": "support, shape=()",
    "ICAR": "*, scale, adj_matrix",
    "IntervalCensored": "distribution",
    "Joint": "parts",
    "Masked": "distribution, mask",
    **{case.family: case.signature for case in CASES if case.signature is not None},
}

# Pairs whose divergence has a closed form.
KL: dict[str, tuple[Distribution, Distribution]] = {
    name: pair for module in MODULES for name, pair in getattr(module, "KL", {}).items()
}

# What models use most. Tests of one case of each are usual ones, those of all others slow ones.
CORE = {
    *("Normal", "Cauchy", "StudentT", "Laplace", "Logistic", "HalfNormal", "HalfCauchy"),
    *("Exponential", "Gamma", "InverseGamma", "LogNormal", "Weibull", "Beta", "Uniform"),
    *("TruncatedNormal", "Bernoulli", "Binomial", "Poisson", "NegativeBinomial", "Categorical"),
    *("OrderedLogistic", "Dirichlet", "MultivariateNormal", "LKJCholesky", "MixtureSameFamily"),
    *("Truncated", "ZeroInflated", "iid", "TransformedDistribution"),
}
USUAL = {next(case.name for case in CASES if case.family == name) for name in CORE}


def over(cases: list[Case], slow: tuple[str, ...] = (), *, exhaustive: bool = False) -> Any:
    """Parametrizes a test over cases.

    One case of each family in `CORE` is quick, unless its name begins as one of `slow`. All other
    cases are slow, and if the test is `exhaustive`, CI leaves them out.
    """
    rare = (pytest.mark.slow, pytest.mark.exhaustive)[: 1 + exhaustive]

    def marks(case: Case) -> tuple[pytest.MarkDecorator, ...]:
        if case.name not in USUAL:
            return rare
        return rare[:1] if case.name.startswith(slow) else ()

    params = [pytest.param(case, id=case.name, marks=marks(case)) for case in cases]
    return pytest.mark.parametrize("case", params)


# Both precisions, where one of them shows nearly all that can be wrong: the other is slow.
mostly_double = pytest.mark.parametrize(
    "float_dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)], indirect=True
)
mostly_single = pytest.mark.parametrize(
    "float_dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)], indirect=True
)
