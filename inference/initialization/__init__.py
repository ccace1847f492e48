"""Initialization: starting positions of chains and optimizations, and messages if there are none.

Read `initial_positions` first, then `short_lbfgs`, which it calls, `start_search` (finite
starts, for every driver), and `not_finite` for messages.
"""
