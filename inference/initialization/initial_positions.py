"""Initial positions: at uniform points, prior draws, values, or the end of a short climb."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.target import Target
from inference.common.threefry import seed_of, threefry
from inference.initialization.short_lbfgs import climb_briefly
from inference.runtime.compiled_program import compile_once
from ppl.harvest.pytrees import register_dataclass

MAX_ATTEMPTS = 100
_START = np.uint32(1 << 31)  # the counters of a chain's starting points, beyond all iterations


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Init:
    """Choice of the initial positions of chains.

    Attributes:
        strategy: `"uniform"`, `"prior"`, `"optimum"`, or `"flat"`.
        values: Values of some sites, with the chains in front; the other sites are uniform. For
            `"flat"`, the positions themselves.
    """

    strategy: str = dataclasses.field(default="uniform", metadata={"static": True})
    values: Any = None

    def position(self, target: Target, layout: Layout, key: jax.Array, values: Any) -> jax.Array:
        """A flat position to try."""
        if self.strategy == "flat":
            return values
        if self.strategy == "prior":
            return layout.ravel(target.prior(key))
        position = layout.ravel(target.initial(key, values))
        if self.strategy == "optimum":
            return climb_briefly(lambda flat: target.log_density(layout.unravel(flat)), position)
        return position


class NormalStart(NamedTuple):
    """Start of an optimisation, and the spread that the density is known to have there.

    Attributes:
        init: The mean.
        scale: The Cholesky factor of the covariance, ``(size, size)``, or standard deviations,
            ``(size,)``, if they are known.
    """

    init: Init
    scale: np.ndarray | None = None


STRATEGIES = ("uniform", "prior", "optimum")


def parse_init(
    init: str | Mapping[str, Any], target: Target, num_chains: int, noun: str = "chain"
) -> Init:
    """Choice of initial positions as a user says it; `noun` is a word for chains, or other starts.

    Raises:
        TypeError: if `init` is neither a name nor a mapping.
        ValueError: if it is no known name, or its values do not fit the sites.
    """
    if isinstance(init, str) and init in STRATEGIES:
        return Init(init)
    if not isinstance(init, Mapping):
        error = ValueError if isinstance(init, str) else TypeError
        remedy = "mcmc and svi also take a result of the same model"
        if hasattr(init, "draws"):
            remedy = "go on from its last draws by jax.tree.map(lambda x: x[:, -1], result.draws)"
        raise error(
            f"init must be one of {', '.join(map(repr, STRATEGIES))}, or a dict of values by site, "
            f"got {init!r}; {remedy}"
        )
    latent = target.position_shapes
    sites = jax.eval_shape(target.constrain, latent)
    return Init(values=_spread_values(init, sites, latent, num_chains, noun))


def _spread_values(
    values: Mapping[str, Any],
    sites: Mapping[str, Any],
    latent: Mapping[str, Any],
    num_chains: int,
    noun: str,
    scope: str = "",
) -> dict[str, Any]:
    """Values of latent sites with the chains in front, which may be there already."""
    out = {}
    for name, value in values.items():
        path = f"{scope}{name}"
        if name not in sites:
            raise ValueError(f"init: there is no latent site {path!r}; there are {list(sites)}")
        if name not in latent:
            continue  # draws have deterministic sites too, of any value
        if isinstance(value, Mapping) and isinstance(sites[name], Mapping):
            parts = value, sites[name], latent[name]
            out[name] = _spread_values(*parts, num_chains, noun, f"{path}.")
            continue
        if jax.tree.structure(value) != jax.tree.structure(sites[name]):
            is_array = jax.tree_util.all_leaves([sites[name]])
            what = "a number or an array" if is_array else f"{jax.tree.structure(sites[name])}"
            what += " (of a list, numpy.array(list))" * isinstance(value, list)
            raise ValueError(f"init: site {path!r} expects {what}, got {value!r}")
        spread = functools.partial(_spread_value, path, num_chains, noun)
        out[name] = jax.tree.map(spread, value, sites[name])
    return out


def _spread_value(
    path: str, num_chains: int, noun: str, value: Any, site: jax.ShapeDtypeStruct
) -> np.ndarray:
    value = np.asarray(value)
    if not any(jnp.issubdtype(value.dtype, kind) for kind in (np.integer, np.floating)):
        raise TypeError(f"init: site {path!r} expects real numbers, got {value!r}")
    if value.shape not in (site.shape, (num_chains, *site.shape)):
        each = f", or {(num_chains, *site.shape)} with a value for each {noun}" * (num_chains > 1)
        raise ValueError(f"init: site {path!r} has the shape {site.shape}{each}, got {value.shape}")
    if not np.all(np.isfinite(value)):
        raise ValueError(f"init: site {path!r} is given a value that is not finite: {value}")
    with np.errstate(over="ignore"):
        cast = value.astype(site.dtype)
    if not np.all(np.isfinite(cast)):
        raise ValueError(f"init: site {path!r} is given {value}, which {site.dtype} cannot hold")
    return np.broadcast_to(cast, (num_chains, *site.shape))


def starting_points(
    key: jax.Array,
    chains: np.ndarray,
    attempts: np.ndarray,
    init: Init,
    target: Target,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray]:
    """Seeds of the chains of these numbers, and for each the starting point of its attempt.

    Raises:
        ValueError: if a value of the user's has no place in unconstrained space.
    """
    arguments = _seed(key), chains, attempts, init, target, layout
    seeds, positions = jax.device_get(compile_once(_starting_points, *arguments)(*arguments))
    is_finite = np.all(np.isfinite(positions), 1)
    if init.strategy == "uniform" and init.values is not None and not np.all(is_finite):
        first = int(np.argmin(is_finite))
        values = jax.tree.map(lambda x: x[chains[first]], init.values)
        _check_inside(values, target, layout.unravel(positions[first]))
    return seeds, positions


def _seed(key: jax.Array) -> np.ndarray:
    """The seed of a key of any kind, so that they share a program; most are one as they stand."""
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = np.asarray(random.key_data(key) if is_typed else key)
    return words if words.shape == (2,) else np.asarray(seed_of(key))


def _check_inside(values: Any, target: Target, position: Any) -> None:
    """Raises ValueError for a value that is not inside of the support of its site."""
    unconstrained = dict(named_leaves(position))
    for name, value in named_leaves(values):
        if np.all(np.isfinite(unconstrained.get(name, 0.0))):
            continue
        site: Any = target.sites(position)
        for scope in name.split("."):
            site = site[scope] if isinstance(site, Mapping) else site
        support = getattr(site.distribution, "support", None)  # A user's own may have none.
        described = "" if support is None else f" ({support.description})"
        raise ValueError(
            f"init: site {name!r} is given {value}, expected a value inside of its support"
            f"{described}, not at its edge"
        )


def _starting_points(
    seed: jax.Array,
    numbers: jax.Array,
    attempts: jax.Array,
    init: Init,
    target: Target,
    layout: Layout,
) -> tuple[jax.Array, jax.Array]:
    seeds = jnp.stack(threefry(seed, numbers), axis=-1)

    def position(chain: tuple[jax.Array, jax.Array, Any]) -> jax.Array:
        seed, attempt, values = chain
        words = jnp.stack(threefry(seed, _START + attempt.astype(jnp.uint32)))
        return init.position(
            target, layout, random.wrap_key_data(words, impl="threefry2x32"), values
        )

    values = jax.tree.map(lambda x: x[numbers], init.values)
    # No `vmap`: JAX's generator compiles slowly for a batch of keys.
    return seeds, lax.map(position, (seeds, attempts, values))
