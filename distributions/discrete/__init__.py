"""Families of integers and of other discrete values, one a file.

Read `poisson.py` first. `ordinal_functions.py` holds helpers of the families of ordered levels; log
masses, their sums and samplers stand in `distributions/numerics`.
"""
