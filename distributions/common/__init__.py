"""Helpers that know no distribution.

`arrays` (dtypes, ranks, host and traced values) and `pytree` (dataclasses as pytrees) serve all
files; `linear_algebra`, `unit_vectors` and `keyword_hints` serve some. `peer_names` and
`method_hints` are tables of the names in other libraries, which `near_names` reads.
"""
