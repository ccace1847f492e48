"""harvest: a function transformation that reaps and plants the values that a function has sown."""

from ppl.harvest._harvest import call_and_reap as call_and_reap
from ppl.harvest._harvest import harvest as harvest
from ppl.harvest._harvest import nest as nest
from ppl.harvest._harvest import plant as plant
from ppl.harvest._harvest import reap as reap
from ppl.harvest._sow import sow as sow
from ppl.harvest._sow import sow_cond as sow_cond

__all__ = ["call_and_reap", "harvest", "nest", "plant", "reap", "sow", "sow_cond"]
