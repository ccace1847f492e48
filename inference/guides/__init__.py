"""Guides: families of distributions that variational inference fits to a posterior.

Read `guide` first (the protocol), then `normal` (mean field, full rank, low rank, point mass),
`structured`, `by_site` with `site_groups`, and `flows` with `masked_mlp` and
`rational_quadratic_spline`. The distributions in `low_rank_normal` are computed from curvature, not
fitted; `checks` holds the checks of a user's guide.
"""
