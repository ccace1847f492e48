"""Prints which constructs and modes keep which laws: `python -m tests.harvest.conformance [--all]`.

Every row of the table of programs runs through every law, jitted and not jitted; a law that a row
breaks is printed as a failure, and the exit status is then 1.
"""

import argparse
import collections
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence

import jax
import pytest

from ppl.harvest import plant
from tests.conftest import STRICT  # first of all: it sets up the devices

from .case import Case
from .checks import TAG, equations
from .table import CASES
from .test_laws import LAWS, check, check_misfits, evaluate_laws

MISFITS = "7 plants that do not fit"
COLUMNS = {
    "1 values": ("the function alone", "1 values, 3 planted is not reaped"),
    "1 derivatives": ("1 derivatives",),
    "2 round trip": ("2 round trip",),
    "2 constants": ("2 plants that are constants",),
    "3": ("1 values, 3 planted is not reaped", "3 nothing left to harvest"),
    "4": ("4 other tags", "4 exclusive", "4 blocked"),
    "5 jit": ("5 jit inside",),
    "5 vmap": ("5 vmap inside and outside",),
    "5 disable_jit": ("unrolled",),
    "7": (MISFITS,),
}
# Each compiles many small programs where it is not jitted, for two minutes of the whole.
SLOW = frozenset({"1 derivatives", "5 vmap inside and outside"})
LEGEND = """\
A cell is the number of rows that keep the law, jitted / not jitted; "-" if it applies to none of them.

| column | law |
|---|---|
| 1 values | without plants, the harvested function returns what the function returns, and reaps what the table of programs says |
| 1 derivatives | so do its derivatives, forward and reverse, each where JAX has it |
| 2 round trip | planting what was reaped gives the result of the function, and reaps nothing |
| 2 constants | plants that are constants of the program give the result that the table says |
| 3 | what is planted is not reaped, and harvesting again finds nothing |
| 4 | transformations for other tags see nothing, `exclusive=True` strips, a blocked name is neither reaped nor planted |
| 5 jit | `reap(jit(f))` is `reap(f)`; that `jit(reap(f))` is, too, the first number of every cell says |
| 5 vmap | `harvest(vmap(f))` is `vmap(harvest(f))`, reaping and planting |
| 5 disable_jit | the same under `jax.disable_jit`, where a scan is a Python loop |
| 7 | a plant of an unknown name or of another structure, shape or dtype is an error that says which |
"""  # noqa: E501


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one row under the laws: by name of a law, an error, or None if it holds."""

    case: Case
    jitted: dict[str, BaseException | None]
    plain: dict[str, BaseException | None]


def mode_of(case: Case) -> str:
    """The mode of all that the program of a row sows."""
    sows = [e.params["site"] for e in equations(case.f, case.x) if e.primitive.name == "sow"]
    modes = {site.mode for site in sows}
    return modes.pop() if len(modes) == 1 else "mixed"


def group_of(case: Case) -> tuple[str, str]:
    """The line of the table that a row belongs to: its construct and mode."""
    return case.id.split("/")[0], mode_of(case)


def groups(cases: Sequence[Case]) -> dict[tuple[str, str], list[Case]]:
    """The rows by construct and mode, in the order of the table."""
    found: dict[tuple[str, str], list[Case]] = collections.defaultdict(list)
    for case in cases:
        found[group_of(case)].append(case)
    constructs = list(dict.fromkeys(construct for construct, _ in found))
    return dict(sorted(found.items(), key=lambda item: constructs.index(item[0][0])))


def outcome(case: Case, *, every: bool) -> Outcome:
    """One row under every law; not jitted under the slow ones too, if `every`."""
    laws = None if every else frozenset(LAWS) - SLOW
    jitted = _check_laws(case, evaluate_laws(case))
    plain = _check_laws(case, evaluate_laws(case, jitted=False, laws=laws))
    planted = plant(case.f, tag=TAG)
    in_jit = lambda values, x: jax.jit(lambda x: planted(values, x))(x)  # noqa: E731
    jitted[MISFITS] = _error_of(lambda: check_misfits(case, in_jit))
    plain[MISFITS] = _error_of(lambda: check_misfits(case, planted))
    evaluate_laws.cache_clear()
    return Outcome(case=case, jitted=jitted, plain=plain)


def outcomes(cases: Sequence[Case], every: bool) -> list[Outcome]:
    """The rows of one line; what was compiled for them is let go, for it fills gigabytes."""
    rows = [outcome(case, every=every) for case in cases]
    jax.clear_caches()
    return rows


def _check_laws(case: Case, sides: dict) -> dict[str, BaseException | None]:
    return {law: _error_of(lambda law=law: check(case, law, sides[law])) for law in sides}


def _error_of(call: Callable[[], None]) -> BaseException | None:
    """What a check raises. The error of pytest, where nothing is raised, is no `Exception`."""
    try:
        call()
    except (Exception, pytest.fail.Exception) as error:
        return error
    return None


def cell(laws: Sequence[str], rows: Sequence[Outcome]) -> str:
    """How many rows keep some laws, jitted / not jitted."""
    applying = [row for row in rows if all(law in row.jitted for law in laws)]
    if not applying:
        return "-"
    kept = [sum(all(row.jitted[law] is None for law in laws) for row in applying)]
    if all(law in row.plain for law in laws for row in applying):
        kept.append(sum(all(row.plain[law] is None for law in laws) for row in applying))
    return "/".join(map(str, kept)) + ("" if len(kept) == 2 else "/.")


def notes(laws: Sequence[str], rows: Sequence[Outcome]) -> list[str]:
    """Why some laws do not apply to some of the rows."""
    why = [LAWS[law].unless(row.case) for law in laws if law in LAWS for row in rows]
    return list(dict.fromkeys(filter(None, why)))


def table(rows_by_group: dict[tuple[str, str], list[Outcome]]) -> Iterator[str]:
    """The table in Markdown, and its footnotes."""
    footnotes: dict[str, int] = {}
    yield f"| construct | mode | rows | {' | '.join(COLUMNS)} |"
    yield "|---|---|---" + "|---" * len(COLUMNS) + "|"
    for (construct, mode), rows in rows_by_group.items():
        cells = []
        for laws in COLUMNS.values():
            marks = [footnotes.setdefault(n, len(footnotes) + 1) for n in notes(laws, rows)]
            cells.append(cell(laws, rows) + "".join(f" [{mark}]" for mark in marks))
        yield f"| {construct} | {mode} | {len(rows)} | {' | '.join(cells)} |"
    yield ""
    for note, mark in footnotes.items():
        yield f"[{mark}] Not for the rows where {note}."


def failures(rows: Sequence[Outcome]) -> Iterator[str]:
    """Each law that a row breaks, and how."""
    for row in rows:
        for how, results in (("jitted", row.jitted), ("not jitted", row.plain)):
            for law, error in results.items():
                if error is not None:
                    first = str(error).strip().split("\n")[0]
                    yield f"FAILED {row.case.id}, {law}, {how}: {type(error).__name__}: {first}"


def main() -> int:
    """Prints the table, and what fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="evaluate the slow laws not jitted, too")
    every = parser.parse_args().all
    ranks, dtypes = jax.numpy_rank_promotion, jax.numpy_dtype_promotion
    with ranks(STRICT["rank"]), dtypes(STRICT["dtype"]):
        results = {group: outcomes(cases, every) for group, cases in groups(CASES).items()}
    print(LEGEND)
    if not every:
        print(f'"." where it was not evaluated, for it takes long: {", ".join(sorted(SLOW))}.\n')
    print("\n".join(table(results)))
    broken = list(failures([row for rows in results.values() for row in rows]))
    print("\n".join(["", *broken, f"{len(CASES)} rows, {len(broken)} failures."]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
