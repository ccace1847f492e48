r"""Inverse mass matrices :math:`\Sigma` and their factors: diagonal, low rank, dense.

A factor `L` has :math:`\Sigma = L L^\top`. Both are vectors for a diagonal.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.argument_checks import as_real
from inference.common.layout import Layout
from inference.runtime.xla import PaddedFactor

RANK = 10  # rank of learned low-rank matrices
_MAX_DECOMPOSED_SIZE = 1000  # coordinates

# Coordinates up to which a dense or a low-rank mass matrix costs little.
MAX_DENSE_SIZE = 100
MAX_LOW_RANK_SIZE = 2000


class LowRankMatrix(NamedTuple):
    r"""Low-rank matrix :math:`D (I + V^\top (\Lambda - I) V) D`, :math:`D, \Lambda` diagonal.

    It stretches a few directions, the rows of `V`, and otherwise is a diagonal. An inverse mass
    matrix of this form suits many coordinates with a few directions of strong correlation: a
    product with a vector takes time in proportion to ``rank * size``.

    Attributes:
        scale: The diagonal of `D`, ``(size,)``.
        vectors: `V`, ``(rank, size)``, orthonormal rows; rows of zeros do nothing.
        values: The diagonal of :math:`\Lambda`, ``(rank,)``, positive.

    Example:
        >>> matrix = LowRankMatrix(np.array([1.0, 2.0]), np.array([[1.0, 0.0]]), np.array([9.0]))
        >>> matrix.dense()
        array([[9., 0.],
               [0., 4.]])
    """

    scale: Any
    vectors: Any
    values: Any

    def diagonal(self) -> Any:
        """The diagonal of the matrix, ``(size,)``."""
        return self.scale**2 * (1 + (self.values - 1) @ self.vectors**2)

    def dense(self) -> Any:
        """The matrix itself, ``(size, size)``."""
        inner = (self.vectors.T * (self.values - 1)[None]) @ self.vectors
        inner = inner + np.eye(self.scale.size, dtype=self.scale.dtype)
        return self.scale[:, None] * inner * self.scale[None]

    def stretch(self, x: jax.Array) -> jax.Array:
        r"""The product :math:`(I + V^\top (\Lambda - I) V) x`, ``(size,)``."""
        return x + ((self.values - 1) * (self.vectors @ x)) @ self.vectors


Blocks = tuple[np.ndarray, ...]  # sorted coordinates of each block of a dense matrix
Matrix = Any  # a vector, a matrix or a `LowRankMatrix`; a factor may also be a `PaddedFactor`


def kind_of(matrix: Matrix) -> str:
    """Kind of a matrix: ``"diagonal"``, ``"low_rank"`` or ``"dense"``."""
    if isinstance(matrix, LowRankMatrix):
        return "low_rank"
    return "diagonal" if np.ndim(matrix) == 1 else "dense"


def expand_diagonal(diagonal: np.ndarray, kind: str) -> Matrix:
    """Diagonal matrix in the form of a kind, from its diagonal ``(..., size)``; in NumPy."""
    if kind == "diagonal":
        return diagonal
    if kind == "dense":
        return diagonal[..., None] * np.eye(diagonal.shape[-1], dtype=diagonal.dtype)
    *batch, size = diagonal.shape
    rank = min(RANK, size)
    vectors = np.zeros((*batch, rank, size), diagonal.dtype)
    return LowRankMatrix(np.sqrt(diagonal), vectors, np.ones((*batch, rank), diagonal.dtype))


def restrict_covariance(covariance: np.ndarray, kind: str) -> Matrix:
    """Approximation of a covariance, ``(size, size)``, by a kind of matrix; in NumPy.

    A covariance ``(size,)`` is a diagonal.

    | Kind           | Approximation                                                             |
    |----------------|---------------------------------------------------------------------------|
    | ``"dense"``    | the covariance itself                                                     |
    | ``"diagonal"`` | its diagonal                                                              |
    | ``"low_rank"`` | a diagonal, and the 10 eigenvectors of the correlation matrix whose       |
    |                | eigenvalues are furthest from their median on the log scale               |

    The low-rank matrix is a diagonal for at most 10 coordinates, and for more than 1000, where
    eigenvectors would take long.
    """
    diagonal = covariance if covariance.ndim == 1 else np.diag(covariance)
    size = len(covariance)
    if covariance.ndim == 1:
        return expand_diagonal(diagonal, kind)
    if kind == "dense":
        return covariance
    if kind == "diagonal" or not RANK < size <= _MAX_DECOMPOSED_SIZE:
        return expand_diagonal(diagonal, kind)
    scale = np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    middle = np.median(values)
    order = np.argsort(-np.abs(np.log(np.maximum(values, np.finfo(values.dtype).tiny) / middle)))
    kept = order[:RANK]
    others = order[RANK:]
    rest = np.exp(np.mean(np.log(values[others])))
    return LowRankMatrix(np.sqrt(rest) * scale, vectors[:, kept].T, values[kept] / rest)


def keep_blocks(matrix: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Dense matrix with zeros outside of its diagonal and of blocks; in NumPy."""
    kept = np.diag(np.diag(matrix))
    for block in blocks:
        at = np.ix_(block, block)
        kept[at] = matrix[at]
    return kept


def factorize(matrix: Matrix, xp: Any = jnp) -> Matrix:
    r"""Factor `L` of an inverse mass matrix ``L @ L.T``, in the array library `xp`.

    A :class:`LowRankMatrix` stands for :math:`D (I + V^\top (\Lambda - I) V)` where it is a factor.
    """
    if isinstance(matrix, LowRankMatrix):
        return matrix._replace(values=xp.sqrt(matrix.values))
    return xp.sqrt(matrix) if matrix.ndim == 1 else xp.linalg.cholesky(matrix)


def push(factor: Matrix, momentum: jax.Array) -> jax.Array:
    """The velocity ``L @ w`` of a whitened momentum; `factor` may be padded."""
    if isinstance(factor, LowRankMatrix):
        return factor.scale * factor.stretch(momentum)
    if isinstance(factor, PaddedFactor):
        return factor.push(momentum)
    return factor * momentum if factor.ndim == 1 else factor @ momentum


def pull(factor: Matrix, gradient: jax.Array) -> jax.Array:
    """The force ``L.T @ gradient`` on a whitened momentum; `factor` may be padded."""
    if isinstance(factor, LowRankMatrix):
        return factor.stretch(factor.scale * gradient)
    if isinstance(factor, PaddedFactor):
        return factor.pull(gradient)
    return factor * gradient if factor.ndim == 1 else gradient @ factor


def num_bytes(factor: Matrix) -> int:
    """Bytes of a factor's arrays of two or more axes; 0 for a diagonal."""
    leaves = [x for x in jax.tree.leaves(factor) if x.ndim > 1]
    return sum(x.size * x.dtype.itemsize for x in leaves)


def check_mass_matrix(matrix: Matrix, layout: Layout, name: str = "inverse_mass_matrix") -> Matrix:
    """Inverse mass matrix in the dtype of `layout`, once it is found valid.

    Args:
        matrix: The matrix.
        layout: Layout of positions.
        name: Name of the argument, for messages.

    Raises:
        TypeError: if `matrix` does not hold real numbers.
        ValueError: if its shape does not fit positions of `layout`, or it is known not to be
            symmetric.
    """
    size = layout.size
    matrix = jax.tree.map(lambda x: _as_real(x, layout.dtype, name), matrix)
    if isinstance(matrix, LowRankMatrix):
        rank = matrix.values.shape[0] if matrix.values.ndim == 1 else -1
        if [x.shape for x in matrix] != [(size,), (rank, size), (rank,)]:
            shapes = ", ".join(f"{name} {x.shape}" for name, x in matrix._asdict().items())
            raise ValueError(
                f"{name} has the shapes {shapes}; the position has {size} elements, "
                f"so they must be {(size,)}, (rank, {size}) and (rank,)"
            )
        return matrix
    matrix = _as_real(matrix, layout.dtype, name)
    if matrix.shape not in ((size,), (size, size)):
        raise ValueError(
            f"{name} has shape {matrix.shape}; the position has {size} elements; "
            f"it must be a vector of shape {(size,)} (a diagonal), a matrix of shape "
            f"{(size, size)}, or a LowRankMatrix"
        )
    with suppress(jax.errors.TracerArrayConversionError):
        if matrix.ndim == 2 and not _is_symmetric(np.asarray(matrix)):
            raise ValueError(
                f"{name} must be symmetric, as (matrix + matrix.T) / 2 is: it is an "
                f"estimate of a covariance, such as numpy.cov gives of draws, got {matrix}"
            )
    return matrix


def check_positive(factor: Matrix, matrix: Matrix, name: str = "inverse_mass_matrix") -> None:
    """Check that a matrix is finite and positive definite, by its factor; nothing if it is traced.

    Raises:
        ValueError: if it is known not to be.
    """
    with suppress(jax.errors.TracerArrayConversionError):
        known = jax.tree.map(np.asarray, factor)
        positive = [np.diag(known)] if kind_of(known) == "dense" and known.ndim else [known]
        if isinstance(known, LowRankMatrix):
            positive = [known.scale, known.values, 1 + 0 * np.abs(known.vectors)]
        if not all(np.all((x > 0) & np.isfinite(x)) for x in positive):
            raise ValueError(
                f"the kernel's {name} must be finite and positive definite: it is an "
                f"estimate of a covariance, such as numpy.cov gives of draws, got {matrix}"
            )


def _as_real(x: Any, dtype: Any, name: str) -> jax.Array:
    array = as_real(x)
    if array is None:
        raise TypeError(f"{name} must hold real numbers, got {x!r}")
    return array.astype(dtype)


def _is_symmetric(matrix: np.ndarray) -> bool:
    """Whether a matrix is symmetric up to rounding; NaN and infinity are reported elsewhere."""
    with np.errstate(invalid="ignore"):
        scale = np.sqrt(np.abs(np.diag(matrix)))
        gap = np.abs(matrix - matrix.T)
        return not np.any(gap > 1e-3 * np.outer(scale, scale))


def default_kind(size: int, is_on_accelerator: bool) -> str:
    """Kind of mass matrix that warm-up learns by default, of so many coordinates.

    | Chains            | Coordinates      | Kind         |
    |-------------------|------------------|--------------|
    | on an accelerator | any              | ``diagonal`` |
    | on the CPU        | 100 at most      | ``dense``    |
    | on the CPU        | 101 to 2000      | ``low_rank`` |
    | on the CPU        | more than 2000   | ``diagonal`` |
    """
    if is_on_accelerator or size > MAX_LOW_RANK_SIZE:
        return "diagonal"
    return "dense" if size <= MAX_DENSE_SIZE else "low_rank"
