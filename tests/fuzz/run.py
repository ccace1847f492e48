"""One check of one case, and what came of it."""

import dataclasses
import pathlib
import re
import traceback
from collections.abc import Callable
from typing import Any

import jax

from .case import Case

ROOT = pathlib.Path(__file__).parents[2]
OURS = tuple(str(ROOT / name) for name in ("ppl", "distributions", "inference"))
REFUSALS = (ValueError, NotImplementedError, TypeError)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`passed`, `empty` (nothing to check), `refused` or `fault`, with the words."""

    verdict: str
    words: str = ""
    traceback: str = ""

    @property
    def kind(self) -> str:
        """The words without names and numbers, to be counted."""
        words = self.words.splitlines()[0] if self.words else ""
        return re.sub(r"v\d+\w*|[-+]?\d[\d.e+-]*", "#", words)[:110]


def is_refusal(error: Exception) -> bool:
    """Whether an error is the library's own, in its own words."""
    frames = traceback.extract_tb(error.__traceback__)
    is_ours = frames[-1].filename.startswith(OURS)
    return isinstance(error, REFUSALS) and is_ours and "raise" in (frames[-1].line or "")


def run(check: Callable[[Case], Any], case: Case) -> Outcome:
    """The outcome of a check."""
    before = jax.config.values["jax_traceback_filtering"]
    jax.config.update("jax_traceback_filtering", "off")  # The last frame says whose error it is.
    try:
        with jax.enable_x64(True):
            return Outcome("passed" if check(case) else "empty")
    except AssertionError as error:
        return Outcome("fault", str(error) or "assertion", traceback.format_exc())
    except Exception as error:  # any error of foreign words is a fault
        verdict = "refused" if is_refusal(error) else "fault"
        words = f"{type(error).__name__}: {error}"
        return Outcome(verdict, words, traceback.format_exc())
    finally:
        jax.config.update("jax_traceback_filtering", before)
