"""discrete."""
