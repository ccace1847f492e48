"""marginalize of fields on graphs, whose elements known arrays of indices couple."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import distributions as dist
import ppl
from ppl.marginal.block_integral import BlockIntegral
from ppl.marginal.element_order import color_columns, find_order
from ppl.marginal.full_conditional import NormalConditional
from ppl.marginal.hessian_pattern import PatternReader, TooDense
from ppl.marginal.ordered_layout import OrderedLayout

pytestmark = pytest.mark.usefixtures("x64")

N = 12
LEFT = np.array([0, 3, 5, 7, 0, 11, -1])
RIGHT = np.array([1, 8, 2, 10, 9, 4, 6])
SPARSE = np.where(np.random.default_rng(0).random((N, N)) < 0.15, 1.7, 0.0)
WEIGHTS = SPARSE + SPARSE.T


def grid_terms(x):
    x = x.reshape(3, 4)
    return jnp.sum((x[1:] - x[:-1]) ** 2) + jnp.sum(jnp.cos(x[:, 1:] - x[:, :-1]))


def written(x):
    y = jnp.zeros(20).at[2 * LEFT].add(x[RIGHT]).at[1].set(x[0] + x[2])
    return jnp.sum(y**2)


def sliced(x):
    start = jnp.asarray(4)
    return jnp.sum(jax.lax.dynamic_slice(x, (start,), (3,)) ** 2 * x[:3])


# Functions of a vector, and whether the pattern is that of the Hessian, with no other entries.
FUNCTIONS = {
    "pairs": (lambda x: jnp.sum((x[LEFT] - x[RIGHT]) ** 2), True),
    "second differences": (lambda x: jnp.sum(jnp.diff(x, n=2) ** 2), True),
    "grid": (grid_terms, True),
    "quadratic form": (lambda x: x @ (jnp.asarray(WEIGHTS) @ x), True),
    "weights of pairs": (lambda x: jnp.sum(-WEIGHTS * (x[:, None] - x) ** 4), True),
    "counts": (lambda x: jnp.sum(jnp.exp(x[LEFT] + x[0])), True),
    "design": (lambda x: jnp.sum((SPARSE @ x) ** 3), True),
    "sums of groups": (lambda x: jnp.sum(jax.ops.segment_sum(x, np.arange(N) // 3, 4) ** 2), True),
    "written": (written, False),
    "slice": (sliced, True),
    "moved": (lambda x: jnp.sum(jnp.roll(jnp.flip(x), 2) * jnp.tile(x[:3], 4)), True),
    "rows": (lambda x: jnp.sum(jax.vmap(lambda i, j: x[i] * x[j])(LEFT, RIGHT)), True),
    "chosen": (lambda x: jnp.sum(jnp.where(x[LEFT] > 0, x[RIGHT], 0.0) ** 2), True),
    "cumulative": (lambda x: jnp.sum(jnp.cumsum(x)[:3] ** 2), False),
    "loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s * s + x[i], x[0]), False),
    "softmax": (lambda x: jax.nn.logsumexp(x[:3]) + jnp.sum(x), True),
    "branch": (lambda x: jax.lax.cond(True, lambda x: x[0] ** 2, lambda x: x[1] * x[2], x), False),
    "negative weights": (lambda x: jnp.sum(jnp.square(-SPARSE @ x)), True),
    "linear": (lambda x: jnp.sum(SPARSE @ x), True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_patterns_are_those_of_hessians(name):
    fn, is_exact = FUNCTIONS[name]
    x = jnp.asarray(np.random.default_rng(1).normal(size=N)) + 0.1
    pattern = PatternReader(jax.make_jaxpr(fn)(x), {}, {0: 0}, N).read([0]).toarray()
    nonzero = np.abs(jax.hessian(fn)(x)) + np.abs(jax.hessian(fn)(1.0 + x**2)) > 1e-12
    assert np.all(pattern | ~nonzero)
    assert np.array_equal(pattern, nonzero) or not is_exact


def test_what_is_not_known_is_taken_as_coupled():
    def of_index(x, left, weights):
        return jnp.sum(x[left] ** 2 * x[0]) + jnp.sum(weights * x**2)

    x = jnp.ones(N)
    jaxpr = jax.make_jaxpr(of_index)(x, LEFT, x)
    reader = PatternReader(jaxpr, {}, {0: 0}, N)
    assert np.array_equal(reader.read([0]).toarray(), np.ones((N, N)))
    assert reader.has_unknown_index
    reader = PatternReader(jaxpr, {1: LEFT}, {0: 0}, N)
    assert reader.read([0]).nnz == N + 2 * len({*LEFT % N} - {0})
    assert not reader.has_unknown_index
    big = jax.make_jaxpr(lambda x: jnp.sum(x) ** 2)(jnp.ones(10**4))
    with pytest.raises(TooDense):
        PatternReader(big, {}, {0: 0}, 10**4).read([0])


def edges_of(rows, columns):
    """The edges of a lattice."""
    index = np.arange(rows * columns).reshape(rows, columns)
    pairs = (index[:, 1:], index[:, :-1]), (index[1:], index[:-1])
    return np.stack([np.concatenate([np.ravel(p[k]) for p in pairs]) for k in (0, 1)])


def pattern_of(edges, num):
    found = np.eye(num, dtype=bool)
    found[edges[0], edges[1]] = found[edges[1], edges[0]] = True
    return found


def test_orders_have_narrow_bands_and_colors_fit():
    import scipy.sparse

    rng = np.random.default_rng(0)
    shuffle = rng.permutation(400)
    full = pattern_of(shuffle[edges_of(20, 20)], 401)
    full[400] = full[:, 400] = True
    order = find_order(scipy.sparse.csr_array(full), 1e4)
    assert order.border.tolist() == [400]
    assert order.size_of_block <= 21
    assert order.num_colors <= 10
    band = full[np.ix_(order.inner, order.inner)]
    entries = set(zip(order.rows.tolist(), order.columns.tolist(), strict=True))
    assert entries == set(zip(*map(np.ndarray.tolist, np.nonzero(band)), strict=True))
    for color in range(order.num_colors):
        assert band[:, order.colors == color].sum(1).max() <= 1
    assert color_columns(scipy.sparse.csr_array(np.ones((3, 3), int))).tolist() == [0, 1, 2]


class Static:
    """An array that is no data: its numbers are known where a model is traced."""

    def __init__(self, array):
        self.array = array

    def __getitem__(self, i):
        return self.array[i]


SHAPE = 14, 13
SITES = 182
SHUFFLE = np.random.default_rng(2).permutation(SITES)
EDGES = SHUFFLE[edges_of(*SHAPE)]
BEFORE = np.roll(SHUFFLE, 1)[np.argsort(SHUFFLE)]
COUNTS = np.random.default_rng(3).poisson(2.0, SITES)


def field(key, family, edges=EDGES):
    """A field on a lattice whose vertices have no order, beside a level."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
    x = ppl.sample(key, dist.Normal(np.zeros(SITES), 3.0), name="x")
    ppl.factor(-0.5 * jnp.square((x[edges[0]] - x[edges[1]]) / scale), name="prior")
    ppl.sample(key, family(level + x), name="y")


def normal(x):
    return dist.Normal(x, 0.5)


def counts(x):  # Each depends on a neighbor, too.
    return dist.Poisson(jnp.exp(x - 0.3 * x[BEFORE]))


def integrated(family, strategy):
    posterior = ppl.condition(field, {"y": COUNTS if family is counts else COUNTS * 1.0})
    return ppl.marginalize(posterior, {"x": strategy, "level": strategy})


@pytest.fixture
def layouts(monkeypatch):
    """The layouts of all integrals of a test."""
    found = []
    layout_of = BlockIntegral._layout  # pyright: ignore

    def note(self, group):
        found.append(layout_of(self, group))
        return found[-1]

    monkeypatch.setattr(BlockIntegral, "_layout", note)
    return found


def as_dense():
    """The integral of the normal field, at some scale, with its mean and covariance."""
    posterior = ppl.condition(field, {"y": COUNTS * 1.0})
    flat, unflatten = ravel_pytree({"level": jnp.zeros(()), "x": jnp.zeros(SITES)})

    def of(scale):
        f = lambda x: ppl.log_density(posterior)({"scale": scale, **unflatten(x)}, normal)  # noqa: E731
        precision = -jax.hessian(f)(flat)
        mean = jnp.linalg.solve(precision, jax.grad(f)(flat))
        log_det = jnp.linalg.slogdet(precision)[1]
        return f(mean) - log_det / 2 + flat.size / 2 * jnp.log(2 * jnp.pi), mean, precision

    return of


def test_a_normal_field_on_a_lattice_has_the_dense_integral(layouts):
    ours = integrated(normal, ppl.Gaussian())
    scales = jnp.array([0.4, 0.7, 2.0])

    @jax.jit
    def both(scales):
        density = lambda s: ppl.log_density(ours)({"scale": s}, normal)  # noqa: E731
        found = jax.vmap(jax.value_and_grad(density))(scales)
        exact = jax.lax.map(jax.value_and_grad(lambda s: as_dense()(s)[0]), scales)
        return found, exact

    found, exact = both(scales)
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-9)
    assert all(isinstance(x, OrderedLayout) for x in layouts)
    assert layouts[0].size_of_block <= 16
    assert layouts[0].size_of_border == 1
    assert layouts[0].order.num_colors <= 10
    # Draws: the squares of whitened residuals are chi-square.
    num = 2000
    draws = ppl.recover(ours, {"scale": jnp.full(num, 0.7)})(jax.random.key(0), normal)
    _, mean, precision = as_dense()(0.7)
    rest = np.concatenate([draws["level"][:, None], draws["x"]], 1) - mean
    white = rest @ np.linalg.cholesky(precision)
    excess = np.abs(white.T @ white / num - np.eye(SITES + 1)).max() * np.sqrt(num / 2)
    assert excess < 5.0  # fails in one of 300 seeds
    assert np.abs(white.mean(0)).max() * np.sqrt(num) < 4.5


def test_counts_on_a_lattice_have_the_integral_of_whole_blocks(layouts):
    ours = integrated(counts, ppl.Laplace())
    values = {"scale": jnp.asarray(0.7)}

    def density(scale, *edges):  # Edges that are arguments are not known, and all is one block.
        return ppl.log_density(ours)({"scale": scale}, counts, *edges)

    found = jax.jit(jax.value_and_grad(density))(values["scale"])
    assert all(isinstance(x, OrderedLayout) for x in layouts)
    layouts.clear()
    exact = jax.jit(jax.value_and_grad(density))(values["scale"], jnp.asarray(EDGES))
    assert not any(isinstance(x, OrderedLayout) for x in layouts)
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_a_large_lattice_needs_edges_that_are_known():
    num = 30 * 30
    edges = edges_of(30, 30)

    def large(key, edges):
        x = ppl.sample(key, dist.Normal(np.zeros(num), 3.0), name="x")
        ppl.factor(-jnp.sum(jnp.square(x[edges[0]] - x[edges[1]])), name="prior")
        ppl.sample(key, dist.Normal(x, 1.0), name="y")

    def known(key):
        large(key, edges)

    sites = {"x": ppl.Gaussian(max_block=100)}
    with pytest.raises(ValueError, match=r"indices that are arguments of the model.*closure"):
        jax.eval_shape(ppl.log_density(ppl.marginalize(large, sites)), {"y": np.zeros(num)}, edges)
    density = ppl.log_density(ppl.marginalize(known, sites))
    assert jax.eval_shape(density, {"y": np.zeros(num)}).shape == ()
    plan = ppl.auto_marginal(ppl.condition(known, {"y": np.zeros(num)}))()
    assert {name: type(s) for name, s in plan.items()} == {"x": ppl.Gaussian}


def test_other_edges_are_another_integral(monkeypatch):
    integrals = []
    orders_of = BlockIntegral._layouts.func  # pyright: ignore

    def note(self):
        integrals.append(self)
        return orders_of(self)

    monkeypatch.setattr(BlockIntegral._layouts, "func", note)
    posterior = ppl.condition(field, {"y": COUNTS * 1.0})
    density = ppl.log_density(ppl.marginalize(posterior, {"x": ppl.Gaussian()}))
    values = {"scale": 0.7, "level": 0.0}
    for edges in (EDGES, EDGES, np.roll(EDGES, 1, 1), edges_of(*SHAPE)):
        jax.eval_shape(lambda edges=edges: density(values, normal, Static(edges)))
    first, same, moved, other = integrals
    assert first == same == moved  # the same pairs in another order are the same pattern
    assert first != other
    assert len({first, same, moved, other}) == 2


def test_the_conditional_of_a_field_with_a_hub_is_exact():
    size = 200

    def star(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(size), 2.0), name="x")
        ppl.factor(-jnp.sum((x[1:] - 0.7 * x[np.zeros(size - 1, int)]) ** 2) / 2, name="edges")
        ppl.sample(key, dist.Normal(x, 1.0), name="y")

    values = np.random.default_rng(1).normal(1, 1, (2, size))
    posterior = ppl.condition(star, {"y": jnp.asarray(values[0])})
    found = ppl.conditional(posterior, "x")({})
    assert isinstance(found, NormalConditional)
    layout = found.integral.layout
    assert isinstance(layout, OrderedLayout)
    assert layout.size_of_border == 1
    precision = np.eye(size) * 2.25
    precision[0, 0] = 1.25 + (size - 1) * 0.49
    precision[0, 1:] = precision[1:, 0] = -0.7
    covariance = np.linalg.inv(precision)
    mean = covariance @ values[0]
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance(), np.diag(covariance), rtol=1e-10)
    apart = values[1] - mean
    log_det = np.linalg.slogdet(precision / (2 * np.pi))[1]
    exact = (log_det - apart @ precision @ apart) / 2
    np.testing.assert_allclose(found.log_prob(values[1]), exact, rtol=1e-10)
