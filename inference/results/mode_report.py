"""Report of a mode: one file of HTML with its values, and the model in words and as a graph."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.common.target import NamedSite
from inference.models.model_description import describe_model, points_near
from inference.models.same_model import check_mode
from inference.results import report_pictures as pictures
from inference.results.report import (
    NUM_PRIOR_DRAWS,
    Clock,
    ReportedModel,
    check_path,
    draw_predictions,
    predict_groups,
    sections_of_model,
    write_page,
)
from inference.results.report_page import paragraph, table, verdict

_MAX_ROWS = 300  # scalars that are shown
_WANTED = "observed_data", "posterior_predictive", "prior_predictive"


class _Copies(NamedTuple):
    """Draws that are all at the mode, to predict data there."""

    draws: dict[str, Any]
    sites: tuple[NamedSite, ...]


def write_mode_report(
    result: Any,
    path: Any,
    model: Callable[..., Any] | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    key: jax.Array | None,
    title: str | None,
) -> pathlib.Path:
    """Writes the report of a mode; :meth:`inference.OptimizeResult.report` describes it."""
    goal = check_path(path)
    clock = Clock()
    found = None
    if model is not None:
        target = check_mode("report", result, model, args, kwargs)

        def repeat(x):
            return np.broadcast_to(x, (1, NUM_PRIOR_DRAWS, *np.shape(x)))

        copies = _Copies(jax.tree.map(repeat, result.values), result.sites)
        groups, notes = clock.measure(
            "predictions", predict_groups, copies, model, args, kwargs, key, _WANTED
        )
        near = points_near(target, result.position)
        described = clock.measure("graph and priors", describe_model, model, args, kwargs, near)
        found = ReportedModel(described, groups, notes, {})
    summary = result.summary()
    rows = [
        (name, f"{value:.6g}") for name, value in zip(summary.names, summary.value, strict=True)
    ]
    words = table(rows[:_MAX_ROWS], head=("scalar", "value"), numbers=(1,))
    if len(rows) > _MAX_ROWS:
        words = paragraph(f"The first {_MAX_ROWS} of {len(rows)} scalars.", "soft") + words
    lacking = pictures.why_no_pictures()
    sections = [
        *sections_of_model(found),
        ("Estimates", words),
        *clock.measure(
            "predictive checks", draw_predictions, found, key, lacking, "at these estimates"
        ),
    ]
    top = paragraph(summary.about, "soft") + verdict(summary.problems, "No problem found.")
    return write_page(goal, title, found, result, top, sections, clock)
