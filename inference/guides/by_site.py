"""BySite: one guide for each group of sites, independent of the others."""

import dataclasses
import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.linalg import block_diag

from inference.common.layout import Layout
from inference.common.threefry import seed_of, threefry
from inference.guides.guide import Guide, draw_of, init_of_guide
from inference.guides.normal import MeanField, rows_of_scale
from inference.guides.site_groups import SiteGroup, full_names, gather, group_sites, select_sites
from ppl.harvest.pytrees import register_dataclass

_REST = "rest"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PartParameters:
    """Parameters of :class:`BySite`.

    Attributes:
        parts: Parameters of each guide, keyed by the names of its sites, ``"mu, tau"``, or by
            ``"rest"``.
        layout: Split of a flat position into sites.
    """

    parts: dict[str, Any]
    layout: Layout

    def __repr__(self) -> str:
        return f"PartParameters({self.parts})"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BySite:
    r"""Independent guides, one for each group of sites, :math:`q(z) = \prod_g q_g(z_g)`.

    Variational EM is the case with :class:`inference.PointMass` for some sites and a normal guide
    for the others: the ELBO is maximized over the points and integrated over the other sites.

    Args:
        guides: Guides, keyed by a site or by a tuple of sites that share a guide. Sites are named
            as in the draws, scopes joined by dots; the name of a scope stands for all sites in it.
        rest: The guide of all other sites together.

    Raises:
        TypeError: if `guides` is not a dict, or a key is neither a name nor a tuple of names.
        ValueError: if a site is named twice.

    Example:
        >>> from inference import FullRank
        >>> guide = BySite({("mu", "tau"): FullRank()}, rest=MeanField(0.5))
        >>> position = {"mu": jnp.zeros(()), "tau": jnp.ones(()), "theta": jnp.ones(8)}
        >>> layout = Layout.of(position)
        >>> parameters = guide.init(layout.ravel(position), layout)
        >>> parameters.parts["mu, tau"].loc
        Array([0., 1.], dtype=float32)
        >>> guide.covariance(parameters).shape
        (10, 10)

    References:
        Wand, Ormerod, Padoan and Fruehwirth (2011), Mean field variational Bayes for elaborate
        distributions, on independent groups; Hoffman and Blei (2015), Structured stochastic
        variational inference, on the dependence between groups that such a guide leaves out.
    """

    guides: Mapping[str | tuple[str, ...], Guide]
    rest: Guide = MeanField()

    def __post_init__(self) -> None:
        if not isinstance(self.guides, Mapping):
            raise TypeError(
                f"guides of BySite must be a dict of guides by site, got {self.guides!r}"
            )
        by_names = {_names(key): guide for key, guide in self.guides.items()}
        if len(by_names) < len(self.guides):
            raise ValueError(f"BySite names a site twice, in {list(self.guides)}")
        object.__setattr__(self, "guides", dict(sorted(by_names.items())))

    @property
    def has_density(self) -> bool:
        """Whether all parts have a density."""
        return all(guide.has_density for guide in (*self.guides.values(), self.rest))

    def init(self, position: jax.Array, layout: Layout) -> PartParameters:
        """Parameters of all parts around `position`.

        Raises:
            ValueError: if a name belongs to no site, or a site is named twice.
        """
        parts = {
            name: guide.init(gather(position, part.index), part.layout)
            for name, guide, part in self._parts(layout)
        }
        return PartParameters(parts, layout)

    def init_normal(self, position: jax.Array, layout: Layout, scale: jax.Array) -> PartParameters:
        """Parameters of all parts, each close to the normal distribution of its coordinates."""
        parts = {}
        for name, guide, part in self._parts(layout):
            own = rows_of_scale(scale, part.index)
            parts[name] = init_of_guide(guide, gather(position, part.index), part.layout, own)
        return PartParameters(parts, layout)

    def sample(self, parameters: PartParameters, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        return self.sample_and_log_prob(parameters, key)[0]

    def sample_and_log_prob(
        self, parameters: PartParameters, key: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """A position and its log density."""
        parts = list(self._parts(parameters.layout))
        words = jnp.stack(threefry(seed_of(key), jnp.arange(len(parts))), axis=-1)
        draws = []
        log_probs = []
        for (name, guide, _), seed in zip(parts, words, strict=True):
            part_key = random.wrap_key_data(seed, impl="threefry2x32")
            draw, log_prob = draw_of(guide, parameters.parts[name], part_key)
            draws.append(draw)
            log_probs.append(log_prob)
        index = np.concatenate([part.index for _, _, part in parts])
        total = functools.reduce(operator.add, log_probs)
        return gather(jnp.concatenate(draws), np.argsort(index)), total

    def log_prob(self, parameters: PartParameters, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        log_probs = [
            guide.log_prob(parameters.parts[name], gather(position, part.index))
            for name, guide, part in self._parts(parameters.layout)
        ]
        return functools.reduce(operator.add, log_probs)

    def entropy(self, parameters: PartParameters) -> jax.Array | None:
        """The sum of the entropies of the parts, or `None` if an entropy has no closed form."""
        parts = self._parts(parameters.layout)
        entropies = [guide.entropy(parameters.parts[name]) for name, guide, _ in parts]
        known = [entropy for entropy in entropies if entropy is not None]
        return functools.reduce(operator.add, known) if len(known) == len(entropies) else None

    def covariance(self, parameters: PartParameters) -> jax.Array:
        """The covariance matrix, ``(size, size)``.

        Raises:
            TypeError: if a part has no covariance in closed form.
        """
        parts = list(self._parts(parameters.layout))
        index = np.argsort(np.concatenate([part.index for _, _, part in parts]))
        blocks = [_covariance(name, guide, parameters.parts[name]) for name, guide, _ in parts]
        return block_diag(*blocks)[index][:, index]

    def _parts(self, layout: Layout) -> Iterator[tuple[str, Guide, SiteGroup]]:
        """Name, guide and coordinates of each part with at least one site."""
        named = [name for names in self.guides for name in names]
        taken = select_sites("BySite", layout, named)
        for names, guide in self.guides.items():
            yield (
                ", ".join(names),
                guide,
                group_sites(layout, select_sites("BySite", layout, names)),
            )
        others = [name for name in full_names(layout) if name not in taken]
        if others:
            yield _REST, self.rest, group_sites(layout, others)


def _names(key: Any) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else key
    if not isinstance(names, tuple) or not names or not all(isinstance(x, str) for x in names):
        raise TypeError(
            f"the guides of BySite are given by a site or a tuple of sites, such as 'theta' or "
            f"('mu', 'tau'), got {key!r}"
        )
    return names


def _covariance(name: str, guide: Any, parameters: Any) -> jax.Array:
    if not hasattr(guide, "covariance"):
        raise TypeError(f"{guide}, the guide of {name}, has no covariance in closed form")
    return guide.covariance(parameters)
