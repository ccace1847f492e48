"""Evidence of models from draws: bridge sampling."""
