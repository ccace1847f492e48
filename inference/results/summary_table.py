"""Summaries as text and as HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from inference.results.summary import Summary, SummarySite

_WIDTH = 88  # columns of the notes
_SMALL = 12  # entries of a site that is printed whole
_FIRST, _LAST = 3, 1  # entries of a long site that are printed
_MAX_ROWS = 60  # rows of a printed table
DIAGNOSTICS = {
    "mcse_mean": "MCSE",
    "ess_bulk": "ESS bulk",
    "ess_tail": "ESS tail",
    "rhat": "R-hat",
}


class _Gap(NamedTuple):
    """Scalars that are left out of a long site."""

    name: str
    places: list[int]


def columns(summary: Summary) -> Iterator[tuple[str, np.ndarray]]:
    """Headings and values of the columns to print."""
    yield "mean", summary.mean
    yield "sd", summary.sd
    for level, values in zip(summary.levels, summary.quantiles, strict=True):
        yield f"{100 * level:g}%", values
    for field, heading in DIAGNOSTICS.items():
        if field in summary.columns:
            yield heading, getattr(summary, field)


def as_text(summary: Summary, *, cut: bool) -> str:
    """Table as text, with the problems below it."""
    entries = list(_entries(summary, cut))
    cells = [["", *(heading for heading, _ in columns(summary))], *_rows(summary, entries)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first, *body = (
        "  ".join([name.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]).rstrip()
        for name, *rest in cells
    )
    rows = iter(body)
    lines = [next(rows) if isinstance(entry, int) else _say(summary, entry) for entry in entries]
    return "\n".join([first, *lines, "", *_notes(summary)])


def as_html(summary: Summary) -> str:
    """Table as HTML, with the problems below it."""
    entries = list(_entries(summary, cut=True))
    rows, num = iter(_rows(summary, entries)), 1 + len(list(columns(summary)))
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading, _ in columns(summary))
    lines = [f"<table><thead><tr><th></th>{head}</tr></thead><tbody>"]
    for entry in entries:
        if isinstance(entry, int):
            name, *cells = map(html.escape, next(rows))
            lines.append(f"<tr><th>{name}</th>{''.join(f'<td>{x}</td>' for x in cells)}</tr>")
        else:
            text = html.escape(_say(summary, entry))
            lines.append(f'<tr><td colspan="{num}" style="text-align:left">{text}</td></tr>')
    notes = "<br>".join(html.escape(note) for note in _notes(summary, width=None))
    return "".join([*lines, f"</tbody></table><p>{notes}</p>"])


def _entries(summary: Summary, cut: bool) -> Iterator[int | _Gap | str]:
    """Scalars, gaps in long sites, and lines, as they stand below the headings."""
    shown = [(site, _places(summary, site)) for site in summary.sites]
    num_left = sum(len(places) for _, places in shown)
    # Latent sites before deterministic ones, and small ones before long ones.
    shown.sort(key=lambda pair: (pair[0].is_deterministic, len(pair[1]) > _SMALL))
    num_rows, has_heading = 0, False
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


def _places(summary: Summary, site: SummarySite) -> list[int]:
    """Scalars of a site that vary; all of them if nothing does, as in a chain that is stuck."""
    everything = summary.is_constant.all()
    return [i for i in range(site.start, site.stop) if everything or not summary.is_constant[i]]


def _say(summary: Summary, entry: _Gap | str) -> str:
    if isinstance(entry, str):
        return entry
    places = entry.places
    first, last = (summary.names[i].removeprefix(entry.name)[1:-1] for i in (places[0], places[-1]))
    means = summary.mean[places]
    text = f"{entry.name}[{first} .. {last}]: mean {means.min():.3g} to {means.max():.3g}"
    ess = np.fmin(summary.ess_bulk, summary.ess_tail)[places]
    if np.isfinite(summary.rhat[places]).any():
        text += f", R-hat at most {np.nanmax(summary.rhat[places]):.3f}"
    if np.isfinite(ess).any():
        text += f", ESS at least {np.nanmin(ess):.0f}"
    return text


def _rows(summary: Summary, entries: list[int | _Gap | str]) -> list[list[str]]:
    """Names and cells of the scalars among the entries; the numbers of a column have one format."""
    shown = [entry for entry in entries if isinstance(entry, int)]
    texts = [[summary.names[i] for i in shown]]
    decimals = _decimals(summary.sd[shown], summary.mean[shown])
    for heading, values in columns(summary):
        x = values[shown]
        if heading == "MCSE":
            texts.append(_format(x, _decimals(x, x, digits=2)))
        elif heading.startswith("ESS"):
            texts.append([f"{value:.0f}" for value in x])
        elif heading == "R-hat":
            texts.append([f"{value:.3f}" for value in x])
        else:
            texts.append(_format(x, decimals))
    return [list(row) for row in zip(*texts, strict=True)]


def _decimals(scales: np.ndarray, sizes: np.ndarray, digits: int = 3) -> int | None:
    """Decimals that give every scale some significant digits; None if they take too much room."""
    scales = np.where(np.isfinite(scales) & (scales > 0), scales, np.abs(sizes))
    scales = scales[np.isfinite(scales) & (scales > 0)]
    if not scales.size:
        return 2
    needed = digits - 1 - int(np.floor(np.log10(scales.min())))
    largest = np.abs(sizes[np.isfinite(sizes)]).max(initial=scales.max())
    return None if needed > 6 or largest >= 1e7 else max(needed, 0)


def _format(values: np.ndarray, decimals: int | None) -> list[str]:
    texts = [f"{x:.3g}" if decimals is None else f"{x:.{decimals}f}" for x in values]
    return [text.lstrip("-") if float(text) == 0 else text for text in texts]


def _notes(summary: Summary, width: int | None = _WIDTH) -> list[str]:
    """The lines below the table: how the draws were made, what is left out, and the problems."""
    chains, draws = _count("chain", summary.num_chains), _count("draw", summary.num_draws)
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
