"""NUTS against a plain recursive one that is told the same random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import NUTS
from inference.common.threefry import normal, random_words, seed_of, uniform, unit_of
from inference.kernels.hamiltonian.nuts_trajectory import _DOUBLINGS
from inference.kernels.hamiltonian.u_turns import (
    is_turning,
    select_checkpoint,
    turns_within_at_once,
    turns_within_by_loop,
    write_checkpoint,
)

pytestmark = [pytest.mark.promotion(rank="raise", dtype="strict"), pytest.mark.usefixtures("x64")]

SCALES = np.array([1.0, 0.3, 3.0])
MANY_SCALES = np.tile(SCALES, 15)  # so many coordinates that inner products take another form


def log_density(q):
    z = q / np.resize(SCALES, q.shape)
    return -0.5 * jnp.sum(z**2) - 0.1 * jnp.sum(z**4) + jnp.sin(z[0] * z[1])


value_and_grad = jax.jit(jax.value_and_grad(log_density))


STEP = jax.jit(lambda kernel, key, position: kernel.step(key, kernel.init(position)))


def turns(total, first, last):
    return first @ total <= 0 or last @ total <= 0


class Recursion:
    """NUTS as in the papers: trees by recursion, unit metric, all leaves in memory."""

    def __init__(self, seed, position, momentum, step_size, max_depth):
        self.step_size, self.max_depth = step_size, max_depth
        self.uniforms = np.asarray(uniform(seed, jnp.arange(1 << max_depth), float))
        words = random_words(seed, _DOUBLINGS, max_depth)
        self.doublings = list(zip(words % 2 == 0, np.asarray(unit_of(words)), strict=True))
        lp, gradient = value_and_grad(position)
        self.start = (np.array(position), np.array(momentum), np.array(gradient), float(lp))
        self.acceptances, self.is_divergent = [], False

    def change(self, leaf):
        _, momentum, _, lp = leaf
        return 0.5 * (momentum @ momentum - self.start[1] @ self.start[1]) + self.start[3] - lp

    def move(self, leaf, direction):
        q, p, g, _ = leaf
        half = p + 0.5 * direction * self.step_size * g
        q = q + direction * self.step_size * half
        lp, g = value_and_grad(q)
        leaf = (q, half + 0.5 * direction * self.step_size * np.array(g), np.array(g), float(lp))
        self.acceptances.append(min(1.0, np.exp(-self.change(leaf))))
        return leaf

    def build(self, leaf, direction, depth):
        """The leaves on from `leaf` in order of time from it, and whether they may be used."""
        if depth == 0:
            leaf = self.move(leaf, direction)
            self.is_divergent |= not self.change(leaf) <= 1000
            return [leaf], not self.is_divergent
        first, is_valid = self.build(leaf, direction, depth - 1)
        if not is_valid:
            return first, False
        second, is_valid = self.build(first[-1], direction, depth - 1)
        return first + second, is_valid and not self.join_turns(first, second)

    @staticmethod
    def join_turns(a, b):
        p = [[leaf[1] for leaf in stretch] for stretch in (a, b)]
        sums = [np.sum(x, 0) for x in p]
        return (
            turns(sums[0] + sums[1], p[0][0], p[1][-1])
            or turns(sums[0] + p[1][0], p[0][0], p[1][0])
            or turns(sums[1] + p[0][-1], p[0][-1], p[1][-1])
        )

    def log_weight(self, leaves):
        return np.logaddexp.reduce([-self.change(leaf) for leaf in leaves])

    def choose(self, leaves, depth):
        chosen = leaves[0]
        for i in range(1, len(leaves)):
            probability = np.exp(-self.change(leaves[i]) - self.log_weight(leaves[: i + 1]))
            if self.uniforms[(1 << depth) + i] < probability:
                chosen = leaves[i]
        return chosen

    def run(self):
        leaves, chosen, depth, joined, ended = [self.start], self.start, 0, 0, False
        while depth < self.max_depth and not ended:
            goes_on, choice = self.doublings[depth]
            # `near` runs toward the new leaves, which run away from it.
            near = leaves if goes_on else leaves[::-1]
            new, is_valid = self.build(near[-1], 1 if goes_on else -1, depth)
            ended = not is_valid
            if is_valid:
                ended = self.join_turns(near, new)
                joined += 1
                if choice < np.exp(self.log_weight(new) - self.log_weight(leaves)):
                    chosen = self.choose(new, depth)
                leaves = near + new if goes_on else new[::-1] + leaves
            depth += 1
        return chosen, joined, ended


@pytest.mark.quick_rows("0.7-10-scales3", "0.15-10-scales1", "0.3-10-scales2")
@pytest.mark.parametrize(
    ("step_size", "max_depth", "scales"),
    [(step_size, 10, SCALES) for step_size in (0.05, 0.15, 0.3, 0.7)]
    + [(0.2, 3, SCALES), (2.0, 4, SCALES), (0.1, 10, MANY_SCALES), (0.25, 10, MANY_SCALES)],
)
def test_nuts_is_the_recursive_one(step_size, max_depth, scales):
    kernel = NUTS(log_density, step_size, max_depth=max_depth)
    depths = set()
    for number in range(12):
        key = jax.random.key(number)
        position = scales * np.random.default_rng(number).normal(size=scales.size)
        state, info = STEP(kernel, key, jnp.asarray(position))
        momentum = normal(seed_of(key), scales.size, jnp.float64)
        reference = Recursion(seed_of(key), position, momentum, step_size, max_depth)
        (q, _, gradient, lp), joined, ended = reference.run()
        np.testing.assert_allclose(state.position, q, rtol=0, atol=1e-9)
        np.testing.assert_allclose(state.gradient, gradient, rtol=0, atol=1e-7)
        np.testing.assert_allclose(state.log_density, lp, rtol=1e-8)
        assert info.num_steps == len(reference.acceptances)
        assert info.depth == joined
        assert info.is_divergent == reference.is_divergent
        assert info.is_truncated == (not ended)
        np.testing.assert_allclose(info.acceptance_rate, np.mean(reference.acceptances), rtol=1e-8)
        depths.add(joined)
    assert len(depths) > 1 or max_depth < 5


@pytest.mark.parametrize("size", [3, 45])
def test_stretches_turn_where_one_of_six_products_is_negative(size):
    """Each of the six decides for some of these vectors, so that none can be left out."""
    vectors = np.random.default_rng(0).normal(size=(3000, 6, size)) + 0.5 / np.sqrt(size)
    vectors[:, 4:] *= np.sqrt(size)
    found = jax.vmap(lambda v: is_turning(*v))(jnp.asarray(vectors))
    outer_a, inner_a, inner_b, outer_b, sum_a, sum_b = np.moveaxis(vectors, 1, 0)
    pairs = [(sum_a + sum_b, outer_a), (sum_a + sum_b, outer_b), (sum_a + inner_b, outer_a)]
    pairs += [(sum_a + inner_b, inner_b), (inner_a + sum_b, inner_a), (inner_a + sum_b, outer_b)]
    is_negative = np.stack([np.sum(a * b, -1) <= 0 for a, b in pairs], -1)
    np.testing.assert_array_equal(found, np.any(is_negative, -1))
    alone = is_negative[np.sum(is_negative, -1) == 1]
    assert np.all(np.sum(alone, 0) > 0)


@pytest.mark.parametrize("max_depth", [1, 2, 10])
def test_turns_at_once_are_those_of_the_loop(max_depth):
    """Checkpoints are those of a walk that turns in some subtrees of every depth."""
    num_leaves, rng = 1 << (max_depth - 1), np.random.default_rng(0)
    momenta = jnp.asarray(1.5 + rng.normal(size=(num_leaves, 3)) * rng.exponential(size=3))

    def leaf(state, index):
        by_loop, at_once, total, before = state
        momentum = momenta[index]
        checkpoint = jnp.stack([momentum, total, before])
        by_loop = write_checkpoint(by_loop, index, checkpoint)
        at_once = select_checkpoint(at_once, index, checkpoint)
        total = total + momentum
        turns = [
            turns_within(checkpoints, index, momentum, total)
            for turns_within in (turns_within_by_loop, turns_within_at_once)
            for checkpoints in (by_loop, at_once)
        ]
        return (by_loop, at_once, total, momentum), jnp.stack(turns)

    zeros = jnp.zeros((max_depth, 3, 3))
    start = zeros, zeros, jnp.zeros(3), jnp.zeros(3)
    (by_loop, at_once, *_), turns = jax.lax.scan(
        leaf, start, jnp.arange(num_leaves, dtype=jnp.int32)
    )
    np.testing.assert_array_equal(by_loop, at_once)
    np.testing.assert_array_equal(turns, turns[:, :1] & np.ones((1, 4), bool))
    assert max_depth < 10 or 0 < np.mean(turns) < 1
    assert not np.any(turns[::2])  # an even leaf completes no subtree
