"""PyTensor graphs as JAX functions."""

# pyright: reportMissingImports=false

import concurrent.futures
import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

_REMEDY = (
    "Write the expression with operations that PyTensor's JAX backend has, or give the operation "
    "a JAX implementation by pytensor.link.jax.dispatch.jax_funcify.register."
)


def import_pymc() -> Any:
    """PyMC, with PyTensor's JAX backend, and JAX's precision as it was.

    The backend sets `jax_enable_x64` when it is imported, by PyTensor's `floatX`.

    Raises:
        ImportError: If PyMC is not installed.
    """
    try:
        import pymc
    except ImportError as error:
        raise ImportError(
            "from_pymc: PyMC cannot be imported. Install it beside this library: "
            "pip install 'harvest-ppl[pymc]'."
        ) from error
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        thread.submit(_import_backend).result()
    return pymc


def _import_backend() -> None:
    """Import PyTensor's JAX backend; JAX's precision stays as it was.

    It is the precision of the process in a thread of its own, and of a `with jax.enable_x64(...)`
    around the call elsewhere.
    """
    has_doubles = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    try:
        import pytensor.link.jax.dispatch  # noqa: F401

        from ppl.doors import pytensor_samplers

        pytensor_samplers.register()
    finally:
        jax.config.update("jax_enable_x64", has_doubles)


def scan_inputs(outputs: Sequence[Any], kind: type) -> list[Any]:
    """The inputs of graphs that have a class."""
    from pytensor.graph.traversal import graph_inputs

    return list(dict.fromkeys(v for v in graph_inputs(outputs) if isinstance(v, kind)))


class Graph:
    """A PyTensor graph, which becomes a JAX function when it is first called.

    Constants have the precision that JAX has then, so that there is a function for each precision.

    Attributes:
        where: Words on what the graph is, for errors.
        inputs: Its input variables.
        outputs: Its output variables.
    """

    def __init__(self, where: str, inputs: Sequence[Any], outputs: Sequence[Any]):
        self.where = where
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._functions: dict[bool, Callable[..., Any]] = {}

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The outputs as JAX arrays."""
        with warnings.catch_warnings(), _lax_promotion():
            _ignore_precision()
            outputs = self.function()(*map(_as_jax, values))
        return tuple(outputs)

    def one(self, *values: Any) -> jax.Array:
        """The only output."""
        (output,) = self(*values)
        return jax.numpy.asarray(output)

    def function(self) -> Callable[..., Any]:
        """The JAX function.

        Raises:
            NotImplementedError: If an operation has no JAX implementation.
        """
        has_doubles = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        if has_doubles not in self._functions:
            self._functions[has_doubles] = self._compile()
        return self._functions[has_doubles]

    def _compile(self) -> Callable[..., Any]:
        from pytensor.link.jax.dispatch import jax_funcify

        with warnings.catch_warnings(), jax.ensure_compile_time_eval():
            _ignore_precision()
            warnings.filterwarnings("ignore", "Skipping .* Op", UserWarning)
            try:
                return jax_funcify(self._rewritten)
            except NotImplementedError as error:
                raise NotImplementedError(f"{self.where}: {error}. {_REMEDY}") from error

    @functools.cached_property
    def _rewritten(self) -> Any:
        """The graph after PyTensor's rewrites for JAX, where invalid parameters give -inf."""
        from pytensor.compile import mode
        from pytensor.graph.fg import FunctionGraph
        from pytensor.raise_op import CheckAndRaise

        graph = FunctionGraph(inputs=self.inputs, outputs=self.outputs, clone=True)
        mode.JAX.including("local_check_parameter_to_ninf_switch").optimizer.rewrite(graph)
        for node in graph.toposort():
            if isinstance(node.op, CheckAndRaise):
                graph.replace(node.outputs[0], node.inputs[0], import_missing=True)
        return graph


def _as_jax(value: Any) -> Any:
    """An array of JAX; states of generators stay as they are."""
    return value if isinstance(value, dict) else jax.numpy.asarray(value)


@contextlib.contextmanager
def _lax_promotion() -> Iterator[None]:
    """JAX's usual promotion of dtypes and ranks, which the backend relies on."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _ignore_precision() -> None:
    """No warnings where PyTensor asks for float64, and JAX has float32."""
    warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
    warnings.filterwarnings("ignore", "scatter inputs have incompatible types", FutureWarning)
