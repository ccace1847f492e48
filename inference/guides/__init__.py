"""guides."""
