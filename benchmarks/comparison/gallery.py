"""Seven models of PyMC's gallery, ours and PyMC's form side by side, with named entries.

The data are those of the gallery, except for radon and for ratings, which are simulated with the
gallery's sizes. (The gallery's ratings are simulated, too.) Strengths of rugby teams are vectors
that sum to zero, where the gallery subtracts a mean, of which the data tell nothing. Priors of the
CAR model are narrower than the gallery's, which draw rates beyond what NumPy's Poisson takes.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import split

import distributions as dist
import ppl
from distributions import constraints


@dataclasses.dataclass(frozen=True)
class Example:
    """A model of the gallery.

    Attributes:
        model: Our model, a function of a key and `args`.
        pymc: Statements of the model in PyMC, `(pm, args, data)`.
        args: Arguments of the model.
        data: Data by site; NaN or a mask says which are missing.
        dims: Names of dimensions by site.
        coords: Names of entries by dimension.
        summed: Sites that ours sums out, and PyMC samples by a kernel for integers.
        shared: Sites of both whose means are compared.
        is_proper: Whether the prior is proper, so that it has draws.
    """

    model: Callable[..., Any]
    pymc: Callable[[Any, Any, Any], None]
    args: tuple[Any, ...]
    data: Mapping[str, Any]
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, Any]
    shared: tuple[str, ...]
    summed: tuple[str, ...] = ()
    is_proper: bool = True

    def posterior(self) -> Any:
        """Our model, labeled and conditioned on its data."""
        known = {
            name: ppl.ignore(x) if np.ma.isMaskedArray(x) else jnp.asarray(x)
            for name, x in self.data.items()
        }
        model = ppl.condition(ppl.label(self.model, self.dims, self.coords), known)
        return ppl.marginalize(model, list(self.summed)) if self.summed else model


# Tumors in groups of rats: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), table 5.1.
TUMORS = """
0/20 0/20 0/20 0/20 0/20 0/20 0/20 0/19 0/19 0/19 0/19 0/18 0/18 0/17 1/20 1/20 1/20 1/20 1/19
1/19 1/18 1/18 2/25 2/24 2/23 2/20 2/20 2/20 2/20 2/20 2/20 1/10 5/49 2/19 5/46 3/27 2/17 7/49
7/47 3/20 3/20 2/13 9/48 10/50 4/20 4/20 4/20 4/20 4/20 4/20 4/20 10/48 4/19 4/19 4/19 5/22 11/46
12/49 5/20 5/20 6/23 5/19 6/22 6/20 6/20 6/20 16/52 15/46 15/47 9/24 4/14
"""


def rats(key: Any, number: Any) -> Any:
    a = ppl.sample(key, dist.Flat(constraints.positive), name="a")
    b = ppl.sample(key, dist.Flat(constraints.positive), name="b")
    ppl.factor(-2.5 * jnp.log(a + b), name="hyperprior")
    rate = ppl.sample(key, dist.Beta(jnp.full(number.shape, a), b), name="rate")
    return ppl.sample(key, dist.Binomial(number, probs=rate), name="tumors")


def rats_in_pymc(pm: Any, args: Any, data: Any) -> None:
    a = pm.HalfFlat("a")
    b = pm.HalfFlat("b")
    pm.Potential("hyperprior", -2.5 * pm.math.log(a + b))
    rate = pm.Beta("rate", a, b, dims="group")
    pm.Binomial("tumors", n=args[0], p=rate, observed=data["tumors"], dims="group")


def make_rats() -> Example:
    pairs = np.array([x.split("/") for x in TUMORS.split()], int)
    return Example(
        model=rats,
        pymc=rats_in_pymc,
        args=(pairs[:, 1],),
        data={"tumors": pairs[:, 0]},
        dims={"rate": ("group",), "tumors": ("group",)},
        coords={"group": [f"group {i + 1}" for i in range(len(pairs))]},
        shared=("a", "b", "rate"),
        is_proper=False,
    )


# Six Nations, 2014 to 2017: the home team, the other team, and the points of both.
MATCHES = """
W T 23 15, F E 26 24, I S 28  6, I W 26  3, S E  0 20, F T 30 10, W F 27  6, T S 20 21, E I 13 10,
I T 46  7, S F 17 19, E W 29 18, T E 11 52, W S 51  3, F I 20 22, W E 16 21, T I  3 26, F S 15  8,
E T 47 17, I F 18 11, S W 23 26, S T 19 22, F W 13 20, I E 19  9, W I 23 16, E S 25 13, T F  0 29,
T W 20 61, S I 10 40, E F 55 35, F T 23 21, S E  9 15, I W 16 16, F I 10  9, W S 27 23, T E  9 40,
W F 19 10, T S 20 36, E I 21 10, I T 58 15, E W 25 21, S F 29 18, W T 67 14, I S 35 25, F E 21 31,
S I 27 22, E F 19 16, T W  7 33, T I 10 63, W E 16 21, F S 22 16, S W 29 13, I F 19  9, E T 36 15,
W I 22  9, T F 18 40, E S 61 21, S T 29  0, F W 20 18, I E 13  9
"""
TEAMS = {"E": "England", "F": "France", "I": "Ireland", "T": "Italy", "S": "Scotland", "W": "Wales"}


def rugby(key: Any, home: Any, away: Any) -> Any:
    advantage = ppl.sample(key, dist.Normal(0.0, 1.0), name="advantage")
    intercept = ppl.sample(key, dist.Normal(3.0, 1.0), name="intercept")
    sd_attack = ppl.sample(key, dist.HalfNormal(2.0), name="sd_attack")
    sd_defense = ppl.sample(key, dist.HalfNormal(2.0), name="sd_defense")
    attack = ppl.sample(key, dist.ZeroSumNormal(sd_attack, shape=(6,)), name="attack")
    defense = ppl.sample(key, dist.ZeroSumNormal(sd_defense, shape=(6,)), name="defense")
    at_home = jnp.exp(intercept + advantage + attack[home] + defense[away])
    points = ppl.sample(key, dist.Poisson(at_home), name="home_points")
    abroad = jnp.exp(intercept + attack[away] + defense[home])
    return points, ppl.sample(key, dist.Poisson(abroad), name="away_points")


def rugby_in_pymc(pm: Any, args: Any, data: Any) -> None:
    home, away = args
    advantage = pm.Normal("advantage", 0.0, 1.0)
    intercept = pm.Normal("intercept", 3.0, 1.0)
    sd_attack = pm.HalfNormal("sd_attack", 2.0)
    sd_defense = pm.HalfNormal("sd_defense", 2.0)
    attack = pm.ZeroSumNormal("attack", sd_attack, dims="team")
    defense = pm.ZeroSumNormal("defense", sd_defense, dims="team")
    at_home = pm.math.exp(intercept + advantage + attack[home] + defense[away])
    abroad = pm.math.exp(intercept + attack[away] + defense[home])
    pm.Poisson("home_points", at_home, observed=data["home_points"], dims="match")
    pm.Poisson("away_points", abroad, observed=data["away_points"], dims="match")


def make_rugby() -> Example:
    rows = [match.split() for match in MATCHES.split(",")]
    home, away = (np.array([list(TEAMS).index(row[i]) for row in rows]) for i in (0, 1))
    points = np.array([row[2:] for row in rows], int)
    names = [f"{2014 + i // 15} {TEAMS[x[0]]}-{TEAMS[x[1]]}" for i, x in enumerate(rows)]
    team = ("team",)
    match = ("match",)
    return Example(
        model=rugby,
        pymc=rugby_in_pymc,
        args=(home, away),
        data={"home_points": points[:, 0], "away_points": points[:, 1]},
        dims={
            "attack": team,
            "defense": team,
            "home_points": match,
            "away_points": match,
        },
        coords={"team": list(TEAMS.values()), "match": names},
        shared=("advantage", "intercept", "sd_attack", "sd_defense", "attack", "defense"),
    )


# Explosions in British coal mines by year, 1851 to 1961 (Jarrett 1979); the gallery masks two.
EXPLOSIONS = """
4 5 4 0 1 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 ? 2 1 1 1 1 3 0 0 1
0 1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 ? 2 1 1 1 1 2 4 2 0 0 1 4 0 0
0 1 0 0 0 0 0 1 0 0 1 0 1
"""


def coal_mining(key: Any, year: Any) -> Any:
    change = ppl.sample(key, dist.DiscreteUniform(1851, 1961), name="change")
    early = ppl.sample(key, dist.Exponential(1.0), name="early")
    late = ppl.sample(key, dist.Exponential(1.0), name="late")
    rate = jnp.where(change >= year, early, late)
    return ppl.sample(key, dist.Poisson(rate), name="explosions")


def coal_mining_in_pymc(pm: Any, args: Any, data: Any) -> None:
    change = pm.DiscreteUniform("change", 1851, 1961)
    early = pm.Exponential("early", 1.0)
    late = pm.Exponential("late", 1.0)
    rate = pm.math.switch(change >= args[0], early, late)
    pm.Poisson("explosions", rate, observed=data["explosions"])


def make_coal_mining() -> Example:
    words = EXPLOSIONS.split()
    counts = np.ma.masked_array(
        [0 if x == "?" else int(x) for x in words], [x == "?" for x in words]
    )
    year = np.arange(1851, 1851 + len(words))
    return Example(
        model=coal_mining,
        pymc=coal_mining_in_pymc,
        args=(year,),
        data={"explosions": counts},
        dims={"explosions": ("year",)},
        coords={"year": year},
        shared=("early", "late"),
        summed=("change",),
    )


# Lip cancer in 56 districts of Scotland (Clayton and Kaldor 1987): cases, cases expected, percent
# of workers outdoors, and neighbors.
CASES = """
9 39 11 9 15 8 26 7 6 20 13 5 3 8 17 9 2 7 9 7 16 31 11 7 19 15 7 10 16 11 5 3 7 8 11 9 11 8 6 4
10 8 2 6 19 3 2 3 28 6 1 1 1 1 0 0
"""
EXPECTED = """
1.38 8.66 3.04 2.53 4.26 2.40 8.11 2.30 1.98 6.63 4.40 1.79 1.08 3.31 7.84 4.55 1.07 4.18 5.53
4.44 10.46 22.67 8.77 5.62 15.47 12.49 6.04 8.96 14.37 10.20 4.75 2.88 7.03 8.53 12.32 10.10 12.68
9.35 7.20 5.27 18.76 15.78 4.32 14.63 50.72 8.20 5.59 9.34 88.66 19.62 3.44 3.62 5.74 7.03 4.16
1.76
"""
OUTDOORS = """
16 16 10 24 10 24 10 7 7 16 7 16 10 24 7 16 10 7 7 10 7 16 10 7 1 1 7 7 10 10 7 24 10 7 7 0 10 1
16 0 1 16 16 0 1 7 1 1 0 1 1 0 1 1 16 10
"""
NEIGHBORS = """
5 9 11 19, 7 10, 6 12, 18 20 28, 1 11 12 13 19, 3 8, 2 10 13 16 17, 6, 1 11 17 19 23 29, 2 7 16
22, 1 5 9 12, 3 5 11, 5 7 17 19, 31 32 35, 25 29 50, 7 10 17 21 22 29, 7 9 13 16 19 29, 4 20 28 33
55 56, 1 5 9 13 17, 4 18 55, 16 29 50, 10 16, 9 29 34 36 37 39, 27 30 31 44 47 48 55 56, 15 26 29,
25 29 42 43, 24 31 32 55, 4 18 33 45, 9 15 16 17 21 23 25 26 34 43 50, 24 38 42 44 45 56, 14 24 27
32 35 46 47, 14 27 31 35, 18 28 45 56, 23 29 39 40 42 43 51 52 54, 14 31 32 37 46, 23 37 39 41, 23
35 36 41 46, 30 42 44 49 51 54, 23 34 36 40 41, 34 39 41 49 52, 36 37 39 40 46 49 53, 26 30 34 38
43 51, 26 29 34 42, 24 30 38 48 49, 28 30 33 56, 31 35 37 41 47 53, 24 31 46 48 49 53, 24 44 47
49, 38 40 41 44 47 48 52 53 54, 15 21 29, 34 38 42 54, 34 40 49 54, 41 46 47 49, 34 38 49 51 52,
18 20 24 27 56, 18 24 30 33 45 55
"""


def car(key: Any, expected: Any, outdoors: Any, adjacency: Any) -> Any:
    level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    own_precision = ppl.sample(key, dist.Gamma(3.2761, 1.81), name="own_precision")
    precision = ppl.sample(key, dist.Gamma(2.0, 1.0), name="precision")
    alpha = ppl.sample(key, dist.Beta(1.0, 1.0), name="alpha")
    own = ppl.sample(key, dist.Normal(jnp.zeros(56), own_precision**-0.5), name="own")
    field = dist.CAR(
        jnp.zeros(56), correlation=alpha, conditional_precision=precision, adj_matrix=adjacency
    )
    shared = ppl.sample(key, field, name="shared")
    log_rate = jnp.log(expected) + level + slope * outdoors / 10 + own + shared
    return ppl.sample(key, dist.Poisson(jnp.exp(log_rate)), name="cases")


def car_in_pymc(pm: Any, args: Any, data: Any) -> None:
    expected, outdoors, adjacency = args
    level = pm.Normal("level", 0.0, 1.0)
    slope = pm.Normal("slope", 0.0, 1.0)
    own_precision = pm.Gamma("own_precision", 3.2761, 1.81)
    precision = pm.Gamma("precision", 2.0, 1.0)
    alpha = pm.Beta("alpha", 1.0, 1.0)
    own = pm.Normal("own", 0.0, tau=own_precision, dims="district")
    shared = pm.CAR(
        "shared", mu=np.zeros(56), alpha=alpha, tau=precision, W=adjacency, dims="district"
    )
    log_rate = np.log(expected) + level + slope * outdoors / 10 + own + shared
    pm.Poisson("cases", pm.math.exp(log_rate), observed=data["cases"], dims="district")


def icar(key: Any, expected: Any, outdoors: Any, adjacency: Any) -> Any:
    level = ppl.sample(key, dist.Normal(0.0, 10.0), name="level")
    slope = ppl.sample(key, dist.Normal(0.0, 10.0), name="slope")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    shared = ppl.sample(key, dist.ICAR(scale=1.0, adj_matrix=adjacency), name="shared")
    ppl.factor(dist.Normal(0.0, 0.056).log_prob(shared.sum()), name="sum_to_zero")
    log_rate = jnp.log(expected) + level + slope * outdoors / 10 + scale * shared
    return ppl.sample(key, dist.Poisson(jnp.exp(log_rate)), name="cases")


def icar_in_pymc(pm: Any, args: Any, data: Any) -> None:
    expected, outdoors, adjacency = args
    level = pm.Normal("level", 0.0, 10.0)
    slope = pm.Normal("slope", 0.0, 10.0)
    scale = pm.HalfNormal("scale", 1.0)
    shared = pm.ICAR("shared", W=adjacency, dims="district")
    log_rate = np.log(expected) + level + slope * outdoors / 10 + scale * shared
    pm.Poisson("cases", pm.math.exp(log_rate), observed=data["cases"], dims="district")


def _make_lip_cancer(model: Any, pymc: Any, shared: tuple[str, ...], is_proper: bool) -> Example:
    adjacency = np.zeros((56, 56), int)
    for i, row in enumerate(NEIGHBORS.split(",")):
        adjacency[i, [int(x) - 1 for x in row.split()]] = 1
    adjacency = np.maximum(adjacency, adjacency.T)
    sites = [name for name in ("own", "shared", "cases") if name != "own" or is_proper]
    return Example(
        model=model,
        pymc=pymc,
        args=(np.array(EXPECTED.split(), float), np.array(OUTDOORS.split(), float), adjacency),
        data={"cases": np.array(CASES.split(), int)},
        dims={name: ("district",) for name in sites},
        coords={"district": [f"district {i + 1}" for i in range(56)]},
        shared=shared,
        is_proper=is_proper,
    )


def make_car() -> Example:
    shared = "level", "slope", "alpha", "precision", "own_precision", "shared"
    return _make_lip_cancer(car, car_in_pymc, shared, True)


def make_icar() -> Example:
    return _make_lip_cancer(icar, icar_in_pymc, ("level", "slope", "scale", "shared"), False)


def radon(key: Any, county: Any, floor: Any, uranium: Any) -> Any:
    mean = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="mean")
    sd = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="sd")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")

    def draw_county(key: Any, uranium: Any) -> Any:
        own_level = dist.Normal(mean[0] + mean[1] * uranium, sd[0])
        level = ppl.sample(key, own_level, name="level")
        return level, ppl.sample(key, dist.Normal(mean[2], sd[1]), name="slope")

    level, slope = jax.vmap(draw_county)(split(key, len(uranium)), uranium)
    loc = level[county] + slope[county] * floor
    return ppl.sample(key, dist.Normal(loc, sigma), name="log_radon")


def radon_in_pymc(pm: Any, args: Any, data: Any) -> None:
    county, floor, uranium = args
    mean = pm.Normal("mean", 0.0, 2.0, shape=3)
    sd = pm.HalfNormal("sd", 1.0, shape=2)
    sigma = pm.HalfNormal("sigma", 1.0)
    z_level = pm.Normal("z_level", 0.0, 1.0, dims="county")
    z_slope = pm.Normal("z_slope", 0.0, 1.0, dims="county")
    level = pm.Deterministic("level", mean[0] + mean[1] * uranium + sd[0] * z_level, dims="county")
    slope = pm.Deterministic("slope", mean[2] + sd[1] * z_slope, dims="county")
    loc = level[county] + slope[county] * floor
    pm.Normal("log_radon", loc, sigma, observed=data["log_radon"], dims="house")


def make_radon() -> Example:
    rng = np.random.default_rng(1)
    county = np.sort(rng.choice(85, 919, p=rng.dirichlet(np.ones(85))))
    floor = (rng.uniform(size=919) < 0.17).astype(float)
    uranium = rng.normal(0.0, 0.4, 85)
    level = 1.5 + 0.7 * uranium + 0.15 * rng.normal(size=85)
    slope = -0.65 + 0.3 * rng.normal(size=85)
    log_radon = level[county] + slope[county] * floor + 0.75 * rng.normal(size=919)
    return Example(
        model=radon,
        pymc=radon_in_pymc,
        args=(county, floor, uranium),
        data={"log_radon": log_radon},
        dims={"level": ("county",), "slope": ("county",), "log_radon": ("house",)},
        coords={
            "county": [f"county {i + 1}" for i in range(85)],
            "house": [f"house {i + 1}" for i in range(919)],
        },
        shared=("mean", "sd", "sigma", "level", "slope"),
    )


def ratings(key: Any, salary: Any, satisfaction: Any, is_at_home: Any) -> Any:
    slope = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="slope")
    first = ppl.sample(key, dist.Normal(-3.0, 2.0), name="first")
    gaps = ppl.sample(key, dist.Exponential(jnp.ones(7)), name="gaps")
    cutpoints = first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])
    loc = slope[0] * salary + slope[1] * satisfaction + slope[2] * is_at_home
    return ppl.sample(key, dist.OrderedLogistic(cutpoints=cutpoints, loc=loc), name="rating")


def ratings_in_pymc(pm: Any, args: Any, data: Any) -> None:
    salary, satisfaction, is_at_home = args
    slope = pm.Normal("slope", 0.0, 1.0, dims="predictor")
    first = pm.Normal("first", -3.0, 2.0)
    gaps = pm.Exponential("gaps", 1.0, shape=7)
    cutpoints = first + pm.math.concatenate([np.zeros(1), pm.math.cumsum(gaps)])
    loc = slope[0] * salary + slope[1] * satisfaction + slope[2] * is_at_home
    pm.OrderedLogistic(
        "rating",
        eta=loc,
        cutpoints=cutpoints,
        observed=data["rating"],
        compute_p=False,
        dims="employee",
    )


def make_ratings() -> Example:
    rng = np.random.default_rng(2)
    salary = rng.normal(size=500)
    satisfaction = rng.uniform(size=500)
    is_at_home = (rng.uniform(size=500) < 0.6).astype(float)
    latent = 0.9 * salary + 0.6 * satisfaction + 1.2 * is_at_home + rng.logistic(size=500)
    rating = np.digitize(latent, [-3.0, -1.8, -0.7, 0.3, 1.3, 2.4, 3.4, 4.5])
    return Example(
        model=ratings,
        pymc=ratings_in_pymc,
        args=(salary, satisfaction, is_at_home),
        data={"rating": rating},
        dims={"slope": ("predictor",), "rating": ("employee",)},
        coords={
            "predictor": ["salary", "satisfaction", "at home"],
            "employee": [f"employee {i + 1}" for i in range(500)],
        },
        shared=("slope", "first", "gaps"),
    )


# The slowest last.
EXAMPLES = {
    "rugby": make_rugby,
    "coal mining": make_coal_mining,
    "ratings": make_ratings,
    "rat tumors": make_rats,
    "radon with slopes": make_radon,
    "lip cancer, CAR": make_car,
    "lip cancer, ICAR": make_icar,
}
