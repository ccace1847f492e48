"""A model traced to a program and run under an action at its sites.

Reading order: `model_pytree`, `model_run`, `site_cache`, `joint_scores`, `site_rewriting`,
`inside_sums`, `captured_constants`. `scalar_sizes` and `keyed_density` explain errors.
"""
