"""Error messages for unknown keywords and superfluous values, with the nearest parameter."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Iterable
from typing import Any

# Names of parameters in other libraries and in books, with ours.
_OTHER_NAMES = {
    "alpha": ("concentration", "concentration1"),
    "beta": ("rate", "concentration0"),
    "cov": ("covariance",),
    "covariance_matrix": ("covariance",),
    "eta": ("concentration",),
    "kappa": ("concentration",),
    "lam": ("rate",),
    "logit": ("logits",),
    "lower": ("low",),
    "mean": ("loc",),
    "mu": ("loc",),
    "n": ("total_count",),
    "nu": ("df",),
    "p": ("probs",),
    "precision_matrix": ("precision",),
    "prob": ("probs",),
    "sd": ("scale",),
    "shape": ("concentration",),
    "sigma": ("scale",),
    "std": ("scale",),
    "stddev": ("scale",),
    "upper": ("high",),
}


def naming_unknown_keywords(cls: type[Any]) -> None:
    """Makes a dataclass name its parameters in the TypeError of a wrong or superfluous argument."""
    init = cls.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            init(self, *args, **kwargs)
        except TypeError:
            # Only after an error: a correct call costs no time.
            _, *parameters = inspect.signature(init).parameters.values()
            names = [p.name for p in parameters]
            by_position = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
            if len(args) > len(by_position):
                raise TypeError(_too_many(cls.__name__, len(args), by_position, names)) from None
            if unknown := [name for name in kwargs if name not in names]:
                raise TypeError(_message(cls.__name__, unknown[0], names)) from None
            raise

    cls.__init__ = __init__


def _too_many(cls: str, num: int, by_position: list[str], names: list[str]) -> str:
    takes = ", ".join(by_position) or "nothing"
    keywords = ", ".join(names[len(by_position) :])
    rest = f". By keyword it takes {keywords}" if keywords else ""
    return f"{cls}: takes {takes} by position; got {num}{rest}"


def _message(cls: str, unknown: str, names: Iterable[str]) -> str:
    names = list(names)
    usual = [name for name in _OTHER_NAMES.get(unknown, ()) if name in names]
    close = usual or difflib.get_close_matches(unknown, names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    takes = ", ".join(names) or "no arguments"
    return f"{cls}: no parameter is called {unknown!r}{hint} It takes {takes}"
