"""Families of real numbers, one a file: on the line, a half line, an interval, the circle.

Read `normal.py` first, as the plainest example. `unit_support.py` holds helpers of the families on
the unit interval; all special functions stand in `distributions/numerics`.
"""
