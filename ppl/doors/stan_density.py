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
from jax.extend import core as jex
from jax.interpreters import batching, mlir

from ppl.doors.stan_programs import NUM_WORDS, StanProgram, find_program
from ppl.harvest import jax_core

Method = Callable[[StanProgram, np.ndarray, np.ndarray], None]

_MIN_SECONDS = 1e-3  # work that is worth the start of threads


@jax.custom_jvp
def log_density(fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """The log density of an unconstrained position, `(size,)`, -inf where Stan rejects it."""
    return _call(StanProgram.log_density, (), fingerprint, position)


@jax.custom_jvp
def _with_gradient(fingerprint: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The log density and its gradient, in one call."""
    found = _call(StanProgram.gradient, (1 + position.size,), fingerprint, position)
    return found[0], found[1:]


@jax.custom_jvp
def _hessian(fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """Second derivatives."""
    return _call(StanProgram.hessian, 2 * position.shape, fingerprint, position)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def constrain(size: int, fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """All outputs at a position, `(size,)`."""
    return _call(StanProgram.constrain, (size,), fingerprint, position)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _jacobian(size: int, fingerprint: jax.Array, position: jax.Array) -> jax.Array:
    """Derivatives of all outputs, `(size, position.size)`."""
    return _call(StanProgram.jacobian, (size, position.size), fingerprint, position)


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
    method: Method, shape: tuple[int, ...], fingerprint: jax.Array, position: jax.Array
) -> jax.Array:
    """An array of the given shape that `method(program, position, array)` fills.

    Numbers travel as words of 32 bits. JAX calls back in threads of its own, which do not know of
    `jax.enable_x64` in the caller's thread, and would round double precision. The fingerprint
    travels with the position, as each operand costs time.
    """
    dtype = position.dtype
    words = lax.bitcast_convert_type(position, np.uint32).reshape(-1)
    operand = jnp.concatenate([fingerprint, words])
    found = _call_p.bind(operand, method=method, shape=shape, dtype=dtype)
    return lax.bitcast_convert_type(found, dtype)


def _aval(operand: Any, *, method: Method, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    del method
    words_shape = (*operand.shape[:-1], *shape, *_words_of(dtype))
    return jax_core.abstract_array(words_shape, np.uint32, operands=[operand])


def _batch(operands: Any, axes: Any, **params: Any) -> tuple[jax.Array, int]:
    return _call_p.bind(jnp.moveaxis(operands[0], axes[0], 0), **params), 0


def _call_by_jax(operand: jax.Array, **params: Any) -> jax.Array:
    aval = _aval(jax.typeof(operand), **params)
    return jax.pure_callback(functools.partial(_fill, **params), aval, operand)


def _lower(context: Any, operand: Any, **params: Any) -> Any:
    """The call in a program for one CPU: XLA lends arrays of NumPy.

    `jax.pure_callback` makes arrays of JAX of them first, which takes ten times as long as all the
    rest. It stays for accelerators, for programs on several devices, as it knows which of them is
    to call, and for versions of JAX that have no such function.
    """
    try:
        module = context.module_context
        if module.axis_context.num_devices != 1 or tuple(module.platforms) != ("cpu",):
            return _lower_by_jax(context, operand, **params)
        results, _, _ = mlir.emit_python_callback(
            context,
            lambda operand: (_fill(operand, **params),),
            None,
            [operand],
            context.avals_in,
            context.avals_out,
            has_side_effect=False,
            returns_token=False,
        )
    except (AttributeError, TypeError):
        return _lower_by_jax(context, operand, **params)
    return results


_lower_by_jax = mlir.lower_fun(_call_by_jax, multiple_results=False)
_call_p = jex.Primitive("stan_call")
_call_p.def_impl(jax.jit(_call_p.bind, static_argnames=("method", "shape", "dtype")))
_call_p.def_abstract_eval(_aval)
batching.primitive_batchers[_call_p] = _batch
mlir.register_lowering(_call_p, _lower, cacheable=False)  # as JAX registers its own callbacks


def _words_of(dtype: np.dtype) -> tuple[int, ...]:
    """Shape of a number as words."""
    return (2,) * (dtype.itemsize == 8)


def _fill(operand: Any, *, method: Method, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The results at all positions of a batch, computed in double precision, as words."""
    operand = np.asarray(operand)
    words_shape = (*operand.shape[:-1], *shape, *_words_of(dtype))
    rows = operand.reshape(-1, operand.shape[-1])
    outs = np.empty((len(rows), *shape))
    if len(rows) == 1:  # A chain by itself: every microsecond counts.
        position = rows[0, NUM_WORDS:].view(dtype).astype(np.float64, copy=False)
        method(find_program(rows[0, :NUM_WORDS]), position, outs[0, ...])
    else:
        positions = np.ascontiguousarray(rows[:, NUM_WORDS:]).view(dtype).astype(np.float64)
        programs = list(map(find_program, rows[:, :NUM_WORDS]))

        def fill(start: int, end: int) -> None:
            for i in range(start, end):
                method(programs[i], positions[i], outs[i, ...])

        _run(fill, len(rows), is_threaded=all(x.is_threaded for x in {*programs}))
    if dtype != outs.dtype:
        with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite
            outs = outs.astype(dtype)
    return outs.reshape(-1).view(np.uint32).reshape(words_shape)


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
