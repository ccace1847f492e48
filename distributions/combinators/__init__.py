"""combinators."""
