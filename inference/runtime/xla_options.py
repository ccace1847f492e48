"""XLA compiler options for fast loops on the CPU, set through JAX's internals.

| Option                                    | Effect                                             |
|-------------------------------------------|----------------------------------------------------|
| `xla_cpu_small_while_loop_byte_threshold` | loops that touch fewer bytes become one function   |
| `xla_disable_hlo_passes`                  | without `tree_reduction_rewriter`, sums stay whole |

Small loops: XLA runs the body of a loop on the CPU operation by operation, at some 40 ns each. A
transition of a small model is a hundred operations of a few numbers each, so that these calls are
nearly all its cost. XLA can also compile a whole loop into one function of machine code, and by
default does so for loops that touch very few bytes. ``jax.jit(compiler_options=...)`` has no name
for this threshold. It is set here for programs compiled by the same thread inside of
:func:`fuse_small_loops`, and for no others.

Sums: XLA for the CPU splits a sum of more than 32 numbers in two, first over windows. This is more
precise for very many numbers. But operations that belong in one loop with the sum are then
evaluated apart from it, or twice. Programs with short sums omit that compiler pass.

If a future JAX has other internals, the options have no effect, and programs are only slower.

Tried on JAX 0.10.2 and 0.12.0.1.
"""

import functools
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax._src import compiler, config

from inference.runtime.xla import tricks_are_on

# Terms of a sum; added up in lanes, their error in float32 is a millionth of the sum.
_MAX_SUMMED_TERMS = 4096
_DECOMPOSED = re.compile(r'= \(?\w+\[([\d,]+)\][^\n]*custom_call_target="lapack_')
_LOCK = threading.RLock()


@contextmanager
def fuse_small_loops(most_bytes: int, most_summed: int) -> Iterator[None]:
    """A context in which XLA compiles loops that touch few bytes into single kernels.

    If the tricks of :mod:`inference.runtime.xla` are off, the options are JAX's own.

    Args:
        most_bytes: Maximum number of bytes that such a loop touches.
        most_summed: Number of terms of the longest sum in the program. If it is at most 4096, sums
            stay whole.
    """
    if not tricks_are_on():
        yield
        return
    extra = _encode_options(most_bytes, splits_sums=most_summed > _MAX_SUMMED_TERMS)
    here = threading.get_ident()
    with _LOCK:
        original = getattr(compiler, "get_compile_options", None)
        if original is None:
            yield
            return

        def get_compile_options(*args: Any, **kwargs: Any) -> Any:
            options = original(*args, **kwargs)
            return _set_constants(extra, options) if threading.get_ident() == here else options

        compiler.get_compile_options = get_compile_options
        try:
            yield
        finally:
            compiler.get_compile_options = original


@functools.lru_cache(maxsize=64)
def may_hang(program: Any) -> bool:
    """Whether a compiled program may hang when all cores call it at the same time.

    XLA for the CPU has as many threads as cores, and a call runs on one of them. In JAX 0.10, a
    decomposition of many matrices gives parts of its work to these threads and waits for them. If
    all threads wait, they wait for ever.
    """
    shapes = _DECOMPOSED.findall(program.as_text()) if jax.__version_info__ < (0, 12) else []
    return any(math.prod(map(int, shape.split(",")[:-2])) > 1 for shape in shapes)


def trace_context() -> Any:
    """JAX settings that a traced program depends on; they differ between threads."""
    return config.trace_context()


def _set_constants(extra: bytes, options: Any) -> Any:
    """Compile options with `extra` ones merged in; unchanged if that fails.

    Options are a protocol-buffer message: the concatenated bytes of two messages are the merged
    message.
    """
    try:
        merged = type(options).ParseFromString(options.SerializeAsString() + extra)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return options
    return options if merged is None else merged


def _field(number: int, content: bytes) -> bytes:
    """Field of bytes in a protocol-buffer message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low = number & 127
    high = number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _encode_options(most_bytes: int, splits_sums: bool) -> bytes:
    """Two fields of ``CompileOptionsProto.executable_build_options.debug_options``, encoded.

    They are `xla_backend_extra_options`, a map, and `xla_disable_hlo_passes`, a list.
    """
    name = b"xla_cpu_small_while_loop_byte_threshold"
    value = str(most_bytes).encode()
    debug_options = _field(500, _field(1, name) + _field(2, value))
    if not splits_sums:
        debug_options += _field(30, b"tree_reduction_rewriter")
    return _field(3, _field(3, debug_options))
