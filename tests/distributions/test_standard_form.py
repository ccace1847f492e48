"""Standard forms: a draw as a function of a standard variable, by the change of variables."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions.core.family import Family
from distributions.core.standard_form import Factor
from tests.distributions.cases import CASES, Case, over

FORMS = [case for case in CASES if case.build().has_standard_form]
NORMAL = dist.Normal(0.0, 1.0)

# Families of floating numbers and arrays without a form, and why.
LEFT = {
    "a shape alone": "Chi Chi2 NoncentralChi2 Wiener",
    "an interval, for which positions do not depend on the ends": (
        "Bates Beta BetaProportion ContinuousBernoulli DoublyTruncatedPowerLaw Kumaraswamy "
        "LogUniform PERT RelaxedBernoulli Triangular Uniform VonMises"
    ),
    "an end that may be infinite, and then has no slope": "TruncatedNormal",
    "a simplex, sphere, torus or set of correlations": (
        "Dirichlet LKJ LKJCholesky PowerSpherical ProjectedNormal RelaxedOneHotCategorical "
        "SineBivariateVonMises SphericalUniform StickBreakingWeights VonMisesFisher"
    ),
    "made of others": (
        "Censored Custom Delta Flat Hurdle IntervalCensored Masked Mixture MixtureSameFamily "
        "Quantized TransformedDistribution Truncated Independent iid ZeroInflated"
    ),
}


def test_every_family_has_a_form_or_a_reason():
    continuous = {case.family for case in CASES if not case.build().support.is_discrete}
    with_form = {case.family for case in FORMS}
    left = set(" ".join(LEFT.values()).split())
    assert continuous - with_form <= left
    assert not with_form & left
    for name in continuous & left:
        (case, *_) = [case for case in CASES if case.family == name]
        with pytest.raises(NotImplementedError, match=r"no location and scale|KroneckerNormal"):
            case.build().standard_form()


@pytest.mark.parametrize("weight", [None, 0.3])
@over(FORMS)
def test_density_and_round_trip(case: Case, weight, x64):
    d = case.build(np.float64)
    if weight is not None and not partly(d):
        with pytest.raises(NotImplementedError, match="no partial centring"):
            d.standard_form(weight)
        return
    values = jnp.asarray(case.values(np.float64))

    @jax.jit
    @jax.vmap
    def both(x: Any) -> Any:
        base, forward, inverse = d.standard_form(weight)
        z = inverse(x)
        by = dist.bijectors.Identity() if base is None else base.bijector
        position = by.inverse(z)
        move = lambda u: d.bijector.inverse(forward(by.forward(u)))  # noqa: E731
        jacobian = jax.jacfwd(move)(position).reshape(position.size, position.size)
        log_det = jnp.linalg.slogdet(jacobian)[1]
        log_base = NORMAL.log_prob(z) if base is None else base.log_prob(z)
        ours = log_base.sum() + jnp.sum(by.forward_log_det_jacobian(position)) - log_det
        there = d.log_prob(x).sum() + jnp.sum(
            d.bijector.forward_log_det_jacobian(d.bijector.inverse(x))
        )
        return ours, there, forward(z), forward(inverse(forward(z)))

    ours, expected, back, again = both(values)
    np.testing.assert_allclose(back, values, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(again, values, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


def partly(d: Any) -> bool:
    """Whether a family has a form for any weight."""
    return isinstance(d, Family) and not isinstance(d._row.standard, Factor)
