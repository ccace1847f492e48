"""Reports of a comparison: JSON, a Markdown table and a picture."""

import importlib.util
import json
import math
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

Entry = dict[str, Any]

COLUMNS = [
    "model",
    "tool",
    "float",
    "first s",
    "again s",
    "exec s",
    "warm-up + draw gradients",
    "us / gradient",
    "executed / useful",
    "min ESS",
    "R-hat",
    "ESS/s exec",
    "ESS/s again",
    "z",
]


def write(path: pathlib.Path, head: dict[str, Any], entries: Sequence[Entry]) -> None:
    """Writes `path`.json, `path`.md and, if matplotlib is installed, `path`.svg."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"made": head, "entries": [rounded(entry) for entry in entries]}
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(head, entries))
    if importlib.util.find_spec("matplotlib"):
        from benchmarks.comparison.picture import draw

        draw(path.with_suffix(".svg"), entries)


def rate(entry: Entry, times: str) -> float:
    """Effective draws a second."""
    return statistics.median(entry["min_ess"]) / statistics.median(entry[times])


def time_of_gradient(entry: Entry) -> float:
    """Microseconds of execution for a gradient of any chain."""
    gradients = entry["warmup_gradients"] + entry["draw_gradients"]
    return 1e6 * statistics.median(entry["exec_s"]) / gradients if gradients else math.nan


def markdown(head: dict[str, Any], entries: Sequence[Entry]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    devices = sorted({entry["device"] for entry in entries if "device" in entry})
    parts = [
        f"`{head['command']}`, {head['date'][:10]}\n",
        f"Python {head['python']}, {versions}; {head['platform']}, {head['cores']} cores; "
        f"device: {', '.join(devices)}\n",
    ]
    for chains in sorted({entry["chains"] for entry in entries}):
        chosen = [entry for entry in entries if entry["chains"] == chains]
        parts.append(f"## {title(chains, chosen)}\n\n{table(chosen)}\n{ratios(chosen)}")
    return "\n".join([*parts, *notes(entries)]) + "\n"


def title(chains: int, entries: Sequence[Entry]) -> str:
    counts = next((x for x in entries if "num_draws" in x), None)
    name = f"{chains} chain" + "s" * (chains != 1)
    return (
        f"{name} of {counts['num_warmup']} + {counts['num_draws']} iterations" if counts else name
    )


def notes(entries: Sequence[Entry]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if entry.get("note"):
            names = found.setdefault((entry["tool"], entry["note"]), [])
            names += [entry["problem"]] * (entry["problem"] not in names)
    return [f"- {tool}, {note}: {', '.join(names)}." for (tool, note), names in found.items()]


def table(entries: Sequence[Entry]) -> str:
    rows = [COLUMNS, ["---"] * 2 + ["---:"] * (len(COLUMNS) - 2)]
    before = None
    for entry in entries:
        model = entry["problem"] if entry["problem"] != before else ""
        rows.append([model, entry["tool"], *cells(entry)])
        before = entry["problem"]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells(entry: Entry) -> list[str]:
    if "error" in entry:
        return [entry["error"].replace("|", "/"), *[""] * (len(COLUMNS) - 3)]
    z = entry.get("z")
    return [
        str(entry["float"]),
        f"{entry['first_s']:.2f}",
        f"{statistics.median(entry['again_s']):.3f}",
        f"{statistics.median(entry['exec_s']):.3f}",
        f"{thousands(entry['warmup_gradients'])} + {thousands(entry['draw_gradients'])}",
        f"{time_of_gradient(entry):.2f}",
        f"{entry['executed_over_useful']:.2f}",
        f"{statistics.median(entry['min_ess']):,.0f}",
        "" if math.isnan(entry["max_rhat"]) else f"{entry['max_rhat']:.3f}",
        f"{rate(entry, 'exec_s'):,.0f}",
        f"{rate(entry, 'again_s'):,.0f}",
        "" if z is None else f"{z:.1f}" + "*" * (entry["z_to"] == "ppl"),
    ]


def thousands(number: float) -> str:
    return f"{number / 1e3:,.0f}k" if number < 1e6 else f"{number / 1e6:.2f}M"


def ratios(entries: Sequence[Entry]) -> str:
    """Ratios of our effective draws a second to the best peer's, with their geometric mean.

    If several samplers are ours, the best of them counts.
    """
    lines = []
    kinds = {"exec_s": "execution", "again_s": "a repeated call"}
    if all(entry.get("again_s") == entry.get("exec_s") for entry in entries):
        del kinds["again_s"]
    for times, words in kinds.items():
        found = {}
        for model in dict.fromkeys(entry["problem"] for entry in entries):
            rates = {
                x["tool"]: rate(x, times)
                for x in entries
                if x["problem"] == model and "error" not in x
            }
            ours, peers = (
                [value for tool, value in rates.items() if tool.startswith("ppl") == is_ours]
                for is_ours in (True, False)
            )
            if ours and peers:
                found[model] = max(ours) / max(peers)
        if found:
            each = ", ".join(f"{model} {value:.2f}" for model, value in found.items())
            mean = statistics.geometric_mean(found.values())
            lines.append(f"ESS/s of {words}, ours over the best peer: {mean:.2f} ({each}).\n")
    return "\n".join(lines)


def rounded(value: Any) -> Any:
    """A value for JSON: floats to five digits, NaN as null."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: rounded(x) for name, x in value.items()}
    return [rounded(x) for x in value] if isinstance(value, list) else value
