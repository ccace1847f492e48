"""The table of families, a file for each kind of support."""

from distributions import Distribution
from tests.distributions.cases import (
    bell,
    bounded,
    chi_square,
    circular,
    discrete,
    extreme_value,
    half_line,
    lifetime,
    mixture,
    multivariate,
    power_law,
    real_line,
    skewed,
    unit_interval,
)
from tests.distributions.cases.base import Case as Case
from tests.distributions.cases.base import log_probs as log_probs

MODULES = (
    real_line,
    lifetime,
    skewed,
    bell,
    half_line,
    chi_square,
    power_law,
    extreme_value,
    bounded,
    unit_interval,
    circular,
    discrete,
    multivariate,
    mixture,
)
CASES: list[Case] = [case for module in MODULES for case in module.CASES]

# The parameters of every public distribution, as users write them.
SIGNATURES: dict[str, str] = {
    "Flat": "support, shape=()",
    **{name: parameters for module in MODULES for name, parameters in module.SIGNATURES.items()},
}

# Pairs whose divergence has a closed form.
KL: dict[str, tuple[Distribution, Distribution]] = {
    name: pair for module in MODULES for name, pair in getattr(module, "KL", {}).items()
}
