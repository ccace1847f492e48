"""Strategies of reparam: non-centring, partial centring, transforms, the circle, pushforwards."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.common import distribution_protocol
from ppl.harvest import _jax
from ppl.harvest.pytrees import register_dataclass
from ppl.transforms.reparam_bases import Normal, Plane, angle

# Families by the names of TFP, as are those of their parameters. A family is closed under
# x -> a + b x (location-scale), or under x -> b x (scale, rate).
_LOCATION_SCALE = (
    *("Normal", "StudentT", "Cauchy", "Laplace", "Logistic", "Gumbel"),
    *("HalfCauchy", "HalfStudentT"),
)
_SCALE = ("HalfNormal", "InverseGamma", "Weibull")
_RATE = ("Exponential", "Gamma")
_VECTOR = "MultivariateNormal"
_NUMBERS = (jax.Array, np.ndarray, np.generic, float, int)


@dataclasses.dataclass(frozen=True)
class Pushforward:
    """Pushforward of a base distribution: the law of `forward(z)` with z drawn from the base.

    A strategy of `reparam` returns one.

    Args:
        base: The distribution of z.
        forward: Map from z to a value; if z has the distribution `base`, then `forward(z)` must
            have the distribution of the site.
        inverse: Map from a value to z.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def by_quantile(d):  # an exponential variable by the quantile of a uniform one
        ...     return ppl.Pushforward(dist.Uniform(0.0, 1.0),
        ...         lambda z: -jnp.log(z) / d.rate, lambda x: jnp.exp(-d.rate * x))
        >>> def model(key):
        ...     return ppl.sample(key, dist.Exponential(2.0), name="x")
        >>> target = ppl.unconstrain(ppl.reparam(model, {"x": by_quantile}))
        >>> round(target.constrain({"x": 0.0})["x"].item(), 4)  # log(2) / 2
        0.3466
    """

    base: Any
    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NonCentered:
    """Non-centred parameterisation: a value as an affine function of a standard variable z.

    | family | value | z |
    |---|---|---|
    | location-scale | `loc + scale * z` | the standard member |
    | scale or rate | `scale * z`, or `z / rate` | the standard member |
    | log-normal | `exp(loc + scale * z)` | standard normal |
    | multivariate normal | `loc + L z`, `L L^T` the covariance | independent standard normals |
    | `dist.iid`, `dist.Independent` | each part by its own family | |

    It suits sites about which the data say little.

    Example:
        >>> import ppl
        >>> ppl.NonCentered()
        NonCentered()

    References:
        Papaspiliopoulos, Roberts and Sköld, Statistical Science 22 (2007), section 2.
    """

    def __call__(self, d: Any) -> Pushforward:
        """The coordinates of a distribution.

        Raises:
            NotImplementedError: If its family has no location or scale.
        """
        if distribution_protocol.name_of(d) in distribution_protocol.FAMILIES_OF_PARTS:
            return _apply_by_part(d, self)
        if distribution_protocol.name_of(d).startswith(_VECTOR):
            return _whiten(d)
        return _standardize_family(d, None)


@dataclasses.dataclass(frozen=True)
class PartiallyCentered:
    """Partially centred parameterisation, by a weight c that may be learned.

    c = 0 is `NonCentered`, and c = 1 leaves the original coordinates. z has the distribution of the
    family with location `c * loc` and scale `scale^c`, and the value is
    `loc + scale^(1 - c) (z - c * loc)`.

    Args:
        centeredness: c, in [0, 1]; broadcasts with the batch of the distribution.

    Raises:
        ValueError: If c is known to lie outside of [0, 1].
        TypeError: If c is no number and no array.

    Example:
        >>> import ppl
        >>> ppl.PartiallyCentered(0.5)
        PartiallyCentered(centeredness=0.5)

    References:
        Papaspiliopoulos, Roberts and Sköld, Statistical Science 22 (2007), section 5; Gorinova,
        Moore and Hoffman, "Automatic reparameterisation of probabilistic programs" (2020), eq. 2.
    """

    centeredness: Any

    def __post_init__(self) -> None:
        """Check the type of the weight, and its range if it is known."""
        weight = self.centeredness
        if not isinstance(weight, _NUMBERS) or isinstance(weight, bool):
            raise TypeError(
                f"PartiallyCentered: expected a number or an array as centeredness, got {weight!r}."
            )
        if _jax.is_traced(weight):
            return
        if not np.all((np.asarray(weight) >= 0) & (np.asarray(weight) <= 1)):
            raise ValueError(
                f"PartiallyCentered: centeredness must lie in [0, 1], got {weight}. 0 is "
                "NonCentered(), and 1 leaves the coordinates as they are."
            )

    def __call__(self, d: Any) -> Pushforward:
        """The coordinates of a distribution.

        Raises:
            NotImplementedError: If its family has no location or scale.
        """
        if distribution_protocol.name_of(d) in distribution_protocol.FAMILIES_OF_PARTS:
            return _apply_by_part(d, self)
        return _standardize_family(d, self.centeredness)


def _unflatten_unchecked(_: None, leaves: Iterable[Any]) -> PartiallyCentered:
    """Rebuild a `PartiallyCentered` unchecked: JAX puts gradients and other objects in leaves."""
    self = object.__new__(PartiallyCentered)
    (self.__dict__["centeredness"],) = leaves
    return self


jax.tree_util.register_pytree_with_keys(
    PartiallyCentered,
    lambda self: (((jax.tree_util.GetAttrKey("centeredness"), self.centeredness),), None),
    _unflatten_unchecked,
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Transformed:
    """Transformed distribution, sampled in the coordinates of its base.

    A log-normal is the exponential of a normal. In `dist.iid` and `dist.Independent`, each part is
    transformed.

    Args:
        then: A strategy for the base, or None to leave the base as it is.

    Raises:
        TypeError: If `then` is no strategy.

    Example:
        >>> import ppl
        >>> ppl.Transformed(then=ppl.NonCentered())
        Transformed(then=NonCentered())
    """

    then: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.then, type) or not (self.then is None or callable(self.then)):
            raise TypeError(
                f"Transformed: then must be a strategy, as ppl.NonCentered(), got {self.then!r}."
            )

    def __call__(self, d: Any) -> Pushforward:
        """The coordinates of a distribution.

        Raises:
            NotImplementedError: If the distribution is no transformed one.
        """
        if distribution_protocol.name_of(d) in distribution_protocol.FAMILIES_OF_PARTS:
            return _apply_by_part(d, self)
        by = distribution_protocol.transform(d)
        if distribution_protocol.name_of(d) == "LogNormal":
            base, forward, inverse = Normal(d.loc, d.scale), jnp.exp, jnp.log
        elif by is not None:
            base, forward, inverse = d.distribution, by.forward, by.inverse
        else:
            raise NotImplementedError(
                "Transformed() is for a LogNormal or a TransformedDistribution, got "
                f"{distribution_protocol.name_of(d)}. Give a function of it that returns a "
                "ppl.Pushforward."
            )
        if self.then is None:
            return Pushforward(base, forward, inverse)
        inner = self.then(base)
        return Pushforward(
            inner.base, lambda z: forward(inner.forward(z)), lambda x: inner.inverse(inverse(x))
        )


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Circular:
    """Angle in (-pi, pi] as the direction of a point in the plane.

    A position has a last axis of size 2. A sampler can go around the circle in the plane, while an
    interval has two ends. The squared distance from the origin does not affect the angle. It has
    the distribution Gamma(4, 4), which keeps points away from the origin: there, a precise
    direction is a narrow wedge.

    Example:
        >>> import ppl
        >>> ppl.Circular()
        Circular()
    """

    def __call__(self, d: Any) -> Pushforward:
        """The coordinates of a distribution on the circle.

        Raises:
            NotImplementedError: If its support is not known to be (-pi, pi].
        """
        if not _is_circular(d):
            raise NotImplementedError(
                "Circular() is for angles whose support is known to be (-pi, pi], such as VonMises "
                "or Uniform(-math.pi, math.pi), got "
                f"{distribution_protocol.name_of(d)} with the support "
                f"{getattr(d, 'support', None)}. Shift the distribution, or give a function of it "
                "that returns a ppl.Pushforward."
            )
        inverse = lambda x: jnp.stack([jnp.cos(x), jnp.sin(x)], -1)  # noqa: E731
        return Pushforward(Plane(d), angle, inverse)


def _is_circular(d: Any) -> bool:
    """Whether values are angles in (-pi, pi]: by the support, or by the name of a TFP family."""
    d = distribution_protocol.part_of(d)
    support = getattr(d, "support", None)
    if support is None:
        return distribution_protocol.name_of(d) == "VonMises"
    low, high = getattr(support, "low", None), getattr(support, "high", None)
    if low is None or high is None or any(map(_jax.is_traced, (low, high))):
        return False
    return np.allclose(low, -np.pi, rtol=1e-6) and np.allclose(high, np.pi, rtol=1e-6)


def auto_reparam(name: str, d: Any) -> NonCentered | None:
    """Rule for `reparam`: non-centres every site with a JAX array among its parameters.

    Sites whose parameters are plain numbers, and families without location and scale, stay as they
    are.

    Example:
        >>> import ppl, distributions as dist
        >>> def funnel(key):
        ...     scale = ppl.sample(key, dist.LogNormal(0.0, 3.0), name="scale")
        ...     return ppl.sample(key, dist.Normal(0.0, scale), name="x")
        >>> target = ppl.unconstrain(ppl.reparam(funnel, ppl.auto_reparam))
        >>> target.constrain({"scale": 1.0, "x": 0.0})["x"].item()
        0.0
    """
    moves = any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(d))
    family = distribution_protocol.name_of(distribution_protocol.part_of(d))
    known = (*_LOCATION_SCALE, *_SCALE, *_RATE, "LogNormal")
    return NonCentered() if moves and (family in known or family.startswith(_VECTOR)) else None


def _standardize_family(d: Any, centeredness: Any) -> Pushforward:
    """Partial centring of a scalar family; a centeredness of None is exactly 0."""
    family = distribution_protocol.name_of(d)
    if family == "LogNormal":
        return Transformed(lambda base: _standardize_family(base, centeredness))(d)
    if family in _LOCATION_SCALE:
        loc, scale = d.loc, d.scale
    elif family in _SCALE:
        loc, scale = None, d.scale
    elif family in _RATE and d.rate is not None:
        loc, scale = None, 1 / d.rate
    else:
        raise NotImplementedError(
            f"{family} has no location and scale to centre by; NonCentered and PartiallyCentered "
            f"are for {', '.join((*_LOCATION_SCALE, *_SCALE, *_RATE, 'LogNormal'))} and, without "
            "partial centring, MultivariateNormal. Give a function of the distribution that "
            "returns a ppl.Pushforward."
        )
    if centeredness is None:
        shift, stretch, base_scale = None, scale, _ones(scale)
    else:
        shift = None if loc is None else centeredness * loc
        stretch, base_scale = scale ** (1 - centeredness), scale**centeredness
    parameters = {"rate": 1 / base_scale} if family in _RATE else {"scale": base_scale}
    if loc is not None:
        parameters["loc"] = 0 * _ones(loc) if shift is None else shift
    return Pushforward(_replace(d, parameters), *_affine(loc, stretch, shift))


def _affine(loc: Any, stretch: Any, shift: Any) -> tuple[Any, Any]:
    """The maps from z to loc + stretch (z - shift) and back."""

    def forward(z: Any) -> Any:
        z = z if shift is None else z - shift
        return stretch * z if loc is None else loc + stretch * z

    def inverse(x: Any) -> Any:
        z = (x if loc is None else x - loc) / stretch
        return z if shift is None else z + shift

    return forward, inverse


def _apply_by_part(d: Any, strategy: Any) -> Pushforward:
    """A strategy applied to each independent part of an event; the parts of `iid` are copies."""
    part = strategy(d.distribution)
    num = 0 if distribution_protocol.name_of(d) == "Independent" else len(d.sample_shape)
    ndim = len(d.distribution.event_shape)
    # Bases of this module take their shape from the position, so only their parameters widen.
    if isinstance(part.base, distribution_protocol.DistributionWrapper):
        widened = lambda x: jnp.expand_dims(x, tuple(range(-num, 0))) if jnp.ndim(x) else x  # noqa: E731
        base = _replace(part.base, {name: widened(x) for name, x in vars(part.base).items()})
    else:
        base = _replace(d, {"distribution": part.base})

    def mapped(map_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def map_all(x: Any) -> Any:  # moves the axes of the copies in front of the batch axes
            axes = tuple(range(x.ndim - ndim - num, x.ndim - ndim))
            front = tuple(range(num))
            return jnp.moveaxis(map_one(jnp.moveaxis(x, axes, front)), front, axes)

        return map_all

    return Pushforward(base, mapped(part.forward), mapped(part.inverse))


def _whiten(d: Any) -> Pushforward:
    """Whitening of a multivariate normal: coordinates are independent standard normals."""
    loc = 0.0 if d.loc is None else d.loc
    multiply, solve = _root_products(d)
    return Pushforward(Normal(0.0, 1.0), lambda z: loc + multiply(z), lambda x: solve(x - loc))


def _root_products(d: Any) -> tuple[Any, Any]:
    """Functions x -> L x and x -> L^-1 x, where L L^T is the covariance matrix."""
    if hasattr(d, "scale"):  # TFP's linear operator
        return d.scale.matvec, d.scale.solvevec
    if d.precision is not None:
        root = jnp.linalg.cholesky(d.precision)
        product = lambda x: jnp.einsum("...ji,...j->...i", root, x)  # noqa: E731
        return lambda z: _solve_triangular(root, z, transpose=True), product
    root = jnp.linalg.cholesky(d.covariance) if d.scale_tril is None else d.scale_tril
    product = lambda z: jnp.einsum("...ij,...j->...i", root, z)  # noqa: E731
    return product, lambda x: _solve_triangular(root, x, transpose=False)


def _solve_triangular(root: Any, x: Any, *, transpose: bool) -> Any:
    root = jnp.broadcast_to(root, (*x.shape[:-1], *jnp.shape(root)[-2:]))
    return lax.linalg.triangular_solve(
        root, x[..., None], left_side=True, lower=True, transpose_a=transpose
    )[..., 0]


def _ones(x: Any) -> Any:
    return jnp.ones_like(x) if isinstance(x, jax.Array) else 0 * x + 1


def _replace(d: Any, parameters: dict[str, Any]) -> Any:
    """A distribution with some parameters replaced."""
    return d.copy(**parameters) if hasattr(d, "copy") else dataclasses.replace(d, **parameters)
