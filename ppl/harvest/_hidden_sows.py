"""Hidden sows: those in a primitive that does not tell JAX of their effect, as `lax.reduce`."""

import weakref
from typing import Any

from jax.extend import core as jex

from ppl.harvest import _jax
from ppl.harvest._jaxprs import Jaxpr, raw

_hiding: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def hides_sow(eqn: jex.JaxprEqn) -> bool:
    """Whether a sow stands in an equation that does not tell."""
    return not _jax.has_sow(eqn) and any(map(sows, _jax.subjaxprs(eqn)))


def sows(jaxpr: Jaxpr) -> bool:
    """Whether a sow stands anywhere inside of a jaxpr, in an equation that tells it or not."""
    if _jax.has_sow(jaxpr):
        return True
    if jaxpr not in _hiding:
        _hiding[jaxpr] = any(map(hides_sow, raw(jaxpr)[0].eqns))
    return _hiding[jaxpr]
