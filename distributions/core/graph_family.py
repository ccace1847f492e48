"""Families over the vertices of a graph, with the parameter `adj_matrix`."""

import functools
from typing import Any

from distributions.common.arrays import as_host_array
from distributions.common.sparse_graph import is_sparse_matrix, read_dense, read_sparse
from distributions.core.family import Family
from distributions.core.row import Parameter
from distributions.numerics.adjacency import align_graph

_FEWEST_KEPT_BY_EDGES = 128  # vertices; a matrix of fewer is a parameter like all others


class GraphFamily(Family):
    """A family whose last parameter is `adj_matrix`; formulas get a `Graph` in its place."""

    def __post_init__(self) -> None:
        """Checks the parameters, and finds the edges of a graph that is known and large."""
        given: Any = vars(self)["adj_matrix"]
        if is_sparse_matrix(given):
            try:
                vars(self)["adj_matrix"] = read_sparse(given)
            except ValueError as error:
                expected = self._parameters[-1].constraint.description
                message = f"{type(self).__name__}: adj_matrix must be {expected}; got {error}"
                raise ValueError(message) from None
        super().__post_init__()
        host = as_host_array(vars(self)["adj_matrix"])
        if host is not None and host.ndim == 2 and len(host) >= _FEWEST_KEPT_BY_EDGES:
            edges = read_dense(host)
            if edges is not None:
                vars(self)["adj_matrix"] = edges

    def _array(self, p: Parameter, value: Any, dtype: Any, batch_ndims: int) -> Any:
        align_matrix = functools.partial(super()._array, p, value, dtype, batch_ndims)
        if p.name != "adj_matrix":
            return align_matrix()
        return align_graph(value, align_matrix, dtype, batch_ndims)
