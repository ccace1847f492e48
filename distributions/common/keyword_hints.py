"""Error messages for unknown keywords, and for values that belong to keywords."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Iterable
from typing import Any

# Our parameters, with their names in other libraries and in books.
_OTHER_NAMES = {
    "concentration": "alpha eta kappa shape",
    "concentration1": "alpha",
    "rate": "beta lam",
    "concentration0": "beta",
    "covariance": "cov covariance_matrix",
    "logits": "logit",
    "low": "lower",
    "loc": "mean mu",
    "total_count": "n",
    "df": "nu",
    "probs": "p prob",
    "precision": "precision_matrix",
    "scale": "sd sigma std stddev",
    "high": "upper",
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
            if len(args) > sum(p.kind is not p.KEYWORD_ONLY for p in parameters):
                raise TypeError(_too_many(cls, len(args), parameters)) from None
            if unknown := [name for name in kwargs if name not in names]:
                raise TypeError(_message(cls.__name__, unknown[0], names)) from None
            if missing := [p for p in parameters[len(args) :] if _is_missing(p, kwargs)]:
                needs = _meanings(cls, missing)
                raise TypeError(f"{cls.__name__}: missing {needs}") from None
            raise

    cls.__init__ = __init__


def _is_missing(p: inspect.Parameter, kwargs: dict[str, Any]) -> bool:
    return p.default is p.empty and p.name not in kwargs


def _too_many(cls: type[Any], num: int, parameters: list[inspect.Parameter]) -> str:
    by_position = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    takes = ", ".join(by_position) or "nothing"
    keywords = _meanings(cls, parameters[len(by_position) :])
    rest = f". By keyword it takes {keywords}" if keywords else ""
    return f"{cls.__name__}: takes {takes} by position; got {num}{rest}"


def _meanings(cls: type[Any], parameters: Iterable[inspect.Parameter]) -> str:
    """Names of parameters, each with the first clause of what the docstring says about it."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")[2]
    entries = dict(re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", text, re.MULTILINE))
    shown = (f"{p.name}= ({_first_clause(entries[p.name])})" for p in parameters)
    return ", ".join(shown)


def _first_clause(sentence: str) -> str:
    clause = re.split(r"[.,;:]?\s+of shape |[.,;:](?:\s|$)", " ".join(sentence.split()))[0]
    return re.sub(r"^(?!Cholesky)[A-Z](?=[a-z ])", lambda letter: letter[0].lower(), clause)


def _message(cls: str, unknown: str, names: Iterable[str]) -> str:
    names = list(names)
    usual = [x for x, others in _OTHER_NAMES.items() if x in names and unknown in others.split()]
    close = usual or difflib.get_close_matches(unknown, names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    takes = ", ".join(names) or "no arguments"
    return f"{cls}: no parameter is called {unknown!r}{hint} It takes {takes}"
