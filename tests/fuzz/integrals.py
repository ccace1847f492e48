"""Checks of integrals: normal sites of linear programs, beside a joint normal density by hand."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import ppl

from .case import Case, Values, to_arrays
from .checks import close
from .oracle import Path
from .sums import NUM_DRAWS, compare_marginal, partly_known, posterior_of
from .to_jax import flat, nested
from .transformed import known

MAX_ELEMENTS, MAX_STATES = 9, 2**4


@dataclasses.dataclass(frozen=True)
class Quadratic:
    """A concave function c + g (x - m) + (x - m) H (x - m) / 2 about a center m."""

    center: Any
    height: float
    gradient: Any
    hessian: Any

    @classmethod
    def of(cls, f: Callable[[Any], float], size: int) -> "Quadratic":
        """The quadratic function that f is; an AssertionError if it is none.

        It is found twice: about 0 with unit steps, and about the mode with steps of standard
        deviations. A narrow function has large values far from its mode, whose differences are
        inexact.
        """
        rough = cls._about(f, np.zeros(size), np.ones(size))
        steps = 1 / np.sqrt(-np.diagonal(rough.hessian))
        found = cls._about(f, rough.mode(), steps)
        point = found.center + steps * np.random.default_rng(0).normal(size=size) * 3
        exact = f(point)
        assert np.isclose(found(point), exact, rtol=1e-6), "not quadratic, and integrated"
        return found

    @classmethod
    def _about(cls, f: Callable[[Any], float], center: Any, steps: Any) -> "Quadratic":
        """The quadratic function with the values of f at a center and at steps from it."""
        size, unit = len(steps), np.diag(steps)
        height = f(center)
        up, down = (np.array([f(center + sign * e) for e in unit]) for sign in (1, -1))
        hessian = np.diag(up + down - 2 * height)
        for i in range(size):
            for j in range(i):
                both = f(center + unit[i] + unit[j]) - up[i] - up[j] + height
                hessian[i, j] = hessian[j, i] = both
        return cls(center, height, (up - down) / 2 / steps, hessian / np.outer(steps, steps))

    def __call__(self, x: Any) -> float:
        x = x - self.center
        return self.height + self.gradient @ x + 0.5 * x @ self.hessian @ x

    def mode(self) -> Any:
        """The argument of its maximum."""
        return self.center + np.linalg.solve(-self.hessian, self.gradient)

    def log_integral(self) -> float:
        """The logarithm of the integral of its exponential."""
        sign, log_det = np.linalg.slogdet(-self.hessian)
        assert sign > 0
        shift = 0.5 * self.gradient @ np.linalg.solve(-self.hessian, self.gradient)
        return self.height + shift + 0.5 * (len(self.gradient) * np.log(2 * np.pi) - log_det)


def normal_sites(case: Case, max_elements: int = MAX_ELEMENTS) -> list[Path]:
    """Some normal sites with few elements together."""
    found, left = [], max_elements
    for path, family in case.sites.items():
        if family.normal and case.luck("integrated", path) < 0.8:
            size = np.size(case.run.values[path])
            if size <= left:
                found.append(path)
                left -= size
    return found


def vector_to_values(case: Case, masks: Values, x: Any) -> Values:
    """Values of sites, whose entries in the masks are the numbers of a vector."""
    values = {}
    for path, mask in masks.items():
        num = int(np.sum(mask))
        values[path] = np.array(case.run.values[path], float)
        values[path][mask] = x[:num]
        x = x[num:]
    return values


def _quadratic(
    case: Case, masks: Values, values: Values, ignored: Values | None = None
) -> Quadratic | None:
    """The log density in the entries of the masks; None where it is minus infinity."""

    def f(x: Any) -> float:
        at_x = values | vector_to_values(case, masks, x)
        return case.oracle.run(at_x, ignored=ignored).log_density()

    size = sum(int(np.sum(mask)) for mask in masks.values())
    return Quadratic.of(f, size) if f(np.zeros(size)) > -np.inf else None


def _all(case: Case, paths: Sequence[Path]) -> Values:
    return {p: np.ones(np.shape(case.run.values[p]), bool) for p in paths}


def check_integrals(case: Case) -> bool:
    """Normal sites integrated out, and perhaps discrete ones summed out with them."""
    normal = normal_sites(case)
    if not normal:
        return False
    summed = case.discrete(MAX_STATES, "summed") if case.luck("with sums") < 0.5 else []
    known_states = partly_known(case, summed)
    states = [x for x in case.states(summed) if known(case, known_states, x)]
    masks = partly_known(case, normal)
    integrated = _all(case, normal) | masks

    def exact(values: Values, ignored: Values) -> float:
        found = [_quadratic(case, integrated, values | state, ignored) for state in states]
        return float(np.logaddexp.reduce([x.log_integral() for x in found if x is not None]))

    how: dict[str, Any] = {".".join(p): ppl.Gaussian() for p in normal}
    how |= {".".join(p): ppl.Enumerate() for p in summed}
    compare_marginal(case, how, exact, known_states | masks)
    return True


def check_recovered_numbers(case: Case) -> bool:
    """Recovered normal sites have the mean and the covariance of their joint conditional."""
    normal = normal_sites(case)
    data, given = posterior_of(case, normal)
    if not normal or not given:
        return False
    exact = _quadratic(case, _all(case, normal), data | given)
    assert exact is not None
    model = ppl.condition(case.model, nested(data)) if data else case.model
    draws = jax.tree.map(lambda x: np.broadcast_to(x, (NUM_DRAWS, *x.shape)), to_arrays(given))
    integrated = ppl.marginalize(model, {".".join(p): ppl.Gaussian() for p in normal})
    found = flat(ppl.recover(integrated, draws)(jax.random.key(case.seed)))
    x = np.concatenate([np.reshape(found[p], (NUM_DRAWS, -1)) for p in normal], 1)
    precision = -exact.hessian
    root = np.linalg.cholesky(precision)
    z = (x - exact.mode()) @ root  # standard normal
    n, d = z.shape
    second = z.T @ z / n
    worst = max(
        np.max(np.abs(z.mean(0))) * np.sqrt(n),
        np.max(np.abs(second - np.eye(d)) / np.sqrt((1 + np.eye(d)) / n)),
    )
    assert worst < 7, f"recovered numbers are off by {worst:.1f} standard errors"
    close("recovered shape", x.shape, (NUM_DRAWS, len(exact.gradient)))
    return True
