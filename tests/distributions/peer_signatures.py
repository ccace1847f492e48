"""What each position means in the signatures of other tools, in the names of our parameters.

The column `positions` of `docs/distributions/peers.csv` holds it: `?` for what we lack, and `=`
behind what has a default. `python -m tests.distributions.peer_signatures` writes the column anew
for the tools that are installed; Stan's positions are written by hand.
"""

import csv
import importlib
import inspect
import pathlib
import re
from collections.abc import Callable

import distributions as dist

TABLE = pathlib.Path(__file__).parents[2] / "docs" / "distributions" / "peers.csv"

# The names of other tools for our parameters; what is the same in a family's own list goes before.
_NAMES = {
    "base_dist": "distribution",
    "base_distribution": "distribution",
    "cat": "mixture_distribution",
    "comp_dists": "components",
    "component_distribution": "components_distribution",
    "component_distributions": "components",
    "dist": "distribution",
    "event_dim": "event_ndims",
    "lower": "low",
    "mixing_distribution": "mixture_distribution",
    "mu": "loc",
    "nu": "df",
    "p": "probs",
    "sigma": "scale",
    "upper": "high",
    "v": "loc",
}
_SHAPE_AND_RATE = {"alpha": "concentration", "beta": "rate"}
_SHAPES = {"a": "concentration1", "b": "concentration0"}
_SHAPES |= {"alpha": "concentration1", "beta": "concentration0", "n": "total_count"}
_OF_FAMILY = {
    "AsymmetricLaplace": {"kappa": "asymmetry", "b": "scale"},
    "AutoRegressive": {"rho": "coefficient"},
    "Beta": _SHAPES,
    "BetaBinomial": _SHAPES,
    "BetaNegativeBinomial": _SHAPES,
    "BetaProportion": {"mean": "loc"},
    "Binomial": {"n": "total_count", "logit_p": "logits"},
    "Bernoulli": {"logit_p": "logits"},
    "CAR": {"W": "adj_matrix", "alpha": "correlation", "tau": "conditional_precision"},
    "Categorical": {"logit_p": "logits"},
    "Cauchy": {"alpha": "loc", "beta": "scale"},
    "Dagum": {"c": "sharpness", "d": "concentration"},
    "Delta": {"c": "loc"},
    "Dirichlet": {"a": "concentration", "alpha": "concentration"},
    "DirichletMultinomial": {"n": "total_count", "a": "concentration"},
    "Exponential": {"lam": "rate"},
    "Gamma": {**_SHAPE_AND_RATE, "a": "concentration"},
    "Gompertz": {"c": "concentration"},
    "Gumbel": {"beta": "scale"},
    "HalfCauchy": {"beta": "scale"},
    "Hypergeometric": {"n": "total_count", "k": "num_successes"},
    "ICAR": {"W": "adj_matrix"},
    "InverseGamma": {"alpha": "concentration", "beta": "scale", "rate": "scale"},
    "InverseGaussian": {"lam": "concentration"},
    "InverseWishart": {"concentration": "df", "scale_matrix": "scale"},
    "InverseWishartCholesky": {"concentration": "df", "scale_matrix": "scale"},
    "Kumaraswamy": _SHAPES,
    "LKJ": {"n": "dimension", "eta": "concentration"},
    "Laplace": {"b": "scale"},
    "LogUniform": {"a": "low", "b": "high"},
    "Logistic": {"s": "scale"},
    "Lomax": {"c": "concentration"},
    "Multinomial": {"n": "total_count"},
    "MultivariateNormal": {"cov": "covariance", "covariance_matrix": "covariance"},
    "NegativeBinomial": {"n": "total_count", "mu": "mean", "alpha": "concentration"},
    "NoncentralChi2": {"nc": "noncentrality"},
    "OrderedLogistic": {"predictor": "loc", "eta": "loc"},
    "OrderedProbit": {"eta": "loc"},
    "Pareto": {"alpha": "concentration", "m": "scale", "b": "concentration", "low": "scale"},
    "Poisson": {"mu": "rate"},
    "Rice": {"nu": "nu"},
    "Skellam": {"mu1": "rate1", "mu2": "rate2"},
    "SkewNormal": {"alpha": "skewness"},
    "SkewStudentT": {"a": "a", "b": "b"},
    "StickBreakingWeights": {"alpha": "concentration", "K": "num_breaks"},
    "Triangular": {"c": "peak"},
    "VonMises": {"kappa": "concentration"},
    "Weibull": {"alpha": "concentration", "beta": "scale", "c": "concentration"},
    "Wishart": {"concentration": "df", "scale_matrix": "scale"},
    "WishartCholesky": {"concentration": "df", "scale_matrix": "scale"},
    "ZeroSumNormal": {"event_shape": "shape"},
    "Zipf": {"a": "power"},
}
_NOT_COUNTED = {"self", "validate_args", "allow_nan_stats", "name", "dtype"}
MODULES = {
    "NumPyro": "numpyro.distributions",
    "PyMC": "pymc",
    "SciPy": "scipy.stats",
    "TFP": "tensorflow_probability.substrates.jax.distributions",
}


def rows() -> list[dict[str, str]]:
    """The table of the distributions of other tools."""
    with TABLE.open() as file:
        return list(csv.DictReader(file))


def by_position(function: Callable) -> list[inspect.Parameter]:
    """The parameters that may be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def positions(tool: str, name: str, ours: str) -> str:
    """The positions of a distribution of another tool, in our names.

    What we lack is `?`, and `=` follows what has a default.
    """
    found = getattr(importlib.import_module(MODULES[tool]), name)
    if tool == "SciPy":  # location and scale follow the shapes in every distribution
        theirs = [(shape, "") for shape in re.findall(r"\w+", found.shapes or "")]
    else:
        parameters = by_position(getattr(found, "dist", found))
        theirs = [(p.name, "" if p.default is p.empty else "=") for p in parameters]
    signature = inspect.signature(getattr(dist, ours)).parameters
    table = {**_NAMES, **{p: p for p in signature}, **_OF_FAMILY.get(ours, {})}
    meanings = [(table.get(name, "?"), mark) for name, mark in theirs if name not in _NOT_COUNTED]
    return " ".join((name if name in signature else "?") + mark for name, mark in meanings)


def calls(positions: str) -> list[tuple[str, ...]]:
    """The calls by position that a signature allows: what each of their arguments means."""
    names, required = (
        positions.replace("=", "").split(),
        len(re.findall(r"\S+(?<!=)(?= |$)", positions)),
    )
    return [tuple(names[:num]) for num in range(max(required, 1), len(names) + 1)]


def update() -> None:
    """Writes the column `positions` anew for the tools that are installed."""
    table = rows()
    for row in table:
        if row["ours"] and row["tool"] in MODULES:
            try:
                row["positions"] = positions(row["tool"], row["name"], row["ours"])
            except (ImportError, AttributeError) as error:
                print(row["tool"], row["name"], repr(error))
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    update()
