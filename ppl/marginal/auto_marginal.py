"""auto_marginal: the latent sites that can be taken out of a model exactly, at a small cost."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common.analysis_call import AnalysisCall
from ppl.common.arguments import Arguments
from ppl.common.text_table import table
from ppl.core.model_pytree import Model, as_pytree, name_of
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.program import Program
from ppl.harvest.survey import Path, join_scopes
from ppl.marginal.block_integral import find_equal_inputs
from ppl.marginal.finite_supports import find_states
from ppl.marginal.gaussian_integral import GaussianIntegral
from ppl.marginal.marginal_strategies import Enumerate, Gaussian, Strategy
from ppl.marginal.marginalize import marginalize
from ppl.marginal.ordered_layout import find_known_inputs
from ppl.marginal.quadratic_scores import TracedScores
from ppl.primitives.site_kinds import LATENT, RANDOM, kind_of
from ppl.transforms.density import LogDensity, LogProbs

_MAX_STATES = 2**12
_MAX_COUPLED = 512


@dataclasses.dataclass(frozen=True)
class MarginalPlan(Mapping[str, Strategy]):
    """Strategies for `marginalize` by name of site; it prints as a table of all latent sites.

    Attributes:
        strategies: The strategy of each site that is taken out.
        reasons: The reason why a latent site is not taken out, by name.
        names: The names of all latent sites, in program order.
    """

    strategies: Mapping[str, Strategy]
    reasons: Mapping[str, str]
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> Strategy:
        """The strategy of a site."""
        return self.strategies[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the sites that are taken out."""
        return iter(self.strategies)

    def __len__(self) -> int:
        """The number of sites that are taken out."""
        return len(self.strategies)

    def __str__(self) -> str:
        """A line for each latent site."""
        rows = [
            (name, type(self.strategies[name]).__name__, "")
            if name in self.strategies
            else (name, "sampled", self.reasons.get(name, ""))
            for name in self.names
        ]
        lines = table([("site", "taken out", "why not"), *rows]).splitlines()
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def auto_marginal(model: Model) -> Callable[..., MarginalPlan]:
    """A rule for `marginalize`: all sites that can be taken out exactly, at a small cost.

    | sites                                                 | strategy          |
    |-------------------------------------------------------|-------------------|
    | discrete, if no table has more than 4,096 states      | `Enumerate(4096)` |
    | real, jointly normal given all others, if no more     | `Gaussian(512)`   |
    | than 512 elements are coupled as a whole              |                   |

    Larger normal sites are tried first. If the chosen sites cannot be taken out together, they are
    tried one after the other, discrete sites first. Both limits are below the defaults of
    `Enumerate` and `Gaussian`.

    Args:
        model: A function of a random key.

    Returns:
        A function of the arguments of the model without its key. It gives a dict of strategies by
        name of site. The dict prints as a table, with the reason why a site is not taken out.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def schools(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        ...     tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
        ...     theta = ppl.sample(key, dist.Normal(mu, tau * jnp.ones(8)), name="theta")
        ...     ppl.sample(key, dist.Normal(theta, 10.0), name="y")
        >>> posterior = ppl.condition(schools, {"y": jnp.arange(8.0)})
        >>> print(ppl.auto_marginal(posterior)())
        site   taken out  why not
        mu     Gaussian
        tau    sampled    it is not normal given the rest
        theta  Gaussian
        >>> left = ppl.marginalize(posterior, ppl.auto_marginal)
        >>> round(ppl.log_density(left)({"tau": 1.0}).item(), 2)
        -28.83
    """

    def plan(*args: Any, **kwargs: Any) -> MarginalPlan:
        arguments, data = Arguments.split(args, kwargs)
        found: list[MarginalPlan] = []

        def look(model: Model, data: list[Any]) -> tuple[()]:
            args, kwargs = arguments.join(data)
            found.append(_Planning(model, args, kwargs).plan())
            return ()

        jax.eval_shape(look, as_pytree(model), data)
        return found[-1]

    return AnalysisCall(plan, "auto_marginal", name_of(model))


class _Planning:
    """The plan for a model at some arguments."""

    def __init__(self, model: Model, args: Any, kwargs: Any):
        self._model = model
        self._args = args
        self._kwargs = kwargs
        self._program: Program = trace_model(model, None, args, kwargs)
        run = ModelRun(model, self._program, LogProbs())
        run.check_kinds()
        self._found = run.sites
        self._latent = [p for p, f in self._found.items() if kind_of(f.site) == LATENT]
        self._reasons: dict[str, str] = {}

    def plan(self) -> MarginalPlan:
        """The strategies, and the reasons why other sites are left."""
        discrete: dict[str, Strategy] = {
            join_scopes(p): Enumerate(_MAX_STATES) for p in self._find_discrete()
        }
        normal: dict[str, Strategy] = {
            join_scopes(p): Gaussian(_MAX_COUPLED) for p in self._find_normal()
        }
        chosen = {**normal, **discrete}
        if self._problem_of(chosen) is not None:
            chosen = self._choose_in_turn(discrete, normal)
        return MarginalPlan(chosen, self._reasons, tuple(map(join_scopes, self._latent)))

    def _choose_in_turn(
        self, discrete: Mapping[str, Strategy], normal: Mapping[str, Strategy]
    ) -> dict[str, Strategy]:
        """Sites that can be taken out together: each is tried with the sites chosen before.

        Discrete sites cannot be sampled by gradients, so they come before normal sites.
        """
        chosen: dict[str, Strategy] = {}
        for strategies, given in ((discrete, ""), (normal, "together with others, ")):
            if self._problem_of({**chosen, **strategies}) is None:
                chosen |= strategies
                continue
            for name, strategy in strategies.items():
                problem = self._problem_of({**chosen, name: strategy})
                if problem is None:
                    chosen[name] = strategy
                else:
                    self._reasons[name] = problem if not chosen else given + problem
        return chosen

    def _leave(self, path: Path, reason: str) -> None:
        self._reasons[join_scopes(path)] = reason

    def _find_discrete(self) -> list[Path]:
        found = []
        for path in self._latent:
            if self._is_real(path):
                continue
            try:
                find_states(self._program, [path])
                found.append(path)
            except ValueError as error:
                self._leave(path, _shorten(str(error)))
        return found

    def _is_real(self, path: Path) -> bool:
        avals = self._found[path].collapse().avals
        return all(jnp.issubdtype(a.dtype, jnp.inexact) for a in avals)

    def _find_normal(self) -> list[Path]:
        """Real sites that are jointly normal given all others, the largest first."""
        sites = self._found.items()
        plants = {p: f.collapse().avals for p, f in sites if f.site.tag == RANDOM}
        scored = list(self._found)
        try:
            scores = TracedScores.of(self._program.jaxpr, plants, scored)
        except NotImplementedError:
            for path in self._latent:
                if self._is_real(path):
                    self._leave(path, "the program of the density cannot be followed")
            return []
        size = {p: sum(a.size for a in self._found[p].collapse().avals) for p in self._latent}
        found: list[Path] = []
        for path in sorted(self._latent, key=lambda p: -size[p]):
            if self._is_normal(path, found, scores):
                found.append(path)
        return [path for path in self._latent if path in found]

    def _is_normal(self, path: Path, others: list[Path], scores: TracedScores) -> bool:
        """Whether a site may be integrated out together with others."""
        if not self._is_real(path):
            return False
        sites = (*others, path)
        integral = GaussianIntegral(
            self._program.jaxpr,
            sites,
            _MAX_COUPLED,
            tuple(self._found),
            find_equal_inputs(self._program.inputs),
            known=find_known_inputs(self._program.inputs),
        )
        try:
            scores.check([path])
            scores.check(sites)
            integral.check()
            integral.check_size()
        except ValueError as error:
            self._leave(path, _shorten(str(error)))
            return False
        return True

    def _problem_of(self, strategies: Mapping[str, Strategy]) -> str | None:
        """Why sites cannot be taken out together; None if they can."""
        if not strategies:
            return None
        model = marginalize(self._model, strategies)
        try:
            run = ModelRun(model, trace_model(model, None, self._args, self._kwargs), LogDensity())
            planted = {p: tuple(f.collapse().avals) for p, f in run.latent().items()}
            jax.eval_shape(run.records, planted)
        except ValueError as error:
            return _shorten(str(error))
        return None


_SHORT = {
    "ppl.scale multiplies them": "ppl.scale multiplies it and what depends on it unlike",
    "weights that ppl.scale gives": "elements that depend on it have different weights",
    "support is not the whole real line": "its support is bounded",
    "observed in part": "it is observed in part",
    "is improper": "it is improper given the rest",
    "not jointly quadratic": "it is not normal together with others",
    "cannot map over a batch": "JAX cannot map a product with it over a batch",
    "not quadratic": "it is not normal given the rest",
    "coupled as a whole": f"more than {_MAX_COUPLED} elements are coupled",
    "depends on many elements": f"more than {_MAX_STATES} states are coupled",
    "summed together over": f"more than {_MAX_STATES} states are coupled",
    "meets many elements": "each element is coupled with many of other sites",
    "has no unconstrained space": "the support of another site depends on it",
    "infinitely many states": "its states are not finitely many",
    "before it runs": "its states are not known before it runs",
    "draws are vectors": "its draws are vectors",
    "was taken out before": "a sum or an integral was taken of what depends on it",
    "no array of real numbers": "it is no single array of real numbers",
}


def _shorten(message: str) -> str:
    """The reason in a few words."""
    return next((short for words, short in _SHORT.items() if words in message), message)
