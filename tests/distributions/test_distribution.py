"""Distributions as objects: pytrees, dtypes, signatures, imports."""

import inspect
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions import constraints
from distributions.core.family import Family, family, parameter
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


@pytest.mark.quick_rows("float32-d2", "float64-d2", "float64-d0")
@pytest.mark.promotion(dtype="standard")
@pytest.mark.parametrize(
    "d", [dist.Poisson(2.0), dist.Binomial(4, logits=0.5), dist.Categorical(logits=[0.0, 1.0])]
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


@pytest.mark.parametrize(
    ("d", "description"),
    [
        (dist.Truncated(dist.Poisson(1.0), low=1), "an integer of at least 1"),
        (dist.Truncated(dist.Normal(0.0, 1.0), low=0.0), "in the interval [0.0, inf)"),
        (
            dist.Censored(dist.Normal(0.0, 1.0), high=3.0),
            "in the interval (-inf, 3.0], or -inf or 3.0",
        ),
        (dist.Uniform(0.0, 0.5), "in the interval [0.0, 0.5]"),
    ],
)
def test_infinite_ends_are_open(d, description):
    assert d.support.description == description


def test_repr_is_short():
    assert repr(dist.Normal(0.0, jnp.ones((3, 2)))) == "Normal(loc=0.0, scale=float32[3,2])"
    assert repr(dist.Bernoulli(probs=0.5)) == "Bernoulli(probs=0.5)"
    assert repr(dist.Poisson(jnp.float32(2))) == "Poisson(rate=2.0)"
    flat = dist.Flat(constraints.positive, (3,))
    assert repr(flat) == "Flat(support=GreaterThan(low=0.0, closed=False), shape=(3,))"
    jax.jit(lambda x: len(repr(dist.Normal(x, 1.0))))(0.0)


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
    "d",
    [
        dist.Bernoulli(logits=0.0),
        dist.Binomial(3, logits=0.0),
        dist.Poisson(1.0),
        dist.Categorical(logits=[0.0]),
    ],
)
def test_discrete_families_have_no_bijector(d):
    with pytest.raises(NotImplementedError, match=f"{type(d).__name__} is discrete"):
        _ = d.bijector
    with pytest.raises(NotImplementedError, match="discrete"):
        _ = d.support.bijector


def subclasses(cls):
    for child in cls.__subclasses__():
        yield child
        yield from subclasses(child)


def test_public_methods_are_written_once():
    """Classes of distributions differ in their private core alone."""
    for name in dist.__all__:
        getattr(dist, name)
    public = {
        name
        for name, x in vars(dist.Distribution).items()
        if inspect.isfunction(x) and not name.startswith("_")
    }
    assert {"mean", "variance", "mode", "entropy", "log_prob", "sample"} <= public
    overridden = {
        f"{cls.__name__}.{name}"
        for cls in subclasses(dist.Distribution)
        if cls.__module__.startswith("distributions.")
        for name in public & set(vars(cls))
        if inspect.isfunction(vars(cls)[name])
    }
    assert overridden == set()


@pytest.mark.parametrize("name", ["mean", "variance"])
def test_moments_of_wrapped_inflated_counts(name):
    d = dist.ZeroInflated(dist.Poisson(jnp.array([1.0, 2.0])), probs=0.5)
    wrapped = dist.Independent(d, 1)
    np.testing.assert_array_equal(getattr(wrapped, name)(), getattr(d, name)())


@pytest.mark.parametrize("name", ["mean", "variance", "mode", "entropy"])
def test_flat_has_no_moments(name):
    with pytest.raises(NotImplementedError, match=f"improper: it has no {name}"):
        getattr(dist.Flat(constraints.real), name)()


@family(support=constraints.real)
class Bare(Family):
    """A row without formulas of its own."""

    loc: float = parameter(constraints.real)
    scale: float = parameter(constraints.positive)


@pytest.mark.parametrize(
    "method",
    [
        lambda d: d.log_prob(3.0),
        lambda d: d.sample(jax.random.key(0)),
        lambda d: d.mean(),
        lambda d: d.cdf(0.0),
    ],
    ids=["log_prob", "sample", "mean", "cdf"],
)
def test_methods_without_a_formula_are_not_known(method):
    with pytest.raises(NotImplementedError, match="Bare has no"):
        method(Bare(0.0, 1.0))


def test_no_family_imports_tfp():
    code = """
import sys, jax
import distributions as dist
d = dist.Moyal(0.0, 1.0)
d.log_prob(d.sample(jax.random.key(0)))
others = ("tensorflow_probability", "ppl", "inference", "scipy.stats")
print(*(name for name in others if name in sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"


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
    assert np.isinf(dist.Flat(constraints.real).log_prob(np.nan))


def test_no_function_shares_its_name_with_a_module():
    """Importing the module would put it in the place of the function."""
    modules = {path.stem for path in pathlib.Path(dist.__file__).parent.iterdir()}
    assert modules & set(dist.__all__) == {"bijectors", "constraints"}
