"""Widths of texts in a sans-serif font, where none is at hand to measure them."""

import unicodedata

# Hundredths of the size of the font; upper bounds for the usual sans-serif fonts.
_CHARS = {
    30: "'IJijl",
    35: " ,./:;\\|",
    40: "()-[]ft",
    45: "!r",
    50: '"*_`',
    55: "?csz",
    60: "FLkvxy",
    65: "$0123456789EPSTYabdeghnopqu{}",
    70: "ABCKRVXZ",
    75: "NU",
    80: "&DGHOQ",
    85: "#+<=>^w~",
    90: "M",
    100: "%@Wm",
}
_WIDTHS = {char: width for width, chars in _CHARS.items() for char in chars}
_DEFAULT = 75
_WIDE = 105


def text_width(text: str, size: float) -> float:
    """An upper bound of the width of a line of text, in the units of the size of its font."""
    return sum(map(_width, text)) * size / 100


def _width(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return _WIDE
    return _WIDTHS.get(char, 100 if char == "…" else _DEFAULT)
