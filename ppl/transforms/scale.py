"""scale: the log probabilities of a model times a factor or weights, as for a minibatch."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ppl.common.scaled_distribution import Scaled, ScaledTerm, multiply_score
from ppl.core.inside_sums import commutes
from ppl.core.joint_scores import joint_scores_of, score_by_step
from ppl.core.model_pytree import as_pytree
from ppl.core.site_rewriting import RewriteSites, replace_distribution
from ppl.harvest import jax_core, leaf_values
from ppl.harvest.interpreter import Operands
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester, Program, trace
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, describe, struct_of
from ppl.primitives.site_kinds import FACTOR, RANDOM
from ppl.transforms.density import LogProbs


@dataclasses.dataclass(frozen=True)
class Multiply(RewriteSites):
    """Action of `scale`: multiplies log probabilities and factors.

    Attributes:
        factor: The number by which all are multiplied; weights of entries are planted.
    """

    factor: Any = None
    perturbs = True  # A plant does not replace the value.

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """A random site in `Scaled`, a factor multiplied."""
        factor = self.factor
        by_element: tuple[Any, ...] = ()
        if plant is not None:
            by_element = tuple(plant)
            factor = by_element[0]
            site = score_by_step(site)
        if site.tag == RANDOM and factor is not None:

            def make(d):
                return Scaled(d, factor)

            site, operands = replace_distribution(site, operands, make, by_element)
        elif site.tag == FACTOR and factor is not None:
            site, operands = _multiply_term(site, operands, factor, bool(by_element))
        return site, operands


def _multiply_term(
    site: Site, operands: Operands, factor: Any, is_by_element: bool
) -> tuple[Site, Operands]:
    """A `factor` site with its value multiplied; its extras keep the old value and all factors."""
    (product,) = operands.values
    extras = operands.extras
    axes = site.axes
    if extras:
        term = jax.tree.unflatten(site.extra_tree, range(len(extras)))
    else:
        term = ScaledTerm(0, [])
        extras = (product,)
        axes = [dataclasses.replace(axis, mapped=(True,)) for axis in axes]
    # The new factor is the last leaf.
    term = dataclasses.replace(term, factors=[*term.factors, len(extras)])
    outermost = range(len(axes) - 1, -1, -1)
    axes = tuple(
        dataclasses.replace(axis, mapped=(*axis.mapped, is_by_element and depth < jnp.ndim(factor)))
        for axis, depth in zip(axes, outermost, strict=True)
    )
    site = dataclasses.replace(site, extra_tree=jax.tree.structure(term), axes=axes)
    scaled = multiply_score(product, factor)
    return site, dataclasses.replace(operands, values=(scaled,), extras=(*extras, factor))


def scale(f: Callable[..., Any], factor: Any) -> Callable[..., Any]:
    """Multiply the log probabilities of all sites in a function, and its factors.

    A number multiplies all log probabilities. With a random minibatch of a data set,
    `scale(likelihood, len(data) / len(batch))` gives an unbiased estimate of the log likelihood of
    all data. Weights of rows, as in a survey, are an array: its axes are the first axes of the log
    probabilities of each site, as `log_probs` gives them, whether by `vmap`, by a loop or by the
    distribution. Draws do not change. The weights of nested calls of `scale` multiply.

    If `marginalize` takes latent sites out, before or after `scale`, the factor multiplies the log
    of their sum or integral, never the terms of the sum,

        factor * log sum over z of p(z, y).

    So the sites that are summed together need one factor, and stand in one `scale`. Rows that have
    latent sites of their own may have different weights; rows that share a latent site may not.
    `recover` draws from the conditional distribution of the latent sites given the data without
    factors, p(z | y), and computes `log_weights` from p(z, y) without factors.

    Args:
        f: A model or a part of one, any function that samples.
        factor: A number, or an array of weights; not negative, finite.

    Returns:
        A function of the same arguments: a pytree whose leaf is the factor.

    Raises:
        ValueError: If `factor` is known to be negative or not finite. When called, if a site does
            not have a log probability for each weight, or if the log probabilities belong to groups
            of entries in a marginalized model that are not known to be rows.
        TypeError: If `factor` is neither a real number nor an array of real numbers.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def likelihood(key, x):
        ...     return ppl.sample(key, dist.Normal(x, 1.0), name="y")
        >>> half = ppl.scale(likelihood, 0.5)
        >>> round(ppl.log_density(half)({"y": 0.0}, 0.0).item(), 4)
        -0.4595
        >>> weighted = ppl.scale(likelihood, jnp.array([1.0, 0.0, 2.0]))
        >>> scores = ppl.log_probs(weighted)({"y": jnp.zeros(3)}, jnp.zeros(3))["y"]
        >>> [round(x.item(), 2) for x in scores]
        [-0.92, -0.0, -1.84]
    """
    factor = _check_factor(factor)
    return Partial(_run_scaled, as_pytree(f), factor)


@commutes
def _run_scaled(f: Callable[..., Any], factor: Any, *args: Any, **kwargs: Any) -> Any:
    program = trace(f, args, kwargs)
    if not jnp.ndim(factor):
        return program.unflatten(Harvester(program, Multiply(factor)).run({})[0])
    plants = {path: (x,) for path, x in _spread(program, factor).items()}
    return program.unflatten(Harvester(program, Multiply()).run(plants)[0])


def _spread(program: Program, weights: jax.Array) -> dict[Path, jax.Array]:
    """By scored site, the weights with all axes of the `vmap`s and loops around it.

    Raises:
        ValueError: If a site does not have a log probability for each weight, or is not known to
            have them in the order of its rows.
    """
    scores = Harvester(program, LogProbs())
    random = {p: f.collapse().avals for p, f in scores.sites.items() if f.site.tag == RANDOM}
    inputs = [struct_of(v.aval) for v in program.jaxpr.invars]

    def shapes(inputs: Sequence[Any], planted: Any) -> PathDict:
        bare = dataclasses.replace(program, consts=[], operands=list(inputs))
        return PathDict(Harvester(bare, LogProbs()).run(planted, live_outs=False)[1])

    # Shapes of the log probabilities, from random sites of any value.
    shape_of = {p: x.shape for p, x in jax.eval_shape(shapes, inputs, PathDict(random)).items()}
    num = weights.ndim
    spread = {}
    for path, found in scores.sites.items():
        # Weights of joint scores are refused unless each score is known to belong to one row.
        marginals = joint_scores_of(found.site)
        groups = [m.scores for m in marginals if m.scores is not None and not m.scores.are_apart]
        num_within = num - len(found.site.axes) - found.depth
        if num_within > 0 and not all(each.has_rows(num_within) for each in groups):
            raise ValueError(
                f"scale: the log probabilities of site {describe(path)} are those of groups of "
                "entries, which are not known to be its rows in their order, so that weights would "
                "multiply others. Give one number, or scale before sites are taken out: "
                "ppl.marginalize(ppl.scale(model, weights), sites)."
            )
        for each in (m.scores for m in marginals if m.scores is not None):
            time = each.time_of_site if each.are_apart else each.time
            if time is not None and time < num_within:
                raise ValueError(
                    f"scale: the log probabilities of site {describe(path)} are those of the steps "
                    "of a chain, each given all data before it, so that a weight for each step "
                    "would be no weight of its data. Give one number, or a weight for each of "
                    "several chains."
                )
        if marginals and not any(marginal.is_host for marginal in marginals):
            continue  # It is scored at another site.
        # One weight for each log probability.
        shape = shape_of[path]
        if shape[:num] != weights.shape:
            raise ValueError(
                f"scale: site {describe(path)} has log probabilities of shape {shape}, for weights "
                f"of shape {weights.shape}, whose axes must be the first of these. Scale a "
                "function that draws one value a row, or give one number."
            )
        front = len(found.site.axes) + found.depth if found.depth else 0  # Loops take steps of it.
        rest = shape[num:front]
        spread[path] = jnp.broadcast_to(
            jnp.expand_dims(weights, range(num, num + len(rest))), (*weights.shape, *rest)
        )
    return spread


def _check_factor(factor: Any) -> jax.Array:
    try:
        factor = leaf_values.as_array(factor)
    except TypeError as error:
        raise TypeError(f"scale: expected a number as factor, got {factor!r}.") from error
    if factor.dtype == bool:
        raise TypeError(f"scale: expected a number as factor, got {factor}, a boolean.")
    if jnp.issubdtype(factor.dtype, jnp.complexfloating):
        raise TypeError(f"scale: expected a real number as factor, got {factor}.")
    known = (
        None if jax_core.is_traced(factor) else np.asarray(factor)
    )  # JAX would trace the test, too
    if known is not None and not np.all((known >= 0) & (known < np.inf)):
        raise ValueError(f"scale: factor must be finite and not negative, got {factor}.")
    return factor
