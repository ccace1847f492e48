"""The model of the table of joints in NumPy: its scores, conditionals and posterior, by formulas.

Nothing of the library is used here. The model is

    mu ~ Normal(shift, 2)
    b ~ LogNormal(0.3 mu, 0.5)
    w[j] ~ Normal(mu, 1),  v[j] ~ Normal(w[j] + b x[j], 0.5)
    z[i] ~ Bernoulli(0.3), y[i] ~ Normal(mu + 2 z[i], 1)

the last line in some rows of the table alone. An `Oracle` knows what the transformations of its row
have done to it.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy import special, stats

X = np.array([-1.0, 0.5, 2.0])
V = np.array([0.3, 1.9, 2.6])
Y = np.array([-0.5, 2.4, 0.9, 3.1])
SHIFT, GIVEN_B = 0.4, 0.7
GIVEN_V = V + 0.6
P, GAP = 0.3, 1  # the probability that z is 1; the entry of v that is missing in some rows

Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Oracle:
    """The model after the transformations of a row.

    Attributes:
        has_sum: Whether z and y are in the model.
        shift: The location of mu.
        fixes_b: Whether b is fixed by an intervention.
        fixes_v: Whether v is.
        gap: What is said of the entry of v that is missing: "", "impute" or "ignore".
        factor: What all scores are multiplied by.
        weights: What the scores of w[j] and v[j] are multiplied by, one number an entry.
        out: The sites that are summed or integrated.
        hidden: The sites that are hidden.
        scope: The scope around sites, "" for none.
        scoped: The sites in the scope, None for all.
        is_bare: Whether the model is a density of numbers, of which b is a logarithm, and no more.
        records_values: Whether mu, b and w are deterministic sites beside the numbers.
    """

    has_sum: bool = False
    shift: float = 0.0
    fixes_b: bool = False
    fixes_v: bool = False
    gap: str = ""
    factor: float = 1.0
    weights: tuple[float, ...] = (1.0, 1.0, 1.0)
    out: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    scope: str = ""
    scoped: frozenset[str] | None = None
    is_bare: bool = False
    records_values: bool = False

    def is_inside(self, name: str) -> bool:
        """Whether a site is in the scope."""
        return bool(self.scope) and (self.scoped is None or name in self.scoped)

    def full(self, name: str) -> str:
        """The name of a site with its scope."""
        return f"{self.scope}.{name}" if self.is_inside(name) else name

    @property
    def unscored(self) -> frozenset[str]:
        """The sites that have no score: hidden or fixed ones."""
        return self.hidden | ({"v"} if self.fixes_v else set())

    @property
    def latent(self) -> tuple[str, ...]:
        """The names of the latent sites, in the order of the program."""
        names = ["mu"] * ("mu" not in self.out) + ["b"] * (not self.fixes_b)
        names += ["w"] * ("w" not in self.out)
        names += ["v"] * (self.gap == "impute" and "v" not in self.hidden)
        names += ["z"] * (self.has_sum and "z" not in self.out)
        return tuple(names)

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of the observed sites."""
        names = ["v"] * (self.gap != "impute" and not self.is_bare) + ["y"] * self.has_sum
        return tuple(name for name in names if name not in self.unscored)

    @property
    def recorded(self) -> frozenset[str]:
        """The names of deterministic sites beside numbers of the same names in a scope."""
        return frozenset(self.latent if self.records_values else ())

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each site in the graph, the sites that are taken out included."""
        kinds = dict.fromkeys(self.latent, "latent") | dict.fromkeys(self.observed, "observed")
        kinds |= dict.fromkeys(self.out, "summed")
        kinds |= {"log_density": "factor"} if self.is_bare else {}
        fixed = ["b"] * self.fixes_b + ["v"] * self.fixes_v
        return kinds | dict.fromkeys(fixed, "deterministic")

    def complete(self, values: Values) -> Values:
        """The values with data and fixed sites."""
        data = {"v": V, "y": Y} | ({"b": GIVEN_B} if self.fixes_b else {})
        return {**data, **{k: np.asarray(x, float) for k, x in values.items()}}

    def own_scores(self, values: Values, x: np.ndarray = X) -> dict[str, np.ndarray]:
        """The log probability of each entry of each site, without factors and weights."""
        if self.is_bare:
            made = dataclasses.replace(self, is_bare=False, factor=1.0)
            total = made.log_density({**values, "b": np.exp(values["b"])}, x) + values["b"]
            return {"mu": np.zeros(()), "b": np.zeros(()), "w": np.zeros(3), "log_density": total}
        at = self.complete(values)
        if "mu" in self.out:
            score = stats.multivariate_normal.logpdf(*self._without_mu(at, x)[:3])
            if self.fixes_b:
                return {"mu.w.v": score}
            return {"mu.w.b.v": score - np.log(at["b"])}
        mu, b = at["mu"], at["b"]
        scores = {"mu": stats.norm.logpdf(mu, self.shift, 2.0)}
        if not self.fixes_b:
            scores["b"] = stats.lognorm.logpdf(b, 0.5, scale=np.exp(0.3 * mu))
        if "w" in self.out:
            scores["v"] = stats.norm.logpdf(at["v"], mu + b * x, np.sqrt(1.25))
        else:
            scores["w"] = stats.norm.logpdf(at["w"], mu, 1.0)
            scores["v"] = stats.norm.logpdf(at["v"], at["w"] + b * x, 0.5)
        if self.has_sum and "z" in self.out:
            each = [np.log(q) + stats.norm.logpdf(at["y"], mu + 2 * k, 1.0) for k, q in _STATES]
            scores["y"] = np.logaddexp(*each)
        elif self.has_sum:
            scores["z"] = np.where(at["z"] == 1, np.log(P), np.log(1 - P))
            scores["y"] = stats.norm.logpdf(at["y"], mu + 2 * at["z"], 1.0)
        if self.gap == "ignore":
            scores["v"] = np.where(np.arange(3) == GAP, 0.0, scores["v"])
        return {name: x for name, x in scores.items() if name not in self.unscored}

    def _without_mu(self, at: Values, x: np.ndarray = X) -> tuple[Any, ...]:
        """log b and v, jointly normal without mu and w; mean, covariance and slopes by mu."""
        scored = slice(1 if self.fixes_b else 0, None)
        known = np.append(np.log(at["b"]), at["v"])[scored]
        slopes = np.array([0.3, 1.0, 1.0, 1.0])[scored]
        mean = slopes * self.shift + np.append(0.0, at["b"] * x)[scored]
        errors = np.diag(np.array([0.25, 1.25, 1.25, 1.25])[scored])
        return known, mean, 4.0 * np.outer(slopes, slopes) + errors, slopes

    def scores(self, values: Values, x: np.ndarray = X) -> dict[str, np.ndarray]:
        """The log probability of each entry of each site, as the density counts it."""
        weights = {"w": np.array(self.weights), "v": np.array(self.weights)}
        own = self.own_scores(values, x)
        return {name: self.factor * weights.get(name, 1.0) * s for name, s in own.items()}

    def weight(self, site: str, i: int) -> float:
        """What the score of an observation is multiplied by."""
        return self.factor * (self.weights[i] if site == "v" else 1.0)

    def log_density(self, values: Values, x: np.ndarray = X) -> float:
        """The log density of all sites together."""
        return float(sum(np.sum(s) for s in self.scores(values, x).values()))

    def recovered(self, values: Values) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The mean and variance of each site that is taken out, given all others."""
        at, found, spread = self.complete(values), {}, 0.0
        if "mu" in self.out:
            given, mean, covariance, slopes = self._without_mu(at)
            gain = np.linalg.solve(covariance, 4.0 * slopes)
            at["mu"] = self.shift + gain @ (given - mean)
            spread = 4.0 - gain @ (4.0 * slopes)
            found["mu"] = at["mu"], spread
        if "w" in self.out:
            known = np.arange(3) != (GAP if self.gap == "ignore" else -1)
            known &= "v" not in self.unscored
            precision = 1.0 + 4.0 * known
            mean = (at["mu"] + 4.0 * known * (at["v"] - at["b"] * X)) / precision
            found["w"] = mean, 1 / precision + spread / precision**2
        if "z" in self.out:
            odds = [np.log(q) + stats.norm.logpdf(at["y"], at["mu"] + 2 * k) for k, q in _STATES]
            one = special.expit(odds[1] - odds[0])
            found["z"] = one, one * (1 - one)
        return found

    def predicted(self, values: Values) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The mean and variance of new data, or of recorded values, given the latent sites."""
        if self.records_values:
            recorded = {**values, "b": np.exp(values["b"])}
            return {name: (np.asarray(x), np.zeros(np.shape(x))) for name, x in recorded.items()}
        at, has_w = self.complete(values), "w" not in self.out
        found = {"v": ((at["w"] if has_w else at["mu"]) + at["b"] * X, 0.25 if has_w else 1.25)}
        if self.has_sum:
            z, spread = (at["z"], 0.0) if "z" not in self.out else (P, P * (1 - P))
            found["y"] = (at["mu"] + 2 * z + np.zeros(4), 1.0 + 4 * spread)
        return {name: (m, np.broadcast_to(s, m.shape)) for name, (m, s) in found.items()}

    def prior_moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The mean and variance of each site drawn anew, the data too."""
        mean_b = GIVEN_B if self.fixes_b else np.exp(0.3 * self.shift + (0.36 + 0.25) / 2)
        var_b = 0.0 if self.fixes_b else mean_b**2 * np.expm1(0.36 + 0.25)
        # cov(mu, b) = 4 * 0.3 * E[b] by Stein's lemma
        covariance = 0.0 if self.fixes_b else 1.2 * mean_b
        found = {"mu": (self.shift, 4.0), "b": (mean_b, var_b)}
        if "w" not in self.out:
            found["w"] = np.full(3, self.shift), np.full(3, 5.0)
        found["v"] = self.shift + mean_b * X, 5.25 + X**2 * var_b + 2 * X * covariance
        if self.has_sum:
            if "z" not in self.out:
                found["z"] = np.full(4, P), np.full(4, P * (1 - P))
            found["y"] = np.full(4, self.shift + 2 * P), np.full(4, 5.0 + 4 * P * (1 - P))
        if self.fixes_v:
            found["v"] = GIVEN_V, np.zeros(3)
        found = {name: tuple(map(np.asarray, pair)) for name, pair in found.items()}
        without = self.hidden | self.out
        return {name: pair for name, pair in found.items() if name not in without}

    @functools.cache  # noqa: B019 (an oracle is one of a few rows)
    def posterior(self, x: tuple[float, ...] = tuple(X), without: tuple[Any, ...] = ()) -> "Grid":
        """The posterior of mu and b on a grid, all else summed and integrated.

        Args:
            x: The covariate.
            without: Pairs of a site and an entry that are left out of the data.
        """
        mu = np.linspace(-7.0, 8.0, 301)
        log_b = np.array([np.log(GIVEN_B)]) if self.fixes_b else np.linspace(-5.5, 4.5, 301)
        mu, log_b = np.meshgrid(mu, log_b, indexing="ij")
        b, k = np.exp(log_b), self.factor
        total = k * stats.norm.logpdf(mu, self.shift, 2.0)
        if not self.fixes_b:
            volume = k * log_b if self.is_bare else log_b
            total += k * (stats.norm.logpdf(log_b, 0.3 * mu, 0.5) - log_b) + volume
        for j in range(3):
            is_known = ("v", j) not in without and "v" not in self.unscored
            is_known &= not (self.gap and j == GAP)
            total += self._integrated(V[j] if is_known else None, mu, b * x[j], k * self.weights[j])
        for i in range(4 if self.has_sum and "y" not in self.hidden else 0):
            if ("y", i) not in without:
                total += self._summed(Y[i], mu, k)
        return Grid(mu, b, total, 0.05 * (1.0 if self.fixes_b else 10.0 / 300))

    def class_means(self) -> np.ndarray:
        """The posterior mean of each z, where they are sampled."""
        grid = self.posterior()
        found = []
        for y in Y:
            scores = [np.log(q) + stats.norm.logpdf(y, grid.mu + 2 * k, 1.0) for k, q in _STATES]
            found.append(grid.mean(special.expit(self.factor * (scores[1] - scores[0]))))
        return np.array(found)

    def gap_mean(self) -> float:
        """The posterior mean of the entry of v that is missing."""
        grid = self.posterior()
        return grid.mean(grid.mu + grid.b * X[GAP])

    def _integrated(self, v: float | None, mu: Any, shift: Any, k: float) -> Any:
        """log of the integral of the scores of w[j] and v[j] over w[j], and over v[j] if latent."""
        if "w" in self.out and v is not None:
            return k * stats.norm.logpdf(v, mu + shift, np.sqrt(1.25))
        of_v = "v" in self.latent or v is not None
        if "w" in self.out:
            return _power_constant(k, np.sqrt(1.25)) if of_v else 0.0
        constant = _power_constant(k, 1.0) + (_power_constant(k, 0.5) if of_v else 0.0)
        return constant + (
            0.0 if v is None else stats.norm.logpdf(v, mu + shift, np.sqrt(1.25 / k))
        )

    def _summed(self, y: float, mu: Any, k: float) -> Any:
        """log of the sum of the scores of z[i] and y[i] over z[i]."""
        each = [np.log(q) + stats.norm.logpdf(y, mu + 2 * s, 1.0) for s, q in _STATES]
        if "z" in self.out:
            return k * np.logaddexp(*each)
        return np.logaddexp(*(k * e for e in each))


_STATES = ((0, 1 - P), (1, P))


def _power_constant(k: float, scale: float) -> float:
    """log of N(x; m, scale)^k over N(x; m, scale / sqrt(k)), the same for all x."""
    return 0.5 * (1 - k) * np.log(2 * np.pi * scale**2) - 0.5 * np.log(k)


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """A density of mu and b on a grid.

    Attributes:
        mu: Points, (n, m).
        b: Points, (n, m).
        log_density: The log density in mu and log b, not normalized.
        cell: The area of a cell.
    """

    mu: np.ndarray
    b: np.ndarray
    log_density: np.ndarray
    cell: float

    @property
    def log_evidence(self) -> float:
        """The log of the integral."""
        return float(special.logsumexp(self.log_density) + np.log(self.cell))

    def mean(self, of: np.ndarray) -> float:
        """The mean of a function of mu and b, given at the points."""
        weights = np.exp(self.log_density - special.logsumexp(self.log_density))
        return float(np.sum(weights * of))

    def log_mean_exp(self, of: np.ndarray) -> float:
        """The log of the mean of the exponential of a function."""
        return float(special.logsumexp(self.log_density + of) - special.logsumexp(self.log_density))
