"""Whether a model has sites that could be non-centered, for the advice of summaries."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import ppl
from inference.drivers.advice import advise
from inference.results.diagnostics import ess_bulk
from inference.results.problems import MANY_CHAINS, enough_draws, may_need_reparam
from inference.results.psis import largest_pareto_k
from ppl.harvest.survey import join_scopes

_WHAT = "whether ppl.auto_reparam would help"
# Draws whose ESS is looked at, which takes some hundredths of a second.
_MAX_NUMBERS = 1 << 18
_MAX_CHAINS = 64
_MAX_LEAVES = 64


def find_noncentering(target: Any) -> str | None:
    """Whether `ppl.auto_reparam` would change sites of a model.

    Returns:
        ``"possible"`` if it would, ``"done"`` if it would not as some sites are reparameterized or
        have weights of centering already, ``"impossible"`` if it would not and no site is
        reparameterized; `None` if the target has no model, or a model that cannot be traced.
    """
    return advise(_WHAT, _look, target) if hasattr(target, "arguments") else None


def _look(target: Any) -> str:
    args, kwargs = target.arguments.join(target.data)
    sites = ppl.coordinates(target.model)(*args, **kwargs).sites
    learned = {join_scopes(path) for path in getattr(target, "centering", ())}
    if any(site.reason is None and name not in learned for name, site in sites.items()):
        return "possible"
    is_done = any(site.strategy is not None for site in sites.values())
    return "done" if is_done or learned else "impossible"


def noncentering_of_chains(target: Any, draws: Any, stats: Mapping[str, Any]) -> str | None:
    """As `find_noncentering`; `None` if transitions did not diverge and ESS and E-BFMI are high."""
    is_needed = advise(_WHAT, lambda: may_need_reparam(stats) or _is_slow(draws))
    return find_noncentering(target) if is_needed else None


def noncentering_of_guide(target: Any, pareto_k: Any, num_draws: int) -> str | None:
    """As `find_noncentering`; `None` if Pareto k is low."""
    return find_noncentering(target) if pareto_k > largest_pareto_k(num_draws) else None


def _is_slow(draws: Any) -> bool:
    """Whether a scalar has low ESS, among as many scalars as can be looked at in little time.

    If there are many chains, the ESS of all chains together counts. Only some chains are looked at,
    and the other chains are assumed to be like them.
    """
    leaves = [x for x in jax.tree.leaves(draws) if np.issubdtype(x.dtype, np.floating) and x.size]
    if not leaves:
        return False
    num_chains, num_draws = whole = leaves[0].shape[:2]
    leaves = leaves[:_MAX_LEAVES]
    num_chains = min(num_chains, _MAX_CHAINS)
    num_draws = min(num_draws, _MAX_NUMBERS // (num_chains * len(leaves)))
    number = max(1, _MAX_NUMBERS // (num_chains * num_draws * len(leaves)))
    some = [x[:num_chains, :num_draws] for x in leaves]
    some = [x.reshape(num_chains, num_draws, -1)[..., :number] for x in some]
    ess = ess_bulk(np.concatenate(some, 2))
    seen = num_chains / whole[0]
    if whole[0] >= MANY_CHAINS:  # else each chain needs enough, which it has before its end
        seen *= num_draws / whole[1]
    return bool(np.any(ess < enough_draws(whole[0]) * seen))
