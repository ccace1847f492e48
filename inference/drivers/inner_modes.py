"""Number of modes of sites that were integrated out, given values of all others."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

import ppl
from inference.optimization.other_modes import count_modes
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path
from ppl.marginal.random_values import quick_options
from ppl.transforms.condition import condition_and_complete


def count_inner_modes(
    key: jax.Array,
    model: Callable[..., Any],
    args: Any,
    kwargs: Any,
    others: Mapping[Path, Any],
    inner: Mapping[Path, Any],
    nearest: int,
) -> int:
    """Number of modes of some sites given one draw of all others; see :func:`count_modes`.

    Args:
        key: Random key.
        model: Model with all of these sites.
        args: Its arguments.
        kwargs: Its arguments by name.
        others: Values of all other latent sites.
        inner: Draws of the sites, ``(draw, *shape)``.
        nearest: Number of the draw that belongs to `others`.
    """
    given = condition_and_complete(model, nest_by_path(others))
    target = ppl.unconstrain(given, *args, **kwargs)
    target = jax.device_put(put_on_common_devices(target))
    values = nest_by_path(inner)
    options = tuple(quick_options().items()) if jax.default_backend() == "cpu" else ()
    positions = compile_once(_positions, target, values, options=options)(target, values)
    return count_modes(key, target, positions, nearest, options)


def _positions(target: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Positions of draws of all sites."""
    return jax.vmap(target.unconstrain)(values)
