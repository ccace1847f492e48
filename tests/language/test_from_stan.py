"""from_stan: Stan programs, by the interpreter `stanli`.

The tests of a sample fail with probability below 1e-5.
"""

import pickle
import re
import sys
import threading
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import inference
import ppl
from inference.results.diagnostics import mcse_mean
from inference.results.mcmc_result import MCMCResult
from ppl.doors import stan_density, stan_programs
from ppl.doors.stan_programs import Variable

stanli = pytest.importorskip("stanli")

COIN = """
data {
  int<lower=0> N;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real<lower=0, upper=1> theta;
}
model {
  theta ~ beta(2, 2);
  y ~ bernoulli(theta);
}
generated quantities {
  real odds = theta / (1 - theta);
  int next = bernoulli_rng(theta);
}
"""
TOSSES = {"N": 5, "y": [1, 1, 0, 1, 1]}
SHAPES = """
parameters {
  real a;
  matrix<lower=0>[2, 3] m;
  array[2] simplex[3] p;
  vector[1] v;
  corr_matrix[3] r;
}
transformed parameters {
  matrix[2, 3] places;
  array[2, 2] vector[3] block;
  for (i in 1 : 2) {
    for (j in 1 : 3) places[i, j] = 10 * i + j;
    for (k in 1 : 2) block[i, k] = [100 * i + 10 * k + 1, 0, 100 * i + 10 * k + 3]';
  }
}
model {
  a ~ normal(0, 1);
  to_vector(m) ~ exponential(1);
  v ~ normal(0, 1);
  r ~ lkj_corr(2);
}
"""


def at(theta):
    return {"unconstrained": {"theta": theta}}


@pytest.fixture(scope="module")
def coin():
    return ppl.from_stan(COIN, TOSSES)


def coin_density(u, heads=4, tails=1):
    """Up to the constants that `~` drops: Beta(2, 2) and Bernoulli, with the log determinant."""
    return -(heads + 2) * np.logaddexp(0, -u) - (tails + 2) * np.logaddexp(0, u)


REFUSED = {
    "loo": (lambda m, r: inference.loo(r, m), ValueError, "no observed site.*compute log_lik"),
    "cross_validate": (
        lambda m, _: inference.cross_validate(jax.random.key(0), m),
        ValueError,
        "no observed site.*compute log_lik",
    ),
    "calibrate": (
        lambda m, _: inference.calibrate(jax.random.key(0), m, observed=["y"]),
        ValueError,
        "the factor 'log_density'",
    ),
    "smc": (lambda m, _: inference.smc(jax.random.key(0), m), NotImplementedError, "no prior"),
    "prior_to_arviz": (
        lambda m, _: inference.prior_to_arviz(jax.random.key(0), m),
        NotImplementedError,
        "no prior to draw from",
    ),
}


@pytest.mark.parametrize(("use", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_needs_a_prior_or_data_is_refused(use, error, words):
    model = ppl.from_stan("parameters { real x; } model { x ~ normal(0, 1); }")
    result = MCMCResult({"unconstrained": {"x": np.zeros((2, 8))}, "x": np.zeros((2, 8))}, {}, None)
    with pytest.raises(error, match=words):
        use(model, result)


def test_a_model_prints_its_name_and_no_data():
    model = ppl.from_stan("parameters { real x; } model { x ~ normal(0, 1); }")
    assert repr(model) == "from_stan(stan_program, sites: 1 latent)"
    with pytest.raises(ValueError, match=r"no latent site 'y'; there are \['unconstrained'\]"):
        inference.mcmc(jax.random.key(0), model, init={"y": 1.0}, progress=False)


def test_the_density_and_its_derivatives(x64):
    def density(u):
        return ppl.log_density(ppl.from_stan(COIN, TOSSES))(at(u))

    u = jnp.array([-1.0, 0.3, 2.0])
    chance = st.logistic.cdf(u)
    np.testing.assert_allclose(jax.vmap(density)(u), coin_density(u), rtol=1e-14)
    slopes = jax.jit(jax.vmap(jax.grad(density)))(u)
    np.testing.assert_allclose(slopes, 6 - 9 * chance, rtol=1e-13)
    curvatures = jax.vmap(jax.hessian(density))(u)
    np.testing.assert_allclose(curvatures, -9 * chance * (1 - chance), rtol=1e-8)
    total, _ = jax.lax.scan(lambda carry, x: (carry + density(x), None), 0.0, u)
    np.testing.assert_allclose(total, coin_density(u).sum(), rtol=1e-13)
    with pytest.raises(NotImplementedError, match="first and second derivatives, no third"):
        jax.grad(jax.grad(jax.grad(density)))(0.3)


def test_outputs_have_first_derivatives(x64):
    target = ppl.unconstrain(ppl.from_stan(COIN, TOSSES))
    odds = jax.grad(lambda u: target.constrain(at(u))["odds"])
    np.testing.assert_allclose(odds(0.5), np.exp(0.5), rtol=1e-8)
    with pytest.raises(NotImplementedError, match=r"first derivatives .*, no second"):
        jax.grad(odds)(0.5)


def test_doubles_survive_threads_without_x64(x64):
    """JAX rounds the floats of callbacks by the setting of the thread that calls back."""
    u = np.float64(0.1) + 1e-12
    found = []
    call = jax.jit(lambda u: ppl.log_density(ppl.from_stan(COIN, TOSSES))(at(u)))
    compiled = call.lower(u).compile()
    operand = jax.device_put(u)
    thread = threading.Thread(target=lambda: found.append(compiled(operand)))
    thread.start()
    thread.join()
    np.testing.assert_allclose(found, coin_density(u), rtol=1e-15)


def test_single_precision_is_rounded_at_the_door(coin):
    u = np.float32(0.7)
    found = ppl.log_density(coin)(at(u))
    assert found.dtype == np.float32
    assert found == np.float32(coin_density(np.float64(u)))


def test_names_and_shapes_are_stans(x64):
    target = ppl.unconstrain(ppl.from_stan(SHAPES))
    shapes = jax.tree.map(jnp.shape, target.position_shapes, is_leaf=lambda x: hasattr(x, "shape"))
    assert shapes == {"unconstrained": {"a": (), "m": (6,), "p": (4,), "v": (1,), "r": (3,)}}
    rng = np.random.default_rng(1)
    position = jax.tree.map(lambda x: rng.normal(size=x.shape), target.position_shapes)
    values = target.constrain(position)
    assert values["m"].shape == (2, 3)
    # Stan's matrices are flat by columns.
    by_columns = np.exp(position["unconstrained"]["m"]).reshape(3, 2).T
    np.testing.assert_allclose(values["m"], by_columns, rtol=1e-14)
    assert values["p"].shape == (2, 3)
    np.testing.assert_allclose(values["p"].sum(-1), 1)
    np.testing.assert_allclose(values["r"], values["r"].T)
    np.testing.assert_array_equal(values["places"], [[11, 12, 13], [21, 22, 23]])
    assert values["block"].shape == (2, 2, 3)
    np.testing.assert_array_equal(values["block"][1, 0], [211, 0, 213])


def test_entries_of_tuples_and_complex_numbers_are_sites():
    names = ["t.1:1", "t.1:2.1", "t.2:1", "t.2:2.1", "z.1.real", "z.1.imag", "z.2.real", "z.2.imag"]
    variables, order = stan_programs._variables(names)
    assert variables == (
        Variable("t:1", (2,), 0),
        Variable("t:2", (2, 1), 2),
        Variable("z:real", (2,), 4),
        Variable("z:imag", (2,), 6),
    )
    assert order.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert stan_programs._blocks(names)[0] == Variable("t", (4,), 0)


def test_taken_names_are_left_to_stan():
    model = ppl.from_stan("parameters { real unconstrained; real log_density; } model { }")
    target = ppl.unconstrain(model)
    assert list(target.position_shapes) == ["unconstrained_"]
    values = target.constrain({"unconstrained_": {"unconstrained": 1.0, "log_density": 2.0}})
    assert values["log_density"] == 2.0


def test_nuts_draws_the_posterior(coin, tmp_path):
    options = {"num_warmup": 200, "num_draws": 500, "checkpoint": tmp_path / "run"}
    result = inference.mcmc(jax.random.key(0), coin, **options)
    theta = np.asarray(result.draws["theta"])
    exact = st.beta(6, 3)
    error = mcse_mean(theta)
    assert abs(theta.mean() - exact.mean()) < 5 * error
    np.testing.assert_allclose(result.draws["odds"], theta / (1 - theta), rtol=1e-4)
    heads = np.asarray(result.draws["next"])
    assert set(np.unique(heads)) == {0.0, 1.0}
    assert abs(heads.mean() - exact.mean()) < 5 * (error + 0.5 / np.sqrt(heads.size))
    assert {"theta", "odds", "next"} <= set(result.to_arviz().posterior.data_vars)
    again = inference.mcmc(jax.random.key(0), ppl.from_stan(COIN, TOSSES), **options)
    np.testing.assert_array_equal(again.draws["next"], heads)
    other = ppl.from_stan(COIN, TOSSES | {"y": [0, 0, 0, 0, 1]})
    with pytest.raises(ValueError, match="folder of another run"):
        inference.mcmc(jax.random.key(0), other, **options)


def test_new_data_run_the_compiled_program(coin):
    other = ppl.from_stan(COIN, TOSSES | {"y": [0, 0, 0, 0, 1]})
    density: Any = jax.jit(lambda target, u: target.log_density(at(u)))
    for model, heads in [(coin, 4), (other, 1)]:
        found = density(ppl.unconstrain(model), 0.3)
        np.testing.assert_allclose(found, coin_density(0.3, heads, 5 - heads), rtol=1e-6)
    assert density._cache_size() == 1
    models = jax.tree.map(lambda *x: np.stack(x), coin, other)
    both = jax.vmap(lambda model: ppl.log_density(model)(at(0.3)))(models)
    np.testing.assert_allclose(both, [coin_density(0.3, 4, 1), coin_density(0.3, 1, 4)], rtol=1e-6)


def test_batches_by_threads_are_the_same(coin, monkeypatch):
    target = ppl.unconstrain(coin)
    positions = at(jnp.linspace(-3.0, 3.0, 101))
    apart = [target.constrain(at(u)) for u in positions["unconstrained"]["theta"][::25]]
    monkeypatch.setattr(stan_density, "_MIN_SECONDS", 0.0)
    monkeypatch.setattr(stan_density.os, "cpu_count", lambda: 4)
    together = jax.vmap(target.constrain)(positions)
    for i, alone in enumerate(apart):
        jax.tree.map(lambda x, y, i=i: np.testing.assert_array_equal(x[25 * i], y), together, alone)


@pytest.mark.parametrize("num_chains", [None, 3])
def test_a_leapfrog_calls_once(coin, monkeypatch, num_chains):
    target = ppl.unconstrain(coin)
    kernel = inference.HMC(lambda u: target.log_density(at(u[0])), step_size=0.1, num_steps=5)
    init, step = kernel.init, kernel.step
    shape = (1,)
    if num_chains is not None:
        init, step = jax.vmap(init), jax.vmap(step, (None, 0))
        shape = num_chains, 1
    called = []

    def fill(operand, **params):
        called.append((params["method"].__name__, operand.shape[:-1]))
        return original(operand, **params)

    original = stan_density._fill
    monkeypatch.setattr(stan_density, "_fill", fill)
    state = jax.block_until_ready(jax.jit(init)(jnp.zeros(shape)))
    assert called == [("gradient", shape[:-1])]
    called.clear()
    jax.block_until_ready(jax.jit(step)(jax.random.key(0), state))
    assert called == 5 * [("gradient", shape[:-1])]


def test_without_the_callbacks_below_jaxs_own(coin, monkeypatch):
    """Versions of JAX may take the function away, or give it other arguments."""
    density = ppl.log_density(coin)
    expected = jax.jit(lambda u: density(at(u)))(0.2)
    monkeypatch.delattr(stan_density.mlir, "emit_python_callback")
    assert jax.jit(lambda u: density(at(u)))(0.2) == expected
    monkeypatch.setattr(stan_density.mlir, "emit_python_callback", lambda: None, raising=False)
    assert jax.jit(lambda u: density(at(u)))(0.2) == expected


def test_outputs_of_a_position_are_computed_once(coin, monkeypatch):
    program = coin.func.program
    called = []
    original = program._constrain
    monkeypatch.setattr(program, "_constrain", lambda *x: (called.append(x), original(*x)))
    rows = np.array([[0.1], [0.1], [0.2], [0.2], [0.1]])
    outs = np.empty((5, 3))
    for row, out in zip(rows, outs, strict=True):
        program.constrain(row, out)
    assert len(called) == 3
    np.testing.assert_array_equal(outs[[0, 2, 0]], outs[[1, 3, 4]])


def test_a_model_is_pickled_with_its_program(coin):
    copied = pickle.loads(pickle.dumps(coin))
    assert ppl.log_density(copied)(at(0.2)) == ppl.log_density(coin)(at(0.2))


def test_a_program_that_is_gone_is_named(coin):
    with pytest.raises(RuntimeError, match=r"no Stan program for the model. Call ppl\.from_stan"):
        stan_programs.find_program(np.arange(4, dtype=np.uint32))


def test_rejected_positions_have_no_density():
    model = ppl.from_stan(
        'parameters { real x; } model { if (x > 1) reject("too far: ", x); x ~ normal(0, 1); }'
    )
    density = ppl.unconstrain(model).log_density
    with pytest.warns(RuntimeWarning, match=r"rejects a position.*Stan says: too far: 2"):
        value, slope = jax.value_and_grad(density)({"unconstrained": {"x": 2.0}})
    assert value == -jnp.inf
    assert slope["unconstrained"]["x"] == 0
    assert density({"unconstrained": {"x": 3.0}}) == -jnp.inf  # It warns once.


def test_curvature_beside_a_rejection_is_nan(x64):
    model = ppl.from_stan(
        'parameters { real x; } model { if (x > 1) reject("far"); x ~ normal(0, 1); }'
    )
    curvature = jax.hessian(lambda x: ppl.log_density(model)({"unconstrained": {"x": x}}))
    np.testing.assert_allclose(curvature(0.5), -1, rtol=1e-8)
    with pytest.warns(RuntimeWarning, match="rejects a position"):
        assert np.isnan(curvature(1.0))


def test_fingerprints_are_of_the_data_in_a_file(tmp_path):
    path = tmp_path / "data.json"
    theirs = types.SimpleNamespace(name=lambda: "coin", seed=0, data=str(path), lib_path=path)
    found = set()
    for heads in (0, 1):
        path.write_text(f'{{"N": 1, "y": [{heads}], "__stanli": {{}}}}')
        found.add(stan_programs._fingerprint(theirs).tobytes())
    assert len(found) == 2


def test_one_prior_and_likelihood_are_not_taken_apart(coin):
    draws = {"unconstrained": {"theta": jnp.linspace(-1.0, 1.0, 100).reshape(2, 50)}}
    result = MCMCResult(draws, {}, None)
    with pytest.raises(ValueError, match="power_scale: the sites have flat priors"):
        inference.power_scale(result, coin)
    with pytest.raises(ValueError, match=r"only factors, .*compute log_lik among its generated"):
        inference.loo(result, coin)


def test_starts_at_outputs_alone_are_refused(coin):
    with pytest.raises(
        ValueError, match=r"init: all of \['theta'\] are deterministic.*'theta': \(\)"
    ):
        inference.mcmc(jax.random.key(0), coin, init={"theta": 0.3})


def test_outputs_that_fail_are_nan(monkeypatch):
    model = ppl.from_stan(
        "parameters { real x; } transformed parameters { real z = 2 * x; } "
        'model { x ~ normal(0, 1); } generated quantities { if (x > 1) reject("no"); real y = x; }'
    )
    target = ppl.unconstrain(model)
    with pytest.warns(RuntimeWarning, match=r"outputs of the Stan program fail .*Stan says: no"):
        values = target.constrain({"unconstrained": {"x": 2.0}})
    assert np.isnan([values["x"], values["z"], values["y"]]).all()

    def constrain(position, out, rng, *, include_tp, include_gq):
        """BridgeStan's, which leaves out what it is not asked for."""
        if include_gq:
            raise RuntimeError("no")
        out[:2] = *position, *(2 * position)

    monkeypatch.setattr(model.func.program._functions, "constrain", constrain)
    values = target.constrain({"unconstrained": {"x": 3.0}})
    assert [values["x"], values["z"]] == [3.0, 6.0]
    assert np.isnan(values["y"])


def test_a_model_of_bridgestan(coin):
    theirs = stanli.bridgestan_model(stan_code=COIN, data=TOSSES)
    assert ppl.log_density(ppl.from_stan(theirs))(at(0.2)) == ppl.log_density(coin)(at(0.2))
    with pytest.raises(ValueError, match=r"data came beside a bridgestan\.StanModel"):
        ppl.from_stan(theirs, TOSSES)


def test_files_and_includes(coin, tmp_path):
    (tmp_path / "model.stan").write_text("#include blocks/coin.stan\n")
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "coin.stan").write_text(COIN)
    (tmp_path / "data.json").write_text('{"N": 5, "y": [1, 1, 0, 1, 1]}')
    model = ppl.from_stan(tmp_path / "model.stan", str(tmp_path / "data.json"))
    assert ppl.log_density(model)(at(0.2)) == ppl.log_density(coin)(at(0.2))
    with pytest.raises(ValueError, match=r"log_density: model 'model' needs a value"):
        ppl.log_density(model)({})


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda m: m(jax.random.key(0)), NotImplementedError, "no prior to draw from"),
        (
            lambda m: ppl.log_density(ppl.condition(m, {"theta": 0.5}))({}),
            ValueError,
            r"'theta' .* is deterministic.*'unconstrained\.theta'",
        ),
        (
            lambda m: ppl.log_density(ppl.marginalize(m, ["unconstrained.theta"]))({}),
            ValueError,
            "not discrete",
        ),
        (
            lambda m: ppl.log_density(ppl.marginalize(m, {"unconstrained.theta": ppl.Gaussian()}))(
                {}
            ),
            ValueError,
            "'log_density' is not quadratic in 'unconstrained.theta'",
        ),
    ],
)
def test_what_needs_more_than_a_density_is_refused(coin, use, error, words):
    with pytest.raises(error, match=words):
        use(coin)


@pytest.mark.parametrize(
    ("program", "data", "error", "words"),
    [
        (3, None, TypeError, r"program must be the path .*, got 3"),
        ("nowhere.stan", None, FileNotFoundError, r"no file 'nowhere\.stan'"),
        ("parameters { real x } model { }", None, ValueError, r'(?s)not compile.*Expected ";"'),
        ("parameters { int x; } model { }", None, ValueError, "Parameters cannot be integers"),
        ("generated quantities { real x = 1; }", None, ValueError, "has no parameters"),
        (COIN, [1], TypeError, r"data must be a dict .*, got \[1\]"),
        (COIN, "nowhere.json", FileNotFoundError, r"no file 'nowhere\.json'"),
        (COIN, {"N": 5}, ValueError, "no data 'y'; there are \\['N'\\]. Stan says: .*variable y"),
        (COIN, None, ValueError, r"no data 'N'; there are \[\]. Stan says: .*unknown int N"),
        (
            COIN,
            {"N": 2, "y": [1]},
            ValueError,
            r"'y' is declared with the shape \(N = 2\), .* \(1,\)",
        ),
        (COIN, {"N": 2, "y": [1, 2]}, ValueError, "y is 2, but must be less than or equal to 1"),
        (COIN, {"N": 2, "y": [1.5, 0]}, ValueError, "give integers, .*non-int .*variable name=y"),
        (" ", None, ValueError, "program is empty"),
        (COIN, {"N": 2, "y": ["a", "b"]}, TypeError, "data 'y': expected a number or an array"),
        (COIN, {"N": 2, "y": [[1], [1, 0]]}, TypeError, "data 'y': expected a number or an array"),
        (COIN, {"N": 2, "y": [1, np.nan]}, ValueError, "data 'y': 1 of 2 numbers are NaN"),
    ],
)
def test_wrong_programs_and_data_are_named(program, data, error, words):
    with pytest.raises(error, match=words):
        ppl.from_stan(program, data)


MATRIX = """data { int N; matrix[N, 3] m; array[2] vector<lower=0, upper=N>[N + 1] v; }  // int k;
parameters { real a; } model { a ~ normal(m[1, 2] + v[1, 1], 1); }"""


@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 3, 1)])
def test_data_of_another_shape_are_refused(shape):
    data = {"N": 2, "m": np.zeros((2, 3)), "v": np.zeros((2, 3))}
    ppl.from_stan(MATRIX, data)
    words = f"'m' is declared with the shape (N = 2, 3), and has the shape {shape}"
    with pytest.raises(ValueError, match=re.escape(words)):
        ppl.from_stan(MATRIX, data | {"m": np.zeros(shape)})


def test_blocks_that_stanli_lacks_are_named(recwarn):
    lost = """parameters { real a; } transformed parameters { real b = 2 * a; }
    model { a ~ normal(0, 1); }
    generated quantities { tuple(real, real) c = (a, b); { real inner = 1; } }"""
    with pytest.warns(UserWarning, match=r"no sites 'b', 'c'; .*compiler='bridgestan'") as found:
        ppl.from_stan(lost)
    assert found[0].filename == __file__
    recwarn.clear()
    ppl.from_stan(lost.replace("tuple(real, real) c = (a, b);", "real c = a;"))
    assert not recwarn


def test_unknown_compilers_and_text_for_bridgestan_are_named():
    with pytest.raises(ValueError, match=r"compiler must be one of .*, got 'rstan'"):
        ppl.from_stan(COIN, TOSSES, compiler="rstan")
    with pytest.raises(TypeError, match=r"must be a tuple .* include_paths=\('parts',\)"):
        ppl.from_stan(COIN, TOSSES, include_paths="parts")  # pyright: ignore
    with pytest.raises(ValueError, match="BridgeStan compiles files"):
        ppl.from_stan(COIN, TOSSES, compiler="bridgestan")


@pytest.mark.parametrize("package", ["stanli", "bridgestan"])
def test_missing_packages_are_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs the package '{package}'.*harvest-ppl\[stan\]"):
        ppl.from_stan(COIN, TOSSES)


def test_data_of_all_kinds_are_read():
    text = stan_programs.data_as_json(
        {"a": jnp.arange(2), "b": True, "c": 1 + 2j, "d": (1, np.eye(1)), "e": np.zeros((0, 2))},
        allows_nan=False,
    )
    assert text == '{"a": [0, 1], "b": 1, "c": [1.0, 2.0], "d": {"1": 1, "2": [[1.0]]}, "e": []}'


def test_a_density_too_large_for_32_bits_is_infinite():
    model = ppl.from_stan("parameters { real a; } model { target += -1e39 * a; }")
    found = jax.value_and_grad(lambda a: ppl.log_density(model)({"unconstrained": {"a": a}}))(1.0)
    np.testing.assert_array_equal(found, (-np.inf, -np.inf))
