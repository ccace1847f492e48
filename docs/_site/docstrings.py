"""An extension of Griffe: roles of reStructuredText in docstrings become Markdown and MathML."""

import re
import textwrap

import griffe
from latex2mathml.converter import convert

ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([^`]+)`")
MATH = re.compile(r":math:`([^`]+)`")
DISPLAY = re.compile(r"^( *)\.\. math::((?:.*\n?)(?:\1 +.*\n?|\n(?=\1 ))*)", re.MULTILINE)


def formula(text: str, display: str) -> str:
    """The MathML of a formula in LaTeX, on one line."""
    return convert(" ".join(text.split()), display=display).replace("\n", "")


def displayed(match: re.Match[str]) -> str:
    """A formula in a paragraph of its own, at the indentation of its directive."""
    mathml = formula(textwrap.dedent(match[2]), "block")
    return f"\n{match[1]}<div>{mathml}</div>\n\n"


def as_markdown(text: str) -> str:
    """A docstring without roles, its example under the title that Griffe knows."""
    text = DISPLAY.sub(displayed, text)
    # In a span, as Markdown takes a line that begins with <math> for a block.
    text = MATH.sub(lambda match: f"<span>{formula(match[1], 'inline')}</span>", text)
    text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
    return ROLE.sub(r"`\1`", text)


class Roles(griffe.Extension):
    """Rewrites each docstring once it has been read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Put the Markdown in place of the docstring."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
