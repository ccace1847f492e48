"""Initial positions: uniform points, prior draws, given values, or ends of a short climb."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from inference.common.argument_checks import short_repr
from inference.common.layout import Layout
from inference.common.leaf_names import name_entry, named_leaves
from inference.common.lockstep import select_leaves
from inference.common.target import Target, is_of_values, target_labels
from inference.common.threefry import seed_of, threefry
from inference.initialization.short_lbfgs import climb_briefly
from inference.runtime.compiled_program import compile_once
from ppl.harvest.pytrees import register_dataclass

MAX_ATTEMPTS = 100  # starting points to try for each chain
NUM_CANDIDATES = 10  # uniform points; a chain starts at the point of highest log density
_POINTS_AT_ONCE = 256  # starting points of chains, made at once on an accelerator
# Threefry counter of a chain's first starting point, beyond the counters of all iterations.
_START = np.uint32(1 << 31)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Init:
    """Choice of the initial positions of chains.

    Attributes:
        strategy: `"uniform"`, `"prior"`, `"optimum"`, `"flat"`, `"normal"` (standard normal
            coordinates), `"chains"` (chains of another run), or `"bulk"`: like `"optimum"`, but a
            climb ends once an iteration gains less than half the number of coordinates. The bulk of
            a normal distribution lies so many nats below its mode.
        values: Values of some sites, with the chains in front; the other sites are uniform. For
            `"flat"`, the flat positions, ``(chain, size)``. For `"chains"`, the state of the run.
    """

    strategy: str = dataclasses.field(default="uniform", metadata={"static": True})
    values: Any = None

    def position(
        self, target: Target, layout: Layout, key: jax.Array, values: Any, attempt: jax.Array
    ) -> jax.Array:
        """Flat position to try, ``(size,)``, which may not have a finite density."""
        if is_of_values(target):  # the strategies are for unconstrained numbers
            return layout.ravel(getattr(target, "start")(self, key, values, attempt))  # noqa: B009
        if self.strategy == "flat":
            return values
        if self.strategy == "normal":
            return random.normal(key, (layout.size,), layout.dtype)
        if self.strategy == "prior":
            return layout.ravel(target.prior(key))
        is_free = self.values is None  # else the given values would be drawn nearer to 0, too
        if self.strategy == "uniform":
            position = layout.ravel(target.initial(key, values))
            return position * _contraction(attempt).astype(position.dtype) if is_free else position

        def log_density(flat):
            return target.log_density(layout.unravel(flat))

        def draw(key):
            position = layout.ravel(target.initial(key, values))
            factor = _contraction(attempt + NUM_CANDIDATES - 1)  # ten points are one attempt here
            return position * factor.astype(position.dtype) if is_free else position

        min_gain = max(1.0, layout.size / 2) if self.strategy == "bulk" else 1.0
        return climb_briefly(log_density, _best_of_ten(log_density, draw, key), min_gain)


def _best_of_ten(
    log_density: Callable[[jax.Array], jax.Array],
    draw: Callable[[jax.Array], jax.Array],
    key: jax.Array,
) -> jax.Array:
    """Position of the highest finite log density among ten draws, ``(size,)``."""

    def better(best: tuple[jax.Array, jax.Array], key: jax.Array) -> tuple[Any, None]:
        position = draw(key)
        value = log_density(position)
        value = jnp.where(jnp.isfinite(value), value, -jnp.inf)
        return select_leaves(value > best[1], (position, value), best), None

    first = draw(key)
    value = jnp.asarray(-jnp.inf, jax.eval_shape(log_density, first).dtype)
    keys = random.split(key, NUM_CANDIDATES)
    return lax.scan(better, (first, value), keys)[0][0]


class NormalStart(NamedTuple):
    """Normal distribution at which an optimization starts.

    Attributes:
        init: Mean.
        scale: Cholesky factor of the covariance, ``(size, size)``, or standard deviations,
            ``(size,)``, or None if the spread is unknown.
    """

    init: Init
    scale: np.ndarray | None = None


_MAX_SHOWN = 10  # entries of an array that is shown whole
STRATEGIES = ("uniform", "prior", "optimum")


def parse_init(
    init: str | Mapping[str, Any] | Init, target: Target, num_chains: int, noun: str = "chain"
) -> Init:
    """Initial positions from the argument `init` of a driver.

    Args:
        init: Name of a strategy, values by site, or the initial positions themselves.
        target: Target with the sites.
        num_chains: Number of chains, or of other starts.
        noun: Word for a chain or another start, for messages.

    Raises:
        TypeError: if `init` is neither a name nor a mapping.
        ValueError: if it is not a known name, or its values do not fit the sites.
    """
    if isinstance(init, Init):
        return init
    if isinstance(init, str) and init in STRATEGIES:
        return Init(init)
    if not isinstance(init, Mapping):
        error = ValueError if isinstance(init, str) else TypeError
        remedy = "mcmc and svi also take a result of the same model"
        if hasattr(init, "draws"):
            remedy = "go on from its last draws by jax.tree.map(lambda x: x[:, -1], result.draws)"
        raise error(
            f"init must be one of {', '.join(map(repr, STRATEGIES))}, or a dict of values by site, "
            f"got {short_repr(init)}; {remedy}"
        )
    latent = target.position_shapes
    sites = jax.eval_shape(target.constrain, latent)
    labels = target_labels(target)
    values = _spread_values(init, sites, latent, labels, num_chains, noun)
    if init and not jax.tree.leaves(values):
        raise ValueError(
            f"init: all of {list(init)} are deterministic sites, which follow from the latent "
            f"ones. Give values of latent sites: {short_repr(jax.tree.map(jnp.shape, latent))}"
        )
    return Init(values=values)


def _spread_values(
    values: Mapping[str, Any],
    sites: Mapping[str, Any],
    latent: Mapping[str, Any],
    labels: Mapping[str, Sequence[Any]],
    num_chains: int,
    noun: str,
    scope: str = "",
) -> dict[str, Any]:
    """Values of latent sites with an axis over chains in front, added where it is missing."""
    out = {}
    for name, value in values.items():
        path = f"{scope}{name}"
        if name not in sites:
            raise ValueError(f"init: there is no latent site {path!r}; there are {list(latent)}")
        if name not in latent:
            continue  # a deterministic site, as draws of a result have
        if isinstance(value, Mapping) and isinstance(sites[name], Mapping):
            parts = value, sites[name], latent[name]
            out[name] = _spread_values(*parts, labels, num_chains, noun, f"{path}.")
            continue
        if jax.tree.structure(value) != jax.tree.structure(sites[name]):
            is_array = jax.tree_util.all_leaves([sites[name]])
            what = "a number or an array" if is_array else f"{jax.tree.structure(sites[name])}"
            what += " (of a list, numpy.array(list))" * isinstance(value, list)
            raise ValueError(f"init: site {path!r} expects {what}, got {short_repr(value)}")
        spread = functools.partial(_spread_value, path, labels.get(path, ()), num_chains, noun)
        out[name] = jax.tree.map(spread, value, sites[name])
    return out


def _spread_value(
    path: str,
    labels: Sequence[Any],
    num_chains: int,
    noun: str,
    value: Any,
    site: jax.ShapeDtypeStruct,
) -> np.ndarray:
    value = np.asarray(value)
    if not any(jnp.issubdtype(value.dtype, kind) for kind in (np.integer, np.floating)):
        raise TypeError(f"init: site {path!r} expects real numbers, got {short_repr(value)}")
    if value.shape not in (site.shape, (num_chains, *site.shape)):
        each = f", or {(num_chains, *site.shape)} with a value for each {noun}" * (num_chains > 1)
        raise ValueError(f"init: site {path!r} has the shape {site.shape}{each}, got {value.shape}")
    if not np.all(np.isfinite(value)):
        found = _show_first(value, ~np.isfinite(value), labels)
        raise ValueError(f"init: site {path!r} is given a value that is not finite: {found}")
    with np.errstate(over="ignore"):
        cast = value.astype(site.dtype)
    if not np.all(np.isfinite(cast)):
        found = _show_first(value, ~np.isfinite(cast), labels)
        raise ValueError(f"init: site {path!r} is given {found}, which {site.dtype} cannot hold")
    if jnp.issubdtype(site.dtype, np.integer):
        _check_integers(path, value, cast, labels)
    return np.broadcast_to(cast, (num_chains, *site.shape))


def _check_integers(path: str, value: np.ndarray, cast: np.ndarray, labels: Sequence[Any]) -> None:
    """Checks that a value is of integers, which flat positions hold exactly.

    Raises:
        ValueError: if it is not.
    """
    if np.any(cast != value):
        found = _show_first(value, cast != value, labels)
        raise ValueError(f"init: site {path!r} expects integers, got {found}")
    dtype = np.dtype(jnp.result_type(float))
    is_rounded = cast.astype(dtype).astype(np.float64) != cast
    if np.any(is_rounded):
        found = _show_first(value, is_rounded, labels)
        raise ValueError(
            f"init: site {path!r} is given {found}; integers of a start are held in {dtype}, "
            f"which is exact up to 2**{np.finfo(dtype).nmant + 1}: give a start below that"
        )


def _show_first(value: np.ndarray, is_wrong: np.ndarray, labels: Sequence[Any]) -> str:
    """The first wrong entry of a value, and its place in an array.

    Args:
        value: Value of a site, perhaps with an axis over chains in front.
        is_wrong: Which of its entries are wrong.
        labels: Labels of the axes of the site; none if there are none.
    """
    at = np.argwhere(is_wrong)[0].tolist()
    if labels:
        labels = (*[None] * (value.ndim - len(labels)), *labels)
    entry = ", ".join(map(str, name_entry(at, labels)))
    return f"{value[tuple(at)]}" + f" at [{entry}] of {list(value.shape)}" * bool(at)


def starting_points(
    key: jax.Array,
    chains: np.ndarray,
    attempts: np.ndarray,
    init: Init,
    target: Target,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray]:
    """Seeds and starting points of chains.

    Args:
        key: Random key of the run.
        chains: Number of each chain, ``(chain,)``.
        attempts: Number of the attempt for each chain, ``(chain,)``; another one gives another
            random position.
        init: Initial positions.
        target: Target with the sites.
        layout: Layout of positions.

    Returns:
        Threefry seeds ``(chain, 2)`` and flat positions ``(chain, size)``.

    Raises:
        ValueError: if a given value has no finite unconstrained position.
    """
    arguments = _seed(key), chains, attempts, init, target, layout
    seeds, positions = jax.device_get(compile_once(_starting_points, *arguments)(*arguments))
    is_finite = np.all(np.isfinite(positions), 1)
    if init.strategy == "uniform" and init.values is not None and not np.all(is_finite):
        first = int(np.argmin(is_finite))
        values = jax.tree.map(lambda x: x[chains[first]], init.values)
        _check_inside(values, target, layout.unravel(positions[first]))
    return seeds, positions


def chain_seeds(key: jax.Array, chains: np.ndarray) -> np.ndarray:
    """Threefry seeds of chains by their numbers, ``(chain, 2)``."""
    return np.stack(
        [np.asarray(x) for x in threefry(jnp.asarray(_seed(key)), jnp.asarray(chains))], -1
    )


def _contraction(attempt: jax.Array) -> jax.Array:
    """Factor of a uniform position: 1 for ten attempts, then 1 and less than that in turn.

    Under a constraint of many dimensions, as for large correlation matrices, most uniform points
    may be numerically singular, while points near 0 are not. So every second factor falls, by half
    in ten attempts. The other factors stay at 1, as some densities are finite only far from 0.
    """
    num_more = jnp.maximum(attempt - NUM_CANDIDATES + 1, 0)
    return jnp.where(num_more % 2 == 1, 1.0, 0.5 ** (num_more / NUM_CANDIDATES))


def _seed(key: jax.Array) -> np.ndarray:
    """Seed of a key, two words for every kind of key, so that all kinds share one program.

    Data of two words are the seed themselves.
    """
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = np.asarray(random.key_data(key) if is_typed else key)
    return words if words.shape == (2,) else np.asarray(seed_of(key))


def _check_inside(values: Any, target: Target, position: Any) -> None:
    """Raises ValueError for a value outside of the support of its site, or on its edge."""
    unconstrained = dict(named_leaves(position))
    for name, value in named_leaves(values):
        if np.all(np.isfinite(unconstrained.get(name, 0.0))):
            continue
        site: Any = target.sites(position)
        for scope in name.split("."):
            site = site[scope] if isinstance(site, Mapping) else site
        support = getattr(site.distribution, "support", None)  # A user's own may have none.
        described = "" if support is None else f" ({support.description})"
        given = value if np.size(value) <= _MAX_SHOWN else f"an array {list(np.shape(value))}"
        raise ValueError(
            f"init: site {name!r} is given {given}, expected a value inside of its support"
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
        return _start(*chain[:2], target, layout, init, chain[2])

    values = jax.tree.map(lambda x: jnp.asarray(x)[numbers], init.values)
    # On the CPU, JAX's generator compiles slowly for a batch of keys. On an accelerator, a loop
    # over thousands of chains is slow.
    at_once = None if jax.default_backend() == "cpu" else _POINTS_AT_ONCE
    return seeds, lax.map(position, (seeds, attempts, values), batch_size=at_once)


def traced_points(
    key: jax.Array, attempt: jax.Array, init: Init, target: Target, layout: Layout
) -> tuple[jax.Array, jax.Array]:
    """Seeds and starting points of one chain, as :func:`starting_points` gives; traceable."""
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = random.key_data(key) if is_typed else key
    seed = words if words.shape == (2,) else seed_of(key)
    return _starting_points(seed, jnp.arange(1), attempt[None], init, target, layout)


def uniform_start(seed: jax.Array, attempt: jax.Array, target: Target, layout: Layout) -> jax.Array:
    """Flat position to try, uniform, of the chain with a seed; traceable."""
    return _start(seed, attempt, target, layout, Init(), None)


def _start(
    seed: jax.Array, attempt: jax.Array, target: Target, layout: Layout, init: Init, values: Any
) -> jax.Array:
    words = jnp.stack(threefry(seed, _START + attempt.astype(jnp.uint32)))
    key = random.wrap_key_data(words, impl="threefry2x32")
    return init.position(target, layout, key, values, attempt)
