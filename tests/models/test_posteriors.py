"""Our NUTS on real data against the published draws of posteriordb.

Every mean and every standard deviation lies within 5 Monte Carlo standard errors (ours and the
reference's together). Over the 75 means of twelve posteriors, in both precisions, the chance that a
correct sampler fails is below 4e-4.
"""

import json
import math

import jax
import numpy as np
import pytest
import scipy.stats as st

import inference
from inference.results.diagnostics import mcse_mean, mcse_sd
from tests.models.posteriors import POSTERIORS, Posterior

NUM_REFERENCE_DRAWS = 10_000


def reference_of(posteriordb, posterior: Posterior) -> dict:
    return json.loads((posteriordb / f"{posterior.name}.json").read_text())


def scalar(draws: dict, name: str) -> np.ndarray:
    """The draws of a parameter named as in Stan: `theta[1]` is the first entry of `theta`."""
    site, _, index = name.partition("[")
    array = np.asarray(draws[site])
    return array[..., int(index[:-1]) - 1] if index else array


QUICK = {"eight_schools-eight_schools_noncentered", "kidiq-kidscore_momhs", "gp_pois_regr-gp_regr"}


@pytest.mark.quick_rows("eight_schools-eight_schools_noncentered-float64")
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
@pytest.mark.parametrize(
    "posterior",
    [
        pytest.param(p, id=p.name, marks=() if p.name in QUICK else pytest.mark.slow)
        for p in POSTERIORS
    ],
)
def test_nuts_agrees_with_the_reference(posteriordb, posterior, dtype, request):
    if dtype == "float64":
        request.getfixturevalue("x64")
    published = reference_of(posteriordb, posterior)
    model, arguments = posterior.condition(published["data"])
    result = inference.mcmc(jax.random.key(20), model, *arguments, **posterior.options)
    draws = posterior.derived(dict(result.draws))
    for name, reference in published["reference"].items():
        ours = scalar(draws, name)
        error = math.hypot(mcse_mean(ours), reference["sd"] / math.sqrt(NUM_REFERENCE_DRAWS))
        assert abs(ours.mean() - reference["mean"]) < 5 * error, name
        spread = math.sqrt((st.kurtosis(ours, None) + 2) / (4 * NUM_REFERENCE_DRAWS))
        error = math.hypot(mcse_sd(ours), spread * reference["sd"])
        assert abs(ours.std() - reference["sd"]) < 5 * error, name
