"""The table of kernels: every kernel that is offered is a row, every property a test of all rows.

Invariance is by exact draws: after a few transitions, they are tested for their law, at a failure
rate of 1e-5 a test. With a fixed key, a pass is a fact, and the rate says how likely it was to be
one for a right kernel.
"""

import dataclasses
import inspect
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random
from jax.tree_util import Partial

import distributions as dist
import inference
import ppl
from inference import (
    PMMH,
    EllipticalSlice,
    EnsembleKernel,
    Gibbs,
    Kernel,
    ParallelTempering,
    ParticleGibbs,
    RandomWalk,
    Reference,
    Slice,
    mcmc,
    resume,
)
from inference.common.log_densities import metropolis_rate
from inference.kernels.discrete.informed import InformedKernel
from inference.kernels.ensemble.differences import DifferenceKernel
from inference.kernels.gibbs.gibbs_target import GibbsTarget
from inference.kernels.gibbs.sweep import Sweep
from inference.models.row_split import log_parts
from tests.inference.kernel_rows import (
    COUNTS,
    ESTIMATES,
    FAILURE_RATE,
    NORMAL,
    PATH,
    PATHS,
    POTTS,
    ROWS,
    SKEWED,
    SWITCHES,
    least_p_value,
)

# Compiled once for all tests.
INIT = jax.jit(lambda kernel, position: kernel.init(position))
STEP = jax.jit(lambda kernel, key, state: kernel.step(key, state))
CACHES = {"log_density", "gradient", "changes", "log_likelihood"}
TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
PROTOCOLS = {"Kernel", "HamiltonianKernel", "EnsembleKernel"}
# Kernels of batches take a prior, a likelihood and rows of data in place of a log density. They
# leave other laws than the posterior invariant, which the files that are named compute.
ELSEWHERE = {
    "SGHMC": "test_stochastic_gradients.py",
    "SGLD": "test_stochastic_gradients.py",
    "SubsampledHMC": "test_subsampled_hmc.py",
}


def is_kernel(x):
    return inspect.isclass(x) and hasattr(x, "init") and hasattr(x, "step")


def test_every_kernel_that_is_offered_is_a_row():
    offered = {name for name in inference.__all__ if is_kernel(getattr(inference, name))}
    in_rows = {type(row.kernel).__name__ for row in ROWS.values()}
    assert in_rows == offered - PROTOCOLS - ELSEWHERE.keys()
    for name, file in ELSEWHERE.items():
        assert name in pathlib.Path(__file__).with_name(file).read_text()


def avals(tree):
    return jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), tree)


def assert_close(actual, expected, dtype="float64"):
    tolerance = TOLERANCE[jnp.dtype(dtype).name]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        actual,
        expected,
    )


def begun(row, dtype, number=0, weight=1.0):
    """A kernel and its state at an exact draw."""
    kernel = row.make(dtype, weight)
    draw = jax.tree.map(lambda x: x[number], row.draws(number + 1, dtype))
    return kernel, row.begin(kernel, draw)


@pytest.fixture(params=ROWS)
def row(request):
    return dataclasses.replace(ROWS[request.param], together=min(ROWS[request.param].together, 16))


@pytest.mark.quick_rows("float32-NUTS")
def test_step_keeps_the_state_its_caches_and_scalars(float_dtype, row):
    """For keys of both kinds, which draw the same."""
    kernel, state = begun(row, float_dtype)
    protocol = EnsembleKernel if row.together else Kernel
    assert isinstance(kernel, protocol)
    typed, legacy, other = (
        STEP(kernel, key, state) for key in (random.key(4), random.PRNGKey(4), random.key(9))
    )
    jax.tree.map(np.testing.assert_array_equal, typed, legacy)
    new, info = typed
    assert avals(new) == avals(state)
    assert {np.shape(x) for x in jax.tree.leaves(info)} <= {(), (row.together,)}
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(*map(jax.tree.leaves, (new, other[0])), strict=True)
    )
    if hasattr(info, "acceptance_rate"):
        assert np.all((info.acceptance_rate >= 0) & (info.acceptance_rate <= 1))
    fresh = kernel.init(new.position)
    for name in CACHES & {*new._fields} if row.law is not ESTIMATES else ():
        assert_close(getattr(fresh, name), getattr(new, name), float_dtype)
    if hasattr(kernel, "adapt"):
        adapt = lambda *x: kernel.adapt(*x, jnp.int32(0), jnp.int32(10))  # noqa: E731
        assert avals(jax.eval_shape(adapt, new, info)) == avals(state)


@pytest.mark.quick_rows("HMC")
def test_jit_and_scan_are_eager_steps(x64, row):
    kernel, start = begun(row, jnp.float64)
    keys = random.split(random.key(3), 2)
    scanned = jax.jit(lambda s: lax.scan(lambda s, key: kernel.step(key, s), s, keys))(start)
    state = start
    infos = []
    for key in keys:
        state, info = kernel.step(key, state)
        infos.append(info)
    assert_close(scanned, (state, jax.tree.map(lambda *x: jnp.stack(x), *infos)))


@pytest.mark.quick_rows("Barker")
def test_vmap_over_chains_and_numbers_is_a_loop(x64, row):
    """Over keys, states and, as numbers are leaves, all settings and data that are not integers."""
    kernel = row.make(jnp.float64)
    draws = row.draws(3, jnp.float64)
    keys = random.split(random.key(2), 3)
    factors = jnp.array([0.95, 1.0, 1.05])

    def run(factor, key, draw):
        scaled = jax.tree.map(
            lambda x: x * factor if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x, kernel
        )
        state, info = scaled.step(key, row.begin(scaled, draw))
        return row.position(state), info

    together = jax.jit(jax.vmap(run))(factors, keys, draws)
    alone = jax.jit(run)
    for i in range(3):
        found, expected = (
            jax.tree.map(lambda x, i=i: x[i], together),
            alone(factors[i], keys[i], jax.tree.map(lambda x, i=i: x[i], draws)),
        )
        assert_close(found, expected)


def test_new_data_trace_nothing(row):
    num_traces = []
    kernel, state = begun(row, jnp.float32)
    step = jax.jit(lambda kernel, key, state: num_traces.append(key) or kernel.step(key, state))
    for weight in (1.0, 0.7):
        kernel = row.make(jnp.float32, weight)
        step.lower(kernel, random.key(0), state)
    assert len(num_traces) == 1


QUICK = (
    "HMC",
    "NUTS",
    "RandomWalk",
    "Slice",
    "EllipticalSlice",
    "GibbsWithGradients",
    "DiscreteLangevin",
    "CountMetropolis",
    "CountSlice",
    "ChEES",
    "AdjustedMCLMC",
    "MEADS, small folds",
    "AffineInvariant",
    "DifferentialEvolution",
    "ParallelTempering",
    "Gibbs",
    "PMMH",
    "ParticleGibbs",
)


@pytest.mark.quick_rows(*QUICK)
@pytest.mark.parametrize("name", ROWS)
def test_kernel_leaves_exact_draws_exact(name):
    row = ROWS[name]
    rate, p_value = row.look()
    if rate is not None:
        assert row.rates[0] < rate < row.rates[1]  # there is something to get wrong
    assert p_value > FAILURE_RATE


MISTAKES = [f"{name}: {mistake}" for name, row in ROWS.items() for mistake in row.mistakes]


@pytest.mark.slow_rows(
    "NUTS: first kick",
    "NUTS: second kick",
    "NUTS: kinetic energy",
    "HMC: first kick",
    "HMC: second kick",
    "ChEES: energy",
    "MEADS: levels",
    "MEADS, small folds: own fold",
    "DifferentialEvolution: volume",
    "CountSlice: level",
    "Gibbs: wrong blanket",
    "PMMH: renewed",
    "PMMH: old path",
    "ParticleGibbs: weightless",
    "ParticleGibbs: weight of another",
    "ParticleGibbs: ancestors",
)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_is_caught(monkeypatch, mistake):
    name, change = mistake.split(": ")
    for alter in ROWS[name].mistakes[change]:
        alter(monkeypatch)
    assert ROWS[name].look()[1] < FAILURE_RATE


@pytest.mark.quick_rows("MALA", "RandomWalk", "GibbsWithGradients, exact", "EllipticalSlice")
def test_refreshed_states_are_those_of_the_new_density(row):
    """As other blocks of a sweep have moved, or positions have swapped; broken ones keep caches."""
    kernel, state = begun(row, jnp.float32)
    if not hasattr(kernel, "refresh"):
        pytest.skip("it is not moved within another kernel")
    other = row.make(jnp.float32, 0.5)
    found = other.refresh(state)
    if row.law in (ESTIMATES, PATHS):  # one is kept until a proposal is accepted, one has no cache
        jax.tree.map(np.testing.assert_array_equal, found, state)
        return
    expected = other.init(state.position)
    for name in CACHES & {*state._fields}:
        assert_close(getattr(found, name), getattr(expected, name), jnp.float32)
    assert not np.allclose(found.log_density, state.log_density)
    assert avals(found) == avals(state)


# Densities that are constant, or not finite beyond a wall, or whose gradient is not.
ODD = {
    "constant": lambda x: 0.0 * x,
    "-inf": lambda x: jnp.where(jnp.abs(x) < 1.5, 0.0, -jnp.inf),
    "nan": lambda x: jnp.where(jnp.abs(x) < 1.5, 0.0, jnp.nan),
    "inf": lambda x: jnp.where(jnp.abs(x) < 1.5, 0.0, jnp.inf),
    "overflow": lambda x: -jnp.exp(400.0 * x**2),
}


def odd_size(position):
    """The root of the mean square of all elements."""
    squares = [jnp.ravel(jnp.asarray(x, float)) ** 2 for x in jax.tree.leaves(position)]
    return jnp.sqrt(jnp.mean(jnp.concatenate(squares)) + 1e-6)


def odd_density(number, position):
    return lax.switch(number, list(ODD.values()), odd_size(position))


def odd_estimate(number, key, position):
    return odd_density(number, position), random.normal(key)


TAKES_ODD = [
    name
    for name, row in ROWS.items()
    if row.law in (SKEWED, COUNTS, ESTIMATES) or name.endswith(("exact", "Slice"))
]


def odd_kernel(name, number):
    kernel = ROWS[name].kernel
    if isinstance(kernel, PMMH):
        return dataclasses.replace(kernel, estimate=Partial(odd_estimate, number))
    field = "log_likelihood" if isinstance(kernel, EllipticalSlice) else "log_density"
    return dataclasses.replace(kernel, **{field: Partial(odd_density, number)})


@pytest.mark.quick_rows("HMC", "NUTS", "RandomWalk", "Slice", "CountMetropolis", "AffineInvariant")
@pytest.mark.parametrize("name", TAKES_ODD)
def test_states_stay_where_there_is_a_density(name):
    row = dataclasses.replace(ROWS[name], together=min(ROWS[name].together, 16))
    start = jax.tree.map(lambda x: x[0], row.draws(1, jnp.float32))
    start = start["x"] if row.law is ESTIMATES else start
    start = jax.tree.map(lambda x: (0.1 * x).astype(x.dtype), start)

    @jax.jit
    def run(number, key):
        kernel = odd_kernel(name, number)
        state = kernel.init(start)
        return lax.scan(lambda s, key: kernel.step(key, s), state, random.split(key, 20))

    has_moved = []
    for number, kind in enumerate(ODD):
        state, info = run(jnp.int32(number), random.key(number))
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(state.position))
        assert np.all(np.isfinite(state.log_density))
        if kind in ("-inf", "nan", "inf"):
            size = jax.vmap(odd_size) if row.together else odd_size
            assert np.all(size(state.position) < 1.5)
        rates = getattr(info, "acceptance_rate", 0.5)
        assert np.all((rates >= 0) & (rates <= 1))
        moved = jax.tree.map(lambda a, b: np.any(a != b), state.position, start)
        has_moved.append(any(jax.tree.leaves(moved)))
    assert has_moved[0]


BEYOND = {
    "RandomWalk": {"x0": 2.0, "x1": 2.0, "x2": 0.1},
    "PMMH": np.float32(2.0),
    "CountMetropolis": np.array([3, 0]),
    "GibbsWithGradients, exact": np.array([2] * 6 + [0] * 3),
    "DiscreteLangevin, exact": np.array([2] * 6 + [0] * 3),
}


@pytest.mark.quick_rows("RandomWalk")
@pytest.mark.parametrize("name", BEYOND)
def test_a_start_without_density_is_left(name):
    kernel = odd_kernel(name, jnp.int32(1))
    start = jax.tree.map(jnp.asarray, BEYOND[name])
    state = kernel.init(start)
    assert state.log_density == -np.inf
    keys = random.split(random.key(0), 100)
    state, _ = jax.jit(lambda s: lax.scan(lambda s, key: kernel.step(key, s), s, keys))(state)
    assert state.log_density == 0.0


def test_the_metropolis_rate_is_one_from_density_zero():
    inf = jnp.inf
    proposed = jnp.array([-1.0, 0.0, 1.0, -inf, inf, jnp.nan, 0.0, -inf, jnp.nan])
    present = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -inf, -inf, jnp.nan])
    expected = [np.exp(-1), 1, 1, 0, 0, 0, 1, 0, 0]
    np.testing.assert_allclose(metropolis_rate(proposed, present), expected, rtol=1e-6)
    np.testing.assert_allclose(metropolis_rate(proposed[0], present[0], -1.0), np.exp(-2))


@pytest.mark.parametrize("name", ROWS)
def test_bad_input_is_refused(name):
    row = ROWS[name]
    if row.law is SWITCHES:
        with pytest.raises(TypeError, match=r"Gibbs reads a model: pass it to inference.mcmc"):
            row.kernel.init({})
        return
    if row.law is PATHS:
        with pytest.raises(ValueError, match="no state space, which Gibbs reads off a model"):
            row.kernel.step(random.key(0), row.begin(row.kernel, row.draws(1, "float32")[0]))
        return
    draw = jax.tree.map(lambda x: x[0], dataclasses.replace(row, together=16).draws(1, "float32"))
    if not row.together:
        draw = jax.tree.map(lambda x: x[-1] if row.law is PATH else x[0], draw)
    field = {NORMAL: "log_likelihood", ESTIMATES: "estimate"}.get(row.law, "log_density")
    with pytest.raises(ValueError, match=f"has no {field}; give it one"):
        row.kernel.init(draw)
    if row.law is ESTIMATES:
        draw = draw["x"]
        with pytest.raises(TypeError, match=r"estimate must return a pair.*got Array\(1"):
            dataclasses.replace(row.kernel, estimate=lambda key, x: jnp.float32(1)).init(draw)
    found = (jnp.ones(3), None) if row.law is ESTIMATES else jnp.ones(3)
    returns_array = lambda *x: found  # noqa: E731
    with pytest.raises(ValueError, match=r"returned an array of shape \(3,\)"):
        dataclasses.replace(row.kernel, **{field: returns_array}).init(draw)
    moves_integers = row.law in (POTTS, COUNTS)
    wrong = jax.tree.map(lambda x: x.astype(float if moves_integers else int), draw)
    words = "float32; .* moves integers" if moves_integers else "int32; a position"
    with pytest.raises(TypeError, match=f"has dtype {words}"):
        row.make(jnp.float32).init(wrong)


def located(key):
    mu = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="mu")
    ppl.sample(key, dist.Normal(mu, 0.5), name="y")


def counted(key):
    n = ppl.sample(key, dist.DiscreteUniform(0, 9), name="n")
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    ppl.sample(key, dist.Normal(mu + n, jnp.ones(2)), name="y")


def chained(key):
    """A hidden Markov model of three steps."""
    stay = ppl.sample(key, dist.Beta(3.0, 2.0), name="stay")

    def step(z, key):
        one, two = random.split(key)
        z = ppl.sample(one, dist.Bernoulli(probs=jnp.where(z == 1, stay, 1 - stay)), name="z")
        return z, ppl.sample(two, dist.Bernoulli(probs=0.3 + 0.4 * z), name="y")

    lax.scan(step, jnp.int32(1), random.split(key, 3))


@pytest.mark.quick_rows("Slice", "DifferentialEvolution", "CountSlice")
@pytest.mark.parametrize("name", [name for name in ROWS if "," not in name])
def test_resumed_runs_have_the_bits_of_a_long_run(tmp_path, name):
    kernel = ROWS[name].kernel
    posterior = ppl.condition(located, {"y": np.array([0.3, 1.2], np.float32)})
    if ROWS[name].law in (ESTIMATES, PATHS):
        posterior = ppl.condition(chained, {"y": np.array([1, 1, 0])})
        is_path = ROWS[name].law is PATHS
        kernel = Gibbs({"z": ParticleGibbs(3)}, rest=Slice()) if is_path else PMMH(3)
    elif ROWS[name].law in (POTTS, COUNTS, SWITCHES):
        posterior = ppl.condition(counted, {"y": np.array([3.3, 4.2], np.float32)})
        # The density of a model takes integers alone, and has no gradient there.
        fields = {"gradient": False} if isinstance(kernel, InformedKernel) else {}
        is_gibbs = ROWS[name].law is SWITCHES
        kernel = Gibbs.auto() if is_gibbs else Gibbs({"n": type(kernel)(**fields)}, rest=Slice())
    else:
        kernel = type(kernel)()
    settings = {"kernel": kernel, "num_warmup": 20, "num_chains": 16 if ROWS[name].together else 2}
    folder = tmp_path / "run"
    long = mcmc(random.key(0), posterior, num_draws=12, **settings)
    short = mcmc(random.key(0), posterior, num_draws=5, **settings)
    mcmc(random.key(0), posterior, num_draws=5, checkpoint=folder, **settings)
    for begun in (short, folder):
        found = resume(begun, posterior, num_draws=12, kernel=kernel)
        jax.tree.map(
            np.testing.assert_array_equal, (found.draws, found.stats), (long.draws, long.stats)
        )


def skewed(key):
    rate = ppl.sample(key, dist.Gamma(0.8, 1.0), name="rate")
    ppl.sample(key, dist.Poisson(rate * jnp.ones(2)), name="y")


def bounded(key):
    p = ppl.sample(key, dist.Beta(0.7, 1.5), name="p")
    ppl.sample(key, dist.Normal(p, 0.3), name="y")


def hierarchical(key):
    tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.zeros(2), tau), name="theta")
    ppl.sample(key, dist.Normal(theta, 1.0), name="y")


def binomial(key):
    p = ppl.sample(key, dist.Beta(2.0, 2.0), name="p")
    k = ppl.sample(key, dist.Binomial(5, probs=p * jnp.ones(2)), name="k")
    ppl.sample(key, dist.Poisson(0.5 + jnp.sum(k) * jnp.ones(2)), name="y")


def binomial_uniform(draws, number):
    """A uniform number for a count: of its cdf, at random within the step."""
    law = st.binom(5, draws["p"])
    units = np.random.default_rng(number).uniform(size=len(draws["p"]))
    return law.cdf(draws["k"][:, number] - 1) + units * law.pmf(draws["k"][:, number])


def step_uniform(draws, number):
    """A uniform number for whether a hidden state stays, at random within the step."""
    before = draws["z"][:, number - 1] if number else 1
    units = np.random.default_rng(number).uniform(size=len(draws["z"]))
    stays = draws["z"][:, number] == before
    return np.where(stays, units * draws["stay"], 1 - units * (1 - draws["stay"]))


PRIORS = {
    "skewed": (skewed, {"rate": lambda x: st.gamma(0.8).cdf(x["rate"])}),
    "bounded": (bounded, {"p": lambda x: st.beta(0.7, 1.5).cdf(x["p"])}),
    "hierarchical": (
        hierarchical,
        {
            "tau": lambda x: st.halfnorm().cdf(x["tau"]),
            "first": lambda x: st.norm.cdf(x["theta"][:, 0] / x["tau"]),
            "second": lambda x: st.norm.cdf(x["theta"][:, 1] / x["tau"]),
        },
    ),
    "discrete": (
        binomial,
        {
            "p": lambda x: st.beta(2, 2).cdf(x["p"]),
            "first": lambda x: binomial_uniform(x, 0),
            "second": lambda x: binomial_uniform(x, 1),
        },
    ),
    "chained": (
        chained,
        {
            "stay": lambda x: st.beta(3, 2).cdf(x["stay"]),
            "first": lambda x: step_uniform(x, 0),
            "second": lambda x: step_uniform(x, 1),
            "third": lambda x: step_uniform(x, 2),
        },
    ),
}
REAL = ("skewed", "bounded", "hierarchical")


def joint_of(model, key):
    """Values of all latent sites, and data, drawn jointly."""
    values = {name: site.value for name, site in ppl.trace(model)(key).sites.items()}
    return values, {"y": values.pop("y")}


def move_values(model, plan, key, values, data):
    """Values after some sweeps of a kernel of blocks."""
    sweep = Sweep(GibbsTarget.of(ppl.condition(model, data), (), {}, plan))
    step = lambda state, key: (sweep.step(key, state)[0], None)  # noqa: E731
    return lax.scan(step, sweep.init(values), random.split(key, 3))[0].position


def move_position(model, kernel, key, values, data):
    """Values after some transitions of a kernel on unconstrained space."""
    target = ppl.unconstrain(ppl.condition(model, data))
    kernel = dataclasses.replace(kernel, log_density=target.log_density)
    if isinstance(kernel, ParallelTempering):
        prior = lambda key: target.unconstrain(joint_of(model, key)[0])  # noqa: E731
        reference = Reference(lambda x: log_parts(target, x)[0], prior)
        kernel = dataclasses.replace(kernel, reference=reference)
    step = lambda state, key: (kernel.step(key, state)[0], None)  # noqa: E731
    start = kernel.init(target.unconstrain(values))
    return target.constrain(lax.scan(step, start, random.split(key, 3))[0].position)


def move_estimated(model, kernel, key, values, data):
    """Values after some transitions of PMMH from an estimate, a path and data that go together.

    Filters of data that are even odds, accepted with the likelihood that they estimate, are what a
    chain of PMMH holds, given the parameter and together with data of the model.
    """
    for_start, for_steps = random.split(key)

    def sweep_of(y):
        sweep = Sweep(GibbsTarget.of(ppl.condition(model, {"y": y}), (), {}, kernel))
        return sweep, sweep.init(values)

    def propose(carry):
        for_data, for_filter, for_rate, rest = random.split(carry[0], 4)
        y = random.bernoulli(for_data, 0.5, (3,)).astype(jnp.int32)
        sweep, _ = sweep_of(y)
        space = sweep._space(sweep.target.blocks[0], sweep.target.by_path(values))
        position = space.position_of(sweep.target.by_path(values))
        found, path = space.kernel(kernel)._estimated(for_filter, position)
        stay = values["stay"]
        log_prior = dist.Beta(3.0, 2.0).log_prob(stay) + jnp.log(stay * (1 - stay))
        accepted = jnp.log(random.uniform(for_rate)) < found - log_prior - 3 * jnp.log(0.7)
        return rest, y, found, path, accepted

    empty = jnp.zeros(3, jnp.int32), jnp.float32(0), {"z": jnp.zeros(3, jnp.int32)}, False
    _, y, found, path, _ = lax.while_loop(lambda x: ~x[-1], propose, (for_start, *empty))
    sweep, state = sweep_of(y)
    block = state.blocks[0]
    own = block.kernel._replace(log_density=found, path=path)
    state = state._replace(position={**values, **path}, blocks=(block._replace(kernel=own),))
    step = lambda state, key: (sweep.step(key, state)[0], None)  # noqa: E731
    return lax.scan(step, state, random.split(for_steps, 3))[0].position


def plain_of(name):
    """The kernel of a row with the settings of its class; few temperatures."""
    kind = type(ROWS[name].kernel)
    settings = {"kernel": RandomWalk(), "num_temperatures": 2} if kind is ParallelTempering else {}
    return kind(**settings)


def moves_of(name):
    """How the kernel of a row moves one chain, by model."""
    law = ROWS[name].law
    if law is SKEWED or law is PATH:
        return dict.fromkeys(REAL, (move_position, plain_of(name)))
    if law is SWITCHES:
        return dict.fromkeys(PRIORS, (move_values, Gibbs.auto(rest=RandomWalk())))
    if law is PATHS:
        plan = Gibbs({"z": ParticleGibbs(2)}, rest=RandomWalk())
        return {"chained": (move_values, plan)}
    if law is ESTIMATES:
        return {"chained": (move_estimated, PMMH(2))}
    if law is NORMAL:
        plan = Gibbs({"theta": EllipticalSlice()}, rest=Slice())
        return {"hierarchical": (move_values, plan)}
    kernel = ROWS[name].kernel
    fields = {"gradient": False} if isinstance(kernel, InformedKernel) else {}
    return {"discrete": (move_values, Gibbs({"k": type(kernel)(**fields)}, rest=Slice()))}


ALONE = [name for name, row in ROWS.items() if not row.together and "," not in name]
MOVES = {(name, model): how for name in ALONE for model, how in moves_of(name).items()}


def assert_prior(model, draws):
    draws = {name: np.asarray(x, np.float64) for name, x in draws.items()}
    uniforms = [cdf(draws) for cdf in PRIORS[model][1].values()]
    assert least_p_value(uniforms) > FAILURE_RATE


@pytest.mark.quick_rows("CountMetropolis-discrete")
@pytest.mark.parametrize(("name", "model"), [pytest.param(*x, id="-".join(x)) for x in MOVES])
def test_joint_draws_keep_their_law(name, model):
    """Geweke (2004): from exact joint draws, transitions given the data leave the prior."""
    move, kernel = MOVES[name, model]

    def chain(key):
        for_joint, for_steps = random.split(key)
        values, data = joint_of(PRIORS[model][0], for_joint)
        return move(PRIORS[model][0], kernel, for_steps, values, data)

    assert_prior(model, jax.jit(jax.vmap(chain))(random.split(random.key(0), 4000)))


def inverse_cdf(grid, densities, units):
    """Draws, a row for each density on a grid."""
    cdf = np.cumsum(densities, -1)
    found = [np.interp(u, c / c[-1], grid) for u, c in zip(units, cdf, strict=True)]
    return np.array(found)


def exact_draws(model, rng, size, num_chains):
    """Data of some replications, and exact posterior draws of all chains given each."""
    shape = size, num_chains
    if model == "skewed":
        y = rng.poisson(rng.gamma(0.8, size=(size, 1)), (size, 2))
        return y, {"rate": rng.gamma(0.8 + y.sum(1, keepdims=True), 1 / 3, shape)}
    if model == "bounded":
        y = rng.normal(rng.beta(0.7, 1.5, size), 0.3)
        grid = st.beta(0.7, 1.5).ppf((np.arange(4000) + 0.5) / 4000)  # equally probable
        densities = np.exp(-0.5 * ((y[:, None] - grid) / 0.3) ** 2)
        return y, {"p": inverse_cdf(grid, densities, rng.uniform(size=shape))}
    tau = np.abs(rng.normal(size=(size, 1)))
    y = rng.normal(rng.normal(size=(size, 2)) * tau, 1.0)
    grid = st.halfnorm().ppf((np.arange(4000) + 0.5) / 4000)
    variances = 1 + grid**2
    densities = np.exp(-0.5 * np.sum(y**2, 1)[:, None] / variances) / variances
    tau = inverse_cdf(grid, densities, rng.uniform(size=shape))
    share = (tau**2 / (1 + tau**2))[..., None]
    return y, {"tau": tau, "theta": rng.normal(share * y[:, None], share**0.5)}


TOGETHER = [
    (name, model)
    for name, row in ROWS.items()
    if row.together and "," not in name
    for model in (("hierarchical",) if name == "AdjustedMCLMC" else REAL)  # more coordinates
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model"), [pytest.param(*x, id="-".join(x)) for x in TOGETHER])
def test_joint_draws_of_ensembles_keep_their_law(name, model):
    """One chain of each ensemble, with data of its own: transitions leave the prior."""
    number = 8 if isinstance(ROWS[name].kernel, DifferenceKernel) else 16
    y, values = exact_draws(model, np.random.default_rng(3), 4000, number)
    kernel = type(ROWS[name].kernel)()
    function = PRIORS[model][0]

    def chains(key, y, values, chosen):
        target = ppl.unconstrain(ppl.condition(function, {"y": y}))
        moved = dataclasses.replace(kernel, log_density=target.log_density)
        state = moved.init(jax.vmap(target.unconstrain)(values))
        step = lambda state, key: (moved.step(key, state)[0], None)  # noqa: E731
        state = lax.scan(step, state, random.split(key, 3))[0]
        return target.constrain(jax.tree.map(lambda x: x[chosen], state.position))

    keys = random.split(random.key(0), 4000)
    chosen = np.arange(4000) % number
    y = y if model == "skewed" else np.asarray(y, np.float32)
    values = {name: np.asarray(x, np.float32) for name, x in values.items()}
    assert_prior(model, jax.jit(jax.vmap(chains))(keys, y, values, chosen))
