"""mcmc drives any kernel with init and step: no gradient, momentum, step size or energy needed."""

import dataclasses
import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.flatten_util import ravel_pytree

import distributions as dist
import ppl
from inference import Kernel, MCMCResult, loo, mcmc, mcse_mean
from inference.chains import chain_run, chain_threads, step_run
from inference.chains.step_sampling import sample_by_steps, with_density
from inference.kernels.hamiltonian.leapfrog import State as HamiltonianState
from inference.runtime.devices import share_chains

# Of ten estimates, one is beyond by chance in a run of 6,000.
Z = 4.3


class Place(NamedTuple):
    position: Any
    log_density: jax.Array


class Metropolis(NamedTuple):
    acceptance_rate: jax.Array
    is_accepted: jax.Array


class Nothing(NamedTuple):
    pass


class Position(NamedTuple):
    position: Any


def kernel(cls):
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


@kernel
class RandomWalk:
    """Random-walk Metropolis; `power` is 1, or it is of another density."""

    log_density: Any = None
    scale: Any = 2.0
    power: Any = 1.0

    def init(self, position):
        return Place(position, self.log_density(position))

    def step(self, key, state):
        vector, unravel = ravel_pytree(state.position)
        for_noise, for_choice = random.split(key)
        noise = random.normal(for_noise, vector.shape, vector.dtype)
        proposal = self.init(unravel(vector + jnp.asarray(self.scale, vector.dtype) * noise))
        ratio = jnp.asarray(self.power, vector.dtype) * (proposal.log_density - state.log_density)
        chance = jnp.exp(jnp.minimum(ratio, 0))
        is_accepted = random.uniform(for_choice, (), vector.dtype) < chance
        new = jax.tree.map(lambda a, b: jnp.where(is_accepted, a, b), proposal, state)
        return new, Metropolis(chance, is_accepted)


@kernel
class Slice:
    """A slice sampler of one coordinate after the other, that steps out and shrinks (Neal 2003)."""

    log_density: Any = None
    width: Any = 3.0

    def init(self, position):
        return Position(position)

    def step(self, key, state):
        vector, unravel = ravel_pytree(state.position)
        width = jnp.asarray(self.width, vector.dtype)
        keys = random.split(key, vector.size)
        for i in range(vector.size):
            vector = self._move(keys[i], vector, i, unravel, width)
        return Position(unravel(vector)), Nothing()

    def _move(self, key, vector, i, unravel, width):
        density = lambda x: self.log_density(unravel(vector.at[i].set(x)))  # noqa: E731
        first, second, third = random.split(key, 3)
        level = density(vector[i]) - random.exponential(first, (), vector.dtype)
        low = vector[i] - width * random.uniform(second, (), vector.dtype)
        low, high = (
            lax.while_loop(lambda x: density(x) > level, lambda x, d=d: x + d, start)
            for start, d in ((low, -width), (low + width, width))
        )

        def shrink(carry):
            low, high, x, key = carry
            key, inner = random.split(key)
            low, high = jnp.where(x < vector[i], x, low), jnp.where(x < vector[i], high, x)
            new = low + (high - low) * random.uniform(inner, (), vector.dtype)
            return low, high, new, key

        key, inner = random.split(third)
        start = low + (high - low) * random.uniform(inner, (), vector.dtype)
        carry = lax.while_loop(lambda c: density(c[2]) < level, shrink, (low, high, start, key))
        return vector.at[i].set(carry[2])


@kernel
class Gibbs:
    """Draws `a` and `b` of :func:`pair` from their conditionals; it sees no density at all."""

    noise: Any = 0.8

    def init(self, position):
        return Position(position)

    def step(self, key, state):
        b = state.position["b"]
        z = random.normal(key, (2,), b.dtype)
        noise = jnp.asarray(self.noise, b.dtype)
        a = 0.6 * b + noise * z[0]
        return Position({"a": a, "b": 0.6 * a + noise * z[1]}), Nothing()


def pair(key):
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    ppl.sample(key, dist.Normal(0.6 * a, 0.8), name="b")


def normal(key):
    """Given y = 5, `mu` has mean 1.8 and variance 5.76; `tau` has its prior."""
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    ppl.sample(key, dist.LogNormal(0.0, 1.0), name="tau")
    ppl.sample(key, dist.Normal(mu, 4.0), name="y")


POSTERIOR = ppl.condition(normal, {"y": 5.0})


def standardized(draws):
    if "a" in draws:
        return [draws["a"], draws["b"], (draws["b"] - 0.6 * draws["a"]) / 0.8]
    return [(draws["mu"] - 1.8) / 2.4, np.log(draws["tau"])]


def scores(result):
    """How many standard errors means and variances are away from what they should be."""
    numbers = [np.asarray(x, np.float64) for x in standardized(result.draws)]
    checks = [x**power - (power == 2) for x in numbers for power in (1, 2)]
    return np.array([abs(x.mean()) / mcse_mean(x) for x in checks])


CASES = {
    "random walk": (POSTERIOR, RandomWalk()),
    "slice": (POSTERIOR, Slice()),
    "Gibbs": (pair, Gibbs()),
}
BROKEN = {
    "random walk": (POSTERIOR, RandomWalk(power=0.8)),
    "Gibbs": (pair, Gibbs(noise=0.7)),
}
SETTINGS = {"num_warmup": 200, "num_draws": 2000}


@pytest.mark.quick_rows("float64-Gibbs", "float32-Gibbs")
@pytest.mark.parametrize("name", CASES)
def test_draws_of_a_kernel_of_ones_own_are_of_the_posterior(float_dtype, name):
    model, kernel = CASES[name]
    assert isinstance(kernel, Kernel)
    result = mcmc(random.key(0), model, kernel=kernel, **SETTINGS)
    assert {x.dtype for x in jax.tree.leaves(result.draws)} == {float_dtype}
    assert np.all(scores(result) < Z)
    assert result.inverse_mass_matrix is None


@pytest.mark.parametrize("name", BROKEN)
def test_a_kernel_of_another_density_is_found_out(name):
    model, kernel = BROKEN[name]
    assert np.max(scores(mcmc(random.key(0), model, kernel=kernel, **SETTINGS))) > Z


FEW = {"num_warmup": 3, "num_draws": 20}


def test_a_kernel_is_not_known_by_its_name():
    """A Gibbs kernel of the library has the log densities of values, and others of positions."""

    def model(key):
        scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
        ppl.sample(key, dist.Normal(jnp.zeros(3), scale), name="y")

    posterior = ppl.condition(model, {"y": jnp.array([0.3, -1.2, 0.4])})
    named = kernel(type("Gibbs", (RandomWalk,), {}))
    assert loo(mcmc(random.key(0), posterior, kernel=named(), **FEW), posterior).elpd < 0


def test_draws_depend_on_the_key_and_the_chain_alone():
    few, many = (
        mcmc(random.key(1), POSTERIOR, kernel=RandomWalk(), num_chains=n, **FEW) for n in (4, 33)
    )
    assert many.draws["mu"].shape == (33, 20)
    assert len(np.unique(many.draws["mu"][:, -1])) > 30
    np.testing.assert_array_equal(few.draws["mu"], many.draws["mu"][:4])
    longer = mcmc(random.key(1), POSTERIOR, kernel=RandomWalk(), num_warmup=0, num_draws=23)
    np.testing.assert_array_equal(few.draws["mu"], longer.draws["mu"][:, 3:])


def test_a_field_named_target_is_the_kernels_own():
    @kernel
    class Aimed(RandomWalk):
        target: Any = 0.3

    ready = with_density(Aimed(), ppl.unconstrain(POSTERIOR))
    assert ready.target == 0.3
    assert ready.log_density is not None


def test_chains_mapped_over_draw_what_they_draw_one_by_one(monkeypatch, x64):
    def draws():
        settings = {"num_chains": 6, **FEW}
        target = ppl.unconstrain(POSTERIOR)
        return sample_by_steps(random.key(1), target, RandomWalk(), **settings).draws

    alone = draws()
    monkeypatch.setattr(
        "inference.chains.step_sampling.share_chains",
        lambda *args: dataclasses.replace(share_chains(*args), is_mapped=True),
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8), draws(), alone)


@dataclasses.dataclass(frozen=True)
class SlowValues:
    """Program of values of sites whose calls take a minute each, on a clock of the test."""

    program: Any
    minutes: Any

    def __call__(self, *arguments):
        self.minutes.append(60.0)
        return self.program(*arguments)

    def __getattr__(self, name):
        return getattr(self.program, name)

    def __hash__(self):
        return id(self)


SIXTY = {"kernel": RandomWalk(), "num_warmup": 3, "num_draws": 60}


def with_slow_values(monkeypatch, **changes):
    """A run on one core: its result, minutes of calls of the values' program, moves of batches.

    The clock ticks for values of sites alone, so that transitions take no time.
    """
    minutes, moves = [], []
    compile_values, move = chain_run.compile_values, chain_run.ChainRun._move
    changes |= {
        "time": types.SimpleNamespace(monotonic=lambda: sum(minutes)),
        "compile_values": lambda *args, **more: SlowValues(compile_values(*args, **more), minutes),
    }
    with monkeypatch.context() as patched:
        patched.setattr(chain_threads, "num_cores", lambda: 1)
        for name, new in changes.items():
            patched.setattr(step_run if name == "CALL_SECONDS" else chain_run, name, new)
        patched.setattr(
            chain_run.ChainRun, "_move", lambda *args: (moves.append(args), move(*args))[1]
        )
        return mcmc(random.key(1), POSTERIOR, **SIXTY), len(minutes), len(moves)


@pytest.mark.parametrize(("most_rows", "num_reads"), [(2048, 1), (7, 9)])
def test_values_of_sites_are_computed_when_rows_are_full(monkeypatch, most_rows, num_reads):
    of_two = {"CALL_SECONDS": 2e-9}  # transitions a call
    few, *counts = with_slow_values(monkeypatch, _MAX_ROWS=most_rows, **of_two)
    assert counts[0] == 4 * num_reads
    assert counts[1] > 4 * 30
    whole = mcmc(random.key(1), POSTERIOR, **SIXTY)
    jax.tree.map(np.testing.assert_array_equal, few, whole)


def test_slow_values_of_sites_do_not_shorten_calls(monkeypatch):
    _, num_reads, num_moves = with_slow_values(monkeypatch, _MAX_ROWS=7)
    assert num_reads == 4 * 9
    assert num_moves < num_reads + 10  # of warm-up


def test_chains_over_devices_draw_what_they_draw_on_one():
    mesh = jax.make_mesh((4,), ("i",))
    alone, spread = (
        mcmc(random.key(1), POSTERIOR, kernel=RandomWalk(), mesh=mesh, **FEW)
        for mesh in (None, mesh)
    )
    np.testing.assert_allclose(spread.draws["mu"], alone.draws["mu"], rtol=1e-5)


def test_statistics_are_what_the_kernel_has():
    walk = mcmc(random.key(0), POSTERIOR, kernel=RandomWalk(), **FEW)
    assert {name: (x.shape, x.dtype) for name, x in walk.stats.items()} == {
        "acceptance_rate": ((4, 20), np.float32),
        "is_accepted": ((4, 20), np.bool_),
        "log_density": ((4, 20), np.float32),
    }
    assert mcmc(random.key(0), pair, kernel=Gibbs(), **FEW).stats == {}


@pytest.mark.slow_rows("slice")
@pytest.mark.parametrize("name", CASES)
def test_the_summary_names_only_what_was_checked(name):
    model, kernel = CASES[name]
    result = mcmc(random.key(0), model, kernel=kernel, num_warmup=100, num_draws=3000)
    text = " ".join(str(result.summary()).split())
    assert "No problem found: R-hat at most 1.01, ESS at least 100 per chain." in text
    assert "diverge" not in text
    assert "E-BFMI" not in text


def test_chains_that_hardly_move_are_told_of():
    kernel = RandomWalk(scale=1000.0)
    (problem, *_) = mcmc(random.key(0), POSTERIOR, kernel=kernel, **FEW).summary().problems
    assert "hardly moved" in problem
    assert "Propose less far" in problem


@pytest.mark.slow_rows("slice")
@pytest.mark.parametrize("name", CASES)
def test_results_are_kept_and_shown(tmp_path, name):
    model, kernel = CASES[name]
    result = mcmc(random.key(0), model, kernel=kernel, **FEW)
    result.save(tmp_path / "result.npz")
    loaded = MCMCResult.load(tmp_path / "result.npz")
    jax.tree.map(np.testing.assert_array_equal, loaded, result)
    assert repr(loaded) == repr(result)
    assert repr(result).startswith("MCMCResult(4 chains x 20 draws: ")
    assert str(loaded.summary()) == str(result.summary())


def test_arviz_has_the_statistics_of_the_kernel():
    pytest.importorskip("arviz")
    data = mcmc(random.key(0), POSTERIOR, kernel=RandomWalk(), **FEW).to_arviz()
    assert set(data["sample_stats"].data_vars) == {"acceptance_rate", "is_accepted", "lp"}
    assert "posterior" in mcmc(random.key(0), pair, kernel=Gibbs(), **FEW).to_arviz()


def test_a_model_that_is_finite_nowhere_is_explained():
    model = ppl.condition(normal, {"y": np.inf})
    with pytest.raises(ValueError, match=r"chain 0 found no starting point.*site 'y'") as error:
        mcmc(random.key(0), model, kernel=RandomWalk(), **FEW)
    assert "where the log density is finite" in str(error.value)
    assert "gradient" not in str(error.value)  # random walks need none


def test_a_state_with_more_in_it_is_carried_along():
    @kernel
    class Counting:
        log_density: Any = None

        def init(self, position):
            return HamiltonianState(position, self.log_density(position), {"n": 0.0})

        def step(self, key, state):
            return state._replace(gradient={"n": state.gradient["n"] + 1}), Metropolis(
                state.gradient["n"], jnp.ones((), bool)
            )

    result = mcmc(random.key(0), POSTERIOR, kernel=Counting(), num_warmup=3, num_draws=4)
    np.testing.assert_array_equal(result.stats["acceptance_rate"], [[3, 4, 5, 6]] * 4)
