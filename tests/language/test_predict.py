"""predict: all other sites, draw by draw, whatever the chunks; against plain simulation and exact moments."""

# ruff: noqa: E501

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import PRNGKey, fold_in, key, split

import distributions as dist
import ppl
from ppl.transforms.predict import _predict_on_cpu

from .checks import assert_close, assert_equal, counting, shapes

KEY = key(8)
X = jnp.array([0.5, -1.0, 2.0])


def line(key: Any, x: Any) -> Any:
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    ppl.factor(-slope, name="tilt")
    mean = ppl.deterministic(slope * x, name="mean")
    return ppl.sample(key, dist.Normal(mean, scale), name="y")


def walk(key: Any, start: Any) -> Any:
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def step(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(x, scale), name="x")
        return x, ppl.sample(key, dist.Poisson(jnp.exp(x)), name="n")

    return lax.scan(step, start, split(key, 4))[1]


def in_scopes(key: Any, x: Any) -> Any:
    each = lambda key, x: ppl.nest(line, scope="a")(key, x)  # noqa: E731
    return jax.vmap(each)(split(key, 3), x)


DRAWS = {
    "slope": jnp.linspace(-1.0, 1.0, 10).reshape(2, 5),
    "scale": jnp.linspace(0.1, 2.0, 10).reshape(2, 5),
}
ROWS: dict[str, tuple[Any, Any, Any]] = {
    "straight": (line, DRAWS, X),
    "numpy-float64": (line, jax.tree.map(lambda x: np.asarray(x, np.float64), DRAWS), X),
    "with-deterministic": (line, DRAWS | {"mean": jnp.zeros((2, 5, 3))}, X),
    "some": (line, {"slope": jnp.arange(7.0)}, X),
    "one": (line, {"slope": 1.0, "scale": 2.0}, X),
    "conditioned": (ppl.condition(line, {"scale": 0.5}), {"slope": jnp.arange(3.0)}, X),
    "scan": (walk, {"scale": jnp.ones(6), "x": jnp.arange(24.0).reshape(6, 4) / 10}, 0.0),
    "scopes-vmap": (in_scopes, {"a": {"slope": jnp.arange(12.0).reshape(4, 3)}}, X),
    "prior": (line, 6, X),
}  # fmt: skip


def flat(tree: Any, num_axes: int) -> Any:
    return jax.tree.map(lambda x: jnp.reshape(x, (-1, *jnp.shape(x)[num_axes:])), tree)


@pytest.mark.quick_rows("numpy-float64", "one", "conditioned", "prior")
@pytest.mark.parametrize(("model", "draws", "x"), ROWS.values(), ids=ROWS)
def test_each_draw_is_a_simulation_with_its_values(model, draws, x):
    """Draw i is the model at the key folded with i, with the values of the draw fixed."""
    predicted = ppl.predict(model, draws)(KEY, x)
    latent = {} if isinstance(draws, int) else {k: v for k, v in draws.items() if k != "mean"}
    first = jax.tree.leaves(latent)[0] if latent else jnp.zeros(6)
    site = ppl.simulate(model)(KEY, x)
    num_axes = jnp.ndim(first) - (
        jnp.ndim(jax.tree.leaves({k: site[k] for k in latent})[0]) if latent else 0
    )
    rows, values = flat(predicted, num_axes), flat(latent, num_axes)
    for i in range(len(jax.tree.leaves(rows)[0])):
        fixed = ppl.intervene(model, jax.tree.map(lambda v, i=i: v[i], values))
        expected = ppl.simulate(fixed)(fold_in(KEY, i), x)
        for path, got in jax.tree_util.tree_leaves_with_path(rows):
            at = expected
            for entry in path:
                at = at[entry.key]
            assert_close(got[i], at, "float32")


def test_what_is_predicted():
    predicted = ppl.predict(line, DRAWS)(KEY, X)
    assert shapes(predicted) == {"mean": (2, 5, 3), "y": (2, 5, 3)}
    assert shapes(ppl.predict(line, 4)(KEY, X)) == {
        "slope": (4,),
        "scale": (4,),
        "mean": (4, 3),
        "y": (4, 3),
    }
    observed = ppl.condition(line, {"scale": 0.5})
    assert shapes(ppl.predict(observed, {"slope": X})(KEY, X)) == {"mean": (3, 3), "y": (3, 3)}


@pytest.mark.slow_rows("3", "4")
@pytest.mark.parametrize("chunk_size", [1, 3, 4, 10, 99])
def test_chunks_change_nothing(chunk_size):
    expected = ppl.predict(line, DRAWS)(KEY, X)
    chunked = ppl.predict(line, DRAWS, chunk_size=chunk_size)
    assert_equal(chunked(KEY, X), expected)
    parts = list(chunked.stream(KEY, X))
    assert [len(part["y"]) for part in parts] == [
        min(chunk_size, 10 - i) for i in range(0, 10, min(chunk_size, 10))
    ]
    assert all(isinstance(part["y"], np.ndarray) for part in parts)
    assert_equal(jax.tree.map(lambda *xs: np.concatenate(xs), *parts), flat(expected, 2))


def test_a_stream_holds_one_chunk(tmp_path):
    """Draws on disk are read chunk by chunk, and no program is compiled for the last, smaller one."""
    path = tmp_path / "draws.npy"
    np.save(path, np.zeros(1000, np.float32))
    counted, calls = counting(
        lambda key, slope, x: ppl.sample(key, dist.Normal(slope * x, 1.0), name="y")
    )
    model = lambda key, x: counted(key, ppl.sample(key, dist.Normal(0.0, 1.0), name="slope"), x)  # noqa: E731
    stream = ppl.predict(model, {"slope": np.load(path, mmap_mode="r")}, chunk_size=300).stream(
        KEY, X
    )
    assert [part["y"].shape for part in stream] == [(300, 3)] * 3 + [(100, 3)]
    assert len(calls) == 1


def test_any_number_of_draws_and_new_data_compile_once():
    def model(key: Any, x: Any) -> Any:
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        up = ppl.sample(key, dist.Bernoulli(probs=0.5), name="up")
        return ppl.sample(key, dist.Normal(slope * x + up, 1.0), name="y")

    summed = ppl.condition(ppl.marginalize(model, ["up"]), {"y": 0.2})
    draws = {"slope": jnp.linspace(-1.0, 1.0, 150)}
    few = {"slope": draws["slope"][:70].reshape(2, 35)}
    for function, of in ((ppl.predict, model), (ppl.recover, summed)):
        before = _predict_on_cpu._cache_size()
        whole, part = function(of, draws)(KEY, 2.0), function(of, few)(KEY, 2.0)
        function(of, few)(KEY, 3.0)
        assert _predict_on_cpu._cache_size() == before + 1
        assert_equal(flat(part, 2), jax.tree.map(lambda x: x[:70], whole))
        for num in (150, 140):  # fewer than the user's chunk would hold
            some = jax.tree.map(lambda x, num=num: x[:num], draws)
            found = function(of, some, chunk_size=1000)(KEY, 2.0)
            assert_equal(found, jax.tree.map(lambda x, num=num: x[:num], whole))
        assert _predict_on_cpu._cache_size() == before + 2


def test_memory_is_bounded_by_the_chunk():
    """The largest array in the program has the size of a chunk, but for the result itself."""

    def model(key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(jnp.zeros(1000), 1.0), name="x")
        ppl.block(lambda key: ppl.sample(key, dist.Normal(x, 1.0), name="hidden"), ["hidden"])(key)
        return ppl.sample(key, dist.Normal(jnp.exp(jnp.sin(x)).sum(), 1.0), name="y")

    draws = {"x": jnp.zeros((200, 1000))}
    jitted = jax.jit(lambda key, draws: ppl.predict(model, draws, chunk_size=10)(key))
    memory = jitted.lower(KEY, draws).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 10 * 4 * 10 * 1000


def test_moments_of_the_posterior_predictive_distribution():
    """For y ~ Normal(slope x, 1), slope ~ Normal(1, 0.5): mean x, variance 1 + x^2 / 4; six standard errors."""

    def model(key: Any, x: Any) -> Any:
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        return ppl.sample(key, dist.Normal(slope * x, 1.0), name="y")

    num = 40_000
    slopes = 1.0 + 0.5 * jax.random.normal(KEY, num)
    y = np.asarray(ppl.predict(model, {"slope": slopes})(key(1), X)["y"], np.float64)
    variance = 1 + np.asarray(X) ** 2 / 4
    assert np.all(abs(y.mean(0) - X) < 6 * np.sqrt(variance / num))
    assert np.all(abs(y.var(0) / variance - 1) < 6 * np.sqrt(2 / num))


def test_a_number_that_a_parameter_cannot_be_is_refused():
    model = lambda key, scale: ppl.sample(key, dist.Normal(0.0, scale), name="x")  # noqa: E731
    with pytest.raises(ValueError, match=r"scale must be positive and finite; got -1\.0"):
        ppl.predict(model, 3)(KEY, -1.0)


def test_numbers_and_draws_may_be_of_other_libraries():
    class Draws:
        """What NumPy can make an array of, as one of xarray."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.arange(3.0)

    model = lambda key: ppl.sample(  # noqa: E731
        key, dist.Normal(ppl.sample(key, dist.Normal(0.0, 1.0), name="x"), 1e-3), name="y"
    )
    y = ppl.predict(model, {"x": Draws()})(KEY)["y"]
    np.testing.assert_allclose(y, np.arange(3.0), atol=0.01)
    prior = ppl.intervene(model, {"x": 0.0})
    assert ppl.predict(prior, np.int64(5))(KEY)["y"].shape == (5,)


def test_under_transformations_and_with_legacy_keys():
    predicted = ppl.predict(line, DRAWS)
    assert_close(jax.jit(predicted)(KEY, X), predicted(KEY, X), "float32")
    mapped = jax.vmap(predicted, in_axes=(0, None))(split(KEY, 2), X)
    assert_close(jax.tree.map(lambda v: v[1], mapped), predicted(split(KEY, 2)[1], X), "float32")
    assert_equal(predicted(PRNGKey(4), X), predicted(key(4), X))


def test_new_draws_are_not_traced_again():
    traced = []

    def model(key: Any, x: Any) -> Any:
        traced.append(None)
        return line(key, x)

    for i in range(3):
        ppl.predict(model, jax.tree.map(lambda d, i=i: d + i, DRAWS))(KEY, X)
    # Once to compile, and for each set of draws to look at the sites, numbers and indices.
    assert len(traced) == 1 + 3 * 3


class Elsewhere:
    """A model that reads a number beside its arguments, as one in a notebook does."""

    loc = 0.0

    def __call__(self, key: Any) -> None:
        ppl.sample(key, dist.Normal(self.loc, 1.0), name="x")


def test_what_a_model_reads_elsewhere_may_change():
    model = Elsewhere()
    for model.loc in (0.0, 40.0):
        whole = ppl.predict(model, 10)
        parts = ppl.predict(model, 10, chunk_size=5)
        assert abs(whole(KEY)["x"].mean() - model.loc) < 3
        assert abs(next(parts.stream(KEY))["x"].mean() - model.loc) < 3


COUNT = lambda key: (  # noqa: E731
    ppl.sample(key, dist.Poisson(3.0), name="n"),
    ppl.sample(key, dist.Normal(0.0, 1.0), name="y"),
)
COUNTLESS = lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x")  # noqa: E731
ERRORS = {
    "no-sites-left": (lambda: ppl.predict(ppl.condition(ppl.block(line, ["mean"]), {"y": X}), DRAWS)(KEY, X), ValueError, "no site but those that are given or observed.*before condition"),
    "unknown": (lambda: ppl.predict(line, {"slop": X})(KEY, X), ValueError, "predict: model 'line' has no site 'slop'.*'slope', 'scale'"),
    "observed": (lambda: ppl.predict(ppl.condition(line, {"y": X}), {"y": X})(KEY, X), ValueError, "'y' of model 'line' is observed"),
    "axes": (lambda: ppl.predict(line, {"slope": jnp.ones(4), "scale": jnp.ones((2, 2))})(KEY, X), ValueError, r"'scale' have the axes \(2, 2\).*'slope' \(4,\)"),
    "shape": (lambda: ppl.predict(line, {"y": jnp.ones((4, 2))})(KEY, X), ValueError, r"'y' has the shape \[\(3,\)\].*got \[\(4, 2\)\]"),
    "empty": (lambda: ppl.predict(line, {})(KEY, X), ValueError, r"none of the draws.*predict\(model, 1000\)"),
    "no-draws": (lambda: ppl.predict(line, {"slope": jnp.zeros(0)})(KEY, X), ValueError, r"predict: the draws of site 'slope' have the axes \(0,\) in front.*at least one"),
    "no-draws-of-chains": (lambda: ppl.predict(line, {"scale": jnp.ones((4, 0)), "slope": jnp.ones((4, 0))})(KEY, X), ValueError, r"'slope' have the axes \(4, 0\)"),
    "no-draws-in-a-stream": (lambda: next(ppl.predict(line, {"slope": jnp.zeros(0)}).stream(KEY, X)), ValueError, r"'slope' have the axes \(0,\) in front"),
    "no-draws-of-one": (lambda: ppl.predict(line, {"slope": jnp.zeros(0), "scale": jnp.ones(3)})(KEY, X), ValueError, r"'(slope|scale)' have the axes \((0|3),\) in front, those of '(slope|scale)' \((0|3),\)"),
    "none": (lambda: ppl.predict(line, 0), ValueError, "at least 1, got 0"),
    "array": (lambda: ppl.predict(line, X), TypeError, "expected a fit, a dict of draws or their number"),
    "chunk": (lambda: ppl.predict(line, DRAWS, chunk_size=0), ValueError, "chunk_size must be an integer of at least 1, got 0"),
    "chunk-flag": (lambda: ppl.predict(line, DRAWS, chunk_size=True), ValueError, "chunk_size must be an integer of at least 1, got True"),
    "complex": (lambda: ppl.predict(COUNTLESS, {"x": jnp.ones(2) * 1j})(KEY), TypeError, "'x' has the dtype float32, its draws have complex64"),
    "text": (lambda: ppl.predict(COUNTLESS, {"x": "x"})(KEY), TypeError, "site 'x': its draws must be numbers, got 'x'"),
    "list": (lambda: ppl.predict(COUNTLESS, {"x": [1.0, 2.0]})(KEY), ValueError, "'x' has the shape.*got a list. Use jnp.asarray"),
    "floats-for-counts": (lambda: ppl.predict(COUNT, {"n": jnp.array([3.5, 2.0])})(KEY), TypeError, r"'n' has the dtype int32, its draws have float32.*astype\('int32'\)"),
    "key": (lambda: ppl.predict(line, DRAWS)(X), TypeError, "predict: expected one random key"),
    "arguments": (lambda: ppl.predict(line, DRAWS)(KEY), TypeError, "'line' cannot be called.*'x'"),
}  # fmt: skip


@pytest.mark.parametrize(("misuse", "exception", "message"), ERRORS.values(), ids=ERRORS)
def test_error(misuse, exception, message):
    with pytest.raises(exception, match=f"(?s){message}"):
        misuse()


@pytest.mark.parametrize("draws", [5, {"e": jnp.arange(5.0)}], ids=["prior", "given"])
def test_sites_without_elements_are_predicted(draws):
    def model(key):
        ppl.sample(key, dist.Normal(jnp.zeros(0), 1.0), name="none")
        e = ppl.sample(key, dist.Normal(0.0, 1.0), name="e")
        return ppl.sample(key, dist.Normal(e, 1.0), name="y")

    predict = ppl.predict(model, draws, chunk_size=np.int64(2))
    found = predict(KEY)
    assert found["none"].shape == (5, 0)
    streamed = np.concatenate([some["y"] for some in predict.stream(KEY)])
    assert_close(found["y"], streamed, "float32")


def bounded(key: Any) -> Any:
    s = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="s")
    w = ppl.sample(key, dist.Dirichlet(jnp.ones(3)), name="w")
    n = jax.vmap(lambda k: ppl.sample(k, dist.Binomial(5, probs=0.5), name="n"))(split(key, 2))
    return ppl.sample(key, dist.Normal(s.sum() + w[0], 1.0 + n.sum()), name="y")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("s", [1.0, -1.0], r"1 of 12 .* 's' .*: -1. in draw \(1, 2\), entry \(1,\)"),
        ("s", [1.0, np.inf], r"'s' .*: inf in draw \(1, 2\), entry \(1,\)"),
        ("w", [0.5, 0.5, 0.5], r"1 of 6 .* 'w' .*: \[0.5, 0.5, 0.5\] in draw \(1, 2\)\."),
        ("n", [6, 2], r"'n' .*: 6 in draw \(1, 2\), entry \(0,\)"),
    ],
)
def test_draws_outside_of_their_support_are_an_error(name: str, value: Any, message: str) -> None:
    draws = {"s": np.zeros((2, 3, 2)), "w": np.full((2, 3, 3), 1 / 3), "n": np.full((2, 3, 2), 5)}
    predictive = ppl.predict(bounded, draws)  # draws at the edges, by rounding or not, are none
    assert predictive(KEY)["y"].shape == (2, 3)
    draws[name][1, 2] = value
    with pytest.raises(ValueError, match=message):
        ppl.predict(bounded, draws)(KEY)
    with pytest.raises(
        ValueError, match=message.split(" in draw")[0].split(".*")[-1] + r" in draw \(5,\)"
    ):
        list(ppl.predict(bounded, draws, chunk_size=4).stream(KEY))
    jax.jit(ppl.predict(bounded, draws))(KEY)  # values are not known


def test_recover_refuses_draws_and_data_that_exclude_each_other() -> None:
    def model(key: Any, bound: Any) -> Any:
        s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
        z = ppl.sample(key, dist.Categorical(probs=jnp.full(3, 1 / 3)), name="z")
        n = ppl.sample(key, dist.Binomial(z, probs=0.5), name="n")
        ppl.sample(key, dist.Uniform(0.0, bound * s), name="u")
        return ppl.sample(key, dist.Normal(n + s, 1.0), name="y")

    draws = {"s": np.ones((2, 3))}
    summed = ppl.condition(ppl.marginalize(model, ["z"]), {"n": 1, "u": 0.5, "y": 0.2})
    assert ppl.recover(summed, draws)(KEY, 1.0)["z"].shape == (2, 3)
    impossible = ppl.condition(ppl.marginalize(model, ["z"]), {"n": 4, "u": 0.5, "y": 0.2})
    with pytest.raises(ValueError, match=r"recover: 6 of 6 given draws .* 'z' .* draw \(0, 0\)"):
        ppl.recover(impossible, draws)(KEY, 1.0)
    with pytest.raises(ValueError, match=r"recover: 6 of 6 data of site 'u' .* draw \(0, 0\)\."):
        ppl.recover(summed, draws)(KEY, 0.4)
    for wrong, words in ((np.nan, "NaN, the first"), (-1.0, r"outside .* -1\.")):
        draws["s"][1, 2] = wrong
        with pytest.raises(ValueError, match=rf"recover: 1 of 6 .* 's' .*{words} in draw \(1, 2\)"):
            ppl.recover(summed, draws)(KEY, 1.0)
    n = {"s": np.ones(2), "n": np.array([2, 0])}  # whose support is that of one z of many
    ppl.predict(ppl.marginalize(model, ["z"]), n)(KEY, 1.0)


@pytest.mark.parametrize(
    ("wrong", "words"), [(np.nan, "NaN, the first"), (np.inf, "outside .*inf")]
)
def test_draws_of_real_sites_are_finite(wrong: float, words: str) -> None:
    def model(key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
        part = {"a": dist.Normal(jnp.zeros(2), 1.0), "b": dist.HalfNormal(1.0)}
        j = ppl.sample(key, dist.Joint(part), name="j")
        seen = dist.Masked(dist.Normal(jnp.zeros(2), 1.0), jnp.array([True, False]))
        m = ppl.sample(key, seen, name="m")
        return ppl.sample(key, dist.Normal(x.sum() + j["b"] + m[0], 1.0), name="y")

    draws = {"x": np.zeros((3, 2)), "m": np.zeros((3, 2))}
    draws["m"][:, 1] = wrong  # it does not count
    draws["j"] = {"a": np.zeros((3, 2)), "b": np.ones(3)}  # type: ignore[assignment]
    ppl.predict(model, draws)(KEY)
    for name, entry in (("x", r", entry \(1,\)"), ("m", r", entry \(0,\)"), ("j", "")):
        bad = jax.tree.map(np.copy, draws)
        (bad["j"]["a"] if name == "j" else bad[name])[2, int(name == "x")] = wrong  # type: ignore[call-overload]
        with pytest.raises(ValueError, match=rf"'{name}' .*{words}.*in draw \(2,\){entry}"):
            ppl.predict(model, bad)(KEY)


def test_draws_are_finite_where_a_distribution_has_no_shapes() -> None:
    """As one that has a density and draws alone, and a site of a sum in branches of a cond."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Bare:
        scale: Any

        def sample(self, key: Any) -> Any:
            return self.scale * jax.random.normal(key, (2,))

        def log_prob(self, value: Any) -> Any:
            return -0.5 * jnp.sum((value / self.scale) ** 2)

    def bare(key: Any, is_wide: Any) -> Any:
        x = ppl.sample(key, Bare(jnp.float32(1.0)), name="x")
        return ppl.sample(key, dist.Normal(x.sum(), 1.0), name="y")

    def in_branches(key: Any, is_wide: Any) -> Any:
        z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
        draw = lambda scale: ppl.sample(key, dist.Normal(z + jnp.zeros(2), scale), name="x")  # noqa: E731
        return lax.cond(is_wide, lambda: draw(1.0), lambda: draw(2.0))

    for run in (
        lambda draws: ppl.predict(bare, draws),
        lambda draws: ppl.recover(ppl.marginalize(in_branches, ["z"]), draws),
    ):
        draws = np.zeros((3, 2), np.float32)
        run({"x": draws})(KEY, True)
        draws[2, 1] = np.nan
        with pytest.raises(ValueError, match=r"1 of 6 .* 'x' are NaN, .*draw \(2,\), entry \(1,\)"):
            run({"x": draws})(KEY, True)


def test_integers_that_are_cut_off_are_told_by_site() -> None:
    def model(key: Any) -> Any:
        rate = ppl.sample(key, dist.Normal(3e9, 1.0), name="rate")
        draw = lambda k: ppl.sample(k, dist.Poisson(rate), name="y")  # noqa: E731
        return jax.vmap(draw)(split(key, 3))

    for run in (ppl.predict(model, 4), lambda k: list(ppl.predict(model, 4).stream(k))):
        with pytest.warns(UserWarning, match="predict: 12 of 12 draws of site 'y' are cut off"):
            run(KEY)
    with pytest.warns(UserWarning, match="simulate: 3 of 3 draws of site 'y' are cut off"):
        ppl.simulate(model)(KEY)


def test_floats_that_are_cut_off_or_nan_are_told_by_site() -> None:
    """The words are those of `sample` of the distribution, and no program counts anything."""

    def huge(skewness: Any) -> Any:
        return dist.JohnsonSU(skewness * jnp.ones(2), 1.0, 0.0, 1.0)

    def model(key: Any, skewness: Any) -> Any:
        x = ppl.sample(key, huge(skewness), name="x")
        ppl.sample(key, dist.Normal(x - x, 1.0), name="y")
        ppl.deterministic(x, name="z")
        return x

    words = "of 8 draws of site 'x' are cut off at an end of float32, too large for it"
    for run in (ppl.predict(model, 4), lambda *args: list(ppl.predict(model, 4).stream(*args))):
        with pytest.warns(UserWarning, match="predict: 8 of 8 draws") as told:
            run(KEY, 1e8)
        first, second = (str(x.message) for x in told)
        assert words in first
        assert "8 of 8 draws of site 'y' are NaN" in second
        run(KEY, 1.0)
    simulate = ppl.simulate(model)
    with pytest.warns(UserWarning, match="simulate: 2 of 2 draws of site"):
        simulate(KEY, 1e8)
    with pytest.warns(UserWarning, match="sample: 2 of 2 draws of site 'x' are cut off"):
        ppl.sample(KEY, huge(1e8), name="x")
    jax.jit(simulate)(KEY, 1e8)
    given = {"x": jnp.zeros((3, 2))}
    assert np.isfinite(ppl.predict(model, given)(KEY, 1e8)["y"]).all()


def test_integers_are_told_once_and_where_the_support_goes_on() -> None:
    end = 2**31 - 1

    def model(key: Any, bound: Any) -> Any:
        u = ppl.sample(key, dist.DiscreteUniform(bound - 1, bound), name="u")
        parts = {"n": dist.Poisson(4e9), "x": dist.Normal(0.0, 1.0)}
        ppl.sample(key, dist.Joint(parts), name="j")
        return u

    for run in (ppl.simulate(model), model, lambda *args: ppl.predict(model, 20)(*args)):
        with pytest.warns(UserWarning, match="cut off") as told:
            assert np.max(jax.tree.leaves(run(KEY, end))[-1]) >= end - 1
        assert [str(x.message).split("'")[1] for x in told] == ["j"]
    step = lambda c, k: (c, ppl.sample(k, dist.Poisson(4e9), name="n"))  # noqa: E731
    with pytest.warns(UserWarning, match="simulate: 2 of 2 draws of site 'n' are cut off"):
        ppl.simulate(lambda key: lax.scan(step, 0, split(key, 2)))(KEY)


def shared(key: Any) -> Any:
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.sample(key, dist.Normal(4.0 * z, 1.0), name="u")
    ppl.sample(key, dist.Normal(jnp.full(3, 9.0 * z), 1.0), name="y")


def test_what_shares_a_sum_with_known_values_is_refused() -> None:
    """It was drawn given the prior of what is summed, 2.7, whatever `u` was."""
    summed, u = ppl.marginalize(shared, ["z"]), {"u": jnp.full(40, 4.0)}
    words = "'y' cannot be drawn given 'u', as both depend on 'z', taken out by ppl.marginalize"
    with pytest.raises(ValueError, match=words):
        ppl.predict(summed, u)(KEY)
    with pytest.raises(ValueError, match=r"'a.y' cannot be drawn given 'a.u', .* 'a.z'"):
        ppl.predict(ppl.nest(summed, scope="a"), {"a": u})(KEY)
    data = ppl.condition(summed, {"y": jnp.array([9.0, 8.0, 10.0])})
    draws = {**u, **ppl.recover(data, u)(KEY)}
    assert abs(ppl.predict(shared, draws)(KEY)["y"].mean() - 9.0) < 0.5
    gap = ppl.condition(summed, {"y": ppl.impute(jnp.array([9.0, jnp.nan, 8.0]))})
    with pytest.raises(ValueError, match="'y' cannot be drawn given 'u', the known entries of 'y'"):
        ppl.predict(gap, u)(KEY)
