"""Draws that a model adds to those of a posterior: new data, the prior, sites taken out."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import jax

import ppl
from inference.common.leaf_names import named_leaves
from ppl.analysis.summed_sites import find_approximate
from ppl.core.model_pytree import as_pytree
from ppl.core.model_run import trace_model
from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path
from ppl.transforms.unobserve import unobserve

OF_PRIOR = "prior", "prior_predictive"


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Predictions of a conditioned model, called with some arguments.

    Attributes:
        model: The model.
        args: Its arguments.
        kwargs: Its keyword arguments.
        latent: Paths of latent sites without data.
        own: Paths of latent and deterministic sites without data.
        is_data: Paths of sites with data.
    """

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    latent: frozenset[Path]
    own: frozenset[Path]
    is_data: frozenset[Path]

    def of_data(
        self, key: jax.Array, draws: Mapping[Path, Any], *, is_checked: bool = True
    ) -> dict[str, Any]:
        """Data drawn anew for each draw of the latent sites."""
        given = nest_by_path({path: draws[path] for path in self.latent})
        predict = ppl.predict(unobserve(self.model), given)
        choice = {"only": self.is_data, "is_checked": is_checked, "needs_names": False}
        predict = dataclasses.replace(predict, **choice)  # arguments are those of the fit
        return predict(key, *self.args, **self.kwargs)

    def of_prior(self, key: jax.Array, num_draws: int, wanted: Collection[str]) -> dict[str, Any]:
        """Draws from the prior, a single chain.

        If data are predicted for draws of the posterior too, the program for that also draws the
        data of the prior, and another program draws the latent sites alone. With one key, both
        draw what one program would draw for all sites.

        Raises:
            NotImplementedError: if the prior is improper.
        """
        shares = bool(self.is_data) and {"prior_predictive", "posterior_predictive"} <= {*wanted}
        only = frozenset[Path]()
        if "prior" in wanted or shares:
            only |= self.own
        if "prior_predictive" in wanted and not shares:
            only |= self.is_data
        predict = ppl.predict(unobserve(self.model), num_draws)
        drawn = dataclasses.replace(predict, only=only)(key, *self.args, **self.kwargs)
        found = {path: at_path(drawn, path) for path in only}
        if shares:
            drawn = self.of_data(key, found, is_checked=False)
            found |= {path: at_path(drawn, path) for path in self.is_data}
        return jax.tree.map(lambda x: x[None], nest_by_path(found))


def recover_taken_out(
    key: jax.Array,
    graph: Any,
    draws: Mapping[Path, Any],
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Draws of the sites that `marginalize` took out, and of sites that follow from them.

    There are none if `Laplace` took out a site: its draws are exact only with weights.
    """
    if graph is None or all(node.kind != "summed" for node in graph.nodes.values()):
        return {}
    if find_approximate(trace_model(as_pytree(model), None, args, kwargs).jaxpr):
        return {}
    drawn = ppl.recover(model, nest_by_path(draws))(key, *args, **kwargs)
    return dict(named_leaves(drawn))


def at_path(values: Any, path: Path) -> Any:
    """The value at a path in nested dicts, None if there is none."""
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values
