"""Tables with notes below them, as text and as HTML."""

import abc
import html
import textwrap
from collections.abc import Sequence
from typing import ClassVar

from inference.common.peer_names import OF_TABLES, ExplainsAttributes
from inference.common.saved import Saved

_WIDTH = 88  # columns of the notes


class Table(ExplainsAttributes, Saved, abc.ABC):
    """Base of results that print as a table, that a notebook shows as one, and that files hold.

    A dataclass that inherits from it says ``repr=False``.
    """

    _instead: ClassVar[dict[str, str]] = OF_TABLES

    def __str__(self) -> str:
        """Rows and notes as text."""
        return as_text(self._rows(), self._notes())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return as_html(self._rows(), self._notes())

    @abc.abstractmethod
    def _rows(self) -> list[list[str]]:
        """Rows of cells, the headings first."""

    @abc.abstractmethod
    def _notes(self) -> list[str]:
        """Words below the rows."""


def as_text(rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Rows as aligned columns, of which the first holds names, and the notes below."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    filled = [textwrap.fill(note, _WIDTH, subsequent_indent="  ") for note in notes]
    return "\n".join([*lines, "", *filled])


def as_html(rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Rows as a table of HTML, the first one as its head, and the notes below."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows[1:]
    )
    words = "<br>".join(map(html.escape, notes))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{words}</p>"
