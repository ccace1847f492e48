"""A reader: constants of a program without passing them as arguments.

The law of motion asks for the gravity deep inside a loop, and the nearest handler answers. The
distance of the fall is a function of gravity as of any argument, so it can be differentiated and
mapped over.

    python examples/reader.py
"""

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import effect, handle

gravity = effect("gravity", lambda: jax.ShapeDtypeStruct((), float))


def falling(velocity, dt):
    return velocity + gravity() * dt


def fall(num_steps=64, dt=1 / 64):
    """The distance of a fall in one second, by Euler's method."""

    def step(state, _):
        way, velocity = state
        velocity = falling(velocity, dt)
        return (way + velocity * dt, velocity), None

    return lax.scan(step, (0.0, 0.0), length=num_steps)[0][0]


def on(gravity_there, f=fall):
    return handle(f, {gravity: lambda k: k(gravity_there)})()


def main() -> None:
    exact = (64 + 1) / (2 * 64)  # times gravity: the sum of 1/64, ..., 64/64, each over 64
    planets = {"Mercury": 3.7, "Earth": 9.8, "Jupiter": 24.8}
    ways = jax.jit(jax.vmap(on))(jnp.array(list(planets.values())))
    for (name, g), way in zip(planets.items(), ways, strict=True):
        print(f"{name}: {way:.3f} m in a second, of which {exact * g - g / 2:.3f} m by the steps")
        assert abs(way - exact * g) < 1e-5 * g

    derivative = jax.grad(on)(9.8)
    print(f"Derivative by the gravity: {derivative:.6f}; exact {exact:.6f}")
    assert derivative == exact

    # The innermost handler answers, with half of the gravity that the handler around it gives.
    halved = handle(fall, {gravity: lambda k: k(gravity() / 2)})
    assert on(8.0, halved) == on(4.0)
    print(f"Half of the gravity of Jupiter: {on(24.8, halved):.3f} m")


if __name__ == "__main__":
    main()
