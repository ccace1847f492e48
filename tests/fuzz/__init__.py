"""Random programs, run as JAX and as plain Python over NumPy, and the laws that both obey."""
