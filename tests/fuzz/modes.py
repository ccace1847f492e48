"""Check of Laplace's approximation, beside a dense one about a mode found in plain Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

import ppl

from .case import Case, along, direction, slope, to_arrays, value_and_grad
from .checks import close
from .groups import Groups
from .integrals import normal_sites, vector_to_values
from .oracle import Path
from .sums import posterior_of
from .to_jax import nested

MAX_NUMBERS = 4
STEP = 2e-3
MAX_SLOPE = 1e-3
MIN_CURVATURE = 0.05


def check_laplace(case: Case) -> bool:
    """Normal sites integrated out about their mode, where there is one."""
    taken = _leave_leaves(case, normal_sites(case, MAX_NUMBERS))
    data, given = posterior_of(case, taken)
    masks = {p: np.ones(np.shape(case.run.values[p]), bool) for p in taken}
    size = sum(np.size(m) for m in masks.values())

    def height(x: Any) -> float:
        return case.oracle.run(case.run.values | vector_to_values(case, masks, x)).log_density()

    expected = laplace_of(height, size) if taken else None
    if expected is None:
        return False
    model = ppl.condition(case.model, nested(data)) if data else case.model
    model = ppl.marginalize(model, {".".join(p): ppl.Laplace() for p in taken})
    density = value_and_grad(ppl.log_density(model))
    found, gradient = density(to_arrays(given))
    close("Laplace's approximation", found, expected, 1e-4)
    along_it = direction(case, given)
    if along_it:
        exact = slope(lambda x: float(density(to_arrays(x))[0]), given, along_it)
        close("derivative", along(gradient, along_it), exact, 1e-5)
    return True


def _leave_leaves(case: Case, paths: list[Path]) -> list[Path]:
    """Sites each entry of which another term depends on: what none does integrates to 1 exactly."""
    if not paths:
        return []
    reads = np.sum(Groups(case, [], paths).uses(case.run.values), axis=0)
    ends = np.cumsum([np.size(case.run.values[p]) for p in paths])[:-1]
    return [p for p, n in zip(paths, np.split(reads, ends), strict=True) if np.all(n > 1)]


def laplace_of(height: Callable[[Any], float], size: int) -> float | None:
    """Laplace's approximation of a log integral; None if there may be several modes, or none."""
    rng = np.random.default_rng(0)
    starts = [np.zeros(size), *rng.normal(size=(4, size)) * [[1.0], [1.0], [3.0], [3.0]]]
    ends = [optimize.minimize(lambda x: -height(x), start, method="BFGS").x for start in starts]
    mode = ends[0]
    unit = np.eye(size) * STEP
    if np.max(np.abs(np.array(ends) - mode)) > 1e-3:
        return None
    up, down = (np.array([height(mode + sign * e) for e in unit]) for sign in (1, -1))
    center = height(mode)
    hessian = np.diag(up + down - 2 * center)
    for i in range(size):
        for j in range(i):
            corners = [
                height(mode + a * unit[i] + b * unit[j])
                for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))
            ]
            hessian[i, j] = hessian[j, i] = np.dot(corners, (1, 1, -1, -1)) / 4
    precision = -hessian / STEP**2
    if np.max(np.abs(up - down)) / (2 * STEP) > MAX_SLOPE:
        return None
    if np.linalg.eigvalsh(precision)[0] < MIN_CURVATURE:
        return None
    return center + 0.5 * (size * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1])
