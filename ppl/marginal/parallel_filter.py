"""Parallel forward algorithm: filters a chain of discrete states by an associative scan.

Each product of log matrices is rescaled, so that no number grows with the number of steps. The
scale does not matter, as the filtered weights are normalized.

References:
    Hassan, Saerkkae and Garcia-Fernandez, "Temporal parallelization of inference in hidden Markov
    models", IEEE Transactions on Signal Processing 69 (2021).
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.marginal.factors import log_sum_exp

_MAX_ELEMENTS = 2**26  # of a product of all matrices, before its sum


def is_parallel(shape: Sequence[int]) -> bool:
    """Whether to multiply log matrices of a shape, with steps in front, in parallel.

    On an accelerator a loop costs a launch for each step. On a CPU it costs less than the products,
    which are of matrices with matrices, not with vectors.
    """
    is_small = math.prod(shape) * shape[-1] <= _MAX_ELEMENTS
    return jax.default_backend() != "cpu" and is_small


def log_normalizers(start: Any, steps: Any, *, reverse: bool) -> Any:
    """The log normalizer of each step given all steps before.

    The first log normalizer includes the log normalizer of the start.

    Args:
        start: Log weights of the states before the first step.
        steps: Log weights, with steps along the first axis. The last axis but one is the state
            after the step, the last axis the state before.
        reverse: Whether the last step comes first.
    """

    def multiply(first: Any, then: Any) -> Any:
        product = log_sum_exp(then[..., :, None, :] + jnp.swapaxes(first, -1, -2)[..., None, :, :])
        top = lax.stop_gradient(jnp.max(product, (-1, -2), keepdims=True))
        return product - jnp.where(jnp.isfinite(top), top, 0.0)

    products = lax.associative_scan(multiply, steps, reverse=reverse)
    after = log_sum_exp(products + start[None, ..., None, :])
    parts = (after[1:], start[None]) if reverse else (start[None], after[:-1])
    before = jnp.concatenate(parts)
    total = log_sum_exp(before)[..., None]
    is_possible = total > -jnp.inf
    before = jnp.where(is_possible, before - jnp.where(is_possible, total, 0.0), before)
    joint = steps + before[..., None, :]
    found = log_sum_exp(joint.reshape(*joint.shape[:-2], -1))
    first = -1 if reverse else 0
    return jnp.where(is_possible[..., 0], found, 0.0).at[first].add(log_sum_exp(start))
