"""Checks whether the draws of Markov chains are of a model with its data."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.common.target import Target
from inference.initialization.initial_positions import parse_init
from inference.models.value_target import ValueTarget
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import numbers_of_any_kind

_MAX_CHECKED = 8  # chains whose last log density is compared


@runtime_checkable
class _OfChains(Protocol):
    """Result of Markov chains, with the statistics of each transition."""

    draws: dict[str, Any]
    stats: dict[str, Any]
    sites: tuple[Any, ...]


def check_model(
    where: str,
    result: Any,
    latent: Collection[str],
    model: Callable[..., Any],
    args: Any,
    kwargs: Any,
) -> None:
    """Checks by log densities that Markov chains have drawn from a model with its data.

    Nothing is compared if the chains sampled other sites than the `latent` sites of the model: the
    model may have been given in another form.

    Raises:
        ValueError: if log densities differ.
    """
    if not isinstance(result, _OfChains):
        return
    sampled = {name for name, is_deterministic, *_ in result.sites if not is_deterministic}
    if sampled == {*latent} and "log_density" in result.stats:
        pairs: list[tuple[np.ndarray, np.ndarray]] = []
        for target in _targets(result, model, args, kwargs):
            pair = _last_densities(result.draws, result.stats, put_on_common_devices(target))
            if pair is None or _is_equal(pair[0], pair[1]):
                return
            pairs.append(pair)
        found, wanted = min(pairs, key=lambda pair: float(np.min(np.abs(pair[0] - pair[1]))))
        _check_equal(where, found, wanted, "the last draw of a chain", "run", "sampled")


def _targets(
    result: Any, model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[Any]:
    """Targets whose log density draws may have: values of sites move too, as in Gibbs sampling."""
    values = ValueTarget.of(model, args, kwargs)
    if all(jnp.issubdtype(x.dtype, jnp.floating) for _, x in values.shapes):
        yield in_coordinates_of(result, ppl.unconstrain(model, *args, **kwargs))
    yield values


def check_mode(
    where: str,
    mode: Any,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Target:
    """Checks by the log density that a mode is of a model with its data.

    Returns:
        The model on unconstrained space.

    Raises:
        ValueError: if latent sites, shapes or log densities differ.
    """
    target = put_on_common_devices(ppl.unconstrain(model, *args, **kwargs))
    wanted = jax.tree.map(np.shape, mode.position)
    found = jax.tree.map(np.shape, target.position_shapes)
    if wanted != found:
        raise ValueError(
            f"{where}: the model, its arguments or its data are not those of the search: "
            f"unconstrained space has the shapes {found}, and the search had {wanted}. Give what "
            "was searched"
        )
    with numbers_of_any_kind():
        program = compile_once(mode.density.log_density, target, mode.position)
        height = np.atleast_1d(program(target, mode.position))
    wanted = np.atleast_1d(mode.log_density)
    _check_equal(where, height, wanted, "the mode", "search", "searched")
    return target


def in_coordinates_of(result: Any, target: Any) -> Any:
    """A target in the coordinates that the first chain of a result has learned, if any."""
    weights = getattr(result, "centering", None)
    if not weights:
        return target
    try:
        learnable = target.with_learned_centering()
        return learnable.with_centering(jax.tree.map(lambda x: x[0], weights))
    except ValueError:  # another model, as the log density will show
        return target


def check_density(
    where: str, draws: Mapping[str, Any], stats: Mapping[str, Any], target: Target
) -> None:
    """Compares the log density at the last draws, if the draws have all latent sites.

    One chain with an equal log density is enough: at the edge of a support, the position cannot be
    computed from the value.

    Raises:
        ValueError: if the log density differs in all chains.
    """
    if pair := _last_densities(draws, stats, target):
        found, wanted = pair
        _check_equal(where, found, wanted, "the last draw of a chain", "run", "sampled")


def check_path(
    where: str,
    draws: Mapping[str, Any],
    log_density: Any,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Checks by the log density of its last draw that a particle filter has run a model.

    Raises:
        ValueError: if it differs.
    """
    target: Any = put_on_common_devices(ValueTarget.of(model, args, kwargs))
    stats = {"log_density": np.reshape(log_density, (1, 1))}
    if pair := _last_densities(draws, stats, target):
        found, wanted = pair
        _check_equal(where, found, wanted, "the last draw", "run", "filtered")


def _last_densities(
    draws: Mapping[str, Any], stats: Mapping[str, Any], target: Target
) -> tuple[np.ndarray, np.ndarray] | None:
    """Log densities at the last draws of some chains, by the target and by the run.

    `None` if draws lack a latent site, or no log density of the run is finite.
    """
    latent = latent_draws(target.position_shapes, draws)
    if latent is None or "log_density" not in stats:
        return None
    wanted = np.asarray(stats["log_density"])[:_MAX_CHECKED, -1]
    if not np.isfinite(wanted).any():
        return None
    values = jax.tree.map(lambda x: np.asarray(x)[:_MAX_CHECKED, -1], latent)
    values = parse_init(values, target, len(wanted)).values
    with numbers_of_any_kind():
        found = np.asarray(compile_once(_log_densities, target, values)(target, values))
    return found, wanted


def _is_equal(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether one log density is the same but for rounding."""
    eps = max(np.finfo(x.dtype).eps for x in (wanted, found))
    with np.errstate(invalid="ignore"):
        is_same = np.abs(found - wanted) <= np.sqrt(eps) * (1 + np.abs(wanted))
    return bool(is_same.any())


def _check_equal(
    where: str, found: np.ndarray, wanted: np.ndarray, place: str, run: str, done: str
) -> None:
    """Checks that a log density is the same but for rounding.

    Raises:
        ValueError: if all differ.
    """
    if not _is_equal(found, wanted):
        raise ValueError(
            f"{where}: the model, its arguments or its data are not those of the {run}: at "
            f"{place} the log density is {found[0]:.6g}, and the {run} had {wanted[0]:.6g}. Give "
            f"what was {done}"
        )


def _log_densities(target: Target, values: Any) -> jax.Array:
    key = jax.random.key(0)
    return jax.vmap(lambda values: target.log_density(target.initial(key, values)))(values)


def latent_draws(shapes: Any, draws: Any) -> Any:
    """Draws of the latent sites; `None` if some are not there."""
    if not isinstance(shapes, Mapping):
        return draws
    if not isinstance(draws, Mapping) or any(name not in draws for name in shapes):
        return None
    found = {name: latent_draws(inner, draws[name]) for name, inner in shapes.items()}
    return None if any(x is None for x in found.values()) else found
