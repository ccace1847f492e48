"""recover: draws of the sites that marginalize has taken out, given all other sites."""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.analysis.summed_sites import summed_programs
from ppl.common import foreign_arrays
from ppl.common.arguments import Arguments
from ppl.common.draw_chunks import choose_chunk_size
from ppl.common.lift import lift
from ppl.core.captured_constants import trace_and_fingerprint
from ppl.core.joint_scores import joint_scores_of
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, apply_at_site, trace_model
from ppl.harvest.interpreter import Operands
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.names import nest_by_path
from ppl.harvest.plants import PathDict
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, describe_all
from ppl.primitives.sample import check_key
from ppl.primitives.site_kinds import LATENT, OBSERVED, RANDOM, Hidden, kind_of
from ppl.transforms.draw_checks import check_given, is_near_support, is_possible_data
from ppl.transforms.predict import (
    Complete,
    PredictionPlan,
    check_draws,
    check_fitted,
    predict_draws,
)

_CHUNK_ELEMENTS = 2**22  # numbers drawn in one chunk by default: 16 MiB of int32


@dataclasses.dataclass(frozen=True)
class TakeRecovered(SiteAction):
    """Action of `recover`: plants draws, and records the draws of summed sites.

    The record of any other site is whether its value is possible. Sites that a sum scores have no
    record: the log total of the sum says whether their values are possible.

    Attributes:
        is_mode: Whether the most probable values are recorded in place of draws.
    """

    is_mode: bool = False
    tags: ClassVar = (RANDOM,)

    def matches(self, site: Site) -> bool:
        """Whether the site is random, or a draw of summed sites."""
        return super().matches(site) or site.tag == Hidden.RECOVERED

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution for a check of the support.

        Of summed sites, one of the two: the draw, or the distribution for its mode.
        """
        if site.tag == Hidden.RECOVERED:
            return not self.is_mode, False, self.is_mode
        return not planted, False, _is_checked(site)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted or sown value, and its record if it is recovered."""
        values = operands.values if plant is None else plant
        if site.tag == Hidden.RECOVERED:
            found = _modes(site, operands) if self.is_mode else values
            return found, _by_path(jax.tree.unflatten(site.tree, found), site.scope)
        if not _is_checked(site):
            return values, None
        check = is_near_support if kind_of(site) == LATENT else is_possible_data
        return values, apply_at_site(site, operands, values, check)


@dataclasses.dataclass(frozen=True, eq=False)
class Recover:
    """Distribution of the sites that were taken out, made by `recover`; a call draws from it.

    Attributes:
        model: The marginalized model, as a pytree.
        draws: Values of its latent sites by name.
        chunk_size: How many draws are made at once, or None for the default.
        log_weights: Whether log importance weights are given as well.
        mode: Whether the most probable values are given, not draws.
    """

    model: Model
    draws: Any
    chunk_size: int | None
    log_weights: bool
    mode: bool

    def __call__(self, key: jax.Array, *args: Any, **kwargs: Any) -> Any:
        """Values of summed sites, and of deterministic sites that depend on summed sites."""
        check_key("recover", key)
        arguments, data = Arguments.split(args, kwargs)
        program = trace_model(self.model, None, args, kwargs)
        recovered = ModelRun(self.model, program, TakeRecovered())
        hidden = [f for f in recovered.sites.values() if f.site.tag == Hidden.RECOVERED]
        if not hidden:
            raise ValueError(
                f"recover: {recovered.name} has no summed sites. Give the model that "
                "ppl.marginalize made, or one that was made of it."
            )
        if self.mode:
            _check_mode(recovered.name, program.jaxpr)
        run = ModelRun(self.model, program, Complete())
        check_fitted("recover", run)
        batch, draws = check_draws("recover", run, self.draws)
        shapes = [a.shape for f in hidden for a in f.collapse().avals]
        size = sum(map(math.prod, shapes))
        max_chunk = _CHUNK_ELEMENTS // max(size, 1)
        chunk = choose_chunk_size(self.chunk_size, math.prod(batch), max_chunk)
        _, numbers = trace_and_fingerprint(lambda _: None, self.model, arguments, data)
        is_empty = any(0 in x for x in shapes)
        plan = RecoveryPlan(arguments, batch, chunk, is_empty, numbers, mode=self.mode)
        (values, log_weights), flags = predict_draws(plan, self.model, data, key, draws)
        check_given("recover", draws, flags, len(batch))
        return (values, log_weights) if self.log_weights else values


def _is_checked(site: Site) -> bool:
    """Whether a value is checked against its support: latent ones are, and data outside of sums."""
    is_data = kind_of(site) == OBSERVED
    return kind_of(site) == LATENT or (is_data and not joint_scores_of(site))


def _modes(site: Site, operands: Operands) -> Sequence[Any]:
    """The leaves of the most probable values of summed sites, in the form of their draw."""

    def one(_: Any, *leaves: Any) -> list[Any]:
        return jax.tree.leaves(jax.tree.unflatten(site.extra_tree, leaves).mode())

    return lift(one, site.axes, 1)((), *operands.extras)


def _check_mode(name: str, jaxpr: Any) -> None:
    """Check that the most probable values of what was taken out of a program can be found.

    Raises:
        ValueError: If some sites were taken out of a model from which others were taken out before.
    """
    for _, last in summed_programs(jaxpr):
        if first := summed_programs(last.summation.jaxpr):
            before = [path for _, x in first for path in x.summation.sites]
            raise ValueError(
                f"recover: mode=True: {name} has {describe_all(last.summation.sites)} taken out "
                f"after {describe_all(before)}. The most probable values of the former, with the "
                "latter summed or integrated out, need not be those that are most probable "
                "together. Discrete sites can be taken out in one call of marginalize, and so can "
                "normal ones; else draw them, without mode=True."
            )


def _by_path(drawn: Mapping[Path, Any], scope: tuple[Hashable, ...]) -> PathDict:
    """Drawn values by path, with the draws of sums inside of the sum."""
    found = PathDict()
    for path, x in drawn.items():
        found |= _by_path(x, scope) if isinstance(x, PathDict) else {(*scope, *path): x}
    return found


@dataclasses.dataclass(frozen=True)
class RecoveryPlan(PredictionPlan):
    """Static part of a call of `recover`; see `Recover` for `mode`."""

    mode: bool = False

    def one(self, model: Model, data: list[Any], key: Any, index: Any, draw: Any) -> Any:
        """The recovered values for one draw."""
        args, kwargs = self.arguments.join(data)
        key = jax.random.fold_in(key, index)
        run = ModelRun(model, trace_model(model, key, args, kwargs), TakeRecovered(self.mode))
        found = run.run(draw, live_outs=False)[1]
        hidden = [record for record in found.values() if isinstance(record, PathDict)]
        drawn = {path: x for record in hidden for path, x in record.items()}
        log_weights = [drawn.pop(path) for path in list(drawn) if Hidden.LOG_WEIGHT in path]
        totals = {path: drawn.pop(path) for path in list(drawn) if Hidden.LOG_TOTAL in path}
        flags = {p: x for p, x in found.items() if not isinstance(x, PathDict | bool)}
        flags |= {p: jnp.isfinite(x) for p, x in totals.items()}
        return (nest_by_path(drawn), sum(map(jnp.sum, log_weights))), PathDict(flags)


def recover(
    model: Model,
    draws: Mapping[str, Any],
    *,
    chunk_size: int | None = None,
    log_weights: bool = False,
    mode: bool = False,
) -> Recover:
    """Draw the sites that `marginalize` has summed out, given draws of the others.

    The draws are exact and joint: for a chain, by backward sampling after the forward algorithm.
    Only draws of sites that `Laplace` has taken out are approximate. Their importance weights are

        w = p(taken out, others) / (q(taken out | others) p_Laplace(others))

    The draws with these weights are draws of the exact posterior. `inference.psis(log_weights)`
    gives Pareto's k; if it is above 0.7, the approximation is too far off. A factor of `scale`
    counts neither in draws nor in weights: draws are from p(taken out | others), not from a power
    of it.

    Args:
        model: A model made by `marginalize`, perhaps conditioned since.
        draws: Values of its latent sites by name, nested as the scopes are, with the same axes in
            front, as in the result of a sampler: (chain, draw, ...). Empty if no latent site is
            left, for one draw without axes.
        chunk_size: How many draws are made at once; a chunk is compiled once for any number of
            draws. By default 64, or 4096 for more than 16384 draws, but at most 2^22 numbers.
        log_weights: Whether to give the log importance weights of the draws as well. They are 0 if
            `Laplace` has taken out no site.
        mode: Whether to give the most probable values instead of draws: those of all sites that
            were taken out together, given the others. For a chain this is the Viterbi path. For
            sites that `Gaussian` has taken out it is their mean, and for `Laplace` the point about
            which it expands. Of several discrete values that are equally probable one is given,
            the same in each call. Deterministic sites are those of these values, and the key
            counts for nothing.

    Returns:
        A function `(key, *args, **kwargs) -> dict` of the values of the summed sites, and of the
        deterministic sites that depend on them, with the axes of the draws in front. With
        `log_weights`, a pair of the dict and an array with the axes of the draws.

    Raises:
        TypeError: If `draws` is not a dict.
        ValueError: When called, if nothing was summed out, a name is unknown, a latent site has no
            draws, the axes of the draws do not agree, or the model has a `param` or a `state`, for
            which `with_params` puts the values of a fit. With `mode`, also if sites were taken out
            in several calls or in several ways, or if `log_weights` is given.

    Example:
        >>> import jax, jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key):
        ...     shift = ppl.sample(key, dist.Normal(0.0, 1.0), name="shift")
        ...     z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
        ...     loc = shift + jnp.where(z == 1, 9.0, 0.0)
        ...     ppl.sample(key, dist.Normal(loc, 1.0), name="y")
        >>> summed = ppl.condition(ppl.marginalize(model, ["z"]), {"y": 9.0})
        >>> z = ppl.recover(summed, {"shift": jnp.zeros(3)})(jax.random.key(0))["z"]
        >>> print(z.astype(int))
        [1 1 1]
        >>> likely = ppl.recover(summed, {"shift": jnp.array([0.0, 8.0])}, mode=True)
        >>> print(likely(jax.random.key(0))["z"].astype(int))
        [1 0]

    References:
        Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding
        algorithm", IEEE Transactions on Information Theory 13 (1967).
    """
    if not isinstance(draws, Mapping):
        instead = " Give its draws: result.draws." if hasattr(draws, "draws") else ""
        raise TypeError(f"recover: expected a dict of draws, got {short_repr(draws)}.{instead}")
    is_count = isinstance(chunk_size, int | np.integer) and not isinstance(chunk_size, bool)
    if chunk_size is not None and not (is_count and chunk_size >= 1):
        raise ValueError(
            f"recover: chunk_size must be an integer of at least 1, got {chunk_size!r}."
        )
    if not isinstance(log_weights, bool):
        raise TypeError(f"recover: log_weights must be True or False, got {log_weights!r}.")
    if not isinstance(mode, bool):
        raise TypeError(f"recover: mode must be True or False, got {mode!r}.")
    if mode and log_weights:
        raise ValueError(
            "recover: log_weights=True gives weights of draws, and mode=True makes no draws: leave "
            "out one of the two."
        )
    draws = foreign_arrays.convert_values(draws)
    return Recover(as_pytree(model), draws, chunk_size, log_weights, mode)
