"""Models: functions of a random key, traced and run under an action at their random sites."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
from jax.tree_util import Partial

from ppl import distribution
from ppl._keys import check_keys
from ppl._lift import lift
from ppl._sample import LATENT, OBSERVED, TAG
from ppl.harvest._interpreter import Action, Operands
from ppl.harvest._names import fit_plant, known, paths_in
from ppl.harvest._program import Harvester, Program, trace
from ppl.harvest._sow import Site, describe
from ppl.harvest._survey import Found, Path

Model = Callable[..., Any]


def as_pytree(model: Model) -> Model:
    """A model whose data are the leaves of a pytree, to be an argument of a jitted function."""
    if not callable(model):
        raise TypeError(f"expected a model, a function of a random key, got {model!r}.")
    return Partial(model) if jax.tree_util.all_leaves([model]) else model


def trace_model(
    model: Model, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Program:
    """Trace a model; without a `key` where only what does not depend on it is wanted."""
    try:
        inspect.signature(model).bind(key, *args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"{name_of(model)} cannot be called with a random key and then the given arguments: "
            f"{error}. A model is a function of a key, f(key, *args, **kwargs)."
        ) from error
    except ValueError:  # A callable without a signature.
        pass
    if key is None:
        key = jax.eval_shape(lambda: jax.random.key(0))
    return trace(model, (key, *args), kwargs)


def name_of(model: Model) -> str:
    """A model's name, for errors."""
    while isinstance(model, Partial):
        model = model.args[0] if model.args and callable(model.args[0]) else model.func
    return f"model {getattr(model, '__name__', type(model).__name__)!r}"


class SiteAction(Action):
    """An action at the random sites of a model."""

    def matches(self, site: Site) -> bool:
        return site.tag == TAG

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return not planted, False, True


def at_site(
    site: Site, operands: Operands, values: Sequence[Any], fn: Callable[[Any, Any], Any]
) -> Any:
    """`fn(value, distribution)` under the axes of the site."""

    def of_leaves(values: Any, *extras: Any) -> Any:
        value = jax.tree.unflatten(site.tree, values)
        return fn(value, jax.tree.unflatten(site.extra_tree, extras))

    return lift(of_leaves, site.axes, 1)(tuple(values), *operands.extras)


def score(site: Site, operands: Operands, values: Sequence[Any]) -> tuple[Sequence[Any], jax.Array]:
    """A value, within the support for what follows, and its log probability."""

    def fn(value: Any, d: Any) -> tuple[Any, jax.Array]:
        log_prob = distribution.log_prob(d, value)
        return distribution.within_support(d, value, log_prob), log_prob

    value, log_prob = at_site(site, operands, values, fn)
    return jax.tree.leaves(value), log_prob


def log_prob(site: Site, operands: Operands, values: Sequence[Any]) -> jax.Array:
    """The log probability of a value at a site, with the `vmap` axes in front."""
    return at_site(site, operands, values, lambda value, d: distribution.log_prob(d, value))


class Run(Harvester):
    """A traced model under an action at its sites, whose names are checked."""

    def __init__(self, model: Model, program: Program, action: Action):
        super().__init__(program, action)
        self.name = name_of(model)
        for path, found in self.sites.items():
            if found.site.note not in (LATENT, OBSERVED):
                raise ValueError(
                    f"{self.name}: site {describe(path)} has the tag {TAG!r} but no distribution. "
                    "Draw it with ppl.sample, or sow it with another tag."
                )
            if found.shared:
                raise ValueError(
                    f"{self.name}: site {describe(path)} is one value for several shards of a "
                    "shard_map, which would count once for each. Sample it outside, and pass it in."
                )
            if found.count > 1:
                raise ValueError(
                    f"{self.name}: site {describe(path)} is sampled {found.count} times. Give "
                    "each its own name, or nest the submodel: ppl.nest(submodel, scope=...)."
                )

    def latent(self) -> dict[Path, Found]:
        return {p: found for p, found in self.sites.items() if found.site.note == LATENT}

    def fit(
        self, values: Mapping[str, Any], where: str, *, complete: bool
    ) -> dict[Path, tuple[jax.Array, ...]]:
        """The leaves of values for latent sites, each as its site demands."""
        entries = self.entries(values, where, complete=complete)
        return {
            path: fit_plant(
                f"{where}: site {describe(path)}", value, self.sites[path], same_kind=True
            )
            for path, value in entries.items()
        }

    def entries(self, values: Mapping[str, Any], where: str, *, complete: bool) -> dict[Path, Any]:
        """Values for latent sites by path; unknown, observed and missing names are errors."""
        latent = self.latent()
        entries = dict(paths_in(values, self.sites))
        for path in entries:
            if path not in self.sites:
                raise ValueError(
                    f"{where}: {self.name} has no site {describe(path)}. {known(list(latent))}"
                )
            if path not in latent:
                raise ValueError(
                    f"{where}: site {describe(path)} of {self.name} is observed already; give "
                    "values only for latent sites."
                )
        missing = [path for path in latent if path not in entries]
        if missing and complete:
            raise ValueError(
                f"{where}: {self.name} needs a value for every latent site; missing: "
                f"{', '.join(map(describe, missing))}."
            )
        return entries

    def records(self, plants: Mapping[Path, Any]) -> dict[Path, Any]:
        """The records: those of a density, so every draw must have randomness of its own.

        They must not depend on the model's key beyond its draws.
        """
        if self.reads(0, plants):
            raise ValueError(
                f"{self.name}: its density depends on its random key elsewhere than in "
                "ppl.sample, so "
                "it is no function of the values of its sites. Draw all randomness with "
                "ppl.sample, or "
                "pass it as an argument."
            )
        self.check_keys()
        return self.run(plants, live_outs=False)[1]

    def check_keys(self, among: Collection[Path] | None = None) -> None:
        """An error if draws, one of them at a site `among` these, would share all randomness."""
        check_keys(self.name, self._program, self._survey, among)
