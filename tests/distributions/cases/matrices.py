"""Families of matrices."""

import functools
from typing import Any

import numpy as np
import scipy.integrate as si
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import Case
from tests.distributions.cases.multivariate import MATRIX
from tests.distributions.cases.vector_oracles import Batch, Density, Each, Gaussian, log_det

LOWER = np.tril_indices(3)
BELOW = np.tril_indices(3, -1)
DIRECTIONS = (*np.eye(3), np.array([1.0, -2.0, 0.5]))


def square(entries: np.ndarray) -> np.ndarray:
    """The lower triangle of `L L^T` for that of `L`."""
    tril = np.zeros((3, 3), entries.dtype)
    tril[LOWER] = entries
    return (tril @ tril.T)[LOWER]


def of_factor(frozen: Any) -> Density:
    """The density of the Cholesky factor of a matrix with a density."""
    return Density(lambda tril: frozen.logpdf(tril @ tril.T) + log_det(square, tril[LOWER]))


def wishart(df: Any, scale: Any) -> Each:
    frozen = st.wishart(float(df), scale)

    def laws(draws: np.ndarray) -> Any:
        for a in DIRECTIONS:
            yield np.einsum("nij,i,j->n", draws, a, a) / (a @ scale @ a), st.chi2(df)

    return Each(frozen, frozen.mean(), frozen.var(), 2, laws)


def inverse_wishart(df: Any, scale: Any) -> Each:
    frozen = st.invwishart(float(df), scale)

    def laws(draws: np.ndarray) -> Any:
        for a in DIRECTIONS:
            ratio = np.einsum("nij,i,j->n", draws, a, a) / (a @ scale @ a)
            yield ratio, st.invgamma((df - 2) / 2, scale=0.5)

    # Scipy's entropy (1.17) takes log(2) once where the determinant of S / 2 has it n times.
    return Each(Density(frozen.logpdf), frozen.mean(), frozen.var(), 2, laws)


class Factor:
    """The Cholesky factor of a matrix of which there is an oracle."""

    def __init__(self, squared: Each):
        self.squared = squared

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        return Each(of_factor(self.squared.frozen), event_ndims=2).logpdf(values)

    def marginals(self, draws: np.ndarray) -> Any:
        return self.squared.marginals(np.einsum("nik,njk->nij", draws, draws))


def matrix_normal(loc: Any, scale_tril_row: Any, scale_tril_column: Any) -> Gaussian:
    rows, columns = (t @ t.T for t in (scale_tril_row, scale_tril_column))
    shape = (len(rows), len(columns))
    return Gaussian(np.broadcast_to(loc, shape), np.kron(rows, columns), shape)


def log_integral(power: float) -> float:
    """Of `(1 - t^2)^power` from -1 to 1, as `t = sin(u)`."""
    return np.log(si.quad(lambda u: np.cos(u) ** (2 * power + 1), -np.pi / 2, np.pi / 2)[0])


def lkj(concentration: Any) -> Each:
    """Of three rows; normalized by quadrature over a partial correlation and two correlations."""
    log_total = 2 * log_integral(concentration - 0.5) + log_integral(concentration - 1)

    def logpdf(x: np.ndarray) -> float:
        return (concentration - 1) * np.linalg.slogdet(x)[1] - log_total

    def laws(draws: np.ndarray) -> Any:
        half = st.beta(concentration + 0.5, concentration + 0.5)
        yield from (((1 + draws[:, i, j]) / 2, half) for i, j in zip(*BELOW, strict=True))
        rest = np.linalg.det(draws) / (1 - draws[:, 0, 1] ** 2)
        yield rest, st.beta(concentration, 1)

    variance = np.exp(log_integral(concentration + 0.5) - log_integral(concentration - 0.5))
    return Each(Density(logpdf), np.eye(3), (1 - variance) * (1 - np.eye(3)), 2, laws)


def correlations(entries: np.ndarray) -> np.ndarray:
    """Those of the Cholesky factor with the given entries below the diagonal."""
    tril = np.zeros((3, 3), entries.dtype)
    tril[BELOW] = entries
    tril[np.diag_indices(3)] = np.sqrt(1 - (tril**2).sum(1))
    return (tril @ tril.T)[BELOW]


class LKJFactor(Factor):
    def logpdf(self, values: np.ndarray) -> np.ndarray:
        def one(tril: np.ndarray) -> float:
            jacobian = log_det(correlations, tril[BELOW])
            return self.squared.frozen.logpdf(tril @ tril.T) + jacobian

        return Each(Density(one), event_ndims=2).logpdf(values)


def lkj_pair(concentration: Any) -> Each:
    """Of two rows: the density of the only correlation."""
    total = log_integral(concentration - 1)
    return Each(
        Density(lambda x: (concentration - 1) * np.log1p(-(x[0, 1] ** 2)) - total),
        np.eye(2),
        (1 - np.exp(log_integral(concentration) - total)) * (1 - np.eye(2)),
        2,
        lambda draws: [((1 + draws[:, 0, 1]) / 2, st.beta(concentration, concentration))],
    )


TRIL = np.array([[1.5, 0, 0], [0.5, 1.0, 0], [-0.25, 0.75, 0.5]])
FACTORS = np.stack([TRIL, np.eye(3), 2 * TRIL, np.tril(MATRIX), 0.5 * np.eye(3)])
SQUARES = np.einsum("nik,njk->nij", FACTORS, FACTORS)
UNIT_ROWS = np.stack(
    [
        [[1, 0, 0], [r, np.sqrt(1 - r * r), 0], [s, t, np.sqrt(1 - s * s - t * t)]]
        for r, s, t in [
            (0, 0, 0),
            (0.5, 0.25, 0.5),
            (-0.5, 0.75, 0.5),
            (0.9, 0.5, -0.5),
            (0, 0, 1 / 2),
        ]
    ]
)
CORRELATIONS = np.einsum("nik,njk->nij", UNIT_ROWS, UNIT_ROWS)
CORRELATIONS[:, range(3), range(3)] = 1
NO_FACTORS = (-np.eye(3), np.zeros((3, 3)), np.ones((3, 3)), np.full((3, 3), np.nan))
INDEFINITE = (-np.eye(3), np.ones((3, 3)), np.tril(np.ones((3, 3))), np.full((3, 3), np.nan))
SMALL = np.array([[1.5, 0.0], [0.5, 1.0]])
NOT_SCIPYS = {"moments": False}

CASES = [
    Case(
        name="Wishart",
        make=dist.Wishart,
        signature="df, *, scale=None, scale_tril=None",
        parameters={"df": 5.5, "scale": MATRIX},
        oracle=wishart,
        inside=SQUARES,
        outside=INDEFINITE,
    ),
    Case(
        name="WishartCholesky",
        make=dist.WishartCholesky,
        signature="df, *, scale=None, scale_tril=None",
        parameters={"df": np.array([4.5, 9.0]), "scale_tril": TRIL},
        oracle=lambda df, scale_tril: Batch(
            *(Factor(wishart(nu, scale_tril @ scale_tril.T)) for nu in df)
        ),
        inside=np.stack([FACTORS, FACTORS[::-1]], 1),
        outside=NO_FACTORS,
        **NOT_SCIPYS,
    ),
    Case(
        name="InverseWishart",
        make=dist.InverseWishart,
        signature="df, *, scale=None, scale_tril=None",
        parameters={"df": 9.5, "scale_tril": TRIL},
        oracle=lambda df, scale_tril: inverse_wishart(df, scale_tril @ scale_tril.T),
        inside=SQUARES,
        outside=INDEFINITE,
    ),
    Case(
        name="InverseWishartCholesky",
        make=dist.InverseWishartCholesky,
        signature="df, *, scale=None, scale_tril=None",
        parameters={"df": 8.5, "scale": MATRIX},
        oracle=lambda df, scale: Factor(inverse_wishart(df, scale)),
        inside=FACTORS,
        outside=NO_FACTORS,
        **NOT_SCIPYS,
    ),
    Case(
        name="MatrixNormal",
        make=dist.MatrixNormal,
        signature="loc, *, scale_tril_row, scale_tril_column",
        parameters={
            "loc": np.array([[0.5, 1.0, -1.0], [0.0, 2.0, 0.25]]),
            "scale_tril_row": SMALL,
            "scale_tril_column": TRIL,
        },
        oracle=matrix_normal,
        inside=SQUARES[:, :2],
        outside=(),
    ),
    Case(
        name="KroneckerNormal",
        make=lambda loc, rows, columns: dist.KroneckerNormal(loc, scale_trils=(rows, columns)),
        signature="loc, *, scale_trils, noise_scale=None",
        parameters={
            "loc": 0.5,
            "rows": np.array([[1.5, 0.0], [0.5, 1.0]]),
            "columns": np.stack([TRIL, TRIL[::-1, ::-1].T]),
        },
        oracle=lambda loc, rows, columns: Batch(
            *(Gaussian(loc, np.kron(rows @ rows.T, tril @ tril.T)) for tril in columns)
        ),
        inside=SQUARES[:, None, :2].repeat(2, 1).reshape(5, 2, 6),
        outside=(),
    ),
    Case(
        name="KroneckerNormal, with noise",
        make=lambda rows, columns, noise: dist.KroneckerNormal(
            0.0, scale_trils=(rows, columns), noise_scale=noise
        ),
        parameters={"rows": np.eye(2), "columns": TRIL, "noise": np.array([0.5, 2.0])},
        oracle=lambda rows, columns, noise: Batch(
            *(
                Gaussian(0.0, np.kron(rows @ rows.T, columns @ columns.T) + s**2 * np.eye(6))
                for s in noise
            )
        ),
        inside=SQUARES[:, None, :2].repeat(2, 1).reshape(5, 2, 6),
        outside=(),
    ),
    Case(
        name="LKJ",
        make=functools.partial(dist.LKJ, 3),
        signature="dimension, concentration",
        parameters={"concentration": np.array([1.5, 4.0])},
        oracle=lambda concentration: Batch(*map(lkj, concentration)),
        inside=np.stack([CORRELATIONS, CORRELATIONS], 1),
        outside=(*INDEFINITE, 2 * np.eye(3)),
    ),
    Case(
        name="LKJ, two rows",
        make=functools.partial(dist.LKJ, 2),
        parameters={"concentration": 2.5},
        oracle=lkj_pair,
        inside=CORRELATIONS[:, :2, :2],
        outside=(2 * np.eye(2),),
    ),
    Case(
        name="LKJCholesky",
        make=functools.partial(dist.LKJCholesky, 3),
        signature="dimension, concentration",
        parameters={"concentration": 1.5},
        oracle=lambda concentration: LKJFactor(lkj(concentration)),
        inside=UNIT_ROWS,
        outside=(*NO_FACTORS, 0.5 * np.eye(3)),
        **NOT_SCIPYS,
    ),
]
