"""Hamiltonian kernels: NUTS and HMC with trajectories of a fixed length.

Reading order: `leapfrog` (dynamics and energy), `kernel` (the protocols), `hmc`, `nuts_trajectory`
(growth of a NUTS trajectory), `nuts`.
"""
