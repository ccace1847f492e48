"""What an unknown keyword should have been."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Iterable
from typing import Any

# What other libraries, and books, call the parameters.
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
    """Makes a dataclass answer an unknown keyword with the nearest of those that it takes."""
    init = cls.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            init(self, *args, **kwargs)
        except TypeError:
            # Only then: an unknown keyword costs no time where there is none.
            _, *names = inspect.signature(init).parameters
            if unknown := [name for name in kwargs if name not in names]:
                raise TypeError(_message(cls.__name__, unknown[0], names)) from None
            raise

    cls.__init__ = __init__


def _message(cls: str, unknown: str, names: Iterable[str]) -> str:
    names = list(names)
    usual = [name for name in _OTHER_NAMES.get(unknown, ()) if name in names]
    close = usual or difflib.get_close_matches(unknown, names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    takes = ", ".join(names) or "no arguments"
    return f"{cls}: no parameter is called {unknown!r}{hint} It takes {takes}"
