"""Families of categories, ordered or not, and their relaxations."""

import itertools
from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import INFINITE, UNIT, Case


class Weighted:
    """The categories 0, 1, 2, ... with probabilities along the last axis."""

    def __init__(self, weights: np.ndarray):
        self.weights = weights

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self._pick(self.weights, values))

    def _pick(self, table: np.ndarray, values: np.ndarray) -> np.ndarray:
        index = values.astype(int)
        table = np.broadcast_to(table, (*index.shape, table.shape[-1]))
        kept = np.clip(index, 0, table.shape[-1] - 1)
        chosen = np.take_along_axis(table, kept[..., None], -1)[..., 0]
        return np.where(kept == index, chosen, 0)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        inside = np.clip(np.floor(values), -1, self.weights.shape[-1] - 1)
        below = np.concatenate([0 * self.weights[..., :1], self.weights.cumsum(-1)], -1)
        return self._pick(below, inside + 1)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        return (self.weights.cumsum(-1) < q[..., None] - 1e-14).sum(-1)

    def entropy(self) -> Any:
        return sp.entr(self.weights).sum(-1)

    def mean(self) -> Any:
        return (self.weights * np.arange(self.weights.shape[-1])).sum(-1)

    def var(self) -> Any:
        return (self.weights * np.arange(self.weights.shape[-1]) ** 2).sum(-1) - self.mean() ** 2


class OneHot(Weighted):
    """One-hot vectors, each with its weight."""

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        return super().logpmf(values.argmax(-1))

    def mean(self) -> Any:
        return self.weights

    def var(self) -> Any:
        return self.weights * (1 - self.weights)

    def marginals(self, draws: np.ndarray) -> Any:
        yield draws.argmax(-1), Weighted(self.weights)


class Outcomes:
    """Numbers, each with its probability."""

    def __init__(self, outcomes: np.ndarray, probs: np.ndarray):
        self.outcomes, self.probs = outcomes, probs

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        return np.log((self.probs * (values[..., None] == self.outcomes)).sum(-1))

    def cdf(self, values: np.ndarray) -> np.ndarray:
        return (self.probs * (self.outcomes <= values[..., None])).sum(-1)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        return self.outcomes[(self.probs.cumsum() < q[..., None]).sum(-1)]

    def entropy(self) -> Any:
        return sp.entr(self.probs).sum()

    def mean(self) -> Any:
        return (self.probs * self.outcomes).sum()

    def var(self) -> Any:
        return (self.probs * (self.outcomes - self.mean()) ** 2).sum()

    def marginals(self, draws: np.ndarray) -> Any:
        yield np.searchsorted(self.outcomes, draws), Weighted(self.probs)


class Orders:
    """Orders of things that are drawn one by one: all of them, listed."""

    def __init__(self, scores: np.ndarray):
        self.orders = list(itertools.permutations(range(len(scores))))
        self.table = [self._probability(scores[list(order)]) for order in self.orders]

    @staticmethod
    def _probability(scores: np.ndarray) -> float:
        return float(np.prod([s / scores[i:].sum() for i, s in enumerate(scores)]))

    def _index(self, values: np.ndarray) -> np.ndarray:
        return np.array([self.orders.index(tuple(map(int, v))) for v in values])

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        return np.log(np.array(self.table)[self._index(values)])

    def marginals(self, draws: np.ndarray) -> Any:
        yield self._index(draws), Weighted(np.array(self.table))


class Concrete:
    """The law of a logistic function of a logistic variable."""

    def __init__(self, temperature: np.ndarray, probs: np.ndarray):
        self.z = st.logistic(sp.logit(probs) / temperature, 1 / temperature)

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        return self.z.logpdf(sp.logit(x)) - np.log(x) - np.log1p(-x)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        return self.z.cdf(sp.logit(np.clip(x, 0, 1)))

    def sf(self, x: np.ndarray) -> np.ndarray:
        return self.z.sf(sp.logit(np.clip(x, 0, 1)))

    def ppf(self, q: np.ndarray) -> np.ndarray:
        return sp.expit(self.z.ppf(q))


class ConcretePair:
    """Two entries of one vector: the first has the law of `Concrete`."""

    def __init__(self, temperature: np.ndarray, probs: np.ndarray):
        self.first = Concrete(temperature, probs[..., 0])
        self.parameters = np.broadcast_arrays(temperature, probs[..., 0])

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        return self.first.logpdf(x[..., 0])

    def marginals(self, draws: np.ndarray) -> Any:
        for temperature, prob, column in zip(
            *map(np.ravel, self.parameters), draws[..., 0].reshape(len(draws), -1).T, strict=True
        ):
            yield column, Concrete(temperature, prob)


def cumulative(law: Any) -> Any:
    """The levels of `OrderedLogistic` and the like: differences of a distribution function."""

    def oracle(cutpoints: np.ndarray, loc: np.ndarray) -> Weighted:
        below = law.cdf(cutpoints - np.asarray(loc)[..., None])
        ones = np.ones_like(below[..., :1])
        return Weighted(np.diff(np.concatenate([0 * ones, below, ones], -1), axis=-1))

    return oracle


def stopping(cutpoints: np.ndarray, loc: np.ndarray) -> Weighted:
    stop = sp.expit(cutpoints - np.asarray(loc)[..., None])
    ones = np.ones_like(stop[..., :1])
    left = np.concatenate([ones, np.cumprod(1 - stop, -1)], -1)
    return Weighted(left * np.concatenate([stop, ones], -1))


CUTPOINTS, LOCS = np.array([-1.0, 0.25, 2.0]), np.array([0.5, -3.0])
LEVELS = np.array([[0, 0], [1, 3], [2, 2], [3, 1], [0, 1]])
OFF_LEVELS = (-1, 4, 0.5, *INFINITE)
ORDERS = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 1, 0]])
SIDES = np.stack([UNIT, 1 - UNIT], -1)
BINARY = np.array([[0, 1]] * 3 + [[1, 0]] * 2)
RELAXED = {
    "mode": "unbounded at an end or both where the temperature is below 1, else a root",
    "entropy": "no closed form",
}

CASES = [
    Case(
        name="Bernoulli, logits",
        make=dist.Bernoulli,
        signature="*, logits=None, probs=None",
        parameters={"logits": np.array([0.5, -3.0])},
        oracle=lambda logits: st.bernoulli(sp.expit(logits)),
        inside=BINARY,
        outside=(-1, 2, 0.5, *INFINITE),
    ),
    Case(
        name="Bernoulli, probs",
        make=dist.Bernoulli,
        parameters={"probs": np.array([0.25, 0.0])},
        oracle=lambda probs: st.bernoulli(probs),
        inside=np.array([[0, 0]] * 4 + [[1, 0]]),
        outside=(-1, 2, 0.5, *INFINITE),
    ),
    Case(
        name="ProbitBernoulli, probits",
        make=dist.ProbitBernoulli,
        signature="*, probits=None, probs=None",
        parameters={"probits": np.array([0.5, -6.0])},
        oracle=lambda probits: st.bernoulli(st.norm.cdf(probits)),
        inside=BINARY,
        outside=(-1, 2, 0.5, *INFINITE),
    ),
    Case(
        name="ProbitBernoulli, probs",
        make=dist.ProbitBernoulli,
        parameters={"probs": np.array([0.25, 1.0])},
        oracle=lambda probs: st.bernoulli(probs),
        inside=np.array([[0, 1]] * 4 + [[1, 1]]),
        outside=(-1, 2, 0.5, *INFINITE),
    ),
    Case(
        name="Categorical, logits",
        make=dist.Categorical,
        signature="*, logits=None, probs=None",
        parameters={"logits": np.array([[0.5, -1.0, 2.0], [1.0, -np.inf, 0.0]])},
        oracle=lambda logits: Weighted(sp.softmax(logits, -1)),
        inside=np.array([[0, 0], [1, 2], [2, 2], [0, 2], [1, 0]]),
        outside=(-1, 3, 0.5, *INFINITE),
    ),
    Case(
        name="Categorical, probs",
        make=dist.Categorical,
        parameters={"probs": np.array([0.25, 0.5, 0.25, 0.0])},
        oracle=lambda probs: Weighted(probs),
        inside=np.array([0, 1, 2, 1, 0]),
        outside=(-1, 4, 0.5, *INFINITE),
    ),
    Case(
        name="OneHotCategorical, logits",
        make=dist.OneHotCategorical,
        signature="*, logits=None, probs=None",
        parameters={"logits": np.array([0.5, -1.0, -np.inf, 2.0])},
        oracle=lambda logits: OneHot(sp.softmax(logits, -1)),
        inside=np.eye(4, dtype=int)[[0, 1, 3, 1, 0]],
        outside=(-1, [1, 0, 1, 0], 0, 0.25, [0.5, 0.5, 0, 0], *INFINITE),
    ),
    Case(
        name="OneHotCategorical, probs",
        make=dist.OneHotCategorical,
        parameters={"probs": np.array([0.25, 0.5, 0.25, 0.0])},
        oracle=lambda probs: OneHot(probs),
        inside=np.eye(4, dtype=int)[[0, 1, 2, 1, 0]],
        outside=(1,),
    ),
    Case(
        name="FiniteDiscrete",
        make=dist.FiniteDiscrete,
        signature="outcomes, *, logits=None, probs=None",
        parameters={
            "outcomes": np.array([-1.5, 0.25, 2.0]),
            "probs": np.array([0.25, 0.125, 0.625]),
        },
        oracle=Outcomes,
        inside=np.array([-1.5, 0.25, 2.0, 0.25, -1.5]),
        outside=(0, 1, -1, *INFINITE),
        excluded={"integral": "not integers"},
    ),
    Case(
        name="OrderedLogistic",
        make=dist.OrderedLogistic,
        signature="*, cutpoints, loc",
        parameters={"cutpoints": CUTPOINTS, "loc": LOCS},
        oracle=cumulative(st.logistic),
        inside=LEVELS,
        outside=OFF_LEVELS,
    ),
    Case(
        name="OrderedProbit",
        make=dist.OrderedProbit,
        signature="*, cutpoints, loc",
        parameters={"cutpoints": CUTPOINTS, "loc": LOCS},
        oracle=cumulative(st.norm),
        inside=LEVELS,
        outside=OFF_LEVELS,
    ),
    Case(
        name="StoppingRatioLogistic",
        make=dist.StoppingRatioLogistic,
        signature="*, cutpoints, loc",
        parameters={"cutpoints": CUTPOINTS[::-1], "loc": LOCS},
        oracle=stopping,
        inside=LEVELS,
        outside=OFF_LEVELS,
    ),
    Case(
        name="PlackettLuce",
        make=dist.PlackettLuce,
        signature="scores",
        parameters={"scores": np.array([0.5, 2.0, 1.0])},
        oracle=Orders,
        inside=ORDERS,
        outside=(0, [0, 1, 1], [0, 1, 3], [1, 2, 3], *INFINITE),
        moments=False,
        excluded={"entropy": "a sum over all orders"},
    ),
    Case(
        name="RelaxedBernoulli, logits",
        make=dist.RelaxedBernoulli,
        signature="temperature, *, logits=None, probs=None",
        parameters={"temperature": np.array([0.5, 2.0]), "logits": 0.5},
        oracle=lambda temperature, logits: Concrete(temperature, sp.expit(logits)),
        inside=np.stack([UNIT, 1 - UNIT], 1),
        outside=(0, 1, -0.5, 1.5, *INFINITE),
        moments=False,
        excluded=RELAXED,
    ),
    Case(
        name="RelaxedBernoulli, probs",
        make=dist.RelaxedBernoulli,
        parameters={"temperature": 0.75, "probs": 0.25},
        oracle=Concrete,
        inside=UNIT,
        outside=(0, 1, *INFINITE),
        moments=False,
        excluded=RELAXED,
    ),
    Case(
        name="RelaxedOneHotCategorical, probs",
        make=dist.RelaxedOneHotCategorical,
        signature="temperature, *, logits=None, probs=None",
        parameters={
            "temperature": np.array([0.5, 2.0]),
            "probs": np.array([[0.25, 0.75], [0.5, 0.5]]),
        },
        oracle=ConcretePair,
        inside=np.stack([SIDES, SIDES[::-1]], 1),
        outside=([0.0, 1.0], [0.5, 0.75], *INFINITE),
        moments=False,
        excluded=RELAXED,
    ),
    Case(
        name="RelaxedOneHotCategorical, logits",
        make=dist.RelaxedOneHotCategorical,
        parameters={"temperature": 0.75, "logits": np.array([0.5, -1.0])},
        oracle=lambda temperature, logits: ConcretePair(temperature, sp.softmax(logits)),
        inside=SIDES,
        outside=([0.0, 1.0],),
        moments=False,
        excluded=RELAXED,
    ),
]

WEIGHTS, OTHERS = np.array([0.25, 0.5, 0.25]), np.array([[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]])
KL = {
    "Bernoulli": (dist.Bernoulli(logits=np.array([0.5, -3.0])), dist.Bernoulli(probs=0.25)),
    "Categorical": (dist.Categorical(logits=OTHERS), dist.Categorical(probs=WEIGHTS)),
    "OneHotCategorical": (
        dist.OneHotCategorical(logits=OTHERS),
        dist.OneHotCategorical(probs=WEIGHTS),
    ),
}
