"""harvest: values named inside a function become its outputs (reaped) or inputs (planted).

`sow(value, tag=..., name=...)` names a value inside a function, and returns it. `reap` makes a
function that returns the sown values; `plant` makes one that takes values to put in their place;
`harvest` does both. `effect` makes an operation whose meaning is left open, and `handle` gives it
one: a handler gets the rest of the program as a function, its continuation.

Reading order:

1. `sowing`: the sow primitive, an identity with a tag and a name, and its rules for JAX.
2. `survey`: all sows of a jaxpr by path, before anything is evaluated.
3. `liveness`: the equations that are still needed once plants have replaced sown values.
4. `interpreter`: evaluation of a jaxpr, with an `Action` at each sow; `plants`: values still to
   be planted, in program order.
5. `construct`, `wirings`, `rules/`: one record for each primitive that holds programs, as `cond`
   and `scan` do; every analysis reads these records.
6. `program`: a function traced, surveyed and interpreted.
7. `harvesting`: the API; `names`: nested dicts of sown values; `vjp`, `tangent_leaves` and `pins`:
   derivatives.
8. `loop_marks` and `vmapped_cond`: what `vmap` would hide of loops and conds.
9. `effects`, `state_threading`, `handling`: effects and handlers, by the records of step 5.

`array_primitives` has one record for each primitive without inner programs, for all analyses.
`jax_core`, `jax_tables` and `jaxprs` hold every use of JAX that is undocumented. The other files
are small helpers.
"""

from ppl.harvest import pins as pins
from ppl.harvest import tangent_leaves as tangent_leaves
from ppl.harvest.effects import effect, sown
from ppl.harvest.handling import handle
from ppl.harvest.harvesting import call_and_reap, harvest, nest, plant, reap
from ppl.harvest.sowing import sow, sow_cond
from ppl.harvest.vjp import vjp_and_reap

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
