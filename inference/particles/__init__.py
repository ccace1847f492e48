"""Particles: sequential Monte Carlo, filters and smoothers of state spaces, resampling."""
