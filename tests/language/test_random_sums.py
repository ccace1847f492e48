"""marginalize: sums out of random programs equal those over all joint states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ppl
from tests.language.random_sums import RandomSum
from tests.language.sums import Sum
from tests.language.test_marginalize import recover_beside_joint, sum_by_force

pytestmark = pytest.mark.usefixtures("x64")
CROSSED = "meets many elements of the others"  # has no elimination with plates


def check_program(seed, num_statements, max_states):
    """Whether a random program has a sum; if so, it is that over all joint states."""
    model = RandomSum(seed, num_statements, max_states)
    if not model.summed:
        return False
    case = Sum(model, model.summed, model.data)
    summed = ppl.log_density(ppl.marginalize(case.posterior(), list(model.summed)))
    values = {"mu": jnp.asarray(0.3)}
    try:
        found = jax.jit(jax.value_and_grad(summed))(values)
    except ValueError as error:
        if CROSSED not in str(error):
            raise
        return False
    log_densities, _ = sum_by_force(case)
    by_force = lambda values: jax.nn.logsumexp(log_densities(values))  # noqa: E731
    exact = jax.jit(jax.value_and_grad(by_force))(values)
    assert_close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)  # noqa: E731
    jax.tree.map(assert_close, found, exact)
    return True


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 10**6))
def test_sums_out_of_small_programs(seed):
    assume(check_program(seed, 4, 2**7))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_sums_out_of_larger_programs(seed):
    assume(check_program(seed, 7, 2**12))


@pytest.mark.slow
@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_sums_out_of_programs_with_many_states(seed):
    assume(check_program(seed, 9, 2**16))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 19])
def test_programs_that_once_failed(seed):
    """A chain with a start, and a gather, whose elements are enumerated."""
    assert check_program(seed, 6, 2**10)


@pytest.mark.slow
def test_indices_that_cross_a_plate_are_refused_in_words():
    assert not check_program(101, 5, 2**8)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_draws_recovered_from_random_programs(seed):
    model = RandomSum(seed, 5, 2**6)
    assume(model.summed)
    try:
        statistic, _ = recover_beside_joint(
            Sum(model, model.summed, model.data), {"mu": jnp.asarray(0.3)}
        )
    except ValueError as error:
        assume(CROSSED not in str(error))
        raise
    assert statistic < 5
