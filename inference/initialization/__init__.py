"""Initialization: starting positions of chains and optimisations, and messages if there are none.

Read `initial_positions` first, then `short_lbfgs`, which it calls, and `not_finite` for messages.
"""
