"""multivariate."""
