"""Results of Markov chain Monte Carlo on many data sets of one model."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, overload

import jax
import numpy as np

from inference.common.leaf_names import named_leaves
from inference.common.peer_names import OF_RESULTS, ExplainsAttributes
from inference.common.saved import Saved
from inference.common.target import NamedSite, labels_by_name
from inference.results.diagnostics import diagnose
from inference.results.inference_data import arrays_by_name, import_arviz, make_container
from inference.results.mcmc_result import ARVIZ_NAMES, MCMCResult
from inference.results.plots import Plots
from inference.results.run_facts import RunFacts
from ppl.harvest.pytrees import register_dataclass

MAX_RHAT = 1.05
MIN_ESS_PER_CHAIN = 50
_DATASET = "dataset"  # dimension of the data sets in ArviZ's container
_NUM_LISTED = 5  # number of the worst data sets that are listed


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MCMCResults(ExplainsAttributes, Saved):
    """Draws of :func:`mcmc_each`: arrays as in :class:`MCMCResult`, with the data sets in front.

    ``fits[i]`` is the :class:`MCMCResult` of one data set, ``fits[2:5]`` the results of three data
    sets; `len` and iteration go over data sets.

    Attributes:
        draws: Values of the latent sites, ``(dataset, chain, draw, *shape)``.
        stats: Statistics of each transition, ``(dataset, chain, draw)``, by name.
        inverse_mass_matrix: Inverse mass matrices after warm-up, ``(dataset, chain, size)``.
        centering: Weights that warm-up learned, ``(dataset, chain, *shape)``.
        facts: Facts of the run of each :class:`MCMCResult`.
        sites: The sites in the order of the model, see :class:`MCMCResult`.
    """

    _instead: ClassVar[dict[str, str]] = OF_RESULTS | {
        name: f"it is of one data set: fits[i].{name}(...)"
        for name in ("report", *(name for name in vars(Plots) if name.startswith("plot")))
    }
    draws: dict[str, Any]
    stats: dict[str, Any]
    inverse_mass_matrix: Any
    facts: RunFacts = dataclasses.field(metadata={"static": True})
    sites: tuple[NamedSite, ...] = dataclasses.field(metadata={"static": True})
    centering: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Number of data sets."""
        return len(next(iter(self.stats.values())))

    @overload
    def __getitem__(self, which: int) -> MCMCResult: ...
    @overload
    def __getitem__(self, which: slice) -> Self: ...
    def __getitem__(self, which: int | slice) -> Any:
        """Result of one data set, or results of the data sets in a slice."""
        names = "draws", "stats", "inverse_mass_matrix", "centering"
        some = jax.tree.map(lambda x: x[which], {name: getattr(self, name) for name in names})
        kind = type(self) if isinstance(which, slice) else MCMCResult
        return kind(**some, facts=self.facts, sites=self.sites)

    def __iter__(self) -> Iterator[MCMCResult]:
        """Results of the data sets, in order."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        num_chains, num_draws = next(iter(self.stats.values())).shape[1:]
        about = f"{len(self)} data sets x {num_chains} chains x {num_draws} draws"
        shapes = (f"{name} {x.shape[3:]}" for name, x in named_leaves(self.draws))
        return f"MCMCResults({about}: {', '.join(shapes)})"

    def summary(self) -> "FitsSummary":
        """Diagnostics of each data set, and which fits are doubtful."""
        columns: list[Any] = []
        is_finite = np.ones(len(self), bool)
        for _, x in named_leaves(self.draws):
            x = np.asarray(x)
            num, num_chains, num_draws = x.shape[:3]
            is_finite &= np.isfinite(x).reshape(num, -1).all(1)
            flat = np.moveaxis(x.reshape(num, num_chains, num_draws, -1), 0, 2)
            rhat, bulk, tail, *_ = diagnose(flat)
            columns.append((rhat, bulk, tail))
        rhat, bulk, tail = (np.concatenate(x, -1) for x in zip(*columns, strict=True))
        log_density = np.asarray(self.stats["log_density"])
        divergent = np.asarray(self.stats.get("is_divergent", np.zeros(log_density.shape, bool)))
        started = np.isfinite(log_density).all((1, 2))
        with np.errstate(all="ignore"):
            worst = _extreme(np.max, rhat), _extreme(np.min, bulk), _extreme(np.min, tail)
        return FitsSummary(
            *worst,
            divergent.sum((1, 2)),
            np.logical_not(started),
            np.logical_not(is_finite),
            divergent.shape[1],
        )

    def to_arviz(
        self,
        *model: Any,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
    ) -> Any:
        """Converts draws and statistics to ArviZ's container, data sets along `dataset`.

        The dimensions of each array are `chain`, `draw`, `dataset` and the dimensions of the site.
        Draws are not copied. To add data and predictions of a model, convert the result of one data
        set: ``fits[i].to_arviz(model)``.

        Args:
            *model: Must be empty.
            coords: Labels by dimension, as ``{"dataset": names}``.
            dims: Names of the dimensions of sites, without the dimension of the data sets. A name
                None leaves the name of that dimension as it is.

        Returns:
            An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``.

        Raises:
            ImportError: if ArviZ is not installed.
            TypeError: if a model is given.
            ValueError: if `coords` or `dims` do not fit the sites.
        """
        if model:
            raise TypeError(
                "to_arviz: a model adds groups to the result of one data set: "
                "fits[i].to_arviz(posterior, *args, key=key)"
            )
        import_arviz("to_arviz")
        draws = arrays_by_name(self.draws, self.sites)
        stats = {ARVIZ_NAMES.get(name, name): x for name, x in self.stats.items()}

        def move(x):
            return np.moveaxis(np.asarray(x), 0, 2)

        groups = {
            "posterior": {name: move(x) for name, x in draws.items()},
            "sample_stats": {name: move(x) for name, x in stats.items()},
        }
        axes = {name: (_DATASET,) for group in groups.values() for name in group}
        named = {
            name: (_DATASET, given) if isinstance(given, str) else (_DATASET, *given)
            for name, given in (dims or {}).items()
        }
        labels = labels_by_name(self.sites)
        labels = {name: ((_DATASET, None), *found) for name, found in labels.items()}
        return make_container(groups, axes, coords, named, labels=labels)


def _extreme(of: Any, numbers: np.ndarray) -> np.ndarray:
    """Extreme over scalars that vary, ``(dataset,)``; NaN if none has a diagnostic."""
    is_known = ~np.isnan(numbers)
    found = of(np.where(is_known, numbers, -np.inf if of is np.max else np.inf), axis=-1)
    return np.where(is_known.any(-1), found, np.nan)


@dataclasses.dataclass(frozen=True)
class FitsSummary:
    """Worst diagnostics of each data set, and words on the doubtful data sets.

    Attributes:
        rhat: Largest R-hat of a scalar, ``(dataset,)``; NaN for one chain.
        ess_bulk, ess_tail: Smallest effective sample sizes of a scalar, ``(dataset,)``.
        num_divergent: Number of divergent transitions, ``(dataset,)``.
        has_no_start: Whether a chain found no start of finite density, ``(dataset,)``.
        has_non_finite: Whether a draw is NaN or infinite, ``(dataset,)``.
        num_chains: Number of chains of each data set.
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    num_divergent: np.ndarray
    has_no_start: np.ndarray
    has_non_finite: np.ndarray
    num_chains: int

    @property
    def is_unconverged(self) -> np.ndarray:
        """Data sets with an R-hat above 1.05, or an ESS below 50 for each chain, or no start."""
        is_few = np.minimum(self.ess_bulk, self.ess_tail) < MIN_ESS_PER_CHAIN * self.num_chains
        return (self.rhat > MAX_RHAT) | is_few | self.has_no_start

    @property
    def is_doubtful(self) -> np.ndarray:
        """Data sets with an unconverged or a divergent fit, or draws that are not finite."""
        return self.is_unconverged | (self.num_divergent > 0) | self.has_non_finite

    @property
    def problems(self) -> tuple[str, ...]:
        """Doubts in words; empty if there are none."""
        ess = np.minimum(self.ess_bulk, self.ess_tail)
        is_few = ess < MIN_ESS_PER_CHAIN * self.num_chains
        least = MIN_ESS_PER_CHAIN * self.num_chains
        cases = (
            (self.has_no_start, 0 * ess, "have a chain without a start of finite density; their "
             "draws are none of the posterior"),
            (self.has_non_finite & ~self.has_no_start, 0 * ess, "have draws that are not finite; "
             "look for overflow in the transformation of their sites"),
            (self.num_divergent > 0, -self.num_divergent, "have divergent transitions; raise "
             "target_acceptance_rate, or reparameterize (ppl.auto_reparam)"),
            (self.rhat > MAX_RHAT, -self.rhat, f"have an R-hat above {MAX_RHAT}: their chains "
             "disagree; give them more warm-up, or fit them apart by mcmc"),
            (is_few, ess, f"have an effective sample size below {least}; make more draws"),
        )  # fmt: skip
        return tuple(_tell(*case) for case in cases if case[0].any())

    def __str__(self) -> str:
        lines = [f"{len(self.rhat)} data sets x {self.num_chains} chains", ""]
        lines.append(f"{'':16}{'median':>9}{'worst':>9}")
        for name, x, worst in (
            ("R-hat", self.rhat, np.nanmax),
            ("ESS, bulk", self.ess_bulk, np.nanmin),
            ("ESS, tail", self.ess_tail, np.nanmin),
            ("divergences", self.num_divergent, np.max),
        ):
            if not np.isnan(x).all():
                lines.append(f"{name:16}{np.nanmedian(x):9.4g}{worst(x):9.4g}")
        found = self.problems or ("No doubtful fits: all chains agree, and none diverged.",)
        return "\n".join([*lines, "", *found])

    __repr__ = __str__


def _tell(which: np.ndarray, order: np.ndarray, what: str) -> str:
    numbers = np.flatnonzero(which)
    worst = numbers[np.argsort(order[numbers], kind="stable")][:_NUM_LISTED]
    told = ", ".join(map(str, worst)) + (" ..." if len(numbers) > len(worst) else "")
    noun = "data set" if len(numbers) == 1 else "data sets"
    return f"{len(numbers)} {noun} ({told}) {what}."
