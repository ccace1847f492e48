"""Pages of the documentation that run: `python -m tests.guides PAGE...` writes what they print.

A page is Markdown. Its blocks of Python are one program, from top to bottom. A block of text right
below one holds what it prints. Pictures that the program saves go beside the page.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator

DOCS = pathlib.Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")

# Pages whose blocks are run elsewhere: docstrings by doctest, mistakes by tests/language.
RUN_ELSEWHERE = ("distributions/", "mistakes.md")


def pages() -> list[str]:
    """All pages with a block of Python, relative to the folder of the documentation."""
    found = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")))
    own = (name for name in found if not name.startswith(RUN_ELSEWHERE))
    return [name for name in own if BLOCK.search((DOCS / name).read_text())]


def run(text: str) -> Iterator[tuple[str, str | None]]:
    """Run the blocks of a page; yields, after each, what it printed and what the page says."""
    os.environ.update(MPLBACKEND="agg", SOURCE_DATE_EPOCH="0")  # no windows, no dates in pictures
    namespace: dict[str, object] = {"__name__": "guide"}
    for code, said in (match.groups() for match in BLOCK.finditer(text)):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        yield printed.getvalue(), said


def rewrite(page: pathlib.Path) -> None:
    """Run a page in an empty folder, write what it prints into it and its pictures beside it."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        printed = iter([now for now, said in run(text) if said is not None])
        text = BLOCK.sub(
            lambda m: (
                m[0].replace(f"```text\n{m[2]}```", f"```text\n{next(printed)}```")
                if m[2] is not None
                else m[0]
            ),
            text,
        )
        for picture in PICTURE.findall(text):
            if pathlib.Path(picture).exists():
                shutil.copy(picture, page.parent / picture)
    page.write_text(text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(pathlib.Path(name).resolve())
