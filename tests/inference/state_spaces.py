"""State spaces written by hand, each with its evidence and smoothing distribution."""

import dataclasses
import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.stats as st
from jax import random
from jax.scipy.stats import norm
from scipy.special import softmax

from ppl.harvest.pytrees import register_dataclass


def static(default: Any = None) -> Any:
    return dataclasses.field(default=default, metadata={"static": True})


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NormalSpace:
    """Second-order autoregression seen through noise, from a start that is drawn and seen.

    The last two states are carried. `of_noise` makes the noise of a step its value: then the
    state never forgets an earlier one.
    """

    y: Any
    phi: Any = (0.6, 0.3)
    scale: Any = 0.7
    noise: Any = 0.5
    memory: int | None = static(2)
    of_noise: bool = static(False)

    @property
    def num_steps(self):
        return len(self.y) - 2

    def start(self, key):
        x = random.normal(key, dtype=float)
        return self._begun(x)[0], x, self._begun(x)[1]

    def _begun(self, x):
        return (x, jnp.zeros_like(x)), norm.logpdf(self.y[0], x, self.noise)

    def move(self, key, state, t):
        z = self.scale * random.normal(key, dtype=float)
        value = z if self.of_noise else self._mean(state) + z
        state, _, weight = self.score(state, value, t)
        return state, value, weight

    def score_start(self, values):
        state, weight = self._begun(values)
        return state, norm.logpdf(values), weight

    def _mean(self, state):
        return self.phi[0] * state[0] + self.phi[1] * state[1]

    def score(self, state, values, t):
        x = self._mean(state) + values if self.of_noise else values
        density = norm.logpdf(x, self._mean(state), self.scale)
        y = self.y[t + 1]
        weight = jnp.where(jnp.isnan(y), 0, norm.logpdf(jnp.nan_to_num(y), x, self.noise))
        return (x, state[0]), density, weight

    def finish(self, state):
        return norm.logpdf(self.y[-1], state[0] + state[1], self.noise)

    def exact(self):
        """Log evidence; mean and covariance of the start and all steps given what is observed."""
        size = self.num_steps + 1
        maps = np.eye(size)  # of noises to states
        for t in range(1, size):
            before = maps[t - 2] if t > 1 else 0
            maps[t] = self.phi[0] * maps[t - 1] + self.phi[1] * before + np.eye(size)[t]
        noises = np.diag([1.0, *[self.scale**2] * (size - 1)])
        seen = np.concatenate([maps, [maps[-1] + maps[-2]]])
        y = np.asarray(self.y)
        seen, y = seen[~np.isnan(y)], y[~np.isnan(y)]
        values = np.eye(size) if self.of_noise else maps
        joint = seen @ noises @ seen.T + self.noise**2 * np.eye(len(y))
        gain = values @ noises @ seen.T @ np.linalg.inv(joint)
        covariance = values @ noises @ values.T - gain @ seen @ noises @ values.T
        log_evidence = st.multivariate_normal(np.zeros(len(y)), joint).logpdf(y)
        return log_evidence, gain @ y, covariance


@register_dataclass
@dataclasses.dataclass(frozen=True)
class IndependentSpace:
    """Standard normal values of all steps, each seen through noise; particles carry nothing."""

    y: Any
    noise: Any = 0.8
    memory: int | None = static(1)

    @property
    def num_steps(self):
        return len(self.y)

    def start(self, key):
        return None, None, jnp.zeros(())

    def move(self, key, state, t):
        value = random.normal(key, dtype=float)
        return None, value, self.score(state, value, t)[2]

    def score_start(self, values):
        return None, jnp.zeros(()), jnp.zeros(())

    def score(self, state, values, t):
        return None, norm.logpdf(values), norm.logpdf(self.y[t], values, self.noise)

    def finish(self, state):
        return jnp.zeros(())

    def exact(self):
        """Log evidence; mean and covariance of all steps given what is observed."""
        y = np.asarray(self.y)
        variance = 1 + self.noise**2
        covariance = np.eye(len(y)) * self.noise**2 / variance
        return st.norm.logpdf(y, 0, variance**0.5).sum(), y / variance, covariance


SERIES = np.array([0.5, 1.9, np.nan, -0.4, 0.2, 1.1, 1.4])
NORMAL = NormalSpace(jnp.array(SERIES))
OF_NOISE = NormalSpace(jnp.array(SERIES), memory=None, of_noise=True)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class HMM:
    """Hidden Markov model of two states seen through noise; the first state is drawn in step 0."""

    y: Any
    stay: Any = (0.9, 0.7)
    noise: Any = 0.8
    memory: int | None = static(1)

    @property
    def num_steps(self):
        return len(self.y)

    def start(self, key):
        return jnp.int32(0), None, jnp.zeros(())

    def _probability(self, state, t):
        """Of state 1 in step `t`."""
        stay = jnp.asarray(self.stay)[state]
        return jnp.where(t == 0, 0.3, jnp.where(state == 1, stay, 1 - stay))

    def move(self, key, state, t):
        value = random.bernoulli(key, self._probability(state, t)).astype(jnp.int32)
        return value, value, self.score(state, value, t)[2]

    def score_start(self, values):
        return jnp.int32(0), jnp.zeros(()), jnp.zeros(())

    def score(self, state, values, t):
        p = self._probability(state, t)
        density = jnp.log(jnp.where(values == 1, p, 1 - p))
        mean = values.astype(self.y.dtype)
        return values, density, norm.logpdf(self.y[t], mean, self.noise)

    def finish(self, state):
        return jnp.zeros(())

    def _log_joint(self):
        """All paths, and the log density of each with the data."""
        paths = np.array([*itertools.product((0, 1), repeat=self.num_steps)])
        stay = np.asarray(self.stay)
        logs = np.log(np.where(paths[:, 0] == 1, 0.3, 0.7))
        steps = np.where(paths[:, 1:] == paths[:, :-1], stay[paths[:, :-1]], 0)
        logs += np.log(np.where(steps > 0, steps, 1 - stay[paths[:, :-1]])).sum(1)
        return paths, logs + st.norm.logpdf(np.asarray(self.y), paths, self.noise).sum(1)

    def path_probabilities(self):
        """Probabilities of all paths, the last step the fastest to change."""
        return softmax(self._log_joint()[1])

    def exact(self):
        """Log evidence; probabilities of state 1, of one step and of two neighbors."""
        paths, logs = self._log_joint()
        weights = np.exp(logs - logs.max())
        log_evidence = np.log(weights.sum()) + logs.max()
        weights /= weights.sum()
        return log_evidence, weights @ paths, weights @ (paths[:, 1:] * paths[:, :-1])


HIDDEN = HMM(jnp.array([0.2, 1.4, 0.9, -0.5, 0.1, 1.2, 0.6, 0.4, 1.9, -0.2]))
INDEPENDENT = IndependentSpace(jnp.array([0.5, -0.1, 1.1, 0.8]))
SPACES = {"normal": NORMAL, "of_noise": OF_NOISE, "hmm": HIDDEN, "independent": INDEPENDENT}


def batch_means_error(draws, num_batches=50):
    """Standard error of the mean of correlated draws, ``(draw, ...)``, by batches."""
    rows = len(draws) // num_batches * num_batches
    batches = np.asarray(draws[:rows], float).reshape(num_batches, -1, *np.shape(draws)[1:])
    return batches.mean(1).std(0, ddof=1) / num_batches**0.5
