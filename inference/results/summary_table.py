"""Summaries as text and as HTML."""

import html
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inference.results.summary_columns import decimals_of, print_rhat
from inference.results.summary_data import SummaryData, SummarySite

_WIDTH = 88  # columns of the notes
_SMALL = 12  # maximum number of entries of a site that is printed whole
_FIRST = 3  # entries of a long site that are printed
_LAST = 1  # and at its end
_MAX_ROWS = 60  # rows of a printed table


class _Gap(NamedTuple):
    """Scalars that are left out of a long site."""

    name: str
    places: list[int]


def as_text(summary: SummaryData, *, cut: bool) -> str:
    """Table as text, with the problems below it."""
    entries = list(_entries(summary, cut))
    cells = [["", *_headings(summary)], *_rows(summary, entries)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first, *body = (
        "  ".join([name.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]).rstrip()
        for name, *rest in cells
    )
    rows = iter(body)
    lines = [next(rows) if isinstance(entry, int) else _say(summary, entry) for entry in entries]
    return "\n".join([first, *lines, "", *_notes(summary)])


def as_html(summary: SummaryData) -> str:
    """Table as HTML, with the problems below it."""
    notes = "<br>".join(html.escape(note) for note in _notes(summary, width=None))
    return f"{html_table(summary, cut=True)}<p>{notes}</p>"


def html_table(summary: SummaryData, *, cut: bool) -> str:
    """Table as HTML without the problems."""
    entries = list(_entries(summary, cut))
    rows = iter(_rows(summary, entries))
    headings = _headings(summary)
    num = 1 + len(headings)
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    lines = [f"<table><thead><tr><th></th>{head}</tr></thead><tbody>"]
    for entry in entries:
        if isinstance(entry, int):
            name, *cells = map(html.escape, next(rows))
            lines.append(f"<tr><th>{name}</th>{''.join(f'<td>{x}</td>' for x in cells)}</tr>")
        else:
            text = html.escape(_say(summary, entry))
            lines.append(f'<tr><td colspan="{num}" style="text-align:left">{text}</td></tr>')
    return "".join([*lines, "</tbody></table>"])


def _headings(summary: SummaryData) -> list[str]:
    return [column.heading for column, _ in summary.printed_columns()]


def _entries(summary: SummaryData, cut: bool) -> Iterator[int | _Gap | str]:
    """Scalars, gaps in long sites, and lines, in the order of the printed table."""
    shown = [(site, _places(summary, site)) for site in summary.sites]
    num_left = sum(len(places) for _, places in shown)
    # Latent sites before deterministic sites, and short sites before long sites.
    shown.sort(key=lambda pair: (pair[0].is_deterministic, len(pair[1]) > _SMALL))
    num_rows = 0
    has_heading = False
    for i, (site, places) in enumerate(shown):
        if cut and num_rows >= _MAX_ROWS:
            rest = [other.name for other, left in shown[i:] if left]
            if not rest:
                break
            names = rest[0] if len(rest) == 1 else f"{rest[0]} to {rest[-1]}"
            yield f"... and {len(rest)} more sites ({names}); table() shows all {num_left} scalars"
            break
        if site.is_deterministic and not has_heading and places:
            yield "deterministic:"
            has_heading = True
        if cut and len(places) > _SMALL:
            yield from places[:_FIRST]
            yield _Gap(site.name, places[_FIRST:-_LAST])
            yield from places[-_LAST:]
            num_rows += _FIRST + 1 + _LAST
        else:
            yield from places
            num_rows += len(places)


def _places(summary: SummaryData, site: SummarySite) -> list[int]:
    """Scalars of a site that vary; all its scalars if no site varies, as in a stuck chain."""
    everything = summary.is_constant.all()
    return [i for i in range(site.start, site.stop) if everything or not summary.is_constant[i]]


def _say(summary: SummaryData, entry: _Gap | str) -> str:
    if isinstance(entry, str):
        return entry
    places = entry.places
    first, last = (summary.names[i].removeprefix(entry.name)[1:-1] for i in (places[0], places[-1]))
    means = summary.mean[places]
    text = f"{entry.name}[{first} .. {last}]: mean {means.min():.3g} to {means.max():.3g}"
    ess = np.fmin(summary.ess_bulk, summary.ess_tail)[places]
    if np.isfinite(summary.rhat[places]).any():
        text += f", R-hat at most {print_rhat(np.nanmax(summary.rhat[places], keepdims=True))[0]}"
    if np.isfinite(ess).any():
        text += f", ESS at least {np.nanmin(ess):.0f}"
    return text


def _rows(summary: SummaryData, entries: list[int | _Gap | str]) -> list[list[str]]:
    """Names and cells of the scalars among the entries; the numbers of a column have one format."""
    shown = [entry for entry in entries if isinstance(entry, int)]
    texts = [[summary.names[i] for i in shown]]
    decimals = decimals_of(summary.sd[shown], summary.mean[shown])
    for column, values in summary.printed_columns():
        texts.append(column.print(values[shown], decimals))
    return [list(row) for row in zip(*texts, strict=True)]


def _notes(summary: SummaryData, width: int | None = _WIDTH) -> list[str]:
    """The lines below the table: numbers of draws and of constant entries, and the problems."""
    chains = _count("chain", summary.num_chains)
    draws = _count("draw", summary.num_draws)
    notes = [summary.about or f"{chains} x {draws}"]
    constant = int(summary.is_constant.sum())
    if 0 < constant < len(summary.names):
        noun = "entry is" if constant == 1 else "entries are"
        notes.append(f"{constant} {noun} constant, and not shown.")
    notes += [f"! {problem}" for problem in summary.problems] or [summary.verdict]
    if width is None:
        return notes
    return [textwrap.fill(note, width, subsequent_indent="  ") for note in notes]


def _count(noun: str, number: int) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
