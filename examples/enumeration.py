"""Exact enumeration: expectations over discrete variables, without sampling.

`flip(p)` is True with probability p. Its handler runs the rest of the program for both values,
under `vmap`, and averages the answers with weights p and 1 - p. So the answer of a program is its
expectation, which can be differentiated like any other function. The program is the textbook
network of rain, a sprinkler and wet grass.

    python examples/enumeration.py
"""

from fractions import Fraction

import jax
import jax.numpy as jnp

from ppl.harvest import effect, handle

flip = effect("flip", lambda p: jnp.bool_(True))


def both(k, p):
    """A handler of `flip`: p k(True) + (1 - p) k(False), for each part of the answer."""
    answers = jax.vmap(k)(jnp.array([True, False]))
    return jax.tree.map(lambda a: jnp.tensordot(jnp.stack([p, 1 - p]), a.astype(float), 1), answers)


def probabilities(table, *parents):
    """The entry of a table of probabilities for these values of the parents."""
    return jnp.asarray(table)[tuple(jnp.int32(parent) for parent in parents)]


SPRINKLER = [0.4, 0.01]  # by rain
WET = [[0.0, 0.8], [0.9, 0.99]]  # by sprinkler and rain


def grass(p_rain):
    rain = flip(p_rain)
    sprinkler = flip(probabilities(SPRINKLER, rain))
    wet = flip(probabilities(WET, sprinkler, rain))
    return {"rain": rain & wet, "sprinkler": sprinkler & wet, "wet": wet}


@jax.jit
def posterior(p_rain):
    """The probabilities of rain and of the sprinkler, given that the grass is wet."""
    joint = handle(grass, {flip: both})(p_rain)
    return {name: joint[name] / joint["wet"] for name in ("rain", "sprinkler")}


def main() -> None:
    given_wet = posterior(0.2)
    wet_rain = Fraction(1, 5) * (
        Fraction(1, 100) * Fraction(99, 100) + Fraction(99, 100) * Fraction(4, 5)
    )
    wet_dry = Fraction(4, 5) * Fraction(2, 5) * Fraction(9, 10)
    exact = wet_rain / (wet_rain + wet_dry)
    print(f"P(rain | wet) = {given_wet['rain']:.6f}; exact {exact} = {float(exact):.6f}")
    print(f"P(sprinkler | wet) = {given_wet['sprinkler']:.6f}")
    assert exact == Fraction(891, 2491)
    assert abs(given_wet["rain"] - float(exact)) < 1e-6

    # r(p) = p w / (p w + (1 - p) d) has the derivative w d / (p w + (1 - p) d)^2.
    w, d = wet_rain / Fraction(1, 5), wet_dry / Fraction(4, 5)
    slope = w * d / (wet_rain + wet_dry) ** 2
    derivative = jax.grad(lambda p: posterior(p)["rain"])(0.2)
    print(f"Its derivative by P(rain): {derivative:.5f}; exact {float(slope):.5f}")
    assert abs(derivative - float(slope)) < 1e-5


if __name__ == "__main__":
    main()
