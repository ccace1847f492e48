"""Normal prior of a model, for kernels that know the prior: mean and factor."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from inference.common.layout import Layout
from inference.common.target import Target, labels_by_name, named_sites
from inference.kernels.gradient_free.elliptical_slice import EllipticalSlice
from inference.models.quadratic_prior import check_normal
from inference.models.row_split import log_parts
from inference.optimization.hessian_normal import curvature
from inference.results.optimize_result import coordinate_names
from inference.runtime.blas_threads import one_blas_thread
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from ppl.harvest.pytrees import register_dataclass
from ppl.transforms.unconstrain import Unconstrained

_MAX_ROUNDS = 6  # of refinement; each gains the digits of the dtype
_MAX_SIZE = 5000  # coordinates, whose covariance is a matrix
_WHERE = "EllipticalSlice:"
_REMEDY = (
    "EllipticalSlice() moves latent sites that are jointly normal a priori. Give the others "
    "values, ppl.condition(model, values), or use Slice() or NUTS()"
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class _StandardPrior:
    """Log prior density as a function of coordinates in which it is meant to be standard normal.

    Attributes:
        target: Target with the prior.
        mean: Position where the coordinates are 0, flat.
        factor: Matrix that takes coordinates to deviations from there.
    """

    target: Unconstrained
    mean: jax.Array
    factor: jax.Array

    def log_density(self, coordinates: jax.Array) -> jax.Array:
        layout = Layout.of(self.target.position_shapes)
        position = layout.unravel(self.mean + self.factor @ coordinates)
        return log_parts(self.target, position)[0]


def with_prior_of(kernel: Any, target: Target) -> Any:
    """Kernel with the prior and the likelihood of a model, if it is one that knows its prior.

    Raises:
        TypeError: if the target is not over the unconstrained values of sites.
        ValueError: if the kernel has a prior or a likelihood already, or the latent sites are not
            jointly normal a priori.
    """
    if not isinstance(kernel, EllipticalSlice):
        return kernel
    given = [x.name for x in dataclasses.fields(kernel) if getattr(kernel, x.name) is not None]
    if given:
        raise ValueError(
            f"kernel has {', '.join(given)} of its own, but mcmc takes prior and likelihood from "
            "the model; pass EllipticalSlice() without them, or drive kernel.step yourself"
        )
    if not isinstance(target, Unconstrained):
        raise TypeError(
            "transport=True moves chains in coordinates in which the prior is not normal; leave it "
            "out with EllipticalSlice()"
        )
    check_normal(target, _WHERE, _REMEDY)
    mean, factor, log_prior = _standardize(target, Layout.of(target.position_shapes))
    scale = factor if factor.ndim == 1 else np.diag(factor)
    constant = log_prior + np.sum(np.log(scale)) + 0.5 * mean.size * np.log(2 * np.pi)
    dtype = Layout.of(target.position_shapes).dtype
    return EllipticalSlice(
        Partial(_log_likelihood, target, jnp.asarray(constant, dtype)),
        mean=jnp.asarray(mean, dtype),
        factor=jnp.asarray(factor, dtype),
    )


def _log_likelihood(target: Unconstrained, constant: jax.Array, position: Any) -> jax.Array:
    """Log likelihood, and the constant by which the prior differs from a normal density."""
    return log_parts(target, position)[1] + constant


def _standardize(target: Unconstrained, layout: Layout) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and factor of the prior, and the log prior density at the mean, in float64.

    The precision of a smooth Gaussian process may not fit the dtype. So its inverse is refined: the
    Hessian in coordinates that are standard normal but for rounding gives better coordinates. The
    factor is lower triangular, or a vector of standard deviations.

    Raises:
        ValueError: if the prior has no covariance, or none that fits the dtype.
    """
    size = layout.size
    if size > _MAX_SIZE:
        raise ValueError(
            f"{_WHERE} the latent sites have {size} unconstrained coordinates. Their covariance is "
            f"a matrix, of {_MAX_SIZE} coordinates at most. Use NUTS()."
        )
    eps = float(jnp.finfo(layout.dtype).eps)
    mean = np.zeros(size)
    factor = np.eye(size)
    flat = Layout.of(jax.ShapeDtypeStruct((size,), layout.dtype))
    zeros = np.zeros(size, layout.dtype)
    for _ in range(_MAX_ROUNDS):
        prior = _StandardPrior(
            target, jnp.asarray(mean, layout.dtype), jnp.asarray(factor, layout.dtype)
        )
        arguments = zeros, put_on_common_devices(prior), flat
        found = jax.device_get(compile_once(curvature, *arguments)(*arguments))
        value, slope, hessian = (np.asarray(x, np.float64) for x in found)
        precision = -0.5 * (hessian + hessian.T)
        error = max(np.abs(precision - np.eye(size)).max(), np.abs(slope).max())
        if error < 10 * np.sqrt(eps):
            return mean, _lower(factor), float(value)
        if not np.isfinite(error):
            break
        with one_blas_thread():
            values, vectors = np.linalg.eigh(precision)
            kept = np.maximum(values, eps * values[-1])
            mean = mean + factor @ (vectors @ ((slope @ vectors) / kept))
            factor = factor @ (vectors / np.sqrt(kept))
    names = coordinate_names(layout, labels_by_name(named_sites(target)))
    share = np.abs(factor).max(1)
    worst = ", ".join(names[i] for i in np.argsort(-share)[:4])
    raise ValueError(
        f"{_WHERE} the prior is improper, or so nearly that its covariance does not fit "
        f"{layout.dtype}, foremost along {worst}. Give these sites proper priors or add jitter, or "
        "set jax_enable_x64."
    )


def _lower(factor: np.ndarray) -> np.ndarray:
    """Lower triangular factor of a covariance from any other, or standard deviations."""
    with one_blas_thread():
        upper = np.linalg.qr(factor.T)[1]
    lower = (upper * np.sign(np.diag(upper))[:, None]).T
    scale = np.diag(lower)
    return scale if np.array_equal(lower, np.diag(scale)) else lower
