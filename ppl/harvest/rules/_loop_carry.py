"""Loop carry, for scan and while: the last value of a clobbered name, or a sum of records."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import _jax, _values
from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._sow import Site
from ppl.harvest._survey import Found, Path, Sites, SowError


class LastValues:
    """The last value of each clobbered name that a loop body sows, as a part of the loop's carry.

    A carried value is (record, pred): `pred` tells whether there was any; it is None where every
    iteration is sure to sow one.
    """

    def __init__(self, on: Interpreter, sites: Sites, planted: Mapping[Path, Any]):
        replaced = () if on.action.perturbs else planted
        names = (p for p, found in sites.items() if found.clobbers and p not in replaced)
        self._sites = {p: sites[p] for p in names if on.action.records}

    def start(self, *, certain: bool) -> list[Any]:
        """The carry at first; `certain` if there is sure to be an iteration."""
        return [
            _values.as_varying(
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
        """The carry after an iteration, which counts for an element where `active` holds."""
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
            carry.append(_values.as_varying((new.record, new.pred)))
        return carry

    def finish(self, last: list[Any], *, empty: bool = False) -> list[Reaped]:
        """Records of the loop; those of an `empty` one say that nothing was sown."""
        return [
            Reaped(record, jnp.zeros(f.lead, bool) if empty else pred, f.site, zeroed=True)
            for f, (record, pred) in zip(self._sites.values(), last, strict=True)
        ]


class RunningSum:
    """The sum of what all iterations record, in the carry, for an action that only `adds`.

    It is compensated (Kahan 1965): the error of a million additions is that of one. The carry is
    the sum and what it has too much.
    """

    def __init__(self, on: Interpreter):
        self._on = on
        self._sown: list[tuple[Site, Any]] = []

    def start(self) -> tuple[jax.Array, jax.Array] | None:
        """The carry at first, of the default dtype: that of the records is not known yet."""
        return _values.as_varying((jnp.zeros(()), jnp.zeros(()))) if self._on.action.adds else None

    def update(self, carry: Any, reaps: list[Reaped]) -> tuple[Any, list[Reaped]]:
        """The carry after an iteration, and the records that are not in it."""
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
        return _values.as_varying(carry), []

    def finish(self, carry: Any) -> list[Reaped]:
        """Record of the loop."""
        return [Reaped(carry[0].astype(dtype), None, site) for site, dtype in self._sown]


def _zeros(found: Found) -> tuple[jax.Array, ...]:
    return tuple(_jax.as_aval(jnp.zeros(a.shape, a.dtype), a) for a in found.avals)


def _for_site(active: jax.Array, found: Found) -> jax.Array:
    """A loop's predicate, one element for each of the loop's batch, as the site is batched."""
    shape, outside = found.lead, found.loop_axis
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
