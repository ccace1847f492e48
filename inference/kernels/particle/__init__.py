"""Particle MCMC: kernels that move paths of state spaces by particles, and their parameters."""
