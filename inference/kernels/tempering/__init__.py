"""Parallel tempering: replicas of a chain along a path from a reference to the target.

Reading order: `reference` (the start of the path), `ladder` (the temperatures), `tally` (rates of
swaps, log evidence, round trips), `inner_kernel` (checks of the kernel that moves replicas) and
`parallel_tempering`.
"""
