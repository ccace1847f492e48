"""The columns of the table of joints: each consumer of a model beside the oracle of a row."""

import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import arviz
import jax
import jax.numpy as jnp
import numpy as np
from jax.random import key, split
from jax.sharding import NamedSharding, PartitionSpec
from scipy import stats

import inference
import ppl
from tests.inference.test_psis import arviz_psis
from tests.joints.oracle import GAP, V, X, Y
from tests.joints.rows import (
    BOTH_LAPLACE,
    CONDITION,
    FROM_NUMPYRO_OBS,
    FROM_PYMC_OBS,
    FROM_STAN,
    LABEL,
    LAPLACE,
    NET,
    OTHER_KERNELS,
    PAIRS,
    REPARAM,
    ROWS_OF_V,
    SAMPLED_LONG,
    TABLE,
    VALUES,
    Row,
)

NUM_MANY = 4000
Z = 5.0  # standard errors: 6e-7 of two-sided tests fail by chance, of which there are some thousand
ENTRY = {"v": V, "y": Y}


def is_short(row: Row) -> bool:
    """Whether the row is a pair that meets fewer columns, in shorter runs."""
    return row in PAIRS and row not in SAMPLED_LONG


def sizes(row: Row) -> dict[str, int]:
    """Iterations of a run: fewer of what takes long, as errors are by the draws."""
    has_more = any(step not in (CONDITION, LAPLACE) for step in row.steps)
    if is_short(row) or (row.has(LAPLACE) and has_more):
        return {"num_warmup": 150, "num_draws": 150}
    return {"num_warmup": 300, "num_draws": 500}


def nested(row: Row, values: dict[str, Any]) -> dict[str, Any]:
    """Values by site as the model takes them: within the scope, of its dtypes."""
    found: dict[str, Any] = {}
    for name, x in values.items():
        inside = found.setdefault(row.oracle.scope, {}) if row.oracle.is_inside(name) else found
        inside[name] = jnp.asarray(x, int if name == "z" else float)
    return found


def flat(row: Row, values: Any) -> dict[str, Any]:
    """Values by site without the scope."""
    if not row.oracle.scope:
        return dict(values)
    scope = row.oracle.scope
    dotted = {k.removeprefix(f"{scope}."): x for k, x in values.items() if k != scope}
    return dotted | dict(values.get(scope, {}))


def prefixed(row: Row, names: Any) -> set[str]:
    """Names with the scope in front."""
    return {row.oracle.full(name) for name in names}


def focus(row: Row) -> str:
    """The latent site that is looked at most: mu, if it is one."""
    return "mu" if "mu" in row.oracle.latent else "b"


def pick(row: Row, at: int) -> dict[str, Any]:
    """Values of the latent sites; of the imputed one with its data."""
    values = {name: VALUES[at][name] for name in row.oracle.latent}
    if "v" in values:
        values["v"] = np.where(np.arange(3) == GAP, values["v"], V)
    return values


def close(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def log_density(row: Row) -> None:
    """Under jit and vmap in both floats, with the gradient; and with the data given as values."""
    points, oracle, site = [pick(row, i) for i in range(2)], row.oracle, focus(row)
    expected = [oracle.log_density(p) for p in points]
    step = 1e-5
    slopes = [
        (
            oracle.log_density(p | {site: p[site] + step})
            - oracle.log_density(p | {site: p[site] - step})
        )
        / (2 * step)
        for p in points
    ]
    for wide in (False, True):
        with jax.enable_x64(wide):
            made = row.make()
            stacked = jax.tree.map(lambda *x: jnp.stack(x), *(nested(row, p) for p in points))

            def of(x: Any, values: Any, made: Any = made) -> Any:
                values = nested(row, {**flat(row, values), site: x})
                return ppl.log_density(made)(values, row.argument())

            at = flat(row, stacked)[site]
            found, slope = jax.jit(jax.vmap(jax.value_and_grad(of)))(at, stacked)
            close(found, expected, row.rtol if wide else 1e-5)
            close(slope, slopes, 1e-6 if wide else 1e-4)
    if not (oracle.gap or oracle.unscored):
        with jax.enable_x64(True):
            values = nested(row, {**points[0], **{k: ENTRY[k] for k in oracle.observed}})
            found = ppl.log_density(row.make(given=True))(values, row.argument())
            close(found, expected[0], row.rtol)


def log_probs(row: Row) -> None:
    """Each entry of each site, in its place."""
    with jax.enable_x64(True):
        found = flat(row, ppl.log_probs(row.make())(nested(row, pick(row, 0)), row.argument()))
    expected = row.oracle.scores(pick(row, 0))
    assert found.keys() == expected.keys()
    for name, scores in expected.items():
        assert np.shape(found[name]) == np.shape(scores), name
        close(found[name], scores, row.rtol)


def check_moments(name: str, draws: Any, mean: Any, variance: Any) -> None:
    """Mean and variance of independent draws; the variance of it by their own fourth moment."""
    draws = np.asarray(draws, float).reshape(-1, *np.shape(mean))
    num = len(draws)
    error = np.sqrt(np.asarray(variance) / num)
    assert np.all(np.abs(draws.mean(0) - mean) <= Z * error + 1e-6), name
    square = (draws - mean) ** 2
    error = square.std(0) / np.sqrt(num)
    assert np.all(np.abs(square.mean(0) - variance) <= Z * error + 1e-6), name


def simulate(row: Row) -> None:
    """Means and variances of all sites, the data drawn anew; and the data where they are given."""
    expected = row.oracle.prior_moments()
    draw = jax.jit(jax.vmap(lambda k: ppl.simulate(row.make(given=True))(k, row.argument())))
    found = flat(row, draw(split(key(1), NUM_MANY)))
    assert found.keys() == expected.keys()
    for name, moments in expected.items():
        check_moments(name, found[name], *moments)
    given = flat(row, ppl.simulate(row.make())(key(2), row.argument()))
    assert given.keys() == expected.keys()
    for name in row.oracle.observed:
        known = np.arange(len(ENTRY[name])) != (GAP if row.oracle.gap and name == "v" else -1)
        close(np.asarray(given[name])[known], ENTRY[name][known], 1e-6)


def predict(row: Row) -> None:
    """Means and variances of new data, given the latent sites; and of a gap in the given data."""
    values = {k: x for k, x in pick(row, 0).items() if k != "v"}
    draws = jax.tree.map(lambda x: jnp.broadcast_to(x, (NUM_MANY, *x.shape)), nested(row, values))
    found = flat(row, ppl.predict(row.make(given=True), draws)(key(3), row.argument()))
    for name, moments in row.oracle.predicted(values).items():
        if name not in row.oracle.unscored:
            check_moments(name, found.pop(name), *moments)
    assert not set(found) - set(row.oracle.kinds), found.keys()
    if "v" in row.oracle.latent:
        gap = flat(row, ppl.predict(row.make(), draws)(key(3), row.argument()))["v"]
        mean, variance = row.oracle.predicted(values)["v"]
        is_gap = np.arange(3) == GAP
        check_moments("v", gap, np.where(is_gap, mean, V), np.where(is_gap, variance, 0.0))


def trace(row: Row) -> None:
    """The log probability of each site, summed over its entries, at a draw."""
    with jax.enable_x64(True):
        traced = ppl.trace(row.make())(key(4), row.argument())
        sites = flat(row, dict(traced.sites))
        values = {k: np.asarray(sites[k].value) for k in row.oracle.latent}
        scored = {
            name: site.log_prob for name, site in sites.items() if site.kind != "deterministic"
        }
        found = {name: float(np.sum(x)) for name, x in scored.items()}
    for group, scores in row.oracle.scores(values).items():
        name = group.split(".")[-1]  # The last of a group has the score of all.
        close(found[name], np.sum(scores), row.rtol)
        assert sites[name].kind == row.oracle.kinds[name]


def graph(row: Row) -> None:
    """The kinds of all sites, and the edges between b, w and v."""
    found = ppl.graph(row.make())(row.argument())
    kinds = {name: node.kind for name, node in found.nodes.items()}
    expected = {row.oracle.full(name): kind for name, kind in row.oracle.kinds.items()}
    assert kinds == expected | dict.fromkeys(row.oracle.recorded, "deterministic")
    of = lambda names: prefixed(row, names)  # noqa: E731
    (w,) = of(["w"])
    if row.oracle.is_bare:
        assert set(found.parents("log_density")) == of(["mu", "b", "w"])
        return
    if "v" not in row.oracle.hidden:
        (v,) = of(["v"])
        assert set(found.parents(v)) == (set() if row.oracle.fixes_v else of(["b", "w"]))
    assert set(found.parents(w)) == of(["mu"])


def unconstrain(row: Row) -> None:
    """The density of a position is that of its values times the volume that they span."""
    with jax.enable_x64(True):
        space = ppl.unconstrain(row.make(), row.argument())
        position = space.initial(key(5))
        leaves, tree = jax.tree.flatten(position)
        sizes = np.cumsum([leaf.size for leaf in leaves])[:-1]

        def values_of(vector: Any) -> Any:
            parts = [
                part.reshape(leaf.shape)
                for part, leaf in zip(jnp.split(vector, sizes), leaves, strict=True)
            ]
            return flat(row, space.constrain(jax.tree.unflatten(tree, parts)))

        def vector_of(vector: Any) -> Any:
            values = values_of(vector)
            sites = [jnp.ravel(values[k]) for k in row.oracle.latent if k != "v"]
            imputed = [values["v"][GAP : GAP + 1]] if "v" in row.oracle.latent else []
            return jnp.concatenate([*sites, *imputed])

        vector = jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])
        sign, volume = np.linalg.slogdet(jax.jacobian(vector_of)(vector))
        assert sign
        values = {k: np.asarray(x) for k, x in values_of(vector).items() if k in row.oracle.latent}
        found = jax.jit(space.log_density)(position)
        close(found, row.oracle.log_density(values) + volume, row.rtol)
        again = space.unconstrain(nested(row, values))
        jax.tree.map(close, again, position)


@functools.cache
def made(row: Row) -> Any:
    """The model of a row, the same for all that look at one run, so that traces are shared."""
    return row.make()


@functools.cache
def sampled(row: Row) -> Any:
    """A short run of NUTS."""
    return inference.mcmc(key(6), made(row), row.argument(), progress=False, **sizes(row))


def check_log_density(row: Row, result: Any) -> None:
    """The log density on unconstrained space at some draws, (chain, draw), is that of the oracle.

    The position of b is its logarithm, scaled by a power of its standard deviation where it is
    learned between which coordinates chains move.
    """
    draws, oracle = flat(row, result.draws), row.oracle
    log_density = np.asarray(result.stats["log_density"])
    weights = flat(row, result.centering).get("b")
    assert weights is not None or oracle.fixes_b or not row.has(REPARAM)
    shape = np.shape(log_density)
    for i in np.unique(np.linspace(0, np.prod(shape, dtype=int) - 1, 8, dtype=int)):
        at = np.unravel_index(i, shape)
        values = {k: np.asarray(draws[k][at], float) for k in oracle.latent}
        volume = 0.0 if oracle.fixes_b or oracle.is_bare else np.log(values["b"])
        volume += 0.0 if weights is None else (1 - weights[at[0]]) * np.log(0.5)
        expected = oracle.log_density(values) + volume
        np.testing.assert_allclose(log_density[at], expected, rtol=1e-4, atol=1e-3)


def check_posterior(row: Row, draws: Any, x: Any = X) -> None:
    """Means and second moments of mu and log b, within standard errors of Markov chains."""
    draws, grid = flat(row, draws), row.oracle.posterior(tuple(map(float, x)))
    pairs = [(np.asarray(draws["mu"], float), grid.mu)] if "mu" in draws else []
    if not row.oracle.fixes_b:
        b = np.asarray(draws["b"], float)
        pairs.append((b if row.oracle.is_bare else np.log(b), np.log(grid.b)))
    for chains, points in pairs:
        for of in (lambda t: t, np.square):
            error = np.asarray(arviz.mcse(of(chains), method="mean")).item()
            assert abs(of(chains).mean() - grid.mean(of(points))) < Z * error


def check_mean(chains: Any, expected: Any) -> None:
    """Mean of the draws of each entry, (chain, draw, ...), within standard errors."""
    chains = np.asarray(chains, float)
    chains = chains.reshape(*chains.shape[:2], -1)
    for i, mean in enumerate(np.ravel(expected)):
        error = np.asarray(arviz.mcse(chains[..., i], method="mean")).item()
        assert abs(chains[..., i].mean() - mean) < Z * error


def mcmc(row: Row) -> None:
    """The posterior of mu and b by NUTS, and the log density at its draws."""
    check_posterior(row, sampled(row).draws)
    check_log_density(row, sampled(row))


def gibbs(row: Row) -> None:
    """The posterior of mu, b and z by Gibbs sampling, and the log density of values at its draws.

    The classes z are among the sites, unless the row takes them out.
    """
    row = dataclasses.replace(row, has_z=not row.oracle.is_bare)
    result = inference.mcmc(
        key(13),
        made(row),
        row.argument(),
        kernel=inference.Gibbs.auto(),
        progress=False,
        **sizes(row),
    )
    draws, oracle = flat(row, result.draws), row.oracle
    assert set(oracle.latent) <= set(draws)
    check_posterior(row, result.draws)
    if "z" in oracle.latent:
        check_mean(draws["z"], oracle.class_means())
    if "v" in oracle.latent:
        check_mean(draws["v"][..., GAP], oracle.gap_mean())
    for i in range(8):
        values = {k: np.asarray(draws[k][0, i], float) for k in oracle.latent}
        expected = oracle.log_density(values)
        np.testing.assert_allclose(
            result.stats["log_density"][0, i], expected, rtol=1e-4, atol=1e-3
        )


def tempering(row: Row) -> None:
    """The posterior of mu and b by replicas, and the log evidence.

    The weights of a short run have heavy tails, which bias its log evidence by some hundredths.
    """
    result = inference.mcmc(
        key(14),
        made(row),
        row.argument(),
        kernel=inference.ParallelTempering(num_temperatures=5),
        progress=False,
        **sizes(row),
    )
    check_posterior(row, result.draws)
    check_log_density(row, result)
    found = inference.evidence(result)
    gap = found.log_evidence - row.oracle.posterior().log_evidence
    assert abs(gap) < Z * found.standard_error + 0.1


def smc(row: Row) -> None:
    """The posterior of mu and b by particles from the prior, and the log evidence."""
    kernel = inference.HMC(num_steps=4)
    result = inference.smc(key(15), made(row), row.argument(), kernel=kernel, progress=False)
    check_posterior(row, result.draws)
    draws, oracle = flat(row, result.draws), row.oracle
    for i in range(8):
        values = {k: np.asarray(draws[k][0, i], float) for k in oracle.latent}
        own = oracle.own_scores(values)
        expected = oracle.log_density(values) - sum(np.sum(own[k]) for k in oracle.latent)
        np.testing.assert_allclose(
            result.stats["log_likelihood"][0, i], expected, rtol=1e-4, atol=1e-3
        )
    gap = result.log_evidence - row.oracle.posterior().log_evidence
    assert abs(gap) < Z * result.standard_error + 1e-3


def nested_laplace(row: Row) -> None:
    """Weighted means and second moments of mu and log b, and the log evidence."""
    result = inference.nested_laplace(key(18), made(row), row.argument(), progress=False)
    draws, grid = flat(row, result.draws), row.oracle.posterior()
    assert result.is_corrected
    pairs = [(draws["mu"][0], grid.mu)]
    if not row.oracle.fixes_b:
        pairs.append((np.log(draws["b"][0]), np.log(grid.b)))
    weights = result.weights[0]
    for x, points in pairs:
        for of in (lambda t: t, np.square):
            mean = weights @ of(x)
            error = np.sqrt(weights @ (of(x) - mean) ** 2 / result.ess)
            assert abs(mean - grid.mean(of(points))) < Z * error
    gap = result.log_evidence - grid.log_evidence
    assert abs(gap) < Z * result.log_evidence_standard_error + 1e-3


def evidence(row: Row) -> None:
    """The log evidence by the draws of NUTS."""
    found = inference.evidence(sampled(row), made(row), row.argument())
    assert found.standard_error < 0.1
    gap = found.log_evidence - row.oracle.posterior().log_evidence
    assert abs(gap) < Z * found.standard_error + 1e-3


def svi(row: Row) -> None:
    """The bound is below the log evidence, the greatest of all parameters, and near to it."""
    guide = inference.FullRank()
    fit = inference.svi(
        key(7), row.make(), row.argument(), guide=guide, num_steps=3000, progress=False
    )
    shifts = np.linspace(-1.0, 3.0, 41) if row.has(NET) else [row.oracle.shift]
    grids = [dataclasses.replace(row.oracle, shift=x).posterior() for x in shifts]
    gap = max(grid.log_evidence for grid in grids) - float(fit.elbo)
    assert -Z * float(fit.elbo_standard_error) < gap < 0.5


def importance(row: Row) -> None:
    """Weights of draws from the prior are by the oracle's scores; the evidence is near to its."""
    found = inference.importance(
        key(12), made(row), row.argument(), num_draws=NUM_MANY, progress=False
    )
    draws, oracle = flat(row, found.draws), row.oracle
    for i in range(8):
        values = {k: np.asarray(draws[k][0, i], float) for k in oracle.latent}
        own = oracle.own_scores(values)
        expected = oracle.log_density(values) - sum(np.sum(own[k]) for k in oracle.latent)
        np.testing.assert_allclose(found.log_weights[0, i], expected, rtol=1e-4, atol=1e-3)
    if found.pareto_k < 0.5:
        gap = found.log_evidence - oracle.posterior().log_evidence
        assert abs(gap) < Z * found.log_evidence_standard_error + 1e-3


def recover(row: Row) -> None:
    """Means and variances of what is taken out, given the rest."""
    values = pick(row, 0)
    draws = jax.tree.map(lambda x: jnp.broadcast_to(x, (NUM_MANY, *x.shape)), nested(row, values))
    found = flat(row, ppl.recover(row.make(), draws)(key(8), row.argument()))
    expected = row.oracle.recovered(values)
    assert expected.keys() <= found.keys()
    for name, moments in expected.items():
        check_moments(name, found[name], *moments)


def conditional(row: Row) -> None:
    """It has the slopes of the log density; there is none if the density is not normal."""
    with jax.enable_x64(True):
        values, site = pick(row, 0), focus(row)
        (name,) = prefixed(row, [site])
        inputs = nested(row, values)
        found = ppl.conditional(row.make(), name)(inputs, row.argument())
        at = np.linspace(-2.0 if site == "mu" else 0.5, 3.0, 6)
        expected = np.array([row.oracle.log_density(values | {site: x}) for x in at])
        if found is None:
            is_closed = np.ptp(np.diff(expected, 2)) < 1e-3
            has_no_form = row.has(FROM_NUMPYRO_OBS, FROM_STAN)
            has_no_form |= row.has(FROM_PYMC_OBS) and bool(row.oracle.out)
            assert not is_closed or has_no_form
        else:
            close(np.diff([found.log_prob(mu) for mu in at]), np.diff(expected), 1e-8)


def log_likelihoods(row: Row, draws: Any) -> dict[str, np.ndarray]:
    """The log probability of each observation at each draw, (chain, draw, entry)."""
    draws, oracle = flat(row, draws), row.oracle
    if "mu" in oracle.out:
        return {}  # Data are scored together with b.
    shape = draws["mu"].shape
    each = [
        oracle.own_scores({k: np.asarray(draws[k][i], float) for k in oracle.latent})
        for i in np.ndindex(shape)
    ]
    found = {}
    for name in oracle.observed:
        scores = np.stack([e[name] for e in each]).reshape(*shape, -1)
        is_short = oracle.gap == "ignore" and name == "v"
        found[name] = np.delete(scores, GAP, 2) if is_short else scores
    return found


def label(row: Row, site: str, i: int) -> str:
    """The name of an observation."""
    (name,) = prefixed(row, [site])
    return f"{name}[{ROWS_OF_V[i] if row.has(LABEL) and site == 'v' else i}]"


def entries(row: Row) -> list[tuple[str, int]]:
    """The observations: pairs of a site and an entry, in their order."""
    is_gap = lambda n, i: row.oracle.gap == "ignore" and n == "v" and i == GAP  # noqa: E731
    pairs = [(n, i) for n in row.oracle.observed for i in range(len(ENTRY[n]))]
    return [pair for pair in pairs if not is_gap(*pair)]


def loo(row: Row) -> None:
    """Each term is that of ArviZ's PSIS on log likelihoods of the oracle.

    Draws are weighted as the density counts an observation, which is predicted without factors.
    """
    found = inference.loo(sampled(row), made(row), row.argument())
    parts = log_likelihoods(row, sampled(row).draws)
    expected = {}
    shapes = {}
    for site, i in entries(row):
        each = np.ravel(
            parts[site][..., i - (i > GAP) * (parts[site].shape[-1] < len(ENTRY[site]))]
        )
        log_weights, k = arviz_psis(-row.oracle.weight(site, i) * each)
        expected[label(row, site, i)] = np.logaddexp.reduce(np.ravel(log_weights) + each)
        shapes[label(row, site, i)] = float(k)
    assert sorted(found.names) == sorted(expected)
    right = np.array([expected[name] for name in found.names])
    # The heavier a tail, the more it matters how long it is taken, which ArviZ does otherwise.
    k = np.fmax(found.pareto_k, [shapes[name] for name in found.names])
    bound = np.where(k < 0.5, 5e-3, np.where(k < 0.7, 0.03, 0.2))
    assert np.all(np.abs(found.pointwise - right) < bound)


def cross_validate(row: Row) -> None:
    """Two folds beside the exact predictive densities, and the same of a folder."""
    site = "y" if row.has_sum else "v"  # of one site, whose folds are an array of its shape
    (name,) = prefixed(row, [site])
    folds = np.arange(len(ENTRY[site])) // 2
    with tempfile.TemporaryDirectory() as folder:
        given = {"folds": folds, "site": name, "checkpoint": folder} | sizes(row)
        found, again = (
            inference.cross_validate(key(9), row.make(), row.argument(), **given) for _ in range(2)
        )
    np.testing.assert_array_equal(found.pointwise, again.pointwise)
    terms = dict(zip(found.names, found.pointwise, strict=True))
    mine = [(s, i) for s, i in entries(row) if s == site]
    assert terms.keys() == {label(row, *entry) for entry in mine}
    for fold in (0, 1):
        left_out = tuple(entry for entry in mine if folds[entry[1]] == fold)
        grid = row.oracle.posterior(without=left_out)
        for entry in left_out:
            expected = grid.log_mean_exp(predictive(row, *entry, grid))
            assert abs(terms[label(row, *entry)] - expected) < 0.15


def predictive(row: Row, name: str, i: int, grid: Any) -> np.ndarray:
    """The log density of an observation that is left out, given mu and b.

    Where w[i] is sampled, its density counts as the factor says also without the observation.
    """
    if name == "v":
        variance = 1.0 if "w" in row.oracle.out else 1.0 / row.oracle.weight(name, i)
        return stats.norm.logpdf(V[i], grid.mu + grid.b * X[i], np.sqrt(variance + 0.25))
    each = [np.log(q) + stats.norm.logpdf(Y[i], grid.mu + 2 * k) for k, q in ((0, 0.7), (1, 0.3))]
    return np.logaddexp(*each)


def to_arviz(row: Row) -> None:
    """Draws, data and log likelihoods by observation."""
    data = sampled(row).to_arviz(made(row), row.argument())
    names = prefixed(row, row.oracle.latent)
    assert names <= set(data["posterior"].data_vars)
    if "mu" in row.oracle.out:  # Data are scored together with b.
        assert "log_likelihood" not in data
    for name, expected in log_likelihoods(row, sampled(row).draws).items():
        (full,) = prefixed(row, [name])
        close(data["log_likelihood"][full].values, expected, 1e-3)


def calibrate(row: Row) -> None:
    """A right posterior passes the check by simulation; of short rows, its density is right."""
    observed = sorted(prefixed(row, ["v", "y"] if row.has_sum else ["v"]))
    if is_short(row):
        check_simulated(row, observed)
        return
    report = inference.calibrate(
        key(10),
        row.make(given=True),
        row.argument(),
        observed=observed,
        num_simulations=60,
        num_warmup=150,
        num_draws=150,
        num_chains=2,
        level=1e-3,
        progress=False,
    )
    assert report.is_calibrated, str(report)


def check_simulated(row: Row, observed: list[str]) -> None:
    """The fits of a calibration are given posteriors with the density of the simulated data."""
    oracle = dataclasses.replace(row.oracle, gap="")
    values = {name: x for name, x in pick(row, 0).items() if name in oracle.latent}
    seen = []

    def fit(key: Any, posterior: Any, x: Any, data: Any) -> Any:
        found = ppl.log_density(posterior)(nested(row, values), x)
        new = {name: np.asarray(x, float) for name, x in flat(row, data).items()}
        close(found, oracle.log_density({**values, **new}), 1e-4)
        seen.append(new["v"])
        noise = 1 + 0.1 * jax.random.normal(key, (20,))
        return jax.tree.map(lambda value: jnp.multiply.outer(noise, value), nested(row, values))

    report = inference.calibrate(
        key(10),
        row.make(given=True),
        row.argument(),
        observed=observed,
        fit=fit,
        num_simulations=2,
        progress=False,
    )
    assert report.ranks.shape[0] == len(seen) == 2
    assert not np.allclose(*seen)
    assert set(oracle.latent) <= {name.split("[")[0].split(".")[-1] for name in report.names}


def mcmc_each(row: Row) -> None:
    """Two data sets at once, each with its posterior."""
    stacked = np.stack([X, X[::-1]])
    fits = inference.mcmc_each(
        key(11), row.make(), row.argument(stacked), progress=False, **sizes(row)
    )
    for i in range(2):
        check_posterior(row, fits[i].draws, stacked[i])


def checkpoint(row: Row) -> None:
    """A run that goes on from a folder is the run that was never stopped."""
    settings = sizes(row) | {"num_draws": 100}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run"
        inference.mcmc(
            key(6), row.make(), row.argument(), checkpoint=path, progress=False, **settings
        )
        num_draws = sizes(row)["num_draws"]
        again = inference.resume(
            path, row.make(), row.argument(), num_draws=num_draws, progress=False
        )
    whole = sampled(row).draws
    jax.tree.map(np.testing.assert_array_equal, again.draws, whole)


def handed_on(row: Row) -> None:
    """A run that takes the warm-up of another one has the posterior by its own key."""
    result = inference.mcmc(
        key(16),
        made(row),
        row.argument(),
        init=sampled(row),
        progress=False,
        **sizes(row) | {"num_warmup": 0},
    )
    check_posterior(row, result.draws)
    check_log_density(row, result)


def split_data(row: Row) -> None:
    """A run with x split over three devices has the right log density at its draws."""
    mesh = jax.make_mesh((3,), ("data",))
    x = jax.device_put(jnp.asarray(X), NamedSharding(mesh, PartitionSpec("data")))
    x = {"x": x} if row.has(TABLE) else x
    settings = {"num_warmup": 30, "num_draws": 20, "num_chains": 2, "progress": False}
    check_log_density(row, inference.mcmc(key(17), made(row), x, **settings))


QUICK = (log_density, log_probs, simulate, predict, trace, graph, unconstrain, recover, conditional)
AT_PAIRS = (*QUICK, mcmc, importance, loo, cross_validate, to_arviz, calibrate)
SLOW = (
    *(mcmc, evidence, svi, importance, loo),
    *(cross_validate, to_arviz, calibrate, mcmc_each, checkpoint, handed_on, split_data),
)
BY_OTHER_METHODS = (gibbs, tempering, smc, nested_laplace)
COLUMNS = (*QUICK, *SLOW, *BY_OTHER_METHODS)


def columns_of(row: Row) -> tuple[Callable[[Row], None], ...]:
    """The columns that a row meets; pairs with Laplace for one of two groups take the longest."""
    if row.has(BOTH_LAPLACE):
        return (*QUICK, importance)
    if is_short(row):
        return AT_PAIRS
    asked = COLUMNS if row in OTHER_KERNELS else (*QUICK, *SLOW)
    return tuple(x for x in asked if x is not split_data or not row.has(FROM_STAN))
