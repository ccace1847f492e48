"""Checkpoints of fits without some observations: the manifest that a call must fit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

import ppl
from inference.checkpoints.manifest import digest
from inference.common.leaf_names import named_leaves
from inference.drivers.folds import Refit
from inference.drivers.run_description import (
    describe_arguments,
    describe_key,
    describe_model,
)
from inference.runtime.jax_settings import settings


def describe_refits(
    key: jax.Array,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    fits: Sequence[Refit],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Entries of a manifest: settings, folds, arguments, and the program of the model.

    Args:
        key: Key of the call.
        model: The model.
        args: Its arguments.
        kwargs: Its arguments by name.
        fits: The fits.
        given: Settings that JSON can hold, by the names that errors use.
    """
    with settings(None):
        target = ppl.unconstrain(model, *args, **kwargs)
        return {
            # A run of chains goes on to another num_draws, fits do not.
            **{f"{name} of a fit" if "num_" in name else name: x for name, x in given.items()},
            "key": describe_key(key),
            "site": given["site"] if isinstance(given["site"], str | None) else list(given["site"]),
            "observations left out": f"by {len(fits)} fits, of hash {_hash(fits)}",
            "sites": {
                name: [list(x.shape), str(x.dtype)]
                for name, x in named_leaves(target.position_shapes)
            },
            **describe_arguments(target, model),
            "the model's program": describe_model(target),
        }


def _hash(fits: Sequence[Refit]) -> str:
    parts = [(fit.number, fit.held_out.tolist(), fit.scored.tolist()) for fit in fits]
    return digest(repr(parts))[:8]
