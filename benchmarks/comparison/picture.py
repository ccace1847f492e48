"""Pictures of effective draws a second: by model, or against the number of chains."""

import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from benchmarks.comparison import report

STYLES = {
    "ppl": ("#c1272d", "o"),
    "NumPyro": ("#0072b2", "s"),
    "BlackJAX": ("#333333", "^"),
    "nutpie": ("#e69f00", "D"),
}
matplotlib.rcParams.update({"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 10})


def draw(path: pathlib.Path, entries: Sequence[dict[str, Any]]) -> None:
    entries = [entry for entry in entries if "error" not in entry]
    if not entries:
        return
    several = len({entry["chains"] for entry in entries}) > 1
    figure = by_chains(entries) if several else by_model(entries)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")


def by_model(entries: Sequence[dict[str, Any]]) -> Figure:
    """A row for each model; hollow marks are calls that compile again."""
    models = list(dict.fromkeys(entry["problem"] for entry in entries))
    figure = Figure(figsize=(7.5, 1.4 + 0.42 * len(models)))
    axes = figure.subplots()
    for depth, (tool, (color, marker)) in enumerate(STYLES.items()):
        chosen = [entry for entry in entries if entry["tool"] == tool]
        style: dict[str, Any] = {
            "color": color,
            "marker": marker,
            "linestyle": "none",
            "markersize": 8,
        }
        style["zorder"] = 9 - depth  # the first one lies on top
        places = [models.index(entry["problem"]) for entry in chosen]
        if chosen:
            rates = [report.rate(entry, "exec_s") for entry in chosen]
            axes.plot(rates, places, label=tool, **style)
        again = [entry for entry in chosen if entry["is_compiled_again"]]
        if again:
            rates = [report.rate(entry, "again_s") for entry in again]
            places = [models.index(entry["problem"]) for entry in again]
            label = f"{tool}, as called"
            axes.plot(rates, places, label=label, markerfacecolor="white", **style)
    axes.set_xscale("log")
    axes.set_yticks(range(len(models)), models)
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.grid(alpha=0.3)
    axes.set_xlabel("smallest effective sample size per second, warm-up included")
    axes.set_title(report.title(entries[0]["chains"], entries), loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return figure


def by_chains(entries: Sequence[dict[str, Any]]) -> Figure:
    """A panel for each model."""
    models = list(dict.fromkeys(entry["problem"] for entry in entries))
    chains = sorted({entry["chains"] for entry in entries})
    figure = Figure(figsize=(3.4 * len(models) + 0.6, 3.4), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for axes, model in zip(panels, models, strict=True):
        for tool, (color, marker) in STYLES.items():
            chosen = [x for x in entries if (x["problem"], x["tool"]) == (model, tool)]
            if chosen:
                places = [entry["chains"] for entry in chosen]
                rates = [report.rate(entry, "exec_s") for entry in chosen]
                axes.plot(places, rates, color=color, marker=marker, label=tool)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(chains, map(str, chains))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.set_title(model, loc="left")
        axes.set_xlabel("chains")
    panels[0].set_ylabel("smallest ESS per second")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    return figure
