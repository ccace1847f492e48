"""Primitives of models: the functions that a model calls to make a site.

Reading order: `site_kinds`, `sample` with `draw_primitive`, `deterministic`, `factor`, `param`.
"""
