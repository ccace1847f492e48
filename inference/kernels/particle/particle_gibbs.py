"""Particle Gibbs: paths of a state space moved by conditional sequential Monte Carlo."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_count, check_own_proposal
from inference.particles.conditional_smc import conditional_smc
from ppl.harvest.pytrees import register_dataclass


class ParticleGibbsState(NamedTuple):
    """State of a chain of :class:`ParticleGibbs`.

    Attributes:
        position: Values before the first step, and of all steps, ``(step, ...)``.
    """

    position: tuple[Any, Any]


class ParticleGibbsInfo(NamedTuple):
    """Statistics of a sweep of :class:`ParticleGibbs`; all scalars.

    Attributes:
        renewal_rate: Share of steps whose values are new.
        least_ess: Smallest effective sample size of a step.
    """

    renewal_rate: jax.Array
    least_ess: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ParticleGibbs:
    """Particle Gibbs with ancestor sampling, for the path of a state space model.

    It moves the latent sites of a ``lax.scan`` as a block of :class:`Gibbs`, given the values of
    all other sites, by a sweep of conditional sequential Monte Carlo: one particle keeps the
    present path, and finds a new past for it at each step. Draws are exact for any number of
    particles; more of them renew more of the path in a sweep. Sites before the scan may belong to
    the block if they enter its first carry only, such as an initial state. Nothing is tuned, and no
    gradient is needed: latent sites may be discrete.

    Attributes:
        num_particles: Number of particles, with the present path.
        proposal: "optimal" draws latent sites of a step from their exact distribution given the
            carry and the data of the step, where they have one; see :func:`particle_filter`. None
            for the model's own distributions.
        state_space: State space of the path. :class:`Gibbs` reads it off the model.

    Raises:
        TypeError: if the number of particles is not an integer.
        ValueError: if it is below 2, or the proposal is another.

    Example:
        >>> import ppl, distributions as dist, inference
        >>> def model(key):
        ...     scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        ...     def step(x, key):
        ...         x = ppl.sample(key, dist.Normal(x, scale), name="x")
        ...         return x, ppl.sample(key, dist.Normal(x**2, 0.5), name="y")
        ...     jax.lax.scan(step, jnp.zeros(()), jax.random.split(key, 4))
        >>> blocks = {"x": inference.ParticleGibbs()}
        >>> kernel = inference.Gibbs(blocks, rest=inference.Slice())
        >>> posterior = ppl.condition(model, {"y": jnp.array([0.1, 0.3, 1.2, 2.0])})
        >>> result = inference.mcmc(jax.random.key(0), posterior, kernel=kernel, num_warmup=100)
        >>> result.draws["x"].shape
        (4, 1000, 4)

    References:
        Andrieu, Doucet and Holenstein (2010), Particle Markov chain Monte Carlo methods, Journal of
        the Royal Statistical Society B 72; Lindsten, Jordan and Schön (2014), Particle Gibbs with
        ancestor sampling, Journal of Machine Learning Research 15.
    """

    num_particles: int = dataclasses.field(default=20, metadata={"static": True})
    proposal: str | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})
    state_space: Any = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        number = check_count("num_particles", self.num_particles, least=2)
        object.__setattr__(self, "num_particles", number)
        check_own_proposal(self.proposal)

    def init(self, position: tuple[Any, Any]) -> ParticleGibbsState:
        """The state of a chain at a path: values before the first step, and of all steps."""
        return ParticleGibbsState(jax.tree.map(jnp.asarray, position))

    def refresh(self, state: ParticleGibbsState) -> ParticleGibbsState:
        """The state itself, which caches nothing."""
        return state

    def step(
        self, key: jax.Array, state: ParticleGibbsState
    ) -> tuple[ParticleGibbsState, ParticleGibbsInfo]:
        """One sweep.

        Raises:
            ValueError: if there is no state space.
        """
        if self.state_space is None:
            raise ValueError(
                "ParticleGibbs has no state space, which Gibbs reads off a model: take "
                'kernel=inference.Gibbs({"x": ParticleGibbs()}) with the latent sites of the scan'
            )
        found = conditional_smc(key, self.state_space, self.num_particles, *state.position)
        dtype = found.least_ess.dtype
        renewal_rate = jnp.mean(found.is_new.astype(dtype))
        new = ParticleGibbsState((found.start, found.path))
        return new, ParticleGibbsInfo(renewal_rate, found.least_ess)
