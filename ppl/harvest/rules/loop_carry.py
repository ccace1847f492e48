"""Loop carry, for scan and while: the last value of a clobbered name, or a sum of records."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import jax_core, leaf_values
from ppl.harvest.interpreter import Interpreter, Reaped
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Found, Path, Sites, SowError


class LastValues:
    """Last value of each clobbered name of a loop body, as a part of the loop's carry.

    A carried value is (record, pred). `pred` tells whether anything was sown; it is None if every
    iteration is sure to sow.
    """

    def __init__(self, on: Interpreter, sites: Sites, planted: Mapping[Path, Any]):
        replaced = () if on.action.perturbs else planted
        names = (p for p, found in sites.items() if found.clobbers and p not in replaced)
        self._sites = {p: sites[p] for p in names if on.action.records}

    def start(self, *, certain: bool) -> list[Any]:
        """Initial carry; `certain` tells whether at least one iteration is sure to run."""
        return [
            leaf_values.as_varying(
                (_zeros(f), None if certain and f.certain else jnp.zeros(f.lead, bool))
            )
            for f in self._sites.values()
        ]

    def update(
        self,
        last: list[Any],
        reaped: Mapping[Path, Reaped],
        active: jax.Array | None = None,
    ) -> list[Any]:
        """Carry after an iteration, which counts only for elements where `active` holds."""
        carry = []
        for (path, found), (record, pred) in zip(self._sites.items(), last, strict=True):
            if path not in reaped:
                carry.append((record, pred))
                continue
            old = Reaped(record, pred, found.site, zeroed=True)
            new = reaped[path].spread(found.site)
            if active is not None:
                ran = _for_site(active, found)
                took_place = ran if new.pred is None else ran & new.pred
                new = Reaped(new.record, took_place, new.site)
            new = new.override_where_taken(old)
            carry.append(leaf_values.as_varying((new.record, new.pred)))
        return carry

    def finish(self, last: list[Any], *, empty: bool = False) -> list[Reaped]:
        """Records of the loop; records of an `empty` loop say that nothing was sown."""
        return [
            Reaped(record, jnp.zeros(f.lead, bool) if empty else pred, f.site, zeroed=True)
            for f, (record, pred) in zip(self._sites.values(), last, strict=True)
        ]


class RunningSum:
    """Kahan sum of the records of all iterations, in the carry, for an action that `adds`.

    The sum is compensated (Kahan 1965, "Further remarks on reducing truncation errors"): a million
    additions have the error of one. The carry is (sum, excess); the excess is the rounding error
    that the sum contains.
    """

    def __init__(self, on: Interpreter):
        self._on = on
        self._sown: list[tuple[Site, Any]] = []

    def start(self) -> tuple[jax.Array, jax.Array] | None:
        """Initial carry, in the default dtype, as the dtype of the records is not known yet."""
        return (
            leaf_values.as_varying((jnp.zeros(()), jnp.zeros(()))) if self._on.action.adds else None
        )

    def update(self, carry: Any, reaps: list[Reaped]) -> tuple[Any, list[Reaped]]:
        """Carry after an iteration, and the records that are not added to it."""
        if not self._on.action.adds:
            return carry, reaps
        old, excess = carry
        sown = self._on.condense(reaps)
        self._sown = [(r.site, r.record.dtype) for r in sown]
        if sown:
            term = sum(r.record.astype(old.dtype) for r in sown) - excess
            new = old + term
            excess = jnp.where(jnp.isfinite(new), (new - old) - term, 0.0)
            carry = new, lax.stop_gradient(excess)
        return leaf_values.as_varying(carry), []

    def finish(self, carry: Any) -> list[Reaped]:
        """Record of the loop."""
        return [Reaped(carry[0].astype(dtype), None, site) for site, dtype in self._sown]


def _zeros(found: Found) -> tuple[jax.Array, ...]:
    return tuple(jax_core.as_aval(jnp.zeros(a.shape, a.dtype), a) for a in found.avals)


def _for_site(active: jax.Array, found: Found) -> jax.Array:
    """Predicate of a batched loop, reduced or broadcast to the batch axes of a site."""
    shape = found.lead
    outside = found.loop_axis
    if outside == 0:
        active = jnp.any(active)
    elif active.ndim not in (0, outside):
        raise SowError(
            found.site.path,
            "it stands in a while loop under several vmaps, some of which map only the loop or "
            "only the sown value. Harvest inside of the vmaps, as vmap(reap(f)).",
        )
    active = jnp.expand_dims(active, tuple(range(active.ndim, len(shape))))
    return jnp.broadcast_to(active, shape)
