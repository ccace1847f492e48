"""variational."""
