"""Warm-up of Hamiltonian kernels: step size by dual averaging, mass matrix by Fisher divergence.

Reading order: `adaptation` (the schedule, the state and the diagonal), `dual_averaging`,
`target_rate` (the target of dual averaging), `fisher_mass_matrix` (dense and low-rank matrices),
`cross_chain_pool` (one matrix for many chains), `lost_chains` (chains far from all others),
`warm_up_log` (what warm-up did), `welford` (running variances), `centering_weights` (coordinates
between centered and non-centered).
"""
