"""initialization."""
