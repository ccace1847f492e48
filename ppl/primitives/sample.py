"""sample: a random variable of a model."""

import json
import reprlib
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.common.cut_off_draws import has_counts, warn_of_cut_off
from ppl.common.peer_names import explaining_calls
from ppl.common.tfp_precision import in_default_precision
from ppl.harvest.sowing import bind_site
from ppl.primitives.draw_primitive import draw
from ppl.primitives.site_kinds import LATENT, OBSERVED, RANDOM

Labels = tuple[Hashable, ...]  # of the last axes of a value, one for each

# Libraries whose distributions have methods of the same names with other arguments.
_FOREIGN = ("numpyro", "pymc", "pyro", "torch")


def _explain_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Advice for a call of `sample` as other libraries have it."""
    names = [x for x in args if isinstance(x, str)]
    name = json.dumps(names[0]) if names else "..."
    if {"obs", "observed", "value"} & kwargs.keys():
        return (
            "data are no argument. Write ppl.sample(key, distribution, name=...) in the model, and "
            "ppl.condition(model, {name: data}) outside."
        )
    if names:
        return f"the name is a keyword: ppl.sample(key, distribution, name={name})."
    if kwargs.keys() <= {"key", "dist", "name"}:
        return "expected a key, a distribution and a name: ppl.sample(key, distribution, name=...)."
    unknown = next(name for name in kwargs if name not in ("key", "dist", "name"))
    return (
        f"there is no argument {unknown!r}. Write ppl.sample(key, distribution, name=...). Several "
        "draws are one of a batch, as dist.iid(distribution, shape), or made by jax.vmap."
    )


@explaining_calls(_explain_call)
def sample(key: jax.Array, dist: Any = None, *, name: str) -> Any:
    """Draw a random variable of a model.

    Run as it is, this is a draw from `dist`. The transformations of a model (`condition`,
    `simulate`, `log_density`, ...) find it by its name. The draw depends on `key`, `name` and the
    scopes of `nest` around it, so one key serves a whole function body and the submodels in it;
    loops and `vmap` need a key for each iteration or element, as all of JAX does.

    Args:
        key: A random key, typed (`jax.random.key`) or legacy (`jax.random.PRNGKey`).
        dist: A distribution of this library or of TensorFlow Probability.
        name: The name of the site, unique within the model and its scope.

    Returns:
        A draw with shape `dist.batch_shape + dist.event_shape`.

    Raises:
        TypeError: If `key` is not a random key, `dist` is not a distribution or `name` is not a
            string.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 0.1), name="y")
        >>> model(jax.random.key(0)).shape
        ()
    """
    check_name("sample", name)
    # If the key is forgotten, `dist` is missing: hence its default.
    if distribution_protocol.is_distribution(key):
        raise TypeError(
            f"sample {name!r}: expected a random key first, got "
            f"{distribution_protocol.name_of(key)}. Write ppl.sample(key, distribution, name=...)."
        )
    if not distribution_protocol.is_distribution(dist):
        raise TypeError(
            f"sample {name!r}: expected a distribution with log_prob and sample as the second "
            f"argument, got {type(dist).__name__}: {reprlib.repr(dist)}."
        )
    origin = type(dist).__module__.partition(".")[0]
    if origin in _FOREIGN:
        family = distribution_protocol.name_of(dist)
        raise TypeError(
            f"sample {name!r}: a distribution of {origin} has another map to unconstrained "
            f"space. Take distributions.{family}, or what it is called there."
        )
    check_key(f"sample {name!r}", key)
    key = jnp.asarray(key)
    return sow_draw(key, in_default_precision(dist), name=name)


def sow_draw(key: jax.Array, dist: Any, *, name: str, labels: Labels = ()) -> Any:
    """A latent site."""
    value = draw(key, dist, name=name)
    count = distribution_protocol.count_cut_off(dist, value) if has_counts(value) else None
    warn_of_cut_off("sample", (name,), count, value)
    return _sow_random(key, dist, value, LATENT, name, labels)


def sow_data(key: jax.Array, dist: Any, value: Any, *, name: str, labels: Labels = ()) -> Any:
    """An observed site, as `condition` makes one of a latent site; the data are like a draw."""
    return _sow_random(key, dist, value, OBSERVED, name, labels)


def _sow_random(key: jax.Array, dist: Any, value: Any, kind: str, name: str, labels: Labels) -> Any:
    return bind_site(
        value,
        tag=RANDOM,
        name=name,
        mode="append",
        extra=dist,
        note=kind,
        key=key,
        labels=labels,
    )


def check_name(where: str, name: Any) -> None:
    """Check that the name of a site is a string.

    Raises:
        TypeError: If `name` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"{where}: name must be a string, got {name!r}.")


def check_key(where: str, key: Any) -> None:
    """Check that a key is one random key, typed or legacy, and not a batch of them.

    Raises:
        TypeError: If `key` is anything else.
    """
    dtype = getattr(key, "dtype", None)
    shape = getattr(key, "shape", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        ok = shape == ()
    else:
        ok = dtype == jnp.uint32 and shape in ((2,), (4,))
    if not ok:
        got = f"{dtype}{list(shape)}" if shape is not None else repr(key)
        raise TypeError(
            f"{where}: expected one random key (from jax.random.key or split off another), got "
            f"{got}. A model is a function of a key: f(key, *args). Split a key for each element "
            "of a vmap."
        )
