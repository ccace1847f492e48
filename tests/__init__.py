"""The tests: one folder for each package, and `models` for all of them together."""
