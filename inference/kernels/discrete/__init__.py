"""Kernels of discrete values that are too many to sum: integers and booleans.

Reading order: `integers` (positions as flat vectors, bounds), `informed` (changes of the log
density to neighboring values, by its gradient or exactly), `gibbs_with_gradients`,
`discrete_langevin`; `counts` (integers without an upper bound), `count_metropolis`, `count_slice`.
"""
