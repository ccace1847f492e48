"""Kullback-Leibler divergences between pairs of families.

Read `kl_divergence` first: the public function and its table. The other files hold the formulas.
"""
