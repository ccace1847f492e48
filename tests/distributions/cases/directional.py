"""Families of unit vectors."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate as si
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import Case
from tests.distributions.cases.vector_oracles import Batch, Density, Each, Tabulated


def directions(n: int, count: int = 5) -> np.ndarray:
    z = np.random.default_rng(n).normal(size=(count, n))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def area(n: int) -> float:
    """Of the unit sphere, by that of its slices."""
    if n == 1:
        return 2.0
    return (
        area(n - 1) * si.quad(lambda a: np.sin(a) ** (n - 2), 0, np.pi)[0] if n > 2 else 2 * np.pi
    )


def angle_law(n: int, density: Callable[[Any], Any]) -> Tabulated:
    """Of the cosine of the angle, for a density on the sphere that depends on it alone."""
    return Tabulated(lambda t: (1 - t * t) ** ((n - 3) / 2) * density(t), -1, 1)


def around(direction: np.ndarray, logpdf: Callable[[np.ndarray], float], law: Any) -> Each:
    """A density of the angle to `direction`; the azimuth is uniform."""

    def laws(draws: np.ndarray) -> Any:
        yield draws @ direction, law
        n, away = len(direction), np.linalg.svd(direction[None])[2][1:]
        if n > 2:
            flat = draws @ away.T
            unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
            yield from ((unit[:, i], angle_law(n - 1, np.ones_like)) for i in range(n - 1) if n > 3)
            if n == 3:
                yield np.arctan2(unit[:, 0], unit[:, 1]), st.uniform(-np.pi, 2 * np.pi)

    return Each(Density(logpdf), laws=laws)


def fisher(mean_direction: Any, concentration: Any) -> Each:
    mean_direction = mean_direction / np.linalg.norm(mean_direction)
    frozen = st.vonmises_fisher(mean_direction, float(concentration))
    n, k = len(mean_direction), concentration
    law = angle_law(n, lambda t: np.exp(k * (t - 1)))
    each = around(
        mean_direction, lambda x: frozen.logpdf(x / np.linalg.norm(x, keepdims=True)), law
    )
    each.entropy = frozen.entropy
    return each


def power(mean_direction: Any, concentration: Any) -> Each:
    n, k = len(mean_direction), concentration
    slices = si.quad(lambda a: np.sin(a) ** (n - 2) * ((1 + np.cos(a)) / 2) ** k, 0, np.pi)[0]
    log_total = np.log(area(n - 1) * slices)
    law = angle_law(n, lambda t: (1 + t) ** k)
    return around(
        mean_direction, lambda x: k * np.log((1 + x @ mean_direction) / 2) - log_total, law
    )


def projected(concentration: Any) -> Each:
    n, size = len(concentration), np.linalg.norm(concentration)

    def pdf(x: np.ndarray) -> float:
        def along(r: float) -> float:
            return r ** (n - 1) * np.exp(-0.5 * ((r * x - concentration) ** 2).sum())

        return si.quad(along, 0, size + 12, epsabs=0, epsrel=1e-12, points=[size])[0]

    def of_cosine(t: Any) -> Any:
        values = np.linspace(-1, 1, 101)
        u, v = _frame(concentration)
        table = [pdf(c * u + np.sqrt(max(1 - c * c, 0)) * v) for c in values]
        return np.exp(np.interp(t, values, np.log(table)))

    each = around(
        _frame(concentration)[0],
        lambda x: np.log(pdf(x)) - 0.5 * n * np.log(2 * np.pi),
        angle_law(n, of_cosine),
    )
    return each


def _frame(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Its direction and one at a right angle."""
    return vector / np.linalg.norm(vector), np.linalg.svd(vector[None])[2][1]


def uniform(n: int) -> Each:
    each = around(np.eye(n)[0], lambda x: -np.log(area(n)), angle_law(n, np.ones_like))
    each._mean, each._var = 0.0, 1 / n
    return each


NORTH = np.array([0.0, 0.6, 0.8])
FOUR = np.array([0.5, -0.5, 0.5, 0.5])
ON_THREE = np.concatenate([directions(3, 3), [NORTH, -NORTH[::-1]]])
OFF = ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [np.nan, 0.0, 1.0])
NO_MOMENTS = {"moments": False}
NO_ENTROPY = {"entropy": "no closed form"}

CASES = [
    Case(
        name="SphericalUniform",
        make=functools.partial(dist.SphericalUniform, 3),
        signature="dimension",
        parameters={},
        oracle=lambda: uniform(3),
        inside=ON_THREE,
        outside=OFF,
    ),
    Case(
        name="VonMisesFisher",
        make=dist.VonMisesFisher,
        signature="mean_direction, concentration",
        parameters={"mean_direction": NORTH, "concentration": np.array([0.5, 40.0])},
        oracle=lambda mean_direction, concentration: Batch(
            *(fisher(mean_direction, k) for k in concentration)
        ),
        inside=np.stack([ON_THREE, ON_THREE], 1),
        outside=OFF,
        **NO_MOMENTS,
    ),
    Case(
        name="VonMisesFisher, four entries",
        make=dist.VonMisesFisher,
        parameters={"mean_direction": FOUR, "concentration": 3.5},
        oracle=fisher,
        inside=directions(4),
        outside=(np.ones(4),),
        **NO_MOMENTS,
    ),
    Case(
        name="PowerSpherical",
        make=dist.PowerSpherical,
        signature="mean_direction, concentration",
        parameters={"mean_direction": NORTH, "concentration": np.array([0.5, 6.0])},
        oracle=lambda mean_direction, concentration: Batch(
            *(power(mean_direction, k) for k in concentration)
        ),
        inside=np.stack([ON_THREE, ON_THREE], 1),
        outside=OFF,
        **NO_MOMENTS,
    ),
    Case(
        name="ProjectedNormal",
        make=dist.ProjectedNormal,
        signature="concentration",
        parameters={"concentration": np.array([[0.0, 0.75, -0.5], [4.0, 1.0, 2.0]])},
        oracle=lambda concentration: Batch(*map(projected, concentration)),
        inside=np.stack([ON_THREE, ON_THREE], 1),
        outside=OFF,
        **NO_MOMENTS,
        excluded=NO_ENTROPY,
    ),
]
