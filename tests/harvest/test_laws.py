"""The laws of harvest, for every row of the table.

All that one row needs is compiled as one program: `LAWS` says what each law evaluates, and what
must come of it.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ppl.harvest import call_and_reap, harvest, plant, reap

from .case import Case
from .checks import OTHER, TAG, assert_same, equations, primitives
from .table import CASES

Run = Callable[[Case, Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Law:
    """`left` and `right` of (case, x, plants) are equal, for every case that the law `holds` for.

    `right` may instead be known from the table: then it is a function of the case alone. `unless`
    says why a law does not hold for a case, and is empty where it does.
    """

    left: Run
    known: Callable[[Case], Any] | None = None
    right: Run | None = None
    unless: Callable[[Case], str] = lambda case: ""

    def holds(self, case: Case) -> bool:
        return not self.unless(case)


def looks(case: Case) -> Any:
    return case.out, case.reaps


def plants(case: Case) -> Any:
    return case.planted, {}


def changes_nothing(case: Case) -> Any:
    return case.out, {}


def derivatives(f: Callable[[Any], Any], case: Case, x: Any) -> Any:
    """A directional derivative and the gradient, where JAX has them."""
    forward = jax.jvp(f, (x,), (jnp.full_like(x, 0.5),)) if case.forward else None
    if not case.reverse:
        return forward
    outs, pullback = jax.vjp(f, x)
    return forward, pullback(jax.tree.map(jnp.ones_like, outs))


def three(values: Any) -> Any:
    """Elements for vmap, the first as it is."""
    return jax.tree.map(lambda v: jnp.stack([v, 3 * v, v + 1]), values)


def with_plants(case: Case, x: Any, values: Any) -> Any:
    """`harvest(f)` at both, and nothing else as an argument."""
    f = harvest(case.f, tag=TAG)
    return f({}, x), f(values, x)


def round_trip(case: Case, x: Any, values: Any) -> Any:
    return harvest(case.f, tag=TAG)(reap(case.f, tag=TAG)(x), x)


def vmap_outside(case: Case, x: Any, values: Any) -> Any:
    x, values = three((x, values))
    return jax.vmap(harvest(case.f, tag=TAG))(values, x), jax.vmap(call_and_reap(case.f, tag=TAG))(
        x
    )


def vmap_inside(case: Case, x: Any, values: Any) -> Any:
    x, values = three((x, values))
    f = harvest(jax.vmap(case.f), tag=TAG)
    return f(values, x), f({}, x)


def unrolled(case: Case, x: Any, values: Any) -> Any:
    with jax.disable_jit():
        return call_and_reap(case.f, tag=TAG)(x)


def has_no_inverse(case: Case) -> str:
    return "" if case.inverse else "one clobbered value stands for several that differ"


def has_no_vmap_outside(case: Case) -> str:
    if case.shards:
        return "the axis over the shards stands in front of that of a vmap around them"
    return "what does not vary is one value under vmap, not one for each element" * case.shared


def has_no_unrolled(case: Case) -> str:
    return "" if case.runs_unrolled else "JAX does not run a scan of length 0 in Python"


LAWS = {
    "the function alone": Law(
        left=lambda case, x, values: case.f(x),
        known=lambda case: case.out,
    ),
    "1 values, 3 planted is not reaped": Law(
        left=with_plants,
        known=lambda case: (looks(case), plants(case)),
    ),
    "1 derivatives": Law(
        left=lambda case, x, values: derivatives(
            lambda x: harvest(case.f, tag=TAG)({}, x)[0], case, x
        ),
        right=lambda case, x, values: derivatives(case.f, case, x),
    ),
    "2 round trip": Law(
        left=round_trip,
        known=changes_nothing,
        unless=has_no_inverse,
    ),
    "2 plants that are constants": Law(
        left=lambda case, x, values: harvest(case.f, tag=TAG)(case.plants, x),
        known=plants,
    ),
    "3 nothing left to harvest": Law(
        left=lambda case, x, values: harvest(call_and_reap(case.f, tag=TAG), tag=TAG)({}, x),
        known=lambda case: (looks(case), {}),
    ),
    "4 other tags": Law(
        left=lambda case, x, values: reap(call_and_reap(case.f, tag=OTHER), tag=TAG)(x),
        known=lambda case: case.reaps,
    ),
    "4 exclusive": Law(
        left=lambda case, x, values: call_and_reap(
            call_and_reap(case.f, tag=OTHER, exclusive=True), tag=TAG
        )(x),
        known=lambda case: ((case.out, {}), {}),
    ),
    "4 blocked": Law(
        left=lambda case, x, values: call_and_reap(
            lambda x: harvest(case.f, tag=TAG, allowlist=())(case.plants, x), tag=TAG
        )(x),
        known=lambda case: ((case.out, {}), {}),
    ),
    "5 jit inside": Law(
        left=lambda case, x, values: harvest(jax.jit(case.f), tag=TAG)({}, x),
        known=looks,
    ),
    "5 vmap inside and outside": Law(
        left=vmap_inside,
        right=vmap_outside,
        unless=has_no_vmap_outside,
    ),
    "unrolled": Law(
        left=unrolled,
        known=lambda case: (case.out, case.reaps if case.unrolled is None else case.unrolled),
        unless=has_no_unrolled,
    ),
}


@functools.cache
def evaluate_laws(
    case: Case, jitted: bool = True, laws: frozenset[str] | None = None
) -> dict[str, Any]:
    """By law, the two sides; or what was raised while it was traced. All `laws` if None."""
    raised: dict[str, Exception] = {}

    def everything(x: Any, values: Any) -> dict[str, Any]:
        sides = {}
        for name, law in LAWS.items():
            if law.holds(case) and (laws is None or name in laws):
                try:
                    right = None if law.right is None else law.right(case, x, values)
                    sides[name] = law.left(case, x, values), right
                except Exception as error:
                    raised[name] = error
        return sides

    values = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), case.plants)
    return (jax.jit(everything) if jitted else everything)(case.x, values) | raised


def check(case: Case, law: str, sides: Any) -> None:
    """Raises what was raised, or says how the two sides of a law differ."""
    if isinstance(sides, Exception):
        raise sides
    left, right = sides
    known = LAWS[law].known
    assert_same(left, right if known is None else known(case))


@pytest.mark.parametrize(
    ("case", "law"),
    [
        pytest.param(case, name, id=f"{case.id}-{name.replace(' ', '-')}")
        for case in CASES
        for name, law in LAWS.items()
        if law.holds(case)
    ],
)
def test_law(case: Case, law: str) -> None:
    check(case, law, evaluate_laws(case)[law])


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@pytest.mark.slow
@each_case
def test_without_jit_outside(case: Case) -> None:
    """Evaluated equation by equation, harvest gives the same."""
    assert_same(harvest(case.f, tag=TAG)({}, case.x), looks(case))
    assert_same(harvest(case.f, tag=TAG)(case.plants, case.x), plants(case))


@each_case
def test_which_rows_have_no_inverse(case: Case) -> None:
    """Law 2 has no exception but the two clobber modes."""
    sows = [e.params["site"] for e in equations(case.f, case.x) if e.primitive.name == "sow"]
    assert sows
    assert case.inverse or any("clobber" in site.mode for site in sows)


@each_case
@pytest.mark.parametrize("options", [{}, {"allowlist": ()}], ids=["all", "none-allowed"])
def test_no_sow_of_the_tag_remains(case: Case, options: dict[str, Any]) -> None:
    """Law 3: whether a sow is reaped, planted or blocked, it is gone."""
    f = harvest(case.f, tag=TAG, **options)
    assert "sow" not in primitives(f, {}, case.x)
    assert "sow" not in primitives(f, case.plants, case.x)


@each_case
def test_exclusive_leaves_no_sow_at_all(case: Case) -> None:
    """Law 4."""
    f = harvest(case.f, tag=OTHER, exclusive=True)
    assert "sow" not in primitives(f, {}, case.x)


@each_case
def test_each_name_planted_alone(case: Case) -> None:
    """Law 3: the names that are not planted are reaped."""
    paths = [path for path, _ in leaves_of(case.plants)]
    for path, value in leaves_of(case.plants):
        alone = replace_at({}, path, value)
        rest = jax.eval_shape(lambda x, p=alone: harvest(case.f, tag=TAG)(p, x)[1], case.x)
        assert {p for p, _ in leaves_of(rest)} == set(paths) - {path}


Misfit = tuple[Any, type[Exception], str]


def misfits(case: Case) -> Iterator[Misfit]:
    """Plants that do not fit, and the error that each must be."""
    for path, value in leaves_of(case.plants):
        where = re.escape(f"plant {'.'.join(map(str, path))!r}")
        wide = jax.tree.map(lambda v: jnp.zeros((7, *np.shape(v))), value)
        whole = jax.tree.map(lambda v: jnp.zeros(np.shape(v), jnp.int32), value)
        for other, kind, message in [
            (wide, ValueError, "expected float32.* got float32.*broadcast"),
            ({"leaf": value}, ValueError, r"expected .*got (PyTreeDef\(|dict: ){'leaf': "),
            (whole, TypeError, r"expected float32.* got int32.*astype"),
        ]:
            yield replace_at(case.plants, path, other), kind, f"{where}: {message}"
    unknown = r"plant 'ypsilon': no sow has this name.*Use one of: "
    yield {**case.plants, "ypsilon": 1.0}, ValueError, unknown


def check_misfits(case: Case, planted: Callable[[Any, Any], Any]) -> None:
    for values, kind, message in misfits(case):
        with pytest.raises(kind, match=message):
            planted(values, case.x)


@each_case
def test_a_plant_must_fit(case: Case) -> None:
    """Law 7: name, structure, shape and dtype are checked, and the error says which site."""
    check_misfits(case, plant(case.f, tag=TAG))


def leaves_of(values: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """What stands in nested dicts, by path."""
    if not isinstance(values, dict):
        return [(prefix, values)]
    return [entry for k, v in values.items() for entry in leaves_of(v, (*prefix, k))]


def replace_at(values: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of nested dicts with another value at a path."""
    if not path:
        return value
    return {**values, path[0]: replace_at(values.get(path[0], {}), path[1:], value)}


# A few of each construct; every row is unrolled by the law above, but not run in Python.
EAGER = [
    "jit/append-twice", "cond/strict-false", "switch/append-middle", "scan/append", "scan/mixed",
    "scan/cond_clobber", "fori-static/clobber", "fori-dynamic/cond_clobber", "while/clobber",
    "while/in-scan", "vmap/of-scan-append", "vmap/of-while-clobber", "nest/of-while",
    "nest/of-scan",
]  # fmt: skip


@pytest.mark.parametrize("case", [c for c in CASES if c.id in EAGER], ids=lambda case: case.id)
def test_disable_jit(case: Case) -> None:
    """Under `jax.disable_jit` JAX runs in Python what harvest builds, too."""
    with jax.disable_jit():
        looked, planted = with_plants(case, case.x, case.plants)
    assert_same(looked, looks(case))
    assert_same(planted, plants(case))
