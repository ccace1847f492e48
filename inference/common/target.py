"""Targets: the interface of inference to a model, a log density on unconstrained space."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import jax


class Target(Protocol):
    """Log density on unconstrained space; a pytree whose leaves are the data.

    A target over other coordinates also has `log_det(position)`: its log density minus the log
    density on unconstrained space, a scalar.
    """

    @property
    def position_shapes(self) -> Any:
        """The shapes and dtypes of a position."""
        ...

    @property
    def mesh(self) -> Any:
        """The mesh of a `shard_map` in the density, or `None`."""
        ...

    @property
    def order(self) -> tuple[tuple[Any, bool], ...]:
        """Paths of the recorded sites in the order of the model; whether each is deterministic."""
        ...

    def log_density(self, position: Any) -> jax.Array:
        """The unnormalized log density at `position`, a scalar."""
        ...

    def prior_and_likelihood(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Two log densities at `position`: of latent sites, and of data and factors."""
        ...

    def split_log_density(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """The log density of the draws of `prior` at `position`, and the rest of `log_density`."""
        ...

    def initial(self, key: jax.Array, values: Any = None) -> Any:
        """A random position to start from; `values` gives some sites fixed values."""
        ...

    def prior(self, key: jax.Array) -> Any:
        """A position drawn from the prior."""
        ...

    def constrain(self, position: Any) -> dict[str, Any]:
        """Values of sites at `position`, on their constrained supports."""
        ...

    def sites(self, position: Any) -> dict[str, Any]:
        """Sites by name, each with its `value`, `distribution` and `log_prob`; for messages."""
        ...


class PriorSampler(Protocol):
    """Importance sampling from the prior; a pytree whose leaves are the data."""

    @property
    def order(self) -> Any:
        """Paths of latent and deterministic sites, and whether each is deterministic."""
        ...

    def weighted(self, key: jax.Array) -> tuple[dict[str, Any], jax.Array]:
        """Values drawn from the prior, and the log probability of the data given them."""
        ...


def is_of_values(target: Any) -> bool:
    """Whether positions of a target are values of sites, and not unconstrained numbers."""
    return getattr(target, "positions_are_values", False)


# Name of a site, whether it is deterministic, and for each axis of its value nothing, or the name
# of the dimension with the names of its entries, if they have any (see `ppl.label`).
NamedSite = tuple[str, bool, tuple[tuple[str, tuple[Any, ...] | None] | None, ...]]


def labels_by_name(sites: Sequence[NamedSite]) -> dict[str, tuple[Any, ...]]:
    """Labels of the sites that have any, by name."""
    return {name: labels[0] for name, _, *labels in sites if labels and labels[0]}


def target_labels(target: Target) -> dict[str, tuple[Any, ...]]:
    """Labels of all sites of a target that have any, by name; data are sites, too."""
    return {".".join(map(str, path)): x for path, x in getattr(target, "labels", ())}


def named_sites(target: Target | PriorSampler) -> tuple[NamedSite, ...]:
    """The sites of a target in the order of the model."""
    labels = dict(getattr(target, "labels", ()))
    return tuple(
        (".".join(map(str, path)), flag, labels.get(path, ())) for path, flag in target.order
    )


def differing_names(
    found: Sequence[NamedSite], known: Sequence[NamedSite]
) -> Iterator[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]]:
    """Axes whose entries are called otherwise: site, dimension, and both lists of names.

    Axes without names are passed over.
    """
    before = labels_by_name(known)
    for name, labels in labels_by_name(found).items():
        for own, old in zip(labels, before.get(name, ()), strict=False):
            if own is None or old is None or None in (own[1], old[1]):
                continue
            if tuple(own[1]) != tuple(old[1]):
                yield name, own[0], tuple(own[1]), tuple(old[1])
