"""A debugger: every random variable of a running model, printed as it is drawn.

`ppl.sample` sows its draws with the tag "random". A handler of that tag receives each value and its
path while the compiled program runs, in a scan once in every iteration. The first handler prints
and continues; the second changes a value.

    python examples/debugger.py
"""

import contextlib
import io

import jax
import jax.numpy as jnp
from jax import lax

import distributions as dist
import ppl
from ppl.harvest import call_and_reap, handle, nest, sown


def walk(key, num_steps):
    sd = ppl.sample(key, dist.HalfNormal(1.0), name="sd")

    def step(level, key):
        level = ppl.sample(key, dist.Normal(level, sd), name="level")
        return level, ppl.sample(key, dist.Normal(level, 0.1), name="y")

    return lax.scan(step, 0.0, jax.random.split(key, num_steps))[1]


def model(key, num_steps):
    return nest(walk, scope="walk")(key, num_steps)


def show(k, value, path):
    jax.debug.print("/".join(path) + " = {value:.9g}", value=value, ordered=True)
    return k(value)


def main() -> None:
    key, num_steps = jax.random.key(0), 3
    debugged = jax.jit(handle(model, {sown("random"): show}), static_argnums=1)
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        jax.block_until_ready(ys := debugged(key, num_steps))
        jax.effects_barrier()
    printed = stdout.getvalue()
    print(printed, end="")

    out, drawn = call_and_reap(model, tag="random")(key, num_steps)
    sd, levels, observed = (drawn["walk"][name] for name in ("sd", "level", "y"))
    expected = [("walk/sd", sd)]
    for level, y in zip(levels, observed, strict=True):
        expected += [("walk/level", level), ("walk/y", y)]
    lines = [line.split(" = ") for line in printed.splitlines()]
    assert [name for name, _ in lines] == [name for name, _ in expected]
    found = jnp.array([float(number) for _, number in lines])
    assert jnp.allclose(found, jnp.array([value for _, value in expected]), rtol=1e-6)
    assert jnp.allclose(ys, out, rtol=1e-6)

    print(f"{len(lines)} values printed, each that which is reaped")

    fixed = handle(model, {sown("random"): lambda k, v, path: k(1.0 if path[-1] == "sd" else v)})
    conditioned = ppl.condition(model, {"walk": {"sd": 1.0}})
    assert jnp.array_equal(fixed(key, num_steps), conditioned(key, num_steps))
    print("With sd set to 1 by a handler: the draws of the model conditioned on that")


if __name__ == "__main__":
    main()
