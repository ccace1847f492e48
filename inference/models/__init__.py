"""Models: what drivers and results ask of a model, beside its density.

Read `discrete_target` first (a model as a log density of values), then `guide_function` (a guide
that is a model), `model_parameters` and `minibatch` (what changes during a fit), and then what
results ask: `same_model` (whether draws are of a model and its data), `model_groups` (what a model
adds to ArviZ's container) and `check_keywords` (words for wrong arguments).
"""
