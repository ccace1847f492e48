"""Analyses of a traced model: its dependence graph, and audits for models without a density.

1. `dependence`: the sites that each site depends on, and `plates` around them. `graphviz` writes
   the graph in DOT. `graph_svg` draws it: `graph_layers`, `graph_layout`, `graph_curves`.
2. `terms`, `element_rules` and `symbolic_evaluation`: the keys of a program as symbolic terms.
3. Audits: `key_reuse`, `ignored_dependence`, `misplaced_sites`.
4. `missing_entries`: which entries are missing, of data that `impute` observes in part.
"""
