"""Variational inference: the optimization of guides (SVI) and of particles (SVGD).

Read `elbo` first (the protocol of objectives and the ELBO), then `multi_sample_bounds` and
`score_function`, the other objectives. `svi_step` holds the compiled steps, with `optax_step`;
`svi_loop` runs them to the end. `svgd_step` is Stein variational gradient descent.
"""
