"""Guides that are written as functions of a key, as models are, with parameters by `ppl.param`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.tree_util import Partial

import ppl
from inference.flat import Layout
from inference.names import named_leaves

_PARAM, _PARAM_VALUE = "param", "param_value"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Values:
    """A model's density of the values of its latent sites, in place of unconstrained positions."""

    target: ppl.Unconstrained

    def log_density(self, position: Mapping[str, Any]) -> jax.Array:
        """The log density of values."""
        args, kwargs = arguments_of(self.target)
        return ppl.log_density(self.target.model)(position, *args, **kwargs)

    def initial(self, key: jax.Array, values: Any = None) -> dict[str, Any]:
        """Values to start from, where some sites may have some."""
        return self._latent(self.target.initial(key, values))

    def prior(self, key: jax.Array) -> dict[str, Any]:
        """Values drawn from the prior."""
        return self._latent(self.target.prior(key))

    def constrain(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """The values and what follows from them."""
        return self.target.constrain(self.target.unconstrain(position))

    def sites(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """For messages: by site, what has its `value`, `distribution` and `log_prob`."""
        if any(np.isnan(x).any() for x in jax.tree.leaves(position)):
            return self.target.sites(self.target.unconstrain(position))
        args, kwargs = arguments_of(self.target)
        observed = ppl.condition(self.target.model, position)
        return ppl.trace(observed)(random.key(0), *args, **kwargs).sites

    def _latent(self, position: Any) -> dict[str, Any]:
        return _like(self.target.constrain(position), position)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GuideFunction:
    """A guide that is a function of a key and of the arguments of a model.

    Its parameters are dicts by name, in unconstrained space; a position is the flat vector of the
    values of all latent sites.

    Attributes:
        guide: The function.
        target: The model.
        layout: How flat positions are split into values.
    """

    guide: Callable[..., Any]
    target: Values
    layout: Layout
    has_density: ClassVar[bool] = True

    def to(self, target: ppl.Unconstrained) -> "GuideFunction":
        """The same function as a guide to a model with other arguments."""
        values = Values(target)
        layout = Layout.of(jax.eval_shape(values.initial, random.key(0)))
        return GuideFunction(self.guide, values, layout)

    def init(self, position: jax.Array, layout: Layout) -> Any:
        """The parameters that the function itself begins with, wherever `position` is."""
        args, kwargs = arguments_of(self.target.target)
        return ppl.reap(self.guide, tag=_PARAM)(random.key(0), *args, **kwargs)

    def sample(self, parameters: dict[str, Any], key: jax.Array) -> jax.Array:
        """The values of a draw, flat."""
        args, kwargs = arguments_of(self.target.target)
        values = ppl.simulate(self._with(parameters))(key, *args, **kwargs)
        return self.layout.ravel(_like(values, self._sites()))

    def log_prob(self, parameters: dict[str, Any], position: jax.Array) -> jax.Array:
        """The log density of values, a scalar."""
        args, kwargs = arguments_of(self.target.target)
        values = self.layout.unravel(position)
        return ppl.log_density(self._with(parameters))(values, *args, **kwargs)

    def entropy(self, parameters: dict[str, Any]) -> None:
        """Not known in closed form."""
        return None

    def values(self, parameters: dict[str, Any]) -> Any:
        """The parameters in their supports, by name."""
        args, kwargs = arguments_of(self.target.target)
        return ppl.reap(self._with(parameters), tag=_PARAM_VALUE)(random.key(0), *args, **kwargs)

    def __repr__(self) -> str:
        return getattr(self.guide.func, "__name__", "a function")

    def _with(self, parameters: dict[str, Any]) -> Callable[..., Any]:
        """The guide with other parameters than those that it begins with."""
        return Partial(_planted, self.guide, parameters)

    def _sites(self) -> Any:
        return jax.tree.unflatten(self.layout.treedef, [None] * len(self.layout.shapes))


def guide_function(
    key: jax.Array, guide: Callable[..., Any], target: ppl.Unconstrained
) -> GuideFunction:
    """A function of a key as a guide to a model.

    Raises:
        ValueError: if it does not draw the latent sites of the model, and no others, has no
            parameters, or draws that cannot be differentiated.
    """
    values = Values(target)
    layout = Layout.of(jax.eval_shape(values.initial, key))
    function = guide if isinstance(guide, Partial) else Partial(guide)
    made = GuideFunction(function, values, layout)
    _check_sites(made, key)
    if not jax.tree.leaves(jax.eval_shape(lambda: made.init(jnp.zeros(0), layout))):
        raise ValueError(
            f"guide {made!r} has no parameters to fit. Make them in it, "
            "scale = ppl.param(1.0, name='scale', support=constraints.positive)."
        )
    return made


def arguments_of(target: ppl.Unconstrained) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a model, and of its guide."""
    return target.arguments.join(target.data)


def _planted(
    guide: Callable[..., Any], parameters: Any, key: Any, *args: Any, **kwargs: Any
) -> Any:
    return ppl.plant(guide, tag=_PARAM)(parameters, key, *args, **kwargs)


def _like(values: Mapping[str, Any], structure: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the sites that `structure` has."""
    return {
        name: _like(values[name], inner) if isinstance(inner, Mapping) else values[name]
        for name, inner in structure.items()
    }


def _check_sites(made: GuideFunction, key: jax.Array) -> None:
    args, kwargs = arguments_of(made.target.target)

    def latent(key: jax.Array) -> dict[str, Any]:
        sites = ppl.trace(made.guide)(key, *args, **kwargs).sites
        is_site = lambda x: isinstance(x, ppl.SiteTrace)  # noqa: E731
        paths = jax.tree_util.tree_flatten_with_path(sites, is_leaf=is_site)[0]
        found = {".".join(str(part.key) for part in path): site for path, site in paths}
        for name, site in found.items():
            _check_site(f"site {name!r} of guide {made!r}", site)
        return {name: site.value for name, site in found.items() if site.kind == "latent"}

    drawn = {name: x.shape for name, x in named_leaves(jax.eval_shape(latent, key))}
    leaves = [jax.ShapeDtypeStruct(shape, float) for shape in made.layout.shapes]
    wanted = jax.tree.unflatten(made.layout.treedef, leaves)
    expected = {name: x.shape for name, x in named_leaves(wanted)}
    if drawn != expected:
        raise ValueError(
            f"guide {made!r} must draw the latent sites of the model, {_listed(expected)}, and no "
            f"others, but draws {_listed(drawn)}"
        )


def _check_site(where: str, site: ppl.SiteTrace) -> None:
    if site.kind in ("observed", "factor"):
        raise ValueError(f"{where} is {site.kind}: a guide is a normalised density of its draws")
    is_reparameterized = getattr(site.distribution, "is_reparameterized", True)
    if site.kind == "latent" and not is_reparameterized:
        raise ValueError(
            f"{where} has draws of {type(site.distribution).__name__} that are no differentiable "
            "function of its parameters, so the ELBO has no gradient along them. Draw from another "
            "distribution, or transform a normal one by dist.TransformedDistribution."
        )


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"
