"""Runs of chains while they run: streamed diagnostics, news, and rules for when a run ends.

Reading order: `batch_means` (moments, R-hat and ESS in fixed memory), `quantile_sketch`,
`streamed_diagnostics` (batch means and sketch together), `until` (the stopping rule), `monitor`
(progress of a run, and its end by the rule).
"""
