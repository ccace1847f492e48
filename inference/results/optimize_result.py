"""Result of a search for a mode, and its summary."""

import dataclasses
import math
import os
import pathlib
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.leaf_names import element_names, named_leaves
from inference.common.peer_names import OF_MODES, ExplainsItems
from inference.common.saved import Saved
from inference.common.target import NamedSite, labels_by_name
from inference.models.check_keywords import check_keywords, check_no_arguments
from inference.optimization.mode_search import Density, ModeSearchResult, may_rise
from inference.results.boundary_warnings import Labels, find_bounded_coordinates
from inference.results.mode_report import write_mode_report
from inference.results.plots import Plots
from inference.results.problems import REPARAM
from ppl.harvest.pytrees import register_dataclass

_WIDTH = 88  # columns of text
_MAX_ROWS = 60  # of a table
_AGREEMENT = 0.01  # nats between climbs that led to one mode
# A coordinate runs away if it is further than _FAR from 0 on unconstrained space, and twice as far
# out the log density is lower by less than _FLAT nats (or 1e-6 of itself).
_FAR = 5.0
_FLAT = 1e-3
_EDGE = 8.0  # on unconstrained space: in a climb without end, a scale of exp(-8) is going to 0


@dataclasses.dataclass(frozen=True)
class ModeSummary:
    """The value of every scalar at a mode, and whether to trust it. Prints as a table.

    Attributes:
        names: Name of each scalar, such as ``"theta[0]"`` or ``"scope.mu"``.
        value: Value of each scalar, ``(scalar,)``.
        problems: Warnings, each with a remedy; empty if there are none.
        about: Line about the search for the mode.
    """

    names: tuple[str, ...]
    value: np.ndarray
    problems: tuple[str, ...]
    about: str

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise KeyError(f"no scalar is named {name!r}; there are {', '.join(self.names[:8])}")
        return float(self.value[self.names.index(name)])

    def __str__(self) -> str:
        width = max(map(len, self.names))
        rows = list(zip(self.names, self.value, strict=True))[:_MAX_ROWS]
        lines = [f"{name.ljust(width)}  {value: .6g}" for name, value in rows]
        if len(rows) < len(self.names):
            lines.append(f"... and {len(self.names) - len(rows)} more")
        found = [f"! {problem}" for problem in self.problems] or ["No problem found."]
        notes = [textwrap.fill(x, _WIDTH, subsequent_indent="  ") for x in (self.about, *found)]
        return "\n".join([*lines, "", *notes])

    __repr__ = __str__


@register_dataclass
@dataclasses.dataclass(frozen=True)
class OptimizeResult(ExplainsItems, Saved):
    """A mode. A pytree.

    Attributes:
        values: Values of the latent and deterministic sites; a scope is a dict in the dict.
            ``mcmc(..., init=result.values)`` starts chains there.
        position: Unconstrained position of `values`.
        log_density: Log density that was climbed, at `position`.
        gradient_norm: Euclidean norm of its gradient on unconstrained space.
        decrement: Half of the squared Newton decrement: an estimate of how much higher the mode is.
        num_steps: Iterations of the climb.
        has_converged: Whether the decrement is within the tolerance.
        log_densities: Log density at the end of the climb from each start, ``(start,)``.
        density: Density that was climbed: posterior or likelihood, with or without Jacobian.
        problems: Warnings, in words.
        sites: The sites in the order of the model, with their labels.
    """

    values: dict[str, Any]
    position: Any
    log_density: Any
    gradient_norm: Any
    decrement: Any
    num_steps: Any
    has_converged: Any
    log_densities: Any
    density: Density = dataclasses.field(metadata={"static": True})
    problems: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    sites: tuple[NamedSite, ...] = dataclasses.field(default=(), metadata={"static": True})
    _instead: ClassVar[dict[str, str]] = OF_MODES | dict.fromkeys(
        (name for name in vars(Plots) if name.startswith("plot")),
        "pictures are of draws: inference.laplace(key, model) draws at the mode",
    )
    _items: ClassVar[str] = "values"

    @classmethod
    def of(
        cls,
        summit: ModeSearchResult,
        layout: Layout,
        density: Density,
        max_steps: int,
        find_noncentering: Callable[[], str | None] = lambda: None,
        sites: tuple[NamedSite, ...] = (),
    ) -> "OptimizeResult":
        """Result for the highest end of several climbs of at most `max_steps` iterations.

        `find_noncentering` tells whether ``ppl.auto_reparam`` would change sites of the model.
        """
        best = jax.tree.map(lambda x: x[summit.best], summit.ascents)
        labels = labels_by_name(sites)
        found = _problems(summit, layout, density, max_steps, find_noncentering, labels)
        return cls(
            values=summit.values,
            position=jax.device_get(layout.unravel(best.position)),
            log_density=best.log_density,
            gradient_norm=np.linalg.norm(best.gradient),
            decrement=best.decrement,
            num_steps=best.step,
            has_converged=best.has_converged,
            log_densities=summit.ascents.log_density,
            density=density,
            problems=tuple(found),
            sites=sites,
        )

    @property
    def num_agree(self) -> int:
        """Number of starts whose climbs led as high as the best."""
        return _num_agree(self.log_densities, self.log_density)

    def summary(self) -> ModeSummary:
        """Values of all scalars, and whether to trust them."""
        labels = labels_by_name(self.sites)
        names = []
        values = []
        for name, leaf in named_leaves(self.values):
            names += element_names(name, np.shape(leaf), labels.get(name, ()))
            values.append(np.ravel(leaf).astype(np.float64))
        about = (
            f"{self._what} after {int(self.num_steps)} steps: log density {self.log_density:.6g}, "
            f"gradient {self.gradient_norm:.2g}; {self.num_agree} of {self.log_densities.size} "
            "starts led here"
        )
        return ModeSummary(tuple(names), np.concatenate(values), self.problems, about)

    def to_arviz(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Error: ArviZ's container holds draws, and a mode has none.

        Raises:
            TypeError: always; the message names the drivers whose results have draws.
        """
        raise TypeError(
            "to_arviz: optimize finds one point, and ArviZ takes draws: inference.laplace(key, "
            "model) draws from a normal distribution at the mode, inference.mcmc from the posterior"
        )

    def report(
        self,
        path: str | os.PathLike[str],
        model: Callable[..., Any] | None = None,
        *args: Any,
        key: jax.Array | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> pathlib.Path:
        """Writes one file of HTML with the values of this mode, and with the words on it.

        | part | shows | given |
        |---|---|---|
        | top | the search, the verdict, and the problems with their remedies | |
        | model | its graph, and the distribution of each site | the model |
        | estimates | the value of each scalar | |
        | predictive checks | data beside data drawn anew, at the estimates and by the prior \
        | model and key |
        | versions | versions of packages, and seconds of the report | |

        There are no intervals, as one point says nothing of the spread of the posterior. Of a
        large result, the page shows the first scalars, and says so.

        Args:
            path: The file. A former file is replaced when the report is done.
            model: The model that was searched, with its data: what :func:`inference.optimize` was
                given.
            *args: Its arguments.
            key: Random key, for predictions.
            title: Title of the page; by default the name of the model.
            **kwargs: Keyword arguments of the model.

        Returns:
            The path of the file.

        Raises:
            OSError: if `path` is a folder, or no file can be written there; it is raised before the
                work.
            TypeError: if `path` is not a path, or `model` is not a model.
            ValueError: if the mode is of another model or of other data, or if `path` is the name
                of another kind of file, as ``"report.pdf"``.
        """
        if model is not None:
            check_keywords(type(self).report, model, args, kwargs)
        else:
            check_no_arguments("report", "path, ", args, kwargs, key)
        return write_mode_report(self, path, model, args, kwargs, key, title)

    def _facts_of_run(self) -> Iterator[tuple[str, str]]:
        """Facts of the search by name, for a report."""
        yield "maximized", self._what[0].lower() + self._what[1:]
        yield "steps", str(int(self.num_steps))
        yield "starts", str(np.size(self.log_densities))

    @property
    def _what(self) -> str:
        if self.density.objective == "likelihood":
            return "Maximum of the likelihood"
        space = "unconstrained space" if self.density.include_jacobian else "the values of sites"
        return f"Mode of the posterior on {space}"

    def __repr__(self) -> str:
        sites = ", ".join(f"{name} {np.shape(x)}" for name, x in named_leaves(self.values))
        end = "converged" if self.has_converged else "not converged"
        doubt = f", {len(self.problems)} problems in summary()" if self.problems else ""
        return f"OptimizeResult({end}, log density {self.log_density:.6g}: {sites}{doubt})"


def _num_agree(log_densities: Any, best: Any) -> int:
    with np.errstate(invalid="ignore"):
        slack = _AGREEMENT + 1e-5 * abs(float(best))
        return int(np.sum(np.asarray(log_densities) >= float(best) - slack))


def _problems(
    summit: ModeSearchResult,
    layout: Layout,
    density: Density,
    max_steps: int,
    find_noncentering: Callable[[], str | None],
    labels: Labels,
) -> Iterator[str]:
    # The best climb.
    best = jax.tree.map(lambda x: x[summit.best], summit.ascents)
    names = coordinate_names(layout, labels)
    edges = list(_edges(summit, best, names, layout, labels))
    # Climbs that ended too early.
    if not best.has_converged:
        steepest = names[int(np.argmax(np.abs(best.gradient)))]
        is_cut = best.step >= max_steps
        yield (
            f"it has not converged: after {int(best.step)} steps the gradient is still "
            f"{np.linalg.norm(best.gradient):.2g}, steepest along {steepest}"
            f"{'' if is_cut else ', and no step gains more than rounding'}. "
            f"{'Raise max_steps, use' if is_cut else 'Use'} float64, or bring coordinates to "
            f"similar scales{' (but see below)' if edges else ''}."
        )
    # A mode hidden by rounding.
    step = float(np.spacing(np.abs(best.log_density)))
    if best.has_converged and best.decrement > _AGREEMENT and step > _AGREEMENT:
        yield (
            f"the mode is higher by some {best.decrement:.2g}, which rounding hides: at a log "
            f"density of {best.log_density:.3g}, {np.dtype(layout.dtype).name} tells steps of "
            f"{step:.2g} apart, so that values may be off by {math.sqrt(2 * best.decrement):.2g} "
            "standard deviations. Use float64, or subtract what is constant from the log density."
        )
    # A nearby point that is higher than the end of the climb.
    if may_rise(summit):
        name = names[int(np.argmax(summit.higher != best.position))]
        yield (
            f"it is no mode: a stride along {name} alone leads higher by "
            f"{summit.rise:.3g}. Bring data and coordinates to similar scales, or use float64."
        )
    # Coordinates that run off to infinity or to a boundary.
    if edges:
        may_reparam = find_noncentering() in (None, "possible")
        reparam = f", or reparameterize, as by {REPARAM}" if may_reparam else ""
        remedy = (
            f"give it a prior that falls off there{reparam}"
            if density.objective == "posterior"
            else "there is no maximum of the likelihood inside; use objective='posterior'"
        )
        yield (
            f"there may be no mode: {'; '.join(edges)}. The values are no more than the place "
            f"where the climb ended; {remedy}, or sample by mcmc."
        )
    # Starts that disagree.
    log_densities = summit.ascents.log_density
    num_starts = log_densities.size
    num_agree = _num_agree(log_densities, best.log_density)
    if num_starts > 1 and num_agree == 1:
        yield (
            f"only 1 of {num_starts} starts led to this log density, and others to lower ones: "
            "there are several modes, or climbs that did not end. Raise num_starts."
        )


def _edges(
    summit: ModeSearchResult, best: Any, names: list[str], layout: Layout, labels: Labels
) -> Iterator[str]:
    """Words for the coordinates that run away.

    - Far out, the density does not fall: it rises, or stays as high.
    - The climb did not converge, and a bounded coordinate is close to its edge.
    """
    inside = find_bounded_coordinates(summit.values, layout.unravel(best.position), labels)
    for index, gain in zip(summit.outward, summit.gains, strict=True):
        where = float(best.position[index])
        if abs(where) > _FAR and gain > -_FLAT * max(1.0, 1e-3 * abs(float(best.log_density))):
            how = "rises further" if gain > _FLAT else "stays as it is"
            yield (
                f"{names[index]} goes to the edge of its support or to infinity ({where:.3g} on "
                f"unconstrained space), and the density {how} beyond"
            )
        elif not best.has_converged and abs(where) > _EDGE and names[index] in inside:
            yield (
                f"{names[index]} is close to the edge of its support ({where:.3g} on unconstrained "
                "space), as where a scale goes to 0 and the density is unbounded"
            )


def coordinate_names(layout: Layout, labels: Labels) -> list[str]:
    """Name of each unconstrained coordinate, in the order of the flat position.

    Args:
        layout: Layout of positions.
        labels: Labels of the axes of sites that have any, by name.
    """
    tree = jax.eval_shape(layout.unravel, jax.ShapeDtypeStruct((layout.size,), layout.dtype))
    return [
        x
        for name, leaf in named_leaves(tree)
        for x in element_names(name, leaf.shape, labels.get(name, ()))
    ]
