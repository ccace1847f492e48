"""Non-determinism: a program whose variables take all of their values, in parallel.

`amb(xs)` chooses one of `xs`. The answer of the program is the list of its results for all choices
(McCarthy 1963; the list monad of Haskell). The handler runs the rest of the program under `vmap`,
and `jit` compiles it all into one loop.

    python examples/amb.py
"""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import effect, handle

amb = effect("amb", lambda xs: xs[0])


def every(k, xs):
    """A handler of `amb`: the results for each choice in turn, concatenated."""
    return jnp.concatenate(jax.vmap(k)(xs))


def program(xs, ys, zs):
    u = amb(xs)
    v = 2 * amb(ys)
    w = v + amb(zs)
    return jnp.array([u * v + w])


def is_comprehension(answer, n: int) -> bool:
    """Whether the answer is `[u * v + w for u in x for v in 2 * y for w in v + z]`, exactly."""
    x = y = z = np.arange(n, dtype=np.float32)
    ws = (2 * y)[:, None] + z
    rows = np.asarray(answer).reshape(n, n, n)
    return all(
        np.array_equal(row, u * (2 * y)[:, None] + ws) for u, row in zip(x, rows, strict=True)
    )


def free_memory() -> int:
    """Free memory in bytes; 0 if the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


def main() -> None:
    few = [0, 1, 2, 3]
    in_python = [u * v + w for u in few for v in [2 * y for y in few] for w in [v + z for z in few]]
    numbers = jnp.arange(4.0)
    answer = handle(program, {amb: every})(numbers, numbers, numbers)
    print("4 values each:", answer[:12].astype(int).tolist(), "...")
    assert answer.tolist() == in_python

    run = jax.jit(handle(program, {amb: every}))
    for n in (200, 1000):
        needed = 2 * 4 * n**3
        if n > 200 and free_memory() < needed:
            print(f"{n} values each: left out, for it needs {needed / 1e9:.0f} GB of free memory")
            continue
        start = time.perf_counter()
        answer = jax.block_until_ready(run(*[jnp.arange(n, dtype=jnp.float32)] * 3))
        seconds = time.perf_counter() - start
        assert answer.shape == (n**3,)
        assert is_comprehension(answer, n)
        print(
            f"{n} values each: {n**3:,} results, equal to the list comprehension, {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
