"""vjp_and_reap: reverse-mode differentiation with cotangents of sown values."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import leaf_values
from ppl.harvest.harvesting import Harvest, selection
from ppl.harvest.interpreter import Operands
from ppl.harvest.names import nest_by_path
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester, check_function, trace
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path


@dataclasses.dataclass(frozen=True)
class Perturb(Harvest):
    """Action that adds a plant to the sown value and records the sum."""

    perturbs: ClassVar[bool] = True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """Value and predicate, also of a planted sow: its plant is a shift."""
        return True, True, False

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Values with their shifts added, and these sums as the record."""
        shifts = operands.values if plant is None else plant
        values = tuple(map(_add_shift, operands.values, shifts)) if plant is not None else shifts
        return values, values


def _as_argument(leaf: Any) -> jax.Array:
    try:
        return leaf_values.as_array(leaf)
    except TypeError as error:
        raise TypeError(
            f"vjp_and_reap: expected arguments that are pytrees of arrays, got the leaf {leaf!r}. "
            "Close over what is no array."
        ) from error


def _moves(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)


def _add_shift(value: jax.Array, shift: jax.Array) -> jax.Array:
    return value + shift if _moves(value) else value


def _zero(aval: Any) -> jax.Array:
    """Zero shift; a float32 placeholder for a value without derivative, such as an integer."""
    return jnp.zeros(aval.shape, aval.dtype if _moves(aval) else jnp.float32)


def _cotangent(aval: Any, cotangent: jax.Array) -> Any:
    return cotangent if _moves(aval) else np.zeros(cotangent.shape, jax.dtypes.float0)


def vjp_and_reap(
    f: Callable[..., Any], *, tag: Hashable, **options: Any
) -> Callable[..., tuple[Any, dict[Hashable, Any], Callable[..., Any]]]:
    """Reverse mode for arguments and sown values: `(*args) -> (out, reaps, pullback)`.

    The cotangent of a sown value is the derivative of the result with respect to a plant in its
    place. For y = sow(g(x)) and out = h(x, y), the cotangent of y is ct . dh/dy, and the cotangent
    of x is ct . (dh/dx + dh/dy dg/dx). The cotangent of a clobbered name is the sum over all its
    sows, as for an array that is used more than once.

    Args:
        f: Any function that JAX can trace; its arguments are pytrees of floating-point arrays.
        tag: Tag of the sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Returns:
        A function of the arguments of `f`. Its `pullback` takes a cotangent with the structure of
        `out` and gives `(cotangents of the arguments, cotangents of the reaps)`: a tuple, and a
        dict with the structure of `reaps` (float0 for integers, as everywhere in JAX).

    Raises:
        ValueError: When called, as `harvest`.
        TypeError: When called, if a leaf of an argument is not an array.

    Example:
        >>> from ppl.harvest import sow, vjp_and_reap
        >>> def f(x):
        ...     return sow(x + 1.0, tag="t", name="y") ** 2 * x
        >>> out, reaps, pullback = vjp_and_reap(f, tag="t")(2.0)
        >>> (x_bar,), reaps_bar = pullback(1.0)
        >>> out.item(), reaps["y"].item(), x_bar.item(), reaps_bar["y"].item()
        (18.0, 3.0, 21.0, 12.0)

    References:
        The gradient of a tracked array in Flux (Innes 2018, "Flux: Elegant machine learning with
        Julia"), as a function transformation.
    """
    check_function("vjp_and_reap", f)
    action = Perturb(selection(tag, **options))

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def with_pullback(*args: Any) -> Any:
        args = jax.tree.map(_as_argument, args)
        program = trace(f, args, {})
        sites = Harvester(program, action).sites
        zeros = PathDict({p: tuple(map(_zero, f.collapse().avals)) for p, f in sites.items()})

        def run(args: Any, shifts: Any) -> Any:
            moved = dataclasses.replace(program, operands=jax.tree.leaves(args))
            outs, records = Harvester(moved, action).run(shifts)
            return program.unflatten(outs), PathDict(records)

        def by_name(leaves: Mapping[Path, Any]) -> dict[Hashable, Any]:
            return nest_by_path(
                {p: jax.tree.unflatten(sites[p].site.tree, x) for p, x in leaves.items()}
            )

        out, pull, records = jax.vjp(run, args, zeros, has_aux=True)

        def pullback(cotangent: Any) -> tuple[Any, dict[Hashable, Any]]:
            of_args, of_shifts = pull(cotangent)
            pairs = {p: zip(sites[p].avals, of_shifts[p], strict=True) for p in sites}
            return of_args, by_name({p: [_cotangent(*xs) for xs in pairs[p]] for p in sites})

        return out, by_name(records), pullback

    return with_pullback
