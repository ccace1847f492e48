"""Chains do the same however they run: mapped over or alone, in batches, on one core or many."""

import collections
import dataclasses
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import HMC, NUTS
from inference.chains import chain_batch, chain_run, chain_threads, sampling
from inference.chains.chain import ChainPlan, stats_of
from inference.chains.chain_programs import compile_advance, constrain_rows
from inference.chains.initial_chain import make_unplaced_chain, place_chains
from inference.chains.sampling import sample
from inference.common.layout import Layout
from inference.initialization import start_search
from inference.initialization.initial_positions import Init, starting_points
from inference.runtime import xla_options
from inference.runtime.compiled_program import compile_once
from inference.warmup import dual_averaging
from inference.warmup.adaptation import schedule, set_first_diagonal
from tests.inference.targets import FakeTarget, needs_tricks

SETTINGS = {
    "num_warmup": 60,
    "num_draws": 40,
    "num_chains": 6,
    "mass_matrix": "diagonal",
    "target_acceptance_rate": 0.8,
}
KERNELS = {"NUTS": NUTS(), "HMC": HMC(num_steps=5)}


def density(x, data):
    return -0.5 * jnp.sum((x / data) ** 2) - 0.1 * jnp.sum(x[0] ** 4)


def target():
    return FakeTarget(density, (3,), jnp.array([1.0, 0.2, 5.0]))


def draw(kernel=NUTS(), **changes):
    return sample(jax.random.key(0), target(), kernel, **SETTINGS | changes)


def mapped(kernel, num_chains, plan, num_rows, target=target, first=None):
    """The chains of :func:`draw`, all moved together, and the gradients that this took."""
    layout = Layout.of(target().initial(jax.random.key(0)))
    kernel = dataclasses.replace(kernel, axis_name="chain")
    chain = make_unplaced_chain(kernel, layout, "diagonal", True)
    attempts = jnp.zeros(num_chains, jnp.int32)
    points = starting_points(
        jax.random.key(0), np.arange(num_chains), attempts, Init(), target(), layout
    )
    chains = place_chains(chain, *points)
    size = layout.size + len(stats_of(kernel, chain))
    rows = np.zeros((num_chains, num_rows + 1, size), layout.dtype)
    first = np.full(num_chains, plan.schedule.num_warmup if first is None else first, np.int32)
    constant = target(), kernel, plan, layout
    advance = compile_advance(chains, rows, first, np.int32(1), *constant)
    chains, rows, _ = advance(chains, rows, first, np.int32(1), *constant)
    start, progress = chains.progress.search.start, chains.progress
    guess = set_first_diagonal(progress.adaptation, np.asarray(start.gradient), "diagonal")
    chains = chains._replace(progress=progress._replace(adaptation=guess))
    return advance(chains, rows, first, np.int32(1 << 30), *constant)


def plan(num_warmup, num_draws, dtype):
    total = np.int32(num_warmup + num_draws)
    return ChainPlan(schedule(num_warmup), np.asarray(0.8, dtype), total)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_chains_mapped_over_draw_what_they_draw_alone(x64, name, monkeypatch):
    monkeypatch.setattr(start_search, "NUM_CANDIDATES", 1)  # as `mapped` starts them
    alone = draw(KERNELS[name], num_warmup=5).draws["x"]
    _, rows, _ = mapped(KERNELS[name], 6, plan(5, 40, jnp.float64), 40)
    # Other vector instructions round otherwise, and chaos makes that grow.
    np.testing.assert_allclose(rows[:, :10, :3], alone[:, :10], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_chains_mapped_over_do_not_wait_for_each_other():
    """In lock step, 64 chains take more than twice the gradients that they use."""
    chains, _, num_spent = mapped(NUTS(), 64, plan(300, 400, jnp.float32), 400)
    assert np.all(chains.progress.iteration >= 700)
    executed = 64 * np.max(num_spent) / np.sum(chains.num_gradients)
    assert 1 <= executed < 1.3


def narrow():
    """No diagonal helps: a step is as small as the standard deviation across, 1, and 500 along."""
    density = lambda x, data: -0.5 * (((x[0] - x[1]) / data) ** 2 + ((x[0] + x[1]) / 500) ** 2)  # noqa: E731
    return FakeTarget(density, (2,), jnp.array(1.0))


@pytest.mark.slow
@pytest.mark.parametrize(("max_depth", "most", "later"), [(10, 31, 127), (3, 7, 7)])
def test_trajectories_are_brief_until_the_first_window_ends(max_depth, most, later):
    kernel = NUTS(max_depth=max_depth)
    chains, rows, _ = mapped(kernel, 4, plan(200, 20, jnp.float32), 220, narrow, 0)
    num_steps = rows[:, :220, 2 + list(stats_of(kernel, chains)).index("num_steps")]
    end = schedule(200).window_ends[0]
    assert np.max(num_steps[:, :end]) == most
    assert np.max(num_steps[:, end:]) >= later


def test_no_trajectory_is_brief_for_longer_than_35_iterations():
    """A short warm-up has one window, which ends with it."""
    chains, rows, _ = mapped(NUTS(), 4, plan(55, 20, jnp.float32), 75, narrow, 0)
    num_steps = rows[:, :75, 2 + list(stats_of(NUTS(), chains)).index("num_steps")]
    assert schedule(55).window_ends[0] == 50
    assert np.max(num_steps[:, :35]) == 31
    assert np.max(num_steps[:, 35:50]) > 31


@pytest.mark.quick_rows("19")
@pytest.mark.parametrize("num_warmup", [0, 19])
def test_no_trajectory_is_brief_without_a_matrix_to_come(num_warmup):
    chains, rows, _ = mapped(NUTS(), 4, plan(num_warmup, 20, jnp.float32), 39, narrow, 0)
    num_steps = rows[:, :20, 2 + list(stats_of(NUTS(), chains)).index("num_steps")]
    assert np.max(num_steps) > 100


def test_the_number_of_cores_changes_nothing(monkeypatch):
    whole = draw()
    monkeypatch.setattr(chain_threads, "num_cores", lambda: 1)
    jax.tree.map(np.testing.assert_array_equal, draw(), whole)


def decomposed(x, data):
    return density(x, 1.0) + jnp.sum(jnp.linalg.cholesky(x[0] ** 2 + data))


@pytest.mark.quick_rows("4-1")
@pytest.mark.parametrize(("num_matrices", "num_idle"), [(1, 0), (4, 1)])
def test_a_core_is_left_to_decompositions_of_many_matrices(monkeypatch, num_matrices, num_idle):
    """With JAX 0.10 they wait for it, if all cores have a chain for ever."""
    threads = []

    def pool(num_threads):
        threads.append(num_threads)
        return ThreadPoolExecutor(num_threads)

    monkeypatch.setattr(chain_threads, "ThreadPoolExecutor", pool)
    monkeypatch.setattr(chain_threads, "num_cores", lambda: 2)
    target = FakeTarget(decomposed, (3,), jnp.stack([jnp.eye(20)] * num_matrices))
    draws = sample(jax.random.key(0), target, NUTS(), **SETTINGS | {"num_warmup": 9}).draws
    assert np.all(np.isfinite(draws["x"]))
    assert threads == [2 - num_idle * (jax.__version_info__ < (0, 12))]


def test_values_need_no_memory_for_all_rows_at_once():
    @dataclasses.dataclass(frozen=True)
    class Wide:
        def constrain(self, position):
            matrix = position["x"][:, None] * jnp.arange(10_000.0)[None]
            return {"x": jnp.sort(matrix, 1)[:, -1]}

    jax.tree_util.register_static(Wide)
    layout, rows = Layout.of({"x": jnp.zeros(3)}), np.zeros((1, 101, 3), np.float32)
    compiled = compile_once(constrain_rows, Wide(), layout, rows)
    assert compiled.executable.memory_analysis().temp_size_in_bytes < 10 * 3 * 10_000 * 4
    assert compiled(Wide(), layout, rows)["x"].shape == (1, 100, 3)


@pytest.mark.slow
def test_batches_of_chains_change_nothing_but_rounding(monkeypatch, x64):
    alone = draw(num_warmup=5)
    monkeypatch.setattr(sampling, "batch_size", lambda num_chains: num_chains // 3)
    batched = draw(num_warmup=5)
    np.testing.assert_allclose(
        batched.draws["x"][:, :10], alone.draws["x"][:, :10], rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("num_cores", [1, 2, 64])
def test_batches_are_alike_and_enough_for_all_cores(monkeypatch, num_cores):
    monkeypatch.setattr(chain_threads, "num_cores", lambda: num_cores)
    sizes = {n: chain_threads.batch_size(n) for n in (1, 4, 17, 61, 64, 1009, 1024)}
    assert all(n % size == 0 for n, size in sizes.items())
    assert all(n // size >= min(n, 16, 2 * num_cores) for n, size in sizes.items())
    assert sizes[17] == sizes[61] == 1
    assert sizes[1024] == (8 if num_cores == 64 else 64)


def data_density(x, data):
    return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.cosh(data * x[0]))


def moves(size, num_data=3, kind="diagonal"):
    """The program that moves a chain of so many coordinates on the CPU, as text."""
    target = FakeTarget(data_density, (size,), jnp.ones(num_data))
    with jax.default_device(jax.devices("cpu")[0]):  # whatever else there is
        layout = Layout.of(target.initial(jax.random.key(0)))
        kernel, position = NUTS(), np.zeros((1, size), np.float32)
        chain = make_unplaced_chain(kernel, layout, kind, True)
        width = size + len(stats_of(kernel, chain)) + size * (kind == "dense")
        chain = place_chains(chain, np.zeros((1, 2), np.uint32), position)
        first, budget, rows = np.zeros(1, np.int32), np.int32(8), np.zeros((1, 11, width))
        rest = budget, target, kernel, plan(5, 5, jnp.float32), layout
        return compile_advance(chain, rows.astype(np.float32), first, *rest).as_text()


@pytest.mark.quick_rows("60-dense")
@needs_tricks
@pytest.mark.parametrize(("size", "kind"), [(3, "diagonal"), (200, "diagonal"), (60, "dense")])
def test_all_of_a_small_chain_is_one_kernel_of_the_cpu(size, kind):
    """XLA has understood the option; where it does not, all of this is many times slower."""
    text = moves(size, kind=kind)
    entry = text[text.index("\nENTRY") :]
    assert "xla_cpu_small_call" in entry
    assert " while(" not in entry


@pytest.mark.slow
@needs_tricks
def test_short_sums_are_not_split_on_the_cpu(monkeypatch):
    """XLA has understood this option, too."""
    assert "reduce-window" not in moves(3, num_data=2000)
    monkeypatch.setattr(xla_options, "_MAX_SUMMED_TERMS", 2000)
    assert "reduce-window" in moves(3, num_data=2001)


@pytest.mark.slow
@pytest.mark.parametrize("num_batches", [1, 6], ids=["one batch", "batches"])
def test_windows_hold_draws_and_gradients_of_their_iterations(monkeypatch, x64, num_batches):
    """Rows are fewer than the longest window, so that it is taken in pieces."""
    windows, original = collections.defaultdict(list), chain_batch.renew_matrices
    monkeypatch.setattr(sampling, "batch_size", lambda num_chains: num_chains // num_batches)
    monkeypatch.setattr(chain_run, "_MAX_ROWS", 100)

    def renewed(state, due):
        for window, number in zip(due, state.window, strict=True):
            if window is not None:
                windows[int(number)].append(window)
        return original(state, due)

    monkeypatch.setattr(chain_batch, "renew_matrices", renewed)
    samples = draw(mass_matrix="dense", num_warmup=400, num_draws=7)
    assert samples.draws["x"].shape == (6, 7, 3)
    assert {i: [len(x) for x in xs] for i, xs in windows.items()} == {
        i: [n] * 6 for i, n in enumerate([15, 30, 60, 225])
    }
    gradient = jax.vmap(jax.grad(density), (0, None))
    for window in windows[3]:
        assert np.mean(np.any(np.diff(window[:, 0], axis=0) != 0, axis=1)) > 0.8
        np.testing.assert_allclose(gradient(window[:, 0], target().data), window[:, 1], rtol=1e-9)


def test_the_acceptance_rate_is_the_one_asked_for(monkeypatch):
    """By the average over 6 chains; with steps that go on to move much it is nearer to 1."""
    normal = FakeTarget(lambda x, scale: -0.5 * jnp.sum((x / scale) ** 2), (3,), target().data)
    changes = {"mass_matrix": "dense", "num_warmup": 600, "num_draws": 600}

    def rate():
        samples = sample(jax.random.key(0), normal, NUTS(), **SETTINGS | changes)
        return np.mean(samples.stats["acceptance_rate"])

    assert abs(rate() - 0.8) < 0.03
    monkeypatch.setattr(dual_averaging, "_SHRINKAGE", 0.03)
    monkeypatch.setattr(dual_averaging, "_LATE_SHRINKAGE", 0.03)
    assert rate() > 0.87


@pytest.mark.slow
def test_a_matrix_of_low_rank_follows_a_narrow_direction():
    """Of 120 coordinates whose sum is known a hundred times better than each of them."""

    def known_sum(x, data):
        return -0.5 * jnp.sum((x / data) ** 2) - 5000.0 * jnp.mean(x) ** 2 * x.size

    narrow = FakeTarget(known_sum, (120,), jnp.ones(120))
    settings = SETTINGS | {"num_warmup": 250, "num_draws": 100, "num_chains": 2}

    def num_steps(kind):
        settings["mass_matrix"] = kind
        return np.mean(sample(jax.random.key(0), narrow, NUTS(), **settings).stats["num_steps"])

    assert num_steps("low_rank") < 20
    assert num_steps("diagonal") > 60
