"""Kernels that follow gradients: HMC, NUTS, WALNUTS, MALA and Barker proposals.

Reading order: `leapfrog` (dynamics and energy), `step_size_search` (the first step size), `kernel`
(the protocols), `hmc`, `nuts_trajectory` (growth of a NUTS trajectory), `u_turns` (the criterion
that ends it), `nuts`, `walnuts_trajectory` (leaps with step sizes of their own), `walnuts`, `mala`
(one step), `barker`, `adaptive_hamiltonian` (a kernel that adapts itself inside of another).
"""
