"""Shared parts of inference: the target density, flat positions, matrices, random numbers, files.

Reading order: `target` (the log density that algorithms see), `layout` (positions as flat vectors),
`matrices` (inverse mass matrices), `threefry` (random numbers), `lockstep` (control flow of chains
mapped over), `serialization` (results on disk), `leaf_names` and `argument_checks`.
"""
