"""The table of families, a file for each kind of support."""

from distributions import Distribution
from tests.distributions.cases import (
    bounded,
    directional,
    discrete,
    half_line,
    matrices,
    mixture,
    multivariate,
    processes,
    real_line,
    wrapped,
)
from tests.distributions.cases.base import Case as Case
from tests.distributions.cases.base import log_probs as log_probs

MODULES = (
    real_line,
    half_line,
    bounded,
    discrete,
    multivariate,
    matrices,
    processes,
    directional,
    mixture,
    wrapped,
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
