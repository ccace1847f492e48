"""ScoreFunction: the ELBO with score function gradients, for guides with discrete draws."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from inference.guides.guide import Guide
from inference.variational.elbo import LogDensity, with_gradient_of


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ScoreFunction:
    r"""The ELBO with score function gradients (REINFORCE), for guides with discrete draws.

    The gradient follows the paths of reparameterized draws. For the other draws, :math:`d`, it adds

    .. math:: \frac1K \sum_k \Big(\ell_k - \frac{1}{K - 1} \sum_{j \ne k} \ell_j\Big)
              \nabla \log q(d_k)

    with :math:`\ell = \log p(z, y) - \log q(z)` of `K` draws, `num_particles`. The mean over the
    other draws is a leave-one-out baseline: it reduces the variance and leaves the gradient
    unbiased. Each discrete site is credited with the whole of :math:`\ell`, so noise grows with
    the number of discrete sites. A few dozen need many particles and small steps.

    Example:
        >>> import ppl, distributions as dist
        >>> from inference import svi
        >>> def model(key):
        ...     k = ppl.sample(key, dist.Bernoulli(probs=0.5), name="k")
        ...     return ppl.sample(key, dist.Normal(jnp.where(k == 1, 2.0, 0.0), 1.0), name="y")
        >>> def guide(key):
        ...     ppl.sample(key, dist.Bernoulli(logits=ppl.param(0.0, name="logit")), name="k")
        >>> settings = {"guide": guide, "objective": ScoreFunction(), "num_particles": 10}
        >>> posterior = ppl.condition(model, {"y": 1.5})
        >>> result = svi(jax.random.key(0), posterior, num_steps=3000, **settings)
        >>> bool(abs(result.parameters["logit"] - 1.0) < 0.1)  # exactly (1.5**2 - 0.5**2) / 2
        True

    References:
        Ranganath, Gerrish and Blei (2014), Black box variational inference, AISTATS, equation 2;
        Kool, van Hoof and Welling (2019), Buy 4 REINFORCE samples, get a baseline for free!, on the
        baseline; Schulman, Heess, Weber and Abbeel (2015), Gradient estimation using stochastic
        computation graphs, NeurIPS, on both kinds of draws together.
    """

    name: ClassVar[str] = "ELBO"
    min_particles: ClassVar[int] = 2
    is_linear: ClassVar[bool] = True
    needs_density: ClassVar[bool] = True
    learns_centering: ClassVar[bool] = True
    needs_paths = False

    def mean(
        self, log_density: LogDensity, guide: Guide, parameters: Any, keys: jax.Array
    ) -> jax.Array:
        """The mean over draws with each of `keys`; see :class:`inference.Objective`."""
        log_prob_of_jumps = getattr(guide, "log_prob_of_jumps", None)

        def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            position = guide.sample(parameters, key)
            log_prob = guide.log_prob(parameters, position)
            if log_prob_of_jumps is None:
                return log_density(position) - log_prob, jnp.zeros_like(log_prob)
            score = log_prob_of_jumps(parameters, position)
            # The derivative of the value of `score` has mean zero: it would only add noise.
            rest = log_prob - score + lax.stop_gradient(score)
            return log_density(position) - rest, score

        gains, scores = jax.vmap(one)(keys)
        others = (jnp.sum(gains) - gains) / (gains.size - 1)
        signal = lax.stop_gradient(gains - others)
        return with_gradient_of(jnp.mean(gains), jnp.mean(gains) + jnp.mean(signal * scores))
