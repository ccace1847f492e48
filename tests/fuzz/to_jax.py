"""Programs run as models: the names in their text are those of JAX, ppl and distributions."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import distributions as dist
import ppl

from . import families


def halved(x: Any) -> Any:
    """A number halved until it is below 1."""
    return lax.while_loop(lambda x: jnp.abs(x) > 1, lambda x: 0.5 * x, jnp.asarray(x, float))


def to_model(source: str) -> Callable[..., Any]:
    """The model that a source text defines."""
    names = {name: getattr(dist, name) for name in families.ALL} | {
        "xp": jnp,
        "sample": ppl.sample,
        "factor": ppl.factor,
        "deterministic": ppl.deterministic,
        "nest": ppl.nest,
        "scale": ppl.scale,
        "scan": lax.scan,
        "vmap": jax.vmap,
        "fori_loop": lax.fori_loop,
        "cond": lax.cond,
        "switch": lax.switch,
        "jit": jax.jit,
        "checkpoint": jax.checkpoint,
        "split": jax.random.split,
        "fold_in": jax.random.fold_in,
        "real": lambda x: jnp.asarray(x, float),
        "whole": lambda x: jnp.asarray(x, jnp.int32),
        "squash": jax.nn.sigmoid,
        "halved": halved,
        "placed": lambda vector, index, x: vector.at[index].set(x),
    }
    exec(compile(source, "<program>", "exec"), names)
    return names["model"]


def nested(flat: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """A dict nested by scope, of one by path."""
    found: dict[str, Any] = {}
    for path, x in flat.items():
        inner = found
        for scope in path[:-1]:
            inner = inner.setdefault(scope, {})
        inner[path[-1]] = x
    return found


def flat(tree: Any, scope: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """A dict by path, of one nested by scope."""
    found = {}
    for name, x in tree.items():
        found |= flat(x, (*scope, name)) if isinstance(x, dict) else {(*scope, name): x}
    return found
