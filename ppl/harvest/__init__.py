"""harvest: values named inside a function become its outputs (reaped) or inputs (planted).

`sow(value, tag=..., name=...)` names a value inside a function, and returns it. `reap` makes a
function that returns the sown values; `plant` makes one that takes values to put in their place;
`harvest` does both. `effect` makes an operation whose meaning is left open, and `handle` gives it
one: a handler gets the rest of the program as a function, its continuation.

Reading order:

1. `_sow`: the sow primitive, an identity with a tag and a name, and its rules for JAX.
2. `_survey`: all sows of a jaxpr by path, before anything is evaluated.
3. `_liveness`: the equations that are still needed once plants have replaced sown values.
4. `_interpreter`: evaluation of a jaxpr, with an `Action` at each sow; `_plants`: values still to
   be planted, in program order.
5. `_construct`, `_wiring`, `rules/`: one record for each primitive that holds programs, as `cond`
   and `scan` do; every analysis reads these records.
6. `_program`: a function traced, surveyed and interpreted.
7. `_harvest`: the API; `_names`: nested dicts of sown values; `_vjp`, `_tangents` and `_pin`:
   derivatives.
8. `_loop_marks` and `_vmapped_cond`: what `vmap` would hide of loops and conds.
9. `_effect`, `state_threading`, `_handle`: effects and handlers, by the records of step 5.

`_jax`, `_jax_tables` and `_jaxprs` hold every use of JAX that is undocumented. The other files are
small helpers.
"""

from ppl.harvest import _pin as _pin
from ppl.harvest import _tangents as _tangents
from ppl.harvest._effect import effect as effect
from ppl.harvest._effect import sown as sown
from ppl.harvest._handle import handle as handle
from ppl.harvest._harvest import call_and_reap as call_and_reap
from ppl.harvest._harvest import harvest as harvest
from ppl.harvest._harvest import nest as nest
from ppl.harvest._harvest import plant as plant
from ppl.harvest._harvest import reap as reap
from ppl.harvest._sow import sow as sow
from ppl.harvest._sow import sow_cond as sow_cond
from ppl.harvest._vjp import vjp_and_reap as vjp_and_reap

__all__ = [
    "call_and_reap",
    "effect",
    "handle",
    "harvest",
    "nest",
    "plant",
    "reap",
    "sow",
    "sow_cond",
    "sown",
    "vjp_and_reap",
]
