"""Base of kernels that read some rows of data at a time."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.argument_checks import check_count
from inference.common.layout import Layout
from inference.common.log_densities import (
    check_log_density,
    require_log_density,
    wrap_log_density,
)
from inference.common.matrices import Matrix, check_mass_matrix, check_positive, factorize


@dataclasses.dataclass(frozen=True)
class SubsamplingKernel:
    """Kernel whose steps read a batch of rows of the data.

    Attributes:
        log_prior: Function of a position that returns a scalar; `None` if a driver is to supply it,
            with the next two. A position is a pytree of floating-point arrays.
        log_likelihood: Function of a position and some rows of `data` that returns a scalar, the
            sum over these rows.
        data: Pytree of arrays with a first axis of rows, of one length.
        batch_size: Rows of a batch, drawn with replacement.
        covariance: Rough covariance of positions, ``(size, size)``, or variances ``(size,)``, in
            the order of ``jax.tree.leaves`` of a position. `None` for ones, under
            :func:`inference.mcmc` for the inverse curvature at the mode.
        center: Position about which the likelihood of a row is approximated; under
            :func:`inference.mcmc` the mode.
    """

    _without_center: ClassVar[str] = ""

    log_prior: Callable[[Any], jax.Array] | None = None
    log_likelihood: Callable[[Any, Any], jax.Array] | None = None
    data: Any = None
    batch_size: int = dataclasses.field(default=100, kw_only=True, metadata={"static": True})
    covariance: Matrix | None = dataclasses.field(default=None, kw_only=True)
    center: Any = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        wrap_log_density(self, "log_prior")
        wrap_log_density(self, "log_likelihood")
        size = check_count(f"batch_size of {type(self).__name__}", self.batch_size, least=2)
        object.__setattr__(self, "batch_size", size)

    @property
    def rows_at_once(self) -> int:
        """Number of rows that an evaluation of the likelihood of a batch has."""
        raise NotImplementedError

    @property
    def num_rows(self) -> int:
        """Number of rows of the data.

        Raises:
            ValueError: if there are no rows, or arrays with different numbers of rows.
        """
        lengths = {np.shape(x)[:1] for x in jax.tree.leaves(self.data)}
        if len(lengths) != 1 or () in lengths:
            name = type(self).__name__
            raise ValueError(
                f"data of {name} must be arrays with one first axis of rows, got the shapes "
                f"{[np.shape(x) for x in jax.tree.leaves(self.data)]}"
            )
        ((number,),) = lengths
        return number

    def check_fields(self, layout: Layout) -> None:
        """Checks the densities, the data and the covariance for positions of `layout`.

        Raises:
            TypeError: if the covariance does not hold real numbers.
            ValueError: if a density or data are missing, there are fewer rows than those of a
                batch, or the covariance does not fit.
        """
        self.prior_of(layout)
        self.likelihood_of(layout)
        self.factor_of(layout)
        if self.batch_size > self.num_rows:
            raise ValueError(
                f"batch_size of {type(self).__name__} is {self.batch_size}, and the data have "
                f"{self.num_rows} rows"
            )

    def prior_of(self, layout: Layout) -> Callable[[jax.Array], jax.Array]:
        """Log prior as a function of a flat vector."""
        function = require_log_density(self, "log_prior")

        def density(vector: jax.Array) -> jax.Array:
            value = check_log_density(function(layout.unravel(vector)), "log_prior")
            return value.astype(layout.dtype)

        return density

    def likelihood_of(self, layout: Layout) -> Callable[[jax.Array, Any], jax.Array]:
        """Log likelihood as a function of a flat vector and of rows."""
        function: Any = require_log_density(self, "log_likelihood")

        def density(vector: jax.Array, rows: Any) -> jax.Array:
            value = check_log_density(function(layout.unravel(vector), rows), "log_likelihood")
            return value.astype(layout.dtype)

        return density

    def flat_center(self, layout: Layout) -> jax.Array:
        """The center as a flat vector.

        Raises:
            ValueError: if there is none, or it is not like a position.
        """
        if self.center is None:
            raise ValueError(
                f"{type(self).__name__} has no center: give a position near the mode, "
                f"center=position{self._without_center}"
            )
        center = jax.tree.map(jnp.asarray, self.center)
        if Layout.of(center) != layout:
            raise ValueError(
                f"center of {type(self).__name__} must be a position like that of the chain, "
                f"{layout}, got {Layout.of(center)}"
            )
        return layout.ravel(center)

    def factor_of(self, layout: Layout) -> Matrix:
        """Factor of the covariance, once it is found valid.

        Raises:
            TypeError: if the covariance does not hold real numbers.
            ValueError: if it is of another size, or is known not to be positive definite.
        """
        if self.covariance is None:
            return jnp.ones(layout.size, layout.dtype)
        matrix = check_mass_matrix(self.covariance, layout, "covariance")
        factor = factorize(matrix)
        check_positive(factor, matrix, "covariance")
        return factor
