"""State: variables that a program reads and sets, in loops and branches.

A sequence is cut into runs of equal values, and each value gets the number of its run. The loop
scans the values alone. It reads the last value and the number of the run with `get`, and sets them
with `put`; the handlers of both have a state.

    python examples/state.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.harvest import effect, handle

get = effect("get", lambda: {"last": 0, "run": 0})
put = effect("put", lambda variables: ())

VARIABLES = {get: lambda state: (state, state), put: lambda state, variables: (variables, ())}


def number(value):
    """The number of the run of `value`, the next of the sequence."""

    def begin_run():
        put({"last": value, "run": get()["run"] + 1})

    lax.cond(value == get()["last"], lambda: None, begin_run)
    return get()["run"]


def runs(values):
    return lax.map(number, values)


@jax.jit
def number_runs(values):
    """The number of the run of each value, and the number of runs."""
    numbers, state = handle(runs, VARIABLES, state={"last": -1, "run": 0})(values)
    return numbers, state["run"]


def main() -> None:
    values = jnp.array([3, 3, 1, 1, 1, 4, 1, 5, 5])
    numbers, total = number_runs(values)
    print(f"{values.tolist()}\nruns {numbers.tolist()}, {total} in all")
    assert numbers.tolist() == [1, 1, 2, 2, 2, 3, 4, 5, 5]
    assert total == 5

    many = jax.random.randint(jax.random.key(0), (100, 1000), 0, 3)
    numbers, totals = jax.vmap(number_runs)(many)
    expected = 1 + np.cumsum(np.diff(many, axis=1, prepend=many[:, :1]) != 0, axis=1)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(totals, expected[:, -1])
    print(f"100 sequences of 1000 values: {totals.mean():.2f} runs each, as NumPy counts them")


if __name__ == "__main__":
    main()
