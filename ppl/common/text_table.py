"""Tables of text in aligned columns."""

from collections.abc import Collection, Sequence


def table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Rows as lines of aligned columns; columns in `right` align right, empty ones are dropped."""
    columns = [
        [cell.rjust(width) if i in right else cell.ljust(width) for cell in column]
        for i, column in enumerate(zip(*rows, strict=True))
        if (width := max(map(len, column)))
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))
