"""Standard forms of distributions: their own, or by the names of TFP's families."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.transforms.reparam_bases import Normal

Form = tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]  # base, forward, inverse

# Families without a method `standard_form`. They and their parameters have the names of TFP.
# A family is closed under x -> a + b x (location-scale), or under x -> b x (scale, rate).
_LOCATION_SCALE = (
    *("Normal", "StudentT", "Cauchy", "Laplace", "Logistic", "Gumbel", "HalfCauchy"),
    *("HalfStudentT", "DoublesidedMaxwell", "GeneralizedExtremeValue", "GeneralizedNormal"),
    *("GeneralizedPareto", "JohnsonSU", "Moyal", "SinhArcsinh", "TwoPieceNormal"),
    "TwoPieceStudentT",
)
_SCALE = ("HalfNormal", "Horseshoe", "InverseGamma", "Weibull")
_RATE = ("Exponential", "Gamma")
_VECTOR = "MultivariateNormal"
# Maps from unconstrained space under which a scale is a shift of positions.
_AFFINE_MAPS = ("Identity", "Exp", "Lower")


def has_standard_form(d: Any) -> bool:
    """Whether a draw is a known function of a standard variable; values are not looked at."""
    own = getattr(d, "has_standard_form", None)
    if own:
        return True
    name = distribution_protocol.name_of(d)
    if name in distribution_protocol.FAMILIES_OF_PARTS:
        return has_standard_form(d.distribution)
    if name == "FromTFP":
        return has_standard_form(d.base)
    if own is None and (name in (*_LOCATION_SCALE, *_SCALE, *_RATE) or name.startswith(_VECTOR)):
        return True
    if name == "LogNormal":
        return True
    return distribution_protocol.transform(d) is not None and has_standard_form(d.distribution)


def has_centering_weight(d: Any) -> bool:
    """Whether each element of a position has a weight between centered and non-centered.

    The centered position is then an affine function of the non-centered one, element by element.
    """
    part = distribution_protocol.part_of(d)
    if not has_standard_form(part) or distribution_protocol.num_event_axes(part):
        return False
    try:
        form = standard_form(part, 0.5)
    except NotImplementedError:
        return False
    if form is None:  # an image of its base
        base = getattr(part, "distribution", None)
        if base is None:
            return False
        return distribution_protocol.part_of(base) is base and has_centering_weight(base)
    base = form[0]
    if isinstance(base, Normal):  # a standard normal variable, whatever the weight
        return False
    if distribution_protocol.name_of(base) != distribution_protocol.name_of(part):  # its image
        return distribution_protocol.is_real(base)
    return type(distribution_protocol.bijector(part)).__name__ in _AFFINE_MAPS


def standard_form(d: Any, centeredness: Any) -> Form | None:
    """The standard form of a family with a weight, None for 0; or None if it has no form.

    Raises:
        NotImplementedError: If the family has a form, but none with a weight.
    """
    if getattr(d, "has_standard_form", False):
        base, forward, inverse = d.standard_form(centeredness)
        return Normal(0.0, 1.0) if base is None else base, forward, inverse
    name = distribution_protocol.name_of(d)
    if name == "FromTFP":
        return standard_form(d.base, centeredness)
    if hasattr(d, "standard_form"):
        return None
    if name.startswith(_VECTOR):
        if centeredness is not None:
            raise NotImplementedError(f"{name} has no partial centering.")
        return _whiten(d)
    if name in _LOCATION_SCALE:
        return _standardize(d, d.loc, d.scale, centeredness)
    if name in _SCALE:
        return _standardize(d, None, d.scale, centeredness)
    if name in _RATE and d.rate is not None:
        return _standardize(d, None, 1 / d.rate, centeredness, is_rate=True)
    return None


def replace(d: Any, parameters: dict[str, Any]) -> Any:
    """A distribution with some parameters replaced."""
    return d.copy(**parameters) if hasattr(d, "copy") else dataclasses.replace(d, **parameters)


def _standardize(d: Any, loc: Any, scale: Any, centeredness: Any, *, is_rate: bool = False) -> Form:
    """Partial centering of a family of numbers; a centeredness of None is exactly 0."""
    if centeredness is None:
        shift = None
        stretch = scale
        base_scale = _ones(scale)
    else:
        shift = None if loc is None else centeredness * loc
        stretch = scale ** (1 - centeredness)
        base_scale = scale**centeredness
    parameters = {"rate": 1 / base_scale} if is_rate else {"scale": base_scale}
    if loc is not None:
        parameters["loc"] = 0 * _ones(loc) if shift is None else shift

    def forward(z: Any) -> Any:
        z = z if shift is None else z - shift
        return stretch * z if loc is None else loc + stretch * z

    def inverse(x: Any) -> Any:
        z = (x if loc is None else x - loc) / stretch
        return z if shift is None else z + shift

    return replace(d, parameters), forward, inverse


def _whiten(d: Any) -> Form:
    """Whitening of TFP's multivariate normals, by their linear operator."""
    loc = 0.0 if d.loc is None else d.loc
    root = d.scale
    return Normal(0.0, 1.0), lambda z: loc + root.matvec(z), lambda x: root.solvevec(x - loc)


def _ones(x: Any) -> Any:
    return jnp.ones_like(x) if isinstance(x, jax.Array) else 0 * x + 1
