"""Transformations of models.

Each takes a model and gives another model, a function of values, or an object.

1. Models from models: `condition`, `intervene`, `block`, `scale`, `reparam` (with
   `reparam_strategies` and `reparam_bases`); `from_density` makes a model of a log density.
2. Runs of a model: `simulate`, `trace`, `graph`, `predict`.
3. Densities: `density`, `unconstrain`; `prior_weights` for importance sampling from the prior.
"""
