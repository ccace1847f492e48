"""What inference must know of JAX's insides; above all, how to make fast kernels of small loops.

XLA runs the body of a loop on the CPU operation by operation, at some 40 ns for each. A transition
of a small model is a hundred such operations of a few numbers each, so that this is nearly all that
it costs. XLA can also compile a whole loop into one function of machine code, and does so for loops
that touch very few bytes. How few is an option that has no name among those of
``jax.jit(compiler_options=...)``; here it is set for the programs that are compiled inside of
:func:`fuse_small_loops` by the same thread, and for no other.

A sum of more than 32 numbers becomes two in XLA for the CPU, of windows first: more precise for
very many, but what belongs in one loop with the sum is then evaluated apart from it, or twice.
Programs whose sums are short do without that pass of the compiler.

Where a JAX of the future is built otherwise, nothing happens but that the programs are slower.

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

_MAX_SUMMED_TERMS = (
    4096  # in lanes, the error of so many terms in float32 is a millionth of the sum
)
_DECOMPOSED = re.compile(r'= \(?\w+\[([\d,]+)\][^\n]*custom_call_target="lapack_')
_LOCK = threading.RLock()


@contextmanager
def fuse_small_loops(most_bytes: int, most_summed: int) -> Iterator[None]:
    """A context in which XLA compiles loops that touch few bytes into single kernels.

    Sums are left in one piece if the longest one, of at most `most_summed` terms, is short. Where
    the tricks of :mod:`inference.runtime.xla` are off, the options are JAX's own.
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


def _set_constants(extra: bytes, options: Any) -> Any:
    """`options` with more of them, or as they are where that cannot be done.

    They are a message of protocol buffers, of which the bytes of two after each other are the two
    merged.
    """
    try:
        merged = type(options).ParseFromString(options.SerializeAsString() + extra)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return options
    return options if merged is None else merged


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes of a message of protocol buffers."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _encode_options(most_bytes: int, splits_sums: bool) -> bytes:
    """Of CompileOptionsProto.executable_build_options.debug_options two fields.

    These are `xla_backend_extra_options`, a map, and `xla_disable_hlo_passes`, a list.
    """
    name, value = b"xla_cpu_small_while_loop_byte_threshold", str(most_bytes).encode()
    debug_options = _field(500, _field(1, name) + _field(2, value))
    if not splits_sums:
        debug_options += _field(30, b"tree_reduction_rewriter")
    return _field(3, _field(3, debug_options))
