"""JAX samplers of random variables for which PyTensor has none."""

# pyright: reportMissingImports=false

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

Sampler = Callable[..., jax.Array]


def register() -> None:
    """Give PyTensor a JAX sampler for each family of the table that has none."""
    from pymc.distributions import continuous, discrete
    from pytensor.link.jax.dispatch.random import jax_sample_fn
    from pytensor.tensor.random import basic

    missing = jax_sample_fn.dispatch(object)
    modules = {"pytensor": basic, "continuous": continuous, "discrete": discrete}
    for (module, name), sampler in _SAMPLERS.items():
        family = getattr(modules[module], name, None)
        if family is None:
            continue
        if jax_sample_fn.dispatch(family) is missing or name in _REPLACED:
            jax_sample_fn.register(family, _with_shape(sampler))


def _with_shape(sampler: Sampler) -> Callable[..., Any]:
    """A sampler in PyTensor's form, where the size may be unknown."""

    def make(op: Any, node: Any) -> Callable[..., jax.Array]:
        del node

        num_axes = op.ndims_params  # axes of one parameter of an element: 1 for probabilities

        def sample(key: Any, size: Any, dtype: Any, *parameters: Any) -> jax.Array:
            shape = size
            if size is None:
                shapes = (jnp.shape(x) for x in parameters)
                pairs = zip(shapes, num_axes, strict=True)
                shape = jnp.broadcast_shapes(*(x[: len(x) - n] for x, n in pairs))
            return jnp.asarray(sampler(key, tuple(map(int, shape)), *parameters), dtype)

        return sample

    return make


def _half_normal(key: Any, shape: Any, loc: Any, scale: Any) -> jax.Array:
    return loc + scale * jnp.abs(random.normal(key, shape))


def _half_cauchy(key: Any, shape: Any, loc: Any, scale: Any) -> jax.Array:
    return loc + scale * jnp.abs(random.cauchy(key, shape))


def _log_normal(key: Any, shape: Any, mean: Any, scale: Any) -> jax.Array:
    return jnp.exp(mean + scale * random.normal(key, shape))


def _inverse_gamma(key: Any, shape: Any, concentration: Any, scale: Any) -> jax.Array:
    return scale * jnp.exp(-random.loggamma(key, concentration, shape))


def _weibull(key: Any, shape: Any, concentration: Any) -> jax.Array:
    return random.exponential(key, shape) ** (1 / jnp.asarray(concentration))


def _wald(key: Any, shape: Any, mean: Any, concentration: Any, loc: Any) -> jax.Array:
    return loc + concentration * random.wald(key, mean / concentration, shape)


def _moyal(key: Any, shape: Any, loc: Any, scale: Any) -> jax.Array:
    return loc - 2 * scale * jnp.log(jnp.abs(random.normal(key, shape)))


def _rice(key: Any, shape: Any, distance: Any, scale: Any) -> jax.Array:
    x, y = random.normal(key, (2, *shape))
    return scale * jnp.hypot(x + distance, y)


def _triangular(key: Any, shape: Any, low: Any, mode: Any, high: Any) -> jax.Array:
    u = random.uniform(key, shape)
    rising = low + jnp.sqrt(u * (high - low) * (mode - low))
    falling = high - jnp.sqrt((1 - u) * (high - low) * (high - mode))
    return jnp.where(u * (high - low) < mode - low, rising, falling)


def _truncated_normal(
    key: Any, shape: Any, mean: Any, scale: Any, low: Any, high: Any
) -> jax.Array:
    lower = (low - mean) / scale
    upper = (high - mean) / scale
    return mean + scale * random.truncated_normal(key, lower, upper, shape)


def _skew_normal(key: Any, shape: Any, loc: Any, scale: Any, skewness: Any) -> jax.Array:
    normals = random.normal(key, (2, *shape))
    slant = skewness / jnp.sqrt(1 + skewness**2)
    return loc + scale * (slant * jnp.abs(normals[0]) + jnp.sqrt(1 - slant**2) * normals[1])


def _discrete_uniform(key: Any, shape: Any, low: Any, high: Any) -> jax.Array:
    return random.randint(key, shape, low, jnp.asarray(high) + 1)


def _categorical(key: Any, shape: Any, probs: Any) -> jax.Array:
    return random.categorical(key, jnp.log(probs), shape=shape)


def _geometric(key: Any, shape: Any, probs: Any) -> jax.Array:
    return random.geometric(key, probs, shape)


def _binomial(key: Any, shape: Any, count: Any, probs: Any) -> jax.Array:
    return random.binomial(key, count, probs, shape)


def _negative_binomial(key: Any, shape: Any, count: Any, probs: Any) -> jax.Array:
    for_rate, for_count = random.split(key)
    rate = random.gamma(for_rate, count, shape) * (1 - probs) / probs
    return random.poisson(for_count, rate, shape)


def _beta_binomial(key: Any, shape: Any, count: Any, a: Any, b: Any) -> jax.Array:
    for_probs, for_count = random.split(key)
    return random.binomial(for_count, count, random.beta(for_probs, a, b, shape), shape)


def _von_mises(key: Any, shape: Any, loc: Any, concentration: Any) -> jax.Array:
    """Draws by D. J. Best and N. I. Fisher (1979), rejection from a wrapped Cauchy."""
    concentration = jnp.broadcast_to(jnp.asarray(concentration, float), shape)
    tau = 1 + jnp.sqrt(1 + 4 * concentration**2)
    rho = (tau - jnp.sqrt(2 * tau)) / (2 * jnp.maximum(concentration, 1e-6))
    r = (1 + rho**2) / (2 * rho)

    def is_open(state: Any) -> jax.Array:
        return ~jnp.all(state[2])

    def propose(state: Any) -> Any:
        key, angle, is_done = state
        key, *keys = random.split(key, 4)
        z = jnp.cos(jnp.pi * random.uniform(keys[0], shape))
        f = (1 + r * z) / (r + z)
        c = concentration * (r - f)
        u = random.uniform(keys[1], shape)
        accept = (c * (2 - c) > u) | (jnp.log(c / u) + 1 >= c)
        sign = jnp.where(random.bernoulli(keys[2], shape=shape), 1.0, -1.0)
        new = sign * jnp.arccos(jnp.clip(f, -1, 1))
        return key, jnp.where(accept & ~is_done, new, angle), is_done | accept

    start = (key, jnp.zeros(shape), jnp.zeros(shape, bool))
    _, angle, _ = jax.lax.while_loop(is_open, propose, start)
    return (angle + loc + jnp.pi) % (2 * jnp.pi) - jnp.pi


# PyTensor takes the first two from NumPyro, if it is installed, and draws category k by the odds
# p_k / (1 - p_k) in place of the probability p_k.
_REPLACED = ("BinomialRV", "VonMisesRV", "CategoricalRV")
# Families by the module and the name of their class.
_SAMPLERS: dict[tuple[str, str], Sampler] = {
    ("pytensor", "HalfNormalRV"): _half_normal,
    ("pytensor", "HalfCauchyRV"): _half_cauchy,
    ("pytensor", "LogNormalRV"): _log_normal,
    ("pytensor", "InvGammaRV"): _inverse_gamma,
    ("pytensor", "WeibullRV"): _weibull,
    ("pytensor", "TriangularRV"): _triangular,
    ("pytensor", "CategoricalRV"): _categorical,
    ("pytensor", "GeometricRV"): _geometric,
    ("pytensor", "BinomialRV"): _binomial,
    ("pytensor", "NegBinomialRV"): _negative_binomial,
    ("pytensor", "BetaBinomialRV"): _beta_binomial,
    ("pytensor", "VonMisesRV"): _von_mises,
    ("continuous", "WaldRV"): _wald,
    ("continuous", "TruncatedNormalRV"): _truncated_normal,
    ("continuous", "SkewNormalRV"): _skew_normal,
    ("continuous", "MoyalRV"): _moyal,
    ("continuous", "RiceRV"): _rice,
    ("discrete", "DiscreteUniformRV"): _discrete_uniform,
}
