"""Formulas derived from another family: at other parameters, or by a change of variables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array, lax

if TYPE_CHECKING:
    from distributions.core.family import Family

_VALUE_FUNCTIONS = "log_prob", "cdf", "survival", "log_cdf", "log_survival", "quantile"
_MOMENTS = "mean", "variance", "mode", "entropy"
# Numbers of arguments in front of the parameters.
_LEADING = {"sample": 3} | dict.fromkeys(_VALUE_FUNCTIONS, 1) | dict.fromkeys(_MOMENTS, 0)


def _formulas(base: type[Family]) -> dict[str, Callable[..., Any]]:
    found = {name: getattr(base._row, name) for name in _LEADING}
    return {name: formula for name, formula in found.items() if formula is not None}


def reparameterize_formulas(
    base: type[Family], to_base: Callable[..., tuple[Any, ...]]
) -> dict[str, Any]:
    """The formulas of `base` at the parameters `to_base(*parameters)`."""

    def derive(name, formula):
        k = _LEADING[name]
        return lambda *args: formula(*args[:k], *to_base(*args[k:]))

    return {name: derive(name, formula) for name, formula in _formulas(base).items()}


def transform_formulas(
    base: type[Family],
    forward: Callable[..., Any],
    inverse: Callable[..., Any],
    log_det: Callable[..., Any],
    to_base: Callable[..., tuple[Any, ...]] = lambda *parameters: parameters,
    **own: Any,
) -> dict[str, Any]:
    """The formulas of `x = forward(z, *parameters)`, increasing in `z`, with `z` from `base`.

    Moments are not derived.

    Args:
        base: The family of `z`.
        forward: The map from `z` and the parameters to `x`.
        inverse: The map from `x` and the parameters to `z`.
        log_det: The logarithm of the derivative of `inverse` in `x`.
        to_base: The map from the parameters of `x` to parameters of `base`; by default the
            identity.
        **own: Formulas that are not derived, or replace a derived one.
    """

    def of_value(formula):
        return lambda x, *p: formula(inverse(x, *p), *to_base(*p))

    given = _formulas(base)
    rows: dict[str, Any] = {
        name: of_value(given[name]) for name in _VALUE_FUNCTIONS[1:-1] if name in given
    }
    rows["log_prob"] = lambda x, *p: (
        given["log_prob"](inverse(x, *p), *to_base(*p)) + log_det(x, *p)
    )
    rows["has_finite_slopes"] = True
    rows["sample"] = lambda key, shape, dtype, *p: forward(
        given["sample"](key, shape, dtype, *to_base(*p)), *p
    )
    if "quantile" in given:
        rows["quantile"] = lambda q, *p: forward(given["quantile"](q, *to_base(*p)), *p)
    return rows | own


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _attach_derivative(cdf: Any, log_prob: Any, draw: Array, parameters: tuple[Any, ...]) -> Array:
    return draw


@_attach_derivative.defjvp
def _attach_derivative_jvp(
    cdf: Any, log_prob: Any, primals: Any, tangents: Any
) -> tuple[Array, Array]:
    draw, parameters = primals
    _, slope = jax.jvp(lambda p: jnp.asarray(cdf(draw, *p)), (parameters,), (tangents[1],))
    return draw, -slope * jnp.exp(-log_prob(draw, *parameters))


def differentiate_implicitly(sample: Any, cdf: Any, log_prob: Any) -> Any:
    """A sampler with implicit derivatives, under which `cdf(draw)` is constant.

    Derivatives of `sample` itself are ignored.

    References:
        Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS (2018).
    """

    def draw(key, shape, dtype, *parameters):
        value = sample(key, shape, dtype, *map(lax.stop_gradient, parameters))
        return _attach_derivative(cdf, log_prob, lax.stop_gradient(value), parameters)

    return draw
