"""marginalize: sites taken out of a model, by sums and integrals."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ppl.analysis.dependence import Dependence, find_ancestors
from ppl.common.missing_data import is_imputed
from ppl.common.scaled_distribution import Scaled, ScaledTerm, multiply_score
from ppl.core.inside_sums import Transformation
from ppl.core.joint_scores import GroupScores
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Path, join_scopes
from ppl.marginal.group_factors import GroupFactors
from ppl.marginal.known_entries import count_entries, score_known
from ppl.marginal.marginal_sites import (
    Marginal,
    RecordSites,
    Recovery,
    Resow,
    group_of,
    is_alone,
    log_prob_at,
    zeros_of,
)
from ppl.marginal.marginal_strategies import (
    Enumerate,
    Gaussian,
    Laplace,
    Strategy,
    find_latent,
    make_elimination,
    name_strategies,
)
from ppl.marginal.other_sows import Separated, separate
from ppl.marginal.program_slices import Slicer
from ppl.marginal.score_dependence import bounds_itself
from ppl.primitives.draw_primitive import Draw, draw_p
from ppl.primitives.site_kinds import (
    DETERMINISTIC,
    FACTOR,
    LATENT,
    RANDOM,
    Hidden,
    kind_of,
)
from ppl.transforms.unscaled import unscaled

Rule = Callable[[Model], Callable[..., Mapping[str, Strategy]]]


def marginalize(model: Model, sites: Collection[str] | Mapping[str, Strategy] | Rule) -> Model:
    """Take latent sites out of a model: discrete ones are summed, real ones integrated.

    The result is a model of the other sites, with the density

        p(others) = sum over all states of the summed sites of p(summed, others)

    For real sites the sum is an integral: exact by `Gaussian` for sites that are jointly normal
    given all others, and by `Laplace`'s approximation for other real sites.

    The model can be conditioned, scaled and sampled, before or after. `scale` multiplies the log of
    a sum or an integral, so that sites scored together need one factor. `recover` draws the sites
    that are taken out.

    The dependences between elements are read off the program of the model, even if it moves
    elements (by reshape, flip, roll, indices). So a sum costs as much as a sum written by hand:

    | summed elements | cost |
    |---|---|
    | n elements independent given the rest, with K states | n K |
    | a chain in a scan of T steps that looks back h steps | T K^(h+1) |
    | a few elements that depend on one another | variable elimination, in an order of least cost |
    | n rows that all meet m columns, with m <= n | n K^(m+1) |
    | n normal blocks of d elements, independent given the rest | n d^3 |
    | d normal states in a scan of T steps | T d^3 |

    Sites that depend on summed sites stand at the top level of the new model. Elements that depend
    on the same summed elements make a group, which is scored together. If each group holds one
    observation, `log_probs` has the log probability of the group in the place of the observation;
    in a chain it is log p(y[t] | y[0], ..., y[t-1]). Otherwise `log_probs` has one number for each
    group, under a joint name such as "z.y".

    Args:
        model: A function of a random key.
        sites: Names of discrete latent sites, "scope.name" for one in a scope; or a dict from names
            to `Enumerate(max_states=...)`, `Gaussian(max_block=...)` or `Laplace(...)`; or a rule
            that gives such a dict, `auto_marginal`. Integrals are taken first, for each state of
            the summed sites.

    Returns:
        A model without these sites.

    Raises:
        TypeError: If `sites` is neither names nor a dict nor a function.
        ValueError: When the result is called or transformed, if a name is unknown, a site is not
            latent, has infinitely many states or is not normal given the rest, or the sum is larger
            than `max_states` or `max_block`.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key):
        ...     z = ppl.sample(key, dist.Bernoulli(probs=0.25), name="z")
        ...     loc = jnp.where(z == 1, 4.0, 0.0)
        ...     return ppl.sample(key, dist.Normal(loc, 1.0), name="y")
        >>> summed = ppl.marginalize(model, ["z"])
        >>> round(ppl.log_density(summed)({"y": 0.0}).item(), 4)
        -1.2065

    References:
        Obermeyer et al., "Tensor variable elimination for plated factor graphs", ICML (2019).
        Rabiner, "A tutorial on hidden Markov models", Proceedings of the IEEE 77 (1989).
        Rue, Martino and Chopin, "Approximate Bayesian inference for latent Gaussian models by using
        integrated nested Laplace approximations", JRSS B 71 (2009).
        Margossian et al., "Hamiltonian Monte Carlo using an adjoint-differentiated Laplace
        approximation", arXiv 2004.12550 (2020).
    """
    if callable(sites) and not isinstance(sites, type):
        return Partial(_MarginalizedByRule(sites), as_pytree(model))
    strategies = name_strategies(sites)
    model = as_pytree(model)
    for kind in (Gaussian, Laplace, Enumerate):  # Given discrete sites, others are jointly normal.
        mine = tuple((n, s) for n, s in strategies.items() if isinstance(s, kind))
        model = Partial(_Marginalized(mine), model) if mine else model
    return model


@dataclasses.dataclass(frozen=True)
class _MarginalizedByRule:
    """A model marginalized by a rule, which looks at the model with its arguments."""

    rule: Rule

    def __call__(self, model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
        return _MarginalizedAsPlanned(self.rule)(model, model, key, *args, **kwargs)

    def take_out_after(self, apply: Transformation, plans: bool, model: Model) -> Model:
        """The model with a transformation before its sums.

        Args:
            apply: The transformation.
            plans: Whether the rule looks at the transformed model.
            model: The model.
        """
        if plans:
            return Partial(self, apply(model, self, ()))
        return Partial(_MarginalizedAsPlanned(self.rule), model, apply(model, self, ()))


@dataclasses.dataclass(frozen=True)
class _MarginalizedAsPlanned:
    """A model marginalized by a rule, which looks at the model before it was transformed."""

    rule: Rule

    def __call__(self, planned: Model, model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
        strategies = self.rule(planned)(*args, **kwargs)
        return marginalize(model, strategies)(key, *args, **kwargs)

    def take_out_after(
        self, apply: Transformation, plans: bool, planned: Model, model: Model
    ) -> Model:
        """The model with a transformation before its sums.

        Args:
            apply: The transformation.
            plans: Whether the rule looks at the transformed model.
            planned: The model that the rule looks at.
            model: The model.
        """
        return Partial(self, apply(planned, self, ()) if plans else planned, apply(model, self, ()))


@dataclasses.dataclass(frozen=True)
class _Marginalized:
    """A marginalized model, as a function of the model and its arguments."""

    strategies: tuple[tuple[str, Strategy], ...]

    def __call__(self, model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
        separated = separate(trace_model(model, key, args, kwargs), key)
        rewriting = _Rewriting(model, separated, dict(self.strategies))
        return rewriting.run(key)

    def take_out_after(self, apply: Transformation, plans: bool, model: Model) -> Model:
        """The model with a transformation before its sums."""
        return Partial(self, apply(model, self, ()))


class _Rewriting:
    """One run of a marginalized model, which sows its sites.

    | sites       | are                                                | are sown as              |
    |-------------|----------------------------------------------------|--------------------------|
    | `summed`    | named by the strategies                            | nothing                  |
    | `kept`      | not dependent on summed sites                      | they were                |
    | `moved`     | random, dependent on summed sites                  | random, with a `Marginal`|
    | `factors`   | factors, dependent on summed sites                 | nothing, but for hosts   |
    | `derived`   | deterministic, dependent on them by random sites   | deterministic            |
    | `recovered` | deterministic, dependent on them in another way    | hidden, for `recover`    |
    | hosts       | for each group of scores, a site of it             | with the score of all    |
    | `known`     | summed and observed in part, scored by themselves  | a factor                 |
    """

    def __init__(self, model: Model, separated: Separated, strategies: Mapping[str, Strategy]):
        self._scaled = separated.of_sites
        self._with_own_sows = separated.of_all
        run = ModelRun(model, self._scaled, RecordSites())
        run.check_kinds()
        program = unscaled(self._scaled, run.sites)
        self._program = program
        self._found = run.sites
        self._summed = find_latent(run, strategies)
        graph = Dependence()(self._scaled.jaxpr).sites
        self._parents = {path: sown.parents | sown.earlier for path, sown in graph.items()}
        after = [p for p in graph if p not in self._summed and self._reaches(p, cuts=False)]
        self._moved = [p for p in after if self._tag(p) == RANDOM]
        self._factors = [p for p in after if self._tag(p) == FACTOR]
        derived = [p for p in after if self._tag(p) == DETERMINISTIC]
        recovered = [p for p in derived if self._reaches(p, cuts=True)]
        self._derived = frozenset(derived).difference(recovered)
        before = [p for p in self._found if self._tag(p) == Hidden.RECOVERED]
        self._recovered = (*recovered, *before)
        self._kept = frozenset(graph).difference(self._summed, after)
        self._strategies = strategies.values()
        self._plants: dict[Path, tuple[Any, ...]] = {}
        self._scores: dict[Any, GroupScores] = {}

    def _tag(self, path: Path) -> Any:
        return self._found[path].site.tag

    def _reaches(self, path: Path, *, cuts: bool) -> bool:
        """Whether a site depends on a summed site; `cuts` leaves out paths through random sites."""
        found = find_ancestors(
            self._parents, [path], lambda p: not (cuts and self._tag(p) == RANDOM)
        )
        return not found.isdisjoint(self._summed)

    def run(self, key: Any) -> Any:
        """The output of the model, drawn with all of its sites sown."""
        kept = Harvester(self._scaled, Resow(kept=self._kept)).run({}, live_outs=False)[1]
        self._plants |= {path: tuple(x) for path, x in kept.items()}
        self._group_factors = GroupFactors(self._scaled, self._summed, self._plants)
        self._known = self._score_known()
        self._take_out()
        hosts = self._find_hosts()
        for path in self._known.keys() - hosts.values():
            self._sow_factor(path, self._known[path])
        for path in self._moved:
            self._sow_moved(path, key, path in hosts.values())
        for host in hosts.values():
            if host not in self._moved:
                by_group = self._factors_of(host)[1]
                inputs = self._inputs
                plants = self._plants
                log_prob = log_prob_at(self._summation, host, inputs, plants, by_step=by_group)
                if host in self._known:
                    log_prob = jnp.sum(log_prob) + jnp.sum(self._known[host])
                self._sow_factor(host, log_prob)
        self._sow_recovered(key)
        program = self._with_own_sows
        action = RecordSites(self._derived, planted=frozenset(self._plants))
        outs, derived = Harvester(program, action).run(self._plants)
        for path, value in derived.items():
            self._sow(path, jax.tree.leaves(value), tag=DETERMINISTIC)
        return program.unflatten(outs)

    def _score_known(self) -> dict[Path, jax.Array]:
        """The log probabilities of known entries of summed sites, if entries are independent.

        These do not depend on summed sites, and scores that depend on the site are given them.
        """
        apart = [
            path
            for path in self._summed
            if not self._reaches(path, cuts=False) and not self._group_factors.has_axes(path)
        ]
        return score_known(self._program, self._found, apart, self._plants)

    def _take_out(self) -> None:
        """The sum or the integral, without known entries that are scored by themselves."""
        scored = (*self._summed, *self._moved, *self._factors)
        program = self._program = count_entries(self._program, self._known, of_missing=True)
        self._summation = make_elimination(program, self._summed, self._strategies, scored)
        self._slicer = Slicer(program.jaxpr)
        self._inputs = list(program.inputs)
        self._inputs[len(program.consts)] = None  # The key: all sites are planted, none is drawn.
        self._read = find_ancestors(self._parents, scored).union(scored)

    def _sow_factor(self, path: Path, log_prob: jax.Array) -> None:
        """Sow a log probability under the name of a site, times the factors of `scale`."""
        factors, _ = self._factors_of(path)
        product = functools.reduce(multiply_score, factors, log_prob)
        term = ScaledTerm(log_prob, factors) if factors else None
        self._sow(path, [product], tag=FACTOR, d=term)

    def _find_hosts(self) -> dict[Any, Path]:
        """The host of each group of scores: the site at which the group is scored.

        | group                                          | host                             |
        |------------------------------------------------|----------------------------------|
        | has random sites                               | the last random site             |
        | has a factor that needs a still later site     | the last factor                  |
        | has only factors                               | the last factor                  |
        | has neither                                    | a summed site, observed in part  |
        """
        groups: dict[Any, list[Path]] = {}
        for path in (*self._moved, *self._factors):
            groups.setdefault(group_of(self._summation, path), []).append(path)
        hosts = {}
        for group, paths in groups.items():
            random = [p for p in paths if p in self._moved]
            factors = [p for p in paths if p in self._factors]
            if not random or any(self._needs_later(p, random[-1]) for p in factors):
                hosts[group] = factors[-1]
            else:
                hosts[group] = random[-1]
        for path in self._summed:  # The known entries of a summed site are data.
            if any(map(is_imputed, self._found[path].sites)):
                hosts.setdefault(group_of(self._summation, path), path)
        return hosts

    def _needs_later(self, path: Path, host: Path) -> bool:
        """Whether a score needs a moved site that is sown behind the host."""
        later = self._moved[self._moved.index(host) + 1 :]
        return not find_ancestors(self._parents, [path]).isdisjoint(later)

    def _sow_moved(self, path: Path, key: Any, is_host: bool) -> None:
        """Sow a site that depends on summed sites, with a distribution that is marginalized."""
        site = self._found[path].site
        is_latent = kind_of(site) == LATENT  # Data do not depend on draws.
        value = self._look(path, () if is_latent else self._summed)
        feeds_itself = path in find_ancestors(self._parents, [path])
        later = self._moved[self._moved.index(path) :] if feeds_itself else ()
        base = None
        if not self._found[path].branches:
            base = self._look(path, self._summed, zeros=(path, *later), distributions=True)
        is_bounded = bounds_itself(self._program.jaxpr, path, later)
        scores = self._find_scores(path)
        factors, by_group = self._factors_of(path)
        d: Any = Marginal(
            base=base,
            inputs=self._inputs,
            plants=PathDict({p: x for p, x in self._plants.items() if p in self._read}),
            summation=self._summation,
            path=path,
            is_host=is_host,
            is_bounded=is_bounded or path in self._summation.bounded,
            scores=scores,
            by_step=by_group,
        )
        for factor in factors:
            if by_group and scores is not None:
                factor = scores.arrange_factor(factor)
            d = Scaled(d, factor)
        leaves = self._sow(path, jax.tree.leaves(value), tag=RANDOM, note=site.note, d=d, key=key)
        self._plants[path] = tuple(leaves)

    def _look(
        self,
        path: Path,
        states: Collection[Path],
        *,
        zeros: Collection[Path] = (),
        distributions: bool = False,
    ) -> Any:
        """The value of a site, or its distribution, with others planted.

        Args:
            path: The site.
            states: Summed sites to plant, with their first states.
            zeros: Sites to plant with zeros.
            distributions: Whether the distribution is wanted.
        """
        planted = {*self._plants, *states, *zeros}
        part = self._slicer.cut([path], planted, distributions=distributions)
        plants = {}
        for p in part.paths:
            if p in zeros:
                plants[p] = zeros_of(self._found[p])
            elif p in states:
                plants[p] = self._first_states(p)
            elif p in self._plants:
                plants[p] = self._plants[p]
        look = RecordSites(frozenset([path]), distributions, frozenset(plants))
        program = part.program(self._program.inputs)
        return Harvester(program, look).run(plants, live_outs=False)[1][path]

    def _factors_of(self, path: Path) -> tuple[list[Any], bool]:
        """The `scale` factors of a site's group, and whether they vary along axes of its sum."""
        group = self._members[group_of(self._summation, path)]
        return self._group_factors.of(group, lambda: self._summation.axes(path))

    @functools.cached_property
    def _members(self) -> dict[Any, list[Path]]:
        """The scores of each group."""
        found: dict[Any, list[Path]] = {}
        for path in self._summation.scored:
            found.setdefault(group_of(self._summation, path), []).append(path)
        return found

    def _find_scores(self, path: Path) -> GroupScores | None:
        """The layout of the score of a site's group; None if the site is scored by itself."""
        if is_alone(self._summation, path):
            return None
        group = self._summation.groups[path]
        if group not in self._scores:
            found = self._summation.group_scores(path, self._inputs)
            joint = [p for p in found.taken_out if p not in self._known]
            data = tuple(p for p in joint if any(map(is_imputed, self._found[p].sites)))
            self._scores[group] = dataclasses.replace(found, data=data)
        return self._scores[group]

    def _first_states(self, path: Path) -> tuple[Any, ...]:
        """The leaves of a summed site whose elements are all in its first state."""
        (aval,) = self._found[path].collapse().avals
        state = jnp.asarray(self._summation.start(path), aval.dtype)
        return (jnp.broadcast_to(state, aval.shape),)

    def _sow(
        self,
        path: Path,
        leaves: Sequence[Any],
        *,
        tag: Any,
        note: Any = None,
        d: Any = None,
        key: Any = None,
    ) -> list[Any]:
        """Sow leaves at the top level under the name of a site."""
        site = self._found[path].site
        extras, tree = jax.tree.flatten(d)
        new = Site(
            tag,
            site.name,
            "append",
            site.tree,
            tree,
            tag if note is None else note,
            site.scope,
            has_key=key is not None,
            labels=site.labels,
        )
        keys = [] if key is None else [key]
        return sow_p.bind(*leaves, *map(jnp.asarray, extras), *keys, site=new)

    def _sow_recovered(self, key: Any) -> None:
        """Sow a draw of the summed sites, which is not evaluated unless it is asked for."""
        paths = (*self._summation.sites, *self._recovered)
        d = Recovery(self._inputs, PathDict(self._plants), self._summation, self._recovered)
        values = [
            jax.tree.unflatten(self._found[p].site.tree, self._found[p].collapse().avals)
            for p in paths
        ]
        num = len(self._summed)
        weight = jax.ShapeDtypeStruct((), jnp.result_type(float))
        avals, tree = jax.tree.flatten([values[:num], values[num:], [weight, weight]])
        leaves, of_distribution = jax.tree.flatten(d)
        name = " ".join(map(join_scopes, paths))
        if any(is_imputed(self._found[p].site) for p in self._summed):
            name += " with gaps"  # A factor has the name of the site.
        static = Draw(f"recover {name}", of_distribution, tree, tuple(avals))
        drawn = draw_p.bind(key, *map(jnp.asarray, leaves), draw=static)
        drawn_by_path = dict(zip(paths, values, strict=True))
        drawn_by_path[Hidden.LOG_WEIGHT, name] = weight
        drawn_by_path[Hidden.LOG_TOTAL, *self._summation.sites] = weight
        tree = jax.tree.structure(PathDict(drawn_by_path))
        sown = Site(Hidden.RECOVERED, name, "append", tree, of_distribution, Hidden.RECOVERED)
        sow_p.bind(*drawn, *map(jnp.asarray, leaves), site=sown)
