"""Bijectors and constraints: laws by hypothesis, log determinants against Jacobians."""

import dataclasses
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as hs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions import bijectors, constraints
from distributions.constraints import Constraint

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")

INF = np.inf


@dataclasses.dataclass(frozen=True)
class Row:
    """A constraint, the shape of one unconstrained event, and points that it refuses."""

    name: str
    constraint: Constraint
    shape: tuple[int, ...]
    refused: tuple[Any, ...]
    reach: float = 80.0  # Of unconstrained values that stay inside of the support in float32.
    free: Callable[[Any], Any] = jnp.ravel  # Coordinates of a constrained value.
    one_to_one: bool = True


def lower(y, k=0):
    return y[jnp.tril_indices(y.shape[-1], k)]


def strictly_lower(y):
    return lower(y, -1)


def in_the_plane(y):
    """Coordinates in an orthonormal basis of the arrays that sum to zero along each axis."""
    for axis in range(y.ndim):
        n = y.shape[axis]
        basis = np.linalg.qr(np.eye(n) - 1 / n)[0][:, :-1]
        y = jnp.moveaxis(jnp.tensordot(y, basis, (axis, 0)), -1, axis)
    return y.reshape(-1)


NOT_FINITE = (np.nan, INF, -INF)
ROWS = [
    Row("real", constraints.real, (), NOT_FINITE),
    Row("real_vector", constraints.real_vector, (3,), ([0.0, np.nan, 1.0],)),
    Row("positive", constraints.positive, (), (0.0, -1.0, *NOT_FINITE)),
    Row("nonnegative", constraints.nonnegative, (), (-1.0, *NOT_FINITE)),
    Row("greater_than", constraints.greater_than(-2.5), (), (-2.5, -3.0, *NOT_FINITE)),
    Row("at_least", constraints.at_least(2.5), (), (2.0, *NOT_FINITE)),
    Row("less_than", constraints.less_than(2.5), (), (2.5, 3.0, *NOT_FINITE)),
    Row("unit_interval", constraints.unit_interval, (), (-0.1, 1.1, *NOT_FINITE)),
    Row("interval", constraints.interval(-3.0, 0.0), (), (-4.0, 0.5, *NOT_FINITE)),
    Row("open_interval", constraints.open_interval(1.0, 2.0), (), (1.0, 2.0, *NOT_FINITE)),
    Row("interval, unbounded", constraints.interval(-INF, INF), (), NOT_FINITE),
    Row("interval, from below", constraints.interval(2.0, INF), (), (1.0, *NOT_FINITE)),
    Row("interval, from above", constraints.interval(-INF, 2.0), (), (3.0, *NOT_FINITE)),
    Row(
        "interval, by element",
        constraints.independent(
            constraints.interval(np.array([-INF, 0.0, -INF, -1.0]), np.array([INF, INF, 2.0, 3.0])),
            1,
        ),
        (4,),
        ([0.0, -1.0, 0.0, 0.0], [0.0, 1.0, 3.0, 0.0], [0.0, 1.0, 0.0, 4.0]),
    ),
    Row(
        "simplex",
        constraints.simplex,
        (3,),
        ([0.5, 0.5, 0.5, 0.0], [1.5, -0.5, 0.0, 0.0]),
        free=lambda y: y[:-1],
    ),
    Row(
        "open_simplex",
        constraints.open_simplex,
        (3,),
        ([0.5, 0.5, 0.0, 0.0],),
        free=lambda y: y[:-1],
    ),
    Row(
        "ordered",
        constraints.ordered,
        (4,),
        ([0.0, 0.0, 1.0, 2.0], [0.0, 2.0, 1.0, 3.0], [0.0, 1.0, 2.0, INF]),
        reach=4.0,
    ),
    Row(
        "log_weights",
        constraints.log_weights,
        (3,),
        ([-INF] * 3, [0.0, INF, 0.0], [np.nan, 0.0, 0.0]),
    ),
    Row(
        "lower_cholesky",
        constraints.lower_cholesky,
        (6,),
        (np.ones((3, 3)), -np.eye(3), np.zeros((3, 3))),
        free=lower,
    ),
    Row(
        "positive_definite",
        constraints.positive_definite,
        (6,),
        (-np.eye(3), np.ones((3, 3)), np.triu(np.ones((3, 3)))),
        reach=2.0,
        free=lower,
    ),
    Row(
        "positive_ordered",
        constraints.positive_ordered,
        (4,),
        ([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 2.0, 4.0], [1.0, 2.0, 3.0, INF]),
        reach=4.0,
    ),
    Row(
        "correlation_cholesky",
        constraints.correlation_cholesky,
        (6,),
        (np.eye(3) * 0.5, -np.eye(3), [[1.0, 0.0], [1.0, 0.0]], [[0.6, 0.8], [0.0, 1.0]]),
        free=strictly_lower,
    ),
    Row(
        "correlation",
        constraints.correlation,
        (3,),
        (np.eye(3) * 2, np.ones((3, 3)), [[1.0, 0.5], [-0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
        reach=1.0,
        free=strictly_lower,
    ),
    Row(
        "unit_vector",
        constraints.unit_vector,
        (3,),
        ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [np.nan, 1.0, 0.0]),
        one_to_one=False,
    ),
    Row(
        "zero_sum",
        constraints.zero_sum(),
        (4,),
        ([1.0, 2.0, -1.0], [np.nan, 0.0, 0.0], [INF, 0.0, 0.0]),
        free=in_the_plane,
    ),
    Row(
        "zero_sum, two axes",
        constraints.zero_sum(2),
        (2, 3),
        ([[1.0, -1.0], [1.0, -1.0]], [[1.0, 1.0], [-1.0, -1.0]]),
        free=in_the_plane,
    ),
    Row(
        "simplex, twice",
        constraints.independent(constraints.simplex, 1),
        (2, 3),
        ([[0.5, 0.5], [0.5, 0.4]],),
        free=lambda y: y[:, :-1].reshape(-1),
    ),
    Row(
        "correlation_cholesky, twice",
        constraints.independent(constraints.correlation_cholesky, 1),
        (2, 3),
        ([np.eye(3), 2 * np.eye(3)],),
        free=jax.vmap(strictly_lower),
    ),
]
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@jax.jit
def there_and_back(bijector, x):
    y = bijector.forward(x)
    return y, bijector.inverse(y), bijector.forward_log_det_jacobian(x)


def arrays(row: Row, reach: float, dtype: Any):
    width = 32 if dtype == np.float32 else 64
    return hnp.arrays(dtype, (4, *row.shape), elements=hs.floats(-reach, reach, width=width))


@pytest.mark.quick_rows(
    "at_least",
    "interval",
    "nonnegative",
    "open_interval",
    "interval, from above",
    "interval, from below",
    "less_than",
    "open_simplex",
    "log_weights",
    "greater_than",
    "real_vector",
    "correlation_cholesky",
)
@pytest.mark.parametrize("row", [row for row in ROWS if row.one_to_one], ids=lambda row: row.name)
def test_inverse_undoes_forward_and_log_det_is_the_jacobians(row: Row, x64):
    bijector = row.constraint.bijector

    @jax.jit
    @jax.vmap
    def log_det_of_jacobian(event):
        def flat(x):
            return row.free(jnp.atleast_1d(bijector.forward(x.reshape(row.shape)))).reshape(-1)

        return jnp.linalg.slogdet(jax.jacfwd(flat)(event.reshape(-1)))[1]

    @hypothesis.settings(max_examples=12)
    @hypothesis.given(arrays(row, min(row.reach, 4.0), np.float64))
    def law(x):
        y, back, log_det = there_and_back(bijector, x)
        assert y.shape == bijector.forward_event_shape(x.shape)
        assert x.shape == bijector.inverse_event_shape(y.shape)
        assert log_det.shape == x.shape[: x.ndim - bijector.event_ndims]
        np.testing.assert_allclose(back, x, rtol=1e-8, atol=1e-8)
        assert row.constraint.check(np.asarray(y)).all()
        summed = np.asarray(log_det).reshape(len(x), -1).sum(-1)
        np.testing.assert_allclose(summed, log_det_of_jacobian(x), rtol=1e-8, atol=1e-8)

    law()


@pytest.mark.quick_rows(
    "nonnegative",
    "at_least",
    "open_interval",
    "interval",
    "log_weights",
    "real",
    "less_than",
    "greater_than",
    "open_simplex",
    "real_vector",
    "interval, from below",
    "positive",
    "interval, from above",
)
@rows
def test_far_out_in_float32_values_stay_inside(row: Row):
    bijector = row.constraint.bijector
    total = lambda x: bijector.forward(x).sum() + bijector.forward_log_det_jacobian(x).sum()  # noqa: E731
    slope, extremes = jax.jit(jax.grad(total)), (row.reach, -row.reach, 1e-30, 0.0)

    @hypothesis.settings(max_examples=12)
    @hypothesis.given(arrays(row, row.reach, np.float32))
    @hypothesis.example(np.stack([np.full(row.shape, x, np.float32) for x in extremes]))
    def law(x):
        y, _, log_det = there_and_back(bijector, x)
        assert y.dtype == np.float32
        assert row.constraint.check(np.asarray(y)).all()
        assert np.isfinite(log_det).all()
        assert np.isfinite(slope(x)).all()

    law()


@pytest.mark.slow_rows(
    "interval, by element",
    "simplex",
    "lower_cholesky",
    "positive_definite",
    "positive_ordered",
    "correlation_cholesky",
    "correlation",
    "zero_sum",
    "zero_sum, two axes",
    "simplex, twice",
    "correlation_cholesky, twice",
)
@rows
def test_checks_on_host_and_device_agree(row: Row):
    constraint = row.constraint
    shape = constraint.bijector.forward_event_shape(row.shape)
    inside = np.broadcast_to(constraint.feasible(shape), shape).astype(np.float32)
    assert constraint.check(inside).all()
    assert constraint.check(jnp.asarray(inside)).all()
    for point in row.refused:
        refused = np.asarray(point, np.float32)
        assert not constraint.check(refused).any(), point
        assert not np.asarray(jax.jit(constraint.check)(refused)).any(), point


DISCRETE = [
    (constraints.boolean, (0, 1, 1.0, True), (-1, 2, 0.5, np.nan)),
    (constraints.nonnegative_integer, (0, 7, 7.0), (-1, 0.5, np.nan, INF)),
    (constraints.integer_interval(2, 4), (2, 3.0, 4), (1, 5, 2.5)),
    (
        constraints.integer_interval(0, jnp.array([1, 9])),
        ([1, 9], [0.0, 3.0]),
        ([-1, 10], [0.5, 0.5]),
    ),
]


@pytest.mark.parametrize(("constraint", "members", "strangers"), DISCRETE)
def test_discrete_constraints(constraint, members, strangers):
    assert constraint.is_discrete
    assert constraint.check(jnp.asarray(constraint.feasible())).all()
    for member in members:
        assert constraint.check(jnp.asarray(member)).all()
    for stranger in strangers:
        assert not constraint.check(jnp.asarray(stranger)).any()


def test_constraints_are_pytrees():
    made = constraints.interval(0.0, jnp.float32(2))
    leaves, treedef = jax.tree.flatten(made)
    assert len(leaves) == 2
    assert hash(treedef) == hash(jax.tree.structure(constraints.interval(1.0, 2.0)))
    assert constraints.open_interval(0.0, 1.0) != constraints.interval(0.0, 1.0)
    assert jax.tree.unflatten(treedef, [0.0, 1.0]) == constraints.unit_interval
    assert constraints.independent(constraints.real, 1) == constraints.real_vector
    assert jax.tree.map(lambda x: 2 * x, bijectors.Sigmoid(0.0, 1.0)) == bijectors.Sigmoid(0.0, 2.0)


def test_bounds_known_only_to_the_device():
    """A bijector with traced bounds is the one with known bounds, whichever of them are finite."""
    cases = [(0.0, 1.0), (0.0, INF), (-INF, 1.0), (-INF, INF)]
    x = jnp.linspace(-3, 3, 7)

    @jax.jit
    def traced(low, high):
        b = dist.TruncatedNormal(0.0, 1.0, low, high).bijector
        y = b.forward(x)
        slopes = jax.jacfwd(lambda low, high: b.__class__(low, high).forward(x), (0, 1))(low, high)
        return y, b.inverse(y), b.forward_log_det_jacobian(x), slopes

    for low, high in cases:
        known = dist.TruncatedNormal(0.0, 1.0, low, high).bijector
        y, back, log_det, slopes = traced(low, high)
        np.testing.assert_allclose(y, known.forward(x), rtol=1e-6)
        np.testing.assert_allclose(back, x, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(log_det, known.forward_log_det_jacobian(x), rtol=1e-6)
        assert all(np.isfinite(slope).all() for slope in slopes)


@pytest.mark.parametrize("known", ["neither", "low", "high"])
def test_points_between_bounds_of_which_some_are_known(known):
    """One of the open interval, with finite derivatives, whichever bounds are finite."""
    pairs = [(1.0, 3.0), (-4.0, INF), (5.0, INF), (-INF, -2.0), (-INF, 7.0), (-INF, INF)]
    for low, high in pairs:
        bounds = {"low": low, "high": high}
        unknown = {name: jnp.float32(x) for name, x in bounds.items() if name != known}

        def point(unknown, bounds=bounds):
            return constraints.open_interval(**{**bounds, **unknown}).feasible()

        value, slopes = jax.jit(jax.value_and_grad(point))(unknown)
        assert low < value < high
        assert np.isfinite(list(slopes.values())).all()


def test_log_determinants_of_the_inverse(x64):
    for bijector in (bijectors.Exp(), bijectors.CorrelationCholesky(), bijectors.ZeroSum()):
        x = jnp.array([0.5, -1.0, 2.0])
        log_det = bijector.forward_log_det_jacobian(x)
        back = bijector.inverse_log_det_jacobian(bijector.forward(x))
        np.testing.assert_allclose(back, -log_det, rtol=1e-12)


def test_unit_vectors_of_normal_ones_are_uniform(x64):
    """Where densities on the sphere are constant, the unconstrained one is the standard normal."""
    bijector = constraints.unit_vector.bijector
    x = np.random.default_rng(0).normal(size=(6, 3))
    area = 4 * np.pi
    normal = -0.5 * (x**2).sum(-1) - 1.5 * np.log(2 * np.pi)
    log_det = bijector.forward_log_det_jacobian(x)
    np.testing.assert_allclose(log_det - np.log(area), normal, rtol=1e-12)
    y = bijector.forward(x)
    np.testing.assert_allclose(y, x / np.linalg.norm(x, axis=-1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(bijector.forward(bijector.inverse(y)), y, rtol=1e-15)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_simplex_of_one_entry(batch):
    bijector, nothing = bijectors.StickBreaking(), jnp.zeros((*batch, 0))
    np.testing.assert_array_equal(bijector.forward(nothing), np.ones((*batch, 1)))
    np.testing.assert_array_equal(bijector.inverse(np.ones((*batch, 1))), nothing)
    np.testing.assert_array_equal(bijector.forward_log_det_jacobian(nothing), np.zeros(batch))


def test_reference_values():
    np.testing.assert_allclose(bijectors.StickBreaking().forward(jnp.zeros(3)), np.full(4, 0.25))
    np.testing.assert_allclose(bijectors.Ordered().forward(jnp.zeros(3)), [0, 1, 2])
    matrix = bijectors.CholeskyFactor().forward(jnp.array([0.0, 2.0, 0.0]))
    np.testing.assert_allclose(matrix, [[1, 0], [2, 1]])
    with pytest.raises(ValueError, match=r"n \(n \+ 1\) / 2 entries"):
        bijectors.CholeskyFactor().forward(jnp.zeros(4))
