"""Distribution functions and their slopes at special values, of all families of numbers.

Values are ends of the support, 0, 1, 1e-30, 1e30 and usual ones; so are parameters, one at a time,
and probabilities. All is compiled once for a family and a dtype.
"""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from distributions.constraints.base import bounds
from tests.distributions.cases import CASES, Case
from tests.distributions.cases.base import cast
from tests.distributions.op_by_op import run

FUNCTIONS = ("log_prob", "cdf", "survival", "log_cdf", "log_survival", "quantile")
PROBABILITIES = (0.5, 0.0, 1.0, 1e-30, 1 - 2**-24)
NUMBERS = (0.0, 1.0, 1e-30, 1e30, -1e-30, -1.0, -1e30)
COUNTS = (0, 1, 2, 5, 1000, 2**30, -1)
# In single precision squares of 1e30 overflow.
EXTREMES = {4: (0.0, 1.0, 1e-8, 1e8, -1e8), 8: (0.0, 1.0, 1e-30, 1e30, -1e30)}
# Of second derivatives: none of its entries is 0, so that a NaN in any of them is seen.
DIRECTION = np.where(np.arange(32) % 2, -0.75, 1.0) * np.linspace(1, 2, 32)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Results of a family at all points of one dtype, with an axis of points and of functions.

    Attributes:
        dtype: Of values, parameters and results.
        names: The functions.
        points: A value, a probability and parameters each.
        values: Of the functions.
        slopes: Their gradients, with a last axis as that of points.
        bends: The derivatives of the gradients in one direction.
    """

    dtype: Any
    names: tuple[str, ...]
    points: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray


def is_swept(case: Case) -> bool:
    """Whether it is a distribution of numbers with a density."""
    return case.is_number and case.name != "MixtureSameFamily, gammas"


def swept() -> list[Case]:
    """The first case of each family."""
    first = {case.family: case for case in reversed(CASES) if is_swept(case)}
    return [case for case in CASES if first.get(case.family) is case]


def _without_batch(case: Case) -> dict:
    batch = case.build().batch_shape
    at = (0,) * len(batch)
    first = lambda x: x[at] if x.shape[: len(batch)] == batch else x  # noqa: E731
    return {name: cast(first(np.asarray(x)), float) for name, x in case.parameters.items()}


def _has(d: Any, name: str) -> bool:
    try:
        jax.eval_shape(getattr(d, name), 0.5 if name == "quantile" else d.support.feasible())
    except NotImplementedError:
        return False
    return True


def _values(d: Any) -> list[float]:
    ends = [float(x) for x in bounds(d.support)]
    if d.support.is_discrete:
        return [*COUNTS, *(x for x in ends if abs(x) < 2**30)]
    middle = [float(d.quantile(q)) for q in (0.25, 0.5, 0.99)] if _has(d, "quantile") else [0.5]
    return [*dict.fromkeys([*NUMBERS, *(x for x in ends if abs(x) < np.inf), *middle])]


def _rows(case: Case, moving: dict, fixed: dict, size: int) -> np.ndarray:
    """Values, probabilities and parameters."""
    changed = [moving]
    for name, x in moving.items():
        changed += [moving | {name: jnp.full_like(x, e)} for e in EXTREMES[size] if not x.ndim]
    rows = []
    for parameters in changed:
        try:
            d = case.make(**parameters, **fixed)
        except ValueError:
            continue
        flat = ravel_pytree(parameters)[0]
        if not rows:
            values = _values(d)
        ends = [float(x) for x in bounds(d.support) if abs(float(x)) < 2**30]
        at = dict.fromkeys([*values, *ends])
        pairs = zip(at, itertools.cycle(PROBABILITIES), strict=False)
        rows += [[x, q, *flat] for x, q in pairs]
    return np.array(rows)


def sweep(case: Case, dtype: Any, evaluate: Any = run) -> Sweep:
    """All functions of a family, with first and second derivatives."""
    given = _without_batch(case)
    moving = {k: x for k, x in given.items() if jnp.issubdtype(x.dtype, jnp.floating)}
    fixed = {k: x for k, x in given.items() if k not in moving}
    base = case.make(**given)
    names = tuple(name for name in FUNCTIONS if _has(base, name))
    is_discrete = base.support.is_discrete
    if is_discrete:
        names = tuple(name for name in names if name != "quantile")
    rows = _rows(case, moving, fixed, np.dtype(dtype).itemsize)
    unravel = ravel_pytree(jax.tree.map(lambda x: x.astype(dtype), moving))[1]

    def jet(name, row, x):
        def f(row):
            d = case.make(**unravel(row[2:]), **fixed)
            at = row[1] if name == "quantile" else x if is_discrete else row[0]
            return getattr(d, name)(at)

        def both(row):
            return f(row), jax.jacrev(f)(row)

        (value, slope), (_, bend) = jax.jvp(both, (row,), (direction,))
        return value, slope, bend

    def jets(row, x):
        return jax.tree.map(lambda *of: jnp.stack(of), *(jet(name, row, x) for name in names))

    at = rows.astype(dtype)
    direction = np.resize(DIRECTION, at.shape[1]).astype(dtype)
    found = evaluate(jax.vmap(jets), at, rows[:, 0].clip(-(2**31), 2**31).astype(np.int64))
    return Sweep(dtype, names, at.astype(float), *(np.asarray(x, float) for x in found))
