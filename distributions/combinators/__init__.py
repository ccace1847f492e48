"""Distributions made of other distributions, of a constant, a constraint or a log density.

Read `wrapper`, the base of most, then any one of them. Helpers are `interval_mass` (of truncated,
censored and rounded distributions), `support_union` (of mixtures), `gated` (of `zero_inflated` and
`hurdle`) and `tfp_precision` (of `tfp`, the adapters of TensorFlow Probability). `validate` checks
traced parameters.
"""
