"""Pointwise log probabilities of many draws, computed in memory-bounded chunks."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from inference.runtime.compiled_program import compile_once
from ppl.common.draw_chunks import choose_chunk_size, join_chunks, map_chunks

_CHUNK_NUMBERS = 1 << 22  # log probabilities of one chunk


def log_likelihoods(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Log likelihood of each element of each observed site, or group of elements, by name.

    It is the density of an observation itself: where ``ppl.scale`` multiplies its score in the
    posterior, it is not multiplied.

    Args:
        likelihood: The likelihood, ``ppl.transforms.likelihood.Likelihood``.
        draws: Values of the latent sites, ``(chain, draw, *shape)``; deterministic ones are
            skipped.

    Returns:
        Arrays ``(chain, draw, *observation shape)``.
    """
    of_draw = _log_predictive if likelihood.is_scaled else _log_probs
    return _map(of_draw, likelihood, draws, _of_data)


def log_scores(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Terms of the log density of the posterior that belong to the data, multiplied by factors.

    Returns:
        Arrays as of :func:`log_likelihoods`.
    """
    return _map(_log_probs, likelihood, draws, _of_data)


def log_probs(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Log probability of each element of each random site, or group of elements, and of factors.

    Returns:
        Arrays ``(chain, draw, *shape)`` by name.
    """
    return _map(_log_probs, likelihood, draws, _of_all)


def log_priors(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Log probability of each latent site, and of all data and factors under the name ``""``.

    In a site that is observed in part, missing entries are latent, and known entries are data.

    Returns:
        Arrays ``(chain, draw)``.
    """
    return _map(_log_probs, likelihood, draws, _sum_by_kind)


def _map(
    of_draws: Callable[[Any, Any], dict[str, Any]],
    likelihood: Any,
    draws: Mapping[str, Any],
    reduce: Callable[[Any, Any, dict[str, np.ndarray]], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Log probabilities of all draws, by one program for any number of draws and any reduction.

    Args:
        of_draws: Function of the likelihood and of some draws.
        likelihood: The likelihood.
        draws: Values of the latent sites, ``(chain, draw, *shape)``.
        reduce: Function of the likelihood, of some draws and of their log probabilities, on the
            host: what is kept of them.
    """
    batch = np.shape(jax.tree.leaves(draws)[0])[:2]
    num_draws = math.prod(batch)
    flat = jax.tree.map(lambda x: np.reshape(x, (num_draws, *np.shape(x)[2:])), dict(draws))
    size = sum(math.prod(x.shape) for x in likelihood.scored)
    size += sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(flat))
    chunk = choose_chunk_size(None, num_draws, _CHUNK_NUMBERS // max(size, 1))

    def of_chunk(_: Any, some: Any) -> Any:
        found = compile_once(of_draws, likelihood, some, splits_results=True)(likelihood, some)
        return reduce(likelihood, some, jax.tree.map(np.asarray, found))

    return join_chunks(map_chunks(of_chunk, flat, num_draws, chunk), batch)


def _log_probs(likelihood: Any, draws: Any) -> dict[str, Any]:
    return jax.vmap(likelihood.log_probs)(draws)


def _log_predictive(likelihood: Any, draws: Any) -> dict[str, Any]:
    return jax.vmap(likelihood.log_predictive)(draws)


def _of_all(_: Any, __: Any, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return found


def _of_data(likelihood: Any, _: Any, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: found[name] for name, _ in likelihood.shapes}


def _sum_by_kind(
    likelihood: Any, draws: Any, found: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Sums of the log probabilities of each latent site, and of all data and factors."""
    imputed = {}
    if likelihood.has_imputed:
        imputed = compile_once(_imputed, likelihood, draws)(likelihood, draws)
    data = np.zeros(len(jax.tree.leaves(draws)[0]), np.float32)
    priors = {}
    for name, x in found.items():
        is_prior = np.full(x.shape[1:], name in likelihood.priors)
        if name in imputed:
            missing = np.asarray(imputed[name])
            is_prior = missing.all(tuple(range(x.ndim - 1, missing.ndim)))
        axes = tuple(range(1, x.ndim))
        if name in likelihood.priors:
            priors[name] = np.sum(np.where(is_prior, x, 0), axes)
        data = data + np.sum(np.where(is_prior, 0, x), axes)
    return priors | {"": data}


def _imputed(likelihood: Any, draws: Any) -> dict[str, Any]:
    """Boolean arrays by latent site observed in part: which entries are missing."""
    return likelihood.imputed(jax.tree.map(lambda x: x[0], draws))
