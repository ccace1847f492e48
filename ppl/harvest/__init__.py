"""harvest: a function transformation that reaps and plants the values that a function has sown.

And handle: effects whose handlers get the rest of the program as a function.
"""

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
