"""Models for kernels that read some rows at a time: rows, mode, covariance and step size."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.tree_util import Partial

from inference.common.layout import Layout
from inference.common.matrices import push
from inference.common.target import Target, labels_by_name, named_sites
from inference.drivers.optimize import mode_of
from inference.initialization.initial_positions import Init
from inference.kernels.subsampling.gradient_estimate import (
    StochasticGradientKernel,
    StochasticGradientState,
)
from inference.kernels.subsampling.kernel import SubsamplingKernel
from inference.kernels.subsampling.subsampled_hmc import SubsampledHMC
from inference.models.row_split import RowSplit, check_sum, split_rows
from inference.optimization.hessian_normal import NotAPeakError, normal_at
from inference.optimization.mode_search import ClimbSettings, Density
from inference.results.optimize_result import coordinate_names
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from ppl.transforms.unconstrain import Unconstrained

_FROM_MODEL = ("log_prior", "log_likelihood", "data")
_MAX_SIZE = 2000  # coordinates whose covariance is found
_MAX_STEPS = 1000  # of the climb
_STREAM = 0x53756273  # of random numbers, beyond those of chains, which count from 0
_NUM_PLACES = 8  # at which the noise of gradients is measured
_NUM_BATCHES = 16  # at each


def _keys_of(key: jax.Array) -> jax.Array:
    """Keys for the climb, the place and the order of the check, the noise, and the starts."""
    return random.split(random.fold_in(key, _STREAM), 5)


def with_rows_of(kernel: Any, moved: Target, key: jax.Array) -> Any:
    """Kernel with the prior, the likelihood and the rows of a model, if it is one that reads rows.

    It also gets a center, a covariance and a step size where it has none: the mode, the inverse
    curvature at the mode, and the step for the noise of gradients at draws about the mode.

    Raises:
        TypeError: if the target is not over the unconstrained values of sites.
        ValueError: if the kernel has densities or data already, or the data cannot be split into
            rows, there is no mode, there are too many coordinates, or gradients are not finite.
    """
    if not isinstance(kernel, SubsamplingKernel):
        return kernel
    who = type(kernel).__name__
    given = [name for name in _FROM_MODEL if getattr(kernel, name) is not None]
    if given:
        raise ValueError(
            f"kernel has {', '.join(given)} of its own, but mcmc takes them from the model; pass "
            f"{who}(batch_size=...) without them, or drive kernel.step yourself"
        )
    if not isinstance(moved, Unconstrained):
        raise TypeError(
            f"transport=True moves chains in coordinates of a guide, and {who} in those of the "
            "model: leave it out"
        )
    target: Any = put_on_common_devices(moved)
    layout = Layout.of(target.position_shapes)
    for_climb, for_place, for_order, for_noise, _ = _keys_of(key)
    split, rows = split_rows(target, kernel.rows_at_once, kernel.batch_size, who)
    _check_size(kernel, layout)
    center = _find_center(kernel, target, layout, for_climb)
    mode = center
    covariance = kernel.covariance
    if covariance is None:
        mode, covariance = _find_covariance(center, target, layout, who)
    if kernel.center is None:
        center = mode
    kernel = dataclasses.replace(kernel, center=layout.unravel(center), covariance=covariance)
    factor = kernel.factor_of(layout)
    place = mode + push(factor, random.normal(for_place, (layout.size,), layout.dtype))
    split = _checked(split, rows, place, layout, for_order, who)
    kernel = dataclasses.replace(
        kernel,
        log_prior=Partial(RowSplit.log_prior, split),
        log_likelihood=Partial(RowSplit.log_likelihood, split),
        data=rows,
    )
    if isinstance(kernel, StochasticGradientKernel) and kernel.step_size is None:
        noise = _measure_noise(kernel, mode, layout, for_noise)
        kernel = dataclasses.replace(kernel, step_size=kernel.step_size_for(noise))
    kernel.check(layout)
    return kernel


def starts_of(kernel: SubsamplingKernel, key: jax.Array, num_chains: int) -> Init:
    """Starts of chains: draws of the normal distribution about the center of a kernel.

    `key` is that of the run.
    """
    layout = Layout.of(kernel.center)
    *_, for_starts = _keys_of(key)
    noise = random.normal(for_starts, (num_chains, layout.size), layout.dtype)
    factor = kernel.factor_of(layout)
    center = layout.ravel(kernel.center)
    return Init("flat", np.asarray(jax.vmap(lambda z: center + push(factor, z))(noise)))


def _check_size(kernel: SubsamplingKernel, layout: Layout) -> None:
    """Checks that the matrices that a kernel needs are not too large.

    Raises:
        ValueError: if there are too many coordinates.
    """
    who = type(kernel).__name__
    if layout.size <= _MAX_SIZE:
        return
    shown = f"{who}: the latent sites have {layout.size} unconstrained coordinates, too many for"
    if isinstance(kernel, SubsampledHMC):
        raise ValueError(
            f"{shown} the expansion of the log likelihood to second order, whose matrix is found "
            f"for up to {_MAX_SIZE}. Take SGHMC(covariance=vector), with rough variances, whose "
            "gradients are expanded to first order; or use NUTS(), which reads all data in each "
            "step"
        )
    if kernel.covariance is None:
        raise ValueError(
            f"{shown} the curvature at the mode, whose matrix is found for up to {_MAX_SIZE}. Give "
            f"rough variances, {who}(covariance=vector)"
        )


def _find_center(
    kernel: SubsamplingKernel, target: Unconstrained, layout: Layout, key: jax.Array
) -> jax.Array:
    if kernel.center is not None:
        center = jax.tree.map(jnp.asarray, kernel.center)
        if Layout.of(center) != layout:
            raise ValueError(
                f"center of {type(kernel).__name__} must be a position on unconstrained space, "
                f"{layout}, got {Layout.of(center)}; leave it out for the mode"
            )
        return layout.ravel(center)
    climb = ClimbSettings.of("uniform", 1, _MAX_STEPS, None)
    try:
        found = mode_of(key, target, Density(include_jacobian=True), climb)
    except ValueError as error:
        raise ValueError(f"{type(kernel).__name__} begins at the mode, and {error}") from None
    return layout.ravel(jax.tree.map(jnp.asarray, found.position))


def _find_covariance(
    mode: jax.Array, target: Unconstrained, layout: Layout, who: str
) -> tuple[jax.Array, jax.Array]:
    """The mode after steps of Newton's method, and the inverse curvature there.

    Raises:
        ValueError: if there is no peak.
    """
    try:
        found = normal_at(np.asarray(mode), target, layout)
    except NotAPeakError as error:
        names = coordinate_names(layout, labels_by_name(named_sites(target)))
        shown = ", ".join(names[i] for i in error.index[:4])
        raise ValueError(
            f"{who} found no peak: where the climb ended, the log density on unconstrained space "
            f"{error.how} along {shown}. Give these sites narrower priors, or give the kernel a "
            f"center and a covariance; or use NUTS(), which needs no mode"
        ) from None
    matrix = found.scale_tril @ found.scale_tril.T
    return jnp.asarray(found.loc, layout.dtype), jnp.asarray(matrix, layout.dtype)


def _checked(
    split: RowSplit, rows: list[Any], place: jax.Array, layout: Layout, key: jax.Array, who: str
) -> RowSplit:
    """Split whose likelihood is the sum over rows, at a place near the mode.

    Raises:
        ValueError: if the likelihood is no such sum, or the prior depends on the rows.
    """
    order = random.permutation(key, split.num_rows)
    arguments = split, rows, place, layout, order
    found = jax.device_get(compile_once(check_sum, *arguments)(*arguments))
    whole, total, extent, changes = found
    tolerance = float(np.sqrt(jnp.finfo(layout.dtype).eps))
    if not np.isfinite(whole[0]) or not np.all(np.isfinite(whole[1])):
        raise ValueError(f"{who}: the log likelihood is not finite near the mode: {whole[0]}")
    if max(np.max(x) for x in jax.tree.leaves(changes)) > 10 * tolerance:
        raise ValueError(
            f"{who} cannot split the data of the model into rows: the prior of latent sites "
            "changes with the rows of a batch. Compute what it needs of all data beforehand, and "
            "make that an argument; or use NUTS()."
        )

    def is_sum(factor: float) -> bool:
        return all(
            np.max(np.abs(part - factor * all_)) <= tolerance * (factor * np.max(size) + 1)
            for part, all_, size in zip(total, whole, extent, strict=True)
        )

    if is_sum(1.0):
        return split
    number = split.num_rows / len(split.first[0])
    if split.num_rows % len(split.first[0]) == 0 and is_sum(number):
        return dataclasses.replace(split, is_scaled=True)
    rows_each = "one row" if len(split.first[0]) == 1 else f"{len(split.first[0])} rows"
    raise ValueError(
        f"{who} cannot split the data of the model into rows: near the mode, the log likelihood is "
        f"{whole[0]:.6g}, and the sum of its parts, of {rows_each} each, {total[0]:.6g}. Rows "
        "that depend on each other given the latent sites, as a time series or a Gaussian process, "
        "a factor, and sites whose arrays have other numbers of rows, are in the way. Use NUTS(), "
        "which reads all data in each step."
    )


def _measure_noise(
    kernel: StochasticGradientKernel, mode: jax.Array, layout: Layout, key: jax.Array
) -> float:
    """The largest variance of the noise of gradients along a coordinate, standardized.

    Raises:
        ValueError: if gradients are not finite.
    """
    keys = random.split(key, _NUM_PLACES)
    arguments = put_on_common_devices(kernel), mode, keys, layout
    noise = float(compile_once(_noise, *arguments)(*arguments))
    if not math.isfinite(noise):
        who = type(kernel).__name__
        raise ValueError(
            f"{who}: gradients of batches are not finite at draws of the normal distribution about "
            "the mode, by whose noise the step size is chosen. Look for rows whose log likelihood "
            "has no gradient; give smaller variances, as "
            f"{who}(covariance=vector); or use NUTS()"
        )
    return noise


def _noise(
    kernel: StochasticGradientKernel, mode: jax.Array, keys: jax.Array, layout: Layout
) -> jax.Array:
    kernel = dataclasses.replace(kernel, step_size=1e-3)  # any, so that the state can be made
    state: StochasticGradientState = kernel.init(kernel.center)
    factor = kernel.factor_of(layout)

    def at(key: jax.Array) -> jax.Array:
        for_place, for_batches = random.split(key)
        place = mode + push(factor, random.normal(for_place, mode.shape, mode.dtype))

        def gap(key: jax.Array) -> jax.Array:
            found = kernel.estimate(layout, factor, state.center_gradient, place, key)
            return found.noise

        return jnp.mean(lax.map(gap, random.split(for_batches, _NUM_BATCHES)), 0)

    return jnp.max(jnp.mean(lax.map(at, keys), 0))
