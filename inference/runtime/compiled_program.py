"""Compiled programs: functions compiled ahead of time, once for all arguments of equal shapes."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax.extend import core as jex
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inference.runtime.devices import DEVICE, Share, mesh_of_data
from inference.runtime.jax_settings import full_precision
from inference.runtime.signature import signature
from inference.runtime.xla_options import fuse_small_loops

SMALL_LOOP_BYTES = 1 << 16  # bytes that a loop touches; more gains nothing for products of matrices
_LARGE_PRODUCT = 1 << 12  # multiplications; smaller products of matrices do not count


def compile_once(
    function: Callable[..., Any],
    *arguments: Any,
    share: Share | None = None,
    donate: tuple[str, ...] = (),
    sharded: tuple[str, ...] = (),
    loop_bytes: int = SMALL_LOOP_BYTES,
    joint: int = 0,
    splits_results: bool = False,
    options: tuple[tuple[str, Any], ...] = (),
) -> Any:
    """The program of a function, compiled once for all arguments of these shapes and dtypes.

    The program is compiled ahead of time, so that threads may call it under other settings of JAX.
    It multiplies matrices in full precision, see
    :func:`inference.runtime.jax_settings.full_precision`.

    | Mesh of `share`        | Each device has                                                   |
    |------------------------|-------------------------------------------------------------------|
    | `mesh`                 | its part of the arguments in `sharded`, and of the results        |
    | `own`, the density's   | its part of data that are split, all of the other arguments; with |
    |                        | `axes`, its part of the arguments in `sharded` and of the results |

    Data that are split over a mesh bring its devices with them, without a `share`.

    Args:
        function: Function of pytrees of arrays.
        *arguments: Examples of the arguments.
        share: The devices, or `None` for JAX's default.
        donate: Names of arguments whose memory the results may take.
        sharded: Names of arguments split over the devices of `mesh` along their first axis.
        loop_bytes: Maximum number of bytes that a loop may touch to be compiled into one kernel.
            For programs that multiply matrices it is `SMALL_LOOP_BYTES`: a larger loop would
            multiply matrices without the fastest library.
        joint: Number of chains that the function moves together. If it is not 0, the devices of
            the mesh run one program for all chains. Leaves of the results, and of the arguments in
            `sharded`, are split if their first axis has this length.
        splits_results: Whether results that are for the host may stay split as data are.
        options: Names and values of more options of XLA's compiler.
    """
    mesh, own, axes = (None, None, ()) if share is None else (share.mesh, share.own, share.axes)
    if share is None:
        own = mesh_of_data(arguments)
    said = donate, sharded, loop_bytes, joint, splits_results, options
    return compile_program(function, mesh, own, axes, *said, *signature(arguments))


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledProgram:
    """Compiled function of arguments of one structure."""

    executable: Any

    def __call__(self, *arguments: Any) -> Any:
        """Results for arguments of the program's structure, or for lists of their leaves."""
        return self.executable(*jax.tree.leaves(arguments))

    def as_text(self) -> str:
        """Text of the program after XLA's optimizations."""
        return self.executable.as_text()

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results."""
        return self.executable.out_info


@functools.lru_cache(maxsize=64)
def compile_program(
    function: Callable[..., Any],
    mesh: Mesh | None,
    own: Mesh | None,
    axes: tuple[str, ...],
    donate: tuple[str, ...],
    sharded: tuple[str, ...],
    loop_bytes: int,
    joint: int,
    splits_results: bool,
    options: tuple[tuple[str, Any], ...],
    structure: Any,
    kinds: Iterable[jax.ShapeDtypeStruct],
    _: Any,
) -> Any:
    """The program of a function for leaves of shapes and dtypes `kinds` in one structure."""
    donated = _leaves_of(donate, function, jax.tree.unflatten(structure, kinds))
    has_mesh = mesh is not None or own is not None
    are_sharded = _are_named(sharded, function) if sharded or has_mesh else []
    if mesh is not None and not joint:
        specs = tuple(PartitionSpec(*[DEVICE] * x) for x in are_sharded)
        # `check_vma` would refuse loops that mix values sharded over devices with replicated ones.
        function = jax.shard_map(
            function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(DEVICE), check_vma=False
        )
    # A new function of leaves is traced, for two reasons. JAX 0.10 may confuse dataclasses with
    # equal fields, and return the trace of another type. And JAX remembers thousands of the
    # structures it has seen, with the model in them and all its data.
    shardings: dict[str, Any] = {}
    if own is not None:
        shardings = _shardings(function, own, axes, are_sharded, joint, structure, kinds)
        if splits_results:
            del shardings["out_shardings"]
    elif mesh is not None and joint:
        shardings = _shardings(function, mesh, (DEVICE,), are_sharded, joint, structure, kinds)
    of_leaves = _take_leaves(function, structure)
    with full_precision(), _explain_loops():
        traced = jax.jit(of_leaves, donate_argnums=donated, **shardings).trace(*kinds)
        lowered = traced.lower()
    most_summed, has_products = estimate_work(traced.jaxpr)
    with fuse_small_loops(SMALL_LOOP_BYTES if has_products else loop_bytes, most_summed):
        return CompiledProgram(lowered.compile(compiler_options=dict(options)))


@contextmanager
def _explain_loops() -> Iterator[None]:
    """A context whose error for a loop without a gradient speaks of the model.

    Raises:
        ValueError: instead of JAX's error.
    """
    try:
        yield
    except ValueError as error:
        if "Reverse-mode differentiation does not work for lax.while_loop" not in str(error):
            raise
        raise ValueError(
            "the model's log density has no gradient by reverse mode, which this method needs: "
            "values of its sites go through a lax.while_loop, or a lax.fori_loop whose bounds are "
            "arrays, and the number of steps is not known when it is compiled. Wrap the function "
            "with the loop, ppl.forward_gradient(function), at the cost of one evaluation of it "
            "for each element of its arguments; or give lax.scan, or "
            "lax.fori_loop with integers of Python as bounds, with steps that do nothing at the "
            "end (jnp.where); for an equation that the loop solves, lax.custom_root; or a method "
            "without gradients: inference.importance, or mcmc with Slice()"
        ) from error


def _shardings(
    function: Callable[..., Any],
    mesh: Mesh,
    axes: tuple[str, ...],
    are_sharded: list[bool],
    num_chains: int,
    structure: Any,
    kinds: Any,
) -> dict[str, Any]:
    """Shardings of arguments and results of a program that the devices of a mesh run together.

    Args:
        function: Function of arguments of that structure.
        mesh: The mesh.
        axes: Axes of the mesh that chains are split along; none if each device has all chains.
        are_sharded: Whether each argument has chains in front.
        num_chains: Number of chains that the function moves together; only leaves with as many
            rows are split. If it is 0, all are.
        structure: Structure of the arguments.
        kinds: Shapes and dtypes of their leaves, with the shardings of data that are split.
    """
    whole = NamedSharding(mesh, PartitionSpec())
    by_chain = NamedSharding(mesh, PartitionSpec(axes)) if axes else whole

    def split(x: Any) -> NamedSharding:
        return by_chain if not num_chains or x.shape[:1] == (num_chains,) else whole

    arguments = jax.tree.unflatten(structure, kinds)
    of_arguments = [
        split(leaf) if is_sharded else leaf.sharding or whole
        for argument, is_sharded in zip(arguments, are_sharded, strict=True)
        for leaf in jax.tree.leaves(argument)
    ]
    results = whole
    if axes:
        results = jax.eval_shape(_take_leaves(function, structure), *kinds)
        results = jax.tree.map(split, results)
    return {"in_shardings": tuple(of_arguments), "out_shardings": results}


def _are_named(names: tuple[str, ...], function: Callable[..., Any]) -> list[bool]:
    """Whether each parameter of `function` is one of `names`.

    Raises:
        ValueError: if a name is not a parameter of `function`.
    """
    parameters = list(inspect.signature(function).parameters)
    if unknown := set(names) - set(parameters):
        raise ValueError(f"no parameter of {function} is called {sorted(unknown)}: {parameters}")
    return [parameter in names for parameter in parameters]


def _leaves_of(
    names: tuple[str, ...], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> list[int]:
    """Positions, among all leaves, of the leaves of the arguments in `names`."""
    if not names:
        return []
    sizes = [len(jax.tree.leaves(argument)) for argument in arguments]
    are_named = zip(_are_named(names, function), sizes, strict=True)
    of_leaves = [is_named for is_named, size in are_named for _ in range(size)]
    return [i for i, is_named in enumerate(of_leaves) if is_named]


def _take_leaves(function: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(structure, leaves))

    of_leaves.__name__ = getattr(function, "__name__", "program")  # the key of the cache on disk
    return of_leaves


def estimate_work(jaxpr: Any) -> tuple[int, bool]:
    """Length of the longest sum in a program, and whether the program multiplies large matrices.

    A sum along an axis counts with all elements of its operand: XLA fuses sums of rows with a
    following sum of the results.
    """
    longest = 0
    has_products = False
    for eqn in jaxpr.eqns:
        for inner in jex.jaxprs_in_params(eqn.params):
            of_inner = estimate_work(getattr(inner, "jaxpr", inner))
            longest = max(longest, of_inner[0])
            has_products = has_products or of_inner[1]
        if eqn.primitive.name in ("reduce_sum", "reduce_window_sum"):
            longest = max(longest, eqn.invars[0].aval.size)
        elif eqn.primitive.name == "dot_general":
            kept, contracted = _sizes_of_product(eqn)
            if max(kept) == 1:  # a sum of products
                longest = max(longest, eqn.invars[0].aval.size)
            is_large = min(kept) * max(kept) * contracted >= _LARGE_PRODUCT
            has_products = has_products or (min(kept) > 1 and contracted > 1 and is_large)
    return longest, has_products


def _sizes_of_product(eqn: Any) -> tuple[list[int], int]:
    """Sizes of a product: free elements of each operand, and contracted elements; no batch axes."""
    contracted, batched = eqn.params["dimension_numbers"]
    shapes = [x.aval.shape for x in eqn.invars]
    kept = [
        math.prod(n for axis, n in enumerate(shape) if axis not in (*c, *b))
        for shape, c, b in zip(shapes, contracted, batched, strict=True)
    ]
    return kept, math.prod(shapes[0][axis] for axis in contracted[0])
