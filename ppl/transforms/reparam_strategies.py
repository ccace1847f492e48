"""Strategies of reparam: non-centering, partial and learned centering, transforms, the circle."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.harvest import jax_core
from ppl.harvest.pytrees import register_dataclass
from ppl.transforms.reparam_bases import Normal, Plane, angle
from ppl.transforms.standard_forms import (
    has_centering_weight,
    has_standard_form,
    replace,
    standard_form,
)

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
    """Non-centered parameterization: a value as an affine function of a standard variable z.

    | family | value | z |
    |---|---|---|
    | location-scale | `loc + scale * z` | the standard member |
    | scale or rate | `scale * z`, or `z / rate` | the standard member |
    | log-normal and its like | `exp(loc + scale * z)` | standard normal |
    | `TransformedDistribution` | `f(x)` with `x` a function of z | the z of x |
    | normal arrays, `GaussianProcess` | `loc + L z`, `L L^T` the covariance | standard normals |
    | `GaussianRandomWalk`, `AutoRegressive` | the path of the innovations z | standard normals |
    | `MultivariateStudentT` | `loc + L z`, `L L^T` the scale matrix | the standard member |
    | Wishart families | `L z L^T`, or `L z` for factors | the standard member |
    | `ZeroSumNormal`, `ICAR` | `scale * z`, about the level of each part | the standard member |
    | `dist.iid`, `dist.Independent` | each part by its own family | |

    It suits sites about which the data say little. A user's own distribution can have a standard
    form too: by a property `has_standard_form` and a method `standard_form(centeredness)`, as in
    `distributions`.

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
            NotImplementedError: If its family has no location, scale or factor.
        """
        return _standardize(d, None, self)


@dataclasses.dataclass(frozen=True)
class PartiallyCentered:
    """Partially centered parameterization, by a weight c that may be learned.

    c = 0 is `NonCentered`, and c = 1 leaves the original coordinates. z has the distribution of the
    family with location `c * loc` and scale `scale^c`, and the value is
    `loc + scale^(1 - c) (z - c * loc)`.

    Args:
        centeredness: c, in [0, 1]; broadcasts with the batch of the distribution.

    Raises:
        ValueError: If c is known to lie outside of [0, 1].
        TypeError: If c is neither a number nor an array.

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
        if jax_core.is_traced(weight):
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
        return _standardize(d, self.centeredness, self)


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
        TypeError: If `then` is not a strategy.

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
            NotImplementedError: If the distribution is not a transformed one.
        """
        if distribution_protocol.name_of(d) in distribution_protocol.FAMILIES_OF_PARTS:
            return _apply_by_part(d, self)
        by = distribution_protocol.transform(d)
        if distribution_protocol.name_of(d) == "LogNormal":
            base = Normal(d.loc, d.scale)
            forward = jnp.exp
            inverse = jnp.log
        elif by is not None:
            base = d.distribution
            forward = by.forward
            inverse = by.inverse
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

        def inverse(x):
            return jnp.stack([jnp.cos(x), jnp.sin(x)], -1)

        return Pushforward(Plane(d), angle, inverse)


def _is_circular(d: Any) -> bool:
    """Whether values are angles in (-pi, pi]: by the support, or by the name of a TFP family."""
    d = distribution_protocol.part_of(d)
    support = getattr(d, "support", None)
    if support is None:
        return distribution_protocol.name_of(d) == "VonMises"
    low = getattr(support, "low", None)
    high = getattr(support, "high", None)
    if low is None or high is None or any(map(jax_core.is_traced, (low, high))):
        return False
    return np.allclose(low, -np.pi, rtol=1e-6) and np.allclose(high, np.pi, rtol=1e-6)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LearnedCentering:
    """Parameterization between centered and non-centered, by weights that warm-up learns.

    Each element of a site has a weight of its own, as in `PartiallyCentered`: 0 is `NonCentered`,
    and 1 the original coordinates. In their warm-up, `inference.mcmc`, `mcmc_each` and `sampler`
    learn the weights from draws and gradients: few data about an element bring its weight toward 0,
    many toward 1. `mcmc` with `NUTS`, `WALNUTS` or `HMC` does so without this strategy; ensemble
    kernels, `mcmc_each` and `sampler` need it. `inference.svi` learns them with the guide, by the
    gradient of the objective, unless the guide is a function or has a `PointMass`, or the objective
    is `ForwardKL`. Algorithms that do not learn weights work with 0.

    It suits all sites that `NonCentered` suits. Families without a weight for each element are
    non-centered: multivariate ones, and those whose unconstrained coordinates a scale does not
    shift or stretch, such as `GeneralizedPareto` and most half-line families of TFP. The others are
    families of numbers with a location and a scale, with a scale or with a rate, functions such as
    the exponential of these, and `dist.iid` and `dist.Independent` of all. In centered coordinates,
    where learning begins, a scale must not be exactly 0.

    Example:
        >>> import jax, inference, ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 9.0), name="mu")
        ...     theta = ppl.sample(key, dist.Normal(mu, 1.0), name="theta")
        ...     return ppl.sample(key, dist.Normal(theta, 0.01), name="y")
        >>> posterior = ppl.condition(model, {"y": 3.0})  # which says much about theta
        >>> posterior = ppl.reparam(posterior, {"theta": ppl.LearnedCentering()})
        >>> result = inference.mcmc(jax.random.key(0), posterior)
        >>> bool(result.centering["theta"].mean() > 0.9)
        True

    References:
        Gorinova, Moore and Hoffman, "Automatic reparameterisation of probabilistic programs"
        (2020); Seyboldt, Carlson and Carpenter, "Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence" (2026).
    """

    def __call__(self, d: Any) -> Pushforward:
        """The non-centered coordinates of a distribution, those of the weights 0.

        Raises:
            NotImplementedError: If its family has no location, scale or factor.
        """
        return _standardize(d, None, self)


class WeightedPosition(NamedTuple):
    """An unconstrained position and the weight of each of its elements."""

    position: Any
    weight: Any


class Frame(NamedTuple):
    """Location and scale of a site about which its elements are centered, in unconstrained space.

    Attributes:
        z: Its non-centered position.
        loc: The location.
        scale: The scale.
    """

    z: Any
    loc: Any
    scale: Any

    def position(self, weight: Any) -> Any:
        """The position with these weights."""
        return weight * self.loc + self.scale**weight * self.z


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Weighted:
    """Strategy with a weight of `PartiallyCentered` for each element of a draw."""

    weight: Any

    def __call__(self, d: Any) -> Pushforward:
        """The coordinates of a distribution."""
        return _standardize(_one_element_each(d), self.weight, self)


def frame_of(d: Any, value: Any) -> Frame:
    """The frame of a value of a distribution that has a weight for each element."""
    start, end = (Weighted(weight)(d) for weight in (0.0, 1.0))

    def centered(z: Any) -> Any:
        x = start.forward(distribution_protocol.forward(start.base, z))
        return distribution_protocol.inverse(end.base, end.inverse(x))

    z = distribution_protocol.inverse(start.base, start.inverse(value))
    _, scale = jax.jvp(centered, (z,), (jnp.ones_like(z),))
    return Frame(z, centered(jnp.zeros_like(z)), scale)


def _one_element_each(d: Any) -> Any:
    """A distribution of independent numbers with a batch axis for each axis of a draw."""
    name = distribution_protocol.name_of(d)
    if name not in distribution_protocol.FAMILIES_OF_PARTS:
        return d
    each = _one_element_each(d.distribution)
    if name == "Independent":
        return each
    num = len(d.sample_shape)
    num_behind = len(d.distribution.event_shape)

    def spread(x: Any) -> Any:  # the axes of the copies are in front of those of an event
        at = np.ndim(x) - num_behind
        return jnp.expand_dims(x, tuple(range(at, at + num))) if at > 0 and num else x

    return jax.tree.map(spread, each)


def auto_reparam(
    name: str, d: Any, is_constant: bool | None = None
) -> LearnedCentering | NonCentered | None:
    """Rule for `reparam`: `LearnedCentering` of every site whose parameters are not constant.

    Families without a weight for each element, as multivariate ones, are `NonCentered`. These
    sites stay as they are:

    - sites whose distribution is constant: it depends on no other site and no argument;
    - sites whose family has no location, scale or factor.

    `ppl.coordinates` lists these sites.

    Args:
        name: The name of the site.
        d: Its distribution.
        is_constant: Whether the distribution is constant; by default, whether its parameters are
            known.

    Example:
        >>> import ppl, distributions as dist
        >>> def funnel(key):
        ...     scale = ppl.sample(key, dist.LogNormal(0.0, 3.0), name="scale")
        ...     return ppl.sample(key, dist.Normal(0.0, scale), name="x")
        >>> target = ppl.unconstrain(ppl.reparam(funnel, ppl.auto_reparam))
        >>> target.constrain({"scale": 1.0, "x": 0.0})["x"].item()
        0.0
    """
    if is_constant is None:
        is_constant = not any(map(jax_core.is_traced, jax.tree.leaves(d)))
    if is_constant or not has_standard_form(d):
        return None
    return LearnedCentering() if has_centering_weight(d) else NonCentered()


def _standardize(d: Any, centeredness: Any, strategy: Any) -> Pushforward:
    """The standard form of a distribution, with the strategy applied to its parts."""
    if distribution_protocol.name_of(d) in distribution_protocol.FAMILIES_OF_PARTS:
        return _apply_by_part(d, strategy)
    name = distribution_protocol.name_of(d)
    own = "Give a function of the distribution that returns a ppl.Pushforward."
    try:
        form = standard_form(d, centeredness)
    except NotImplementedError as error:
        raise NotImplementedError(f"{error} {own}") from error
    if form is not None:
        return Pushforward(*form)
    if name == "LogNormal" or distribution_protocol.transform(d) is not None:
        return Transformed(strategy)(d)
    raise NotImplementedError(
        f"{name} has no location and scale to center by, and no factor of a covariance. {own}"
    )


def _apply_by_part(d: Any, strategy: Any) -> Pushforward:
    """A strategy applied to each independent part of an event; the parts of `iid` are copies."""
    part = strategy(d.distribution)
    num = 0 if distribution_protocol.name_of(d) == "Independent" else len(d.sample_shape)
    ndim = len(d.distribution.event_shape)
    # Bases of this module take their shape from the position, so only their parameters widen.
    if isinstance(part.base, distribution_protocol.DistributionWrapper):

        def widened(x):
            return jnp.expand_dims(x, tuple(range(-num, 0))) if jnp.ndim(x) else x

        base = replace(part.base, {name: widened(x) for name, x in vars(part.base).items()})
    else:
        base = replace(d, {"distribution": part.base})

    def mapped(map_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def map_all(x: Any) -> Any:  # moves the axes of the copies in front of the batch axes
            axes = tuple(range(x.ndim - ndim - num, x.ndim - ndim))
            front = tuple(range(num))
            return jnp.moveaxis(map_one(jnp.moveaxis(x, axes, front)), front, axes)

        return map_all

    return Pushforward(base, mapped(part.forward), mapped(part.inverse))
