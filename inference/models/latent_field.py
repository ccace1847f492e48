"""Latent Gaussian models: the sites whose prior is jointly normal, given all other sites."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

import ppl
from inference.models.score_degrees import ScoreDegrees
from ppl.analysis.summed_sites import summed_programs
from ppl.common.scaled_distribution import factors_at
from ppl.core.model_pytree import as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.survey import Path, describe, describe_all, join_scopes
from ppl.marginal.block_integral import BlockIntegral
from ppl.transforms.density import LogProbs
from ppl.transforms.unconstrain import Unconstrained

_MAX_OTHERS = 8  # coordinates outside of the field, with sites that could be in it


@dataclasses.dataclass(frozen=True)
class LatentField:
    """Sites of a latent Gaussian model.

    Attributes:
        paths: The sites that are normal given the others, in the order of the program.
        is_exact: Whether they are normal given the others and the data, too.
        others: All other latent sites.
        left_out: Sites that are normal a priori and were left to the others, each with the reason.
    """

    paths: tuple[Path, ...]
    is_exact: bool
    others: tuple[Path, ...]
    left_out: Mapping[Path, str] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites of the field."""
        return tuple(map(join_scopes, self.paths))


def find_latent_field(
    target: Unconstrained, names: Sequence[str] | None = None, max_block: int = 2**12
) -> LatentField:
    """The latent field of a model: the sites of some names, or those that are normal.

    A site is normal if its prior, and that of each site which depends on it, is the exponential of
    a quadratic function of it and of the sites that are in the field already, larger ones first.
    A single number that enters the data by a function of its own, as the logarithm of a scale, is
    left to the others. If the field is not normal given the data, so are its smallest sites, as
    levels and slopes, where what stays then falls into more independent parts, for each of which
    Laplace's approximation is better. Those whose priors have parameters outside of the field, as
    effects with a scale, stay in it.

    Args:
        target: Target of the model with its data.
        names: Names of the sites of the field; by default they are found.
        max_block: Largest number of elements that are coupled as a whole.

    Raises:
        ValueError: if a name is not that of a latent site, or if too many elements are coupled.
    """
    size = {p: sum(math.prod(x.shape) for x in jax.tree.leaves(s)) for p, s in target.shapes}
    left_out: dict[Path, str] = {}
    field = [] if names is None else _paths_of(names, size)
    if names is not None and len(field) == len(size):
        return LatentField(tuple(field), False, (), left_out)
    degrees = ScoreDegrees(target)
    if names is None:
        field, left_out = _find_normal(degrees, size)
    if names is None and field and not degrees.are_quadratic(field):
        less = _without_small(field, size, _with_parameters(degrees, field, size))
        if _count_parts(target, less, max_block) > _count_parts(target, field, max_block):
            field = less
    paths = tuple(p for p in size if p in field)
    others = tuple(p for p in size if p not in field)
    is_exact = bool(field) and degrees.are_quadratic(field)
    return LatentField(paths, is_exact, others, left_out)


def _with_parameters(
    degrees: ScoreDegrees, field: Sequence[Path], size: Mapping[Path, int]
) -> list[Path]:
    """The sites of the field whose priors depend on sites outside of it, as effects on a scale."""
    found = degrees.of([p for p in size if p not in field])
    return [p for p in field if p in found and found[p].variables]


def _without_small(
    field: Sequence[Path], size: Mapping[Path, int], kept: Sequence[Path]
) -> list[Path]:
    """The field without its smallest sites, while all others have few coordinates.

    Sites that are kept, as a scale outside of the field would form a funnel with them, stay.
    """
    left = list(field)
    num_others = sum(size.values()) - sum(size[p] for p in left)
    for path in sorted((p for p in field if p not in kept), key=lambda p: size[p]):
        num_others += size[path]
        if len(left) == 1 or num_others > _MAX_OTHERS:
            break
        left.remove(path)
    return left


def check_plain(target: Unconstrained, where: str) -> None:
    """Checks that all sites of a model are in its program, with their own log densities.

    Raises:
        ValueError: if some were taken out before, or `scale` multiplies their log densities.
    """
    args, kwargs = target.arguments.join(target.data)
    program = trace_model(target.model, None, args, kwargs)
    if before := [path for _, x in summed_programs(program.jaxpr) for path in x.summation.sites]:
        raise ValueError(
            f"{where}: ppl.marginalize has taken {describe_all(before)} out of the model, and each "
            "of their values may have a mode of its own. Give the model as it was, conditioned on "
            "the data, or use mcmc."
        )
    sites = ModelRun(target.model, program, LogProbs()).sites
    if scaled := [p for p, found in sites.items() if any(map(factors_at, found.sites))]:
        raise ValueError(
            f"{where}: ppl.scale multiplies the log density of {describe_all(scaled)}, and no "
            "normal distribution is drawn to a power. Leave it out, or use mcmc."
        )


def _count_parts(target: Unconstrained, field: Sequence[Path], max_block: int) -> int:
    """The number of independent parts of the field, given the other sites and the data."""
    args, kwargs = target.arguments.join(target.data)
    strategy = ppl.Laplace(max_block=max_block)
    inner = ppl.marginalize(target.model, {join_scopes(path): strategy for path in field})
    program = trace_model(as_pytree(inner), None, args, kwargs)
    found: list[Any] = [x.summation for _, x in summed_programs(program.jaxpr)]
    return sum(x.num_independent for x in found if isinstance(x, BlockIntegral))


def check_names(names: Any, where: str) -> None:
    """Checks that an argument `sites` is None or names of sites, before the model is traced.

    Raises:
        TypeError: if they are not names.
        ValueError: if there is none, or one comes twice.
    """
    if names is None:
        return
    if isinstance(names, str):
        raise TypeError(f"sites must be a list of names, got {names!r}: write [{names!r}]")
    if not isinstance(names, Sequence) or not all(isinstance(x, str) for x in names):
        raise TypeError(f"sites must be a list of names, as ['effect'], got {names!r}")
    if not names:
        raise ValueError(f"{where}: sites names no site; leave it out to have them found")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"sites names {name!r} {names.count(name)} times; name it once")


def _paths_of(names: Sequence[str], known: Iterable[Path]) -> list[Path]:
    by_name = {join_scopes(path): path for path in known}
    for name in names:
        if name not in by_name:
            raise ValueError(
                f"sites: the model has no latent site {name!r}. Use some of: {', '.join(by_name)}"
            )
    return [by_name[name] for name in names]


def _find_normal(
    degrees: ScoreDegrees, size: Mapping[Path, int]
) -> tuple[list[Path], dict[Path, str]]:
    """Sites that are normal a priori: those of the field, and why others are not in it."""
    field: list[Path] = []
    for path in sorted(size, key=lambda p: -size[p]):
        if _is_normal(degrees, path, field):
            field.append(path)
    left_out: dict[Path, str] = {}
    while found := _multiplier(degrees, field, size) or _lone_number(degrees, field, size):
        path, why = found
        field.remove(path)
        left_out[path] = why
    return field, left_out


def _is_normal(degrees: ScoreDegrees, path: Path, field: list[Path]) -> bool:
    """Whether a site is normal a priori, together with those of the field."""
    alone = degrees.of([path])
    if any(alone[p].cause is not None for p in degrees.prior):
        return False
    if path not in alone or alone[path].degree != 2 or not degrees.has_linear_values(path):
        return False  # A LogNormal is normal in its position, where `reparam` learns that.
    together = degrees.of([*field, path])
    return all(together[p].cause is None for p in degrees.prior)


def _multiplier(
    degrees: ScoreDegrees, field: list[Path], size: Mapping[Path, int]
) -> tuple[Path, str] | None:
    """The smallest site of a product of sites, where a term of the data is a polynomial of it."""
    for p, found in degrees.of(field).items():
        if p not in degrees.latent and found.cause and math.isfinite(found.degree):
            factors = [x for x in field if x in found.cause[1]]
            why = (
                f"the log density of {describe(p)} is a polynomial of degree {found.degree:g} in "
                f"{describe_all(factors)}"
            )
            return min(factors, key=lambda x: size[x]), why
    return None


def _lone_number(
    degrees: ScoreDegrees, field: list[Path], size: Mapping[Path, int]
) -> tuple[Path, str] | None:
    """A site of one number that enters a term of the data by a function of its own."""
    for p, found in degrees.of(field).items():
        if p in degrees.latent or found.cause is None:
            continue
        operation, variables = found.cause
        if len(variables) == 1 and variables != found.variables:
            for path in field:
                if path in variables and size[path] == 1:
                    return path, f"it enters {describe(p)} by the operation {operation!r} alone"
    return None
