"""Cholesky factors and triangular solves that never wait for one another.

Some releases of jaxlib (0.10 and 0.11) split a call of LAPACK for a batch of matrices over the
threads that evaluate a program, and wait for the parts. Two such calls at once wait for each other
for ever. So small matrices are factored by arithmetic over the batch, and others by calls too short
to be split. The same file stands in `ppl` and in `distributions`, which do not import each other.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir

_MAX_UNROLLED = 6  # rows of matrices that are factored by arithmetic
_FEW = 16  # as many small matrices take no time in LAPACK, whose calls compile in less
_MAX_WORK = 100_000  # operations of one call for several matrices; jaxlib splits 200,000


def cholesky(x: Array) -> Array:
    """Lower Cholesky factors of `(x + x^T) / 2`; NaN where it is not positive definite."""
    x = jnp.asarray(x)
    return _factor_p.bind((x + x.mT) / 2)


def solve_lower(tril: Array, x: Array, *, transposed: bool = False) -> Array:
    """The matrices `y` with `tril y = x` or `tril^T y = x`, for equal batches of both."""
    return _solve_p.bind(*_vary_alike(tril, x), transposed=transposed)


def _vary_alike(*arrays: Array) -> list[Array]:
    """Arrays cast to vary over the same axes of a mesh, as operands of one operation must."""
    have = [getattr(jax.typeof(x), "manual_axis_type", None) for x in arrays]
    axes = [frozenset() if kind is None else kind.varying for kind in have]
    missing = [tuple(frozenset().union(*axes) - each) for each in axes]
    return [lax.pcast(x, m, to="varying") if m else x for x, m in zip(arrays, missing, strict=True)]


def _factor(x: Array) -> Array:
    return lax.linalg.cholesky(x, symmetrize_input=False)


def _solve(tril: Array, x: Array, *, transposed: bool) -> Array:
    return lax.linalg.triangular_solve(tril, x, left_side=True, lower=True, transpose_a=transposed)


def _factor_by_arithmetic(x: Array) -> Array:
    zero = jnp.zeros_like(x[..., 0, 0])
    rows = []
    for i in range(x.shape[-1]):
        row: list[Array] = []
        for j in range(i):
            row.append(_less_products(x[..., i, j], row, rows[j]) / rows[j][j])
        pivot = _less_products(x[..., i, i], row, row)
        rows.append([*row, jnp.sqrt(jnp.where(pivot > 0, pivot, jnp.nan))])
    full = [jnp.stack([*row, *[zero] * (len(rows) - len(row))], -1) for row in rows]
    return jnp.stack(full, -2)


def _less_products(x: Array, a: list[Array], b: list[Array]) -> Array:
    return functools.reduce(lambda rest, pair: rest - pair[0] * pair[1], zip(a, b), x)  # noqa: B905


def _solve_by_arithmetic(tril: Array, x: Array, *, transposed: bool) -> Array:
    found: dict[int, Array] = {}
    for i in range(tril.shape[-1])[:: -1 if transposed else 1]:
        rest = x[..., i, :]
        for j, y in found.items():
            entry = tril[..., j, i] if transposed else tril[..., i, j]
            rest = rest - entry[..., None] * y
        found[i] = rest / tril[..., i, i, None]
    return jnp.stack([y for _, y in sorted(found.items())], -2)


def map_in_parts(function: Any, operands: tuple[Array, ...], work: int) -> Any:
    """A function of batches of matrices, by calls one after the other that jaxlib does not split.

    A batch that a sharding spreads over devices takes a single call.

    Args:
        function: The function of batches.
        operands: Batches of matrices, of one shape.
        work: The operations for one matrix.
    """
    batch = operands[0].shape[:-2]
    num = math.prod(batch)
    at_once = max(1, _MAX_WORK // max(1, work))
    if not work or num <= at_once or any(any(jax.typeof(x).sharding.spec) for x in operands):
        return function(*operands)
    flat = [x.reshape(num, *x.shape[-2:]) for x in operands]
    found = lax.map(lambda each: function(*each), flat, batch_size=at_once)
    return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), found)


def _on_threads(by_lapack: Any, by_arithmetic: Any) -> Any:
    """A function of batches of matrices for CPUs: by arithmetic for many small matrices.

    All others go to LAPACK, in parts that jaxlib does not spread over threads.
    """

    def evaluate(*operands: Array, **params: Any) -> Array:
        *batch, n, k = operands[-1].shape
        apply = functools.partial(by_lapack, **params)
        if n > _MAX_UNROLLED or math.prod(batch) <= _FEW or not n * k:
            return map_in_parts(apply, operands, n * n * k)
        return by_arithmetic(*operands, **params)

    return evaluate


def _factor_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """JVP of the Cholesky factor: with `S = L L^T`, `dL = L F(L^-1 dS L^-T)`.

    `F` keeps the lower triangle, with the diagonal halved.
    """
    tril, (change,) = _factor_p.bind(*primals), tangents
    inner = solve_lower(tril, solve_lower(tril, change).mT)
    return tril, _matmul(tril, (jnp.tril(inner) + jnp.tril(inner, -1)) / 2)


def _solve_jvp(primals: Any, tangents: Any, *, transposed: bool) -> tuple[Array, Array]:
    tril = primals[0]
    found = _solve_p.bind(*primals, transposed=transposed)
    change = ad.instantiate_zeros(tangents[1])
    if not isinstance(tangents[0], ad.Zero):
        matrix = jnp.tril(tangents[0])
        change = change - _matmul(matrix.mT if transposed else matrix, found)
    return found, solve_lower(tril, change, transposed=transposed)


def _matmul(a: Array, b: Array) -> Array:
    if a.ndim > 2 and 0 < a.shape[-1] <= _MAX_UNROLLED:
        return jnp.sum(a[..., :, :, None] * b[..., None, :, :], -2)
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _solve_transpose(cotangent: Any, tril: Any, x: Any, *, transposed: bool) -> Any:
    if isinstance(cotangent, ad.Zero):
        return None, None
    return None, solve_lower(tril, cotangent, transposed=not transposed)


def _factor_batch(operands: Any, axes: Any) -> tuple[Array, int]:
    return _factor_p.bind(jnp.moveaxis(operands[0], axes[0], 0)), 0


def _solve_batch(operands: Any, axes: Any, *, transposed: bool) -> tuple[Array, int]:
    """Batching rule of `solve_lower`: an unbatched factor solves for all columns at once."""
    (tril, x), (axis, x_axis) = operands, axes
    if axis is None:
        columns = jnp.moveaxis(x, x_axis, -2)
        joined = columns.reshape(*columns.shape[:-2], math.prod(columns.shape[-2:]))
        found = solve_lower(tril, joined, transposed=transposed)
        return found.reshape(columns.shape), columns.ndim - 2
    size = tril.shape[axis]
    tril = jnp.moveaxis(tril, axis, 0)
    x = batching.bdim_at_front(x, x_axis, size)
    return solve_lower(tril, x, transposed=transposed), 0


def _primitive(name: str, by_lapack: Any, by_arithmetic: Any, jvp: Any, batch: Any) -> Any:
    primitive = jex.Primitive(name)
    primitive.def_impl(jax.jit(primitive.bind, static_argnames=("transposed",)))
    primitive.def_abstract_eval(lambda *operands, **_: operands[-1])
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch
    on_threads = _on_threads(by_lapack, by_arithmetic)
    mlir.register_lowering(primitive, mlir.lower_fun(by_lapack, multiple_results=False))
    mlir.register_lowering(
        primitive, mlir.lower_fun(on_threads, multiple_results=False), platform="cpu"
    )
    return primitive


_factor_p = _primitive(
    "cholesky_in_parts", _factor, _factor_by_arithmetic, _factor_jvp, _factor_batch
)
_solve_p = _primitive(
    "triangular_solve_in_parts", _solve, _solve_by_arithmetic, _solve_jvp, _solve_batch
)
ad.primitive_transposes[_solve_p] = _solve_transpose
