"""Data of a model, split into rows: the log likelihood of some rows, the prior without any."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import describe_all
from ppl.transforms.unconstrain import Unconstrained

_ROWS_AT_ONCE = 64  # in the check, where parts have fewer
_REMEDY = "Use NUTS(), which reads all data in each step, or svi(batch=...)"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class RowSplit:
    """Target without the arrays whose first axis is rows.

    Attributes:
        others: Leaves of the target that all batches have whole; `None` in place of rows.
        first: Some rows, at which the prior is evaluated; it does not depend on them.
        structure: Structure of the target.
        num_rows: Number of rows of all data.
        is_scaled: Whether the model itself scales the log likelihood of some rows to that of all.
    """

    others: list[Any]
    first: list[Any]
    structure: Any = dataclasses.field(metadata={"static": True})
    num_rows: int = dataclasses.field(metadata={"static": True})
    is_scaled: bool = dataclasses.field(default=False, metadata={"static": True})

    def target(self, rows: Sequence[Any]) -> Unconstrained:
        """Target of some rows."""
        rest = iter(rows)
        leaves = [next(rest) if x is None else x for x in self.others]
        return jax.tree.unflatten(self.structure, leaves)

    def log_prior(self, position: Any) -> jax.Array:
        """Log prior density of a position on unconstrained space."""
        return log_parts(self.target(self.first), position)[0]

    def log_likelihood(self, position: Any, rows: Sequence[Any]) -> jax.Array:
        """Log likelihood of some rows, the sum over them."""
        value = log_parts(self.target(rows), position)[1]
        return value * (len(rows[0]) / self.num_rows) if self.is_scaled else value


def log_parts(target: Unconstrained, position: Any) -> tuple[jax.Array, jax.Array]:
    """Terms of the log density of a position: of latent sites, and of data and factors."""
    latent = dict(target.shapes)
    zero = jnp.zeros((), Layout.of(target.position_shapes).dtype)
    prior = zero
    likelihood = zero
    for path, term in target.log_densities(position).items():
        if path in latent:
            prior = prior + term
        else:
            likelihood = likelihood + term
    return prior, likelihood


def split_rows(
    target: Unconstrained, size: int, batch_size: int, who: str, remedy: str = _REMEDY
) -> tuple[RowSplit, list[Any]]:
    """Target without its rows, and the rows: the arrays with the longest first axis.

    Args:
        target: Target of a model and all its data.
        size: Number of rows at which a kernel evaluates the model at once.
        batch_size: Number of rows of a batch.
        who: Name of the kernel, for messages.
        remedy: What reads all data at once, in words for messages.

    Raises:
        ValueError: if there are no arrays, a site is observed in part, or a model of fewer rows has
            other latent sites or cannot be evaluated.
    """
    if target.missing:
        raise ValueError(
            f"{who}: {describe_all(list(target.missing))} is observed in part, and its missing "
            f"entries are latent values of their rows, which each batch would need. {remedy}."
        )
    leaves, structure = jax.tree.flatten(target)
    lengths = [np.shape(x)[0] if np.ndim(x) else 0 for x in leaves]
    num_rows = max(lengths, default=0)
    if num_rows < 2:
        raise ValueError(
            f"{who} draws rows of the data, and the model has none: no array among its arguments, "
            "or among the values that it is conditioned on, has two rows or more. Data that a "
            f"model reads from a closure cannot be split; make them arguments. {remedy}."
        )
    if batch_size > num_rows:
        raise ValueError(
            f"{who}: batch_size is {batch_size}, and the data have {num_rows} rows; with so few "
            "rows, use NUTS()"
        )
    is_row = [length == num_rows for length in lengths]
    rows = [jnp.asarray(x) for x, flag in zip(leaves, is_row, strict=True) if flag]
    others = [None if flag else x for x, flag in zip(leaves, is_row, strict=True)]
    split = RowSplit(others, [x[:size] for x in rows], structure, num_rows)
    _check_latent_sites(split, target, who, remedy)
    return split, rows


def _check_latent_sites(split: RowSplit, target: Unconstrained, who: str, remedy: str) -> None:
    """Checks that a model of some rows has the latent sites of the model of all.

    Raises:
        ValueError: if it does not.
    """
    found = []
    number = len(split.first[0])

    def look(split: RowSplit) -> None:
        part = split.target(split.first)
        args, kwargs = part.arguments.join(part.data)
        found.append(ppl.unconstrain(part.model, *args, **kwargs).position_shapes)

    try:
        jax.eval_shape(look, split)
    except Exception as error:
        error.add_note(
            f"{who} evaluated the model on {number} of {split.num_rows} rows: of each array among "
            "the arguments, and among the values that the model is conditioned on, whose first "
            "axis has this length. Data that a model reads from a closure are not split; make them "
            "arguments. Sizes of plates have to follow from the arrays."
        )
        raise
    if Layout.of(found[0]) != Layout.of(target.position_shapes):
        of_batch, of_all = (
            ", ".join(f"{name} {x.shape}" for name, x in named_leaves(shapes))
            for shapes in (found[0], target.position_shapes)
        )
        raise ValueError(
            f"{who}: with {number} of {split.num_rows} rows the latent sites are {of_batch}, and "
            f"with all {of_all}: rows have latent values of their own, which a batch would leave "
            f"where they are. Sum them out (ppl.marginalize). {remedy}."
        )


def check_sum(
    split: RowSplit, rows: list[Any], position: jax.Array, layout: Layout, order: jax.Array
) -> tuple[Any, Any, Any, Any]:
    """Log likelihood of all rows and of its parts, with gradients; the same for the prior.

    Returns:
        The likelihood of all rows, the sum of the parts, the sum of their sizes (a value and a
        gradient each), and the largest change of the prior and its gradient with the rows.
    """
    size = len(split.first[0])
    group = size * max(1, _ROWS_AT_ONCE // size)
    num_groups = split.num_rows // group
    num_whole = split.num_rows // size * size  # rows in parts of the whole size
    rows = [x[order] for x in rows]

    def likelihood(rows: list[Any]) -> Any:
        return jax.value_and_grad(lambda x: split.log_likelihood(layout.unravel(x), rows))(position)

    def prior(rows: list[Any]) -> Any:
        part = split.target(rows)
        return jax.value_and_grad(lambda x: log_parts(part, layout.unravel(x))[0])(position)

    def sums(rows: list[Any], size: int = size) -> Any:
        """Sums of the likelihoods of parts of `size` rows, and of their sizes."""
        found = jax.vmap(likelihood)([x.reshape(-1, size, *x.shape[1:]) for x in rows])
        return jax.tree.map(lambda x: jnp.stack([jnp.sum(x, 0), jnp.sum(jnp.abs(x), 0)]), found)

    groups = [x[: num_groups * group].reshape(num_groups, group, *x.shape[1:]) for x in rows]
    found = jax.tree.map(lambda x: jnp.sum(x, 0), jax.lax.map(sums, groups))
    if num_groups * group < num_whole:
        more = sums([x[num_groups * group : num_whole] for x in rows])
        found = jax.tree.map(jnp.add, found, more)
    if num_whole < split.num_rows:
        more = sums([x[num_whole:] for x in rows], split.num_rows - num_whole)
        found = jax.tree.map(jnp.add, found, more)
    total, extent = (jax.tree.map(lambda x, i=i: x[i], found) for i in (0, 1))
    changes = [
        jax.tree.map(lambda x, y: jnp.abs(x - y) / (1 + jnp.abs(y)), prior(part), prior(rows))
        for part in ([x[:size] for x in rows], [x[-size:] for x in rows])
    ]
    return likelihood(rows), total, extent, changes
