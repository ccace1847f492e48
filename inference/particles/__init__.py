"""Particles: filters and smoothers of state spaces, conditional SMC, resampling."""
