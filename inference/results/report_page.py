"""Page of a report: HTML of sections, tables and pictures, in one file without a network."""

import base64
import html
from collections.abc import Collection, Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6472; --paper: #fff; --line: #d9dde4;
  --band: #f5f7fa; --good: #17743b; --bad: #b3261e; --accent: #2457a6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ec; --soft: #9aa4b2; --paper: #14181f;
  --line: #343b47; --band: #1c222c; --good: #5fce8a; --bad: #ff8a80; --accent: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 62rem; color: var(--ink);
  background: var(--paper); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0 0 .2rem; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.6rem 0 .8rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line);
  font-size: 1.25rem; }
h3 { margin: 1.6rem 0 .5rem; font-size: 1rem; }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--accent); text-decoration: none; }
nav { margin: 1rem 0 0; font-size: .9rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr));
  gap: .5rem 1.5rem; margin: 1.2rem 0 0; font-size: .9rem; }
.facts dt { color: var(--soft); font-size: .8rem; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.verdict { margin: 1.4rem 0 0; padding: .8rem 1rem; border-left: 4px solid; border-radius: 4px;
  background: var(--band); }
.good { border-color: var(--good); } .bad { border-color: var(--bad); }
.good strong, strong.good { color: var(--good); } .bad > strong, strong.bad { color: var(--bad); }
.verdict ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.verdict li { margin: .35rem 0; max-width: 52rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .8rem .22rem 0; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid var(--line); color: var(--soft); font-weight: 600;
  white-space: nowrap; }
tbody th { font-weight: 500; white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--band); }
.numbers td, .numbers thead th + th, .number { text-align: right; white-space: nowrap; }
.numbers td[colspan] { color: var(--soft); white-space: normal; }
code { font: .86em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
figure { margin: 1rem 0 1.4rem; }
figure img { display: block; max-width: 100%; height: auto; padding: .4rem; border-radius: 6px;
  background: #fff; }
figure svg { max-width: 100%; height: auto; }
pre { margin: 0; }
.graph svg { padding: .4rem; border-radius: 6px; background: #fff; color: #1c2330; }
@media print { nav { display: none; } body { max-width: none; } }
"""


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of text."""
    chosen = f' class="{style}"' if style else ""
    return f"<p{chosen}>{html.escape(text)}</p>"


def heading(text: str) -> str:
    """A heading within a section."""
    return f"<h3>{html.escape(text)}</h3>"


def table(
    rows: Sequence[Sequence[str]],
    *,
    head: Sequence[str] = (),
    numbers: Collection[int] = (),
    code: Collection[int] = (),
) -> str:
    """A table whose first column names its rows.

    Args:
        rows: Texts of the cells.
        head: Headings of the columns.
        numbers: Columns of numbers, which align right.
        code: Columns of program text.
    """

    def cell(i: int, text: str, tag: str) -> str:
        style = ' class="number"' if i in numbers else ""
        words = html.escape(text)
        words = f"<code>{words}</code>" if i in code and tag == "td" else words
        return f"<{tag}{style}>{words}</{tag}>"

    top = "".join(cell(i, text, "th") for i, text in enumerate(head))
    top = f"<thead><tr>{top}</tr></thead>" if head else ""
    body = "".join(
        f"<tr>{''.join(cell(i, text, 'td' if i else 'th') for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    return wide(f"<table>{top}<tbody>{body}</tbody></table>")


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Facts by name, in as many columns as there is room for."""
    cells = (
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>"
        for name, text in rows
    )
    return f'<dl class="facts">{"".join(cells)}</dl>'


def wide(table: str, style: str = "") -> str:
    """A table that scrolls if the page is narrower."""
    return f'<div class="wide{f" {style}" if style else ""}">{table}</div>'


def figure(image: bytes, kind: str, caption: str) -> str:
    """A picture in the page itself.

    Args:
        image: Content of its file.
        kind: Its media type, such as ``"image/png"``.
        caption: Words below it.
    """
    words = html.escape(caption)
    data = base64.b64encode(image).decode()
    return (
        f'<figure><img src="data:{kind};base64,{data}" alt="{words}">'
        f"<figcaption>{words}</figcaption></figure>"
    )


def verdict(problems: Sequence[str], words: str) -> str:
    """The problems, or the words that there is none."""
    if not problems:
        word, _, rest = words.partition(":")
        rest = html.escape(f": {rest.strip()}" if rest else "")
        return f'<div class="verdict good"><strong>{html.escape(word)}</strong>{rest}</div>'
    count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
    items = "".join(f"<li>{html.escape(problem)}</li>" for problem in problems)
    return f'<div class="verdict bad"><strong>{count}</strong><ul>{items}</ul></div>'


def page(title: str, top: str, sections: Iterable[tuple[str, str]]) -> str:
    """The page.

    Args:
        title: Title of the page, as text.
        top: HTML below the title.
        sections: Title, as text, and HTML of each section.
    """
    found = list(sections)
    links = "".join(
        f'<a href="#part-{i}">{html.escape(name)}</a>' for i, (name, _) in enumerate(found)
    )
    body = "".join(
        f'<section id="part-{i}"><h2>{html.escape(name)}</h2>{content}</section>\n'
        for i, (name, content) in enumerate(found)
    )
    words = html.escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{words}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n<h1>{words}</h1>\n{top}\n<nav>{links}</nav>\n{body}</body>\n</html>\n"
    )
