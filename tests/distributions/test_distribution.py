"""Distributions as objects: pytrees, dtypes, signatures, checks of the parameters, imports."""

import inspect
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions import constraints
from distributions.family import Family, family, parameter
from tests.distributions.cases import CASES, SIGNATURES, Case, over

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
every_case = over(CASES)


@every_case
def test_pytree(case: Case):
    """Leaves are the parameters; structures hash and compare; unflattening takes anything."""
    d = case.build()
    leaves, treedef = jax.tree.flatten(d)
    again = jax.tree.structure(case.build())
    assert treedef == again
    assert hash(treedef) == hash(again)
    restored = jax.tree.unflatten(treedef, leaves)
    assert type(restored) is type(d)
    assert all(a is b for a, b in zip(jax.tree.leaves(restored), leaves, strict=True))
    for stand_in in (object(), None, -1.0, "x"):
        jax.tree.unflatten(treedef, [stand_in] * len(leaves))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(d)[0]]
    if isinstance(d, Family):
        assert names == [f".{name}" for name in case.parameters]


def test_leaves_are_what_was_given():
    loc = jnp.zeros(3)
    assert jax.tree.leaves(dist.Normal(loc, 1.0)) == [loc, 1.0] or dist.Normal(loc, 1.0).loc is loc
    assert isinstance(dist.Normal([0.0, 1.0], 1.0).loc, np.ndarray)
    with pytest.raises(AttributeError):
        dist.Normal(0.0, 1.0).loc = 2.0
    flat = dist.Flat(constraints.interval(0.0, loc[0] + 1), (2,))
    assert len(jax.tree.leaves(flat)) == 2
    assert jax.tree.unflatten(jax.tree.structure(flat), [0.0, 2.0]).shape == (2,)


@pytest.mark.promotion(dtype="standard")
def test_dtypes_are_promoted_as_jax_does(float_dtype):
    half = jnp.float16(1)
    value32, value16 = jnp.float32(0.5), jnp.bfloat16(0.5)
    normal = dist.Normal(0.0, 1.0)
    assert normal.dtype == float_dtype
    assert normal.log_prob(0.5).dtype == float_dtype
    assert normal.log_prob(value32).dtype == np.float32  # Python scalars are weakly typed.
    assert normal.log_prob(value16).dtype == jnp.bfloat16
    assert dist.Normal(0, 1).dtype == float_dtype
    assert dist.Normal(jnp.arange(3), 1).dtype == float_dtype
    assert dist.Normal(half, 1.0).dtype == np.float16
    assert dist.Normal(half, value32).dtype == np.float32
    assert dist.Normal(half, value16).dtype == np.float32
    assert dist.Normal(jnp.asarray(0, float_dtype), value32).dtype == float_dtype
    assert dist.Normal(half, 1.0).sample(jax.random.key(0)).dtype == np.float16


@pytest.mark.promotion(dtype="standard")
@pytest.mark.parametrize(
    "d", [dist.Poisson(2.0), dist.Binomial(4, 0.5), dist.Categorical([0.0, 1.0])]
)
def test_dtypes_of_discrete_families(d, float_dtype):
    integer = np.int64 if float_dtype == np.float64 else np.int32
    assert d.dtype == integer
    assert d.sample(jax.random.key(0)).dtype == integer
    scores = [jax.jit(d.log_prob)(one) for one in (1, 1.0, True, jnp.int8(1), jnp.float16(1))]
    assert {s.dtype for s in scores} == {np.dtype(float_dtype)}
    assert len({float(s) for s in scores}) == 1


def test_a_category_beyond_the_precision_of_the_parameters():
    d = dist.Categorical(logits=jnp.where(jnp.arange(400) == 301, 9, 0).astype(jnp.bfloat16))
    assert d.log_prob(301) > d.log_prob(300)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_and_docstrings(name):
    cls = getattr(dist, name)
    signature = inspect.signature(cls)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == f"({SIGNATURES[name]})"
    for part in ("Args:", ">>> ", "References:", *signature.parameters):
        assert part in cls.__doc__


@pytest.mark.parametrize(
    "name", sorted({c.make.__name__ for c in CASES if inspect.isclass(c.make)})
)
def test_names_are_tensorflow_probabilitys(name):
    """Parameters have TFP's names and order, where it has a class of the name."""
    from tensorflow_probability.substrates import jax as tfp

    if not hasattr(tfp.distributions, name):
        pytest.skip("not one of theirs")
    signature = inspect.signature(getattr(dist, name)).parameters.values()
    ours = [p.name for p in signature if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    theirs = list(inspect.signature(getattr(tfp.distributions, name)).parameters)
    assert [p for p in theirs if p in ours] == ours


def test_repr_is_short():
    assert repr(dist.Normal(0.0, jnp.ones((3, 2)))) == "Normal(loc=0.0, scale=float32[3,2])"
    assert repr(dist.Bernoulli(probs=0.5)) == "Bernoulli(probs=0.5)"
    assert repr(dist.Poisson(jnp.float32(2))) == "Poisson(rate=2.0)"
    flat = dist.Flat(constraints.positive, (3,))
    assert repr(flat) == "Flat(support=GreaterThan(low=0.0, closed=False), shape=(3,))"
    jax.jit(lambda x: len(repr(dist.Normal(x, 1.0))))(0.0)


nan, inf = np.nan, np.inf
MISTAKES = [
    (lambda: dist.Normal(0.0, -1.0), "Normal: scale must be positive and finite; got -1.0"),
    (lambda: dist.Normal(0.0, 0.0), "Normal: scale must be positive"),
    (lambda: dist.Normal(nan, 1.0), "Normal: loc must be finite; got nan"),
    (lambda: dist.Normal(0.0, inf), "Normal: scale must be positive and finite; got inf"),
    (
        lambda: dist.Normal(0.0, jnp.array([1.0, 2.0, -3.0])),
        r"Normal: scale .* got -3.0 at index \(2,\)",
    ),
    (lambda: dist.Normal("a", 1.0), "Normal: loc must be an array of real numbers; got 'a'"),
    (lambda: dist.Normal(1j, 1.0), "Normal: loc must be an array of real numbers; got 1j"),
    (lambda: dist.Normal(None, 1.0), "Normal: loc must be an array; got None"),
    (
        lambda: dist.Normal(np.zeros(3), np.ones(2)),
        r"Normal: .* do not broadcast: loc \(3,\), scale \(2,\)",
    ),
    (lambda: dist.StudentT(0.0, 0.0, 1.0), "StudentT: df must be positive"),
    (lambda: dist.Gamma(-1.0, 1.0), "Gamma: concentration must be positive"),
    (lambda: dist.Gamma(1.0, nan), "Gamma: rate must be positive .* got nan"),
    (lambda: dist.Beta(1.0, [1.0, 0.0]), r"Beta: concentration0 .* got 0.0 at index \(1,\)"),
    (lambda: dist.Uniform(1.0, 1.0), "Uniform: low must be less than high; got 1.0 and 1.0"),
    (lambda: dist.Uniform(0.0, [1.0, -1.0]), r"Uniform: .* got 0.0 and -1.0 at index \(1,\)"),
    (lambda: dist.Uniform(0.0, inf), "Uniform: high must be finite"),
    (
        lambda: dist.NormalInverseGaussian(0.0, 1.0, 1.0, -2.0),
        "skewness must be less than tailweight in size; got -2.0 and 1.0",
    ),
    (
        lambda: dist.TruncatedNormal(0.0, 1.0, 2.0, 1.0),
        "TruncatedNormal: low must be less than high",
    ),
    (lambda: dist.TruncatedNormal(0.0, 1.0, nan, 1.0), "TruncatedNormal: low must be a number"),
    (lambda: dist.Bernoulli(), "Bernoulli: give exactly one of logits, probs; got none of them"),
    (
        lambda: dist.Bernoulli(0.0, 0.5),
        "Bernoulli: give exactly one of logits, probs; got logits and probs",
    ),
    (
        lambda: dist.Bernoulli(probs=1.5),
        r"Bernoulli: probs must be in the interval \[0.0, 1.0\]; got 1.5",
    ),
    (lambda: dist.Binomial(-1, 0.0), "Binomial: total_count must be a nonnegative integer; got -1"),
    (
        lambda: dist.Binomial(1.5, 0.0),
        "Binomial: total_count must be a nonnegative integer; got 1.5",
    ),
    (lambda: dist.Poisson(-1.0), "Poisson: rate must be nonnegative"),
    (
        lambda: dist.Categorical(probs=[0.5, 0.6]),
        r"Categorical: probs must be a simplex .* got \[0.5, 0.6\]",
    ),
    (lambda: dist.Categorical(probs=[1.5, -0.5]), "Categorical: probs must be a simplex"),
    (
        lambda: dist.Categorical(0.0),
        r"Categorical: logits must have at least 1 axes; got shape \(\)",
    ),
    (
        lambda: dist.Categorical([[0.0, 1.0], [-inf, -inf]]),
        r"Categorical: logits must .* at index \(1,\)",
    ),
    (lambda: dist.Dirichlet([1.0, -1.0]), "Dirichlet: concentration must be positive"),
    (
        lambda: dist.MultivariateNormal(0.0),
        "exactly one of .*, scale_diag, cov_factor with cov_diag; got none",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, cov_factor=np.ones((2, 1))),
        "cov_factor with cov_diag; got cov_factor",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, cov_factor=np.ones((2, 1)), cov_diag=np.ones(3)),
        r"do not broadcast: .*cov_factor \(2, 1\), cov_diag \(3,\)",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, covariance=-np.eye(2)),
        "covariance must be symmetric and positive",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, precision=[[1.0, 2.0], [0.0, 1.0]]),
        "precision must be symmetric",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, covariance=np.ones((2, 3))),
        "covariance must be symmetric",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, scale_tril=np.ones((2, 2))),
        "scale_tril must be lower-triangular",
    ),
    (
        lambda: dist.MultivariateNormal(np.zeros(3), scale_tril=np.eye(2)),
        r"loc \(3,\), scale_tril \(2, 2\)",
    ),
    (
        lambda: dist.MixtureSameFamily(dist.Normal(0.0, 1.0), dist.Normal(0.0, 1.0)),
        "must be a Categorical",
    ),
    (
        lambda: dist.MixtureSameFamily(dist.Categorical([0.0, 0.0]), 1.0),
        "must be a Distribution; got 1.0",
    ),
    (
        lambda: dist.MixtureSameFamily(dist.Categorical([0.0, 0.0]), dist.Normal(np.zeros(3), 1.0)),
        "2 categories need",
    ),
    (
        lambda: dist.MixtureSameFamily(
            dist.Categorical(np.zeros((3, 2))), dist.Normal(np.zeros((4, 2)), 1.0)
        ),
        r"\(3,\).*\(4,\)",
    ),
    (lambda: dist.Flat(1.0), "Flat: support must be a constraint; got 1.0"),
    (
        lambda: dist.Flat(constraints.simplex, ()),
        r"Flat: shape must have at least 1 axes; got \(\)",
    ),
    (
        lambda: dist.Flat(constraints.interval(0.0, np.ones(3)), (2,)),
        r"Flat: the bounds .* broadcast with \(2,\)",
    ),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_traced_parameters_are_not_checked():
    """Nor is anything computed for the checks: the trace holds what the formula needs."""
    assert np.isnan(jax.jit(lambda scale: dist.Normal(0.0, scale).log_prob(1.0))(-1.0))
    jaxpr = jax.make_jaxpr(lambda x, scale: jax.tree.leaves(dist.Normal(x, scale)))(0.0, 1.0)
    assert not jaxpr.eqns


def test_a_density_on_the_whole_line_has_no_select():
    d = dist.Normal(0.0, jnp.float32(2))
    primitives = [eqn.primitive.name for eqn in jax.make_jaxpr(d.log_prob)(jnp.ones(3)).eqns]
    assert "select_n" not in primitives
    assert len(primitives) <= 8


@pytest.mark.parametrize(
    "d", [dist.Bernoulli(0.0), dist.Binomial(3, 0.0), dist.Poisson(1.0), dist.Categorical([0.0])]
)
def test_discrete_families_have_no_bijector(d):
    with pytest.raises(NotImplementedError, match=f"{type(d).__name__} is discrete"):
        _ = d.bijector
    with pytest.raises(NotImplementedError, match="discrete"):
        _ = d.support.bijector


@family(support=constraints.real, tfp="Logistic")
class Bare(Family):
    """A row without formulas of its own."""

    loc: float = parameter(constraints.real)
    scale: float = parameter(constraints.positive)


def test_a_row_without_formulas_is_left_to_tfp(x64):
    d = Bare(jnp.array([0.0, 1.0]), 2.0)
    z = (3.0 - np.array([0.0, 1.0])) / 2
    np.testing.assert_allclose(
        d.log_prob(3.0), -z - np.log(2) - 2 * np.log1p(np.exp(-z)), rtol=1e-12
    )
    assert d.sample(jax.random.key(0), (3,)).shape == (3, 2)
    assert d.sample(jax.random.PRNGKey(0)).dtype == np.float64
    np.testing.assert_allclose(d.mean(), [0.0, 1.0])
    np.testing.assert_allclose(d.variance(), np.full(2, (2 * np.pi) ** 2 / 3))


def test_tfp_is_imported_when_it_is_needed_and_no_sooner():
    code = """
import sys, jax
import distributions as dist
from distributions.family import Family, family, parameter
@family(support=dist.constraints.real, tfp="Logistic")
class Bare(Family):
    loc: float = parameter(dist.constraints.real)
    scale: float = parameter(dist.constraints.positive)
d = dist.Normal(0.0, 1.0)
d.log_prob(d.sample(jax.random.key(0)))
others = ("tensorflow_probability", "ppl", "inference", "scipy.stats")
print(*(name for name in others if name in sys.modules))
Bare(0.0, 1.0).mean()
print("tensorflow_probability" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\nTrue\n", run.stdout)


@pytest.mark.parametrize("hi", [2.0, jnp.array([2.0, 3.0])])
def test_flat_on_a_support_with_traced_bounds(hi):
    @jax.jit
    def run(hi, value):
        flat = dist.Flat(constraints.interval(0.0, hi), np.shape(hi))
        bijector = flat.bijector
        constrained = bijector.forward(jnp.zeros(flat.batch_shape))
        return flat.log_prob(value), jax.grad(lambda v: flat.log_prob(v).sum())(value), constrained

    log_prob, gradient, constrained = run(hi, jnp.full(np.shape(hi), 1.0))
    assert (log_prob == 0).all()
    assert (gradient == 0).all()
    np.testing.assert_allclose(constrained, hi / 2)
    assert (run(hi, jnp.full(np.shape(hi), 5.0))[0] == -np.inf).all()
    assert np.isinf(dist.Flat(constraints.real).log_prob(nan))


def test_no_function_shares_its_name_with_a_module():
    """Importing the module would put it in the place of the function."""
    modules = {path.stem for path in pathlib.Path(dist.__file__).parent.iterdir()}
    assert modules & set(dist.__all__) == {"bijectors", "constraints"}


MISUSES = {
    r"has no attribute 'Norml'; did you mean 'Normal'?": lambda: dist.Norml,
    "Normal: a value must be an array of numbers; got None": lambda: dist.Normal(0.0, 1.0).log_prob(
        None
    ),
    "Normal: a value must be an array of numbers; got 'a'": lambda: dist.Normal(0.0, 1.0).cdf("a"),
    "Normal: sample_shape must hold nonnegative integers; got -1": lambda: dist.Normal(
        0.0, 1.0
    ).sample(jax.random.key(0), -1),
    "Normal: sample_shape must hold nonnegative integers; got 2.5": lambda: dist.Normal(
        0.0, 1.0
    ).sample(jax.random.key(0), 2.5),
    "Normal: sample_shape must hold nonnegative integers; got None": lambda: dist.Normal(
        0.0, 1.0
    ).sample(jax.random.key(0), None),
    "iid: sample_shape must hold nonnegative integers; got 2.5": lambda: dist.iid(
        dist.Normal(0.0, 1.0), 2.5
    ),
    "Custom: parameters must be a tuple; got 2.0": lambda: dist.Custom(jnp.square, 2.0),
    r"Normal: sample takes one random key .*; got 3\. For several": lambda: dist.Normal(
        0.0, 1.0
    ).sample(3),
    "Normal: sample takes one random key .*; got None": lambda: dist.Normal(0.0, 1.0).sample(None),
    "Masked: sample takes one random key .*; got Array": lambda: dist.Masked(
        dist.Normal(0.0, 1.0), True
    ).sample(jax.random.split(jax.random.key(0))),
    "Gamma: sample takes one random key .* got .*float32": lambda: jax.jit(
        dist.Gamma(1.0, 1.0).sample
    )(jnp.float32(0)),
    "Normal: no parameter is called 'sd'; did you mean 'scale'? It takes loc, scale": lambda: (
        dist.Normal(loc=0.0, sd=1.0)  # pyright: ignore[reportCallIssue]
    ),
    "Normal: no parameter is called 'mean'; did you mean 'loc'?": lambda: dist.Normal(
        mean=0.0,  # pyright: ignore[reportCallIssue]
        scale=1.0,
    ),
    "Beta: no parameter is called 'alpha'; did you mean 'concentration1'?": lambda: dist.Beta(
        alpha=1.0,  # pyright: ignore[reportCallIssue]
        beta=1.0,
    ),
    "Gamma: no parameter is called 'scale'. It takes concentration, rate": lambda: dist.Gamma(
        1.0,
        scale=1.0,  # pyright: ignore[reportCallIssue]
    ),
    "Truncated: no parameter is called 'lo'; did you mean 'low'?": lambda: dist.Truncated(
        dist.Normal(0.0, 1.0),
        lo=1.0,  # pyright: ignore[reportCallIssue]
    ),
    "missing 1 required positional argument: 'scale'": lambda: dist.Normal(0.0),  # pyright: ignore[reportCallIssue]
    "Custom: support must be a constraint; got 3": lambda: dist.Custom(jnp.square, support=3),
    "kl_divergence: expected a Distribution; got 3": lambda: dist.kl_divergence(
        dist.Normal(0.0, 1.0), 3
    ),
    "validate: expected a Distribution; got 3": lambda: dist.validate(3),
}


@pytest.mark.parametrize("message", MISUSES)
def test_misuses_are_named(message):
    with pytest.raises((AttributeError, TypeError, ValueError), match=message.replace("?", r"\?")):
        MISUSES[message]()


CLASSES = [name for name in SIGNATURES if inspect.isclass(getattr(dist, name))]


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_keyword_is_named(name):
    parameters = ", ".join(inspect.signature(getattr(dist, name)).parameters)
    message = f"{name}: no parameter is called 'unknown'. It takes {parameters}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        getattr(dist, name)(unknown=1.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_no_shape_or_key_is_named(case):
    d = case.build()
    name = type(d).__name__
    with pytest.raises(ValueError, match=f"^{name}: sample_shape must hold nonneg.* got 2.5"):
        d.sample(jax.random.key(0), 2.5)
    with pytest.raises((TypeError, ValueError), match=f"^{name}: sample takes one random key"):
        d.sample(3)
