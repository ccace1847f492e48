"""Model runs: a model traced to a program, and evaluated under an action at its sites."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import jax

from ppl.analysis.ignored_dependence import check_ignored
from ppl.analysis.key_reuse import check_keys
from ppl.analysis.misplaced_sites import explain
from ppl.analysis.summed_sites import check_scored, explain_gone
from ppl.common import distribution_protocol
from ppl.common.foreign_arrays import convert_arguments
from ppl.common.missing_data import Missing
from ppl.common.row_order import check_row_orders
from ppl.core.keyed_density import explain_key
from ppl.core.model_pytree import (
    Model,
    check_callable,
    explaining_foreign_models,
    name_of,
    without_scopes,
)
from ppl.core.scalar_sizes import NOT_CONCRETE, explaining_sizes, needs_a_number
from ppl.core.site_cache import cached_at_site, lift_to_leaves
from ppl.harvest.interpreter import Action, Operands
from ppl.harvest.names import fit_plant, paths_in, suggest_names
from ppl.harvest.program import Harvester, Program, trace
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.sowing import Site
from ppl.harvest.survey import (
    Found,
    MisplacedError,
    Path,
    Sites,
    SowError,
    Survey,
    describe,
    join_scopes,
)
from ppl.primitives.site_kinds import (
    DETERMINISTIC,
    FACTOR,
    LATENT,
    OBSERVED,
    PARAM,
    RANDOM,
    STATE,
    TAGS,
    Hidden,
    kind_of,
)


@explaining_foreign_models
def trace_model(
    model: Model, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Program:
    """Trace a model to a program.

    Args:
        model: A function of a random key.
        key: A random key, or None for an abstract one; results must then not depend on it.
        args: The arguments behind the key.
        kwargs: Keyword arguments.

    Raises:
        TypeError: If the model cannot be called with these arguments.
        ValueError: If arguments and data have the same rows in two orders.
    """
    check_callable(model)
    check_row_orders(model, args, kwargs)
    args, kwargs = convert_arguments(args, kwargs)
    try:
        inspect.signature(without_scopes(model)).bind(key, *args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"{name_of(model)} cannot be called with a random key and then the given arguments: "
            f"{error}. A model is a function of a key, f(key, *args, **kwargs); arguments that "
            "the function called does not have, as mcmc has num_draws, are passed on to it."
        ) from error
    except ValueError:  # A callable without a signature.
        pass
    if key is None:
        key = jax.eval_shape(lambda: jax.random.key(0))
    with explaining_sizes(model, args, kwargs):
        try:
            return trace(model, (key, *args), kwargs)
        except (*NOT_CONCRETE, TypeError) as error:
            if needs_a_number(error):
                error.add_note(
                    f"{name_of(model)} is traced, so that its sites have no numbers yet: neither "
                    "Python's if, while, range, float and int nor NumPy can use a value that "
                    "depends on a site. Use jnp.where or lax.cond for a choice, lax.scan or "
                    "lax.fori_loop for a loop, jax.numpy for numpy, and pass sizes as integers of "
                    "Python."
                )
            raise
        except ValueError as error:
            if "passed to shard_map" not in str(error):
                raise
            raise ValueError(
                f"{name_of(model)} calls jax.shard_map on a mesh with explicit axes, which asks of "
                "each array to be spread as in_specs says already, and values of sites and "
                "arguments of a model are not. Make the mesh with automatic axes: jax.make_mesh("
                "shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))."
            ) from error


class SiteAction(Action):
    """Action at the sites of a model with certain tags; sites with other tags are stripped."""

    tags: ClassVar[tuple[str, ...]] = TAGS

    def matches(self, site: Site) -> bool:
        """Whether the site has one of the tags of the action."""
        return site.tag in self.tags

    def strips(self, site: Site) -> bool:
        """Whether the site has a tag of models, but none of the action."""
        if isinstance(site.tag, Hidden) and not self.records:
            return False  # Rewriting a model keeps hidden sites, for actions that record them.
        return (site.tag in TAGS or isinstance(site.tag, Hidden)) and not self.matches(site)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution."""
        return not planted, False, True


def apply_at_site(
    site: Site, operands: Operands, values: Sequence[Any], fn: Callable[[Any, Any], Any]
) -> Any:
    """Apply `fn(value, distribution)` over the `vmap` axes of a site."""
    return lift_to_leaves(fn, site)(tuple(values), *operands.extras)


def score(
    site: Site, operands: Operands, values: Sequence[Any], *, summed: bool = False
) -> tuple[Sequence[Any], jax.Array]:
    """A value, replaced by a point of the support if outside of it, and its log probability."""
    if site.tag == FACTOR:
        return values, distribution_protocol.sum_all(values[0]) if summed else values[0]
    fn = _value_and_log_prob if operands.is_used else _only_log_prob
    value, log_prob = cached_at_site(fn, site, values, operands.extras, summed=summed)
    return values if value is None else jax.tree.leaves(value), log_prob


def _value_and_log_prob(value: Any, d: Any) -> tuple[Any, jax.Array]:
    """Value and log probability; the value is None if it stays as it is.

    None tells the caller that the value does not depend on the distribution.
    """
    log_prob = distribution_protocol.log_prob(d, value)
    safe = distribution_protocol.replace_outside_support(d, value, log_prob)
    return None if safe is value else safe, log_prob


def _only_log_prob(value: Any, d: Any) -> tuple[None, jax.Array]:
    return None, distribution_protocol.log_prob(d, value)


def log_prob(
    site: Site, operands: Operands, values: Sequence[Any], *, summed: bool = False
) -> jax.Array:
    """The log probability of a value at a site, with the `vmap` axes in front, or summed."""
    if site.tag == FACTOR:
        return distribution_protocol.sum_all(values[0]) if summed else values[0]
    return cached_at_site(_only_log_prob, site, values, operands.extras, summed=summed)[1]


_FOUND = {LATENT: "sampled", OBSERVED: "sampled", DETERMINISTIC: "recorded", FACTOR: "added"}
_FOR_TAG = {
    RANDOM: "but no distribution. Draw it with ppl.sample",
    DETERMINISTIC: "of ppl.deterministic. Record it with that",
    FACTOR: "of ppl.factor. Add it with that",
}
_REFUSED = {
    LATENT: "latent",
    OBSERVED: "observed already; give values only for latent sites",
    DETERMINISTIC: "deterministic: it follows from other sites, or is fixed by intervene",
    FACTOR: "a factor, which is no value",
}


class ModelRun(Harvester):
    """A traced model under an action, with checks of its sites and errors that name the model.

    Raises:
        ValueError: If a site has an unknown kind, a name is used twice, or one random site or
            factor is shared by several shards.
    """

    def __init__(self, model: Model, program: Program, action: Action):
        super().__init__(program, action)
        self.name = name_of(model)
        by_name: dict[str, Path] = {}
        for path, found in self._find_sites().items():
            if by_name.setdefault(join_scopes(path), path) != path:
                raise ValueError(
                    f"{self.name}: two sites are called {describe(path)}, one of them in a scope, "
                    "as tables and results join scopes by dots. Rename one of them."
                )
            kind = kind_of(found.site)
            if not kind:
                tag = found.site.tag
                raise ValueError(
                    f"{self.name}: site {describe(path)} has the tag {tag!r} "
                    f"{_FOR_TAG[str(tag)]}, or sow it with another tag."
                )
            if found.shared and kind != DETERMINISTIC:
                raise ValueError(
                    f"{self.name}: site {describe(path)} is one value for several shards of a "
                    "shard_map, which would count once for each. Sample it outside, and pass it in."
                )
            if found.count > 1:
                raise ValueError(
                    f"{self.name}: site {describe(path)} is {_FOUND[kind]} {found.count} times. "
                    "Give each its own name, or nest the submodel: ppl.nest(submodel, scope=...)."
                )

    def _find_sites(self) -> Sites:
        """The sites; an error if their number depends on values."""
        with self._explain_errors():
            return self.sites

    def run(
        self, plants: Mapping[Path, Any], *, live_outs: bool = True
    ) -> tuple[list[Any], dict[Path, Any]]:
        """Evaluate the program with plants by path, with errors that name the model.

        Returns:
            The leaves of the output (None if `live_outs` is false), and the records by path.
        """
        with self._explain_errors():
            return super().run(plants, live_outs=live_outs)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except MisplacedError as error:
            raise ValueError(f"{self.name}: {explain(error)}") from error
        except SowError as error:
            where = f"{self.name}: site {describe(error.path)}"
            raise ValueError(f"{where}: {error.message}") from error

    def explain_gone(self, name: str) -> str:
        """Clause on a site that is missing because it was hidden or taken out, "" for any other."""
        gone = explain_gone(self._program.jaxpr)
        return next((clause for path, clause in gone.items() if join_scopes(path) == name), "")

    def check_kinds(self) -> None:
        """Check that each site has one kind in all branches of a cond.

        Raises:
            ValueError: If a site has several kinds, such as latent and observed.
        """
        for path, found in self.sites.items():
            first, *others = dict.fromkeys(map(kind_of, found.sites))
            if others:
                raise ValueError(
                    f"{self.name}: site {describe(path)} is {first} in one branch of a cond and "
                    f"{others[0]} in another, so that which variables there are would depend on a "
                    "value. Make it the same in all of them; data that are there or not are given "
                    "with a mask, by ppl.ignore."
                )

    def latent(self) -> dict[Path, Found]:
        """The latent sites by path."""
        self.check_kinds()
        return {p: found for p, found in self.sites.items() if kind_of(found.site) == LATENT}

    def output(self, plants: Mapping[Path, Any]) -> Any:
        """The return value of the model."""
        return self._program.unflatten(self.run(plants)[0])

    def fit(
        self,
        values: Mapping[str, Any],
        where: str,
        *,
        complete: bool = False,
        kinds: Sequence[str] = (LATENT,),
    ) -> dict[Path, tuple[jax.Array, ...]]:
        """The leaves of values by path, cast to the dtypes of their sites and checked.

        Args:
            values: Values by name, nested as the scopes are.
            where: The name of the caller in errors.
            complete: Whether all latent sites must have a value.
            kinds: The kinds of site that may have values.

        Raises:
            ValueError: If a name or shape does not fit.
            TypeError: If a value has another kind of dtype than its site.
        """
        return self.fit_entries(self.entries(values, where, complete=complete, kinds=kinds), where)

    def fit_entries(
        self, entries: Mapping[Path, Any], where: str
    ) -> dict[Path, tuple[jax.Array, ...]]:
        """The leaves of values given by path, cast to the dtypes of their sites and checked."""
        for path, value in entries.items():
            if isinstance(value, Missing):
                made = "ignore" if value.gaps is None else "impute"
                raise TypeError(
                    f"{where}: site {describe(path)}: expected values, got data with gaps, as "
                    f"ppl.{made} makes them. They observe a site: give them to "
                    f"ppl.condition(model, {{{join_scopes(path)!r}: ppl.{made}(data)}})."
                )
        sites = self.sites
        return {
            path: fit_plant(f"{where}: site {describe(path)}", value, sites[path], same_kind=True)
            for path, value in entries.items()
        }

    def entries(
        self,
        values: Mapping[str, Any],
        where: str,
        *,
        complete: bool = False,
        kinds: Sequence[str] = (LATENT,),
        taken_out: Sequence[str] = (),
    ) -> dict[Path, Any]:
        """Values by path, from values by name for sites of some kinds.

        Values of deterministic sites that the action strips are skipped: draws and simulations
        contain them, but they follow from other sites. Values of sites named in
        `taken_out` are refused, as `marginalize` takes these sites out afterwards.

        Raises:
            ValueError: If a name is unknown, a site has another kind, or, if `complete`, a latent
                site has no value.
        """
        self.check_kinds()
        entries = dict(paths_in(values, self.sites))
        if not entries.keys() <= self.sites.keys():
            stripped = self._find_stripped()
            gone = explain_gone(self._program.jaxpr)
            pairs = paths_in(values, {**gone, **stripped, **self.sites})
            entries = {path: value for path, value in pairs if path not in stripped}
        what = f"{' or '.join(kinds)} sites"
        hidden = [path for path in self.sites if join_scopes(path) in taken_out]
        allowed = [p for p, x in self.sites.items() if kind_of(x.site) in kinds and p not in hidden]
        for path in entries:
            if path not in self.sites:
                clause = self.explain_gone(join_scopes(path))
                raise ValueError(
                    f"{where}: {self.name} has no site {describe(path)}{clause}. "
                    f"{suggest_names(allowed, path, what=what)}"
                )
            if path not in allowed:
                refused = _REFUSED[kind_of(self.sites[path].site)]
                if path in hidden:
                    refused = "taken out by ppl.marginalize; data observe the sites that are left"
                raise ValueError(
                    f"{where}: site {describe(path)} of {self.name} is {refused}. "
                    f"{suggest_names(allowed, what=what)}"
                )
        missing = [path for path in self.latent() if path not in entries]
        if missing and complete:
            raise ValueError(
                f"{where}: {self.name} needs a value for every latent site; missing: "
                f"{', '.join(map(describe, missing))}."
            )
        return entries

    def _find_stripped(self) -> Sites:
        """The deterministic sites that the action strips."""
        strips = self._action.strips

        def is_stripped(site):
            return site.tag == DETERMINISTIC and strips(site)

        return Survey(is_stripped, lambda _: False, CONSTRUCTS)(self._program.jaxpr)

    def parameters(self) -> list[Path]:
        """The paths of parameters made by `param`."""
        return self._paths_of(PARAM)

    def states(self) -> list[Path]:
        """The paths of what `state` has made."""
        return self._paths_of(STATE)

    def _paths_of(self, tag: str) -> list[Path]:
        def has_tag(site):
            return site.tag == tag

        return list(Survey(has_tag, lambda _: False, CONSTRUCTS)(self._program.jaxpr))

    def records(self, plants: Mapping[Path, Any]) -> dict[Path, Any]:
        """The records by path of an action that scores sites: parts of a density.

        Raises:
            ValueError: If the records depend on the key of the model except through its draws, or
                if draws share their randomness.
        """
        self.check_density(plants)
        return self.run(plants, live_outs=False)[1]

    def check_density(self, plants: Mapping[Path, Any]) -> None:
        """Check that the records of an action that scores sites are functions of their values.

        Raises:
            ValueError: In the cases of `records`.
        """
        self.check_kinds()
        check_scored(self.name, self._program.jaxpr)
        if self.reads(0, plants):
            raise ValueError(explain_key(self.name, self._program, self._action, plants))
        self.check()

    def check(self) -> None:
        """Check that the model has a density: kinds of sites, keys and ignored data.

        Raises:
            ValueError: If the model has no density.
        """
        self.check_kinds()
        check_keys(self.name, self._program, self._survey)
        check_ignored(self.name, self._program, self.sites)
