"""Parallel tempering: replicas of a chain along a path from a reference to the target.

Reading order: `reference` (the start of the path), `ladder` (the temperatures), `tally` (rates of
swaps, log evidence, round trips), `adaptive_hamiltonian` (a kernel that adapts itself) and
`parallel_tempering`.
"""
