"""Rows of the table of kernels: each with a law, exact draws of it, and mistakes that must show."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special as sp
import scipy.stats as st
from jax import random
from jax.scipy.special import gammaln
from jax.tree_util import Partial

import distributions as dist
import ppl
from inference import (
    HMC,
    MALA,
    MEADS,
    NUTS,
    PMMH,
    WALNUTS,
    AdjustedMCLMC,
    AffineInvariant,
    Barker,
    ChEES,
    Conjugate,
    CountMetropolis,
    CountSlice,
    DifferentialEvolution,
    DiscreteLangevin,
    EllipticalSlice,
    Gibbs,
    GibbsWithGradients,
    LowRankMatrix,
    ParallelTempering,
    ParticleGibbs,
    RandomWalk,
    Reference,
    Slice,
)
from inference.common.matrices import pull, push
from inference.kernels.discrete import count_metropolis, discrete_langevin, gibbs_with_gradients
from inference.kernels.ensemble import (
    adjusted_mclmc,
    affine_invariant,
    chees,
    differential_evolution,
    meads,
)
from inference.kernels.gibbs import sweep
from inference.kernels.gibbs.gibbs_target import GibbsTarget
from inference.kernels.gradient_free import elliptical_slice, random_walk
from inference.kernels.gradient_free import slice as slice_module
from inference.kernels.hamiltonian import barker, hmc, nuts_trajectory
from inference.kernels.hamiltonian.leapfrog import Point, energy_change
from inference.kernels.tempering import parallel_tempering
from inference.particles import conditional_smc
from tests.inference.state_spaces import HIDDEN
from tests.inference.targets import (
    SCALE,
    chi_square,
    potts,
    skewed_draws,
    skewed_log_density,
    skewed_uniforms,
)

FAILURE_RATE = 1e-5  # of one test, by chance


class Law(NamedTuple):
    """Distribution with exact draws.

    Attributes:
        density: Function of a weight, by which the log density is multiplied, and a position.
        draws: Function of a number that returns so many exact draws for a weight of one.
        p_value: Function of draws that returns the least p-value of some tests.
        uniforms: Function of draws of chains that move together, that returns independent uniform
            numbers, an array for each coordinate.
    """

    density: Callable[[Any, Any], jax.Array]
    draws: Callable[[int], Any]
    p_value: Callable[[Any], float]
    uniforms: Callable[[Any], Any] | None = None


def least_p_value(uniforms: Any) -> float:
    """Of tests for uniformity (Kolmogorov-Smirnov) of each, and correlation of each pair."""
    found = [st.kstest(u, "uniform").pvalue for u in uniforms]
    pairs = itertools.combinations(uniforms, 2)
    return float(min([*found, *(st.pearsonr(a, b)[1] for a, b in pairs)]))


def skewed_density(weight: Any, x: Any) -> jax.Array:
    return weight * skewed_log_density(x)


SKEWED = Law(
    skewed_density,
    lambda size: skewed_draws(1, size),
    lambda draws: least_p_value(skewed_uniforms(jax.tree.map(np.ravel, draws))),
    skewed_uniforms,
)

_POTTS = potts()


def potts_density(weight: Any, x: Any) -> jax.Array:
    return weight * _POTTS.log_density(jnp.asarray(x, weight.dtype))


POTTS = Law(potts_density, _POTTS.draws, lambda draws: float(_POTTS.p_value(np.asarray(draws))))


def pair(weight: Any, x: Any) -> jax.Array:
    """A Poisson(2) count, and one whose mean grows with it."""
    first, second = jnp.asarray(x, weight.dtype)
    mean = 0.5 + 1.5 * first
    value = first * np.log(2.0) - gammaln(first + 1.0)
    return weight * (value + second * jnp.log(mean) - mean - gammaln(second + 1.0))


def pair_draws(size: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    first = rng.poisson(2.0, size)
    return np.stack([first, rng.poisson(0.5 + 1.5 * first)], 1)


def pair_p_value(draws: Any) -> float:
    first, second = np.meshgrid(np.arange(40), np.arange(80), indexing="ij")
    probs = st.poisson(2.0).pmf(first) * st.poisson(0.5 + 1.5 * first).pmf(second)
    cells = np.arange(probs.size)
    draws = np.asarray(draws)
    return chi_square(draws[:, 0] * 80 + draws[:, 1], cells, probs.ravel() / probs.sum())


COUNTS = Law(pair, pair_draws, pair_p_value)

# One coordinate, for ensembles so small that a dependence between their chains shows.
LINE = Law(
    lambda weight, x: -0.5 * weight * x**2,
    lambda size: np.random.default_rng(0).normal(size=size),
    lambda draws: least_p_value([st.norm.cdf(np.asarray(draws))]),
    lambda draws: [st.norm.cdf(np.asarray(draws))],
)

# A normal prior, and a normal likelihood.
MEAN = np.array([1.5, -2.0])
COVARIANCE = np.array([[1.0, 0.9], [0.9, 2.0]])
NOISE = 0.5
_PRECISION = np.linalg.inv(COVARIANCE)
_FACTOR = np.linalg.cholesky(np.linalg.inv(_PRECISION + np.eye(2) / NOISE**2))
_MIDDLE = _FACTOR @ _FACTOR.T @ (_PRECISION @ MEAN + np.array([0.3, 0.1]) / NOISE**2)


def normal_likelihood(weight: Any, x: Any) -> jax.Array:
    data = jnp.array([0.3, 0.1], x.dtype)
    return -0.5 * weight * jnp.sum((x - data) ** 2) / NOISE**2


NORMAL = Law(
    normal_likelihood,
    lambda size: _MIDDLE + np.random.default_rng(0).normal(size=(size, 2)) @ _FACTOR.T,
    lambda x: least_p_value(st.norm.cdf(np.linalg.solve(_FACTOR, (np.asarray(x) - _MIDDLE).T))),
)

# A path of normal distributions in the plane: at beta, the precision is 1 / 9 + beta * 8 / 9.
LADDER = np.array([0.0, 0.1, 0.4, 1.0])
PRECISIONS = (1 - LADDER) / 9 + LADDER
MEANS = 2 * LADDER / PRECISIONS
WIDE = Reference(
    lambda x: -0.5 * jnp.sum(x**2) / 9 - 2 * np.log(3.0),
    lambda key: 3 * random.normal(key, (2,)),
)


def plane_density(weight: Any, x: Any) -> jax.Array:
    return -0.5 * weight * jnp.sum((x - 2) ** 2)


def path_draws(size: int) -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=(size, 4, 2))
    return MEANS[:, None] + PRECISIONS[:, None] ** -0.5 * noise


def path_p_value(draws: Any) -> float:
    numbers = (np.asarray(draws) - MEANS[:, None]) * PRECISIONS[:, None] ** 0.5
    return least_p_value(st.norm.cdf(np.reshape(numbers, (len(numbers), 8)).T))


PATH = Law(plane_density, path_draws, path_p_value)


def placed(kernel: Any, positions: Any) -> Any:
    """State of a chain of parallel tempering with positions at all temperatures of `LADDER`."""
    state = kernel.init(positions[-1])
    first = kernel._first
    ladder = jnp.asarray(LADDER, positions.dtype)
    _, log_likelihoods = jax.vmap(lambda x: kernel._split(x, positions.dtype))(positions)
    moves = kernel._place(ladder[first:], state.moves, positions[first:])
    return state._replace(
        positions=positions, log_likelihoods=log_likelihoods, ladder=ladder, moves=moves
    )


# Which of four entries have the mean `mu`, and which have 0.
DATA = np.array([0.1, 2.9, 3.1, -0.2])


def switches(key, y):
    p = ppl.sample(key, dist.Beta(2.0, 2.0), name="p")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(4, p)), name="z")
    mu = ppl.sample(key, dist.Normal(jnp.zeros((), y.dtype), 3.0), name="mu")
    loc = jnp.where(z == 1, mu, jnp.zeros((), y.dtype))
    ppl.factor(jnp.sum(dist.Normal(loc, 1.0).log_prob(y)), name="data")


STATES = np.array(list(itertools.product([0, 1], repeat=4)))
STATE_PROBS = sp.softmax(
    [
        sp.betaln(2 + sum(z), 6 - sum(z))
        + np.asarray(st.multivariate_normal(cov=np.eye(4) + 9 * np.outer(z, z)).logpdf(DATA))  # type: ignore
        for z in STATES
    ]
)


def switch_draws(size: int) -> dict[str, np.ndarray]:
    """Draws of the states, then of `p` and `mu` given these, in closed form."""
    rng = np.random.default_rng(2)
    z = STATES[rng.choice(16, size, p=STATE_PROBS)]
    number = z.sum(1)
    p = rng.beta(2 + number, 6 - number)
    mu = rng.normal(z @ DATA / (number + 1 / 9), (number + 1 / 9) ** -0.5)
    return {"p": p, "z": z, "mu": mu}


def switch_p_value(draws: Mapping[str, Any]) -> float:
    draws = {name: np.asarray(x, float) for name, x in draws.items()}
    number = draws["z"].sum(1)
    u = st.beta.cdf(draws["p"], 2 + number, 6 - number)
    mean = draws["z"] @ DATA / (number + 1 / 9)
    v = st.norm.cdf((draws["mu"] - mean) * (number + 1 / 9) ** 0.5)
    states = np.asarray(draws["z"] @ [8, 4, 2, 1], int)
    return min(least_p_value([u, v]), chi_square(states, np.arange(16), STATE_PROBS))


SWITCHES = Law(lambda weight, x: weight, switch_draws, switch_p_value)


def estimate(weight: Any, key: jax.Array, x: Any) -> tuple[jax.Array, Any]:
    """Log of an unbiased estimate of a normal density, noisier on the right; a path beside it."""
    noise, path = random.normal(key, (2,), x.dtype)
    return weight * (-0.5 * x**2) + noisy_term(x, noise), x + path


def noisy_term(x: Any, noise: Any) -> Any:
    spread = jnp.where(x > 0, 1.2, 0.4).astype(x.dtype)
    return spread * noise - 0.5 * spread**2


def estimate_draws(size: int) -> dict[str, np.ndarray]:
    """Positions, noise as it is where estimates are accepted, and paths."""
    x, noise, path = np.random.default_rng(5).normal(size=(3, size))
    return {"x": x, "noise": noise + np.where(x > 0, 1.2, 0.4), "path": x + path}


def estimate_p_value(draws: Mapping[str, Any]) -> float:
    x, noise, path = (np.asarray(draws[name], float) for name in ("x", "noise", "path"))
    return least_p_value(st.norm.cdf([x, noise - np.where(x > 0, 1.2, 0.4), path - x]))


ESTIMATES = Law(lambda weight, x: -0.5 * weight * x**2, estimate_draws, estimate_p_value)


def begun_at_estimate(kernel: Any, draw: Any) -> Any:
    """State of a chain of PMMH with the estimate and the path of an exact draw."""
    x = draw["x"]
    log_density = -0.5 * x**2 + noisy_term(x, draw["noise"])
    return kernel.init(x)._replace(log_density=log_density, path=draw["path"])


def estimate_of(state: Any) -> dict[str, Any]:
    """Position, noise of the estimate, and path of a state."""
    x = state.position
    spread = jnp.where(x > 0, 1.2, 0.4)
    noise = (state.log_density + 0.5 * x**2 + 0.5 * spread**2) / spread
    return {"x": x, "noise": noise, "path": state.path}


# Paths of a hidden Markov model.
HMM_DATA = HIDDEN.y[:4]
CHAINS = np.array(list(itertools.product([0, 1], repeat=4)))
CHAIN_PROBS = dataclasses.replace(HIDDEN, y=HMM_DATA).path_probabilities()


def chain_draws(size: int) -> np.ndarray:
    return CHAINS[np.random.default_rng(6).choice(16, size, p=CHAIN_PROBS)]


def chain_p_value(draws: Any) -> float:
    states = np.asarray(draws @ np.array([8, 4, 2, 1]), int)
    return chi_square(states, np.arange(16), CHAIN_PROBS)


PATHS = Law(lambda weight, x: weight, chain_draws, chain_p_value)


def alter(obj: Any, name: str, new: Any) -> Callable[[Any], None]:
    """Function of `monkeypatch` that puts `new`, a function of the honest one, in its place."""
    return lambda patch: patch.setattr(obj, name, new(getattr(obj, name)))


def fixed_unit(module: Any, place: int, value: float, shape: tuple[int, ...]) -> Any:
    """A mistake: one of a transition's uniform numbers, drawn in an array of a shape, is fixed."""

    def change(honest):
        def uniform(seed, counter, dtype):
            found = honest(seed, counter, dtype)
            return found.at[place].set(value) if jnp.shape(counter) == shape else found

        return uniform

    return alter(module, "uniform", change)


def drift_with_sign(sign):
    def drift(factor, step_size, point):
        momentum = point.momentum + sign * 0.5 * step_size * point.force
        return point.position + step_size * push(factor, momentum)

    return drift


def kick_with_signs(first, second):
    def kick(factor, step_size, point, position, log_density, gradient):
        force = pull(factor, gradient)
        momentum = point.momentum + 0.5 * step_size * (first * point.force + second * force)
        return Point(position, momentum, force, log_density, gradient)

    return kick


def kinetic_energies_changed(start, end):
    return energy_change(
        start._replace(momentum=end.momentum), end._replace(momentum=start.momentum)
    )


def joined_whatever_their_weight(honest):
    def join(old):
        tree = old.subtree._replace(log_weight=jnp.log(2.0) * old.depth)
        return honest(old._replace(subtree=tree, log_weight=jnp.log(2.0) * old.depth))

    return join


# A position that goes against the momentum is missing here because it is no mistake: that map too
# preserves volume and is reversible, so that accepting by the energy corrects for it.
def signs(module: Any) -> dict[str, tuple[Callable[[Any], None], ...]]:
    return {
        "first kick": (
            alter(module, "drift", lambda _: drift_with_sign(-1)),
            alter(module, "kick", lambda _: kick_with_signs(-1, 1)),
        ),
        "second kick": (alter(module, "kick", lambda _: kick_with_signs(1, -1)),),
        "kinetic energy": (alter(module, "energy_change", lambda _: kinetic_energies_changed),),
    }


def always_zero(*arguments):
    return 0.0


def turn_in_more_dimensions(honest):
    def turn(velocity, impulse):
        turned, gain = honest(velocity, impulse)
        return turned, 1.5 * gain

    return turn


def parameters_of_own_fold(honest):
    def parameters(kernel, folds, count):
        return honest(kernel, jax.tree.map(lambda x: jnp.roll(x, -1, 0), folds), count)

    return parameters


def others_of_own_half(honest):
    return lambda self, seed, moving, others: honest(self, seed, moving, moving)


def one_seed(honest):
    """All parts of a transition have the same seed."""
    return lambda seed, i: honest(seed, 0 * i)


def beyond_the_blanket(honest):
    """A term of the density of a block that does not depend on it as it should."""

    def density(log_density, position):
        return honest(lambda x: log_density(x) - 0.1 * x["mu"] ** 2, position)

    return density


def chosen_by_the_state(honest):
    """Blocks move or not, by the state, and no Metropolis ratio corrects for the choice."""

    def step(self, key, state):
        new, info = honest(self, key, state)
        moves = state.position["mu"] > 2
        return jax.tree.map(lambda a, b: jnp.where(moves, a, b), new, state), info

    return step


def estimated_anew(honest):
    """The estimate of the present position is made anew in every transition."""

    def step(self, key, state):
        log_density, _ = self.estimate(random.fold_in(key, 1), state.position)
        return honest(self, key, state._replace(log_density=log_density))

    return step


def kept(*fields):
    """What belongs to an accepted proposal is not taken over."""

    def change(honest):
        def step(self, key, state):
            new, info = honest(self, key, state)
            return new._replace(**{name: getattr(state, name) for name in fields}), info

        return step

    return change


def redrawn(honest):
    """The present path is one more particle that is drawn."""
    return lambda particles, reference: particles


def weightless(honest):
    def put(particles, reference):
        states, values, weights = honest(particles, reference)
        return states, values, weights.at[0].set(-jnp.inf)

    return put


def weight_of_another(honest):
    """The present path has the weight of the particle that it replaces."""
    return lambda particles, reference: (*honest(particles, reference)[:2], particles[2])


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        kernel: The kernel, without a log density.
        law: Distribution that it is to leave invariant.
        mistakes: Changes of the program by name, which each make it leave another one.
        num_chains: Number of chains of the test of invariance.
        num_steps: Transitions of the test.
        together: Number of chains that move together; 0 for a kernel of one chain.
        rates: Range of the mean acceptance rate in the test, if there is one.
    """

    kernel: Any
    law: Law
    mistakes: Mapping[str, tuple[Callable[[Any], None], ...]] = dataclasses.field(
        default_factory=dict
    )
    num_chains: int = 8000
    num_steps: int = 2
    together: int = 0
    rates: tuple[float, float] = (0.4, 0.97)

    def make(self, dtype: Any, weight: float = 1.0) -> Any:
        """The kernel with its log density."""
        if self.law is SWITCHES:
            data = jnp.asarray(DATA * weight, dtype)
            return sweep.Sweep(GibbsTarget.of(switches, (data,), {}, self.kernel))
        if self.law is PATHS:
            space = dataclasses.replace(HIDDEN, y=jnp.asarray(HMM_DATA * weight, dtype))
            return dataclasses.replace(self.kernel, state_space=space)
        if self.law is ESTIMATES:
            noisy = Partial(estimate, jnp.asarray(weight, dtype))
            return dataclasses.replace(self.kernel, estimate=noisy)
        density = Partial(self.law.density, jnp.asarray(weight, dtype))
        if isinstance(self.kernel, EllipticalSlice):
            return dataclasses.replace(self.kernel, log_likelihood=density)
        return dataclasses.replace(self.kernel, log_density=density)

    def draws(self, size: int, dtype: Any) -> Any:
        """Exact draws, as positions: ensembles of them for kernels that move chains together."""
        draws = jax.tree.map(
            lambda x: jnp.asarray(x, dtype if np.issubdtype(x.dtype, np.floating) else int),
            self.law.draws(size * max(1, self.together)),
        )
        if not self.together:
            return draws
        return jax.tree.map(lambda x: x.reshape(size, self.together, *x.shape[1:]), draws)

    def begin(self, kernel: Any, draw: Any) -> Any:
        """State of the kernel at an exact draw."""
        if self.law is ESTIMATES:
            return begun_at_estimate(kernel, draw)
        if self.law is PATHS:
            return kernel.init((None, jnp.asarray(draw, jnp.int32)))
        return placed(kernel, draw) if self.law is PATH else kernel.init(draw)

    def position(self, state: Any) -> Any:
        """What the law is of."""
        if self.law is ESTIMATES:
            return estimate_of(state)
        if self.law is PATHS:
            return state.position[1]
        return state.positions if self.law is PATH else state.position

    def look(self) -> tuple[float | None, float]:
        """Acceptance rate, and p-value of draws after some transitions from exact ones."""
        dtype = jnp.zeros(()).dtype
        kernel = self.make(dtype)

        def chain(key, draw):
            keys = random.split(key, self.num_steps)
            start = self.begin(kernel, draw)
            state, info = jax.lax.scan(lambda s, key: kernel.step(key, s), start, keys)
            return self.position(state), getattr(info, "acceptance_rate", None)

        size = self.num_chains // max(1, self.together)
        keys = random.split(random.key(0), size)
        draws, rate = jax.jit(jax.vmap(chain))(keys, self.draws(size, dtype))
        rate = None if rate is None else float(np.mean(rate))
        if not self.together:
            return rate, self.law.p_value(draws)
        assert self.law.uniforms is not None
        independence = independence_within(self.law.uniforms(draws)) if size > 1 else 1.0
        draws = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), draws)
        return rate, min(independence, self.law.p_value(draws))


def independence_within(uniforms: Any) -> float:
    """P-value of the variance of means over chains of an ensemble, ``(ensemble, chain)`` each."""
    found = []
    for u in uniforms:
        ratios = 12 * u.shape[1] * (np.mean(u, 1) - 0.5) ** 2
        z = (np.mean(ratios) - 1) / (np.std(ratios) / np.sqrt(len(u)))
        found.append(2 * st.norm.sf(abs(z)))
    return float(min(found))


VARIANCES = np.array([1.5, 2.0, 0.4 * SCALE**2])
DENSE = np.diag(VARIANCES) + np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
LOW_RANK = LowRankMatrix(VARIANCES, np.eye(1, 3), np.array([0.5]))
TREES = signs(nuts_trajectory) | {
    "turns inside": (
        alter(
            nuts_trajectory,
            "turns_within_by_loop",
            lambda _: lambda *given: jnp.zeros((), bool),
        ),
    ),
    "weights": (alter(nuts_trajectory, "join_subtree", joined_whatever_their_weight),),
}
VOLUME = {
    name: {
        "volume": (alter(module, "log_volume", lambda _: lambda factor, size: 0 * factor),),
    }
    for name, module in (("stretch", affine_invariant), ("snooker", differential_evolution))
}
SYMMETRIC = {
    module: {"symmetric": (alter(module, "log_proposal_ratio", lambda _: always_zero),)}
    for module in (barker, gibbs_with_gradients, discrete_langevin)
}
HALFWAY = {"level": (fixed_unit(slice_module, 0, 0.5, (3,)),)}
DISCRETE = {"num_values": 3}
ROWS = {
    "HMC": Row(HMC(None, 0.3, VARIANCES, num_steps=2, step_size_jitter=0.0), SKEWED, signs(hmc)),
    "HMC, dense, jittered": Row(HMC(None, 0.5, DENSE, num_steps=4, step_size_jitter=0.5), SKEWED),
    "MALA": Row(MALA(None, 0.6, DENSE), SKEWED),
    "Barker": Row(Barker(None, 0.8, DENSE), SKEWED, SYMMETRIC[barker]),
    "NUTS": Row(NUTS(None, 0.6, VARIANCES), SKEWED, TREES),
    "NUTS, dense": Row(NUTS(None, 0.3, DENSE), SKEWED),
    "NUTS, cut short": Row(NUTS(None, 0.5, VARIANCES, max_depth=2), SKEWED),
    "NUTS, low rank": Row(NUTS(None, 0.5, LOW_RANK, max_depth=4), SKEWED),
    "WALNUTS": Row(WALNUTS(None, 0.6, VARIANCES, tolerance=0.3), SKEWED),
    "RandomWalk": Row(
        RandomWalk(covariance=DENSE),
        SKEWED,
        {"accepted too often": (alter(random_walk, "uniform", lambda f: lambda *x: f(*x) ** 2),)},
        rates=(0.1, 0.6),
    ),
    "RandomWalk, diagonal": Row(
        RandomWalk(covariance=VARIANCES, step_size=0.7), SKEWED, rates=(0.1, 0.9)
    ),
    "Slice": Row(
        Slice(covariance=DENSE),
        SKEWED,
        {
            **HALFWAY,
            "keys that repeat": (alter(slice_module, "threefry", one_seed),),
            "start of the interval": (
                fixed_unit(slice_module, 1, 0.0, (3,)),
                alter(slice_module, "_step_out", lambda _: lambda *x: (x[2], jnp.int32(0))),
            ),
        },
    ),
    "Slice, narrow": Row(Slice(covariance=VARIANCES, width=0.3), SKEWED),
    "EllipticalSlice": Row(
        EllipticalSlice(mean=MEAN, covariance=COVARIANCE),
        NORMAL,
        {
            "level": (fixed_unit(elliptical_slice, 0, 0.5, (2,)),),
            "ellipse about zero": (
                alter(
                    EllipticalSlice,
                    "_prior",
                    lambda f: lambda *x: (0 * f(*x)[0], f(*x)[1]),
                ),
            ),
        },
        num_chains=10_000,
    ),
    "GibbsWithGradients": Row(
        GibbsWithGradients(num_steps=6, **DISCRETE), POTTS, num_chains=4000, num_steps=1
    ),
    "GibbsWithGradients, exact": Row(
        GibbsWithGradients(num_steps=6, gradient=False, **DISCRETE),
        POTTS,
        SYMMETRIC[gibbs_with_gradients],
        num_chains=4000,
        num_steps=5,
    ),
    "DiscreteLangevin": Row(
        DiscreteLangevin(step_size=0.3, **DISCRETE),
        POTTS,
        SYMMETRIC[discrete_langevin],
        num_chains=4000,
        num_steps=5,
    ),
    "DiscreteLangevin, exact": Row(
        DiscreteLangevin(step_size=0.3, gradient=False, **DISCRETE),
        POTTS,
        num_chains=4000,
        num_steps=1,
    ),
    "CountMetropolis": Row(
        CountMetropolis(step_size=2.0),
        COUNTS,
        {
            "accepted too often": (
                alter(count_metropolis, "metropolis_rate", lambda f: lambda *x: jnp.sqrt(f(*x))),
            ),
        },
        num_chains=4000,
    ),
    "CountSlice": Row(CountSlice(), COUNTS, HALFWAY, num_chains=4000),
    "ChEES": Row(
        ChEES(None, 0.5, 2.0, VARIANCES),
        SKEWED,
        {"energy": (alter(chees, "kinetic_change", lambda f: lambda *x: -f(*x)),)},
        num_steps=3,
        together=8000,
    ),
    "AdjustedMCLMC": Row(
        AdjustedMCLMC(None, 1.0, 3.0, VARIANCES),
        SKEWED,
        {"dimensions": (alter(adjusted_mclmc, "turn", turn_in_more_dimensions),)},
        num_steps=3,
        together=8000,
    ),
    # With steps so long that a part of them is rejected.
    "MEADS": Row(
        MEADS(step_size_factor=1.7),
        SKEWED,
        {"levels": (alter(meads, "wrap", lambda _: lambda level: 0 * level),)},
        num_steps=3,
        together=8000,
    ),
    # In small folds, parameters vary much with the chains that they come from.
    "MEADS, small folds": Row(
        MEADS(),
        SKEWED,
        {"own fold": (alter(MEADS, "_parameters", parameters_of_own_fold),)},
        num_steps=3,
        together=16,
    ),
    # As few chains as there may be.
    "AffineInvariant": Row(
        AffineInvariant(num_steps=1),
        SKEWED,
        VOLUME["stretch"],
        num_steps=3,
        together=8,
        rates=(0.2, 0.9),
    ),
    "DifferentialEvolution": Row(
        DifferentialEvolution(num_steps=1, snooker_rate=0.5),
        SKEWED,
        VOLUME["snooker"],
        num_steps=3,
        together=8,
        rates=(0.2, 0.9),
    ),
    # Stretch moves within one half are so nearly right that no law of few numbers tells.
    "DifferentialEvolution, six chains": Row(
        DifferentialEvolution(num_steps=1, snooker_rate=0.5),
        LINE,
        {"own half": (alter(DifferentialEvolution, "propose", others_of_own_half),)},
        num_chains=12_000,
        num_steps=10,
        together=6,
        rates=(0.2, 0.9),
    ),
    "ParallelTempering": Row(
        ParallelTempering(kernel=RandomWalk(num_steps=1), num_temperatures=4, reference=WIDE),
        PATH,
        {
            "swaps": (
                alter(
                    parallel_tempering,
                    "swap_rates",
                    lambda f: lambda ladder, x: f(ladder, -x),
                ),
            ),
        },
        num_chains=6000,
        num_steps=3,
    ),
    "Gibbs": Row(
        Gibbs({"z": Conjugate()}, rest=RandomWalk(num_steps=1)),
        SWITCHES,
        {
            "wrong blanket": (alter(sweep, "block_density", beyond_the_blanket),),
            "order by the state": (alter(sweep.Sweep, "step", chosen_by_the_state),),
        },
        num_steps=4,
        rates=(0.1, 0.9),
    ),
    "PMMH": Row(
        PMMH(kernel=RandomWalk(step_size=2.0)),
        ESTIMATES,
        {
            "renewed": (alter(PMMH, "step", estimated_anew),),
            "stale": (alter(PMMH, "step", kept("log_density")),),
            "old path": (alter(PMMH, "step", kept("path")),),
        },
        rates=(0.1, 0.9),
    ),
    "ParticleGibbs": Row(
        ParticleGibbs(2),
        PATHS,
        {
            "redrawn": (alter(conditional_smc, "_put_reference", redrawn),),
            "weightless": (alter(conditional_smc, "_put_reference", weightless),),
            "weight of another": (alter(conditional_smc, "_put_reference", weight_of_another),),
            "ancestors": (
                alter(
                    conditional_smc,
                    "log_densities_ahead",
                    lambda _: lambda *given: jnp.zeros(given[-1]),
                ),
            ),
        },
    ),
}
