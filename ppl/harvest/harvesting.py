"""harvest, reap, call_and_reap, plant and nest: the transformations of sown values."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex
from jax.tree_util import Partial

from ppl.harvest import jax_core, jaxprs, leaf_values
from ppl.harvest.function_equality import has_hash
from ppl.harvest.interpreter import Action, Operands
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.names import check_plants, nest_by_path
from ppl.harvest.program import Harvester, check_function, trace
from ppl.harvest.sowing import SCOPED, Site, check_hashable, names_sites, sow_p
from ppl.harvest.survey import Path


@dataclasses.dataclass(frozen=True)
class Selection:
    """Filter of sows by tag, name and scope.

    An entry of `allowlist` or `blocklist` stands for a name or for all names in a scope.
    """

    tag: Hashable
    allowlist: frozenset[Hashable] | None
    blocklist: frozenset[Hashable]
    exclusive: bool

    def allows(self, path: Path) -> bool:
        """Whether a path is in the allowed names and scopes, and nothing of it is blocked."""
        allowed = self.allowlist is None or not self.allowlist.isdisjoint(path)
        return allowed and self.blocklist.isdisjoint(path)


def selection(
    tag: Hashable,
    allowlist: Collection[Hashable] | None = None,
    blocklist: Collection[Hashable] = frozenset(),
    exclusive: bool = False,
) -> Selection:
    """Selection from a caller's options, which are checked."""
    check_hashable("harvest: tag", tag)
    for given in (allowlist or (), blocklist):
        if isinstance(given, str):
            raise TypeError(f"harvest: expected a collection of names, got the string {given!r}.")
        if not isinstance(given, Collection):
            raise TypeError(f"harvest: expected a collection of names, got {given!r}.")
        for name in given:
            check_hashable("harvest: names", name)
    allowed = None if allowlist is None else frozenset(allowlist)
    return Selection(tag, allowed, frozenset(blocklist), exclusive)


@dataclasses.dataclass(frozen=True)
class Harvest(Action):
    """Action of `harvest`: a plant replaces the sown value; a value without a plant is recorded."""

    select: Selection

    def matches(self, site: Site) -> bool:
        """Whether the sow has the tag, and its path is selected."""
        return site.tag == self.select.tag and self.select.allows(site.path)

    def strips(self, site: Site) -> bool:
        """Whether a sow is removed: any sow if the selection is exclusive, else one of the tag."""
        return self.select.exclusive or site.tag == self.select.tag

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The plant, which is not recorded; without a plant the value, which is recorded."""
        if plant is not None:
            return plant, None
        return operands.values, operands.values


def sow_again(site: Site, operands: Operands) -> list[Any]:
    """Leaves of a value that is sown again at its site."""
    values = list(operands.values)
    preds = []
    keys = []
    if site.has_pred:
        preds = [operands.pred]
    if site.has_key:  # Each shard with a key of its own has a value of its own.
        *values, _ = leaf_values.vary_alike([*values, operands.key])
        keys = [operands.key]
    return sow_p.bind(*values, *preds, *operands.extras, *keys, site=site)


def harvest(
    f: Callable[..., Any],
    *,
    tag: Hashable,
    allowlist: Collection[Hashable] | None = None,
    blocklist: Collection[Hashable] = frozenset(),
    exclusive: bool = False,
) -> Callable[..., tuple[Any, dict[Hashable, Any]]]:
    """Turn the sows of a function into inputs and outputs.

    The harvested function takes a dict of plants before the arguments of `f`. A plant replaces the
    sown value of its name; all other values are reaped. Both dicts nest as the scopes do. The
    harvested function is pure, composes with every transformation of JAX, and has no sows with this
    tag.

    Args:
        f: Any function that JAX can trace.
        tag: Tag of the sows to look at; sows with other tags stay as they are.
        allowlist: Names or scopes to look at; all if None.
        blocklist: Names or scopes to ignore.
        exclusive: Whether to remove the sows with other tags, too; their values stay.

    Returns:
        `(plants, *args, **kwargs) -> (f(*args, **kwargs), reaps)`. A value sown under `vmap` has
        the batch axes in front; one appended in scans has an axis for each scan, outermost first.

    Raises:
        ValueError: When called, if no sow has the name of a plant, if a plant has another structure
            or shape than the value it replaces, or if a name is sown against its mode.
        TypeError: If `f` is not a function, `tag` is not hashable, or `allowlist` or `blocklist` is
            not a collection of hashable names; when called, if a plant has another dtype.
        NotImplementedError: When called, if a sow stands in a construct that cannot be opened.

    Example:
        >>> from ppl.harvest import harvest, sow
        >>> def f(x):
        ...     y = sow(x + 1.0, tag="intermediate", name="y")
        ...     return y + 1.0
        >>> harvest(f, tag="intermediate")({"y": 0.0}, 1.0)
        (Array(1., dtype=float32, weak_type=True), {})
        >>> harvest(f, tag="intermediate")({}, 1.0)[0].item()
        3.0
    """
    return _harvest(f, selection(tag, allowlist, blocklist, exclusive))


def _harvest(
    f: Callable[..., Any], select: Selection, *, live_outs: bool = True
) -> Callable[..., tuple[Any, dict[Hashable, Any]]]:
    """Function of plants and of the arguments of `f`; the result is None if it is not live."""
    check_function("harvest", f)
    action = Harvest(select)

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def harvested(plants: Mapping[Hashable, Any], *args: Any, **kwargs: Any) -> Any:
        program = trace(f, args, kwargs)
        harvester = Harvester(program, action)
        sites = harvester.sites
        checked = check_plants(plants, sites, action.select.allows)
        outs, records = harvester.run(checked, live_outs=live_outs)
        values = {p: jax.tree.unflatten(sites[p].site.tree, r) for p, r in records.items()}
        return program.unflatten(outs) if live_outs else None, nest_by_path(values)

    return harvested


def reap(
    f: Callable[..., Any], *, tag: Hashable, **options: Any
) -> Callable[..., dict[Hashable, Any]]:
    """Reap the sown values of a function: `(*args, **kwargs) -> reaps`.

    This is `harvest` without plants and without the result of `f`; equations that only the result
    needs are not evaluated.

    Args:
        f: Any function that JAX can trace.
        tag: Tag of the sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Raises:
        ValueError, TypeError, NotImplementedError: As `harvest`.

    Example:
        >>> from ppl.harvest import reap, sow
        >>> reap(lambda x: sow(x + 1.0, tag="t", name="y") ** 2, tag="t")(1.0)["y"].item()
        2.0
    """
    harvested = _harvest(f, selection(tag, **options), live_outs=False)
    return lambda *args, **kwargs: harvested({}, *args, **kwargs)[1]


def call_and_reap(
    f: Callable[..., Any], *, tag: Hashable, **options: Any
) -> Callable[..., tuple[Any, dict[Hashable, Any]]]:
    """Call a function and reap its sown values: `(*args, **kwargs) -> (result of f, reaps)`.

    This is `harvest` without plants.

    Args:
        f: Any function that JAX can trace.
        tag: Tag of the sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Raises:
        ValueError, TypeError, NotImplementedError: As `harvest`.

    Example:
        >>> from ppl.harvest import call_and_reap, sow
        >>> out, reaps = call_and_reap(lambda x: sow(x + 1.0, tag="t", name="y") ** 2, tag="t")(1.0)
        >>> out.item(), reaps["y"].item()
        (4.0, 2.0)
    """
    harvested = harvest(f, tag=tag, **options)
    return lambda *args, **kwargs: harvested({}, *args, **kwargs)


def plant(f: Callable[..., Any], *, tag: Hashable, **options: Any) -> Callable[..., Any]:
    """Replace the sown values of a function by plants: `(plants, *args, **kwargs) -> out`.

    This is `harvest` without reaps.

    Args:
        f: Any function that JAX can trace.
        tag: Tag of the sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Raises:
        ValueError, TypeError, NotImplementedError: As `harvest`.

    Example:
        >>> from ppl.harvest import plant, sow
        >>> plant(lambda x: sow(x + 1.0, tag="t", name="y") ** 2, tag="t")({"y": 3.0}, 1.0).item()
        9.0
    """
    harvested = harvest(f, tag=tag, **options)
    return lambda plants, *args, **kwargs: harvested(plants, *args, **kwargs)[0]


def nest(f: Callable[..., Any], *, scope: Hashable) -> Callable[..., Any]:
    """Move all sows of a function, with any tag, into a scope.

    Draws of `ppl.sample` in a scope differ from those outside of it, as the scope is folded into
    their key with the name. All other values stay as they are.

    Args:
        f: Any function that JAX can trace.
        scope: Key of the sown values of `f`, in plants and in reaps.

    Returns:
        A function of the same arguments: a pytree whose leaves are those of `f`.

    Raises:
        TypeError: If `f` is not a function or `scope` is not hashable.
        NotImplementedError: When called, if a sow stands in a construct that cannot be opened.

    Example:
        >>> from ppl.harvest import nest, reap, sow
        >>> f = lambda x: sow(x + 1.0, tag="t", name="y")
        >>> g = lambda x: nest(f, scope="a")(x) + nest(f, scope="b")(2 * x)
        >>> reaps = reap(g, tag="t")(1.0)
        >>> reaps["a"]["y"].item(), reaps["b"]["y"].item()
        (2.0, 3.0)
    """
    check_function("nest", f)
    check_hashable("nest: scope", scope)

    is_function = jax.tree_util.all_leaves([f]) and has_hash(f)
    return Partial(Nested(scope), Partial(f) if is_function else f)


@dataclasses.dataclass(frozen=True)
class Nested:
    """Caller of functions in a scope: `(f, *args, **kwargs)`, with the sows of `f` in the scope."""

    scope: Hashable

    def __call__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function, and sow in the scope."""
        program = trace(f, args, kwargs)
        outs = jax_core.evaluate(_move_into_scope(program.jaxpr, self.scope, {}), program.inputs)
        return program.unflatten(outs)


def _move_into_scope(jaxpr: Jaxpr, scope: Hashable, memo: dict[int, Jaxpr]) -> Jaxpr:
    """Jaxpr with all its sows moved into a scope, and nothing else changed.

    The jaxpr is memoized, so that a function called twice stays one function for JAX's caches.
    """
    if not names_sites(jaxpr, {}):
        return jaxpr

    def move(eqn: jex.JaxprEqn) -> Any:
        if jax_core.has_sow(eqn) and jax_core.is_opaque(eqn):
            raise NotImplementedError(
                f"nest {scope!r}: a sow stands inside of {eqn.primitive.name!r}, into which nest "
                "cannot see. Put nest inside of it."
            )
        if eqn.primitive in SCOPED:
            return eqn.replace(params=SCOPED[eqn.primitive](eqn.params, scope))

        def inside(jaxpr):
            return _move_into_scope(jaxpr, scope, memo)

        return eqn.replace(params=jaxprs.map_jaxprs(eqn.params, inside))

    if id(jaxpr) not in memo:
        memo[id(jaxpr)] = jaxprs.map_equations(jaxpr, move)
    return memo[id(jaxpr)]
