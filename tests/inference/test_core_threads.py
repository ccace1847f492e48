"""Calls of a compiled program on several cores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference.runtime import core_threads
from inference.runtime.compiled_program import compile_once
from inference.runtime.core_threads import call_on_cores


def double(x):
    return 2 * x


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("num_cores", [1, 3])
def test_results_keep_their_order_and_precision(monkeypatch, num_cores):
    monkeypatch.setattr(core_threads, "num_cores", lambda: num_cores)
    calls = [(jnp.array([i, 1e-12]),) for i in range(7)]
    told = []
    found = call_on_cores(compile_once(double, *calls[0]), calls, told.append)
    np.testing.assert_array_equal(np.stack(found)[:, 0], 2.0 * np.arange(7))
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in found)
    assert told == [1, 2, 3, 4, 5, 6, 7]


def test_an_error_ends_the_calls(monkeypatch):
    monkeypatch.setattr(core_threads, "num_cores", lambda: 1)
    calls = [(jnp.ones(2),)] * 5
    program = compile_once(double, *calls[0])

    def stop(num_done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_on_cores(program, calls, stop)
    with pytest.raises(TypeError):
        call_on_cores(program, [calls[0], ()], lambda _: None)
    assert jax.device_get(program(*calls[0])).tolist() == [2.0, 2.0]
