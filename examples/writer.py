"""A writer: a program that logs its steps, from inside a loop and its branches.

The program follows a number to 1 in the Collatz problem: even numbers are halved, odd numbers
tripled and increased. The loop only computes the next number. The handler of `tell` collects the
log in its state: the number of times that each branch was taken, and the largest number.

    python examples/writer.py
"""

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import effect, handle

tell = effect("tell", lambda what: ())


def halve(n):
    tell({"halved": 1, "tripled": 0, "largest": n})
    return n // 2


def triple(n):
    tell({"halved": 0, "tripled": 1, "largest": n})
    return 3 * n + 1


def collatz(n):
    return lax.while_loop(lambda n: n > 1, lambda n: lax.cond(n % 2 == 0, halve, triple, n), n)


def write(log, what):
    together = {name: log[name] + what[name] for name in ("halved", "tripled")}
    return together | {"largest": jnp.maximum(log["largest"], what["largest"])}, ()


@jax.jit
def way_of(n):
    return handle(collatz, {tell: write}, state={"halved": 0, "tripled": 0, "largest": 0})(n)[1]


def in_python(n: int) -> dict[str, int]:
    log = {"halved": 0, "tripled": 0, "largest": 0}
    while n > 1:
        log["largest"] = max(log["largest"], n)
        log["tripled" if n % 2 else "halved"] += 1
        n = 3 * n + 1 if n % 2 else n // 2
    return log


def main() -> None:
    log = jax.tree.map(int, way_of(27))
    print(f"27 comes to 1 in {log['halved'] + log['tripled']} steps: {log}")
    assert log == {"halved": 70, "tripled": 41, "largest": 9232}

    logs = jax.vmap(way_of)(jnp.arange(1, 1001))
    assert all(
        in_python(n + 1) == {k: int(v[n]) for k, v in logs.items()}
        for n in range(len(logs["halved"]))
    )
    steps = logs["halved"] + logs["tripled"]
    print(f"The longest way up to 1000 is that of {1 + steps.argmax()}, with {steps.max()} steps")
    assert (1 + steps.argmax(), steps.max()) == (871, 178)


if __name__ == "__main__":
    main()
