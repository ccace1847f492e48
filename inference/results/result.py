"""Base of results with draws: saved files, and conversion to ArviZ."""

import abc
import dataclasses
import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from inference.common.leaf_names import named_leaves
from inference.common.peer_names import OF_RESULTS, ExplainsItems
from inference.common.saved import Saved
from inference.common.target import NamedSite, labels_by_name
from inference.models.check_keywords import check_keywords, check_no_arguments
from inference.models.model_groups import model_groups
from inference.results.inference_data import (
    arrays_by_name,
    check_groups,
    import_arviz,
    make_container,
)
from inference.results.plots import Plots
from inference.results.report import write_report
from inference.results.summary import Summary


@dataclasses.dataclass(frozen=True)
class Result(ExplainsItems, Plots, Saved, abc.ABC):
    """Base of results with draws: their summary, files, and conversion to ArviZ.

    Attributes:
        draws: Values of the latent sites, ``(chain, draw, *shape)``; a scope is a dict in the dict.
        sites: The sites in the order of the model: name, whether it is deterministic, and labels of
            the axes of its value, see :func:`ppl.label`; empty in older files.
    """

    _instead: ClassVar[dict[str, str]] = OF_RESULTS
    draws: dict[str, Any]
    sites: tuple[NamedSite, ...] = dataclasses.field(
        default=(), kw_only=True, metadata={"static": True}
    )

    def summary(
        self,
        names: str | Sequence[str] | None = None,
        *,
        intervals: float | Sequence[float] = 0.9,
        deterministic: bool = True,
    ) -> Summary:
        """Table with means, quantiles and diagnostics of every scalar, and warnings below it.

        Args:
            names: Names of the sites, scopes or scalars to show, such as ``"theta"``, ``"scope"``
                and ``"theta[0]"``; by default all.
            intervals: Probabilities of central intervals. The ends of the intervals and the median
                are columns: 0.9 shows the quantiles at 5, 50 and 95 %.
            deterministic: Whether to show deterministic sites, if no names are given.

        Raises:
            ValueError: if a name is unknown, or a probability is not between 0 and 1.
        """
        whole = self._summarize(intervals)
        if names is None and deterministic:
            return whole
        return whole.select(names, deterministic=deterministic)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    @abc.abstractmethod
    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        """Summary of all scalars."""

    def to_arviz(
        self,
        model: Callable[..., Any] | None = None,
        *args: Any,
        key: jax.Array | None = None,
        groups: Sequence[str] | None = None,
        num_prior_draws: int = 500,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Converts draws, statistics, data and predictions to ArviZ's container.

        | group | holds | given |
        |---|---|---|
        | `posterior`, `sample_stats` | draws and statistics | |
        | `posterior` | sites that ``ppl.marginalize`` took out, and deterministic sites that \
        depend on them | the model and a key |
        | `log_likelihood`, `log_prior` | log probabilities of data, and of latent values, by \
        observation; missing data and factors have none | the model |
        | `observed_data`, `constant_data` | data, NaN where missing, and arguments of the model \
        that are arrays | the model |
        | `posterior_predictive`, `prior_predictive`, `prior` | data drawn anew for each draw, and \
        draws from the prior, unless it is improper | the model and a key |

        Sites that ``ppl.marginalize`` took out are drawn by ``ppl.recover``, once for each draw of
        the other sites: together they are exact draws of the whole posterior. If ``ppl.Laplace``
        took out a site there are none, as they need the importance weights of ``ppl.recover``.

        ArviZ knows no importance weights: draws that have them, as those of `importance`, are
        resampled by them first, systematically, and the attribute `resampling` of each group says
        so. All groups are of the resampled draws.

        Names of nested sites are joined by dots. Draws are not copied. A dimension of a site has a
        name by

        - `dims`;
        - else ``ppl.label``, which also gives names of entries, also along a dimension that `dims`
          calls another name; `coords` replace them;
        - else, given the model, ``jax.vmap(..., axis_name="county")`` around the site;
        - else, given the model, the scan around it, which is called `time`. Axis 0 of a
          deterministic site outside of scans is called `time` too if the site depends on the sites
          of one scan and the axis is as long as the scan.

        If axes of several sizes have one name, the name of the site is put in front, as in
        ``"y_time"``. If some data of `y` are missing, its log probabilities stand along one
        dimension, ``"y_entry"``, with labels such as ``"y[3]"``, so that ``arviz.loo`` counts only
        the observed entries.

        Args:
            model: The model that was sampled, with its data: what :func:`inference.mcmc` was given.
            *args: Its arguments.
            key: Random key, for predictions.
            groups: Names of the groups to add to draws and statistics; by default all groups that
                the model and the key allow. Fewer groups are faster: log probabilities, draws of
                the prior, and new data each need a compilation of their own, once for a model and
                shapes of data. :func:`inference.loo` and :func:`inference.power_scale` compile
                nothing more for the log probabilities.
            num_prior_draws: Number of draws from the prior.
            coords: Labels by dimension, as ``{"school": names}``.
            dims: Names of the dimensions of sites, as ``{"theta": ["school"]}``. A name None leaves
                the name of that dimension as it is.
            **kwargs: Keyword arguments of the model.

        Returns:
            An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``.

        Raises:
            ImportError: if ArviZ is not installed.
            TypeError: if `model` is not a model.
            ValueError: if two sites get the same name, as ``"a.b"`` and ``"b"`` within ``"a"``; if
                a group is unknown, or needs a model or a key that is not given; if the draws are of
                another model; if the log density of chains shows that they had other data; if
                `coords` or `dims` do not fit the sites; or if importance weights have no finite
                sum.
        """
        if model is not None:
            check_keywords(type(self).to_arviz, model, args, kwargs)
        return self._container(
            model,
            args,
            kwargs,
            key=key,
            wanted=check_groups(groups, model is not None, key, num_prior_draws),
            num_prior_draws=num_prior_draws,
            coords=coords,
            dims=dims,
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
        """Writes one file of HTML with the words, tables and pictures of this result.

        | part | shows | given |
        |---|---|---|
        | top | the run, the verdict, and the problems with their remedies | |
        | model | its graph, and the distribution of each site | the model |
        | summary, intervals | :meth:`summary`, and a forest plot | |
        | chains | traces and ranks of the scalars with the highest R-hat or lowest ESS | |
        | predictive checks | data beside data drawn anew, by posterior and prior | model and key |
        | cross-validation | PSIS-LOO, and the observations with the highest Pareto k | the model |
        | warm-up, versions | what warm-up did; versions of packages, and seconds of the report | |

        The file needs no network and no other file. Of a large result, it shows the most doubtful
        scalars, and says so. Pictures need ArviZ and matplotlib; without them they are left out,
        which the report says too.

        Args:
            path: The file. A former file is replaced when the report is done.
            model: The model that was sampled, with its data: what :func:`inference.mcmc` was given.
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
            ValueError: if the draws are of another model or of other data, or if `path` is the
                name of another kind of file, as ``"report.pdf"``.
        """
        if model is not None:
            check_keywords(type(self).report, model, args, kwargs)
        else:
            check_no_arguments("report", "path, ", args, kwargs, key)
        return write_report(self, path, model, args, kwargs, key, title)

    def _facts_of_run(self) -> Iterator[tuple[str, str]]:
        """Facts of the run by name, for a report."""
        yield from ()

    def _curves(self) -> Iterator[tuple[str, Any, Any, str, str]]:
        """Curves of the run, for a report: title, x, y, and the labels of both."""
        yield from ()

    def _container(
        self,
        model: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        key: jax.Array | None = None,
        wanted: Collection[str] = (),
        num_prior_draws: int = 0,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        known_only: bool = False,
    ) -> Any:
        """ArviZ's container, with data and predictions of a model or with given groups."""
        import_arviz("to_arviz")
        equal = self._equally_weighted()
        notes = self._notes()
        posterior = arrays_by_name(equal.draws, self.sites)
        groups = {"posterior": posterior, "sample_stats": equal._statistics()}
        if model is None:
            check_no_arguments("to_arviz", "", args, kwargs or {}, key)
            labels = labels_by_name(self.sites)
            return make_container(groups, {}, coords, dims, labels=labels, notes=notes)
        found = model_groups(equal, model, args, kwargs or {}, key, wanted, num_prior_draws)
        masks = dict(found.masks)
        if known_only:
            masks |= dict.fromkeys(("observed_data", "posterior_predictive"), found.is_known)
        labels = labels_by_name(self.sites) | found.labels
        posterior |= found.groups.pop("posterior", {})
        groups |= found.groups
        return make_container(groups, found.axes, coords, dims, masks, labels, notes)

    def _notes(self) -> dict[str, Any]:
        """Attributes of the groups of ArviZ's container."""
        return {}

    def _statistics(self) -> dict[str, Any]:
        """Statistics of each draw, ``(chain, draw)``, under ArviZ's names."""
        raise NotImplementedError

    def _sites(self) -> str:
        """Names and shapes of the sites of the draws, as text."""
        return ", ".join(f"{name} {np.shape(x)[2:]}" for name, x in named_leaves(self.draws))
