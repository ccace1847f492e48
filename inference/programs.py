"""The compiled functions of a run."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inference._jax import small_loops_in_one_kernel
from inference.chain import Chain, Plan, advance
from inference.devices import DEVICE, Share
from inference.flat import Layout
from inference.kernel import HamiltonianKernel
from inference.metric import num_bytes
from inference.signature import signature
from inference.target import Target

_SMALL_LOOP, _LARGEST_LOOP = 1 << 16, 1 << 22  # bytes
_VECTORS_OF_STEP, _LARGE_PRODUCT = 1024, 1 << 12
_BY_CHAIN = ("chains", "rows", "first")
_ROWS_AT_ONCE = 1024


def program(function: Callable[..., Any], *arguments: Any, share: Share | None = None) -> Any:
    """`function` compiled for such arguments, once for all of the same shapes.

    Ahead of time, so that threads may call it whatever JAX's settings are there. Each device of
    the mesh of `share` has its part of the arguments `chains`, `rows` and `first`, and of the
    results; of a mesh that is the density's own, each has all of them.
    """
    mesh, own = (None, None) if share is None else (share.mesh, share.own)
    return compiled(function, mesh, own, *signature(arguments))


def advance_chains(
    chains: Chain,
    rows: jax.Array,
    first: jax.Array,
    budget: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    plan: Plan,
    layout: Layout,
) -> tuple[Chain, jax.Array, jax.Array]:
    """Chains moved, their rows, and the gradients that each has spent."""

    def one(state: tuple[Chain, jax.Array, jax.Array]) -> Any:
        return advance(kernel, target, layout, plan, *state, budget)

    state = chains, rows, first
    if kernel.axis_name is not None:
        moved = jax.vmap(one, axis_name=kernel.axis_name)(state)
    elif len(first) == 1:
        moved = jax.tree.map(lambda x: x[None], one(jax.tree.map(lambda x: x[0], state)))
    else:
        moved = lax.map(one, state)
    return moved


def values(target: Target, layout: Layout, rows: jax.Array) -> dict[str, Any]:
    """The values of sites that rows ``(chain, row, number)`` hold, without the last row.

    Row by row: a model may need far more memory on the way than its values do.
    """
    return _values(target, layout, rows, None)


def values_mapped(target: Target, layout: Layout, rows: jax.Array) -> dict[str, Any]:
    """The same for an accelerator, which needs many rows at once."""
    return _values(target, layout, rows, max(1, _ROWS_AT_ONCE // len(rows)))


def _values(target: Target, layout: Layout, rows: jax.Array, at_once: int | None) -> dict[str, Any]:
    constrain = lambda row: target.constrain(layout.unravel(row[: layout.size]))  # noqa: E731
    return jax.vmap(lambda rows: lax.map(constrain, rows, batch_size=at_once))(rows[:, :-1])


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A compiled function of arguments of one structure."""

    executable: Any

    def __call__(self, *arguments: Any) -> Any:
        """The results, for arguments of that structure, or lists of the leaves of some."""
        return self.executable(*jax.tree.leaves(arguments))

    def as_text(self) -> str:
        """What XLA has made of it."""
        return self.executable.as_text()

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results."""
        return self.executable.out_info


@functools.lru_cache(maxsize=64)
def compiled(
    function: Callable[..., Any],
    mesh: Mesh | None,
    own: Mesh | None,
    structure: Any,
    kinds: Iterable[jax.ShapeDtypeStruct],
    _: Any,
) -> Any:
    """`function` compiled for a structure of arguments of some kinds."""
    names = list(inspect.signature(function).parameters)
    arguments = jax.tree.unflatten(structure, kinds)
    donated: list[int] = []
    if "chains" in names:
        sizes = [len(jax.tree.leaves(argument)) for argument in arguments]
        of_leaves = [name for name, size in zip(names, sizes, strict=True) for _ in range(size)]
        donated = [i for i, name in enumerate(of_leaves) if name in ("chains", "rows")]
    if mesh is not None:
        specs = tuple(PartitionSpec(*[DEVICE] * (name in _BY_CHAIN)) for name in names)
        # Loops mix what differs between devices with what does not.
        function = jax.shard_map(
            function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(DEVICE), check_vma=False
        )
    # A function of its own: JAX 0.10 may take dataclasses of like fields for one type, and find
    # what it has traced for another. And of leaves: JAX keeps thousands of the structures that it
    # has seen, with the model in them and all that it holds.
    shardings: dict[str, Any] = {}
    if own is not None:
        shardings = dict.fromkeys(
            ("in_shardings", "out_shardings"), NamedSharding(own, PartitionSpec())
        )
    of_leaves = _of_leaves(function, structure)
    traced = jax.jit(of_leaves, donate_argnums=donated, **shardings).trace(*kinds)
    most_summed, has_products = work_of(traced.jaxpr)
    chains = None if has_products or "chains" not in names else arguments[names.index("chains")]
    chains = chains if isinstance(chains, Chain) else None  # others are of a kernel's own
    lowered = traced.lower()
    with small_loops_in_one_kernel(_most_bytes(chains), most_summed):
        return Program(lowered.compile())


def _of_leaves(function: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    of_leaves = lambda *leaves: function(*jax.tree.unflatten(structure, leaves))  # noqa: E731
    of_leaves.__name__ = getattr(function, "__name__", "program")  # by which it is kept on disk
    return of_leaves


def _most_bytes(chains: Chain | None) -> int:
    """How many bytes a loop may touch that is to become one kernel.

    A step touches up to a thousand vectors of coordinates, and the mass matrix four times. More
    than 64 KiB gain nothing where matrices are multiplied, and lose the library that does it best;
    nor do more than some MiB, where the vectors themselves take longest.
    """
    if chains is None:
        return _SMALL_LOOP
    progress = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), chains.progress)
    vector, factor = progress.state.position, progress.adaptation.inverse_mass_factor
    of_vectors = _VECTORS_OF_STEP * vector.size * vector.dtype.itemsize
    return min(max(_SMALL_LOOP, of_vectors) + 4 * num_bytes(factor), _LARGEST_LOOP)


def work_of(jaxpr: Any) -> tuple[int, bool]:
    """The most numbers that a sum in a program begins with, and whether it multiplies matrices.

    All of these numbers, also of sums by row: XLA makes one sum of those and of the sum of rows.
    """
    longest, has_products = 0, False
    for eqn in jaxpr.eqns:
        for inner in jex.jaxprs_in_params(eqn.params):
            of_inner = work_of(getattr(inner, "jaxpr", inner))
            longest, has_products = max(longest, of_inner[0]), has_products or of_inner[1]
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
    """How many numbers each operand keeps, batches apart, and how many are added up for each."""
    contracted, batched = eqn.params["dimension_numbers"]
    shapes = [x.aval.shape for x in eqn.invars]
    kept = [
        math.prod(n for axis, n in enumerate(shape) if axis not in (*c, *b))
        for shape, c, b in zip(shapes, contracted, batched, strict=True)
    ]
    return kept, math.prod(shapes[0][axis] for axis in contracted[0])
