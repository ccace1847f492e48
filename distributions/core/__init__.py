"""The mechanism of all distributions: the base class, the table of families, their checks.

Read `distribution`, `row` and `family` first, then `parameter_checks`. The other files serve these:
`distribution_functions` (cdf and survival), `quantile`, `derived_formulas` and `eager_jit`.
"""
