"""Weights between centered and non-centered coordinates, learned from draws and gradients.

Chains learn the weights in rounds. Each round begins where the last one ended. The first round is
in centered coordinates, where a few draws far out tell the most. The rest of warm-up is in the
coordinates that the last round has found.
"""

from typing import Any, NamedTuple

import numpy as np

NUM_ROUNDS = 2
_SHARES = 0.15, 0.1  # of all warm-up: a round's iterations before its draws, and its draws
_MIN_DRAWS = 10  # of a chain in a round; if warm-up is too short for them, nothing is learned
WEIGHTS = np.linspace(0.0, 1.0, 21)


class RoundLengths(NamedTuple):
    """Iterations of one round.

    Attributes:
        num_warmup: Iterations without draws.
        num_draws: Iterations whose draws weights are learned from.
        num_before: Iterations of all rounds together.
    """

    num_warmup: int
    num_draws: int
    num_before: int


def has_rounds(num_warmup: int) -> bool:
    """Whether warm-up is long enough to learn weights."""
    return int(_SHARES[1] * num_warmup) >= _MIN_DRAWS


def round_lengths(target: Any, num_warmup: int) -> RoundLengths | None:
    """Lengths of a round; `None` if no site learns its centering, or warm-up is too short."""
    if not getattr(target, "centering", ()) or not has_rounds(num_warmup):
        return None
    lengths = [int(share * num_warmup) for share in _SHARES]
    return RoundLengths(*lengths, num_before=NUM_ROUNDS * sum(lengths))


def best_weights(frame: Any, slope: Any, weight: Any, is_used: Any, xp: Any = np) -> Any:
    """Weight of each element of a site, chosen so that its coordinate is nearest to a normal one.

    With the weight c, the coordinate is ``c loc + scale^c z``. Rescaling a coordinate brings it
    nearest to a standard normal, in Fisher divergence, if the divisor is the fourth root of the
    variance of the coordinate over the variance of its slope. The divergence that is left grows
    with the product of the two variances, which is 1 for a normal coordinate that depends on
    nothing else. So the weight with the least product is chosen.

    Args:
        frame: `z`, `loc` and `scale` at draws, each ``(draw, *shape)``.
        slope: Derivatives of the log density by the coordinates at `weight`, ``(draw, *shape)``.
        weight: Weights of the coordinates in which the slopes were computed, ``(*shape)``.
        is_used: Flags of the draws that count, ``(draw,)``.
        xp: ``numpy``, or ``jax.numpy`` within a program.

    Returns:
        Weights, ``(*shape)``, of the grid `WEIGHTS`; `weight` where no product is finite.

    References:
        Gorinova, Moore and Hoffman (2020), Automatic reparameterisation of probabilistic programs;
        Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 2.
    """
    now = xp.broadcast_to(weight, xp.shape(slope))
    is_used = is_used.reshape(-1, *[1] * xp.ndim(weight))
    losses = []
    with np.errstate(all="ignore"):
        log_scale = xp.log(frame.scale)
        for c in WEIGHTS:
            slopes = slope * xp.exp((now - c) * log_scale)
            product = xp.var(frame.position(c), 0, where=is_used) * xp.var(slopes, 0, where=is_used)
            losses.append(xp.where(xp.isfinite(product), product, np.inf))
    losses = xp.stack(losses)
    best = xp.asarray(WEIGHTS)[losses.argmin(0)]
    return xp.where(xp.isfinite(losses.min(0)), best, weight)
