"""conditional: the exact full conditional of a site, as a distribution."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.analysis.dependence import Dependence, find_ancestors
from ppl.common.missing_data import is_imputed
from ppl.core.model_pytree import Model, as_pytree, name_of
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.names import suggest_names
from ppl.harvest.program import Harvester, Program
from ppl.harvest.survey import Path, Sites, describe, join_scopes
from ppl.marginal.block_integral import find_equal_inputs
from ppl.marginal.conjugacy import Question, find_family
from ppl.marginal.factors import EliminationError
from ppl.marginal.finite_supports import find_states
from ppl.marginal.full_conditional import (
    RecordValues,
    finite_conditional,
    normal_conditional,
    score_values,
)
from ppl.marginal.gaussian_integral import GaussianIntegral
from ppl.marginal.marginal_strategies import Enumerate, Gaussian
from ppl.marginal.natural_parameters import fit_natural
from ppl.marginal.ordered_layout import find_known_inputs
from ppl.marginal.summation import Summation
from ppl.primitives.site_kinds import FACTOR, LATENT, OBSERVED, RANDOM, kind_of
from ppl.transforms.density import LogDensity


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Conditional:
    """Full conditional of a site, made by `conditional`; a call gives the distribution.

    Attributes:
        model: The model, as a pytree.
        site: The name of the site, "scope.name" for one in a scope.
    """

    model: Model
    site: str

    def __call__(self, values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The full conditional given the values of all other latent sites, or None.

        Args:
            values: The values, nested as the scopes are. A value of the site itself is ignored.
            *args: The arguments of the model without its key.
            **kwargs: Its keyword arguments.
        """
        if not isinstance(values, Mapping):
            raise TypeError(
                "conditional: expected a dict of values by site, before the arguments of the "
                f"model, got {type(values).__name__}: {values!r}. Call "
                "ppl.conditional(model, site)(values, *args)."
            )
        return _Search(self.model, self.site, values, args, kwargs).find()

    def __repr__(self) -> str:
        """The site, the model, and the call that gives the full conditional."""
        model = name_of(self.model)
        site = self.site
        return (
            f"<ppl.conditional of {site!r} in {model}: call it with the values of all other sites, "
            "as ppl.conditional(model, site)(values, *args)>"
        )


class _Search:
    """The search for the full conditional of a site in one call."""

    def __init__(
        self,
        model: Model,
        name: str,
        values: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ):
        self._model = model
        self._args = args
        self._kwargs = kwargs
        self._program = trace_model(model, None, args, kwargs)
        run = ModelRun(model, self._program, LogDensity())
        self._found = run.sites
        self._path = self._find_path(run, name)
        self._plants = self._find_plants(run, values)
        self._inputs = self._program.inputs
        self._scored = find_scored(self._program, self._found, self._path)

    def _find_path(self, run: ModelRun, name: str) -> Path:
        run.check_kinds()
        latent = [p for p, found in run.sites.items() if kind_of(found.site) == LATENT]
        for path, found in run.sites.items():
            if join_scopes(path) != name:
                continue
            if path in latent:
                return path
            raise ValueError(
                f"conditional: site {describe(path)} of {run.name} is {kind_of(found.site)}. "
                f"{suggest_names(latent, what='latent sites')}"
            )
        raise ValueError(
            f"conditional: {run.name} has no site {name!r}{run.explain_gone(name)}. "
            f"{suggest_names(latent, what='latent sites')}"
        )

    def _find_plants(self, run: ModelRun, values: Mapping[str, Any]) -> dict[Path, Any]:
        """The values of all random sites but the site of the conditional."""
        entries = {
            path: value
            for path, value in run.entries(values, "conditional").items()
            if path != self._path
        }
        missing = [p for p in run.latent() if p not in entries and p != self._path]
        if missing:
            raise ValueError(
                f"conditional: {run.name} needs a value for every latent site but "
                f"{describe(self._path)}; missing: {', '.join(map(describe, missing))}."
            )
        plants = run.fit_entries(entries, "conditional")
        run.check_density({**plants, self._path: ()})
        observed = frozenset(p for p, f in run.sites.items() if kind_of(f.site) == OBSERVED)
        look = Harvester(self._program, RecordValues(observed))
        avals = run.sites[self._path].collapse().avals
        nothing = tuple(jnp.zeros(a.shape, a.dtype) for a in avals)  # Data do not depend on draws.
        data = look.run({**plants, self._path: nothing}, live_outs=False)[1]
        return {**plants, **data}

    def _is_observed_in_part(self) -> bool:
        return any(map(is_imputed, self._found[self._path].sites))

    def find(self) -> Any:
        """The full conditional, or None."""
        avals = self._found[self._path].collapse().avals
        if len(avals) != 1:
            return None
        found = self._find_finite()
        if found is None:
            found = self._find_normal()
        return self._find_conjugate() if found is None else found

    def _find_finite(self) -> Any:
        jaxpr = self._program.jaxpr
        try:
            states = find_states(self._program, [self._path])
        except ValueError:
            return None
        equal = find_equal_inputs(self._inputs)
        summation = Summation(jaxpr, states, Enumerate().max_states, self._scored, equal)
        try:
            return finite_conditional(summation, self._inputs, self._plants)
        except EliminationError:
            return None

    def _find_normal(self) -> Any:
        if self._is_observed_in_part():  # No normal distribution: some entries are data.
            return None
        integral = GaussianIntegral(
            self._program.jaxpr,
            (self._path,),
            Gaussian().max_block,
            self._scored,
            find_equal_inputs(self._inputs),
            known=find_known_inputs(self._inputs),
        )
        try:
            integral.check()
            integral.check_size()
        except (ValueError, NotImplementedError):
            return None
        make = getattr(self._find_family(), "make", None)
        try:
            return normal_conditional(integral, self._inputs, self._plants, make)
        except ValueError as error:
            raise ValueError(
                f"conditional: the full conditional of site {describe(self._path)} is improper. "
                "Give it a proper prior, or data that tell all of its elements apart."
            ) from error

    def _find_family(self) -> Any:
        """The exponential family that the prior of the site belongs to, or None."""
        found = self._found[self._path]
        if found.branches or self._is_observed_in_part():
            return None

        return find_family(self._program, self._path)

    def _find_conjugate(self) -> Any:
        family = self._find_family()
        (aval,) = self._found[self._path].collapse().avals
        if family is None or aval.dtype not in (np.float32, np.float64):
            return None
        question = Question(
            self._program,
            self._model,
            self._args,
            self._kwargs,
            self._path,
            self._scored,
            family,
            self._found,
            self._plants,
        )
        if not question.is_conjugate():
            return None

        def log_density(x: jax.Array) -> jax.Array:
            plants = {**self._plants, self._path: (x,)}
            scores = score_values(self._program.jaxpr, self._inputs, plants, self._scored)
            return sum(scores.values())  # pyright: ignore

        return family.make(*fit_natural(family, log_density, aval.shape, aval.dtype))


def find_scored(program: Program, sites: Sites, path: Path) -> tuple[Path, ...]:
    """A site, and all sites whose scores depend on it given the values of the others."""
    graph = Dependence()(program.jaxpr).sites
    parents = {path: sown.parents | sown.earlier for path, sown in graph.items()}

    def is_passed(other: Path) -> bool:
        return other in graph and not (other in sites and sites[other].site.tag == RANDOM)

    def depends(other: Path) -> bool:
        return path in find_ancestors(parents, [other], is_passed)

    scored = [p for p, f in sites.items() if f.site.tag in (RANDOM, FACTOR)]
    return (path, *(p for p in scored if p != path and depends(p)))


def conditional(model: Model, site: str) -> Conditional:
    """The exact full conditional of a latent site, as a distribution where there is one.

        p(site | all other sites, data)

    The joint density is `log_density`: a score that `scale` multiplies counts with its factor.
    (`recover` draws the sites that `marginalize` has taken out without factors.)

    | site | full conditional |
    |---|---|
    | discrete, elements independent given the rest | `logits` of the states of each element |
    | discrete, elements coupled, as in a chain | joint, with draws by backward sampling |
    | discrete, more than 65,536 joint states of coupled elements in one table | None |
    | normal, elements independent given the rest | `Normal` |
    | jointly normal | joint, at the cost of `ppl.Gaussian()` |
    | conjugate: beta, Dirichlet, gamma, inverse gamma, log-normal, von Mises | same family |
    | conjugate matrix: Wishart, inverse Wishart | same family |
    | truncated between numbers, and conjugate before; half-normal | same family, truncated |
    | normal, observed in part by `impute`; any other site | None |
    | normal given sites that `marginalize` has integrated out, with an improper prior | None |

    The last row has this reason: in a marginalized model the score of a site is the log of a sum or
    an integral. Only its slopes tell the family, and a site of `Flat` or `from_density` has no
    family to compare them with.

    Args:
        model: A function of a random key.
        site: The name of a latent site, "scope.name" for one in a scope.

    Returns:
        A function `(values, *args, **kwargs)` of the values of all other latent sites, nested as
        the scopes are, and of the arguments of the model without its key. It gives a distribution
        with `sample(key, sample_shape)` and `log_prob(value)`, or None.

    Raises:
        TypeError: If `site` is not a string, or when called, if `values` is not a dict.
        ValueError: When called, if a name is unknown, the site is not latent, or a value is
            missing.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key):
        ...     rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        ...     ppl.sample(key, dist.Poisson(rate * jnp.ones(3)), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.array([4, 2, 3])})
        >>> rate = ppl.conditional(posterior, "rate")({})
        >>> type(rate).__name__, round(float(rate.concentration), 3), round(float(rate.rate), 3)
        ('Gamma', 11.0, 4.0)
    """
    if not isinstance(site, str):
        raise TypeError(f"conditional: expected the name of a site, got {site!r}.")
    return Conditional(as_pytree(model), site)
