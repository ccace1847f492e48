"""Cross-validation by fits: against a conjugate regression and the Kalman filter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import distributions as dist
import inference
import ppl
from inference.comparison.units import Units
from inference.drivers.cross_validate import _future, _parts

SIZE, NOISE, PRIOR = 12, 1.0, 3.0
rng = np.random.default_rng(0)
X = np.column_stack([np.ones(SIZE), rng.normal(size=SIZE)])
Y = X @ [1.0, -1.0] + NOISE * rng.normal(size=SIZE)
GROUPS = np.arange(SIZE) // 4


def regression(key, x):
    beta = ppl.sample(key, dist.Normal(jnp.zeros(2), PRIOR), name="beta")
    return ppl.sample(key, dist.Normal(x @ beta, NOISE), name="y")


POSTERIOR = ppl.condition(regression, {"y": jnp.asarray(Y)})


def exact_fold(held_out):
    """Normal predictive distribution of the observations of a fold, given all others."""
    x, y = np.delete(X, held_out, 0), np.delete(Y, held_out)
    precision = x.T @ x / NOISE**2 + np.eye(2) / PRIOR**2
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)
    new = X[held_out]
    covariance = new @ np.linalg.solve(precision, new.T) + NOISE**2 * np.eye(len(new))
    return scipy.stats.multivariate_normal(new @ mean, covariance)


def run(key=0, **given):
    given = {"num_draws": 1000, "num_warmup": 200} | given
    return inference.cross_validate(jax.random.key(key), POSTERIOR, jnp.asarray(X), **given)


@pytest.mark.parametrize("joint", [False, True])
def test_groups_left_out(joint):
    found = run(folds=GROUPS, joint=joint)
    exact = []
    for group in range(3):
        members = np.flatnonzero(group == GROUPS)
        normal = exact_fold(members)
        sd = np.sqrt(np.diag(normal.cov))
        by_one = scipy.stats.norm.logpdf(Y[members], normal.mean, sd)
        exact += [normal.logpdf(Y[members])] if joint else by_one.tolist()
    # 4000 draws; the wrong order of sum and mean is off by more.
    np.testing.assert_allclose(found.pointwise, exact, atol=0.12)
    assert found.is_exact.all()
    assert found.names[0] == ("fold 0" if joint else "y[0]")
    assert np.isnan(found.p) == joint
    assert not found.is_bad.any()


def test_random_folds_are_balanced_and_by_key():
    units = Units.of((("y", (10, 3)),), {"y": np.zeros((10, 3), bool)})
    of = lambda key: _parts(jax.random.key(key), 4, units, False)  # noqa: E731
    parts = of(0)
    assert sorted(len(x.held_out) for x in parts) == [7, 7, 8, 8]
    together = np.sort(np.concatenate([x.held_out for x in parts]))
    np.testing.assert_array_equal(together, np.arange(30))
    np.testing.assert_array_equal(of(0)[0].held_out, parts[0].held_out)
    assert not np.array_equal(np.resize(of(1)[0].held_out, 7), np.resize(parts[0].held_out, 7))


def gappy_units(kind="row"):
    """A series of eight steps and two columns, of which steps 2, 5 and 6 are missing."""
    missing = np.zeros((8, 2), bool)
    missing[[2, 5, 6]] = missing[4, 0] = True
    return Units.of((("y", (8, 2)),), {"y": missing}, kind=kind)


def test_start_and_horizon_count_time_steps():
    units = gappy_units()
    assert units.names == ("y[0]", "y[1]", "y[3]", "y[4]", "y[7]")
    np.testing.assert_array_equal(units.rows, [0, 1, 3, 4, 7])
    names = lambda which: [units.names[i] for i in which]  # noqa: E731
    folds = {f.name: (names(f.held_out), names(f.scored)) for f in _future(units, 3, 2)}
    assert folds == {
        "from y[3]": (["y[3]", "y[4]", "y[7]"], ["y[3]", "y[4]"]),
        "from y[4]": (["y[4]", "y[7]"], ["y[4]"]),
        "from y[6]": (["y[7]"], ["y[7]"]),
    }
    with pytest.raises(ValueError, match="at most the number of rows, 8, got 7"):
        _future(units, 7, 2)
    late = Units.of((("y", (3,)),), {"y": np.array([False, False, True])}, kind="row")
    with pytest.raises(ValueError, match="all data from row 2 on are missing"):
        _future(late, 2, 1)


@pytest.mark.parametrize(("kind", "shape"), [("row", (8,)), ("element", (8, 2))])
def test_fold_numbers_are_given_also_where_data_are_missing(kind, shape):
    units = gappy_units(kind)
    given = np.broadcast_to(np.arange(8).reshape(8, *[1] * (len(shape) - 1)) // 4, shape)
    parts = _parts(jax.random.key(0), given, units, False)
    names = [[units.names[i] for i in fold.held_out] for fold in parts]
    rows = [["y[0]", "y[1]", "y[3]"], ["y[4]", "y[7]"]]
    elements = [[f"{n[:-1]},{i}]" for n in part for i in (0, 1)] for part in rows]
    elements[1].remove("y[4,0]")
    assert names == (rows if kind == "row" else elements)


WALK, LEVEL_NOISE, LENGTH = 0.7, 0.5, 14
SERIES = np.cumsum(0.7 * rng.normal(size=LENGTH)) + 0.5 * rng.normal(size=LENGTH)


def local_level(key, num):
    def year(level, key):
        level = level + WALK * ppl.sample(key, dist.Normal(0.0, 1.0), name="step")
        ppl.sample(key, dist.Normal(level, LEVEL_NOISE), name="y")
        return level, None

    jax.lax.scan(year, 0.0, jax.random.split(key, num))


def kalman(horizon, start):
    """Log density of the next rows given the first t, for each t from `start` on."""
    times = np.arange(1, LENGTH + 1)
    covariance = WALK**2 * np.minimum.outer(times, times) + LEVEL_NOISE**2 * np.eye(LENGTH)

    def of_first(num):
        normal = scipy.stats.multivariate_normal(np.zeros(num), covariance[:num, :num])
        return normal.logpdf(SERIES[:num])

    ends = range(start, LENGTH - horizon + 1)
    return np.array([of_first(t + horizon) - of_first(t) for t in ends])


@pytest.mark.parametrize("start", [11, pytest.param(4, marks=pytest.mark.slow)])
def test_future_of_a_local_level(start):
    posterior = ppl.condition(local_level, {"y": jnp.asarray(SERIES)})
    found = inference.cross_validate(
        jax.random.key(0), posterior, LENGTH, folds="future", start=start, horizon=2, num_draws=2000
    )
    np.testing.assert_allclose(found.pointwise, kalman(2, start), atol=0.12)
    assert found.names[0] == f"from y[{start}]"
    # A fit to all data predicts what it has seen far better.
    assert np.abs(kalman(1, start)[: len(found.names)] - found.pointwise).max() > 0.3


def test_mistakes():
    key, x = jax.random.key(0), jnp.asarray(X)
    of = lambda **given: inference.cross_validate(  # noqa: E731
        key, POSTERIOR, x, num_draws=4, num_chains=1, **given
    )
    with pytest.raises(ValueError, match="\"future\", got 'past'"):
        of(folds="past")
    with pytest.raises(ValueError, match='are for folds="future"'):
        of(start=3)
    with pytest.raises(ValueError, match="needs start="):
        of(folds="future")
    with pytest.raises(ValueError, match="at most the number of rows, 12"):
        of(folds="future", start=12)
    with pytest.raises(ValueError, match="at most the number of observations"):
        of(folds=13)
    with pytest.raises(ValueError, match=r"the shape \(12,\) of .* y, or one number for each of"):
        of(folds=np.arange(5))
    with pytest.raises(ValueError, match=r"one number for each of the 12 rows, also of those"):
        of(folds=np.arange(5), unit="row")
    with pytest.raises(TypeError, match="array of integers"):
        of(folds=np.linspace(0, 1, 12))


@pytest.mark.parametrize(
    ("folds", "error", "words"),
    [
        ("text", ValueError, "got 'text'.$"),
        (
            ["a", "b"] * 6,
            TypeError,
            r"groups by name have numbers by numpy.unique",
        ),
        ([1, [2, 3]], TypeError, r"got \[1, \[2, 3\]\].$"),
        ([], TypeError, r"got \[\].$"),
        (None, TypeError, "got None.$"),
        (2.5, TypeError, "got 2.5.$"),
        (True, TypeError, "got True.$"),
        ({1: 2}, TypeError, "got {1: 2}.$"),
    ],
)
def test_folds_that_are_no_whole_numbers_are_refused(folds, error, words):
    with pytest.raises(error, match=f"^cross_validate: folds must be the number .*{words}"):
        inference.cross_validate(jax.random.key(0), POSTERIOR, jnp.asarray(X), folds=folds)
