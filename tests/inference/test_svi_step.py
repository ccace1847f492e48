"""svi by given batches: steps of one's own, loaders, callbacks, interrupts."""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import inference
import ppl
from inference import FullRank, svi, svi_step
from inference.drivers.svi_problem import problem_of
from inference.runtime.compiled_program import compile_program
from inference.variational import svi_loop

NUM_ROWS, SIZE = 200, 10
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM_ROWS, 2)).astype(np.float32)
Y = (X @ np.array([0.5, -1.0]) + RNG.normal(size=NUM_ROWS)).astype(np.float32)
SETTINGS = {"guide": FullRank(), "optimizer": optax.adam(0.02)}
KEY = jax.random.key(0)


def regression(key, x, num_rows):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")
    likelihood = lambda key: ppl.sample(key, dist.Normal(x @ w, 1.0), name="y")  # noqa: E731
    ppl.scale(likelihood, num_rows / len(x))(key)


def posterior(key, x, y, num_rows=NUM_ROWS):
    return ppl.condition(regression, {"y": y})(key, x, num_rows)


def rows(step):
    some = np.arange(SIZE * step, SIZE * (step + 1)) % NUM_ROWS
    return X[some], Y[some]


def load(num=None):
    return map(rows, itertools.count() if num is None else range(num))


def fit(num_steps=120, **more):
    batches = {"batches": load()} if "batches" not in more else {}
    return svi(KEY, posterior, X, Y, num_steps=num_steps, **SETTINGS | batches | more)


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_steps_of_ones_own_are_those_of_svi():
    """Bit for bit: the states, the ELBO of each step, and the result of a state."""
    init, update = svi_step(posterior, **SETTINGS)
    state, elbos = init(KEY, *rows(0)), []
    for x, y in load(120):
        state, info = update(state, x, y)
        elbos.append(info.elbo)
        assert info.is_finite
    result = fit()
    assert_same(state, result.state)
    assert_same(elbos, list(result.elbos))
    again = svi(KEY, posterior, X, Y, num_steps=0, state=state, **SETTINGS)
    assert_same((again.parameters, again.draws), (result.parameters, result.draws))
    assert again.elbos.shape == (0,)
    assert again.elbo == result.elbo
    more = svi(KEY, posterior, X, Y, num_steps=10, state=state, batches=load(), **SETTINGS)
    for x, y in load(10):
        state, _ = update(state, x, y)
    assert_same(state, more.state)


def test_all_data_in_each_batch_is_svi_without_batches():
    by_batches = fit(batches=[(X, Y)])
    plain = svi(KEY, posterior, X, Y, num_steps=120, **SETTINGS)
    close = lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5)  # noqa: E731  # two programs
    jax.tree.map(close, (by_batches.state, by_batches.draws), (plain.state, plain.draws))


@pytest.mark.slow
def test_batches_given_are_those_that_a_function_draws():
    def batch(key, x, y):
        some = jax.random.randint(key, (SIZE,), 0, NUM_ROWS)
        return x[some], y[some]

    drawn = svi(KEY, posterior, X, Y, batch=batch, num_steps=120, **SETTINGS)
    target = ppl.unconstrain(posterior, X, Y)
    problem = problem_of(KEY, target, FullRank(), inference.ELBO(), None, 1, batch)
    at = jax.jit(lambda step: problem.at(jnp.asarray(drawn.state.seed), step).target.data)
    given = fit(batches=[tuple(at(jnp.uint32(step))) for step in range(120)])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), given.state, drawn.state)


def test_a_loop_over_new_data_compiles_nothing():
    init, update = svi_step(posterior, **SETTINGS)
    state = init(KEY, *rows(0))
    state, _ = update(state, *rows(0))
    misses = compile_program.cache_info().misses
    for x, y in load(3):
        state, _ = update(state, jnp.asarray(x + 1), y)
    other = svi_step(posterior, **SETTINGS).update  # which has no start of its own
    state, _ = other(state, *rows(7))
    assert compile_program.cache_info().misses == misses
    state, _ = update(state, X[:5], Y[:5])  # a batch of another size
    assert compile_program.cache_info().misses == misses + 1
    assert int(state.step) == 6


def test_an_update_may_be_jitted_and_scanned():
    init, update = svi_step(posterior, **SETTINGS)
    start = state = init(KEY, *rows(0))
    for x, y in load(5):
        state, _ = update(state, x, y)
    batches = jax.tree.map(lambda *x: jnp.stack(x), *load(5))
    scanned, _ = jax.jit(lambda s: jax.lax.scan(lambda s, xy: update(s, *xy), s, batches))(start)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), scanned, state)


@pytest.mark.slow
def test_a_step_that_is_not_finite_leaves_the_state():
    init, update = svi_step(posterior, **SETTINGS)
    state = init(KEY, *rows(0))
    after, info = update(state, X[:SIZE] + np.nan, Y[:SIZE])
    assert not info.is_finite
    assert_same(after, state)
    broken = [rows(0), rows(1), (X[:SIZE] + np.nan, Y[:SIZE]), rows(3)]
    with pytest.warns(RuntimeWarning, match=r"stopped at step 2.*site 'y' has log probability nan"):
        result = fit(batches=broken)
    assert_same(result.state, fit(num_steps=2).state)


class Loader:
    """An iterable that starts again, as loaders do."""

    def __init__(self, num):
        self.num, self.epochs = num, 0

    def __iter__(self):
        self.epochs += 1
        return load(self.num)


def test_a_loader_starts_again_and_an_iterator_ends():
    loader = Loader(50)
    result = fit(batches=loader)
    assert loader.epochs == 3
    assert len(result.elbos) == 120
    batches = load()
    assert len(fit(num_steps=3, batches=batches).elbos) == 3
    np.testing.assert_array_equal(next(batches)[0], rows(3)[0])  # and takes no batch too many
    assert len(fit(batches=load(7)).elbos) == 7


def test_a_step_is_started_before_the_one_before_it_is_looked_at(monkeypatch):
    """If that one is not finite, the other is lost, and its batch is not blamed."""
    events = []

    def told(name):
        method = getattr(svi_loop._SVIRun, name)
        return lambda *arguments: (events.append(name[:5]), method(*arguments))[1]

    for name in ("start_step", "finish_step"):
        monkeypatch.setattr(svi_loop._SVIRun, name, told(name))
    batches = (events.append("batch") or rows(step) for step in range(3))
    fit(batches=batches)
    turn = ["batch", "start", "finis"]
    assert events == ["batch", "start", "start", *turn, *turn, "finis"]
    batches = [rows(0), (X[:SIZE] + np.nan, Y[:SIZE]), rows(2), rows(3)]
    with pytest.warns(RuntimeWarning, match=r"stopped at step 1.*site 'y' has log probability nan"):
        result = fit(batches=batches)
    assert_same(result.state, fit(num_steps=1).state)


def test_batches_may_be_lists_tensors_and_single_arguments():
    expected = fit(num_steps=3).state
    assert_same(fit(num_steps=3, batches=map(list, load())).state, expected)

    class Tensor:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    tensors = ([Tensor(x), Tensor(y)] for x, y in load())
    assert_same(fit(num_steps=3, batches=tensors).state, expected)
    together = lambda key, pair: posterior(key, pair["x"], pair["y"])  # noqa: E731
    pairs = ({"x": x, "y": y} for x, y in load())
    single = svi(KEY, together, batches=pairs, num_steps=3, **SETTINGS)
    assert_same(single.state, expected)


def test_torch_tensors_are_batches():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    loader = torch.utils.data.DataLoader(data, batch_size=SIZE)
    assert_same(fit(batches=loader).state, fit().state)


@pytest.mark.slow
def test_without_arguments_the_first_batch_judges():
    result = svi(KEY, posterior, batches=load(), num_steps=150, **SETTINGS)
    assert result.batching == "first"
    assert_same(result.state, fit(num_steps=150).state)
    by_first = svi(KEY, posterior, *rows(0), state=result.state, num_steps=0, **SETTINGS)
    assert_same(result.log_density, by_first.log_density)
    assert any("are of the first batch alone" in x for x in result.summary().problems)
    keyword = svi(KEY, posterior, batches=load(), num_steps=3, num_rows=SIZE, **SETTINGS)
    assert keyword.elbo > result.elbo + 50  # it has a twentieth of the likelihood


@pytest.mark.parametrize("fed", [True, False])
def test_a_callback_is_called_at_every_hundredth_step(fed):
    told = []
    settings = {"callback": lambda *now: told.append(now), "batches": load() if fed else None}
    first = fit(num_steps=250, **settings)
    steps, means, states = zip(*told, strict=True)
    assert steps == (100, 200, 250)
    blocks = [first.elbos[:100], first.elbos[100:200], first.elbos[200:]]
    np.testing.assert_allclose(means, [np.mean(x) for x in blocks], rtol=1e-5)
    assert [int(state.step) for state in states] == [100, 200, 250]
    assert_same(states[-1], first.state)
    silent = fit(num_steps=250, **settings | {"callback": None, "batches": load() if fed else None})
    assert_same(silent.state, first.state)
    told.clear()
    fit(num_steps=60, state=first.state, **settings)
    assert [step for step, *_ in told] == [300, 310]


def test_a_callback_ends_the_run():
    assert len(fit(num_steps=500, callback=lambda step, *_: step == 200).elbos) == 200
    assert len(fit(num_steps=300, callback=lambda *_: 1).elbos) == 300  # which is not True
    told = []
    fit(batches=load(130), num_steps=500, callback=lambda step, *_: told.append(step))
    assert told == [100, 130]


@pytest.mark.parametrize("where", ["loader", "callback"])
def test_an_interrupt_keeps_the_steps(where):
    def interrupted():
        yield from load(100)
        raise KeyboardInterrupt

    def interrupt(*_):
        raise KeyboardInterrupt

    more = {"batches": interrupted()} if where == "loader" else {"callback": interrupt}
    with pytest.warns(RuntimeWarning, match=r"the result is that of \d+ steps of 120") as warned:
        result = fit(**more)
    (num_steps,) = map(int, re.findall(r"(\d+) steps of", str(warned[0].message)))
    assert num_steps == len(result.elbos) == (99 if where == "loader" else 100)
    assert_same(result.state, fit(num_steps=num_steps).state)


@pytest.mark.slow
def test_batches_that_are_noise_advise_a_learning_rate():
    result = dataclasses.replace(fit(num_steps=300), pareto_k=np.float64(2.0))
    (problem,) = (x for x in result.summary().problems if "Pareto k is 2.00" in x)
    assert "cosine_decay_schedule(1e-2, 300)). If k stays, use a flow" in problem
    plain = dataclasses.replace(result, batching="")
    assert "learning rate" not in "".join(plain.summary().problems)
    rising = dataclasses.replace(result, elbos=np.arange(300.0))
    (problem,) = (x for x in rising.summary().problems if "the ELBO still moves" in x)
    assert "a constant learning rate never averages out" in problem


REFUSED = {
    "an array": ({"batches": X}, TypeError, "batches must be an iterable, such as a data loader"),
    "a dict": ({"batches": {"x": X}}, TypeError, "got dict"),
    "a function": ({"batches": load}, TypeError, "got the function <function load"),
    "a number": ({"batches": 3}, TypeError, "got int"),
    "none": ({"batches": []}, ValueError, "batches is empty"),
    "both": (
        {"batches": [(X, Y)], "batch": lambda key, *args: args},
        TypeError,
        "batch and batches exclude each other",
    ),
    "too few": ({"batches": [(X,)]}, TypeError, "cannot be called"),
    "callback": ({"callback": 3}, TypeError, "callback must be a function of (step, elbo, state)"),
    "no step": ({"num_steps": 0}, ValueError, "num_steps must be an integer of at least 1"),
    "objective": (
        {"objective": inference.ImportanceWeighted(), "num_particles": 10},
        ValueError,
        "batch goes with objectives that are linear",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    settings, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        fit(**settings)


@pytest.mark.slow
def test_a_step_refuses_what_svi_refuses():
    init, update = svi_step(posterior, **SETTINGS)
    with pytest.raises(TypeError, match="state must be one of init"):
        update(None, *rows(0))
    with pytest.raises(TypeError, match="key must be one key"):
        init(3, *rows(0))
    with pytest.raises(TypeError, match="cannot be called"):
        init(KEY, X)
    with pytest.raises(ValueError, match="num_particles must be"):
        svi_step(posterior, num_particles=0)
    with pytest.raises(TypeError, match="guide must be a guide"):
        svi_step(posterior, guide=FullRank)
    with pytest.raises(ValueError, match="no starting point"):
        init(KEY, X + np.nan, Y)
    with pytest.raises(ValueError, match="latent sites of a batch"):
        svi(KEY, lambda key, n: ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x"), 3,
            batches=[2])  # fmt: skip


def test_arguments_of_the_model_may_have_names_of_the_driver():
    """Those that batches give come by position, and a step has no keywords of its own."""

    def of_batch(key, batch, init=1.0):
        ppl.condition(regression, {"y": batch[1]})(key, batch[0], init)

    loader = [((x, y),) for x, y in load(2)]
    assert svi(KEY, of_batch, batches=loader, num_steps=2, num_draws=1).elbos.shape == (2,)
    init, update = svi_step(of_batch)
    _, info = update(init(KEY, rows(0), init=2.0), rows(1), init=2.0)
    assert info.is_finite


def test_a_step_goes_on_from_a_file_and_refuses_another_fit(tmp_path):
    path = tmp_path / "fit.npz"
    result = fit(3)
    result.save(path)
    _, update = svi_step(posterior, **SETTINGS)
    expected, _ = update(result.state, *rows(3))
    found, _ = update(inference.SVIResult.load(path).state, *rows(3))
    assert_same(found.parameters, expected.parameters)
    with pytest.raises(ValueError, match="state must be that of a result with the same sites"):
        svi_step(posterior)[1](result.state, *rows(3))
