"""Checks of a case: what the library says of a program, beside plain Python.

A check raises AssertionError where the two differ, and gives whether there was anything to check.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import ppl

from .case import Case, Values, along, direction, slope, to_arrays, value_and_grad
from .to_jax import flat, nested


def close(what: str, found: Any, expected: Any, tolerance: float = 1e-8) -> None:
    """Equality of shapes, and of numbers up to a tolerance."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape} for {expected.shape}"
    if not np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise AssertionError(f"{what}: {found} for {expected}")


def compare(
    case: Case, what: str, density: Callable[..., Any], exact: Callable[[Values], float], x: Values
) -> None:
    """A log density, and its derivative along a random direction, are those of the oracle."""
    along_it = direction(case, x)
    if not along_it or "halved" in case.source:  # A while loop has no derivative in JAX.
        close(what, jax.jit(density)(to_arrays(x)), exact(x))
        return
    found, gradient = value_and_grad(density)(to_arrays(x))
    close(what, found, exact(x))
    close("derivative", along(gradient, along_it), slope(exact, x, along_it), 1e-5)


def check_density(case: Case) -> bool:
    """log_density and log_probs, of data given and conditioned on, and the gradient."""
    data, values = case.split(list(case.sites), 0.5, "data")
    model = ppl.condition(case.model, nested(data)) if data else case.model
    exact = lambda x: case.oracle.run({**data, **x}).log_density()  # noqa: E731
    compare(case, "log_density", ppl.log_density(model), exact, values)
    log_probs = flat(jax.jit(ppl.log_probs(model))(to_arrays(values)))
    expected = case.run.log_probs | case.run.factors
    assert log_probs.keys() == expected.keys(), f"log_probs of {list(log_probs)}"
    for path, x in expected.items():
        close(f"log_probs of {path}", log_probs[path], x)
    return True


def check_simulate(case: Case) -> bool:
    """Draws are in the support, trace scores them, and the model returns what follows of them."""
    key = jax.random.key(case.seed)
    trace = ppl.trace(case.model)(key)
    drawn = {p: np.asarray(x) for p, x in flat(ppl.simulate(case.model)(key)).items()}
    exact = case.oracle.run(drawn)
    assert np.isfinite(exact.log_density()), f"draws outside of the support: {drawn}"
    for path, x in exact.derived.items():
        close(f"deterministic {path}", drawn[path], x)
    for found, expected in zip(jax.tree.leaves(case.model(key)), exact.out, strict=True):
        close("output", found, expected)
    sites = flat(trace.sites)
    for path, x in exact.log_probs.items():
        close(f"trace of {path}", sites[path].log_prob, x)
    return True


def check_unconstrain(case: Case) -> bool:
    """Positions map to values and back, and their density has the Jacobian."""
    real = [p for p, family in case.sites.items() if case.run.supports[p] != "count"]
    latent, _ = case.split(real, 0.6, "latent")
    data = {p: x for p, x in case.run.values.items() if p not in latent}
    if not latent:
        return False
    model = ppl.condition(case.model, nested(data)) if data else case.model
    space = ppl.unconstrain(model)
    position = space.unconstrain(to_arrays(latent))
    start, unravel = ravel_pytree(position)

    def coordinates(vector: Any) -> Any:
        """The values as a vector, without the last number of each simplex."""
        values = flat(space.constrain(unravel(vector)))
        cut = lambda p: values[p][..., :-1] if case.run.supports[p] == "simplex" else values[p]  # noqa: E731
        return jax.numpy.concatenate([jax.numpy.ravel(cut(p)) for p in latent])

    values = flat(space.constrain(position))
    for path, x in latent.items():
        close(f"constrain of {path}", values[path], x)
    h = 1e-5
    steps = np.eye(start.size) * h
    both = np.concatenate([start + steps, start - steps])
    moved = np.asarray(jax.jit(jax.vmap(coordinates))(both))
    jacobian = (moved[: start.size] - moved[start.size :]) / (2 * h)
    exact = case.run.log_density() + np.linalg.slogdet(jacobian)[1]
    close("density of a position", space.log_density(position), exact, 1e-6)
    return True
