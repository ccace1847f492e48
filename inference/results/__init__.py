"""Results: draws, diagnostics and summaries that the drivers return.

Read `result` and `summary` first, then `diagnostics` and `psis` (the checks behind a summary), and
then the results of the drivers: `mcmc_result`, `guide_result` and its kin `svi_result`,
`laplace_result` and `pathfinder_result`, `importance_result`, `svgd_result`, `optimize_result`.
"""
