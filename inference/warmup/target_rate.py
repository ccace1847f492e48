r"""Target of the acceptance rate, raised where transitions fail although the mean rate is right.

A transition *fails* if its acceptance rate, the mean over its trajectory, is below 0.1. Where the
curvature of a density is much the same everywhere, the rates of transitions are close to their
mean: if the mean is 0.8, fewer than 0.2 % fail in regressions, and 1.5 % in moderate hierarchies.
Where the curvature varies, most rates are near 1, but rates in narrow places are near 0, as the
leapfrog integrator is unstable there: in funnels, bananas and horseshoe priors 6 % to 30 % fail,
although the mean is 0.8 as well. So the share `f` of failures in the last window raises the target
:math:`\delta` for the rest of warm-up, and thereby for all draws. For a diagonal, which has no
windows, failures count while it is learned with the long memory (30 % to 85 % of warm-up); for a
kernel that adapts by itself, from 45 % to 90 %:

.. math:: 1 - \delta' = \frac{1 - \delta}{1 + \min((f / 0.015)^2, 4)}

From 0.8, the target becomes 0.804 for `f` of 0.2 %, 0.9 for 1.5 %, and 0.96 for 3 % and more.

The mean does not show this, and divergences show it late: they are some ten times rarer. The
share is counted as if a hundred more transitions had not failed, so that one failure in a short
window changes little. At another target, a transition fails below
:math:`0.1^{(1 - \delta) / 0.2}`.

References:
    Leimkuhler and Reich (2004), Simulating Hamiltonian dynamics, section 2.6, on the limit of
    stability; Betancourt, Byrne and Girolami (2014), Optimizing the integrator step size for
    Hamiltonian Monte Carlo, on targets from 0.6 to 0.9 where the curvature is even.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

_FAILURE = 0.1  # acceptance rate of a failure at the target of 0.8
_PRIOR = 100  # transitions without a failure that are added to those of the window
_SHARE = 0.015  # share of failures that halves `1 - target`
_MOST = 4.0  # limit of the squared ratio of a share of failures to `_SHARE`


def is_failure(
    acceptance_rate: jax.typing.ArrayLike, target: jax.typing.ArrayLike
) -> jax.typing.ArrayLike:
    """Whether a transition fails: its log acceptance rate is far below what the target implies."""
    return jnp.log(acceptance_rate) < math.log(_FAILURE) / 0.2 * (1 - target)


def failure_share(num_failures: jax.Array, length: jax.Array) -> jax.Array:
    """Share of failures, as if a hundred more transitions had been seen and none had failed.

    A single failure in a short window thus changes little.
    """
    return num_failures / (length + _PRIOR)


def raise_target(target: Any, share: Any) -> Any:
    """Raised target for a chain, from the share of its transitions that fail at `target`."""
    return 1 - (1 - target) / (1 + _excess(share))


def estimate_gain(share: Any) -> jax.Array:
    """Number to add to the log step size when the target is raised for a share of failures.

    Where energy errors are small, 1 minus the acceptance rate is proportional to their standard
    deviation, which is proportional to the square of the step size.
    """
    return -0.5 * jnp.log1p(_excess(share))


def _excess(share: Any) -> Any:
    return jnp.minimum((share / _SHARE) ** 2, _MOST)
