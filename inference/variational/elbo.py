"""Objective, the protocol of functions that a fit maximizes, and ELBO, the evidence lower bound."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_flags
from inference.guides.guide import Guide, draw_of

LogDensity = Callable[[jax.Array], jax.Array]


class Objective(Protocol):
    """A function of a guide's parameters to be maximized: a frozen dataclass, static and hashable.

    Attributes:
        name: Name of its value, as shown to users.
        min_particles: Minimum number of draws in a step.
        is_linear: Whether the objective is linear in the log density. Unbiased estimates of the
            log density, such as those from a batch, then give unbiased gradients.
        needs_density: Whether the guide must have a density.

    Two more attributes may be left out:

    - `for_model`: objective of the same value whose gradient by parameters of the model has no
      bias; else the objective itself.
    - `learns_centering`: whether weights of centering are learned by its gradient; else they are
      not. Its value must not depend on the coordinates: it is a function of the ratio of the
      density to the guide's.
    """

    name: ClassVar[str]
    min_particles: ClassVar[int]
    is_linear: ClassVar[bool]
    needs_density: ClassVar[bool]

    @property
    def needs_paths(self) -> bool:
        """Whether draws must be differentiable functions of the parameters."""
        ...

    def mean(
        self, log_density: LogDensity, guide: Guide, parameters: Any, keys: jax.Array
    ) -> jax.Array:
        """An estimate of the objective, whose derivative is an estimate of its gradient.

        Args:
            log_density: Function of a flat position.
            guide: The family.
            parameters: The member of the family.
            keys: Keys of the draws, ``(particle,)``.

        Returns:
            A scalar.
        """
        ...


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ELBO:
    r"""The evidence lower bound, :math:`E_q[\log p(z, y) - \log q(z)] \le \log p(y)`.

    Gradients are reparameterized: they follow the path from noise to position,
    :math:`z = g(\lambda, \epsilon)`, so the log density must be differentiable. An entropy in
    closed form, where the guide has one, replaces :math:`-\log q`. The log density is always
    evaluated at draws.

    Args:
        stick_the_landing: Whether to differentiate :math:`\log q` only along the path, with its
            parameters held fixed. The omitted term of the gradient has mean zero. If the guide
            equals the posterior, the remaining gradient has no variance. If the guide cannot equal
            the posterior, the remaining gradient often has a larger variance.

    References:
        Kingma and Welling (2014), Auto-encoding variational Bayes; Roeder, Wu and Duvenaud (2017),
        Sticking the landing: simple, lower-variance gradient estimators for variational inference.
    """

    stick_the_landing: bool = False
    name: ClassVar[str] = "ELBO"
    min_particles: ClassVar[int] = 1
    is_linear: ClassVar[bool] = True
    needs_density: ClassVar[bool] = False
    learns_centering: ClassVar[bool] = True
    needs_paths = True

    def estimate(
        self, log_density: LogDensity, guide: Guide, parameters: Any, key: jax.Array
    ) -> jax.Array:
        """An unbiased estimate from one draw; its derivative by `parameters` is unbiased too."""
        entropy = guide.entropy(parameters)
        if self.stick_the_landing:
            position = guide.sample(parameters, key)
            entropy = -guide.log_prob(lax.stop_gradient(parameters), position)
        elif entropy is None:
            position, log_prob = draw_of(guide, parameters, key)
            entropy = -log_prob
        else:
            position = guide.sample(parameters, key)
        return log_density(position) + entropy

    def mean(
        self, log_density: LogDensity, guide: Guide, parameters: Any, keys: jax.Array
    ) -> jax.Array:
        """The mean of the estimates from draws with each of `keys`."""

        def one(key: jax.Array) -> jax.Array:
            return self.estimate(log_density, guide, parameters, key)

        return one(keys[0]) if keys.shape[0] == 1 else jnp.mean(jax.vmap(one)(keys))


def with_gradient_of(value: jax.Array, surrogate: jax.Array) -> jax.Array:
    """A number equal to `value` with the derivative of `surrogate`."""
    return lax.stop_gradient(value - surrogate) + surrogate


def check_objective(objective: Any, guide: Any, num_particles: int, has_batches: bool) -> None:
    """Raises an error unless the objective suits the guide, the number of draws and the batches.

    Raises:
        TypeError: if `objective` is not an objective, or a flag of it is not a boolean.
        ValueError: if it does not suit the others; the message says why, and names a remedy.
    """
    if isinstance(objective, type) or not hasattr(objective, "mean"):
        made = f"; did you mean {objective.__name__}()?" if isinstance(objective, type) else ""
        raise TypeError(f"objective must be an objective such as ELBO(), got {objective!r}{made}")
    check_flags(objective)
    jumps = [".".join(path) for path in getattr(guide, "jumps", ())]
    if jumps and objective.needs_paths:
        raise ValueError(
            f"site {jumps[0]!r} of guide {guide!r} has draws that are no differentiable function "
            f"of its parameters, so {objective!r} has no gradient along them. Give objective="
            "ScoreFunction() and num_particles=10, say; or draw from another distribution, or "
            "transform a normal one by dist.TransformedDistribution."
        )
    if num_particles < objective.min_particles:
        raise ValueError(
            f"{objective!r} needs several draws in each step: give num_particles="
            f"{max(10, objective.min_particles)}, say, got {num_particles}"
        )
    if objective.needs_density and not guide.has_density:
        raise ValueError(
            f"{objective!r} needs a guide with a density, which {guide!r} has not; fit "
            "MeanField(), say, or use objective=ELBO()"
        )
    if has_batches and (jumps or not objective.is_linear):
        what = f"draws of {jumps[0]!r} that are no differentiable function" if jumps else objective
        raise ValueError(
            f"batch goes with objectives that are linear in the log density, as ELBO(), and with "
            f"differentiable draws, but not with {what}: its gradients would be biased. Use all "
            "data in each step, batch=None."
        )
