"""Sequential Monte Carlo samplers: particles along a path from a reference to a target."""
