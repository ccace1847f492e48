"""Search for modes, and normal approximations at modes and along the way to them.

Read `lbfgs` and `mode_search` for optimization, then `hessian_normal` and `lanczos_normal` for
Laplace's approximation, then `inverse_hessian` and `pathfinder_paths` for Pathfinder.
"""
