"""A model, and its density without some of its sites by hand."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.scipy.special import gammaln

import ppl


def beta(x, a, b):
    """The log density of Beta(a, b), summed; that of JAX is off by 1e-6."""
    constant = gammaln(a + b) - gammaln(a) - gammaln(b)
    return jnp.sum((a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x) + constant)


@dataclasses.dataclass(frozen=True)
class Marginal:
    """A model with sites to be summed or integrated out.

    Attributes:
        model: The model, as a user would write it.
        by_hand: The log density of the other latent sites by name, with the data in it.
        summed: The names of the sites that are taken out; with strategies where these are not
            `ppl.Enumerate()`.
        args: The arguments of the model.
        data: The observed sites.
        missing: By observed site, which of its values are missing.
    """

    model: Callable[..., Any]
    by_hand: Callable[[Any], Any]
    summed: tuple[str, ...] | Mapping[str, Any]
    args: tuple[Any, ...] = ()
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.__name__

    @property
    def strategies(self) -> Mapping[str, Any]:
        """How each of these sites is taken out."""
        if isinstance(self.summed, Mapping):
            return self.summed
        return dict.fromkeys(self.summed, ppl.Enumerate())

    def posterior(self) -> Any:
        """The model conditioned on its data."""
        ignored = {name: ppl.ignore(self.data[name], mask) for name, mask in self.missing.items()}
        return ppl.condition(self.model, {**self.data, **ignored})

    def marginal(self) -> Any:
        """The model conditioned on its data, without these sites."""
        return ppl.marginalize(self.posterior(), self.summed)


def log_normal(y, mean, covariance):
    """The log density of a multivariate normal, in NumPy."""
    rest = y - mean
    square = rest @ np.linalg.solve(covariance, rest)
    return -0.5 * (square + np.linalg.slogdet(covariance)[1] + len(rest) * np.log(2 * np.pi))


def half_normal(x, scale=1.0):
    """The log density of HalfNormal, summed, in NumPy."""
    return np.sum(scipy.stats.halfnorm.logpdf(x, scale=scale))


def kalman(y, transition, loading, noise, step, mean, covariance):
    """The log likelihood of a state-space model by the Kalman filter, in NumPy.

    Args:
        y: The observations, a row for each step.
        transition: The matrix of the states.
        loading: The matrix from the states to the observations, or one for each step.
        noise: The covariance of the observations.
        step: The covariance of the states of a step given the last ones.
        mean: The mean of the states before the first step.
        covariance: Their covariance.
    """
    total = 0.0
    for row, load in zip(y, np.broadcast_to(loading, (len(y), *loading.shape[-2:])), strict=True):
        mean, covariance = transition @ mean, transition @ covariance @ transition.T + step
        spread = load @ covariance @ load.T + noise
        total += log_normal(row, load @ mean, spread)
        gain = covariance @ load.T @ np.linalg.inv(spread)
        mean, covariance = mean + gain @ (row - load @ mean), covariance - gain @ spread @ gain.T
    return total


def laplace(likelihood, design, mean, covariance):
    """Laplace's approximation of the log probability of data, dense, in NumPy.

    Args:
        likelihood: The log probability of the data, and its first and second derivatives, by
            element of the linear predictor.
        design: The matrix from the normal effects to the linear predictor.
        mean: The mean of the effects.
        covariance: Their covariance.
    """
    x, precision = mean, np.linalg.inv(covariance)
    for _ in range(100):
        _, first, second = likelihood(design @ x)
        curvature = precision - design.T * second @ design
        step = np.linalg.solve(curvature, design.T @ first - precision @ (x - mean))
        x = x + step / max(1.0, np.abs(step).max())
    log_det = np.linalg.slogdet(curvature / (2 * np.pi))[1]
    return np.sum(likelihood(design @ x)[0]) + log_normal(x, mean, covariance) - 0.5 * log_det
