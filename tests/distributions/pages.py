"""The pages of all distributions, out of docstrings and the table of cases."""

import csv
import functools
import inspect
import pathlib
import re
from collections.abc import Iterator

import jax
import numpy as np

import distributions as dist
from distributions.core.family import Family
from tests.distributions.cases import CASES, SIGNATURES, Case
from tests.distributions.stub import COMMAND

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "distributions"
TOOLS = ("NumPyro", "Stan", "PyMC", "TFP", "SciPy")
METHODS = ("mean", "variance", "mode", "entropy", "cdf", "quantile")
NAMES = sorted(SIGNATURES, key=str.lower)


@functools.cache
def peers() -> list[dict[str, str]]:
    """The distributions of other tools: `tool`, `name`, our name if any as `ours`, and `note`."""
    with (FOLDER / "peers.csv").open() as file:
        return list(csv.DictReader(file))


def theirs(name: str, tool: str) -> str:
    rows = [row for row in peers() if row["tool"] == tool and row["ours"] == name]
    return ", ".join(row["name"] + (f" ({row['note']})" if row["note"] else "") for row in rows)


def cases(name: str) -> list[Case]:
    return [case for case in CASES if case.family == name]


def sections(docstring: str) -> Iterator[tuple[str, str]]:
    """The parts of a docstring with their titles; the example is `Example`."""
    title, lines = "", []
    for line in inspect.cleandoc(docstring).splitlines():
        start = re.fullmatch(r"(Args|Raises|References|Attributes|Returns):", line)
        is_example = line.startswith(">>>") and title != "Example"
        if start or is_example:
            yield title, "\n".join(lines).strip()
            title, lines = (start.group(1), []) if start else ("Example", [line])
        else:
            lines.append(line)
    yield title, "\n".join(lines).strip()


def parameters(text: str) -> list[tuple[str, str]]:
    """Names and meanings of the parameters in a section `Args`."""
    entries = re.split(r"\n(?=    \w+: )", "\n" + text)
    pairs = (entry.strip().split(": ", 1) for entry in entries if entry.strip())
    return [(name, " ".join(meaning.split())) for name, meaning in pairs]


def constraint(name: str, parameter: str) -> str:
    cls = getattr(dist, name)
    if not (inspect.isclass(cls) and issubclass(cls, Family)):
        return ""
    found = [p.constraint.description for p in cls._parameters if p.name == parameter]
    return found[0] if found else ""


def has(d: dist.Distribution, method: str) -> bool:
    try:
        argument = (0.5,) if method in ("cdf", "quantile") else ()
        jax.eval_shape(lambda d: getattr(d, method)(*argument), d)
    except NotImplementedError:
        return False
    return True


def facts(name: str) -> str:
    """Shape, differentiability and methods of the family, read off its first case."""
    d = cases(name)[0].build()
    methods = ", ".join(f"`{method}`" for method in METHODS if has(d, method)) or "none"
    kind = "discrete" if d.support.is_discrete else "continuous"
    way = "are" if d.is_reparameterized else "are not"
    what = f"{kind} arrays, such as of shape `{d.event_shape}`" if d.event_shape else kind
    return (
        f"Values are {what}; draws {way} differentiable in the parameters. Beside `log_prob` and "
        f"`sample` there are: {methods}."
    )


def page(name: str) -> str:
    parts = list(sections(getattr(dist, name).__doc__))
    body = dict(parts)
    out = [f"# {name}", f"`{name}({SIGNATURES[name]})`", body[""]]
    if cases(name):
        out.append(f"![Density]({name}.svg)" if picturable(name) else "")
    rows = [f"| `{p}` | {constraint(name, p)} | {what} |" for p, what in parameters(body["Args"])]
    out.append("\n".join(["| parameter | must be | |", "|---|---|---|", *rows]))
    if cases(name):
        out.append(facts(name))
    out.append(f"```python\n{body['Example']}\n```")
    known = [f"| {tool} | {theirs(name, tool)} |" for tool in TOOLS if theirs(name, tool)]
    if known:
        out.append("\n".join(["| elsewhere | |", "|---|---|", *known]))
    out.append("Source: " + " ".join(body["References"].split()))
    return "\n\n".join(part for part in out if part) + "\n"


def index() -> str:
    """The table of all distributions, and what is left out of the others' with the reason."""
    head = ["| here | " + " | ".join(TOOLS) + " |", "|---|" + "---|" * len(TOOLS)]
    rows = [
        f"| [{name}]({name}.md) | " + " | ".join(theirs(name, tool) for tool in TOOLS) + " |"
        for name in NAMES
    ]
    left_out = [
        f"| {row['tool']} | {row['name']} | {row['note']} |" for row in peers() if not row["ours"]
    ]
    num = {tool: sum(row["tool"] == tool for row in peers()) for tool in TOOLS}
    counts = ", ".join(f"{n} of {tool}" for tool, n in num.items())
    return "\n".join(
        [
            "# Distributions",
            "",
            f"All {len(NAMES)} distributions, and what they are called elsewhere ({counts}). This "
            f"table and the pages are made of the code by `{COMMAND}`.",
            "",
            "The formulas of all densities and draws are our own: TFP's take longer to trace, and "
            "many lose digits for extreme parameters. Its classes are taken as they are wherever a "
            "distribution is.",
            "",
            *head,
            *rows,
            "",
            "## Left out",
            "",
            "What others have and we do not, with the reason or the way to write it here.",
            "",
            "| tool | name | instead |",
            "|---|---|---|",
            *left_out,
            "",
        ]
    )


def picturable(name: str) -> bool:
    d = cases(name)[0].build()
    return d.event_shape == () and "picture" not in cases(name)[0].excluded


def picture(name: str) -> None:
    """The density of the first case, or the mass of a discrete one, as SVG."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9})
    d = cases(name)[0].build(np.float32)
    draws = np.asarray(d.sample(jax.random.key(0), (2000,)), float)
    low, high = np.quantile(draws, [0.03, 0.96])
    discrete = d.support.is_discrete
    width = high - low
    x = (
        np.arange(low, high + 1)
        if discrete
        else np.linspace(low - width / 8, high + width / 8, 300)
    )
    grid = x.reshape(-1, *(1,) * len(d.batch_shape))
    density = np.exp(np.asarray(d.log_prob(grid.astype(int if discrete else np.float32))))
    figure, axes = plt.subplots(figsize=(4.2, 2.4), layout="constrained")
    curves = density.reshape(len(x), -1).T
    for label, curve in zip(labels(cases(name)[0], d), curves, strict=True):
        if discrete:
            axes.vlines(x, 0, curve, alpha=0.3)
            axes.plot(x, curve, "o", markersize=4, label=label)
        else:
            axes.plot(x, np.where(np.isfinite(curve), curve, np.nan), label=label)
    axes.set(
        xlabel="x",
        ylabel="probability" if discrete else "density",
        ylim=(0, top(density)),
    )
    axes.legend(frameon=False)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def top(density: np.ndarray) -> float | None:
    """The end of the axis: below a peak that is infinite or nearly so."""
    most, usual = np.max(density), np.quantile(density, 0.99)
    return 1.1 * usual if most > 3 * usual else None


def labels(case: Case, d: dist.Distribution) -> list[str]:
    """The parameters of each distribution of a batch."""

    def entry(value: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        if value.shape[: len(index)] == d.batch_shape:
            return value[index]
        fits = value.ndim <= len(index) and value.shape == d.batch_shape[-value.ndim :]
        return np.broadcast_to(value, d.batch_shape)[index] if fits else value

    def one(index: tuple[int, ...]) -> str:
        values = {name: entry(np.asarray(v), index) for name, v in case.parameters.items()}
        shown = (f"{name} = {np.array2string(v, precision=3)}" for name, v in values.items())
        return "\n".join(shown)

    return [one(index) for index in np.ndindex(d.batch_shape)]


def write(all_pictures: bool) -> None:
    """Writes the table, the pages, and the pictures that are missing or all of them."""
    (FOLDER / "README.md").write_text(index())
    for name in NAMES:
        (FOLDER / f"{name}.md").write_text(page(name))
        is_drawn = (FOLDER / f"{name}.svg").is_file() and not all_pictures
        if cases(name) and picturable(name) and not is_drawn:
            picture(name)
