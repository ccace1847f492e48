"""Pictures of a report, drawn by ArviZ and matplotlib, as files in memory."""

import importlib.util
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from inference.results.inference_data import INSTALL, import_arviz, is_new, make_container

_MAX_SVG = 60_000  # bytes of a picture as SVG; larger ones are PNG
_DPI = 110
_MAX_FONT = 10  # points
_LINE = 0.25  # inches of a line of a forest plot
_MAX_DRAWS = 1000  # draws of each chain in a trace plot
_MAX_PREDICTIONS = 100  # predictions beside the data
_MAX_ENTRIES = 2000  # entries of a site in a predictive check

_LAYOUT = {"backend_kwargs": {"layout": "constrained"}}
# Options of functions of ArviZ before 1.0.
_OPTIONS: dict[str, dict[str, Any]] = {
    "plot_forest": {"textsize": 9, "hdi_prob": 0.9, **_LAYOUT},
    "plot_trace": {"plot_kwargs": {"textsize": 9}, "chain_prop": "color", **_LAYOUT},
    "plot_rank": _LAYOUT,
    "plot_ppc": {"textsize": 9, "observed": True, "random_seed": 0},
}

Arrays = Mapping[str, np.ndarray]
Image = tuple[bytes, str]


def why_no_pictures() -> str:
    """Sentence on what pictures need; empty if it is there."""
    if all(map(importlib.util.find_spec, ("arviz", "matplotlib"))):
        return ""
    return f"Pictures are left out: ArviZ and matplotlib are not installed ({INSTALL})."


def draw_forest(draws: Arrays) -> Image:
    """Intervals of scalars, a line each, of all chains together."""
    size = 9 if _is_new() else 8, 1.2 + _LINE * len(draws)
    return _draw("plot_forest", _of(draws), size, combined=True)


def draw_traces(draws: Arrays, is_divergent: np.ndarray | None) -> Image:
    """Densities and draws of each chain in their order, with divergences marked."""
    step = -(-np.shape(next(iter(draws.values())))[1] // _MAX_DRAWS)
    thin = {name: x[:, ::step] for name, x in draws.items()}
    stats = {} if is_divergent is None else {"diverging": np.asarray(is_divergent)[:, ::step]}
    name = "plot_trace_dist" if _is_new() else "plot_trace"
    return _draw(name, _of(thin, stats), (9, 1.7 * len(draws)), as_svg=False)


def draw_ranks(draws: Arrays) -> Image:
    """Ranks of the draws of each chain among all draws."""
    return _draw("plot_rank", _of(draws), (9, 2.2 * -(-len(draws) // 3)), as_svg=False)


def draw_predictive(
    name: str, observed: np.ndarray, predicted: np.ndarray, mask: np.ndarray | None, group: str
) -> Image:
    """Distributions of predicted data, and of the data.

    Args:
        name: Name of the observed site.
        observed: Its data.
        predicted: Predictions of the data, ``(chain, draw, *shape)``.
        mask: Which entries are not missing, of the shape of the data; `None` if all are there.
        group: ``"posterior"`` or ``"prior"``.
    """
    num_draws = predicted.shape[0] * predicted.shape[1]
    flat = predicted.reshape(num_draws, -1)
    data = np.ravel(observed)
    if mask is not None:
        flat = flat[:, mask.ravel()]
        data = data[mask.ravel()]
    entries = np.linspace(0, data.size - 1, min(data.size, _MAX_ENTRIES)).astype(int)
    chosen = np.linspace(0, num_draws - 1, min(num_draws, _MAX_PREDICTIONS)).astype(int)
    groups = {
        "observed_data": {_variable(name): data[entries]},
        f"{group}_predictive": {_variable(name): flat[np.ix_(chosen, entries)][None]},
        group: {"draw_number": chosen[None].astype(float)},
    }
    container = make_container(groups, {}, None, None)
    if _is_new():
        return _draw("plot_ppc_dist", container, (8, 3.2), group=f"{group}_predictive")
    few = len(chosen)
    return _draw("plot_ppc", container, (8, 3.2), group=group, num_pp_samples=few)


def draw_curve(x: Sequence[float], y: Sequence[float], x_label: str, y_label: str) -> Image:
    """A curve, as of the ELBO over the steps."""

    def draw(pyplot: Any) -> None:
        _, axes = pyplot.subplots(figsize=(8, 3), layout="constrained")
        axes.plot(x, y)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        late = np.asarray(y)[len(y) // 10 :]
        late = late[np.isfinite(late)]
        if late.size and np.ptp(late) > 0:  # the climb of the first steps would hide the rest
            axes.set_ylim(late.min() - 0.1 * np.ptp(late), late.max() + 0.1 * np.ptp(late))

    return _capture(draw, as_svg=True)


def _is_new() -> bool:
    return is_new(import_arviz("a picture of a report"))


def _variable(name: str) -> str:
    """Name of a scalar as xarray takes it, whose trees have no slash in names of variables."""
    return name.replace("/", "\N{DIVISION SLASH}")


def _of(draws: Arrays, stats: Arrays | None = None) -> Any:
    groups: dict[str, Any] = {"posterior": {_variable(name): x for name, x in draws.items()}}
    if stats:
        groups["sample_stats"] = stats
    return make_container(groups, {}, None, None)


def _draw(
    name: str, container: Any, size: tuple[float, float], *, as_svg: bool = True, **options: Any
) -> Image:
    """Picture by a function of ArviZ."""
    arviz = import_arviz("a picture of a report")
    if is_new(arviz):
        options["figure_kwargs"] = {"figsize": size, "layout": "constrained"}
    else:
        options |= {"figsize": size} | _OPTIONS[name]
    return _capture(lambda _: getattr(arviz, name)(container, **options), as_svg)


def _capture(draw: Callable[[Any], Any], as_svg: bool) -> Image:
    """The figure that a function draws with matplotlib, and that is closed then.

    It is SVG if that is wanted and small, else PNG.
    """
    from matplotlib import pyplot
    from matplotlib.text import Text

    before = {*pyplot.get_fignums()}
    plain = pyplot.rc_context({"text.parse_math": False})  # names may have dollars
    with pyplot.ioff(), plain, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # words on versions of matplotlib say nothing of the draws
        try:
            draw(pyplot)
            (number,) = {*pyplot.get_fignums()} - before
            drawn = pyplot.figure(number)
            for text in drawn.findobj(Text):
                text.set_fontsize(min(text.get_fontsize(), _MAX_FONT))
            if as_svg and len(content := _saved(drawn, "svg")) <= _MAX_SVG:
                return content, "image/svg+xml"
            return _saved(drawn, "png"), "image/png"
        finally:
            for number in {*pyplot.get_fignums()} - before:
                pyplot.close(number)


def _saved(drawn: Any, kind: str) -> bytes:
    file = io.BytesIO()
    box = "tight" if drawn.get_layout_engine() is None else None
    drawn.savefig(file, format=kind, dpi=_DPI, bbox_inches=box)
    return file.getvalue()
