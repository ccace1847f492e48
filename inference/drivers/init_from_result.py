"""Starts of chains and fits from a former result, with the covariance that it knows."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.target import Target
from inference.common.threefry import seed_of
from inference.guides.low_rank_normal import GuideMixture
from inference.initialization.initial_positions import Init, NormalStart
from inference.results.guide_result import GuideResult
from inference.results.importance_result import ImportanceResult
from inference.results.optimize_result import OptimizeResult
from inference.results.pathfinder_result import normalize_weights
from inference.results.svgd_result import SVGDResult

Started = GuideResult | ImportanceResult | OptimizeResult | SVGDResult  # besides chains themselves
_MAX_COORDINATES = 2000  # of a dense covariance
_MIN_DRAWS_PER_COORDINATE = 5  # effective draws, for a dense covariance


def choose_starts(
    key: jax.Array, result: Any, target: Target, num_chains: int
) -> Mapping[str, Any]:
    """Starting values of chains from a former result, by site.

    - A mode: its values, without an axis over chains; all chains start there.
    - Draws: one for each chain, with the chains in front. They are chosen by smoothed weight and
      without replacement, so that chains differ as long as there are enough draws. The choice for a
      chain depends only on the key and the number of the chain.

    Raises:
        ValueError: if the result is of another model.
    """
    is_mode = isinstance(result, OptimizeResult)
    values = result.values if is_mode else jax.tree.map(lambda x: x[0], result.draws)
    check_sites_of(values, target, type(result).__name__, 0 if is_mode else 1)
    if is_mode:
        return values
    chosen = _choose_draws(key, _counts(result), num_chains)
    return jax.tree.map(lambda x: np.asarray(x)[chosen], values)


def _counts(result: Any) -> np.ndarray:
    """Weight of each draw, ``(draw,)``.

    The first of several equal draws carries the weight of all; the others have weight 0.
    """
    weights = getattr(result, "weights", None)
    if weights is None:
        log_weights = np.zeros_like(np.asarray(result.log_density))
        if getattr(result, "guide", None) is not None and result.guide.has_density:
            log_weights = np.asarray(result.log_weights)
        weights = normalize_weights(log_weights)
    weights = np.nan_to_num(np.asarray(weights, np.float64)[0])
    draws = jax.tree.leaves(result.draws)
    rows = np.concatenate([np.reshape(x, (weights.size, -1)) for x in draws], 1)
    _, first, same = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    counts = np.zeros_like(weights)
    counts[first] = np.bincount(np.ravel(same), weights)
    return counts


def _choose_draws(key: jax.Array, weights: np.ndarray, num_chains: int) -> np.ndarray:
    """Indices of draws for the chains, by weighted sampling without replacement.

    If there are more chains than draws of positive weight, these draws repeat in the same order.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir.
    """
    rng = np.random.default_rng([*np.asarray(seed_of(key)), 1])
    with np.errstate(divide="ignore"):
        times = np.log(rng.exponential(size=weights.size)) - np.log(weights)
    order = np.argsort(times, kind="stable")
    known = order[: max(1, np.count_nonzero(weights))]
    return np.resize(known, num_chains)


def check_sites_of(values: Any, target: Target, what: str, num_leading: int) -> None:
    """Raises ValueError if the names and shapes of values do not fit the sites of the model."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    sites = jax.eval_shape(lambda key: target.constrain(target.initial(key)), key)
    expected = {name: x.shape for name, x in named_leaves(sites)}
    found = {name: np.shape(x)[num_leading:] for name, x in named_leaves(values)}
    if found != expected:
        raise ValueError(
            f"init is a {what} of another model or of data of other shapes: it has "
            f"{list_shapes(found)}, and the model {list_shapes(expected)}. Pass a result for "
            "this model, or a dict of values for the sites that it shares."
        )


def list_shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Names of sites with their shapes, in words."""
    return ", ".join(f"{name} {shape}" for name, shape in sorted(shapes.items())) or "nothing"


def covariance_of(result: Any) -> np.ndarray | None:
    """Covariance of flat positions under a result's guide, or None.

    A mixture of several paths gives only the covariance of its best component: within a mode, not
    between modes. None is returned

    - if the guide has no covariance,
    - if the guide has coordinates of its own, by learned weights of centering,
    - beyond 2000 coordinates, or
    - if the matrix is not finite and positive definite.
    """
    guide, parameters = _best_guide(result)
    size = getattr(getattr(parameters, "loc", None), "size", np.inf)
    has_coordinates = bool(getattr(result, "centering", None))
    if has_coordinates or not hasattr(guide, "covariance") or size > _MAX_COORDINATES:
        return None
    covariance = np.asarray(guide.covariance(parameters))
    return None if _cholesky(covariance) is None else covariance


def _best_guide(result: Any) -> tuple[Any, Any]:
    """Guide and parameters of a result; of a mixture of paths, the component of highest ELBO."""
    guide: Any = getattr(result, "guide", None)
    parameters: Any = getattr(result, "parameters", None)
    if isinstance(guide, GuideMixture):
        best = int(np.argmax(result.elbos))
        guide = guide.guide
        parameters = jax.tree.map(lambda x: x[best], parameters.components)
    return guide, parameters


def _cholesky(covariance: np.ndarray) -> np.ndarray | None:
    """Cholesky factor in float64, or None if there is no finite one."""
    with np.errstate(all="ignore"):
        try:
            factor = np.linalg.cholesky(np.asarray(covariance, np.float64))
        except np.linalg.LinAlgError:
            return None
    return factor if np.isfinite(factor).all() else None


def normal_start(result: Any, target: Target, layout: Layout) -> NormalStart:
    """Normal distribution at which a fit starts, from a former result.

    ======================= ===================== =================================
    result                  mean                  scale
    ======================= ===================== =================================
    mode                    the mode              none
    guide with a covariance mean of the guide     Cholesky factor of its covariance
    guide without a density mean of the draws     none
    other draws             mean of the draws     see below
    ======================= ===================== =================================

    Draws count by their weights, if they have any. Their scale is the Cholesky factor of the
    covariance, if there are five effective draws for each coordinate and at most 2000 coordinates;
    else their standard deviations. It is None if some coordinate does not vary. Of a model with
    weights of centering, coordinates may differ from those of the result: a mode or draws then
    stand for all that is known.

    Raises:
        ValueError: if the result is of another model.
    """
    is_mode = isinstance(result, OptimizeResult)

    def flat(x):
        return np.reshape(x, (np.prod(np.shape(x)[:2]), *np.shape(x)[2:]))

    values = result.values if is_mode else jax.tree.map(flat, result.draws)
    check_sites_of(values, target, type(result).__name__, 0 if is_mode else 1)
    has_weights = bool(getattr(target, "centering", None))
    covariance = None if has_weights else covariance_of(result)
    if is_mode:
        loc = layout.ravel(result.position)
        scale = None
        if has_weights:
            alone = jax.tree.map(lambda x: np.asarray(x)[None], values)
            loc = positions_of(alone, target, layout)[0]
    elif covariance is not None:
        loc = _best_guide(result)[1].loc
        scale = _cholesky(covariance)
    else:
        loc, scale = _moments(result, positions_of(values, target, layout))
    scale = None if scale is None else scale.astype(layout.dtype)
    return NormalStart(Init("flat", np.asarray(loc, layout.dtype)[None]), scale)


def positions_of(values: Any, target: Target, layout: Layout) -> np.ndarray:
    """Draws as flat positions on unconstrained space, ``(draw, size)``."""

    def position(values: Any) -> jax.Array:
        return layout.ravel(target.initial(jax.random.key(0), values))

    return np.asarray(jax.jit(jax.vmap(position))(values), np.float64)


def _moments(result: Any, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Weighted mean of finite positions, and their scale.

    The scale is a Cholesky factor ``(size, size)``, standard deviations ``(size,)``, or None; see
    :func:`normal_start`.
    """
    weights = np.ravel(getattr(result, "weights", np.ones(len(positions))))
    weights = np.where(np.isfinite(positions).all(1), np.nan_to_num(weights), 0.0)
    used = weights > 0
    positions = positions[used]
    weights = weights[used] / np.sum(weights)
    loc = weights @ positions
    guide = getattr(result, "guide", None)
    if guide is not None and not guide.has_density:
        return loc, None
    centered = positions - loc
    excess = np.sum(weights**2)
    size = loc.size
    scale = np.sqrt(weights @ centered**2 / (1 - excess))
    if not np.all(scale > 0):
        return loc, None
    if size > _MAX_COORDINATES or 1 / excess < _MIN_DRAWS_PER_COORDINATE * size:
        return loc, scale
    factor = _cholesky((centered.T * weights) @ centered / (1 - excess))
    return loc, scale if factor is None else factor
