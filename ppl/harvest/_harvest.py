"""harvest and what is made of it: reap, call_and_reap, plant and nest."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ppl.harvest import _jax
from ppl.harvest._interpreter import Action, Interpreter, Operands
from ppl.harvest._plants import unstack
from ppl.harvest._sow import Site, describe, sow_p
from ppl.harvest._survey import Found, Path, Sites, Survey, show
from ppl.harvest.rules import RULES


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which sows a transformation looks at.

    An entry of `allowlist` or `blocklist` stands for a name or for all that is in a scope.
    """

    tag: Hashable
    allowlist: frozenset[Hashable] | None
    blocklist: frozenset[Hashable]
    exclusive: bool

    def allows(self, path: Path) -> bool:
        allowed = self.allowlist is None or not self.allowlist.isdisjoint(path)
        return allowed and self.blocklist.isdisjoint(path)


@dataclasses.dataclass(frozen=True)
class Harvest(Action):
    """A planted value takes the place of the sown one; another one is recorded."""

    select: Selection

    def matches(self, site: Site) -> bool:
        return site.tag == self.select.tag and self.select.allows(site.path)

    def strips(self, site: Site) -> bool:
        return self.select.exclusive or site.tag == self.select.tag

    def at(
        self, site: Site, operands: Operands, plant: Any
    ) -> tuple[Sequence[Any], Any]:
        if plant is not None:
            return plant, None
        return operands.values, operands.values


@dataclasses.dataclass(frozen=True)
class Rename(Action):
    """Every sow moves into a scope."""

    scope: Hashable
    records = False

    def matches(self, site: Site) -> bool:
        return True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return True, True, True

    def at(
        self, site: Site, operands: Operands, plant: Any
    ) -> tuple[Sequence[Any], Any]:
        site = dataclasses.replace(site, scope=(self.scope, *site.scope))
        return sow_again(site, operands), None


def sow_again(site: Site, operands: Operands) -> list[Any]:
    """Bind a sow with the operands of another."""
    preds = [operands.pred] if site.has_pred else []
    return sow_p.bind(*operands.values, *preds, *operands.extras, site=site)


@dataclasses.dataclass(frozen=True)
class Program:
    """A function traced at arguments: its jaxpr, the operands, and how its results are put together."""

    jaxpr: Any
    operands: list[Any]
    unflatten: Callable[[Sequence[Any]], Any]

    def survey(self, action: Action, *, check: bool = True) -> Survey:
        return Survey(action.matches, RULES, check)


def trace(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Program:
    """Trace `f`. Arrays are abstract; Python numbers and other objects are passed as they are."""
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    is_array = [
        isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves
    ]
    operands = [leaf for leaf, yes in zip(leaves, is_array, strict=True) if yes]
    operands = [jax.numpy.asarray(x) for x in operands]
    out: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        rest = iter(arrays)
        full = [
            next(rest) if yes else leaf
            for leaf, yes in zip(leaves, is_array, strict=True)
        ]
        args, kwargs = jax.tree_util.tree_unflatten(tree, full)
        results, out_tree = jax.tree_util.tree_flatten(f(*args, **kwargs))
        traced = [isinstance(x, jax.Array | np.ndarray | np.generic) for x in results]
        out[:] = [
            out_tree,
            traced,
            [None if t else x for x, t in zip(results, traced, strict=True)],
        ]
        return [x for x, t in zip(results, traced, strict=True) if t]

    jaxpr = jax.make_jaxpr(flat)(*operands)
    out_tree, traced, static = out

    def unflatten(arrays: Sequence[Any]) -> Any:
        rest = iter(arrays)
        full = [next(rest) if t else x for x, t in zip(static, traced, strict=True)]
        return jax.tree_util.tree_unflatten(out_tree, full)

    return Program(jaxpr, operands, unflatten)


def harvest(
    f: Callable[..., Any],
    *,
    tag: Hashable,
    allowlist: Collection[Hashable] | None = None,
    blocklist: Collection[Hashable] = frozenset(),
    exclusive: bool = False,
) -> Callable[..., tuple[Any, dict[Hashable, Any]]]:
    """Turn the sows of a function into inputs and outputs.

    The result takes a dict of plants before the arguments of `f`. A sown value whose name is planted is
    replaced; one whose name is not is reaped. Both dicts nest as the scopes do. The result is a pure
    function that composes with every transformation of JAX, and holds no more sows with this tag.

    Args:
        f: Any function that JAX can trace.
        tag: Which sows to look at; sows with other tags stay as they are.
        allowlist: The names or scopes to look at; all if None.
        blocklist: The names or scopes not to look at.
        exclusive: Also take out the sows with other tags, leaving their values.

    Returns:
        `(plants, *args, **kwargs) -> (f(*args, **kwargs), reaps)`. A value sown under `vmap` has the
        batch axes in front; one appended in scans has an axis for each, outermost first.

    Raises:
        ValueError: When called, if a plant has a name that no sow has, or another structure or shape
            than the value that it replaces, or if a name is sown in a way that its mode does not allow.
        TypeError: When called, if a plant has another dtype.

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
    action = Harvest(
        Selection(
            tag,
            None if allowlist is None else frozenset(allowlist),
            frozenset(blocklist),
            exclusive,
        )
    )

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def harvested(plants: Mapping[Hashable, Any], *args: Any, **kwargs: Any) -> Any:
        program = trace(f, args, kwargs)
        survey = program.survey(action)
        sites = survey(program.jaxpr)
        checked = check_plants(plants, sites, action.select.allows)
        outs, records = evaluate(program, action, survey, checked)
        return program.unflatten(outs), nested(
            {
                p: jax.tree_util.tree_unflatten(sites[p].site.tree, r)
                for p, r in records.items()
            }
        )

    return harvested


def evaluate(
    program: Program,
    action: Action,
    survey: Survey,
    plants: Mapping[Path, Any],
    live_outs: Sequence[bool] | None = None,
) -> tuple[list[Any], dict[Path, Any]]:
    """Run a traced program under an action; records come back by path, in program order."""
    sites = survey(program.jaxpr)
    interpreter = Interpreter(action, RULES, plants, survey)
    queues = {p: unstack(plant, sites[p]) for p, plant in plants.items()}
    live = [True] * len(program.jaxpr.out_avals) if live_outs is None else live_outs
    outs, reaps = interpreter.run(program.jaxpr, program.operands, queues, live)
    gathered = interpreter.gather(reaps, sites)
    return outs, {p: gathered[p].or_zeros().record for p in sites if p in gathered}


def reap(
    f: Callable[..., Any], *, tag: Hashable, **options: Any
) -> Callable[..., dict[Hashable, Any]]:
    """`harvest` that only looks: `(*args, **kwargs) -> reaps`.

    Args:
        f: Any function that JAX can trace.
        tag: Which sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Example:
        >>> from ppl.harvest import reap, sow
        >>> reap(lambda x: sow(x + 1.0, tag="t", name="y") ** 2, tag="t")(1.0)["y"].item()
        2.0
    """
    harvested = harvest(f, tag=tag, **options)
    return lambda *args, **kwargs: harvested({}, *args, **kwargs)[1]


def call_and_reap(
    f: Callable[..., Any], *, tag: Hashable, **options: Any
) -> Callable[..., tuple[Any, dict[Hashable, Any]]]:
    """`harvest` without plants: `(*args, **kwargs) -> (f(*args, **kwargs), reaps)`.

    Args:
        f: Any function that JAX can trace.
        tag: Which sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Example:
        >>> from ppl.harvest import call_and_reap, sow
        >>> out, reaps = call_and_reap(lambda x: sow(x + 1.0, tag="t", name="y") ** 2, tag="t")(1.0)
        >>> out.item(), reaps["y"].item()
        (4.0, 2.0)
    """
    harvested = harvest(f, tag=tag, **options)
    return lambda *args, **kwargs: harvested({}, *args, **kwargs)


def plant(
    f: Callable[..., Any], *, tag: Hashable, **options: Any
) -> Callable[..., Any]:
    """`harvest` that only replaces: `(plants, *args, **kwargs) -> out`.

    Args:
        f: Any function that JAX can trace.
        tag: Which sows to look at.
        **options: `allowlist`, `blocklist` and `exclusive`, as in `harvest`.

    Example:
        >>> from ppl.harvest import plant, sow
        >>> plant(lambda x: sow(x + 1.0, tag="t", name="y") ** 2, tag="t")({"y": 3.0}, 1.0).item()
        9.0
    """
    harvested = harvest(f, tag=tag, **options)
    return lambda plants, *args, **kwargs: harvested(plants, *args, **kwargs)[0]


def nest(f: Callable[..., Any], *, scope: Hashable) -> Callable[..., Any]:
    """The same function, with all that it sows (under any tag) moved into a scope.

    Args:
        f: Any function that JAX can trace.
        scope: The key under which the sown values of `f` stand, in plants and in reaps.

    Example:
        >>> from ppl.harvest import nest, reap, sow
        >>> f = lambda x: sow(x + 1.0, tag="t", name="y")
        >>> reap(lambda x: nest(f, scope="a")(x) + nest(f, scope="b")(2 * x), tag="t")(1.0)
        {'a': {'y': Array(2., dtype=float32, weak_type=True)}, 'b': {'y': Array(3., dtype=float32, weak_type=True)}}
    """
    action = Rename(scope)

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def scoped(*args: Any, **kwargs: Any) -> Any:
        program = trace(f, args, kwargs)
        outs, _ = evaluate(program, action, program.survey(action, check=False), {})
        return program.unflatten(outs)

    return scoped


def nested(flat: Mapping[Path, Any]) -> dict[Hashable, Any]:
    """A dict by path as nested dicts."""
    out: dict[Hashable, Any] = {}
    for path, value in flat.items():
        *scopes, name = path
        inner = out
        for i, scope in enumerate(scopes):
            inner = inner.setdefault(scope, {})
            if tuple(path[: i + 1]) in flat:
                raise ValueError(
                    f"{describe(path[: i + 1])} is the name both of a sow and of a scope."
                )
        inner[name] = value
    return out


def check_plants(
    plants: Mapping[Hashable, Any], sites: Sites, allows: Callable[[Path], bool]
) -> dict[Path, tuple[jax.Array, ...]]:
    """The leaves of each plant, as the site's dtype demands; every misfit is an error."""
    found: dict[Path, tuple[jax.Array, ...]] = {}
    for path, value in paths_in(plants, sites):
        if path in sites:
            found[path] = check_plant(path, value, sites[path])
        elif allows(path):
            known = ", ".join(map(describe, sites)) or "none at all"
            raise ValueError(
                f"plant {describe(path)}: no sow has this name. There are: {known}."
            )
    return found


def paths_in(
    plants: Mapping[Hashable, Any], sites: Collection[Path]
) -> list[tuple[Path, Any]]:
    """The entries of a nested dict; what stands under the path of a site is one entry."""
    if not isinstance(plants, Mapping):
        raise TypeError(
            f"expected a dict of values by name, got {type(plants).__name__}: {plants!r}."
        )
    prefixes = {path[:i] for path in sites for i in range(1, len(path))}

    def walk(plants: Mapping[Hashable, Any], prefix: Path) -> list[tuple[Path, Any]]:
        entries: list[tuple[Path, Any]] = []
        for name, value in plants.items():
            path = (*prefix, name)
            if path in prefixes and path not in sites:
                if not isinstance(value, Mapping):
                    raise TypeError(
                        f"{describe(path)} is a scope: expected a dict of its values, got {value!r}."
                    )
                entries += walk(value, path)
            else:
                entries.append((path, value))
        return entries

    return walk(plants, ())


def check_plant(path: Path, value: Any, found: Found) -> tuple[jax.Array, ...]:
    """The leaves of a plant with the site's dtypes; an error if it cannot stand for the sown value."""
    where = f"plant {describe(path)}"
    leaves, tree = jax.tree_util.tree_flatten(value)
    if tree != found.site.tree:
        raise ValueError(
            f"{where}: expected the structure {found.site.tree}, got {tree}."
        )
    if not found.uniform:
        raise ValueError(
            f"{where}: it is sown inside and outside of a vmap, so no one value stands for both. Give "
            "the sows names of their own."
        )
    expected = found.collapsed().avals
    return tuple(
        _fit(where, leaf, aval) for leaf, aval in zip(leaves, expected, strict=True)
    )


def _fit(where: str, leaf: Any, aval: Any) -> jax.Array:
    try:
        array = jax.numpy.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{where}: expected {show([aval])}, got {leaf!r}, which is no array."
        ) from error
    if array.shape != aval.shape:
        raise ValueError(
            f"{where}: expected {show([aval])}, got {show([array])}. The axes of vmap and of loops "
            "come first; broadcast the value to this shape if one value is meant for all."
        )
    if isinstance(leaf, bool | int | float | complex) and _is_exact(leaf, aval.dtype):
        return _jax.as_aval(leaf, aval)
    if array.dtype != aval.dtype:
        raise TypeError(
            f"{where}: expected {show([aval])}, got {show([array])}. Cast it with .astype, if that is "
            "what is meant."
        )
    return array


def _is_exact(scalar: complex, dtype: Any) -> bool:
    """Whether a Python scalar is a value of this kind of dtype."""
    if not isinstance(dtype, np.dtype) and not jax.dtypes.issubdtype(dtype, np.number):
        return dtype == np.bool_ and isinstance(scalar, bool)
    if jax.dtypes.issubdtype(dtype, np.integer):
        return not isinstance(scalar, complex) and float(scalar).is_integer()
    if jax.dtypes.issubdtype(dtype, np.floating):
        return not isinstance(scalar, complex)
    return dtype != np.bool_ or isinstance(scalar, bool)
