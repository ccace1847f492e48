"""Hidden sows: sows in an equation that does not list their effect, such as `lax.reduce`."""

import weakref
from typing import Any

from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.harvest.jaxprs import Jaxpr, raw

_hiding: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def hides_sow(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation holds a sow at any depth without listing its effect."""
    return not jax_core.has_sow(eqn) and any(map(sows, jax_core.subjaxprs(eqn)))


def sows(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr holds a sow at any depth, hidden or not."""
    if jax_core.has_sow(jaxpr):
        return True
    if jaxpr not in _hiding:
        _hiding[jaxpr] = any(map(hides_sow, raw(jaxpr)[0].eqns))
    return _hiding[jaxpr]
