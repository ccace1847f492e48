"""The rows of the table of joints: transformations of one model, alone and in pairs."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray

import distributions as dist
import ppl
from tests.joints.oracle import GAP, GIVEN_B, GIVEN_V, SHIFT, Oracle, P, V, X, Y

WEIGHTS = (0.5, 2.0, 1.5)
FACTOR = 0.6
SCOPE = "s"
ROWS_OF_V = ("a", "b", "c")  # what `label` calls the entries of v


def model(
    key: Any,
    x: Any,
    *,
    has_sum: bool,
    weights: Any = None,
    has_param: bool = False,
    has_net: bool = False,
    has_weights: bool = False,
    has_state: bool = False,
    has_table: bool = False,
) -> None:
    """The model of `tests.joints.oracle`."""
    x = x["x"] if has_table else x
    shift = ppl.param(0.0, name="shift") if has_param else 0.0
    if has_state:
        shift = ppl.state(0.0, name="shift")
        ppl.update_state(2.0 * shift + 1.0, name="shift")
    if has_net:
        shift = ppl.module(key, {"shift": jnp.zeros(())}, name=SCOPE)["shift"]
    mu = ppl.sample(key, dist.Normal(shift, 2.0), name="mu")
    b = ppl.sample(key, dist.LogNormal(0.3 * mu, 0.5), name="b")

    def rows(key: Any) -> None:
        if has_weights:
            w = ppl.module(key, {"w": jnp.zeros(3)}, dist.Normal(mu, 1.0), name=SCOPE)["w"]
        else:
            w = ppl.sample(key, dist.Normal(jnp.full(3, mu), 1.0), name="w")
        ppl.sample(key, dist.Normal(w + b * x, 0.5), name="v")

    (rows if weights is None else ppl.scale(rows, weights))(key)
    if has_sum:
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(4, P)), name="z")
        ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")


def density(position: Any, x: Any) -> Any:
    """The log density of mu, log b and w, by hand."""
    mu, log_b, w, v = position["mu"], position["b"], position["w"], jnp.asarray(V, float)
    pairs = (mu / 2.0, (log_b - 0.3 * mu) / 0.5, w - mu, (v - w - jnp.exp(log_b) * x) / 0.5)
    constant = -4.0 * np.log(2 * np.pi) - np.log(2.0) - 4.0 * np.log(0.5)
    return constant - 0.5 * sum(jnp.sum(z**2) for z in pairs)


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """A transformation of the model.

    Attributes:
        name: What the table calls it.
        apply: A function of the model, whether z is in it, and the scope that sites are in.
        changes: Fields of the oracle that it changes.
        model_fields: Keywords of `model` that it needs.
        is_data: Whether it gives the data.
        sites: The sites that it takes out.
    """

    name: str
    apply: Callable[[Any, bool, str], Any]
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    model_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_data: bool = False
    sites: frozenset[str] = frozenset()


def _within(scope: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values by site as the scope has them."""
    return {scope: values} if scope else values


def _dotted(scope: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of sites by name, with the scope in front."""
    return {f"{scope}.{name}" if scope else name: x for name, x in values.items()}


def _condition(treat: Callable[[Any], Any] | None = None) -> Callable[[Any, bool, str], Any]:
    def apply(model: Any, has_sum: bool, scope: str) -> Any:
        v = jnp.asarray(V)
        if treat is not None:
            v = treat(jnp.where(jnp.arange(3) == GAP, jnp.nan, v))
        data = {"v": v} | ({"y": jnp.asarray(Y)} if has_sum else {})
        return ppl.condition(model, _within(scope, data))

    return apply


def _intervene(site: str, value: Any) -> Callable[[Any, bool, str], Any]:
    return lambda model, _, scope: ppl.intervene(model, _within(scope, {site: jnp.asarray(value)}))


def _marginal(name: str, **strategies: Any) -> Step:
    return Step(
        f"marginalize ({name})",
        lambda model, _, scope: ppl.marginalize(model, _dotted(scope, strategies)),
        sites=frozenset(strategies),
    )


CONDITION = Step("condition", _condition(), is_data=True)
CONDITION_Y = Step(
    "condition on y",
    lambda m, _, scope: ppl.condition(m, _within(scope, {"y": jnp.asarray(Y)})),
    is_data=True,
)
IMPUTE = Step("impute", _condition(ppl.impute), {"gap": "impute"}, is_data=True)
IGNORE = Step("ignore", _condition(ppl.ignore), {"gap": "ignore"}, is_data=True)
INTERVENE = Step("intervene", _intervene("b", GIVEN_B), {"fixes_b": True})
INTERVENE_V = Step("intervene on v", _intervene("v", GIVEN_V), {"fixes_v": True})
BLOCK = Step(
    "block",
    lambda m, _, scope: ppl.block(m, list(_dotted(scope, {"v": None}))),
    {"hidden": frozenset(["v"])},
)
SCALE = Step("scale", lambda m, *_: ppl.scale(m, FACTOR), {"factor": FACTOR})
WEIGH = Step(
    "scale by an array", lambda m, *_: m, {"weights": WEIGHTS}, {"weights": jnp.array(WEIGHTS)}
)
NEST = Step("nest", lambda m, *_: ppl.nest(m, scope=SCOPE), {"scope": SCOPE})
REPARAM = Step(
    "reparam", lambda m, _, scope: ppl.reparam(m, _within(scope, {"b": ppl.LearnedCentering()}))
)
LABEL = Step(
    "label",
    lambda m, _, scope: ppl.label(m, _dotted(scope, {"v": "row"}), {"row": ROWS_OF_V}),
)
WITH_PARAMS = Step(
    "with_params",
    lambda m, _, scope: ppl.with_params(m, _within(scope, {"shift": SHIFT})),
    {"shift": SHIFT},
    {"has_param": True},
)
STATE = Step(
    "with_params (state)",
    lambda m, _, scope: ppl.with_params(m, None, _within(scope, {"shift": SHIFT})),
    {"shift": SHIFT},
    {"has_state": True},
)
TABLE = Step("a table as argument", lambda m, *_: m, {}, {"has_table": True})
MODULE = Step(
    "module",
    lambda m, *_: m,
    {"scope": SCOPE, "scoped": frozenset("w")},
    {"has_weights": True},
)
NET = Step("module without a prior", lambda m, *_: m, {}, {"has_net": True})
FROM_DENSITY = Step(
    "from_density",
    lambda *_: ppl.from_density(density, {"mu": 0.0, "b": 0.0, "w": jnp.zeros(3)}),
    {"is_bare": True},
)


def _in_numpyro(*, has_data: bool) -> Callable[[Any, bool, str], Any]:
    def apply(_: Any, has_sum: bool, __: str) -> Any:
        from tests.joints.in_numpyro import numpyro_model

        return numpyro_model(has_sum=has_sum, has_data=has_data)

    return apply


FROM_NUMPYRO = Step("from_numpyro", _in_numpyro(has_data=False))
FROM_NUMPYRO_OBS = Step("from_numpyro (obs=)", _in_numpyro(has_data=True), is_data=True)


def _in_pymc(*, has_data: bool) -> Callable[[Any, bool, str], Any]:
    def apply(_: Any, has_sum: bool, __: str) -> Any:
        pytest.importorskip("pymc", reason="PyMC is not installed")
        from tests.joints.in_pymc import pymc_model

        return pymc_model(has_sum=has_sum, has_data=has_data)

    return apply


FROM_PYMC = Step("from_pymc", _in_pymc(has_data=False))
FROM_PYMC_OBS = Step("from_pymc (observed=)", _in_pymc(has_data=True), is_data=True)
FROM_STAN = Step(
    "from_stan",
    lambda *_: lambda key, program: program(key),
    {
        "is_bare": True,
        "scope": "unconstrained",
        "scoped": frozenset(["mu", "b", "w"]),
        "records_values": True,
    },
)
AUTO = Step(
    "marginalize (auto_marginal)",
    lambda m, *_: ppl.marginalize(m, ppl.auto_marginal),
    sites=frozenset(["mu", "w"]),
)
AUTO_IN_PART = dataclasses.replace(AUTO, sites=frozenset("w"))  # mu has other weights
ENUMERATE = _marginal("Enumerate", z=ppl.Enumerate())
GAUSSIAN = _marginal("Gaussian", w=ppl.Gaussian())
LAPLACE = _marginal("Laplace", w=ppl.Laplace())
BOTH = _marginal("two groups", z=ppl.Enumerate(), w=ppl.Gaussian())
BOTH_LAPLACE = _marginal("two groups, Laplace", z=ppl.Enumerate(), w=ppl.Laplace())
MARGINALS = (ENUMERATE, GAUSSIAN, LAPLACE, BOTH, BOTH_LAPLACE)
OTHERS = (INTERVENE, BLOCK, SCALE, WEIGH, NEST, REPARAM, WITH_PARAMS)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        steps: The transformations, the first one innermost.
        has_z: Whether z and y are in the model also where z is not taken out.
    """

    steps: tuple[Step, ...]
    has_z: bool = False

    @property
    def name(self) -> str:
        """The transformations in their order."""
        return ", ".join(step.name for step in self.steps)

    @property
    def has_sum(self) -> bool:
        """Whether z and y are in the model."""
        return self.has_z or any("z" in step.sites for step in self.steps)

    @property
    def rtol(self) -> float:
        """What a log density is right to; PyMC rounds the constant of LogNormal to 2e-9."""
        return 1e-8 if self.has(FROM_PYMC, FROM_PYMC_OBS) else 1e-10

    @property
    def oracle(self) -> Oracle:
        """What is right for the row."""
        changes: dict[str, Any] = {}
        for step in self.steps:
            changes |= step.changes
        out = frozenset().union(*(step.sites for step in self.steps))
        return Oracle(has_sum=self.has_sum, out=out, **changes)

    def make(self, *, given: bool = False) -> Any:
        """The model of the row; with `given`, without the transformation that gives it data."""
        fields: dict[str, Any] = {}
        for step in self.steps:
            fields |= step.model_fields
        has_sum = self.has_sum

        def made(key: Any, x: Any) -> None:
            model(key, x, has_sum=has_sum, **fields)

        scope = ""
        for i, step in enumerate(self.steps):
            if given and step.name == AUTO.name:  # What is exact is found with the data.
                data = (step for step in self.steps[i:] if step.is_data)
                plan = ppl.auto_marginal(Row((*self.steps[:i], *data)).make())(self.argument())
                made = ppl.marginalize(made, dict(plan))
            elif not (given and step.is_data):
                made = step.apply(made, has_sum, scope)
            scope = SCOPE if step is NEST else scope
        return made

    def argument(self, x: Any = X) -> Any:
        """The argument of the model: an array, a table that has it as a column, or a program."""
        if self.has(FROM_STAN):
            pytest.importorskip("stanli", reason="stanli is not installed")
            from tests.joints.in_stan import stan_model

            return stan_model(x)
        if not self.has(TABLE):
            return jnp.asarray(x)
        if np.ndim(x) == 1:
            return pandas.DataFrame({"x": x})
        return xarray.Dataset({"x": (("series", "row"), x)})

    def has(self, *steps: Step) -> bool:
        """Whether some transformation is in the row."""
        return any(step in self.steps for step in steps)


def _with_marginals() -> list[Row]:
    """Each other transformation before and after each marginalization."""
    rows = [Row((CONDITION, BOTH_LAPLACE)), Row((BOTH_LAPLACE, CONDITION)), Row((AUTO, CONDITION))]
    for other, marginal in itertools.product((*OTHERS, IMPUTE, IGNORE), MARGINALS):
        data = () if other.is_data else (CONDITION,)
        rows.append(Row((*data, other, marginal)))
        if other is not WEIGH:  # It stands in the model.
            rows.append(Row((*data, marginal, other)))
    for marginal in MARGINALS:
        data = (CONDITION_Y,) if "z" in marginal.sites else ()
        rows += [Row((*data, INTERVENE_V, marginal)), Row((*data, marginal, INTERVENE_V))]
    for step in (LABEL, STATE):
        rows += [Row((CONDITION, step, BOTH)), Row((CONDITION, BOTH, step))]
    doors = (FROM_NUMPYRO_OBS, FROM_PYMC_OBS)
    rows += [Row(x) for x in itertools.product(doors, (ENUMERATE, GAUSSIAN, LAPLACE, BOTH))]
    return [*rows, Row((CONDITION, TABLE, BOTH))]


def _without_marginals() -> list[Row]:
    """Each other transformation before the data, and two of them in both orders."""
    rows = [Row((step, CONDITION)) for step in (LABEL, STATE, *OTHERS) if step is not WEIGH]
    for step in (LABEL, STATE):
        rows += [Row((CONDITION, step, NEST)), Row((CONDITION, NEST, step))]
    for one, other in itertools.permutations((*OTHERS, IMPUTE, IGNORE), 2):
        if (one.is_data and other.is_data) or other is WEIGH:
            continue
        data = () if one.is_data or other.is_data else (CONDITION,)
        rows.append(Row((*data, one, other)))
    doors = (FROM_NUMPYRO_OBS, FROM_PYMC_OBS)
    rows += [Row(x) for x in itertools.product(doors, (SCALE, NEST, REPARAM, INTERVENE, BLOCK))]
    rows += [Row(x) for x in itertools.product((FROM_NUMPYRO, FROM_PYMC), (IMPUTE, IGNORE))]
    return [*rows, Row((FROM_DENSITY, SCALE)), Row((FROM_STAN, SCALE))]


SINGLES = [
    Row((CONDITION,)),
    *(Row((CONDITION, step)) for step in OTHERS),
    Row((CONDITION, LABEL)),
    Row((CONDITION, STATE)),
    Row((CONDITION, TABLE)),
    Row((IMPUTE,)),
    Row((IGNORE,)),
    *(Row((CONDITION, step)) for step in MARGINALS if step is not BOTH_LAPLACE),
    *(Row((step, CONDITION)) for step in MARGINALS if step is not BOTH_LAPLACE),
    Row((CONDITION, AUTO)),
    Row((CONDITION, WEIGH, AUTO_IN_PART)),
    Row((CONDITION, MODULE)),
    Row((CONDITION, NET)),
    Row((FROM_DENSITY,)),
    Row((FROM_NUMPYRO, CONDITION)),
    Row((FROM_NUMPYRO_OBS,)),
    Row((FROM_PYMC, CONDITION)),
    Row((FROM_PYMC_OBS,)),
    Row((FROM_STAN,)),
]
OTHER_KERNELS = [  # singles that meet other kernels than NUTS
    Row((CONDITION,)),
    *(
        Row((CONDITION, step))
        for step in (*OTHERS, LABEL, STATE, TABLE, ENUMERATE, GAUSSIAN, LAPLACE, MODULE, NET)
    ),
    Row((IMPUTE,)),
    Row((IGNORE,)),
    *(Row((step,)) for step in (FROM_DENSITY, FROM_NUMPYRO_OBS, FROM_PYMC_OBS, FROM_STAN)),
]
WITH_MARGINALS = _with_marginals()
WITHOUT_MARGINALS = _without_marginals()
PAIRS = [*WITHOUT_MARGINALS, *WITH_MARGINALS]
SAMPLED_LONG = {  # pairs that meet all of inference, in runs as long as those of singles
    Row((CONDITION, SCALE, REPARAM)),
    Row((CONDITION, SCALE, BOTH)),
    Row((CONDITION, BOTH, SCALE)),
    Row((GAUSSIAN, IMPUTE)),
    Row((GAUSSIAN, IGNORE)),
    Row((IMPUTE, ENUMERATE)),
    Row((IGNORE, ENUMERATE)),
    Row((CONDITION, NEST, GAUSSIAN)),
    Row((CONDITION, BOTH, NEST)),
    Row((CONDITION, REPARAM, GAUSSIAN)),
    Row((CONDITION, GAUSSIAN, REPARAM)),
    Row((CONDITION, WITH_PARAMS, GAUSSIAN)),
    Row((CONDITION, GAUSSIAN, WITH_PARAMS)),
    Row((CONDITION, INTERVENE, GAUSSIAN)),
    *(Row((CONDITION, step, LAPLACE)) for step in OTHERS),
    *(Row((CONDITION, LAPLACE, step)) for step in (SCALE, NEST)),
    Row((IMPUTE, LAPLACE)),
    Row((LAPLACE, IMPUTE)),
    Row((IGNORE, LAPLACE)),
    Row((INTERVENE_V, LAPLACE)),
}
VALUES = [
    {"mu": 0.3, "b": 1.2, "w": np.array([0.1, 0.9, -0.4]), "v": V, "z": np.array([0, 1, 0, 1])},
    {
        "mu": 1.1,
        "b": 0.4,
        "w": np.array([1.5, 0.2, 0.8]),
        "v": V + 0.3,
        "z": np.array([1, 1, 0, 0]),
    },
]
