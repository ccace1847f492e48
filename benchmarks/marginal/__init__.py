"""Models of `benchmarks/marginalize.py`: with sites to take out, by hand, and in NumPyro."""
