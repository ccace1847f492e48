"""Sites taken out of a model by sums and integrals, and drawn again.

Reading order:

1. Public: `marginalize`, `recover`, `auto_marginal`, `conditional`; the strategies are in
   `marginal_strategies`, the sites of the new model in `marginal_sites`, known entries of sites
   that are taken out in `known_entries`.
2. Dependences between elements: `score_dependence`, with a rule for each primitive in
   `axis_rules` (`array_axes`, `moved_elements`, `written_elements`), over `abstract_values` and
   `element_dependence`.
3. Sums: `summation`, from `score_tables` (`repeated_elements`) by `sum_structure` and
   `elimination` of `factors`; long chains by `parallel_filter`.
4. Integrals: `degree` and `quadratic_scores` say what is normal, `coupled_elements` and
   `block_layout` in which blocks; `gaussian_integral`, `laplace_integral` with `newton`;
   `filtered_evidence` for scores by step.
5. Full conditionals: `full_conditional`, `conjugacy` with `random_values` and `natural_parameters`.
"""
