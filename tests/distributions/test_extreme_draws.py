"""Draws at tiny and huge parameters: numbers in the support, or there is a warning of them."""

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from ppl.transforms.draw_checks import is_near_support
from tests.distributions.cases import CASES, Case

EXTREMES = {
    4: (1e-37, 1e-30, 1e-8, 1e8, 1e30, 3e38, -1e8, -1e30, -3e38),
    8: (1e-300, 1e-30, 1e-8, 1e8, 1e30, 1e300, -1e8, -1e30, -1e300),
}
# That of Custom is drawn by a sampler of the user.
FIRST = {case.family: case for case in reversed(CASES) if case.family != "Custom"}
QUICK = ("Dagum", "GeneralizedExtremeValue", "Levy", "Normal", "ProjectedNormal", "Triangular")
RARE = (pytest.mark.slow, pytest.mark.exhaustive)
EVERY = [pytest.param(n, marks=RARE * (n not in QUICK)) for n in sorted(FIRST)]
KEY = jax.random.key(1)


def extreme_parameters(case: Case, dtype: Any) -> Iterator[dict[str, Any]]:
    """Parameters of which one is extreme, or location and scale, or all in proportion."""
    given = case.given(dtype)
    moving = {k: x for k, x in given.items() if jnp.issubdtype(x.dtype, jnp.floating)}
    place = [name for name in ("loc", "scale") if name in moving]
    for extreme in EXTREMES[np.dtype(dtype).itemsize]:
        number = np.asarray(extreme, dtype)
        for names in (*([name] for name in moving), place):
            yield given | {name: jnp.full_like(given[name], number) for name in names}
        yield given | {name: x * number for name, x in moving.items()}


def are_right(d: Any, draws: Any) -> bool:
    """Whether numbers lie in the support, and vectors do or are near it; none is at its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A point of the support may overflow.
        inside = d.support.check(draws) if not d.event_shape else is_near_support(draws, d)
    return bool(np.all(inside)) and not int(d.count_cut_off(draws))


def faults(case: Case, dtype: Any) -> list[str]:
    """Distributions of which draws are wrong, and nothing was told."""
    found = []
    for parameters in extreme_parameters(case, dtype):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                d = case.make(**parameters)
                draws = d.sample(KEY, (64,))
            except ValueError:
                continue
        is_told = any("draws are" in str(x.message) for x in told)
        if is_told == are_right(d, draws):
            found.append(f"{d}: {draws.ravel()[:3]}, {'' if is_told else 'not '}told")
    return found


@pytest.mark.parametrize("name", EVERY)
def test_extreme_draws_are_in_the_support_or_told(name, float_dtype):
    assert faults(FIRST[name], float_dtype) == []
    jax.clear_caches()


@pytest.mark.parametrize("loc", [1.0, -1e8, 1e30])
def test_draws_are_moved_to_the_number_next_to_an_open_end(loc):
    """With the slope of the end."""
    loc = np.float32(loc)

    def draw(loc):
        return dist.Levy(loc, np.float32(1e-30)).sample(KEY)

    found, slope = jax.value_and_grad(draw)(loc)
    assert found == np.nextafter(loc, np.float32(np.inf))
    assert slope == 1


def test_draws_are_moved_from_zero_to_the_smallest_normal_number():
    draws = dist.Dagum(concentration=1e-8, sharpness=1.0, scale=1.0).sample(KEY, (9,))
    assert np.all(draws == np.finfo(np.float32).tiny)
