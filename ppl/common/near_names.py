"""Hints for a name that a package does not have: what is written here, or which name is near.

Tables of the names in other libraries have one form: what to write here, and the names for it
elsewhere, with blanks between them.
"""

import difflib
import sys
from collections.abc import Iterable, Mapping


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Table of what to write here by the name elsewhere.

    Args:
        table: What to write here, each with its names elsewhere.

    Example:
        >>> by_name({"ppl.factor": "Potential potential"})
        {'Potential': 'ppl.factor', 'potential': 'ppl.factor'}
    """
    return {name: here for here, names in table.items() for name in names.split()}


def hint_near(name: str, public: Iterable[str]) -> str:
    """Words that end the error of a missing attribute; empty if nothing is near.

    Args:
        name: The name that is missing.
        public: The names that the package has.

    Example:
        >>> hint_near("sampel", ["sample", "Site"])
        "; did you mean 'sample'?"
    """
    names = list(public)
    same = [x for x in names if x.casefold() == name.casefold()]
    for package in () if same else ("ppl", "distributions", "inference"):
        if name in dir(sys.modules.get(package)):
            return f"; it is {package}.{name}"
    # A class for a class, a function for a function.
    alike = [x for x in names if x[:1].isupper() == name[:1].isupper()]
    close = same or difflib.get_close_matches(name, alike, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def explain_missing(
    package: str, name: str, public: Iterable[str], peer_names: Mapping[str, str]
) -> str:
    """The words of the error of an attribute that a package does not have.

    Example:
        >>> explain_missing("ppl", "do", [], {"do": "ppl.intervene(model, values)"})
        "module 'ppl' has no attribute 'do'; instead: ppl.intervene(model, values)"
    """
    text = f"module {package!r} has no attribute {name!r}"
    if name in peer_names:
        return f"{text}; instead: {peer_names[name]}"
    return text + hint_near(name, public)
