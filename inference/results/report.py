"""Report of a result: one file of HTML with its words, tables and pictures."""

import datetime
import html
import importlib.metadata
import os
import pathlib
import platform
import secrets
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.common.leaf_names import element_names, leading_labels, named_leaves, part_names
from inference.common.whole_file import write_whole
from inference.models.model_description import (
    ModelDescription,
    describe_model,
    why_not_single,
)
from inference.models.model_groups import ModelGroups, model_groups
from inference.results import report_pictures as pictures
from inference.results.psis_loo import log_weights_of, make_loo, psis_loo, words_on_draws
from inference.results.report_page import (
    facts,
    figure,
    heading,
    page,
    paragraph,
    table,
    verdict,
    wide,
)
from inference.results.summary import Summary
from inference.results.summary_table import html_table
from ppl.common.file_suffix import check_suffix

_MAX_ROWS = 300  # scalars of a summary that is shown whole
_MAX_LINES = 60  # scalars of the forest plot
_NUM_DOUBTFUL = 4  # scalars whose chains are shown
NUM_PRIOR_DRAWS = 200
_SEE_LOO = " See inference.loo(result, posterior, *args)."
_MAX_OBSERVATIONS = 10_000  # of a quick PSIS-LOO
_NUM_WORST = 5  # observations with the highest Pareto k
_WANTED = "observed_data", "log_likelihood", "posterior_predictive", "prior_predictive"


class ReportedModel(NamedTuple):
    """Parts of a report that come from the model.

    Attributes:
        described: Its graph and distributions.
        groups: Its data, and predictions of them.
        notes: Sentences on predictions that are left out.
        not_single: Why log probabilities of data are not of one observation each, by name.
    """

    described: ModelDescription
    groups: ModelGroups
    notes: tuple[str, ...]
    not_single: Mapping[str, str]


class Clock:
    """Seconds that parts of a report took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def measure(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a function, whose seconds are noted."""
        start = time.perf_counter()
        found = function(*args)
        self.seconds[name] = time.perf_counter() - start
        return found


def check_path(path: Any) -> pathlib.Path:
    """The path of a report, to which a file can be written.

    Raises:
        TypeError: if it is not a path.
        OSError: if it is a folder, if its folder does not exist, or if no file can be written.
        ValueError: if its name is that of another kind of file, as ``"report.pdf"``.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            "report: the first argument is the path of the file, as result.report('report.html', "
            f"posterior, *args), got {type(path).__name__}"
        )
    goal = pathlib.Path(path)
    advice = ", and print the page to PDF in a browser" if goal.suffix.lower() == ".pdf" else ""
    check_suffix("report", goal, "HTML", ("html", "htm"), advice)
    if goal.is_dir():
        example = str(goal / "report.html")
        raise IsADirectoryError(f"report: {str(goal)!r} is a folder. Name a file, as {example!r}")
    if not goal.parent.is_dir():
        raise FileNotFoundError(
            f"report: {str(goal)!r} cannot be written: there is no folder {str(goal.parent)!r}"
        )
    if not goal.exists() or goal.is_file():
        probe = pathlib.Path(os.path.realpath(goal)).with_name(f".{secrets.token_hex(8)}.partial")
        try:
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            reason = error.strerror or str(error)
            raise type(error)(
                error.errno, f"report: {reason}: it cannot be written", str(goal)
            ) from error
    return goal


def write_report(
    result: Any,
    path: Any,
    model: Callable[..., Any] | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    key: jax.Array | None,
    title: str | None,
) -> pathlib.Path:
    """Writes the report of a result; :meth:`inference.MCMCResult.report` describes it."""
    goal = check_path(path)
    clock = Clock()
    equal = result._equally_weighted()
    found = None
    if model is not None:  # first, as it checks that the draws are of the model
        groups, notes = clock.measure(
            "predictions", predict_groups, equal, model, args, kwargs, key
        )
        described = clock.measure(
            "graph and priors", describe_model, model, args, kwargs, equal.draws
        )
        not_single = why_not_single(model, args, kwargs)
        found = ReportedModel(described, groups, notes, not_single)
    summary = clock.measure("summary", result.summary)
    lacking = pictures.why_no_pictures()
    sections = [
        *sections_of_model(found),
        ("Summary", _summary_section(summary)),
        *clock.measure("pictures of draws", _draw_posterior, result, equal, summary, lacking),
        *clock.measure("predictive checks", draw_predictions, found, key, lacking),
        *clock.measure("cross-validation", _loo_section, found, equal, equal is not result),
        *_warm_up_section(result),
    ]
    about = summary.about or f"{summary.num_chains} chains x {summary.num_draws} draws"
    top = paragraph(about, "soft") + verdict(summary.problems, summary.verdict)
    return write_page(goal, title, found, result, top, sections, clock)


def write_page(
    goal: pathlib.Path,
    title: str | None,
    found: ReportedModel | None,
    result: Any,
    top: str,
    sections: Iterable[tuple[str, str]],
    clock: Clock,
) -> pathlib.Path:
    """Writes the page of a report, with facts of what was run, versions and times."""
    if title is None:
        name = "" if found is None else found.described.name
        title = f"Report on {name}" if name.isidentifier() else "Report"
    top += _facts(result)
    if found is None:
        top += paragraph(
            "Made without the model: report(path, posterior, *args, key=key) also shows the "
            "model's graph, its priors, and predictive checks.",
            "soft",
        )
    last = "Versions and times", _versions_section(clock.seconds)
    content = page(title, top, (*sections, last)).encode()
    write_whole(goal, lambda file: file.write(content))
    return goal


def predict_groups(
    result: Any,
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    key: Any,
    wanted: Collection[str] = _WANTED,
) -> tuple[ModelGroups, tuple[str, ...]]:
    """Data and predictions of a model, and the sentences of warnings, as of an improper prior."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = model_groups(result, model, args, kwargs, key, wanted, NUM_PRIOR_DRAWS, "report")
    return found, tuple(str(warning.message) for warning in caught)


def _facts(result: Any) -> str:
    """Facts of what was run."""
    made = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    rows = [
        ("result", type(result).__name__),
        *result._facts_of_run(),
        ("written", made),
    ]
    return facts(rows)


def sections_of_model(found: ReportedModel | None) -> Iterator[tuple[str, str]]:
    """Sections of the graph of a model, its priors and its likelihood."""
    if found is None:
        return
    described = found.described
    if not described.table:
        yield "Model", paragraph("The graph of this model is not known: it has mutable arrays.")
        return
    graph = f'<figure class="graph">{described.svg}</figure>' if described.svg else ""
    yield "Model", graph + wide(described.table)
    for kind, name in (("latent", "Priors"), ("observed", "Likelihood")):
        rows = [(site.name, site.distribution) for site in described.sites if site.kind == kind]
        if rows:
            note = "Parameters are numbers, their range over entries, or the sites that they "
            note += "depend on; f(...) is a function of sites."
            words = paragraph(note, "soft") if kind == "latent" else ""
            yield name, words + table(rows, head=("site", "distribution"), code=(1,))


def _summary_section(summary: Summary) -> str:
    num_shown = int((~summary.is_constant).sum())
    is_cut = num_shown > _MAX_ROWS
    words = ""
    if 0 < (constant := len(summary.names) - num_shown) < len(summary.names):
        verb = "entry is" if constant == 1 else "entries are"
        words += paragraph(f"{constant} {verb} constant, and not shown.", "soft")
    if is_cut:
        words += paragraph(
            f"Of {num_shown} scalars, the table shows the first and last entries of long sites.",
            "soft",
        )
    words += wide(html_table(summary, cut=is_cut), "numbers")
    if is_cut and np.isfinite(summary.rhat).any():
        worst = [summary.names[i] for i in _rank_doubtful(summary)[:10]]
        words += heading("The ten worst by R-hat and ESS")
        words += wide(html_table(summary.select(worst), cut=False), "numbers")
    return words


def _rank_doubtful(summary: Summary) -> np.ndarray:
    """Scalars in the order of doubt: their R-hat, and how few their effective draws are."""
    ess = np.fmin(summary.ess_bulk, summary.ess_tail)
    with np.errstate(divide="ignore"):
        doubt = np.fmax(summary.rhat - 1, 1 / ess)
    doubt = np.where(summary.is_constant | np.isnan(doubt), -np.inf, doubt)
    return np.argsort(-doubt, kind="stable")


def _scalar_draws(draws: Mapping[str, Any], summary: Summary, chosen: Any) -> dict[str, np.ndarray]:
    """Draws of some scalars of a summary by name, ``(chain, draw)``; only finite ones."""
    parts = {}
    for name, leaf in named_leaves(draws):
        x = np.asarray(leaf)
        pieces = (np.real(x), np.imag(x)) if np.iscomplexobj(x) else (x,)
        parts |= dict(zip(part_names(name, x.dtype), pieces, strict=True))
    found = {}
    for i in chosen:
        site = next(site for site in summary.sites if site.start <= i < site.stop)
        x = parts[site.name]
        values = x.reshape(*x.shape[:2], -1)[..., i - site.start].astype(np.float64)
        if np.isfinite(values).all():
            found[summary.names[i]] = values
    return found


def _draw_posterior(
    result: Any, equal: Any, summary: Summary, lacking: str
) -> list[tuple[str, str]]:
    """Sections of the intervals of all scalars, and of the chains of doubtful ones."""
    if lacking:
        return [("Pictures", paragraph(lacking))]
    moving = np.flatnonzero(~summary.is_constant)
    shown = moving
    words = ""
    if moving.size > _MAX_LINES:
        order = _rank_doubtful(summary)
        shown = np.sort(order[np.isin(order, moving)][:_MAX_LINES])
        words = paragraph(f"{_MAX_LINES} of {moving.size} scalars, the most doubtful.", "soft")
    sections = []
    draws = _scalar_draws(equal.draws, summary, shown)
    if draws:
        image = pictures.draw_forest(draws)
        caption = "Median, and intervals of the draws of all chains together"
        sections.append(("Intervals", words + figure(*image, caption)))
    for name, x, y, x_label, y_label in result._curves():
        image = pictures.draw_curve(x, y, x_label, y_label)
        sections.append(("Fit", figure(*image, name)))
    order = _rank_doubtful(summary)
    known = order[np.isfinite(summary.rhat[order])][:_NUM_DOUBTFUL]
    draws = _scalar_draws(equal.draws, summary, known)
    if draws and summary.num_chains > 1:
        is_divergent = np.asarray(getattr(result, "stats", {}).get("is_divergent", False))
        names = ", ".join(draws)
        traces = pictures.draw_traces(draws, is_divergent if is_divergent.any() else None)
        ranks = pictures.draw_ranks(draws)
        body = paragraph(f"The scalars with the highest R-hat or the lowest ESS: {names}.", "soft")
        marks = "; ticks below are divergences" if is_divergent.any() else ""
        body += figure(*traces, f"Density and draws of each chain{marks}")
        body += figure(*ranks, "Ranks of each chain's draws among all: alike if chains agree")
        sections.append(("Chains", body))
    return sections


def draw_predictions(
    found: ReportedModel | None, key: Any, lacking: str, source: str = "from the posterior"
) -> list[tuple[str, str]]:
    """Section of the predictive checks of each observed site; `source` is that of new data."""
    if found is None:
        return []
    groups = found.groups.groups
    data = groups.get("observed_data", {})
    notes = "".join(paragraph(note, "soft") for note in found.notes)
    if not data:
        return [("Predictive checks", paragraph("The model has no data.") + notes)]
    if lacking:
        return [("Predictive checks", notes)] if notes else []
    if key is None:
        words = "Predictions need a random key: report(path, posterior, *args, key=key)."
        return [("Predictive checks", paragraph(words))]
    body = ""
    for name, observed in data.items():
        body += heading(name)
        for group in ("posterior", "prior"):
            predicted = groups.get(f"{group}_predictive", {}).get(name)
            if predicted is None:
                continue
            image = pictures.draw_predictive(
                name,
                np.asarray(observed),
                np.asarray(predicted),
                found.groups.is_known.get(name),
                group,
            )
            where = source if group == "posterior" else "from the prior"
            body += figure(*image, f"Data, and data drawn anew {where}")
    return [("Predictive checks", body + notes)]


def _loo_section(
    found: ReportedModel | None, result: Any, has_weights: bool
) -> list[tuple[str, str]]:
    """Section of leave-one-out cross-validation by PSIS, with Pareto k of the observations."""
    if found is None or not (arrays := found.groups.groups.get("log_likelihood", {})):
        return []
    if has_weights:
        words = "Left out, as the draws have importance weights."
        return [("Cross-validation", paragraph(words + _SEE_LOO))]
    reasons = dict.fromkeys(x for name, x in found.not_single.items() if name in arrays)
    if reasons:
        words = f"Left out: {'; '.join(reasons)}."
        return [("Cross-validation", paragraph(words + _SEE_LOO))]
    sizes = [np.size(x) // np.prod(np.shape(x)[:2], dtype=int) for x in arrays.values()]
    if sum(sizes) > _MAX_OBSERVATIONS:
        words = f"Left out, as there are more than {_MAX_OBSERVATIONS} observations."
        return [("Cross-validation", paragraph(words + _SEE_LOO))]
    terms = []
    names = []
    for name, x in arrays.items():
        values = np.asarray(x)
        shape = values.shape[2:]
        mask = found.groups.masks["log_likelihood"].get(name, np.ones(shape, bool)).ravel()
        terms.append(values.reshape(*values.shape[:2], -1)[..., mask])
        labels = leading_labels(found.groups.labels.get(name, ()), len(shape))
        entries = element_names(name, shape, labels)
        names += [entry for entry, is_known in zip(entries, mask, strict=True) if is_known]
    log_likelihood = np.concatenate(terms, 2)
    loo = psis_loo(log_likelihood, log_weights_of(result))
    problems = words_on_draws(result, log_likelihood, names)
    estimate = make_loo(loo, tuple(names), result.draws, problems=problems)
    head, *rows = estimate._rows()
    about, words, *_ = estimate._notes()
    body = paragraph(about[0].upper() + about[1:], "soft")
    body += table(rows, head=head, numbers=(1, 2))
    body += verdict(estimate.problems, words)
    worst = np.argsort(-np.nan_to_num(loo.pareto_k, nan=np.inf), kind="stable")[:_NUM_WORST]
    rows = [(names[i], f"{loo.pareto_k[i]:.2f}", f"{loo.elpd[i]:z.2f}") for i in worst]
    body += heading("Observations with the highest Pareto k")
    body += table(rows, head=("observation", "Pareto k", "elpd"), numbers=(1, 2))
    return [("Cross-validation", body)]


def _warm_up_section(result: Any) -> Iterator[tuple[str, str]]:
    warmup = getattr(result, "warmup", None)
    if warmup is not None:
        yield "Warm-up", wide(f"<pre><code>{html.escape(repr(warmup))}</code></pre>")


def _versions_section(seconds: Mapping[str, float]) -> str:
    names = ("harvest-ppl", "jax", "jaxlib", "numpy", "arviz", "matplotlib")
    rows = [("python", platform.python_version())]
    for name in names:
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    rows.append(("platform", platform.platform()))
    rows.append(("device", ", ".join(sorted({x.device_kind for x in jax.local_devices()}))))
    words = heading("Seconds of this report")
    words += table([(name, f"{x:.1f}") for name, x in seconds.items()], numbers=(1,))
    return table(rows) + words
