"""Early exit: a program that ends in the middle, from inside a branch.

`fail(code)` never returns: its handler does not call the rest of the program, so nothing after it
runs. The solver of a x^2 + b x + c = 0 need not check whether earlier steps succeeded.

    python examples/early_exit.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.harvest import effect, handle

fail = effect("fail", lambda code: ())

OK, NOT_QUADRATIC, NO_REAL_ROOT = range(3)


def require(holds, code):
    lax.cond(holds, lambda: (), lambda: fail(code))


def larger_root(a, b, c):
    require(a != 0, NOT_QUADRATIC)
    discriminant = b**2 - 4 * a * c
    require(discriminant >= 0, NO_REAL_ROOT)
    return OK, (-b + jnp.sqrt(discriminant)) / (2 * a)


@jax.jit
def solve(a, b, c):
    return handle(larger_root, {fail: lambda k, code: (code, jnp.nan)})(a, b, c)


def in_numpy(a, b, c):
    if a == 0:
        return NOT_QUADRATIC, np.nan
    discriminant = b**2 - 4 * a * c
    return (
        (NO_REAL_ROOT, np.nan) if discriminant < 0 else (OK, (np.sqrt(discriminant) - b) / (2 * a))
    )


def main() -> None:
    for a, b, c in [(1.0, -3.0, 2.0), (0.0, 2.0, 1.0), (1.0, 0.0, 1.0)]:
        code, root = solve(a, b, c)
        print(f"{a} x^2 + {b} x + {c} = 0: code {code}, root {root}")
        assert code == in_numpy(a, b, c)[0]

    values = jnp.arange(-3.0, 4.0)
    problems = [x.ravel() for x in jnp.meshgrid(values, values, values)]
    codes, roots = jax.vmap(solve)(*problems)
    expected = [in_numpy(*problem) for problem in zip(*map(np.asarray, problems), strict=True)]
    np.testing.assert_array_equal(codes, [code for code, _ in expected])
    np.testing.assert_allclose(roots, [root for _, root in expected], rtol=1e-5)
    print(f"{len(codes)} problems: {np.bincount(codes).tolist()} of each code, as in NumPy")
    assert np.bincount(codes).tolist() == [184, 49, 110]


if __name__ == "__main__":
    main()
