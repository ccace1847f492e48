"""Comparison of NUTS implementations, the common part of `nuts.py` and `gpu.py`.

Read `problems` (the posteriors), `tools` (the implementations), `worker` (one tool on one problem,
in a process of its own), `run` (all workers in turn), and `report` and `picture` (the results).
"""
