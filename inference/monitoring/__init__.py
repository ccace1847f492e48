"""Runs of chains while they run: streamed diagnostics, news, and rules for when a run ends.

Reading order: `batch_means` (moments, R-hat and ESS in fixed memory), `quantile_sketch`,
`streamed_diagnostics` (both), `until` (the rule), `monitor` (what a run asks and tells).
"""
