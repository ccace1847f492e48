"""Data that index an array of a model out of range are told, in every construct; wishes are not."""

# ruff: noqa: E731

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from jax import lax

import distributions as dist
import inference
import ppl
import ppl.transforms.check_indices as check_indices_module
from ppl.analysis.known_indices import find_out_of_range
from ppl.harvest.program import trace
from ppl.transforms.check_indices import check_indices, may_be_out_of_range

KEY = jax.random.key(0)
COUNTY = np.array([0, 2, 1, 3, 1, 2])  # counts from 1, but for the first
Y = np.linspace(-1.0, 1.0, 6)
DEVICE_COUNTY = jnp.asarray(COUNTY)


def model_of(read):
    """A model whose effects are read by `read(effect, county)`."""

    def model(key, county):
        effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
        return ppl.sample(key, dist.Normal(read(effect, county), 1.0), name="y")

    return ppl.condition(model, {"y": Y})


def of_nest(key, county):
    inner = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
    effect = ppl.nest(inner, scope="a")(key)
    return ppl.sample(key, dist.Normal(effect[county], 1.0), name="y")


def of_steps(key, county):
    effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")

    def step(last, row):
        key, i = row
        return ppl.sample(key, dist.Normal(effect[i] + 0.1 * last, 1.0), name="y"), ()

    return lax.scan(step, 0.0, (jax.random.split(key, 6), county))[0]


def of_elements(key, county):
    effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
    draw = lambda key, i: ppl.sample(key, dist.Normal(effect[i], 1.0), name="y")
    return jax.vmap(draw)(jax.random.split(key, 6), county)


def told(model, *args):
    """What is said of a model and its arguments, "" if nothing is."""
    try:
        check_indices(model, args, {})
    except ValueError as error:
        return str(error)
    return ""


@pytest.fixture
def at_once(monkeypatch):
    """Tells of every index out of range, without a look at what depends on it."""
    monkeypatch.setattr(check_indices_module, "_matters", lambda *_: True)


def by_custom_derivative(effect, county):
    read = jax.custom_jvp(lambda effect, county: effect[county])
    read.defjvp(lambda primals, tangents: (read(*primals), tangents[0][primals[1]]))
    return read(effect, county)


READS = {
    "index": lambda e, c: e[c],
    "jit": jax.jit(lambda e, c: e[c]),
    "checkpoint": jax.checkpoint(lambda e, c: e[c]),
    "vmap": lambda e, c: jax.vmap(lambda i: e[i])(c),
    "map": lambda e, c: lax.map(lambda i: e[i], c),
    "reverse": lambda e, c: lax.scan(lambda s, i: (s, e[i]), 0, c, reverse=True)[1],
    "two loops": lambda e, c: lax.map(
        lambda r: lax.map(lambda i: e[i], r), c.reshape(2, 3)
    ).ravel(),
    "cond": lambda e, c: lax.cond(e[0] > -99.0, lambda: e[c], lambda: e[c - 1]),
    "while": lambda e, c: lax.while_loop(lambda x: x[0] < 1.0, lambda x: x + e[c] + 9.0, Y),
    "custom": by_custom_derivative,
    "along": lambda e, c: jnp.take_along_axis(e, c, 0, mode="promise_in_bounds"),
    "constant": lambda e, c: e[DEVICE_COUNTY],
    "host": lambda e, c: e[COUNTY],
    "rows": lambda e, c: jnp.stack([e[None, c[i]][0] for i in range(6)]),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_construct_tells(read):
    message = told(model_of(read), COUNTY)
    assert "site 'effect'" in message
    assert "county[3] is 3" in message
    assert may_be_out_of_range(model_of(read), (DEVICE_COUNTY,), {})


@pytest.mark.parametrize("model", [of_steps, of_elements, of_nest])
def test_every_place_of_a_site_tells(model):
    assert "is read out of range: county[3] is 3" in told(model, COUNTY)


@pytest.mark.usefixtures("at_once")
def test_words_say_where_the_index_is():
    model = model_of(lambda e, c: e[c])
    message = told(model, COUNTY)
    assert message.startswith(
        "model 'model': site 'effect', of shape (3,), is read out of range: county[3] is 3, and "
        "axis 0 has indices from 0 to 2."
    )
    assert "subtract 1 from data that count from 1" in message
    assert "county goes from 1 to 3, so subtract 1" in told(model, np.maximum(COUNTY, 1))
    assert "county[0] is -4" in told(model, COUNTY - 4)
    assert "an index made of county is 3 at position [1]" in told(
        model_of(lambda e, c: e[c + 1]), COUNTY
    )
    pair = lambda e, c: jnp.stack([e, e])[0, c]
    assert "an array of shape (2, 3) made of site 'effect'" in told(model_of(pair), COUNTY)


@pytest.mark.parametrize(
    "table", [pandas.DataFrame({"county": COUNTY}), {"county": COUNTY}], ids=["pandas", "dict"]
)
@pytest.mark.usefixtures("at_once")
def test_words_name_a_column(table):
    def model(key, data):
        effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
        return ppl.sample(key, dist.Normal(effect[data["county"]], 1.0), name="y")

    assert "data['county'][3] is 3" in told(model, table)


def test_an_array_of_data_tells():
    def model(key, county, income):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        return ppl.sample(key, dist.Normal(slope * income[county], 1.0), name="y")

    income = np.array([1e6, 2e6, 3e6])
    message = told(ppl.condition(model, {"y": Y}), COUNTY, income)
    assert "an array of shape (3,) is read out of range: county[3] is 3" in message


VALID = {
    "from the end": lambda e, c: e[c - 3],
    "from 0": lambda e, c: e[c - 1],
    "clip": lambda e, c: e.at[c].get(mode="clip"),
    "fill": lambda e, c: e.at[c].get(mode="fill", fill_value=0.0),
    "clip one": lambda e, c: jax.vmap(lambda i: e.at[i].get(mode="clip"))(c),
    "clip a step": lambda e, c: lax.map(lambda i: e.at[i].get(mode="clip"), c),
    "take": lambda e, c: jnp.take(e, c, mode="clip"),
    "take under vmap": lambda e, c: jax.vmap(lambda i: jnp.take(e, i, mode="clip"))(c),
    "wrap": lambda e, c: jnp.take(e, c, mode="wrap"),
    "clipped": lambda e, c: e[jnp.clip(c, 0, 2)],
    "remainder": lambda e, c: e[c % 3],
    "quotient": lambda e, c: e[c // 2],
    "chosen": lambda e, c: e[jnp.where(c < 3, c, 0)],
    "window": lambda e, c: lax.dynamic_slice(e, (c[3],), (2,)).sum() + jnp.zeros(6),
    "dropped": lambda e, c: jax.ops.segment_sum(jnp.ones(6), c, 3)[c - 1] * e[0],
    "scattered": lambda e, c: jnp.zeros(3).at[c].add(e[0])[c - 1],
    "one-hot": lambda e, c: jax.nn.one_hot(c, 3) @ e,
    "counted": lambda e, c: lax.fori_loop(0, 4, lambda i, s: s + e[i], 0.0) + jnp.zeros(6),
    "neighbors": lambda e, c: jnp.append(e, e)[jnp.arange(6) + 1],
    "searched": lambda e, c: e[jnp.searchsorted(jnp.arange(3), c, side="right")],
    "random": lambda e, c: e[(e[0] * 10).astype(int)] + jnp.zeros(6),
    "masked": lambda e, c: jnp.where(c < 3, e[c], 0.0),
    "weighted": lambda e, c: (c < 3) * jax.vmap(lambda i: e[i])(c),
    "not taken": lambda e, c: lax.cond(c[3] < 3, lambda: e[c], lambda: e[c - 1]),
}


@pytest.mark.parametrize("read", VALID.values(), ids=VALID)
def test_what_is_meant_is_not_told(read):
    assert told(model_of(read), COUNTY) == ""


def test_rows_that_are_ignored_are_not_told():
    def model(key, county):
        effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
        return ppl.sample(key, dist.Normal(effect[county], 1.0), name="y")

    for gone, is_told in (3, False), (2, True):
        data = ppl.ignore(Y, np.arange(6) == gone)
        assert bool(told(ppl.condition(model, {"y": data}), COUNTY)) == is_told


@pytest.mark.parametrize("how", [ppl.Gaussian(), ppl.Laplace()], ids=lambda how: type(how).__name__)
def test_marginalized_sites_are_told_of(how):
    posterior = ppl.marginalize(model_of(lambda e, c: e[c]), {"effect": how})
    with pytest.raises(ValueError, match=r"county\[3\] is 3"):
        inference.optimize(KEY, posterior, COUNTY)


def test_discrete_sites_are_told_of():
    def model(key, county):
        state = ppl.sample(key, dist.Bernoulli(probs=0.5 * jnp.ones(3)), name="state")
        return ppl.sample(key, dist.Normal(1.0 * state[county], 1.0), name="y")

    posterior = ppl.marginalize(ppl.condition(model, {"y": Y}), {"state": ppl.Enumerate()})
    assert "site 'state', of shape (3,)" in told(posterior, COUNTY)


def test_a_site_without_draws_is_told_of():
    def model(key, county):
        effect = jax.vmap(
            lambda key: ppl.sample(key, dist.Flat(dist.constraints.real), name="effect")
        )(jax.random.split(key, 3))
        return ppl.sample(key, dist.Normal(effect[county], 1.0), name="y")

    assert "site 'effect', of shape (3,)" in told(ppl.condition(model, {"y": Y}), COUNTY)


@functools.cache
def posterior():
    return model_of(lambda e, c: e[c])


DRIVERS = {
    "mcmc": lambda: inference.mcmc(KEY, posterior(), COUNTY),
    "keyword": lambda: inference.mcmc(KEY, posterior(), county=COUNTY),
    "sampler": lambda: inference.sampler(posterior())(KEY, COUNTY),
    "svi": lambda: inference.svi(KEY, posterior(), COUNTY),
    "svi_step": lambda: inference.svi_step(posterior()).init(KEY, COUNTY),
    "laplace": lambda: inference.laplace(KEY, posterior(), COUNTY),
    "nested_laplace": lambda: inference.nested_laplace(KEY, posterior(), COUNTY),
    "optimize": lambda: inference.optimize(KEY, posterior(), COUNTY),
    "pathfinder": lambda: inference.pathfinder(KEY, posterior(), COUNTY),
    "smc": lambda: inference.smc(KEY, posterior(), COUNTY),
    "svgd": lambda: inference.svgd(KEY, posterior(), COUNTY),
}


@pytest.mark.parametrize("run", DRIVERS.values(), ids=DRIVERS)
@pytest.mark.usefixtures("at_once")
def test_every_driver_tells(run):
    with pytest.raises(ValueError, match=r"county\[3\] is 3"):
        run()


@pytest.mark.usefixtures("at_once")
def test_mcmc_each_tells_which_data_set():
    sets = np.stack([COUNTY % 3, COUNTY, COUNTY % 3])
    with pytest.raises(ValueError, match=r"data set 1: .*county\[3\] is 3"):
        inference.mcmc_each(KEY, posterior(), sets)


@pytest.mark.usefixtures("at_once")
def test_predict_tells_of_new_data():
    def model(key, county):
        effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
        return ppl.sample(key, dist.Normal(effect[county], 1.0), name="y")

    predict = ppl.predict(model, {"effect": jnp.zeros((5, 3))})
    assert predict(KEY, COUNTY % 3)["y"].shape == (5, 6)
    with pytest.raises(ValueError, match=r"county\[3\] is 3"):
        predict(KEY, COUNTY)


def test_traced_data_are_passed_over():
    jax.jit(lambda county: check_indices(posterior(), (county,), {}))(COUNTY)
    jax.jit(lambda: check_indices(posterior(), (COUNTY,), {}))()


def test_indices_by_numpy_are_those_of_jax():
    """Each primitive is read at the last index in range, and at the one behind it."""
    i = np.array([[7, -5, 3], [2, 9, -8]], np.int32)
    j = np.array([[2, 3, -2], [-3, 4, 5]], np.int32)
    programs = [
        lambda i, j: i + j,
        lambda i, j: i - j,
        lambda i, j: i * j,
        lambda i, j: -i,
        lambda i, j: i // j,
        lambda i, j: i % j,
        lambda i, j: lax.div(i, j),
        lambda i, j: lax.rem(i, j),
        lambda i, j: jnp.maximum(i, j) - jnp.minimum(i, j),
        lambda i, j: jnp.clip(i, -2, 2),
        lambda i, j: lax.clamp(-2, i, 4),
        lambda i, j: jnp.where((i < j) & ~(i == 2) | (j > 3), i, j),
        lambda i, j: jnp.where((i <= j) & (i != 2) | (j >= 3), i, j),
        lambda i, j: jnp.sign(i) + i.T.ravel()[2:5] + i[:, ::-1],
        lambda i, j: jnp.concatenate([i, j], 1)[:, 1:5:2].T,
        lambda i, j: i[:, None] + jnp.arange(3, dtype=jnp.int32)[:, None],
        lambda i, j: i.astype(jnp.float32).astype(jnp.int16),
        lambda i, j: jnp.flip(i).reshape(3, 2),
        lambda i, j: lax.map(lambda r: jnp.append(r[0], r[1][::-1]), (i, j)),
        lambda i, j: lax.map(lambda r: r[:, None] + j[0], i, batch_size=None),
    ]
    for program in programs:
        indices = np.asarray(program(i, j)).astype(np.int64)
        least = int(indices.min())
        most = int(indices.max()) - least
        for size, is_out in (most + 1, False), (most, True):

            def read(i, j, program=program, size=size, least=least):
                return jnp.zeros(size)[program(i, j).astype(jnp.int32) - least]

            found = find_out_of_range(trace(read, (i, j), {}))
            assert [x.index for x in found] == [most] * is_out
