"""Simulation-based calibration: ranks of true values, bands of their distribution, and reports."""
