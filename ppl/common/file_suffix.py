"""Check of the name of a file against what is written to it."""

import os
import pathlib

# Names that readers take for another kind of file; any other ending, or none, says nothing.
_KNOWN = frozenset(
    (
        *("bmp", "eps", "gif", "jpeg", "jpg", "pdf", "png", "ps", "svg", "tif", "tiff", "webp"),
        *("csv", "feather", "h5", "hdf5", "json", "nc", "npy", "npz", "parquet", "pickle", "pkl"),
        *("doc", "docx", "dot", "htm", "html", "ipynb", "md", "odt", "py", "rst", "tex", "txt"),
        *("gz", "tar", "xls", "xlsx", "xml", "yaml", "yml", "zarr", "zip"),
    )
)


def check_suffix(
    where: str, path: str | os.PathLike[str], kind: str, suffixes: tuple[str, ...], advice: str = ""
) -> None:
    """Checks that the name of a file does not promise another kind of content.

    Args:
        where: Name of the function that errors name.
        path: The file.
        kind: What is written, in words.
        suffixes: Endings of its name without dots, the usual one first.
        advice: How to get other kinds.

    Raises:
        ValueError: if the name ends as that of another kind of file.

    Example:
        >>> check_suffix("report", "a.html", "HTML", ("html", "htm"))
        >>> check_suffix("report", "a.pdf", "HTML", ("html", "htm"))
        Traceback (most recent call last):
        ValueError: report: 'a.pdf' is the name of a pdf file, and HTML is written: write 'a.html'
    """
    goal = pathlib.Path(path)
    suffix = goal.suffix.removeprefix(".")
    if suffix.lower() in _KNOWN and suffix.lower() not in suffixes:
        better = str(goal.with_suffix(f".{suffixes[0]}"))
        raise ValueError(
            f"{where}: {str(goal)!r} is the name of a {suffix} file, and {kind} is written: write "
            f"{better!r}{advice}"
        )
