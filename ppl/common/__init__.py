"""Modules that several folders of `ppl` share.

Reading order: `distribution_protocol` (with `tfp_precision`), `missing_data`, `arguments`, `lift`,
`text_table`, `near_names` (words for a name that is not there).
"""
