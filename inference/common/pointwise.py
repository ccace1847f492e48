"""Pointwise log probabilities of many draws, computed in memory-bounded chunks."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
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
    return _map(_log_likelihood, likelihood, draws)


def log_scores(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Terms of the log density of the posterior that belong to the data, multiplied by factors.

    Returns:
        Arrays as of :func:`log_likelihoods`.
    """
    return _map(_log_score, likelihood, draws)


def log_probs(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Log probability of each element of each random site, or group of elements, and of factors.

    Returns:
        Arrays ``(chain, draw, *shape)`` by name.
    """
    return _map(_log_probs, likelihood, draws)


def log_priors(likelihood: Any, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Log probability of each latent site, and of all data and factors under the name ``""``.

    In a site that is observed in part, missing entries are latent, and known entries are data.

    Returns:
        Arrays ``(chain, draw)``.
    """
    return _map(_log_prior, likelihood, draws)


def _map(of_draw: Any, likelihood: Any, draws: Mapping[str, Any]) -> dict[Any, np.ndarray]:
    """Results of a function of a draw for all draws, by one program for any number of draws."""
    batch = np.shape(jax.tree.leaves(draws)[0])[:2]
    num_draws = math.prod(batch)
    flat = jax.tree.map(lambda x: np.reshape(x, (num_draws, *np.shape(x)[2:])), dict(draws))
    size = sum(math.prod(shape) for _, shape in likelihood.shapes)
    size += sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(flat))
    chunk = choose_chunk_size(None, num_draws, _CHUNK_NUMBERS // max(size, 1))

    def of_chunk(_: Any, some: Any) -> Any:
        return compile_once(of_draw, likelihood, some)(likelihood, some)

    return join_chunks(map_chunks(of_chunk, flat, num_draws, chunk), batch)


def _log_likelihood(likelihood: Any, draws: Any) -> Any:
    return _of_data(likelihood, likelihood.log_predictive, draws)


def _log_score(likelihood: Any, draws: Any) -> Any:
    return _of_data(likelihood, likelihood.log_probs, draws)


def _of_data(likelihood: Any, log_probs: Callable[[Any], dict[str, Any]], draws: Any) -> Any:
    def one(draw: Any) -> Any:
        found = log_probs(draw)
        return {name: found[name] for name, _ in likelihood.shapes}

    return jax.vmap(one)(draws)


def _log_probs(likelihood: Any, draws: Any) -> Any:
    return jax.vmap(likelihood.log_probs)(draws)


def _log_prior(likelihood: Any, draws: Any) -> Any:
    imputed = likelihood.imputed(jax.tree.map(lambda x: x[0], draws))

    def one(draw: Any) -> Any:
        found = likelihood.log_probs(draw)
        data = jnp.zeros(())
        priors = {}
        for name, x in found.items():
            is_prior = jnp.full(x.shape, name in likelihood.priors)
            if name in imputed:
                is_prior = imputed[name].all(tuple(range(x.ndim, imputed[name].ndim)))
            if name in likelihood.priors:
                priors[name] = jnp.sum(jnp.where(is_prior, x, 0))
            data = data + jnp.sum(jnp.where(is_prior, 0, x))
        return priors | {"": data}

    return jax.vmap(one)(draws)
