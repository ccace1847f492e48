"""Kernels that evaluate a log density without its gradient: random walk, slice sampling.

Reading order: `scale` (the size and shape of moves, learned in warm-up), `random_walk`, `slice`;
`elliptical_slice` for a normal prior.
"""
