"""Inside of sums: transformations of a marginalized model, moved before its marginalization.

`marginalize` scores sites together and sows them anew. So a transformation that changes one of
these sites, such as an intervention, has to act on the model before its sums are taken.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

import jax
from jax.tree_util import Partial

from ppl.analysis.summed_sites import find_rewritten
from ppl.core.model_pytree import Model, unwrap_model
from ppl.harvest.harvesting import Nested
from ppl.harvest.program import Program
from ppl.harvest.survey import Path, describe, join_scopes

Transformation = Callable[[Model, Any, Path], Model]

_COMMUTING: dict[Any, bool] = {}


class ByName(Protocol):
    """Function of a transformation that has entries for single sites."""

    def split(self, names: Collection[str]) -> tuple["ByName | None", "ByName"]:
        """The function for the named sites, None without entries for them, and for all others."""
        ...

    def within(self, scope: Path) -> "ByName":
        """The function for the sites in a scope."""
        ...


def commutes(run: Any, *, by_name: bool = False) -> Any:
    """Register the function of a transformation that acts at each site by itself.

    Such a transformation may come before or after another that acts at other sites.

    Args:
        run: The function of a `Partial` whose first argument is the model, or its class.
        by_name: Whether the second argument is a dict by name, with entries for single sites. A
            class that holds such entries itself has methods `split` and `within` (`ByName`).

    Returns:
        `run`, unchanged.
    """
    _COMMUTING[run] = by_name
    return run


def move_inside(
    model: Model, names: Collection[str], apply: Transformation, *, plans: bool = False
) -> Model | None:
    """Move a transformation of a marginalized model before its sums.

    Args:
        model: A marginalized model, perhaps within transformations that commute and within `nest`.
        names: Names of the sites that are transformed.
        apply: The transformation, a function of the model before its sums, of the sums, and of the
            scopes around them.
        plans: Whether a rule such as `auto_marginal` looks at the transformed model.

    Returns:
        The marginalized model of the transformed one; None if `model` is not marginalized, or if a
        transformation around its sums does not commute.
    """
    model = _without_jit(unwrap_model(model))
    if not (isinstance(model, Partial) and model.args):
        return None
    inner, *rest = model.args
    take_out_after = getattr(model.func, "take_out_after", None)
    if take_out_after is not None:
        return take_out_after(apply, plans, *model.args)
    if isinstance(model.func, Nested):
        return _move_inside_scope(model, names, apply, plans=plans)
    by_name = _COMMUTING.get(model.func, _COMMUTING.get(type(model.func)))
    hidden = getattr(model.func, "names", ())
    if by_name is None or any(f"{name}.".startswith(f"{h}.") for name in names for h in hidden):
        return None
    func: Any = model.func
    outside = rest
    mine = None
    if by_name and hasattr(func, "split"):
        mine, func = func.split(names)
    elif by_name:
        mine, others = _split(rest[0], names)
        outside = [others]

    def before(f: Model, sums: Any, scope: Path) -> Model:
        if mine and isinstance(mine, Mapping):
            entries = entries_within(mine, scope)
            return apply(type(model)(func, f, entries) if entries else f, sums, scope)
        return apply(Partial(mine.within(scope), f) if mine else f, sums, scope)

    found = move_inside(inner, names, before, plans=plans)
    return None if found is None else type(model)(func, found, *outside)


def _move_inside_scope(
    model: Partial, names: Collection[str], apply: Transformation, *, plans: bool
) -> Model | None:
    """`move_inside` for a model within `nest`; None if a site is not in its scope."""
    scope = (model.func.scope,)
    within = names_within(names, scope)
    if len(within) < len(names):
        return None

    def before(f: Model, sums: Any, inner: Path) -> Model:
        return apply(f, sums, (*scope, *inner))

    (model_within,) = model.args
    found = move_inside(model_within, within, before, plans=plans)
    return None if found is None else Partial(model.func, found)


def before_sum(model: Model, is_wanted: Callable[[Any], bool]) -> Model | None:
    """A marginalized model as it was before one of its sums, and without those taken later.

    Args:
        model: A marginalized model, perhaps within transformations that commute and within `nest`.
        is_wanted: Whether a sum, the function of a `Partial`, is the one; the first that was taken
            counts.

    Returns:
        The model, within the same transformations; None if there is no such sum, or if it stands
        within another function.
    """
    model = _without_jit(unwrap_model(model))
    if not (isinstance(model, Partial) and model.args):
        return None
    if hasattr(model.func, "take_out_after"):
        inner = model.args[-1]
        found = before_sum(inner, is_wanted)
        return inner if found is None and is_wanted(model.func) else found
    if not _is_passed(model.func):
        return None
    inner, *rest = model.args
    found = before_sum(inner, is_wanted)
    return None if found is None else type(model)(model.func, found, *rest)


def names_within(names: Collection[str], scope: Path) -> list[str]:
    """Names of the sites in a scope, relative to it; names outside of it are left out."""
    prefix = "".join(f"{name}." for name in scope)
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def entries_within(entries: Mapping[Any, Any], scope: Path) -> Mapping[Any, Any]:
    """Entries of nested dicts in a scope."""
    return functools.reduce(lambda found, name: found.get(name, {}), scope, entries)


def is_planned_by_rule(model: Model) -> bool:
    """Whether a rule chose the sites that a marginalized model takes out.

    Args:
        model: A model, perhaps a marginalized one within transformations that commute and `nest`.
    """
    model = _without_jit(unwrap_model(model))
    if not (isinstance(model, Partial) and model.args):
        return False
    if hasattr(model.func, "take_out_after"):
        return hasattr(model.func, "rule") or is_planned_by_rule(model.args[-1])
    return _is_passed(model.func) and is_planned_by_rule(model.args[0])


def _is_passed(func: Any) -> bool:
    """Whether a function is that of a transformation that commutes, or of `nest`."""
    return func in _COMMUTING or type(func) in (*_COMMUTING, Nested)


def _without_jit(model: Model) -> Model:
    """The model inside of jax.jit; jit does not change a model."""
    while True:
        function = model.func if isinstance(model, Partial) and not model.args else model
        if not isinstance(function, jax.stages.Wrapped):
            return model
        model = function.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]


def _split(entries: Any, names: Collection[str], scope: Path = ()) -> tuple[Any, Any]:
    """Entries of nested dicts for the named sites, and entries for all other sites."""
    if not isinstance(entries, Mapping):  # A rule that looks at the sites itself.
        return {}, entries
    mine = {}
    others = {}
    for name, x in entries.items():
        path = (*scope, name)
        if join_scopes(path) in names:
            mine[name] = x
        elif isinstance(x, Mapping) and _is_scope(path, names):
            mine_within, others_within = _split(x, names, path)
            mine |= {name: mine_within} if mine_within else {}
            others |= {name: others_within} if others_within else {}
        else:
            others[name] = x
    return mine, others


def _is_scope(path: Path, names: Iterable[str]) -> bool:
    return any(name.startswith(f"{join_scopes(path)}.") for name in names)


def move_inside_if_joint(
    where: str,
    model: Model,
    program: Program,
    named: Collection[Path],
    apply: Transformation,
    remedy: str,
) -> Model | None:
    """A model with a transformation before its sums; None if no named site is part of a sum.

    Args:
        where: The name of the transformation, for errors.
        model: The model.
        program: The traced program of the model.
        named: The paths of the sites that are transformed.
        apply: The transformation of the model before its sums.
        remedy: What to write, for errors.

    Raises:
        ValueError: If a site is part of a sum that the transformation does not reach.
    """
    joint = find_rewritten(program.jaxpr).intersection(named)
    if not joint:
        return None
    found = move_inside(model, set(map(join_scopes, named)), apply)
    if found is None:
        raise ValueError(
            f"{where}: site {describe(min(joint, key=join_scopes))} belongs to a model that "
            "ppl.marginalize has made, and its sums are taken without what comes after. That model "
            f"stands within a function, which {where} cannot see into. {remedy}"
        )
    return found
