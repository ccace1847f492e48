"""Eigenvectors of symmetric matrices, by calls of LAPACK that never wait for one another.

Some releases of jaxlib split a call for many matrices over threads that wait; see
`distributions.common.triangular_factors`. Here, each call is too short to be split.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from distributions.common.linear_algebra import diagonal, matmul
from distributions.common.triangular_factors import map_in_parts


def eigh(x: Array) -> tuple[Array, Array]:
    """The eigenvalues of `(x + x^T) / 2` in ascending order, and the matrix of eigenvectors.

    Both have derivatives where no two eigenvalues are equal. Where some are, symmetric functions of
    the eigenvalues have first derivatives; all other derivatives are infinite or not a number.
    """
    x = jnp.asarray(x)
    values, vectors = _eigh_p.bind((x + x.mT) / 2)
    return values, vectors


def _decompose(x: Array) -> tuple[Array, Array]:
    vectors, values = lax.linalg.eigh(x, symmetrize_input=False)
    return values, vectors


def _decompose_in_parts(x: Array) -> tuple[Array, Array]:
    return map_in_parts(_decompose, (x,), 5 * x.shape[-1] ** 3)


def _eigh_jvp(primals: Any, tangents: Any) -> tuple[list[Array], list[Array]]:
    """With `S = V L V^T`, `dL` is the diagonal of `V^T dS V`, and `dV = V (F * V^T dS V)`.

    References:
        Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
        differentiation" (2008), section 3.1.
    """
    values, vectors = _eigh_p.bind(*primals)
    inner = matmul(vectors.mT, matmul(tangents[0], vectors))
    unit = jnp.eye(values.shape[-1], dtype=values.dtype)
    unit = jnp.broadcast_to(unit, inner.shape)
    gaps = values[..., None, :] - values[..., :, None]
    turn = matmul(vectors, (1 / (gaps + unit) - unit) * inner)
    return [values, vectors], [diagonal(inner), turn]


def _eigh_batch(operands: Any, axes: Any) -> tuple[list[Array], tuple[int, int]]:
    return _eigh_p.bind(jnp.moveaxis(operands[0], axes[0], 0)), (0, 0)


def _eigh_avals(x: Any) -> list[Any]:
    sharding = x.sharding.update(spec=PartitionSpec(*x.sharding.spec[:-1]))
    return [x.update(shape=x.shape[:-1], sharding=sharding), x]


_eigh_p = jex.Primitive("eigh_in_parts")
_eigh_p.multiple_results = True
_eigh_p.def_impl(jax.jit(_eigh_p.bind))
_eigh_p.def_abstract_eval(_eigh_avals)
ad.primitive_jvps[_eigh_p] = _eigh_jvp
batching.primitive_batchers[_eigh_p] = _eigh_batch
mlir.register_lowering(_eigh_p, mlir.lower_fun(_decompose, multiple_results=True))
mlir.register_lowering(
    _eigh_p, mlir.lower_fun(_decompose_in_parts, multiple_results=True), platform="cpu"
)
