"""The language: models as plain functions of a random key, and their transformations."""

from ppl._block import block as block
from ppl._condition import condition as condition
from ppl._density import log_density as log_density
from ppl._density import log_probs as log_probs
from ppl._deterministic import deterministic as deterministic
from ppl._factor import factor as factor
from ppl._from_density import from_density as from_density
from ppl._graph import Graph as Graph
from ppl._graph import graph as graph
from ppl._intervene import intervene as intervene
from ppl._missing import ignore as ignore
from ppl._missing import impute as impute
from ppl._param import param as param
from ppl._predict import Predict as Predict
from ppl._predict import predict as predict
from ppl._reparam import reparam as reparam
from ppl._sample import sample as sample
from ppl._scale import scale as scale
from ppl._simulate import simulate as simulate
from ppl._strategies import Circular as Circular
from ppl._strategies import NonCentred as NonCentred
from ppl._strategies import PartiallyCentred as PartiallyCentred
from ppl._strategies import Pushforward as Pushforward
from ppl._strategies import Transformed as Transformed
from ppl._strategies import auto_reparam as auto_reparam
from ppl._trace import SiteTrace as SiteTrace
from ppl._trace import Trace as Trace
from ppl._trace import trace as trace
from ppl._unconstrain import Unconstrained as Unconstrained
from ppl._unconstrain import unconstrain as unconstrain
from ppl.harvest import call_and_reap as call_and_reap
from ppl.harvest import nest as nest
from ppl.harvest import plant as plant
from ppl.harvest import reap as reap
from ppl.harvest import sow as sow
from ppl.harvest import sow_cond as sow_cond

__all__ = [
    "Circular",
    "Graph",
    "NonCentred",
    "PartiallyCentred",
    "Predict",
    "Pushforward",
    "SiteTrace",
    "Trace",
    "Transformed",
    "Unconstrained",
    "auto_reparam",
    "block",
    "call_and_reap",
    "condition",
    "deterministic",
    "factor",
    "from_density",
    "graph",
    "ignore",
    "impute",
    "intervene",
    "log_density",
    "log_probs",
    "nest",
    "param",
    "plant",
    "predict",
    "reap",
    "reparam",
    "sample",
    "scale",
    "simulate",
    "sow",
    "sow_cond",
    "trace",
    "unconstrain",
]
