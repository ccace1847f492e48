"""Windows and the matrices that they give, each against its definition."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ppl
from examples import flow_of_the_nile
from inference import mcmc
from inference.common.matrices import LowRankMatrix, expand_diagonal, kind_of, restrict_covariance
from inference.warmup.adaptation import (
    Spread,
    adapt,
    adaptation_init,
    fisher_diagonal,
    is_due,
    schedule,
    set_first_diagonal,
)
from inference.warmup.dual_averaging import dual_averaging_restart, dual_averaging_update
from inference.warmup.fisher_mass_matrix import (
    estimate_gains,
    fisher_low_rank,
    fisher_matrix,
    renew_matrices,
)
from inference.warmup.welford import welford_init, welford_update

pytestmark = [pytest.mark.promotion(rank="raise", dtype="strict"), pytest.mark.usefixtures("x64")]


# Like Stan's (Reference Manual, HMC algorithm parameters), but 20, then 15, 30, ..., then 50.
@pytest.mark.parametrize(
    ("num_warmup", "slow", "ends"),
    [
        (1000, (20, 900), [35, 65, 125, 245, 900]),
        (2000, (20, 1800), [35, 65, 125, 245, 485, 1800]),
        (500, (20, 450), [35, 65, 125, 450]),
        (150, (20, 100), [35, 100]),
        (85, (20, 35), [35]),
        (80, (12, 72), [27, 72]),
        (40, (6, 35), [35]),
        (20, (3, 15), [15]),
        (19, (19, 19), []),
        (0, (0, 0), []),
    ],
)
def test_windows_double(num_warmup, slow, ends):
    plan = schedule(num_warmup)
    assert plan.num_warmup == num_warmup
    assert (plan.slow_start, plan.slow_stop) == slow
    assert [end for end in plan.window_ends if end >= 0] == ends
    assert jax.tree.map(np.shape, plan) == jax.tree.map(np.shape, schedule(1000))


@pytest.mark.parametrize(
    ("num_warmup", "slow", "ends"),
    [
        (1000, (20, 900), [25, 35, 55, 95, 175, 335, 900]),
        (300, (20, 250), [25, 35, 55, 95, 250]),
        (60, (9, 54), [54]),
        (19, (19, 19), []),
    ],
)
def test_windows_of_many_chains_are_shorter(num_warmup, slow, ends):
    plan = schedule(num_warmup, is_pooled=True)
    assert (plan.slow_start, plan.slow_stop) == slow
    assert [end for end in plan.window_ends if end >= 0] == ends


def run(plan, metric, draws, gradients, rates):
    """All states of a warm-up that is told these draws."""

    def iterate(state, now):
        state = adapt(plan, *now[:1], state, *now[1:], 0.8)
        return state, state

    iterations = jnp.arange(len(draws), dtype=jnp.int32)
    initial = adaptation_init(jnp.asarray(0.1), metric)
    return jax.lax.scan(iterate, initial, (iterations, draws, gradients, rates))[1]


def run_dense(plan, metric, draws, gradients, rates):
    """The states of a warm-up with a matrix, by iteration, renewed where that is due."""
    adapted = jax.jit(lambda i, state, *now: adapt(plan, i, state, *now, 0.8))
    state, states, begin = adaptation_init(jnp.asarray(0.1), metric), [], plan.slow_start
    for i, now in enumerate(zip(draws, gradients, rates, strict=True)):
        state = adapted(jnp.int32(i), state, *map(jnp.asarray, now))
        if is_due(plan, np.int32(i + 1), state):
            window = np.stack([draws[begin : i + 1], gradients[begin : i + 1]], 1)
            batch, begin = renew_matrices(jax.tree.map(lambda x: x[None], state), [window]), i + 1
            state = jax.tree.map(lambda x: jnp.asarray(x[0]), batch)
        states.append(state)
    return jax.tree.map(lambda *x: np.stack(x), *states)


def test_windows_renew_the_matrix_and_the_end_fixes_the_step():
    num_warmup, rng = 150, np.random.default_rng(1)
    draws, gradients = rng.normal(size=(2, num_warmup, 2)) * [1.0, 5.0]
    rates = rng.uniform(0.6, 1.0, size=num_warmup)
    states = run_dense(schedule(num_warmup), jnp.eye(2), draws, gradients, rates)
    matrices = states.inverse_mass_matrix
    np.testing.assert_array_equal(matrices[33], np.eye(2))
    for begin, end in ((20, 35), (35, 100)):
        matrix = matrices[end - 1]
        solved = matrix @ np.cov(gradients[begin:end].T) @ matrix
        np.testing.assert_allclose(solved, np.cov(draws[begin:end].T), rtol=5e-3, atol=5e-3)
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
    np.testing.assert_array_equal(matrices[98], matrices[34])
    np.testing.assert_array_equal(matrices[-1], matrices[99])
    factor = states.inverse_mass_factor[-1]
    np.testing.assert_allclose(factor @ factor.T, matrices[-1], rtol=1e-10)
    # Averaging starts anew at the window's end, from its average in the units of the new matrix.
    average = jax.tree.map(lambda x: x[98], states.dual_averaging)
    average = dual_averaging_update(average, rates[99], 0.8)
    old, new = map(np.linalg.cholesky, matrices[98:100])
    (gain,) = estimate_gains(gradients[35:100], old[None], new)
    expected = dual_averaging_restart(average, gain)
    np.testing.assert_allclose(states.step_size[99], np.exp(average.log_average + gain), rtol=1e-10)
    for rate in rates[100:]:
        expected = dual_averaging_update(expected, rate, 0.8)
    np.testing.assert_allclose(states.step_size[-1], jnp.exp(expected.log_average), rtol=1e-10)


@pytest.mark.parametrize("kind", ["diagonal", "dense", "low_rank"])
def test_the_first_matrix_is_guessed_from_a_gradient(kind):
    gradient = np.array([[-100.0, 0.0, 4.0], [0.0, -16.0, 1.0]])
    state = adaptation_init(
        jnp.asarray(0.1), jax.tree.map(jnp.asarray, expand_diagonal(np.ones(3), kind))
    )
    state = set_first_diagonal(state, gradient, kind)
    expected = np.array([[0.1, 1.0, 0.5], [1.0, 0.25, 1.0]])
    for i, diagonal in enumerate(expected):
        both = state.inverse_mass_matrix, state.inverse_mass_factor
        matrix, factor = jax.tree.map(lambda x, i=i: x[i], both)
        if kind == "diagonal":
            matrix, factor = np.diag(matrix), np.diag(factor)
        elif kind == "low_rank":
            matrix, factor = matrix.dense(), factor.scale * np.eye(3)
        np.testing.assert_allclose(matrix, np.diag(diagonal))
        np.testing.assert_allclose(factor, np.sqrt(np.diag(diagonal)))


def test_only_the_chains_that_are_due_are_renewed():
    plan, rng = schedule(150), np.random.default_rng(6)
    state = adaptation_init(jnp.asarray(0.1), jnp.eye(2))
    chains = jax.tree.map(lambda x: np.stack([x, x]), state)
    iteration = np.array([34, 35])
    np.testing.assert_array_equal(is_due(plan, iteration, chains), [False, True])
    after = renew_matrices(chains, [None, rng.normal(size=(15, 2, 2)) * [1.0, 5.0]])
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[0], y[0]), after, chains)
    assert not is_due(plan, iteration, after).any()
    assert np.all(after.inverse_mass_matrix[1] != chains.inverse_mass_matrix[1])


def test_a_diagonal_is_learned_from_what_is_remembered():
    num_warmup, rng = 400, np.random.default_rng(2)
    draws, gradients = rng.normal(size=(2, num_warmup, 2)) * [1.0, 5.0]
    rates = jnp.asarray(rng.uniform(0.6, 1.0, size=num_warmup))
    plan = schedule(num_warmup)
    assert (plan.learning_start, plan.early_stop, plan.learning_stop) == (8, 120, 340)
    states = run(plan, jnp.ones(2), jnp.asarray(draws), jnp.asarray(gradients), rates)
    diagonals = np.asarray(states.inverse_mass_matrix)
    np.testing.assert_array_equal(diagonals[:17], 1.0)
    # (iteration, what its diagonal remembers): 10 to 20 iterations, and from 120 on 80 to 160.
    for last, first in ((17, 8), (26, 8), (27, 18), (119, 108), (196, 108), (197, 118), (277, 198)):
        remembered = slice(first, last + 1)
        ratio = np.std(draws[remembered], axis=0) / np.std(gradients[remembered], axis=0)
        np.testing.assert_allclose(diagonals[last], ratio, rtol=1e-9)
    np.testing.assert_array_equal(diagonals[340:], diagonals[339:-1])
    np.testing.assert_allclose(states.inverse_mass_factor, np.sqrt(diagonals), rtol=1e-12)
    # Averaging starts anew when learning ends, from its average, and does not aim higher.
    average = jax.tree.map(lambda x: x[338], states.dual_averaging)
    expected = dual_averaging_restart(dual_averaging_update(average, rates[339], 0.8))
    for rate in rates[340:]:
        expected = dual_averaging_update(expected, rate, 0.8)
    np.testing.assert_allclose(states.step_size[-1], jnp.exp(expected.log_average), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.promotion(rank="allow", dtype="standard")
def test_chains_from_far_away_arrive():
    """The level of the Nile starts a thousand away from where the flows have it."""
    posterior = ppl.condition(flow_of_the_nile.local_level, {"flow": flow_of_the_nile.flow})
    settings = {"num_warmup": 400, "num_draws": 100, "target_acceptance_rate": 0.95}
    with jax.enable_x64(False):
        result = mcmc(jax.random.key(2), posterior, len(flow_of_the_nile.flow), **settings)
    means = np.mean(result.draws["noise_sd"], axis=1)
    assert np.all((means > 80) & (means < 180)), means


def spread_of(draws, gradients):
    one = welford_init(jnp.zeros(draws.shape[1]))
    spread = Spread(one, one)
    for x, gradient in zip(jnp.asarray(draws), jnp.asarray(gradients), strict=True):
        positions = welford_update(spread.positions, x)
        spread = Spread(positions, welford_update(spread.gradients, gradient))
    return spread


def test_the_diagonal_of_a_normal_density_is_its_variance():
    sd = np.array([1e-3, 1.0, 40.0])
    draws = np.random.default_rng(3).normal(size=(20, 3)) * sd
    spread = spread_of(draws, -draws / sd**2)
    np.testing.assert_allclose(fisher_diagonal(spread, jnp.ones(3)), sd**2, rtol=1e-9)


CORRELATED = np.array([[1e-4, 0.9e-2, 0.0], [0.9e-2, 1.0, 3.0], [0.0, 3.0, 100.0]])


@pytest.mark.parametrize("num_draws", [12, 200])
def test_the_matrix_of_a_normal_density_is_its_covariance(num_draws):
    """With any draws, if there are more than dimensions; the covariance of draws is far from it."""
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(num_draws, 3)) @ np.linalg.cholesky(CORRELATED).T
    gradients = -draws @ np.linalg.inv(CORRELATED)
    matrix = fisher_matrix(draws, gradients, np.ones(3))
    sd = np.sqrt(np.diag(CORRELATED))
    error = np.max(np.abs(matrix - CORRELATED) / np.outer(sd, sd))
    assert error < 0.1
    assert np.max(np.abs(np.cov(draws.T) - CORRELATED) / np.outer(sd, sd)) > 2 * error


def test_directions_without_draws_keep_the_scale_of_the_diagonal():
    draws = np.random.default_rng(5).normal(size=(4, 6)) * np.geomspace(0.1, 10.0, 6)
    gradients = -draws / np.geomspace(0.1, 10.0, 6) ** 2
    scaled = fisher_matrix(draws, gradients, np.ones(6)) / np.outer(
        *[np.geomspace(0.1, 10.0, 6)] * 2
    )
    assert np.all(np.linalg.eigvalsh(scaled) > 0.3)
    assert np.all(np.linalg.eigvalsh(scaled) < 3.0)


def stretched(size, rank):
    """A covariance of low rank beside its diagonal, with few stretched and squeezed directions."""
    rng = np.random.default_rng(7)
    vectors = np.linalg.qr(rng.normal(size=(size, rank)))[0].T
    values = np.concatenate(
        [np.geomspace(30.0, 300.0, rank // 2), np.geomspace(1e-4, 0.02, rank // 2)]
    )
    return LowRankMatrix(np.full(size, 0.7), vectors, values)


def condition(matrix, covariance):
    """The condition number that a covariance has where a matrix is taken for it."""
    values = np.linalg.eigvals(np.linalg.solve(matrix, covariance)).real
    return values.max() / values.min()


@pytest.mark.parametrize(("size", "num_draws"), [(12, 60), (80, 200), (300, 100)])
def test_a_matrix_of_low_rank_finds_stretched_directions(size, num_draws):
    """Those of a normal density, from fewer draws than dimensions too; a diagonal cannot."""
    covariance, rng = stretched(size, 6).dense(), np.random.default_rng(8)
    draws = rng.normal(size=(num_draws, size)) @ np.linalg.cholesky(covariance).T
    gradients = -draws @ np.linalg.inv(covariance)
    found = fisher_low_rank(draws, gradients, np.ones(size), 10)
    assert [x.shape for x in found] == [(size,), (10, size), (10,)]
    assert condition(found.dense(), covariance) < 500
    np.testing.assert_allclose(found.diagonal(), np.diag(found.dense()), rtol=1e-10)
    scale = np.std(draws, 0) / np.std(gradients, 0)
    assert condition(np.diag(scale), covariance) > 1e5


@pytest.mark.parametrize(
    ("kind", "size", "largest"),
    [("dense", 80, 1.01), ("low_rank", 80, 20.0), ("low_rank", 8, 1e7), ("diagonal", 80, 1e7)],
)
def test_a_covariance_is_taken_as_far_as_a_kind_can_hold_it(kind, size, largest):
    covariance = stretched(size, 6).dense()
    matrix = restrict_covariance(covariance, kind)
    assert kind_of(matrix) == kind
    dense = matrix.dense() if kind == "low_rank" else matrix
    dense = np.diag(dense) if kind == "diagonal" else dense
    assert largest / 1e3 < condition(dense, covariance) < largest
    if kind == "diagonal" or size == 8:
        np.testing.assert_allclose(np.diag(dense), np.diag(covariance))


def test_few_draws_of_independent_coordinates_make_a_diagonal():
    """The largest of their sample's principal components have variances of 20 and more."""
    rng, scale = np.random.default_rng(9), np.geomspace(0.01, 100.0, 400)
    draws = rng.normal(size=(15, 400)) * scale
    found = fisher_low_rank(draws, -draws / scale**2, np.ones(400), 10)
    assert condition(found.dense(), np.diag(scale**2)) < 2.0
    scaled = draws / scale - np.mean(draws / scale, 0)
    assert np.linalg.svd(scaled)[1][0] ** 2 / 14 > 20


def test_a_matrix_of_low_rank_is_renewed_in_its_form():
    plan, rng = schedule(150), np.random.default_rng(6)
    metric = jax.tree.map(jnp.asarray, expand_diagonal(np.array([2.0, 3.0, 1.0]), "low_rank"))
    state = adaptation_init(jnp.asarray(0.1), metric)
    chains = jax.tree.map(lambda x: np.stack([x, x, x]), state)
    moved = rng.normal(size=(15, 2, 3)) * [1.0, 5.0, 1.0]
    after = renew_matrices(chains, [np.zeros((15, 2, 3)), np.full((15, 2, 3), np.nan), moved])
    matrices = [jax.tree.map(lambda x, i=i: x[i], after.inverse_mass_matrix) for i in range(3)]
    for matrix in matrices[:2]:  # nothing was learned
        np.testing.assert_allclose(matrix.dense(), np.diag([2.0, 3.0, 1.0]), rtol=1e-9, atol=1e-12)
    solved = matrices[2].dense() @ np.cov(moved[:, 1].T) @ matrices[2].dense()
    np.testing.assert_allclose(solved, np.cov(moved[:, 0].T), rtol=0.05, atol=0.05)
    roots = np.sqrt(after.inverse_mass_matrix.values)
    np.testing.assert_allclose(after.inverse_mass_factor.values, roots, rtol=1e-12)
    assert not is_due(plan, np.full(3, 35), after).any()


def test_a_matrix_of_low_rank_stretches_beyond_its_floats():
    """Its roots are what is stored; an improper flat prior makes them grow without end."""
    metric = expand_diagonal(np.array([1.0, 1.0], np.float32), "low_rank")._replace(
        scale=np.array([1e25, 1.0], np.float32)
    )
    state = adaptation_init(np.float32(0.1), jax.tree.map(jnp.asarray, metric))
    chains = jax.tree.map(lambda x: np.asarray(x)[None], state)
    moved = np.random.default_rng(6).normal(size=(15, 2, 2)).astype(np.float32)
    moved[:, :, 0] = 0.0
    after = renew_matrices(chains, [moved]).inverse_mass_matrix
    assert after.scale.dtype == np.float32
    np.testing.assert_allclose(after.scale[0, 0], 1e25, rtol=1.0)


@pytest.mark.parametrize("draw", [0.0, 1.0, np.nan])
def test_draws_that_do_not_move_keep_the_scales_of_before(draw):
    num_warmup, before = 150, np.array([[2.0, 0.0], [0.0, 3.0]])
    draws, rates = np.full((num_warmup, 2), draw), np.full(num_warmup, 0.8)
    states = run_dense(schedule(num_warmup), jnp.asarray(before), draws, draws, rates)
    np.testing.assert_allclose(states.inverse_mass_matrix[-1], before, rtol=1e-9, atol=1e-12)
    factor = states.inverse_mass_factor[-1]
    np.testing.assert_allclose(factor, np.sqrt(before), rtol=1e-9, atol=1e-12)


def test_a_coordinate_that_says_nothing_keeps_its_scale():
    empty = welford_init(jnp.zeros(3))
    positions = empty._replace(count=jnp.asarray(20.0), deviations=jnp.array([4.0, 0.0, 4.0]))
    gradients = positions._replace(deviations=jnp.array([0.0, 1.0, 1.0]))
    default = jnp.array([7.0, 8.0, 9.0])
    diagonal = fisher_diagonal(Spread(positions, gradients), default)
    np.testing.assert_allclose(diagonal, [7.0, 8.0, 2.0])


def test_matrices_of_several_chains_are_those_of_each():
    """Also where the windows of some are longer, or one of a batch cannot be learned."""
    rng, metric = np.random.default_rng(10), jnp.eye(4) * 2.0
    state = adaptation_init(jnp.asarray(0.1), metric)
    windows = [rng.normal(size=(n, 2, 4)) for n in (15, 15, 30, 15)] + [None]
    windows[1][3, 1, 2] = np.nan
    chains = jax.tree.map(lambda x: np.stack([x] * 5), state)
    together = renew_matrices(chains, windows)
    for i, window in enumerate(windows):
        alone = renew_matrices(jax.tree.map(lambda x, i=i: x[i : i + 1], chains), [window])
        here = jax.tree.map(lambda x, i=i: x[i : i + 1], together)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), here, alone)
        np.testing.assert_array_equal(here.window, 0 if window is None else 1)
    matrices = together.inverse_mass_matrix
    np.testing.assert_array_equal(matrices[1], metric)
    assert not np.allclose(matrices[0], matrices[3])
    assert not np.allclose(matrices[0], metric)
