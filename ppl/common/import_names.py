"""Import names of this distribution that something else on the path has taken."""

import importlib.util
import pathlib

DISTRIBUTION = "harvest-ppl"
PACKAGES = ("distributions", "inference")


def check_import_names() -> None:
    """Check that Python finds the packages `distributions` and `inference` of this library.

    A file `inference.py` beside a script hides our package, and so does a package of this name that
    another distribution installs. The `__init__` of each of our packages names our distribution,
    for its version.

    Raises:
        ImportError: If either name belongs to something else; the message says to which file.
    """
    for name in PACKAGES:
        file = _file_of(name)
        if file is not None and DISTRIBUTION.encode() not in file.read_bytes():
            raise ImportError(
                f"import ppl: Python takes the name {name!r} for {file}, which is not the package "
                f"{name!r} of {DISTRIBUTION}. Rename it if it is yours. If another distribution "
                f"has installed it, uninstall that one and reinstall {DISTRIBUTION}."
            )


def _file_of(name: str) -> pathlib.Path | None:
    """The file that Python runs to import `name`, or has run; `None` without a readable file."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module without a spec: something made it by hand
        return None
    origin = spec and spec.origin
    return pathlib.Path(origin) if origin and pathlib.Path(origin).is_file() else None
