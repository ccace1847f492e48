"""Results: draws, diagnostics and summaries that the drivers return.

Read `result` and `summary` first (`summary_columns` is the table of its columns, which
`summary_data`, `summary_table` and `summary_frame` read), then `diagnostics` and `psis` (the checks
behind a summary), and then the results of the drivers: `mcmc_result`, `guide_result` and its kin
`svi_result`, `laplace_result` and `pathfinder_result`, `importance_result`, `svgd_result`,
`optimize_result`.
"""
