"""Text in columns."""

from collections.abc import Collection, Sequence


def table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Rows with their columns aligned, those numbered in `right` at their end; empty ones go."""
    columns = [
        [cell.rjust(width) if i in right else cell.ljust(width) for cell in column]
        for i, column in enumerate(zip(*rows, strict=True))
        if (width := max(map(len, column)))
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))
