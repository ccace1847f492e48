"""What inference must know of JAX's insides; above all, how to make one kernel of a loop.

XLA runs the body of a loop on the CPU operation by operation, at some 40 ns for each. A transition
of a small model is a hundred such operations of a few numbers each, so that this is nearly all that
it costs. XLA can also compile a whole loop into one function of machine code, and does so for loops
that touch very few bytes. How few is an option that has no name among those of
``jax.jit(compiler_options=...)``; here it is set for the programs that are compiled inside of
:func:`small_loops_in_one_kernel`, and for no other. Where a JAX of the future is built otherwise,
nothing happens but that the programs are slower.

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

_MOST_BYTES = 65536  # larger operations gain nothing, and lose the library's matrix products
_DECOMPOSED = re.compile(r'= \(?\w+\[([\d,]+)\][^\n]*custom_call_target="lapack_')
_LOCK = threading.RLock()


@contextmanager
def small_loops_in_one_kernel(num_more_bytes: int = 0) -> Iterator[None]:
    """A context in which XLA compiles loops that touch few bytes into single kernels.

    Few are 64 KiB, and those more of a matrix that is worth it.
    """
    with _LOCK:
        original = getattr(compiler, "get_compile_options", None)
        if original is None:
            yield
            return

        def get_compile_options(*args: Any, **kwargs: Any) -> Any:
            return _with_small_loops(original(*args, **kwargs), _MOST_BYTES + num_more_bytes)

        compiler.get_compile_options = get_compile_options
        try:
            yield
        finally:
            compiler.get_compile_options = original


@functools.lru_cache(maxsize=64)
def may_hang(program: Any) -> bool:
    """Whether calls of a compiled program hang where each core has one at the same time.

    A call runs on one of XLA's threads for the CPU, which are as many as cores. In JAX 0.10 a
    decomposition of many matrices gives parts of its work to these threads and waits for them: for
    ever, if all of them wait so.
    """
    shapes = _DECOMPOSED.findall(program.as_text()) if jax.__version_info__ < (0, 12) else []
    return any(math.prod(map(int, shape.split(",")[:-2])) > 1 for shape in shapes)


def trace_context() -> Any:
    """The settings of JAX on which a traced program depends; they differ between threads."""
    return config.trace_context()


def _with_small_loops(options: Any, most_bytes: int) -> Any:
    """`options` with the byte threshold set, or as they are where that cannot be done.

    They are a message of protocol buffers, of which the bytes of two after each other are the two
    merged.
    """
    try:
        merged = type(options).ParseFromString(options.SerializeAsString() + _extra(most_bytes))
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return options
    return options if merged is None else merged


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes of a message of protocol buffers."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _extra(most_bytes: int) -> bytes:
    """CompileOptionsProto.executable_build_options.debug_options.xla_backend_extra_options."""
    name, value = b"xla_cpu_small_while_loop_byte_threshold", str(most_bytes).encode()
    return _field(3, _field(3, _field(500, _field(1, name) + _field(2, value))))
