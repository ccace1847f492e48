"""Checks of a case: what the library says of a program, beside plain Python.

A check raises AssertionError where the two differ, and gives whether there was anything to check.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import special

import ppl

from .case import Case, Values, along, direction, slope, to_arrays, value_and_grad
from .to_jax import flat, nested

MAX_STATES = 2**7
NUM_DRAWS = 600


def close(what: str, found: Any, expected: Any, tolerance: float = 1e-8) -> None:
    """Equality of shapes, and of numbers up to a tolerance."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape} for {expected.shape}"
    if not np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise AssertionError(f"{what}: {found} for {expected}")


def _gradient(case: Case, found: Any, exact: Callable[[Values], float], values: Values) -> None:
    """The derivative along a random direction is that of the oracle."""
    along_it = direction(case, values)
    if along_it:
        close("derivative", along(found, along_it), slope(exact, values, along_it), 1e-5)


def check_density(case: Case) -> bool:
    """log_density and log_probs, of data given and conditioned on, and the gradient."""
    data, values = case.split(list(case.sites), 0.5, "data")
    model = ppl.condition(case.model, nested(data)) if data else case.model
    exact = lambda x: case.oracle.run({**data, **x}).log_density()  # noqa: E731
    found, gradient = value_and_grad(ppl.log_density(model))(to_arrays(values))
    close("log_density", found, case.run.log_density())
    _gradient(case, gradient, exact, values)
    log_probs = flat(ppl.log_probs(model)(to_arrays(values)))
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


def posterior_of(case: Case, taken: list[Any]) -> tuple[Values, Values]:
    """Data and given values: the sites that are not taken out."""
    rest = [p for p in case.sites if p not in taken]
    fixed = [p for p in rest if not case.is_smooth(p)]
    smooth = [p for p in rest if case.is_smooth(p)]
    data, given = case.split(smooth, 0.6, "data")
    if smooth and not given:
        given = {smooth[0]: data.pop(smooth[0])}
    return {p: case.run.values[p] for p in fixed} | data, given


def compare_marginal(case: Case, how: Any, exact: Callable[[Values], float]) -> None:
    """The density of a marginalized model, of data conditioned on before, after, and given."""
    taken = [tuple(name.split(".")) for name in how]
    data, given = posterior_of(case, taken)
    before = ppl.marginalize(ppl.condition(case.model, nested(data)) if data else case.model, how)
    found, gradient = value_and_grad(ppl.log_density(before))(to_arrays(given))
    expected = exact(data | given)
    close("density, conditioned before", found, expected)
    _gradient(case, gradient, lambda x: exact(data | x), given)
    log_probs = ppl.log_probs(before)(to_arrays(given))
    close("sum of log_probs", sum(np.sum(x) for x in jax.tree.leaves(log_probs)), expected)
    if not data:
        return
    summed = ppl.marginalize(case.model, how)
    if case.luck("after") < 0.5:
        after = ppl.log_density(ppl.condition(summed, nested(data)))(to_arrays(given))
        close("density, conditioned after", after, expected)
    else:
        close("density, given", ppl.log_density(summed)(to_arrays(data | given)), expected)


def check_sums(case: Case) -> bool:
    """Discrete sites summed out, beside the sum over all of their states."""
    summed = case.discrete(MAX_STATES, "summed")
    if not summed:
        return False
    states = list(case.states(summed))

    def exact(values: Values) -> float:
        return float(
            np.logaddexp.reduce([case.oracle.run(values | x).log_density() for x in states])
        )

    how = [".".join(p) for p in summed]
    compare_marginal(case, how, exact)
    return True


def check_recovered_states(case: Case) -> bool:
    """Recovered states have the probabilities of the joint states, by chi-square."""
    summed = case.discrete(2**5, "summed")
    data, given = posterior_of(case, summed)
    if not summed or not given:
        return False
    states = list(case.states(summed))
    terms = [case.oracle.run(case.run.values | x).log_density() for x in states]
    probabilities = special.softmax(terms)
    model = ppl.condition(case.model, nested(data)) if data else case.model
    draws = jax.tree.map(lambda x: np.broadcast_to(x, (NUM_DRAWS, *x.shape)), to_arrays(given))
    how = ppl.marginalize(model, [".".join(p) for p in summed])
    found = flat(ppl.recover(how, draws)(jax.random.key(case.seed)))
    codes = {tuple(int(n) for p in summed for n in np.ravel(x[p])): i for i, x in enumerate(states)}
    rows = np.concatenate([np.reshape(found[p], (NUM_DRAWS, -1)) for p in summed], 1)
    counts = np.bincount([codes[tuple(map(int, row))] for row in rows], minlength=len(states))
    assert not counts[probabilities == 0].any(), "states of probability 0 are recovered"
    p_value = chi_square(counts, probabilities)
    assert p_value > 1e-7, f"recovered states {counts}, expected {NUM_DRAWS * probabilities}"
    return True


def chi_square(counts: Any, probabilities: Any) -> float:
    """The p-value of counts, the rare states taken together."""
    expected = probabilities * np.sum(counts)
    rare = expected < 5
    counts = np.append(counts[~rare], np.sum(counts[rare]))
    expected = np.append(expected[~rare], np.sum(expected[rare]))
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = np.sum((counts - expected) ** 2 / np.maximum(expected, 1.0))
    return float(special.gammaincc(max(len(counts) - 1, 1) / 2, statistic / 2))
