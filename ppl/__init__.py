"""Probabilistic programming language: models are functions of a random key, to be transformed.

The folders, in reading order:

1. `harvest`: function transformations that reap and plant the values that a function has sown.
2. `primitives`: the sites of a model, such as `sample` and `factor`.
3. `common`: the protocol of distributions, missing data and other means of several folders.
4. `analysis`: dependence graphs and the audits of a model, read off its program.
5. `core`: a model traced and run under an action at its sites.
6. `transforms`: the transformations of models, such as `condition` and `log_density`.
7. `marginal`: sites summed or integrated out.
8. `doors`: models of other libraries, made models of this one.
"""

import importlib.metadata as _metadata
import typing as _typing

from ppl.common import import_names as _import_names
from ppl.common.columns import Columns
from ppl.common.missing_data import ignore, impute
from ppl.common.near_names import explain_missing as _explain_missing
from ppl.common.peer_names import PEER_NAMES as _OTHER_NAMES
from ppl.doors.from_numpyro import from_numpyro
from ppl.doors.from_pymc import from_pymc
from ppl.doors.from_stan import from_stan
from ppl.harvest import call_and_reap, nest, plant, reap, sow, sow_cond
from ppl.marginal.auto_marginal import MarginalPlan, auto_marginal
from ppl.marginal.conditional import Conditional, conditional
from ppl.marginal.marginal_strategies import Enumerate, Gaussian, Laplace
from ppl.marginal.marginalize import marginalize
from ppl.marginal.recover import Recover, recover
from ppl.primitives.deterministic import deterministic
from ppl.primitives.factor import factor
from ppl.primitives.module import module
from ppl.primitives.param import param
from ppl.primitives.sample import sample
from ppl.primitives.state import state, update_state
from ppl.transforms.block import block
from ppl.transforms.condition import condition
from ppl.transforms.coordinates import Coordinates, SiteCoordinates, coordinates
from ppl.transforms.density import log_density, log_probs
from ppl.transforms.forward_gradient import forward_gradient
from ppl.transforms.from_density import from_density
from ppl.transforms.graph import Graph, graph
from ppl.transforms.intervene import intervene
from ppl.transforms.label import label
from ppl.transforms.predict import Predict, predict
from ppl.transforms.reparam import reparam
from ppl.transforms.reparam_strategies import (
    Circular,
    LearnedCentering,
    NonCentered,
    PartiallyCentered,
    Pushforward,
    Transformed,
    auto_reparam,
)
from ppl.transforms.scale import scale
from ppl.transforms.simulate import simulate
from ppl.transforms.trace import SiteTrace, Trace, trace
from ppl.transforms.unconstrain import Unconstrained, unconstrain
from ppl.transforms.with_params import with_params

__all__ = [
    "Circular",
    "Columns",
    "Conditional",
    "Coordinates",
    "Enumerate",
    "Gaussian",
    "Graph",
    "Laplace",
    "LearnedCentering",
    "MarginalPlan",
    "NonCentered",
    "PartiallyCentered",
    "Predict",
    "Pushforward",
    "Recover",
    "SiteCoordinates",
    "SiteTrace",
    "Trace",
    "Transformed",
    "Unconstrained",
    "auto_marginal",
    "auto_reparam",
    "block",
    "call_and_reap",
    "condition",
    "conditional",
    "coordinates",
    "deterministic",
    "factor",
    "forward_gradient",
    "from_density",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "graph",
    "ignore",
    "impute",
    "intervene",
    "label",
    "log_density",
    "log_probs",
    "marginalize",
    "module",
    "nest",
    "param",
    "plant",
    "predict",
    "reap",
    "recover",
    "reparam",
    "sample",
    "scale",
    "simulate",
    "sow",
    "sow_cond",
    "state",
    "trace",
    "unconstrain",
    "update_state",
    "with_params",
]


__version__: str

_import_names.check_import_names()


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # or a type checker would take any name for an attribute

    def __getattr__(name: str) -> str:
        if name == "__version__":  # looked up when asked for: importing stays cheap
            return _metadata.version("harvest-ppl")
        raise AttributeError(_explain_missing("ppl", name, __all__, _OTHER_NAMES))
