"""Tables of text in aligned columns, and as HTML."""

import html
from collections.abc import Collection, Sequence


def table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Rows as lines of aligned columns; columns in `right` align right, empty ones are dropped."""
    columns = [
        [cell.rjust(width) if i in right else cell.ljust(width) for cell in column]
        for i, column in enumerate(zip(*rows, strict=True))
        if (width := max(map(len, column)))
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def html_table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Rows as a table of HTML, the first one as its head; otherwise as `table`."""
    head, *body = rows
    shown = [i for i, column in enumerate(zip(*body, strict=True)) if any(column)]

    def line(row: Sequence[str], tag: str) -> str:
        cells = (
            f'<{tag} style="text-align:{"right" if i in right else "left"}">'
            f"{html.escape(row[i])}</{tag}>"
            for i in shown
        )
        return f"<tr>{''.join(cells)}</tr>"

    lines = "".join(line(row, "td") for row in body)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{lines}</tbody></table>"
