"""from_stan on posteriordb: densities and gradients are those of our models, means the published.

Every mean lies within 5 Monte Carlo standard errors (ours and the reference's together). Over the
111 means of fifteen posteriors, the chance that a correct sampler fails is below 1e-4.
"""

import json
import math

import jax
import numpy as np
import pytest

import inference
import ppl
from inference.results.diagnostics import mcse_mean
from tests.models.posteriors import POSTERIORS
from tests.models.stan_programs import PROGRAMS
from tests.models.test_posteriors import NUM_REFERENCE_DRAWS, reference_of, scalar

pytest.importorskip("stanli")

QUICK = {"kidiq-kidscore_momhs", "low_dim_gauss_mix-low_dim_gauss_mix"}


@pytest.mark.parametrize(
    "posterior",
    [
        pytest.param(p, id=p.name, marks=() if p.name in QUICK else pytest.mark.slow)
        for p in POSTERIORS
    ],
)
def test_densities_are_those_of_our_models(posteriordb, posterior, x64):
    data = reference_of(posteriordb, posterior)["data"]
    stan = ppl.unconstrain(ppl.from_stan(PROGRAMS[posterior.name], data))
    model, arguments = posterior.condition(data)
    ours = ppl.unconstrain(model, *arguments)
    rng = np.random.default_rng(0)
    positions = [
        jax.tree.map(lambda x: 0.3 * rng.normal(size=x.shape), ours.position_shapes)
        for _ in range(3)
    ]
    pairs = [
        (
            jax.value_and_grad(ours.log_density)(p),
            jax.value_and_grad(stan.log_density)({"unconstrained": p}),
        )
        for p in positions
    ]
    for (ours_value, ours_gradient), (value, gradient) in pairs:
        constant = pairs[0][0][0] - pairs[0][1][0]
        np.testing.assert_allclose(value + constant, ours_value, rtol=1e-10)
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-7),
            gradient["unconstrained"],
            ours_gradient,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_nuts_agrees_with_the_reference(posteriordb, name, x64):
    published = json.loads((posteriordb / f"{name}.json").read_text())
    options = {p.name: p.options for p in POSTERIORS}.get(name, {})
    model = ppl.from_stan(PROGRAMS[name], published["data"])
    result = inference.mcmc(jax.random.key(20), model, **options)
    for parameter, reference in published["reference"].items():
        ours = scalar(dict(result.draws), parameter)
        error = math.hypot(mcse_mean(ours), reference["sd"] / math.sqrt(NUM_REFERENCE_DRAWS))
        assert abs(ours.mean() - reference["mean"]) < 5 * error, parameter
