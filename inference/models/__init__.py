"""Models, as drivers and results see them, beyond their densities.

Read `value_target` first (a model as a log density of values), then `guide_function` (a guide
that is a model), `model_parameters`, `carried_state` and `minibatch` (numbers that change during a
fit). Results use `same_model` (whether draws are of a model and its data) and `model_groups`
(groups of ArviZ's container); `check_keywords` has words for wrong arguments.
"""
