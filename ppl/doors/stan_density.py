"""The log density of a Stan program as a function of JAX: callbacks in double precision."""

import concurrent.futures
import functools
import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.doors.stan_programs import StanProgram, find_program

Row = Callable[[StanProgram, np.ndarray, np.ndarray], None]

_MIN_SECONDS = 1e-3  # work that is worth the start of threads


@jax.custom_jvp
def log_density(fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """The log density of an unconstrained position, `(size,)`, -inf where Stan rejects it."""

    def row(program: StanProgram, x: np.ndarray, out: np.ndarray) -> None:
        out[()] = program.log_density(x)

    return _call(row, (), fingerprint, position)


@jax.custom_jvp
def _with_gradient(fingerprint: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The log density and its gradient, in one call."""

    def row(program: StanProgram, x: np.ndarray, out: np.ndarray) -> None:
        out[0] = program.gradient(x, out[1:])

    found = _call(row, (1 + position.size,), fingerprint, position)
    return found[0], found[1:]


@jax.custom_jvp
def _hessian(fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """Second derivatives."""

    def row(program: StanProgram, x: np.ndarray, out: np.ndarray) -> None:
        program.hessian(x, out)

    return _call(row, 2 * position.shape, fingerprint, position)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def constrain(size: int, fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """All outputs at a position, `(size,)`."""

    def row(program: StanProgram, x: np.ndarray, out: np.ndarray) -> None:
        program.constrain(x, out)

    return _call(row, (size,), fingerprint, position)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _jacobian(size: int, fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """Derivatives of all outputs, `(size, position.size)`."""

    def row(program: StanProgram, x: np.ndarray, out: np.ndarray) -> None:
        program.jacobian(x, out)

    return _call(row, (size, position.size), fingerprint, position)


@log_density.defjvp
def _log_density_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    density, gradient = _with_gradient(*primals)
    return density, jnp.vdot(gradient, tangents[1])


@_with_gradient.defjvp
def _with_gradient_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    density, gradient = _with_gradient(*primals)
    moved = jnp.matmul(_hessian(*primals), tangents[1], precision="highest")
    return (density, gradient), (jnp.vdot(gradient, tangents[1]), moved)


@_hessian.defjvp
def _hessian_jvp(primals: Any, tangents: Any) -> NoReturn:
    del primals, tangents
    raise NotImplementedError(
        "from_stan: the log density of a Stan program has first and second derivatives, no third."
    )


@constrain.defjvp
def _constrain_jvp(size: int, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    derivatives = _jacobian(size, *primals)
    moved = jnp.matmul(derivatives, tangents[1], precision="highest")
    return constrain(size, *primals), moved


@_jacobian.defjvp
def _jacobian_jvp(size: int, primals: Any, tangents: Any) -> NoReturn:
    del size, primals, tangents
    raise NotImplementedError(
        "from_stan: parameters, transformed parameters and generated quantities of a Stan program "
        "have first derivatives by its unconstrained parameters, no second."
    )


def _call(
    row: Row, shape: tuple[int, ...], fingerprint: jax.Array, position: jax.Array
) -> jax.Array:
    """An array of the given shape that `row(program, position, array)` fills.

    Numbers travel as words of 32 bits. JAX calls back in threads of its own, which do not know of
    `jax.enable_x64` in the caller's thread, and would round double precision. The fingerprint
    travels with the position, as each operand costs time.
    """
    dtype = position.dtype
    words = lax.bitcast_convert_type(position, np.uint32).reshape(-1)
    operand = jnp.concatenate([fingerprint, words])
    words_shape = (*shape, *(2,) * (dtype.itemsize == 8))
    found = jax.pure_callback(
        functools.partial(_fill, row, shape, dtype, len(fingerprint)),
        jax.ShapeDtypeStruct(words_shape, np.uint32),
        operand,
        vmap_method="broadcast_all",
    )
    return lax.bitcast_convert_type(found, dtype)


def _fill(
    row: Row, shape: tuple[int, ...], dtype: np.dtype, num_words: int, operand: Any
) -> np.ndarray:
    """The results at all positions of a batch, computed in double precision, as words."""
    operand = np.asarray(operand)
    tail = (2,) * (dtype.itemsize == 8)
    if operand.ndim == 1:  # A chain by itself: every microsecond counts.
        out = np.empty(shape)
        position = operand[num_words:].view(dtype).astype(np.float64, copy=False)
        row(find_program(operand[:num_words]), position, out)
        return out.astype(dtype, copy=False).reshape(-1).view(np.uint32).reshape((*shape, *tail))
    *batch, size = operand.shape
    rows = operand.reshape(-1, size)
    positions = np.ascontiguousarray(rows[:, num_words:]).view(dtype).astype(np.float64)
    programs = list(map(find_program, rows[:, :num_words]))
    outs = np.empty((len(rows), *shape))

    def fill(start: int, end: int) -> None:
        for i in range(start, end):
            row(programs[i], positions[i], outs[i, ...])

    _run(fill, len(rows), is_threaded=len(rows) > 1 and all(x.is_threaded for x in {*programs}))
    words = outs.astype(dtype, copy=False).reshape(-1).view(np.uint32)
    return words.reshape((*batch, *shape, *tail))


def _run(fill: Callable[[int, int], None], num: int, *, is_threaded: bool) -> None:
    """Fill all rows: the first alone, the others by threads if that is worth it."""
    if num < 2:
        fill(0, num)
        return
    start = time.perf_counter()
    fill(0, 1)
    left = (time.perf_counter() - start) * (num - 1)
    num_threads = min(os.cpu_count() or 1, num - 1)
    if left < _MIN_SECONDS or num_threads < 2 or not is_threaded:
        fill(1, num)
        return
    ends = [1 + (num - 1) * i // num_threads for i in range(num_threads + 1)]
    list(_threads().map(fill, ends[:-1], ends[1:]))


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(os.cpu_count())
