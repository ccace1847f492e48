"""Drivers: the public functions that run an algorithm on a model.

Read `mcmc` and `run_chains` first, then `svi`, `optimize`, `laplace`, `pathfinder`, `importance`
and `svgd`. The other modules serve several of them: argument checks, starts from a former result,
checkpoints.
"""
