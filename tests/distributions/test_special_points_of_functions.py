"""Derivatives of distribution functions and quantiles at centers, kinks and equal parameters."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import distributions as dist
from tests.distributions.cases import CASES, Case, over
from tests.distributions.cases.base import cast, without

STEP = 1e-5
UNUSUAL = 0.5, 1.0  # Values of all parameters at once; locations are 0 beside a 1.


def is_swept(case: Case) -> bool:
    """Whether it is a continuous distribution of numbers with a distribution function."""
    is_shared = case.name == "MixtureSameFamily, gammas"  # Its weights have no axis of the batch.
    if is_shared or not (case.is_number and case.tells("cdf")):
        return False
    support = case.build().support
    return not (support.is_discrete or support.has_atoms)


def without_batch(case: Case) -> dict:
    """The parameters of the first distribution of the batch, in double precision."""
    batch = case.build().batch_shape
    at = (0,) * len(batch)
    first = lambda x: x[at] if x.shape[: len(batch)] == batch else x  # noqa: E731
    return {name: cast(first(np.asarray(x)), float) for name, x in case.parameters.items()}


def special_points(case: Case) -> tuple[np.ndarray, Callable]:
    """Rows of a value, a probability and parameters; and the functions of such a row.

    Values are those of parameters, 0, 1/2, 1 and one of the case, and two next to each.
    """
    given = without_batch(case)
    moving = {k: x for k, x in given.items() if jnp.issubdtype(x.dtype, jnp.floating)}
    fixed = {k: x for k, x in given.items() if k not in moving}
    make = lambda parameters: case.make(**parameters, **fixed)  # noqa: E731
    # Whose densities at the median are 0, infinite, or have a cusp.
    is_singular = case.family in ("DoublesidedMaxwell", "Horseshoe", "GeneralizedNormal")
    probabilities = [0.25 if is_singular else 0.5, 0.25]
    rows = []
    for special in (None, *UNUSUAL):
        changed = (
            {}
            if special is None
            else {
                k: jnp.float64(0.0 if k == "loc" and special == 1 else special)
                for k, x in moving.items()
                if not x.ndim
            }
        )
        try:
            d = make(moving | changed)
        except ValueError:  # such as a lower bound that equals the upper one
            continue
        numbers = [float(x) for x in (moving | changed).values() if not x.ndim]
        at = np.array(sorted({*numbers, 0.0, 0.5, 1.0, float(case.inside[2].flat[0])}))
        at = at[[bool(d.support.check(x - 1e-3) & d.support.check(x + 1e-3)) for x in at]]
        at = at[np.asarray(d.log_prob(at)) < np.inf]  # at 0, a horseshoe's is infinite
        if case.family == "GeneralizedNormal" and d.power < 1:  # whose density has a cusp there
            at = at[at != d.loc]
        flat = ravel_pytree(moving | changed)[0]
        values = np.concatenate([at, at + 1e-14, at - 1e-14])
        rows += [
            [x, q, *flat] for x, q in zip(values, itertools.cycle(probabilities), strict=False)
        ]
    unravel = ravel_pytree(moving)[1]

    def functions(row):
        d = make(unravel(row[2:]))
        return jnp.stack([d.cdf(row[0]), d.log_survival(row[0]), d.quantile(row[1])])

    return np.array(rows), functions


def check_derivatives(f, points):
    """Gradients, in reverse mode, and their derivatives in one direction: as differences.

    At a kink they are between those on both sides. The error of differences is estimated from those
    of a longer step.
    """
    direction = np.where(np.arange(points.shape[1]) % 2, -0.7, 1.0)
    direction = direction * np.linspace(1, 1.5, len(direction))
    slopes = jax.jacrev(f)
    both = lambda t: (f(t), *jax.jvp(slopes, (t,), (jnp.asarray(direction),)))  # noqa: E731
    steps = STEP * np.array([-4, -2, -1, 0, 1, 2, 4])[:, None, None] * direction
    value, slope, second = map(np.asarray, jax.jit(jax.vmap(jax.vmap(both)))(points + steps))
    for found, of in ((slope[3] @ direction, value), (second[3], slope)):
        sides = np.stack([of[2] - of[1], of[5] - of[4]]) / STEP
        longer = np.stack([of[1] - of[0], of[6] - of[5]]) / (2 * STEP)
        low, high = sides.min(0), sides.max(0)
        error = 1e-4 * (1 + np.abs(sides).sum(0)) + 3 * np.abs(sides - longer).sum(0)
        is_right = (found >= low - error) & (found <= high + error)
        i = np.argmin(is_right.reshape(len(points), -1).all(1))
        assert is_right.all(), f"at {points[i]}:\n{found[i]}\nnot from\n{low[i]}\nto\n{high[i]}"


@pytest.mark.quick_rows("Laplace", "Cauchy")
@over([case for case in without(CASES, "cdf") if is_swept(case)])
def test_derivatives_at_special_points(case: Case, x64):
    """By the value, the probability and every real parameter, first and second ones."""
    points, functions = special_points(case)
    check_derivatives(functions, points)


def censored_at_the_location(d):
    """Densities and functions of laws made of `d`, whose bounds and data are 0."""
    above, below = dist.Truncated(d, low=0.0), dist.Truncated(d, high=0.0)
    seen, other = dist.IntervalCensored(d).log_prob, dist.Normal(0.0, 2.0)
    halves = dist.Mixture(dist.Categorical(probs=jnp.array([0.5, 0.5])), [d, other])
    return jnp.stack(
        [
            *(above.log_prob(0.5), above.cdf(0.5), above.log_survival(0.5), above.quantile(0.5)),
            *(below.log_prob(-0.5), below.log_cdf(-0.5), below.survival(-0.5)),
            *(dist.Censored(d, low=0.0).log_prob(0.0), dist.Censored(d, high=0.0).log_prob(0.0)),
            *(seen(jnp.array(pair)) for pair in ((0.0, 1.0), (-1.0, 0.0), (0.0, np.inf))),
            *(dist.Quantized(d).log_prob(0.0), dist.Quantized(d).log_prob(1.0)),
            *(halves.log_prob(0.0), halves.cdf(0.0), halves.log_survival(0.0)),
        ]
    )


CENTERED = {
    "DoublesidedMaxwell": dist.DoublesidedMaxwell,
    "Laplace": dist.Laplace,
    "Normal": dist.Normal,
    "GeneralizedNormal": lambda loc, scale: dist.GeneralizedNormal(loc, scale, 3.0),
    "StudentT": lambda loc, scale: dist.StudentT(3.0, loc, scale),
    "TwoPieceNormal": lambda loc, scale: dist.TwoPieceNormal(loc, scale, 1.5),
    "TwoPieceStudentT": lambda loc, scale: dist.TwoPieceStudentT(3.0, loc, scale, 1.5),
    "VonMises": lambda loc, scale: dist.VonMises(loc, 50.0 / scale),
}


@pytest.mark.slow_rows("Normal", "TwoPieceStudentT")
@pytest.mark.parametrize("name", CENTERED)
def test_the_slope_at_the_location_is_the_density(name, x64):
    def functions(x, loc):
        d = CENTERED[name](loc, 2.0)
        return jnp.stack([d.cdf(x), d.survival(x), d.log_cdf(x), d.log_survival(x)])

    both = lambda x: (functions(x, x), *jax.jacrev(functions, (0, 1))(x, x))  # noqa: E731
    (below, above, *_), by_value, by_loc = jax.jit(both)(0.25)
    density = jnp.exp(CENTERED[name](0.25, 2.0).log_prob(0.25))
    expected = density * jnp.array([1, -1, 1 / below, -1 / above])
    np.testing.assert_allclose(by_value, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(by_loc, -expected, rtol=1e-10, atol=1e-12)


# A double-sided Maxwell law has no density at its location: a mixture does not see it there.
@pytest.mark.quick_rows("Laplace")
@pytest.mark.parametrize("name", sorted(CENTERED.keys() - {"DoublesidedMaxwell"}))
def test_bounds_and_data_that_equal_the_location(name, x64):
    points = np.array([[0.0, 0.5], [0.0, 1.0], [1e-14, 2.0]])
    check_derivatives(lambda row: censored_at_the_location(CENTERED[name](*row)), points)


@pytest.mark.slow
def test_counts_with_a_gate(x64):
    """Functions of zero-inflated and hurdle counts at 0, with parameters of 1/2 and 1."""

    def functions(row):
        probs, rate = row
        inflated = dist.ZeroInflated(dist.Poisson(rate), probs=probs)
        hurdle = dist.Hurdle(dist.Poisson(rate), probs=probs)
        each = ((d.log_prob(0), d.cdf(0), d.log_survival(0), d.cdf(1)) for d in (inflated, hurdle))
        return jnp.stack([x for functions in each for x in functions])

    check_derivatives(functions, np.array([[0.5, 0.5], [0.5, 1.0]]))
