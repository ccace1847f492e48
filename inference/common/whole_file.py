"""Files that are written whole or not at all."""

import contextlib
import os
import pathlib
import secrets
import shutil
from collections.abc import Callable
from typing import Any


def write_whole(path: str | os.PathLike[str], write: Callable[[Any], None]) -> None:
    """Writes a new file, waits until the disk has it, and renames it to `path`.

    Until then, a former file keeps its content. A link stays a link. A file that is not regular,
    such as a pipe, is written in place.

    Args:
        path: The file.
        write: Writes the content to a binary file.

    Raises:
        OSError: if the file cannot be written; the message names `path`, and a former file is
            unchanged.
    """
    goal = pathlib.Path(os.path.realpath(path))
    try:
        if goal.exists() and not goal.is_file():
            with open(goal, "wb") as file:
                write(file)
            return
        partial = goal.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            with open(partial, "xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if goal.exists():
                shutil.copymode(goal, partial)
            os.replace(partial, goal)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(
            error.errno, f"{reason}: it cannot be written", os.fspath(path)
        ) from error
