"""Catalogue of forty standard models, each with data and with its density written by hand.

`MODELS` holds them by name. Tests compare our densities with those by hand, and benchmarks compare
their times. The classics of BUGS, with their published posteriors, are in `bugs`, and models with
discrete sites, for Gibbs sampling, in `discrete`.

    from examples.catalogue import MODELS
    entry = MODELS["radon"]
    args, observed = entry.data()
    posterior = ppl.condition(entry.model, observed)
"""

from examples.catalogue import (
    dynamics,
    functions,
    hidden_states,
    hierarchical,
    incomplete,
    latent_traits,
    mixtures,
    regression,
    time_series,
)
from examples.catalogue.entry import Entry as Entry
from examples.catalogue.entry import join as join

_AREAS = (
    regression,
    hierarchical,
    mixtures,
    time_series,
    hidden_states,
    functions,
    latent_traits,
    dynamics,
    incomplete,
)
MODELS = {entry.name: entry for area in _AREAS for entry in area.ENTRIES}
