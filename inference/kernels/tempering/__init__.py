"""Parallel tempering: replicas of a chain along a path from a reference to the target.

Reading order: `reference` (the start of the path), `ladder` (the temperatures), `tally` (rates of
swaps, log evidence, round trips) and `parallel_tempering`.
"""
