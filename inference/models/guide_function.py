"""Guides that are functions of a key, as models are, with parameters by `ppl.param`."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.tree_util import Partial

import ppl
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.serialization import Leaves, restore_structure
from inference.models.carried_state import initial_state, with_state
from inference.models.value_target import (
    ValueTarget,
    fingerprint,
    pick,
    sites_of,
)
from inference.runtime.devices import put_on_common_devices
from ppl.core.model_pytree import as_pytree, innermost
from ppl.harvest.names import nest_by_path
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, join_scopes


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GuideFunction:
    """Guide that is a function of a key and the arguments of a model.

    Its parameters are dicts by name, on unconstrained space. A position is the flat vector of the
    values of all latent sites.

    Attributes:
        guide: The function.
        target: The model.
        jumps: Paths of sites whose draws are not differentiable in the parameters.
        captured: Fingerprint of the constants that the function captures.
        state: Values of `ppl.state` of the function by name; None if it has none.
    """

    guide: Callable[..., Any]
    target: ValueTarget
    jumps: tuple[Path, ...] = dataclasses.field(default=(), metadata={"static": True})
    captured: tuple[Hashable, ...] = dataclasses.field(default=(), metadata={"static": True})
    state: Any = None
    has_density: ClassVar[bool] = True

    @classmethod
    def loaded(cls, guide: Callable[..., Any], state: Any) -> "GuideFunction":
        """Guide of a result from a file: its function, without the model that it was fitted to."""
        return cls(as_pytree(guide), None, state=state)  # pyright: ignore[reportArgumentType]

    @property
    def layout(self) -> Layout:
        """Layout of flat positions, as vectors of values."""
        return self.target.layout

    def to(self, target: ValueTarget) -> "GuideFunction":
        """Guide by the same function to a model with other arguments."""
        return dataclasses.replace(self, target=target)

    def init(self, position: jax.Array, layout: Layout) -> Any:
        """Initial parameters of the function itself; `position` is ignored."""
        return self.target.call(ppl.reap(self.guide, tag="param"), random.key(0))

    def sample(self, parameters: dict[str, Any], key: jax.Array) -> jax.Array:
        """Draw of all values, flat; values of `jumps` are constants to derivatives."""
        guide = self.at(parameters)
        if self.jumps:
            drawn = self.target.call(ppl.simulate(self.at(lax.stop_gradient(parameters))), key)
            fixed = pick(drawn, self.jumps)
            guide = ppl.intervene(guide, fixed)
        values = self.target.call(ppl.simulate(guide), key)
        return self.layout.ravel(pick(values, tuple(dict(self.target.shapes))))

    def log_prob(self, parameters: dict[str, Any], position: jax.Array) -> jax.Array:
        """Log density of values, a scalar."""
        values = self.layout.unravel(position)
        return self.target.call(ppl.log_density(self.at(parameters)), values)

    def log_prob_of_jumps(self, parameters: dict[str, Any], position: jax.Array) -> jax.Array:
        """Log density of only the sites in `jumps`, each given the draws before it; a scalar."""
        values = self.layout.unravel(position)
        found = self.target.call(ppl.log_probs(self.at(parameters)), values)
        parts = map(jnp.sum, jax.tree.leaves(pick(found, self.jumps)))
        return sum(parts, start=jnp.zeros((), position.dtype))

    def entropy(self, parameters: dict[str, Any]) -> None:
        """None: the entropy of a function has no closed form."""
        return None

    def values(self, parameters: dict[str, Any]) -> Any:
        """Parameters by name, mapped to their supports."""
        reaped = ppl.reap(self.at(parameters), tag="param_value")
        return self.target.call(reaped, random.key(0))

    def __repr__(self) -> str:
        return getattr(innermost(self.guide), "__name__", "a function")

    def at(self, parameters: dict[str, Any]) -> Callable[..., Any]:
        """Model of the latent sites: the function with these parameters planted."""
        return Partial(plant_parameters, with_state(self.guide, self.state), parameters)


def make_target(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, *, is_function: bool
) -> Any:
    """Target of a guide.

    - A guide that is a function is fitted to the values of sites.
    - Any other guide is fitted to positions on unconstrained space.
    """
    model, args, kwargs = put_on_common_devices((model, args, kwargs))
    if is_function:
        return ValueTarget.of(model, args, kwargs)
    return ppl.unconstrain(model, *args, **kwargs)


def bind_guide(target: Any, guide: Any) -> tuple[Any, Layout]:
    """Guide bound to its target, and the layout of positions."""
    if isinstance(target, ValueTarget):
        return guide_function(guide, target), target.layout
    return guide, Layout.of(target.position_shapes)


def guide_function(guide: Callable[..., Any], target: ValueTarget) -> GuideFunction:
    """Guide to a model by a function of a key.

    Raises:
        ValueError: if function and model do not have exactly the same latent sites, or if the
            function has no parameters.
    """
    function = as_pytree(guide)
    made = GuideFunction(function, target)
    args, kwargs = target.arguments.join(target.data)
    drawn = _check_drawn_sites(made, sites_of(function, args, kwargs))
    parameters = jax.eval_shape(lambda: made.init(jnp.zeros(0), made.layout))
    if not jax.tree.leaves(parameters):
        raise ValueError(
            f"guide {made!r} has no parameters to fit. Make them in it, "
            "scale = ppl.param(1.0, name='scale', support=constraints.positive)."
        )
    jumps = tuple(path for path, site in drawn.items() if _jumps(site))
    captured = fingerprint(function, target.arguments, target.data)
    state = initial_state(function, args, kwargs)
    return dataclasses.replace(made, jumps=jumps, captured=captured, state=state)


def plant_parameters(
    function: Callable[..., Any], parameters: Any, key: Any, *args: Any, **kwargs: Any
) -> Any:
    """Result of a guide or a model with unconstrained parameters planted.

    Parameters from a file may have lost their structure, which the function itself has.
    """
    if any(map(_is_from_file, jax.tree.leaves(parameters, is_leaf=_is_from_file))):
        reaped = ppl.reap(function, tag="param")
        expected = jax.eval_shape(lambda key: reaped(key, *args, **kwargs), key)
        parameters = restore_structure(parameters, expected)
    return ppl.plant(function, tag="param")(parameters, key, *args, **kwargs)


def _is_from_file(part: Any) -> bool:
    return isinstance(part, Leaves)


def _check_drawn_sites(
    made: GuideFunction, sites: Mapping[Path, ppl.SiteTrace]
) -> dict[Path, ppl.SiteTrace]:
    """Latent sites of a guide by path.

    Raises:
        ValueError: if the model has other latent sites, or if the guide has an observed site or a
            factor.
    """
    for path, site in sites.items():
        if site.kind in ("observed", "factor"):
            raise ValueError(
                f"site {join_scopes(path)!r} of guide {made!r} is {site.kind}: a guide is a "
                "normalized density of its draws"
            )
    latent = {path: site for path, site in sites.items() if site.kind == "latent"}
    drawn = _kinds({path: site.value for path, site in latent.items()})
    expected = _kinds(dict(made.target.shapes))
    if drawn != expected:
        raise ValueError(
            f"guide {made!r} must draw the latent sites of the model, {_list_kinds(expected)}, and "
            f"no others, but draws {_list_kinds(drawn)}"
        )
    return latent


def _jumps(site: ppl.SiteTrace) -> bool:
    """Whether the draws of a site are not differentiable in the parameters of its distribution."""
    is_floating = all(jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(site.value))
    return not is_floating or not _is_reparameterized(site.distribution)


def _is_reparameterized(distribution: Any) -> bool:
    """Whether a distribution, or the innermost `base` of a wrapper, is reparameterized."""
    base = getattr(distribution, "base", None)
    return getattr(distribution, "is_reparameterized", base is None or _is_reparameterized(base))


def _kinds(values: Mapping[Path, Any]) -> dict[str, str]:
    """Shapes of the leaves of values by name, with the dtype of discrete ones, as text."""
    return {
        name: f"{x.shape}{'' if jnp.issubdtype(x.dtype, jnp.floating) else f' {x.dtype}'}"
        for name, x in named_leaves(nest_by_path(values))
    }


def _list_kinds(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items()) or "none"
