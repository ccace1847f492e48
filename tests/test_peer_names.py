"""Names, arguments and calls of other libraries: the errors say what to write here."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from distributions.common.method_hints import METHODS, ExplainsMethods
from inference.common.peer_names import OF_RESULTS
from inference.common.peer_names import PEER_NAMES as OF_INFERENCE
from ppl.common.peer_names import PEER_NAMES
from tests.distributions import pages, stub

ROOT = pathlib.Path(__file__).parents[1]
KEY = jax.random.key(0)
PACKAGES = {"ppl": ppl, "inference": inference, "distributions": dist}


def model(key, n, x):
    mean = ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="mean")
    return ppl.sample(key, dist.Normal(mean.sum() + x, 1.0), name="y")


def test_hints_of_near_names_are_written_twice_in_the_same_words():
    ours, theirs = (
        (ROOT / package / "common" / "near_names.py").read_text()
        for package in ("distributions", "ppl")
    )
    assert theirs.startswith(ours)


def test_a_distribution_by_its_name_elsewhere():
    assert stub.PEER_NAMES.read_text() == stub.peer_names()
    for row in pages.peers():
        if stub.plain(row["name"]) != stub.plain(row["ours"]):
            with pytest.raises(AttributeError, match=re.escape(row["ours"] or row["note"])):
                getattr(dist, row["name"])


@pytest.mark.parametrize(("package", "table"), [("ppl", PEER_NAMES), ("inference", OF_INFERENCE)])
def test_an_attribute_by_its_name_elsewhere(package, table):
    """What the errors name exists."""
    for name, instead in table.items():
        with pytest.raises(AttributeError, match=f"no attribute {name!r}") as error:
            getattr(PACKAGES[package], name)
        assert instead in str(error.value)
        for where, what in re.findall(r"\b(ppl|inference|distributions)\.(\w+)", instead):
            assert what in PACKAGES[where].__all__, instead
        for what in re.findall(r"\b([A-Z]\w+)\(", instead):
            assert what in PACKAGES[package].__all__, instead
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_like_it'$"):
        PACKAGES[package].nothing_like_it  # noqa: B018


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("AIES", "DifferentialEvolution"),
        ("ESS", "Slice"),
        ("SA", "RandomWalk"),
        ("rmh", "RandomWalk"),
        ("mala", "MALA"),
        ("emcee", "AffineInvariant"),
        ("elliptical_slice", "EllipticalSlice"),
        ("DEMetropolisZ", "DifferentialEvolution"),
        ("HamiltonianMC", "HMC"),
        ("DiscreteHMCGibbs", "Gibbs.auto"),
        ("ReplicaExchangeMC", "ParallelTempering"),
        ("sgld", "SGLD"),
        ("sghmc", "SGHMC"),
        ("HMCECS", "SubsampledHMC"),
    ],
)
def test_a_kernel_by_its_name_elsewhere(name, kernel):
    with pytest.raises(AttributeError, match=rf"instead: mcmc\(kernel=inference\.{kernel}\("):
        getattr(inference, name)


def test_a_method_of_a_distribution_by_its_name_elsewhere():
    """A method that is missing within a property is told as such, and hints name what exists."""
    for name, instead in METHODS.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r} ({instead})")):
            getattr(dist.Normal(0.0, 1.0), name)
        assert all(hasattr(dist.Normal, method) for method in re.findall(r"\bd\.(\w+)", instead))
        assert all(hasattr(dist, name) for name in re.findall(r"\bdist\.(\w+)", instead))
    with pytest.raises(AttributeError, match=r"object has no attribute 'nothing_like_it'$"):
        dist.Normal(0.0, 1.0).nothing_like_it  # noqa: B018

    class Broken(ExplainsMethods):
        @property
        def mode(self):
            return None.value  # pyright: ignore

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'value'"):
        Broken().mode  # noqa: B018


def test_an_attribute_of_a_result_by_its_name_elsewhere():
    result = inference.laplace(KEY, ppl.condition(model, {"y": 1.0}), 2, 0.0, num_draws=10)
    for name, instead in OF_RESULTS.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r} ({instead})")):
            getattr(result, name)
    with pytest.raises(TypeError, match=r"no items: write result.draws\['mean'\]"):
        result["mean"]
    with pytest.raises(TypeError, match="is not iterable"):
        list(result)
    with pytest.raises(AttributeError, match=r"object has no attribute 'nothing_like_it'$"):
        result.nothing_like_it  # noqa: B018


@pytest.mark.parametrize(
    ("package", "name", "hint"),
    [
        ("ppl", "Cauchy", "it is distributions.Cauchy"),
        ("ppl", "Guassian", "did you mean 'Gaussian'?"),
        ("ppl", "Sample", "did you mean 'sample'?"),
        ("inference", "trace", "it is ppl.trace"),
        ("inference", "LOO", "did you mean 'loo'?"),
        ("inference", "Laplace", "did you mean 'laplace'?"),
        ("distributions", "condition", "it is ppl.condition"),
        ("distributions", "Gaussian", "it is called 'Normal' here"),
        ("distributions", "Bernouli", "did you mean 'Bernoulli'?"),
    ],
)
def test_a_name_of_another_package_or_kind(package, name, hint):
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute {name!r}; {hint}")):
        getattr(PACKAGES[package], name)


@pytest.mark.parametrize("package", PACKAGES)
def test_completion_shows_public_names_alone(package):
    assert dir(PACKAGES[package]) == sorted(PACKAGES[package].__all__)


ARGUMENTS = {
    "mcmc has no argument 'num_samples', nor has model 'model': did you mean 'num_draws'?": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, num_samples=100)
    ),
    "mcmc has no argument 'num_sample', nor has model 'model': did you mean 'num_draws'?": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, num_sample=100)
    ),
    "mcmc has no argument 'max_depth', nor has model 'model': give it to kernel=NUTS(...)": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, max_depth=5)
    ),
    "mcmc has no argument 'dense_mass', nor has model 'model': write mass_matrix=": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, dense_mass=True)
    ),
    "mcmc has no argument 'num_warmups', nor has model 'model': did you mean 'num_warmup'?": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, num_warmups=100)
    ),
    "svi has no argument 'learning_rate', nor has model 'model': give it to optimizer=": (
        lambda: inference.svi(KEY, model, 2, 0.0, learning_rate=0.1)
    ),
    "mcmc has no argument 'callback', nor has model 'model': svi has one; here, progress=": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, callback=print)
    ),
    "svi has no argument 'dataloader', nor has model 'model': did you mean 'batches'?": (
        lambda: inference.svi(KEY, model, 2, 0.0, dataloader=[])
    ),
    "mcmc has no argument 'lr', nor has model 'model'. mcmc has kernel": (
        lambda: inference.mcmc(KEY, model, 2, 0.0, lr=0.1)
    ),
    "laplace has no argument 'what', nor has model 'model'. laplace has num_draws": (
        lambda: inference.laplace(KEY, model, 2, 0.0, what=1)
    ),
    "key must be one key; the key comes first: inference.mcmc(key, model, *args); got model 'mo": (
        lambda: inference.mcmc(ppl.condition(model, {"y": np.ones(3)}), KEY, 2, 0.0)
    ),
    "sample: there is no argument 'sample_shape'.": (
        lambda: ppl.sample(KEY, dist.Normal(), name="x", sample_shape=(3,))
    ),
    "sample: expected a key, a distribution and a name": lambda: ppl.sample(KEY, dist.Normal()),
}


@pytest.mark.parametrize("message", ARGUMENTS)
def test_arguments_of_other_libraries(message):
    with pytest.raises(TypeError, match=re.escape(message)):
        ARGUMENTS[message]()


def test_a_distribution_of_another_library_is_refused():
    class Normal:
        __module__ = "numpyro.distributions.continuous"

        def sample(self, key, sample_shape=()): ...

        def log_prob(self, value): ...

    with pytest.raises(TypeError, match=r"of numpyro has another map .*distributions\.Normal, or"):
        ppl.sample(KEY, Normal(), name="x")


def test_errors_within_a_call_are_left_alone():
    """Those of a model that has an argument too few, say, are no fault of the call of `sample`."""

    def wrong(key):
        return ppl.sample(key, dist.Normal(jnp.zeros(2), jnp.ones(3)), name="x")

    with pytest.raises(ValueError, match="Normal"):
        wrong(KEY)
    with pytest.raises(TypeError, match="expected a distribution with log_prob"):
        ppl.sample(KEY, 3.0, name="x")


def test_sizes_of_numpy_and_columns_of_pandas_are_arguments():
    pandas = pytest.importorskip("pandas")
    county, x = pandas.Series([0, 1, 1]), pandas.Series([1.0, 2.0, 3.0])
    posterior = ppl.condition(model, {"y": x})
    args = county.max() + 1, x
    assert isinstance(args[0], np.integer)
    values = {"mean": np.zeros(2)}
    expected = ppl.log_density(posterior)(values, 2, x.to_numpy())
    assert ppl.log_density(posterior)(values, *args) == expected
    assert ppl.unconstrain(posterior, *args).position_shapes["mean"].shape == (2,)
    assert ppl.predict(model, 5)(KEY, *args)["y"].shape == (5, 3)
    assert ppl.trace(posterior)(KEY, *args).sites["mean"].value.shape == (2,)
    by_flag = lambda key, flag: model(key, 1 if flag else 2, 0.0)  # noqa: E731
    assert ppl.simulate(by_flag)(KEY, np.bool_(True))["mean"].shape == (1,)


@pytest.mark.parametrize("size", [np.array(2), jnp.int32(2)])
def test_a_size_that_is_an_array_is_told_by_its_argument(size):
    words = r"argument 0 of .*model.* is an array, int.*\[\] of the value 2, .*give int\(\.\.\.\)"
    for call in (
        lambda: ppl.simulate(model)(KEY, size, jnp.zeros(2)),
        lambda: inference.mcmc(KEY, model, size, jnp.zeros(2)),
    ):
        with pytest.raises(TypeError, match=words):
            call()


def test_masked_entries_are_no_arguments():
    masked = np.ma.array([1.0, 1e20], mask=[False, True])
    for call in (ppl.simulate(model), lambda key, *x: inference.mcmc(key, model, *x)):
        with pytest.raises(TypeError, match=r"argument 1: 1 of its 2 entries are masked, "):
            call(KEY, 2, masked)
        with pytest.raises(TypeError, match=r"argument x: 1 of its 2 entries are masked, "):
            ppl.simulate(model)(KEY, 2, x=masked)
    assert ppl.simulate(model)(KEY, 2, masked[:1])["mean"].shape == (2,)


def test_a_loop_without_a_gradient_is_told_before_the_run():
    def looping(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        x = jax.lax.while_loop(lambda x: x < 9.0, lambda x: x + 1.5, x)
        ppl.sample(key, dist.Normal(x, 1.0), name="y")

    posterior = ppl.condition(looping, {"y": 11.0})
    for driver in (inference.mcmc, inference.svi, inference.optimize):
        with pytest.raises(ValueError, match=r"no gradient by reverse mode.*lax\.while_loop"):
            driver(KEY, posterior)
    assert np.isfinite(inference.importance(KEY, posterior, num_draws=50).log_evidence)
