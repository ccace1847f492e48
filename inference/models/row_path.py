"""Path through the rows of data: the likelihoods of batches of rows are its terms."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from inference.models.row_split import RowSplit
from ppl.harvest.plants import PathDict
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class RowPath:
    """Path from the prior to the posterior on which data come in batches of rows.

    The first term is the log likelihood of the first rows together, if there are any.

    Attributes:
        data: The data without their rows.
        rows: The rows.
        num_first: Number of the first rows.
        batch_size: Number of rows of each further batch; the last one may have fewer.
    """

    data: RowSplit
    rows: list[Any]
    num_first: int = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    @property
    def num_terms(self) -> int:
        """Number of batches, with that of the first rows."""
        rest = self.data.num_rows - self.num_first
        return (self.num_first > 0) + -(-rest // self.batch_size)

    def split(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log density of the prior, and log likelihoods of batches of rows, ``(term,)``."""

        def likelihood(rows: list[Any]) -> jax.Array:
            return self.data.log_likelihood(position, rows)

        return self.data.log_prior(position), self._over_batches(likelihood)

    def log_densities(self, position: Any) -> PathDict:
        """Terms of the log density of each batch by path of the site, ``(term,)`` each."""

        def densities(rows: list[Any]) -> PathDict:
            return PathDict(self.data.target(rows).log_densities(position))

        return self._over_batches(densities)

    def _over_batches(self, score: Callable[[list[Any]], Any]) -> Any:
        """Scores of the first rows and of each further batch, with the terms in front."""
        size = self.batch_size
        start = self.num_first
        number = (self.data.num_rows - start) // size
        stop = start + number * size
        found = []
        if start:
            found.append(_alone(score([x[:start] for x in self.rows])))
        if number:
            batches = [x[start:stop].reshape(number, size, *x.shape[1:]) for x in self.rows]
            found.append(jax.vmap(score)(batches))
        if stop < self.data.num_rows:
            found.append(_alone(score([x[stop:] for x in self.rows])))
        return jax.tree.map(lambda *x: jnp.concatenate(x), *found)


def _alone(score: Any) -> Any:
    """Score of one batch with an axis in front."""
    return jax.tree.map(lambda x: x[None], score)
