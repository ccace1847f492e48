"""Declarations in the blocks of a Stan program, as far as its text shows them."""

import re

_NOISE = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|^\s*#[^\n]*', re.DOTALL | re.MULTILINE)
_BRACES = re.compile(r"\{[^{}]*\}")
_TYPE = re.compile(
    r"(?:[a-z]+_)*(?:int|real|vector|matrix|simplex|ordered|complex|corr|cov|tuple)\b"
)
_NUM_SIZES = {"int": 0, "real": 0, "vector": 1, "row_vector": 1, "matrix": 2}


def declarations(source: str, block: str) -> dict[str, tuple[str, ...] | None]:
    """Names declared at the top of a block, each with the text of its sizes.

    Sizes are None for types other than integers, reals, vectors, matrices and arrays of them.
    """
    found: dict[str, tuple[str, ...] | None] = {}
    for statement in _body(source, block).split(";"):
        found.update(_declared(statement.strip()))
    return found


def _body(source: str, block: str) -> str:
    """Text of a block without comments and inner braces; empty if the program has no such block."""
    text = " ".join(_NOISE.sub(" ", source).split())
    head = re.search(rf"(?<!transformed )\b{block} ?\{{", text)
    if head is None:
        return ""
    body, _ = _bracketed(text[head.end() - 1 :])
    while _BRACES.search(body):
        body = _BRACES.sub(";", body)
    return body


def _bracketed(text: str) -> tuple[str, str]:
    """Text in the bracket that begins a text, and text behind it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "{[(") - (letter in "}])")
        if not depth:
            return text[1:place], text[place + 1 :].strip()
    return text[1:], ""


def _sizes(text: str) -> tuple[str, ...]:
    """Sizes between brackets, one a comma outside of inner brackets."""
    found = [""]
    depth = 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return tuple(x.strip() for x in found)


def _declared(statement: str) -> dict[str, tuple[str, ...] | None]:
    """The name that a statement declares, or several without values."""
    sizes: tuple[str, ...] | None = ()
    rest = statement
    if re.match(r"array ?\[", rest):
        inner, rest = _bracketed(rest[rest.index("[") :])
        sizes = _sizes(inner)
    kind = _TYPE.match(rest)
    if kind is None:
        return {}
    rest = rest[kind.end() :].strip()
    if rest.startswith("<"):
        rest = rest[rest.index(">") + 1 :].strip() if ">" in rest else rest
    own: tuple[str, ...] = ()
    if rest.startswith(("[", "(")):
        inner, rest = _bracketed(rest)
        own = _sizes(inner)
    if _NUM_SIZES.get(kind[0]) != len(own):
        sizes = None
    names = rest.split("=")[:1] if "=" in rest else rest.split(",")
    found = {name.strip(): sizes if sizes is None else (*sizes, *own) for name in names}
    return {name: x for name, x in found.items() if re.fullmatch(r"\w+", name)}
