"""Checks of marginalized models, and of sums beside those over all joint states."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import ppl

from .case import Case, Values, direction, moved, to_arrays
from .checks import close, compare
from .oracle import Path
from .to_jax import flat, nested
from .transformed import entries, gaps, known

MAX_STATES = 2**7
NUM_DRAWS = 600
FACTOR = 1.3
Exact = Callable[[Values, Values], float]  # of values, and of masks of ignored entries


def posterior_of(case: Case, taken: list[Any]) -> tuple[Values, Values]:
    """Data and given values: the sites that are not taken out."""
    rest = [p for p in case.sites if p not in taken]
    fixed = [p for p in rest if not case.is_smooth(p)]
    smooth = [p for p in rest if case.is_smooth(p)]
    data, given = case.split(smooth, 0.6, "data")
    if smooth and not given:
        given = {smooth[0]: data.pop(smooth[0])}
    return {p: case.run.values[p] for p in fixed} | data, given


def partly_known(case: Case, taken: list[Any]) -> Values:
    """Masks of the unknown entries, of sites to take out that are data elsewhere."""
    masks = {p: gaps(case, p) for p in taken if case.luck("partly known", p) < 0.15}
    return {p: x for p, x in masks.items() if np.any(x)}


def compare_marginal(
    case: Case, how: Mapping[str, Any], exact: Exact, masks: Values | None = None
) -> None:
    """The density of a marginalized model, of data conditioned on before, after, and given.

    `masks` are those of the sites to take out that are known in part.
    """
    taken = [tuple(name.split(".")) for name in how]
    data, given = posterior_of(case, taken)
    ignored = {p: gaps(case, p) for p in data if case.luck("ignored", p) < 0.05}
    partial: dict[Path, Any] = {p: ppl.ignore(data[p], x) for p, x in ignored.items()}
    for path, mask in (masks or {}).items():
        partial[path] = ppl.impute(case.run.values[path], mask)
    ignored = {p: entries(case, p, x) for p, x in ignored.items()}
    observed = {**data, **partial}
    model = ppl.condition(case.model, nested(observed)) if observed else case.model
    before = ppl.marginalize(model, how)
    exact_of = lambda x: exact(data | x, ignored)  # noqa: E731
    compare(case, "density, conditioned before", ppl.log_density(before), exact_of, given)
    expected = exact_of(given)
    log_probs = jax.jit(ppl.log_probs(before))(to_arrays(given))
    close("sum of log_probs", sum(np.sum(x) for x in jax.tree.leaves(log_probs)), expected)
    _compare_variant(case, before, exact_of, given)
    if data and not partial:
        _compare_order(case, ppl.marginalize(case.model, how), expected, data, given)


def _compare_order(case: Case, summed: Any, expected: float, data: Values, given: Values) -> None:
    """Data conditioned on after the sum, or given, mean the same as before it."""
    if case.luck("after") < 0.5:
        after = jax.jit(ppl.log_density(ppl.condition(summed, nested(data))))(to_arrays(given))
        close("density, conditioned after", after, expected)
    else:
        every = jax.jit(ppl.log_density(summed))(to_arrays(data | given))
        close("density, given", every, expected)


def _compare_variant(case: Case, before: Any, exact: Callable[..., float], given: Values) -> None:
    """A marginalized model that is scaled, nested, mapped, or in single precision."""
    values, expected = to_arrays(given), exact(given)
    match case.pick(["none", "scaled", "nested", "mapped", "float32"], "variant"):
        case "scaled":
            scaled = jax.jit(ppl.log_density(ppl.scale(before, FACTOR)))(values)
            close("density of scale(marginalize)", scaled, FACTOR * expected)
        case "nested" if given:
            inside = ppl.log_density(ppl.nest(before, scope="outer"))
            inside = jax.jit(inside)({"outer": values})
            close("density of nest(marginalize)", inside, expected)
        case "mapped":
            other = moved(given, direction(case, given), 0.1)
            both = jax.tree.map(lambda *x: jnp.stack(x), values, to_arrays(other))
            found = jax.jit(jax.vmap(ppl.log_density(before), axis_size=2))(both)
            close("densities under vmap", found, [expected, exact(other)])
        case "float32":
            with jax.enable_x64(False):
                low = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), values)
                found = jax.jit(ppl.log_density(before))(low)
            assert found.dtype == jnp.float32
            close("density in float32", found, expected, 1e-3)


def check_sums(case: Case) -> bool:
    """Discrete sites summed out, beside the sum over all of their states."""
    summed = case.discrete(MAX_STATES, "summed")
    if not summed:
        return False
    masks = partly_known(case, summed)
    states = [x for x in case.states(summed) if known(case, masks, x)]

    def exact(values: Values, ignored: Values) -> float:
        run = case.oracle.run
        terms = [run(values | x, ignored=ignored).log_density() for x in states]
        return float(np.logaddexp.reduce(terms))

    how = {".".join(p): ppl.Enumerate() for p in summed}
    compare_marginal(case, how, exact, masks)
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
