"""The language: models as plain functions of a random key, and their transformations."""

from ppl._condition import condition as condition
from ppl._density import log_density as log_density
from ppl._density import log_probs as log_probs
from ppl._sample import sample as sample
from ppl._simulate import SiteTrace as SiteTrace
from ppl._simulate import Trace as Trace
from ppl._simulate import simulate as simulate
from ppl._simulate import trace as trace
from ppl._unconstrain import Unconstrained as Unconstrained
from ppl._unconstrain import unconstrain as unconstrain
from ppl.harvest import call_and_reap as call_and_reap
from ppl.harvest import nest as nest
from ppl.harvest import plant as plant
from ppl.harvest import reap as reap
from ppl.harvest import sow as sow
from ppl.harvest import sow_cond as sow_cond

__all__ = [
    "SiteTrace",
    "Trace",
    "Unconstrained",
    "call_and_reap",
    "condition",
    "log_density",
    "log_probs",
    "nest",
    "plant",
    "reap",
    "sample",
    "simulate",
    "sow",
    "sow_cond",
    "trace",
    "unconstrain",
]
