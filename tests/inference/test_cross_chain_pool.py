"""Many chains learn one mass matrix from the draws of all, but for those that have gone astray."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import NUTS
from inference.chains import chain_run, chain_threads
from inference.chains.chain_batch import renew_together
from inference.chains.sampling import sample
from inference.warmup import cross_chain_pool, fisher_mass_matrix
from inference.warmup.adaptation import adaptation_init, schedule
from inference.warmup.cross_chain_pool import is_pooled, pool_windows, thin_windows
from inference.warmup.fisher_mass_matrix import fisher_matrix, renew_matrices
from tests.inference.targets import FakeTarget

SETTINGS = {
    "num_warmup": 90,
    "num_draws": 20,
    "num_chains": 32,
    "mass_matrix": "dense",
    "target_acceptance_rate": 0.8,
}


def chains(num_chains, seed=0):
    """Draws and gradients of chains around places of their own, and log densities."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(num_chains, 12, 2, 3))
    places = rng.normal(size=(num_chains, 1, 2, 3)) * 10
    return windows + places, rng.normal(size=(num_chains, 12)) - 50


def test_the_pool_holds_deviations_from_the_means_of_chains():
    windows, log_densities = chains(40)
    draws, agrees = pool_windows(windows, log_densities)
    assert agrees.all()
    deviations = windows - np.mean(windows, 1, keepdims=True)
    np.testing.assert_allclose(draws, deviations.reshape(-1, 2, 3), rtol=1e-12)


def test_chains_that_have_gone_astray_are_left_out():
    windows, log_densities = chains(40)
    log_densities[3] -= 20.0
    log_densities[4] += 20.0
    log_densities[5] -= 2.0
    windows[6, 2, 1, 0] = np.inf
    windows[7, 5, 0, 1] = np.nan
    draws, agrees = pool_windows(windows, log_densities)
    np.testing.assert_array_equal(np.flatnonzero(~agrees), [3, 4, 6, 7])
    assert draws.shape == (36 * 12, 2, 3)
    assert np.all(np.isfinite(draws))


def test_a_pool_may_be_empty_or_of_chains_that_stand_still():
    windows, log_densities = chains(32)
    assert pool_windows(np.full_like(windows, np.nan), log_densities)[0].shape == (0, 2, 3)
    assert pool_windows(windows, np.zeros_like(log_densities))[1].all()


@pytest.mark.parametrize(
    ("num_draws", "num_chains", "most_draws", "expected"),
    [(50, 10, 1 << 15, 50), (50, 1000, 1 << 15, 5), (50, 100, 2000, 20)],
)
def test_rows_are_thinned_evenly_where_there_are_many(
    monkeypatch, num_draws, num_chains, most_draws, expected
):
    monkeypatch.setattr(cross_chain_pool, "_MAX_NUMBERS", 10_000)
    monkeypatch.setattr(cross_chain_pool, "_MAX_DRAWS", most_draws)
    window = np.arange(2.0 * num_draws).reshape(num_draws, 2)
    rows, others = thin_windows([window, window + 1], num_chains)
    np.testing.assert_array_equal(others, rows + 1)
    assert len(rows) == expected
    np.testing.assert_array_equal(rows[[0, -1]], window[[0, -1]])
    assert np.ptp(np.diff(rows[:, 0])) <= 2
    assert len(thin_windows([window], 10**6)[0]) == 4


def test_chains_with_one_window_learn_what_one_would_alone():
    rng = np.random.default_rng(0)
    target = FakeTarget(lambda x, _: -0.5 * jnp.sum(x**2), (3,), jnp.ones(3))
    state = start_of(target, 5)
    shared, own = rng.normal(size=(2, 15, 2, 3))
    found = renew_matrices(state, [shared, own, None, shared, shared]).inverse_mass_matrix
    copies = renew_matrices(state, [shared.copy(), own, None, shared.copy(), shared.copy()])
    np.testing.assert_allclose(found, copies.inverse_mass_matrix, rtol=1e-6)
    np.testing.assert_array_equal(found[0], found[3])
    np.testing.assert_array_equal(found[2], state.inverse_mass_matrix[2])
    assert np.all(found[0] != found[1])


@pytest.mark.parametrize(
    ("num_draws", "is_empty", "learns_alone"),
    [(14, False, False), (15, False, True), (5, True, True)],
    ids=["short", "as long as of a chain alone", "of no chain"],
)
def test_a_chain_astray_learns_from_its_own_draws(num_draws, is_empty, learns_alone):
    """In 5 dimensions, of two groups of two chains the last one has gone astray."""
    rng = np.random.default_rng(0)
    target = FakeTarget(lambda x, _: -0.5 * jnp.sum(x**2), (5,), jnp.ones(5))
    everyone, own = (
        rng.normal(size=(0 if is_empty else 60, 2, 5)),
        rng.normal(size=(4, num_draws, 2, 5)),
    )
    learned = []
    groups = [
        SimpleNamespace(
            chains=SimpleNamespace(progress=SimpleNamespace(adaptation=start_of(target, 2))),
            first=np.zeros(2),
            window=lambda i, k=k: (own[2 * k + i], None),
            learn=lambda state, which: learned.append(state),
        )
        for k in range(2)
    ]
    renew_together(groups, everyone, np.array([True, True, True, False]) & (not is_empty))
    matrices = np.concatenate([state.inverse_mass_matrix for state in learned])
    expected = renew_matrices(start_of(target, 1), [own[3] if learns_alone else None])
    np.testing.assert_allclose(matrices[3], expected.inverse_mass_matrix[0], rtol=1e-6)
    np.testing.assert_array_equal(np.concatenate([state.window for state in learned]), 1)
    assert np.array_equal(matrices[0], matrices[2]) != is_empty
    assert np.all(np.isfinite(matrices))


def start_of(target, num_chains):
    state = adaptation_init(jnp.asarray(0.1), jnp.eye(target.shape[0]))
    return jax.tree.map(lambda x: np.stack([x] * num_chains), state)


@pytest.mark.slow
def test_all_groups_of_chains_learn_from_one_decomposition(monkeypatch):
    lengths = []

    def counted(draws, *rest):
        lengths.append(len(draws))
        return fisher_matrix(draws, *rest)

    monkeypatch.setattr(fisher_mass_matrix, "fisher_matrix", counted)
    draw(num_chains=64)
    of_many = np.array(lengths) > SETTINGS["num_warmup"]
    assert np.sum(of_many) == np.sum(schedule(90, True).window_ends > 0) == 2


SCALES = np.geomspace(0.1, 10.0, 30)
ROTATION = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
COVARIANCE = ROTATION @ np.diag(SCALES**2) @ ROTATION.T


def quartic(x, data):
    """Along 30 directions of some scales; no normal density, of which 31 draws tell all."""
    z = (data.T @ x) / jnp.asarray(SCALES, x.dtype)
    return -jnp.sum(0.5 * z**2 + 0.1 * z**4)


def draw(**changes):
    target = FakeTarget(quartic, (30,), jnp.asarray(ROTATION))
    return sample(jax.random.key(0), target, NUTS(), **SETTINGS | changes)


def spread_of_scales(matrices):
    """By what factor the scales of directions differ that matrices should make alike."""
    scaled = ROTATION / SCALES
    values = np.linalg.eigvalsh(scaled.T @ matrices @ scaled)
    return np.sqrt(values[..., -1] / values[..., 0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "low_rank"])
def test_from_32_chains_on_all_learn_one_matrix(x64, kind):
    many = draw(mass_matrix=kind).inverse_mass_matrix
    few = draw(mass_matrix=kind, num_chains=31).inverse_mass_matrix
    for x in jax.tree.leaves(many):
        np.testing.assert_array_equal(x, np.broadcast_to(x[0], x.shape))
    assert not any(np.array_equal(x[0], x[1]) for x in jax.tree.leaves(few)[:1])
    if kind == "dense":
        assert spread_of_scales(many[0]) < 1.5
        assert np.median(spread_of_scales(few)) > 3


@pytest.mark.slow
def test_many_chains_draw_what_they_should(x64):
    """Of a distribution whose directions are independent: moments by quadrature."""
    draws = draw(num_chains=64, num_warmup=150, num_draws=100).draws["x"] @ ROTATION / SCALES
    z = np.linspace(-8, 8, 4001)
    weights = np.exp(-0.5 * z**2 - 0.1 * z**4)
    moments = [np.sum(weights * z**k) / np.sum(weights) for k in (2, 4)]
    error = np.sqrt(moments[1] - moments[0] ** 2) / np.sqrt(64 * 100 * 0.3)
    # 30 directions; 5 standard errors of effective draws, of which at least 0.3 are independent.
    np.testing.assert_allclose(np.mean(draws**2, (0, 1)), moments[0], rtol=0, atol=5 * error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "value"),
    [(chain_threads, "num_cores", lambda: 1), (chain_run, "_MAX_ROWS", 7)],
    ids=["one core", "few rows"],
)
def test_what_runs_when_changes_nothing(monkeypatch, module, name, value):
    whole = draw(num_draws=3)
    monkeypatch.setattr(module, name, value)
    jax.tree.map(np.testing.assert_array_equal, draw(num_draws=3), whole)


def of_incomes(x, data):
    """A regression of 200 wages on a constant and on numbers around 50000."""
    incomes, wages = data
    error = wages - x[0] - x[1] * incomes
    return -0.5 * (x[0] / 10) ** 2 - 0.5 * x[1] ** 2 - 0.5 * jnp.sum(error**2) / 0.3**2


def tiny(x, data):
    return -0.5 * jnp.sum((x / data) ** 2)


def incomes():
    rng = np.random.default_rng(0)
    x = rng.normal(50_000, 15_000, 200)
    return jnp.float32(x), jnp.float32(1 + 2e-5 * x + rng.normal(0, 0.3, 200))


FAR_STARTS = {
    "one of 1e-6": (tiny, 2, jnp.array([1e-6, 1.0])),
    "twenty of 3e-5": (tiny, 20, jnp.full(20, 3e-5)),
    "regression": (of_incomes, 2, incomes()),
}


@pytest.mark.filterwarnings("ignore:chains? .* far from the others:RuntimeWarning")
@pytest.mark.quick_rows("1000-one of 1e-6")
@pytest.mark.parametrize("case", FAR_STARTS.values(), ids=FAR_STARTS)
@pytest.mark.parametrize("num_warmup", [300, 1000])
def test_many_chains_arrive_from_millions_of_deviations_away(case, num_warmup):
    """In single precision: none is left where rounding of its energy is all that it sees.

    Means of chains that arrive differ by a few tenths of a deviation.
    """
    log_density, size, data = case
    target = FakeTarget(log_density, (size,), data)
    for seed in range(3):
        changes = SETTINGS | {"num_warmup": num_warmup, "num_draws": 100}
        draws = sample(jax.random.key(seed), target, NUTS(), **changes).draws["x"].astype(float)
        means, deviations = np.mean(draws, 1), np.median(np.std(draws, 1), 0)
        assert np.max(np.abs(means - np.median(means, 0)) / deviations) < 3
        assert np.min(np.std(draws, 1) / deviations) > 0.3


def two_modes(x, data):
    """A wide mode at 0 and one at `data` that is a thousand times narrower and has less mass."""
    wide = -0.5 * jnp.sum(x**2)
    narrow = -0.5 * jnp.sum((x - data) ** 2) * 1e6 - 30
    return jnp.logaddexp(wide, narrow)


@pytest.mark.quick_rows("broken")
@pytest.mark.parametrize("leaves_out", [True, False], ids=["left out", "broken"])
def test_chains_in_another_mode_learn_alone(x64, monkeypatch, leaves_out):
    if not leaves_out:
        monkeypatch.setattr(cross_chain_pool, "_MAX_DEVIATIONS", np.inf)
    far = jnp.full(3, 100.0)
    target = FakeTarget(two_modes, (3,), far)
    places = np.where(np.arange(32)[:, None] < 4, far, 0.0)
    samples = sample(jax.random.key(0), target, NUTS(), **SETTINGS, init={"x": places})
    matrices = samples.inverse_mass_matrix
    assert np.array_equal(matrices[0], matrices[4]) != leaves_out
    scales = np.sqrt(np.diagonal(matrices, 0, 1, 2))
    if leaves_out:
        np.testing.assert_allclose(scales[:4], 1e-3, rtol=0.3)
        np.testing.assert_allclose(scales[4:], 1.0, rtol=0.3)


def test_only_chains_that_can_wait_learn_matrices_together():
    assert is_pooled(32, "dense", is_mapped=False)
    assert is_pooled(32, "low_rank", is_mapped=False)
    assert not is_pooled(31, "dense", is_mapped=False)
    assert not is_pooled(32, "dense", is_mapped=True)
    assert not is_pooled(32, "diagonal", is_mapped=False)
