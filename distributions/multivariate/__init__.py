"""Families of vectors and matrices, one a file: normal, on simplex, sphere or graph, over time.

Read `dirichlet.py` first. Helpers stand in `distributions/common/linear_algebra.py` and in
`distributions/numerics`.
"""
