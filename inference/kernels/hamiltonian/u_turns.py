"""U-turns: the criterion that ends a trajectory of NUTS, and the checkpoints that it needs.

A subtree of ``2**depth`` leaves, numbered from 0, tests its balanced subtrees for U-turns by
checkpoints:

1. Leaf `n` writes a checkpoint to row ``popcount(n)``.
2. An odd leaf `n` completes balanced subtrees, one for each trailing one bit of `n`. Their first
   leaves are `n` with its lowest one, two, ... trailing ones cleared.
3. The checkpoints of the first leaf and of the middle of each such subtree are still there, in the
   rows just below ``popcount(n)``.

References:
    Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo, appendix A.4.2; Phan,
    Pradhan and Jankowiak (2019), Composable effects for flexible and accelerated probabilistic
    programming in NumPyro, appendix A.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax


def write_checkpoint(checkpoints: jax.Array, index: jax.Array, checkpoint: jax.Array) -> jax.Array:
    """Checkpoints with the checkpoint of leaf `index` written to its row.

    Args:
        checkpoints: Checkpoints of earlier leaves, ``(max_depth, 3, size)``.
        index: Number of the leaf in its subtree.
        checkpoint: Momentum at the leaf, sum of the momenta of all earlier leaves of the subtree,
            and momentum at the leaf before, ``(3, size)``.
    """
    row = lax.population_count(index)
    return checkpoints.at[row].set(checkpoint, mode="promise_in_bounds")


def select_checkpoint(checkpoints: jax.Array, index: jax.Array, checkpoint: jax.Array) -> jax.Array:
    """:func:`write_checkpoint` by arithmetic, which XLA fuses with :func:`turns_within_at_once`.

    A leaf whose row is beyond the last one changes nothing.
    """
    rows = jnp.arange(len(checkpoints), dtype=index.dtype)[:, None, None]
    return jnp.where(rows == lax.population_count(index), checkpoint, checkpoints)


def turns_within_by_loop(
    checkpoints: jax.Array, index: jax.Array, momentum: jax.Array, momentum_sum: jax.Array
) -> jax.Array:
    """Whether any balanced subtree that leaf `index` completes makes a U-turn.

    Args:
        checkpoints: Checkpoints of the leaves up to this one, ``(max_depth, 3, size)``.
        index: Number of the leaf in its subtree.
        momentum: Momentum at the leaf, ``(size,)``.
        momentum_sum: Sum of the momenta of all leaves of the subtree so far, ``(size,)``.
    """
    row = lax.population_count(index)
    num_complete = _count_complete(index)

    def check(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        number, turning = carry
        first = checkpoints.at[row - number].get(mode="promise_in_bounds")
        middle = checkpoints.at[row - number + 1].get(mode="promise_in_bounds")
        turns = _turns_between(first, middle, momentum, momentum_sum)
        return number + 1, turning | (turns & (number <= num_complete))

    start = jnp.int32(1), jnp.zeros((), bool)
    return lax.while_loop(lambda carry: carry[0] <= num_complete, check, start)[1]


def turns_within_at_once(
    checkpoints: jax.Array, index: jax.Array, momentum: jax.Array, momentum_sum: jax.Array
) -> jax.Array:
    """:func:`turns_within_by_loop` without a loop: it tests all rows, and selects the right ones.

    On an accelerator one large operation costs less than a loop of small ones.
    """
    row = lax.population_count(index)
    first_rows = jnp.arange(len(checkpoints) - 1, dtype=index.dtype)
    counts = (first_rows < row) & (first_rows >= row - _count_complete(index))
    turns = jax.vmap(_turns_between, (0, 0, None, None))(
        checkpoints[:-1], checkpoints[1:], momentum, momentum_sum
    )
    return jnp.any(turns & counts)


def _count_complete(index: jax.Array) -> jax.Array:
    """Number of balanced subtrees that leaf `index` completes: its trailing one bits."""
    return lax.population_count(index ^ (index + 1)) - 1


def _turns_between(
    first: jax.Array, middle: jax.Array, momentum: jax.Array, momentum_sum: jax.Array
) -> jax.Array:
    """Whether a balanced subtree makes a U-turn, from the checkpoints of its two halves.

    Args:
        first: Checkpoint of the first leaf of the first half, ``(3, size)``.
        middle: Checkpoint of the first leaf of the second half, ``(3, size)``.
        momentum: Momentum at the last leaf, ``(size,)``.
        momentum_sum: Sum of the momenta of all leaves so far, ``(size,)``.
    """
    first_momentum, sum_before_first, _ = first
    middle_momentum, sum_before_middle, before_middle = middle
    return is_turning(
        first_momentum,
        before_middle,
        middle_momentum,
        momentum,
        sum_before_middle - sum_before_first,
        momentum_sum - sum_before_middle,
    )


def is_turning(
    outer_a: jax.Array,
    inner_a: jax.Array,
    inner_b: jax.Array,
    outer_b: jax.Array,
    sum_a: jax.Array,
    sum_b: jax.Array,
) -> jax.Array:
    r"""Whether two neighboring stretches of a trajectory, `a` and `b`, make a U-turn together.

    A stretch with end momenta :math:`w_1, w_2` and momentum sum :math:`\rho` turns where
    :math:`w_1 \cdot \rho \le 0` or :math:`w_2 \cdot \rho \le 0`. Three stretches are tested: the
    whole, `a` with the first leaf of `b`, and `b` with the last leaf of `a`. Without the last two
    tests, a period of the dynamics could pass unnoticed between `a` and `b`.

    Args:
        outer_a: Momentum at the end of `a` far from `b`.
        inner_a: Momentum at the end of `a` next to `b`.
        inner_b: Momentum at the end of `b` next to `a`.
        outer_b: Momentum at the end of `b` far from `a`.
        sum_a: Sum of the momenta of `a`.
        sum_b: Sum of the momenta of `b`.
    """
    whole = sum_a + sum_b
    with_first = sum_a + inner_b
    with_last = inner_a + sum_b
    products = [
        *(whole * outer_a, whole * outer_b),
        *(with_first * outer_a, with_first * inner_b),
        *(with_last * inner_a, with_last * outer_b),
    ]
    return functools.reduce(jnp.logical_or, [jnp.sum(product) <= 0 for product in products])
