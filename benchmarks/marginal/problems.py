"""Models with sites to take out, beside the same densities with sum or integral by hand.

Each function makes a model anew, so that nothing is cached by it, for a number of rows or steps.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import logsumexp
from jax.ops import segment_sum
from jax.scipy.special import gammaln

import distributions as dist
import ppl

LOG_2PI = float(np.log(2 * np.pi))
NUM_STATES = 3
STAY = 1.0 + 8.0 * np.eye(NUM_STATES)  # concentrations of the rows of a transition matrix


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model, the same density by hand, and data.

    Attributes:
        model: A function of a key and `args`.
        sites: The sites to take out, as `ppl.marginalize` takes them.
        by_hand: The log density of the rest, of values, observed values and `args`.
        values: Values of the latent sites, where densities are evaluated.
        observed: Values of the observed sites.
        args: Arguments of the model.
    """

    model: Callable[..., Any]
    sites: Any
    by_hand: Callable[..., jax.Array]
    values: Mapping[str, Any]
    observed: Mapping[str, Any]
    args: tuple[Any, ...] = ()

    def posterior(self, observed: Mapping[str, Any]) -> Any:
        """The model with its sites taken out."""
        return ppl.marginalize(ppl.condition(self.model, observed), self.sites)

    def density(self, values: Mapping[str, Any], observed: Mapping[str, Any], *args: Any) -> Any:
        """The log density that `ppl` derives."""
        return ppl.log_density(self.posterior(observed))(values, *args)


def normal(x: Any, loc: Any, scale: Any) -> jax.Array:
    return -0.5 * ((x - loc) / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI


def half_normal(x: Any, scale: Any) -> jax.Array:
    return normal(x, 0.0, scale) + jnp.log(2.0)


def dirichlet(x: Any, a: Any) -> jax.Array:
    constant = gammaln(a.sum(-1)) - gammaln(a).sum(-1)
    return (((a - 1) * jnp.log(x)).sum(-1) + constant).sum()


def hmm(num: int) -> Problem:
    """A hidden Markov model with three states, their levels and the transitions unknown."""

    def model(key):
        rows = ppl.sample(key, dist.Dirichlet(jnp.asarray(STAY)), name="rows")
        low = ppl.sample(key, dist.Normal(0.0, 5.0), name="low")
        gaps = ppl.sample(key, dist.HalfNormal(jnp.full(NUM_STATES - 1, 5.0)), name="gaps")
        level = low + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])

        def step(z, key):
            z = ppl.sample(key, dist.Categorical(probs=rows[z]), name="z")
            ppl.sample(key, dist.Normal(level[z], 1.0), name="y")
            return z, None

        lax.scan(step, 0, jax.random.split(key, num))

    def by_hand(values, observed):
        """The forward algorithm, rescaled in each step as float32 needs it."""
        rows, low, gaps, y = values["rows"], values["low"], values["gaps"], observed["y"]
        prior = dirichlet(rows, STAY) + normal(low, 0.0, 5.0) + half_normal(gaps, 5.0).sum()
        level = low + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])
        log_probs, log_rows = normal(y[:, None], level, 1.0), jnp.log(rows)

        def step(alpha, log_prob):
            top = lax.stop_gradient(alpha.max())
            return logsumexp(alpha[:, None] - top + log_rows, 0) + log_prob, top

        alpha, tops = lax.scan(step, log_rows[0] + log_probs[0], log_probs[1:])
        return prior + tops.sum() + logsumexp(alpha)

    rng, z, states = np.random.default_rng(0), 0, []
    for _ in range(num):
        z = rng.choice(NUM_STATES, p=STAY[z] / STAY[z].sum())
        states.append(z)
    y = 2.0 * (np.array(states) - 1) + rng.normal(size=num)
    values = {"rows": STAY / STAY.sum(-1, keepdims=True), "low": -1.8, "gaps": np.array([1.9, 2.2])}
    return Problem(model, ["z"], by_hand, values, {"y": y})


def mixture(num: int) -> Problem:
    """A mixture of three normal distributions with a common scale, a class for each row."""

    def model(key):
        weights = ppl.sample(key, dist.Dirichlet(jnp.full(NUM_STATES, 5.0)), name="weights")
        low = ppl.sample(key, dist.Normal(0.0, 5.0), name="low")
        gaps = ppl.sample(key, dist.HalfNormal(jnp.full(NUM_STATES - 1, 5.0)), name="gaps")
        scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
        level = low + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])

        def row(key):
            z = ppl.sample(key, dist.Categorical(probs=weights), name="z")
            ppl.sample(key, dist.Normal(level[z], scale), name="y")

        jax.vmap(row)(jax.random.split(key, num))

    def by_hand(values, observed):
        weights, low, gaps, scale = (values[k] for k in ("weights", "low", "gaps", "scale"))
        prior = dirichlet(weights, np.full(NUM_STATES, 5.0)) + normal(low, 0.0, 5.0)
        prior += half_normal(gaps, 5.0).sum() + half_normal(scale, 2.0)
        level = low + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])
        log_probs = normal(observed["y"][:, None], level, scale) + jnp.log(weights)
        return prior + logsumexp(log_probs, -1).sum()

    rng = np.random.default_rng(1)
    y = 4.0 * (rng.choice(NUM_STATES, num, p=[0.5, 0.3, 0.2]) - 1) + rng.normal(size=num)
    values = {"weights": np.array([0.4, 0.4, 0.2]), "low": -3.5, "gaps": np.array([3.8, 4.1])}
    return Problem(model, ["z"], by_hand, values | {"scale": 1.2}, {"y": y})


def annotators(num: int) -> Problem:
    """Dawid and Skene: items of three classes, labeled by ten annotators who err."""
    num_annotators = 10

    def model(key):
        weights = ppl.sample(key, dist.Dirichlet(jnp.full(NUM_STATES, 5.0)), name="weights")
        errors = np.broadcast_to(STAY, (num_annotators, NUM_STATES, NUM_STATES))
        says = ppl.sample(key, dist.Dirichlet(jnp.asarray(errors)), name="says")

        def item(key):
            z = ppl.sample(key, dist.Categorical(probs=weights), name="z")
            ppl.sample(key, dist.Categorical(probs=says[:, z]), name="label")

        jax.vmap(item)(jax.random.split(key, num))

    def by_hand(values, observed):
        weights, says, label = values["weights"], values["says"], observed["label"]
        errors = np.broadcast_to(STAY, says.shape)
        prior = dirichlet(weights, np.full(NUM_STATES, 5.0)) + dirichlet(says, errors)
        told = jnp.log(says)[np.arange(num_annotators), :, label].sum(1)
        return prior + logsumexp(told + jnp.log(weights), -1).sum()

    rng = np.random.default_rng(2)
    z, is_right = rng.integers(NUM_STATES, size=num), rng.uniform(size=(num, num_annotators)) < 0.8
    label = np.where(is_right, z[:, None], rng.integers(NUM_STATES, size=is_right.shape))
    says = np.tile(STAY / STAY.sum(-1, keepdims=True), (num_annotators, 1, 1))
    values = {"weights": np.array([0.4, 0.4, 0.2]), "says": says}
    return Problem(model, ["z"], by_hand, values, {"label": label})


def abundance(num: int) -> Problem:
    """An N-mixture: two counts on each of seven days at each site, of unknown totals up to 100."""
    num_days, num_counts, most = 7, 2, 100

    def model(key):
        rate = ppl.sample(key, dist.Gamma(10.0, 1.0), name="rate")
        found = ppl.sample(key, dist.Beta(2.0, 2.0), name="found")
        rates = rate * jnp.ones((num, num_days))
        total = ppl.sample(key, dist.Truncated(dist.Poisson(rates), high=most), name="total")
        trials = total[..., None] * np.ones(num_counts, int)
        ppl.sample(key, dist.Binomial(trials, probs=found), name="count")

    def by_hand(values, observed):
        """The sum over a last axis of totals, by the same probabilities of counts."""
        rate, found = values["rate"], values["found"]
        prior = dist.Gamma(10.0, 1.0).log_prob(rate) + dist.Beta(2.0, 2.0).log_prob(found)
        total, count = np.arange(most + 1), observed["count"][..., None]
        rates = rate * jnp.ones((num, num_days, 1))
        log_probs = dist.Binomial(total, probs=found).log_prob(count).sum(-2)
        log_probs += dist.Truncated(dist.Poisson(rates), high=most).log_prob(total)
        return prior + logsumexp(log_probs, -1).sum()

    rng = np.random.default_rng(5)
    total = rng.poisson(10, (num, num_days, 1))
    values = {"rate": 9.0, "found": 0.45}
    count = rng.binomial(total, 0.4, (num, num_days, num_counts))
    return Problem(model, ["total"], by_hand, values, {"count": count})


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(num: int = 8) -> Problem:
    """Eight schools; their effects and the mean of these are integrated out."""

    def model(key, error):
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
        theta = ppl.sample(key, dist.Normal(mu, tau * jnp.ones(num)), name="theta")
        ppl.sample(key, dist.Normal(theta, error), name="y")

    def by_hand(values, observed, error):
        tau, y = values["tau"], observed["y"]
        prior = jnp.log(2 / jnp.pi / 5) - jnp.log1p((tau / 5) ** 2)
        variance = tau**2 + error**2
        precision = 1 / 25 + (1 / variance).sum()
        mu = (y / variance).sum() / precision
        at_mode = normal(y, mu, jnp.sqrt(variance)).sum() + normal(mu, 0.0, 5.0)
        return prior + at_mode + 0.5 * (LOG_2PI - jnp.log(precision))

    sites = dict.fromkeys(["mu", "theta"], ppl.Gaussian())
    return Problem(model, sites, by_hand, {"tau": 4.0}, {"y": EFFECTS}, (ERRORS,))


def radon(num: int) -> Problem:
    """A regression with a level for each of 85 groups; the levels are integrated out."""
    num_groups = 85
    rng = np.random.default_rng(3)
    group, x = rng.integers(num_groups, size=num), rng.normal(size=num)

    def model(key, x):
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        slope = ppl.sample(key, dist.Normal(0.0, 5.0), name="slope")
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
        level = ppl.sample(key, dist.Normal(mu * jnp.ones(num_groups), tau), name="level")
        ppl.sample(key, dist.Normal(level[group] + slope * x, sigma), name="y")

    def by_hand(values, observed, x):
        mu, slope, tau, sigma = (values[k] for k in ("mu", "slope", "tau", "sigma"))
        prior = normal(jnp.stack([mu, slope]), 0.0, 5.0).sum()
        prior += half_normal(jnp.stack([tau, sigma]), 1.0).sum()
        rest = observed["y"] - slope * x
        count = np.bincount(group, minlength=num_groups)
        precision = 1 / tau**2 + count / sigma**2
        sums = segment_sum(rest, group, num_groups)
        level = (mu / tau**2 + sums / sigma**2) / precision
        at_mode = normal(rest, level[group], sigma).sum() + normal(level, mu, tau).sum()
        return prior + at_mode + 0.5 * (LOG_2PI - jnp.log(precision)).sum()

    y = 1.3 + 0.3 * rng.normal(size=num_groups)[group] - 0.7 * x + 0.8 * rng.normal(size=num)
    values = {"mu": 1.2, "slope": -0.6, "tau": 0.4, "sigma": 0.9}
    return Problem(model, {"level": ppl.Gaussian()}, by_hand, values, {"y": y}, (x,))


def nested_effects(num: int) -> Problem:
    """Levels of towns in regions, a town for 5 rows, a region for 500; both are integrated out."""
    num_towns, num_regions = num // 5, num // 500
    rng = np.random.default_rng(5)
    town_of = rng.integers(num_towns, size=num)
    region_of = rng.integers(num_regions, size=num_towns)

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        scales = ppl.sample(key, dist.HalfNormal(jnp.ones(3)), name="scales")
        region = ppl.sample(key, dist.Normal(mu * jnp.ones(num_regions), scales[0]), name="region")
        town = ppl.sample(key, dist.Normal(region[region_of], scales[1]), name="town")
        ppl.sample(key, dist.Normal(town[town_of], scales[2]), name="y")

    def by_hand(values, observed):
        mu, scales, y = values["mu"], values["scales"], observed["y"]
        prior = normal(mu, 0.0, 5.0) + half_normal(scales, 1.0).sum()
        of_region, of_town, of_row = 1 / scales**2
        count = np.bincount(town_of, minlength=num_towns)
        told = of_row * jax.ops.segment_sum(y, town_of, num_towns)
        precision = of_town + of_row * count
        weight = of_town * of_row * count / precision
        above = of_region + jax.ops.segment_sum(weight, region_of, num_regions)
        rest = jax.ops.segment_sum(of_town * told / precision, region_of, num_regions)
        region = (of_region * mu + rest) / above
        town = (of_town * region[region_of] + told) / precision
        at_mode = normal(y, town[town_of], scales[2]).sum() + normal(region, mu, scales[0]).sum()
        at_mode += normal(town, region[region_of], scales[1]).sum()
        log_dets = jnp.log(precision).sum() + jnp.log(above).sum()
        return prior + at_mode + 0.5 * ((num_towns + num_regions) * LOG_2PI - log_dets)

    effect = 1.0 + 0.5 * rng.normal(size=num_regions)[region_of] + 0.3 * rng.normal(size=num_towns)
    y = effect[town_of] + 0.8 * rng.normal(size=num)
    values = {"mu": 0.9, "scales": np.array([0.4, 0.35, 0.75])}
    sites = dict.fromkeys(["region", "town"], ppl.Gaussian())
    return Problem(model, sites, by_hand, values, {"y": y})


def local_level(num: int) -> Problem:
    """A random walk with noise; the levels are integrated out."""

    def model(key):
        noise = ppl.sample(key, dist.HalfNormal(2.0), name="noise")
        size = ppl.sample(key, dist.HalfNormal(2.0), name="size")

        def step(level, key):
            level = ppl.sample(key, dist.Normal(level, size), name="level")
            return level, ppl.sample(key, dist.Normal(level, noise), name="y")

        start = ppl.sample(key, dist.Normal(0.0, 3.0), name="start")
        lax.scan(step, start, jax.random.split(key, num))

    def by_hand(values, observed):
        """The Kalman filter."""
        noise, size = values["noise"], values["size"]

        def step(state, y):
            mean, variance = state
            variance = variance + size**2
            total = variance + noise**2
            gain = variance / total
            log_prob = normal(y, mean, jnp.sqrt(total))
            return (mean + gain * (y - mean), gain * noise**2), log_prob

        start = jnp.zeros(()), jnp.asarray(9.0)
        log_probs = lax.scan(step, start, observed["y"])[1]
        return half_normal(noise, 2.0) + half_normal(size, 2.0) + log_probs.sum()

    rng = np.random.default_rng(4)
    y = np.cumsum(0.5 * rng.normal(size=num)) + rng.normal(size=num)
    sites = dict.fromkeys(["level", "start"], ppl.Gaussian())
    return Problem(model, sites, by_hand, {"noise": 0.9, "size": 0.6}, {"y": y})


def ascend(step: Callable[[jax.Array], tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    """The mode by Newton's method; `step` gives a move, and by how much it leads uphill."""

    def proceed(state):
        move, gain = step(state[0])
        return state[0] + move, gain, state[2] + 1

    def is_far(state):
        return (state[1] > 1e-8) & (state[2] < 30)

    start = x, jnp.asarray(jnp.inf, x.dtype), 0
    return lax.stop_gradient(lax.while_loop(is_far, proceed, start)[0])


def counts(num: int) -> Problem:
    """Counts of groups with a level each, by Laplace's approximation; five rows for each group."""
    rng = np.random.default_rng(5)
    group, x = np.repeat(np.arange(num), 5), rng.normal(size=5 * num)

    def model(key, x):
        mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        level = ppl.sample(key, dist.Normal(mu * jnp.ones(num), tau), name="level")
        ppl.sample(key, dist.Poisson(jnp.exp(level[group] + slope * x)), name="y")

    def by_hand(values, observed, x):
        """One more Newton step, from the mode held fixed, has the derivatives of the mode."""
        mu, slope, tau, y = values["mu"], values["slope"], values["tau"], observed["y"]

        def expand(level):
            rate = jnp.exp(level[group] + slope * x)
            total = functools.partial(segment_sum, num_segments=num, indices_are_sorted=True)
            gradient = total(y - rate, group) - (level - mu) / tau**2
            return gradient, total(rate, group) + 1 / tau**2

        def step(level):
            gradient, precision = expand(level)
            return gradient / precision, jnp.sum(gradient**2 / precision) / 2

        level = ascend(step, jnp.zeros(num))
        gradient, precision = expand(level)
        level = level + gradient / lax.stop_gradient(precision)
        log_rate = level[group] + slope * x
        at_mode = (y * log_rate - jnp.exp(log_rate) - gammaln(y + 1.0)).sum()
        at_mode += normal(level, mu, tau).sum()
        prior = normal(mu, 0.0, 2.0) + normal(slope, 0.0, 1.0) + half_normal(tau, 1.0)
        return prior + at_mode + 0.5 * (LOG_2PI - jnp.log(expand(level)[1])).sum()

    y = rng.poisson(np.exp(0.5 + 0.3 * x + 0.8 * rng.normal(size=num)[group]))
    values = {"mu": 0.4, "slope": 0.3, "tau": 0.7}
    return Problem(model, {"level": ppl.Laplace()}, by_hand, values, {"y": y}, (x,))


def volatility(num: int) -> Problem:
    """Stochastic volatility; the log variances are taken out by Laplace's approximation."""

    def model(key):
        mean = ppl.sample(key, dist.Normal(0.0, 1.0), name="mean")
        memory = ppl.sample(key, dist.Uniform(0.0, 1.0), name="memory")
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

        def step(h, key):
            h = ppl.sample(key, dist.Normal(memory * h, scale), name="h")
            return h, ppl.sample(key, dist.Normal(0.0, jnp.exp((mean + h) / 2)), name="y")

        first = ppl.sample(key, dist.Normal(0.0, 1.0), name="first")
        lax.scan(step, first, jax.random.split(key, num))

    def by_hand(values, observed):
        mean, memory, scale, y = (*(values[k] for k in ("mean", "memory", "scale")), observed["y"])
        squares = jnp.concatenate([jnp.zeros(1), y**2 * jnp.exp(-mean)])
        ends = jnp.zeros(num + 1).at[0].set(1 - 1 / scale**2).at[-1].set(-((memory / scale) ** 2))
        base, side = (1 + memory**2) / scale**2 + ends, -memory / scale**2

        def expand(h):
            half = squares * jnp.exp(-h) / 2
            near = jnp.pad(h[1:], (0, 1)) + jnp.pad(h[:-1], (1, 0))
            gradient = half - base * h - side * near
            return gradient.at[1:].add(-0.5), base + half

        def solve(diagonal, x):
            """The solution, and the pivots, of a tridiagonal matrix."""

            def down(before, here):
                pivot = here[0] - side**2 / before[0]
                found = pivot, here[1] - side / before[0] * before[1]
                return found, found

            def up(after, here):
                found = (here[1] - side * after) / here[0]
                return found, found

            first = diagonal[0], x[0]
            _, rest = lax.scan(down, first, (diagonal[1:], x[1:]))
            pivots, x = (jnp.concatenate([a[None], b]) for a, b in zip(first, rest, strict=True))
            last = x[-1] / pivots[-1]
            _, found = lax.scan(up, last, (pivots[:-1], x[:-1]), reverse=True)
            return jnp.concatenate([found, last[None]]), pivots

        def step(h):
            gradient, diagonal = expand(h)
            move = solve(diagonal, gradient)[0]
            return move, gradient @ move / 2

        h = ascend(step, jnp.zeros(num + 1))
        gradient, diagonal = expand(h)
        h = h + solve(diagonal, gradient)[0]
        pivots = solve(expand(h)[1], gradient)[1]
        at_mode = normal(y, 0.0, jnp.exp((mean + h[1:]) / 2)).sum() + normal(h[0], 0.0, 1.0)
        at_mode += normal(h[1:], memory * h[:-1], scale).sum()
        prior = normal(mean, 0.0, 1.0) + half_normal(scale, 1.0)
        return prior + at_mode + 0.5 * (LOG_2PI - jnp.log(pivots)).sum()

    rng, h = np.random.default_rng(6), np.zeros(num)
    for t in range(1, num):
        h[t] = 0.95 * h[t - 1] + 0.25 * rng.normal()
    y = rng.normal(size=num) * np.exp((h - 0.3) / 2)
    sites = dict.fromkeys(["first", "h"], ppl.Laplace())
    values = {"mean": -0.2, "memory": 0.93, "scale": 0.3}
    return Problem(model, sites, by_hand, values, {"y": y})


PROBLEMS: dict[str, tuple[Callable[[int], Problem], int]] = {
    "hidden Markov model": (hmm, 1000),
    "mixture": (mixture, 1000),
    "Dawid and Skene": (annotators, 500),
    "N-mixture": (abundance, 95),
    "eight schools": (eight_schools, 8),
    "radon": (radon, 919),
    "nested effects": (nested_effects, 10_000),
    "local level": (local_level, 1000),
    "counts in groups": (counts, 200),
    "stochastic volatility": (volatility, 500),
}
