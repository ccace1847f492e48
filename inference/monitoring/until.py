"""Until: precision at which a run of chains ends."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inference.common.leaf_names import element_names, named_leaves, part_names
from inference.results.summary import Summary

FIRST_LOOK = 100
LOOK_GROWTH = 1.5
MAX_SHOWN = 6  # entries of a site in a message
MIN_ESS = 400  # of the mean, before a Monte Carlo standard error is believed


@dataclasses.dataclass(frozen=True)
class Until:
    """Precision at which :func:`mcmc` ends a run: all given criteria hold, or time is over.

    The rule looks at the chains at fixed numbers of draws of each chain: at 100, and then at half
    as many more each time, 150, 225, 338, ... All chains end at the same look. So the draws follow
    only from the key unless `seconds` end the run. The diagnostics are computed as in the summary.

    The error is estimated from the same draws as the mean. If a run ends as soon as the estimate
    happens to be small, intervals are too short. Three things prevent this: few looks, a minimum of
    draws, and a minimum of 400 for the effective sample size behind an error in `mcse`. On
    autoregressive chains, 95 % intervals ``mean +- 1.96 * mcse_mean`` at the end contain the mean
    in 94 % of runs or more. A rule with an `ess` of less than 400 and without `mcse` ends earlier;
    its intervals may contain the mean less often.

    Attributes:
        mcse: Largest Monte Carlo standard error of the mean, by name of a site, scope, row or
            scalar, such as ``{"mu": 0.01, "theta[0]": 0.1}``, with the names of the summary: those
            of entries are their labels, if there are any, as in ``"attack[England]"``. If all
            scalars of a name are constant in all draws so far, the run goes on, as for the
            indicator of a rare event. If only some are constant, they are left out, as the diagonal
            of a correlation matrix; so name each indicator of a rare event.
        ess: Smallest effective sample size of the bulk and of the tails: a number for all scalars
            that vary, or a dict by name, as for `mcse`.
        rhat: Largest R-hat of all scalars that vary, a number above 1 such as 1.01.
        seconds: Seconds since the call of `mcmc`, including compilation. When they are over, the
            run ends with the draws that it has, and says so. Warm-up is never cut short: a run
            whose time is over goes on until each chain has 4 draws.

    Raises:
        TypeError: if a value is not a number, or a name not a string.
        ValueError: if a number is out of range, or no argument is given.

    Example:
        >>> Until(mcse={"mu": 0.01}, ess=400, rhat=1.01, seconds=3600).rhat
        1.01

    References:
        Glynn and Whitt (1992), The asymptotic validity of sequential stopping rules for stochastic
        simulations, Annals of Applied Probability 2; Flegal, Haran and Jones (2008), Markov chain
        Monte Carlo: can we trust the third significant figure?, Statistical Science 23; Vats,
        Flegal and Jones (2019), Multivariate output analysis for Markov chain Monte Carlo,
        Biometrika 106.
    """

    mcse: Mapping[str, float] | None = None
    ess: float | Mapping[str, float] | None = None
    rhat: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.mcse is not None and not isinstance(self.mcse, Mapping):
            raise TypeError(
                'mcse of Until must be a dict of numbers by name, as {"mu": 0.01}, got '
                f"{self.mcse!r}"
            )
        if isinstance(self.ess, np.number):
            object.__setattr__(self, "ess", self.ess.item())
        for name, given in (("mcse", self.mcse), ("ess", self.ess)):
            numbers = given if isinstance(given, Mapping) else {"": given}
            for key, number in numbers.items():
                if not isinstance(key, str):
                    raise TypeError(f"{name} of Until must have names of sites, got {key!r}")
                of = f"{name}[{key!r}]" if isinstance(given, Mapping) else name
                _check_positive(of, number)
        _check_positive("seconds", self.seconds)
        _check_positive("rhat", self.rhat)
        if self.rhat is not None and self.rhat <= 1:
            raise ValueError(f"rhat of Until must be a number above 1, as 1.01, got {self.rhat!r}")
        if not self.has_precision and self.seconds is None:
            raise ValueError("Until needs at least one of mcse, ess, rhat and seconds, got none")

    @property
    def has_precision(self) -> bool:
        """Whether a criterion other than `seconds` is given."""
        return bool(self.mcse) or self.rhat is not None or self.ess not in (None, {})

    def check_names(
        self, shapes: Any, num_chains: int, labels: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        """Checks the names against sites of some shapes.

        Args:
            shapes: Shapes of the values of sites, by name.
            num_chains: Number of chains.
            labels: Labels of the axes of sites that have any, by name.

        Raises:
            ValueError: if no site, scope, row or scalar of the summary has a name; or if `rhat` is
                given and there is only one chain.
        """
        if self.rhat is not None and num_chains == 1:
            raise ValueError("rhat of Until compares chains: num_chains must be at least 2, got 1")
        sites = {
            part: element_names(part, leaf.shape, (labels or {}).get(name, ()))
            for name, leaf in named_leaves(shapes)
            for part in part_names(name, leaf.dtype)
        }
        for argument in ("mcse", "ess"):
            given = getattr(self, argument)
            for name in given if isinstance(given, Mapping) else ():
                if not any(any(_places(name, scalars)) for scalars in sites.values()):
                    raise ValueError(f"{argument} of Until: {_suggest(name, sites)}")

    def unmet(self, summary: Summary) -> tuple[str, ...]:
        """Criteria that do not hold, in words, each with its worst scalar.

        Raises:
            ValueError: if a name stands for no scalar of the summary.
        """
        wrong = (criterion.text for criterion in self._criteria(summary) if not criterion.holds)
        return tuple(dict.fromkeys(wrong))

    def growth(self, summary: Summary) -> float:
        """Factor by which the number of draws must grow, a guess; R-hat is left out."""
        shares = [x.share for x in self._criteria(summary) if x.kind != "rhat"]
        finite = [x for x in shares if math.isfinite(x)]
        return max([1.0, *finite]) if len(finite) == len(shares) else math.nan

    def _criteria(self, summary: Summary) -> Iterator["_Criterion"]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ess_mean = (summary.sd / summary.mcse_mean) ** 2
        for name, most in (self.mcse or {}).items():
            error = _worst(summary, summary.mcse_mean, np.argmax, name)
            text = f"MCSE of {error[0]} is {error[1]:.2g}, not {most:g}"
            yield _criterion("mcse", error, (error[1] / most) ** 2, text)
            few = _worst(summary, ess_mean, np.argmin, name)
            text = f"ESS of the mean of {few[0]} is {few[1]:.0f}, not the {MIN_ESS} that mcse needs"
            yield _criterion("mcse", few, _ratio(MIN_ESS, few[1]), text)
        ess = {"": self.ess} if isinstance(self.ess, int | float) else self.ess
        for name, least in (ess or {}).items():
            for part in ("bulk", "tail"):
                few = _worst(summary, getattr(summary, f"ess_{part}"), np.argmin, name)
                text = f"{part} ESS of {few[0]} is {few[1]:.0f}, not {least:g}"
                yield _criterion("ess", few, _ratio(least, few[1]), text)
        if self.rhat is not None:
            high = _worst(summary, summary.rhat, np.argmax)
            text = f"R-hat of {high[0]} is {high[1]:.4g}, not {self.rhat:g}"
            yield _criterion("rhat", high, high[1] / self.rhat, text)


class _Criterion(NamedTuple):
    """Criterion of a kind, with the share of draws that it needs, at most 1 if it holds."""

    kind: str
    share: float
    text: str

    @property
    def holds(self) -> bool:
        return self.share <= 1


def _criterion(kind: str, worst: "_Worst", share: float, text: str) -> _Criterion:
    if worst.varies:
        return _Criterion(kind, share, text)
    text = f"{worst.name} has not varied yet" if worst.name else "no scalar has varied yet"
    return _Criterion(kind, math.inf, text)


def looks(num_draws: int) -> Iterator[int]:
    """Numbers of draws of each chain at which a run is looked at, up to `num_draws`.

    Example:
        >>> list(looks(400))
        [100, 150, 225, 338, 400]
    """
    now = FIRST_LOOK
    while now < num_draws:
        yield now
        now = math.ceil(LOOK_GROWTH * now)
    yield num_draws


class _Worst(NamedTuple):
    name: str
    value: float
    varies: bool = True


def _worst(summary: Summary, values: np.ndarray, find: Any, name: str = "") -> _Worst:
    """The worst of the varying scalars that have a name; without a name, of all varying scalars.

    NaN is worse than any number. If all scalars of a name are constant, the value is NaN.
    """
    names = np.array(summary.names)
    is_constant = summary.is_constant
    places = _places(name, names) if name else ~is_constant
    if name and not places.any():
        known = ", ".join(site.name for site in summary.sites)
        raise ValueError(f"Until: no site is called {name!r}; there are {known}")
    if not places.any():
        return _Worst("", math.nan, varies=False)
    if is_constant[places].all():
        return _Worst(names[places][0], math.nan, varies=False)
    places = places & ~is_constant
    chosen = values[places]
    index = int(np.argmax(np.isnan(chosen)) if np.isnan(chosen).any() else find(chosen))
    return _Worst(names[places][index], float(chosen[index]))


def _ratio(wanted: float, found: float) -> float:
    return wanted / found if found else math.inf


def _places(name: str, scalars: Sequence[str] | np.ndarray) -> np.ndarray:
    """Flags of the scalars that the name of a site, scope, row or scalar stands for."""
    heads = (f"{name}.", f"{name}[") if not name.endswith("]") else (f"{name[:-1]},",)
    return np.array([scalar == name or scalar.startswith(heads) for scalar in scalars], bool)


def _suggest(name: str, sites: Mapping[str, Sequence[str]]) -> str:
    """Words on an unknown name of a site or of an entry, with the names that there are."""
    scalars = sites.get(name.partition("[")[0], [])
    if len(scalars) < 2 or "[" not in name:
        return f"no site is called {name!r}; there are {', '.join(sites)}"
    more = f" and {len(scalars) - MAX_SHOWN} more" * (len(scalars) > MAX_SHOWN)
    return f"no entry is called {name!r}; there are {', '.join(scalars[:MAX_SHOWN])}{more}"


def _check_positive(name: str, number: Any) -> None:
    if number is None:
        return
    is_number = isinstance(number, int | float | np.number) and not isinstance(number, bool)
    if not is_number:
        raise TypeError(f"{name} of Until must be a positive number, got {number!r}")
    if not 0 < number < math.inf:
        raise ValueError(f"{name} of Until must be a positive number, got {number!r}")
