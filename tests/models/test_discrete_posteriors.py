"""Models with discrete sites, sampled by Gibbs: their posteriors against exact ones."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln, softmax
from scipy.stats import multivariate_normal

import inference
import ppl
from examples.catalogue import discrete
from inference import DiscreteLangevin, Gibbs, GibbsWithGradients
from inference.results.diagnostics import mcse_mean

Z = 4.5  # of a thousand comparisons with an exact value, one fails by chance in a run of 150


def check_means(draws, exact):
    """Means of draws of shape (chain, draw, *shape) beside exact ones of this shape."""
    draws = np.asarray(draws, np.float64)
    draws = draws.reshape(*draws.shape[:2], -1)
    for i, truth in enumerate(np.ravel(exact)):
        error = draws[..., i].mean() - truth
        assert abs(error) < Z * mcse_mean(draws[..., i]) + 1e-4, (i, error)


def sample(model, observed, *args, kernel=None, num_draws=4000):
    posterior = ppl.condition(model, observed) if observed else model
    kernel = Gibbs.auto() if kernel is None else kernel
    return inference.mcmc(
        jax.random.key(0), posterior, *args, kernel=kernel, num_warmup=300, num_draws=num_draws
    )


SPIN_FIELD = np.linspace(-0.3, 0.4, 16).reshape(4, 4).astype(np.float32)
COLOR_FIELD = np.linspace(-0.5, 0.6, 48).reshape(4, 4, 3)[::-1].astype(np.float32)
LOCAL = {"one at a time": GibbsWithGradients, "all at once": DiscreteLangevin}


def kernel_of(site, how):
    return Gibbs.auto() if how == "auto" else Gibbs({site: LOCAL[how](gradient=False)})


@pytest.mark.slow
@pytest.mark.parametrize("how", ["auto", *LOCAL])
def test_ising_agrees_with_enumeration(how):
    """All 2^16 states of 4 x 4 spins: the mean of each, and the number of equal neighbors."""
    result = sample(
        discrete.ising, {}, jnp.array(0.3), jnp.array(SPIN_FIELD), kernel=kernel_of("spin", how)
    )

    def equal(spin):
        pairs = (spin[..., 1:, :] == spin[..., :-1, :]), (spin[..., 1:] == spin[..., :-1])
        return sum(x.sum((-2, -1)) for x in pairs)

    spins = np.arange(2**16)[:, None] // 2 ** np.arange(16) % 2
    spins = spins.reshape(-1, 4, 4)
    log_weights = 0.3 * (2.0 * equal(spins) - 24) + ((2 * spins - 1) * SPIN_FIELD).sum((1, 2))
    weights = softmax(log_weights)
    draws = np.asarray(result.draws["spin"])
    check_means(draws, np.tensordot(weights, spins, 1))
    check_means(equal(draws), weights @ equal(spins))


def potts_log_normalizer(coupling, field):
    """Log of the sum over the colors of a grid, row by row."""
    rows = np.array(list(itertools.product(range(3), repeat=4)))
    one_hot = jnp.eye(3)[rows]
    within = coupling * (rows[:, 1:] == rows[:, :-1]).sum(1)
    between = coupling * (rows[:, None] == rows).sum(-1)
    total = jnp.zeros(len(rows))
    for i, row in enumerate(field):
        if i:
            total = jax.nn.logsumexp(total[:, None] + between, 0)
        total += within + jnp.sum(one_hot * row, (1, 2))
    return jax.nn.logsumexp(total)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["auto", *LOCAL])
def test_potts_agrees_with_enumeration(how, x64):
    """All 3^16 states of 4 x 4 colors; derivatives of the normalizer are the expectations."""
    coupling = jnp.array(0.5)
    field = jnp.array(COLOR_FIELD, jnp.float64)
    result = sample(discrete.potts, {}, coupling, field, kernel=kernel_of("color", how))
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        equal, of_color = jax.grad(potts_log_normalizer, (0, 1))(coupling, field)
    draws = np.asarray(result.draws["color"])
    check_means(draws[..., None] == np.arange(3), of_color)
    pairs = (draws[..., 1:, :] == draws[..., :-1, :]), (draws[..., 1:] == draws[..., :-1])
    check_means(sum(x.sum((-2, -1)) for x in pairs), equal)


def partitions(items):
    """All partitions of a list."""
    if not items:
        yield []
        return
    first, *others = items
    for rest in partitions(others):
        yield [[first], *rest]
        for i in range(len(rest)):
            yield [*rest[:i], [first, *rest[i]], *rest[i + 1 :]]


SIX = np.array([12.0, 13.5, 19.0, 20.0, 22.5, 30.0])


@pytest.mark.slow
def test_a_dirichlet_process_agrees_with_its_partitions():
    """All 203 partitions of six points by the Chinese restaurant process, centers integrated.

    After 15 clusters the process is cut off: six points get there with probability below 1e-3.
    """
    result = sample(discrete.dirichlet_process, {"y": jnp.array(SIX)}, len(SIX), num_draws=8000)
    scores, counts, together = [], [], []
    for parts in partitions(list(range(6))):
        score = sum(gammaln(len(part)) for part in parts)
        for part in parts:
            covariance = 4 * np.eye(len(part)) + 100
            base = multivariate_normal(np.full(len(part), 20.0), covariance)  # type: ignore
            score += base.logpdf(SIX[part])
        scores.append(score)
        counts.append([len(parts) == n for n in range(1, 7)])
        together.append(
            [[any(i in p and j in p for p in parts) for i in range(6)] for j in range(6)]
        )
    weights = softmax(scores)
    found = np.asarray(result.draws["num_clusters"])
    check_means(found[..., None] == np.arange(1, 7), weights @ np.array(counts))
    cluster = np.asarray(result.draws["cluster"])
    of_pairs = cluster[..., :, None] == cluster[..., None, :]
    check_means(of_pairs, np.tensordot(weights, together, 1))


WORDS = np.array([[0, 0, 1], [2, 3, 2]])


@pytest.mark.slow
def test_topics_agree_with_all_assignments_of_a_tiny_corpus():
    """All 2^6 assignments of words to two topics; weights and terms are integrated."""
    result = sample(discrete.topics, {"word": jnp.array(WORDS)}, 2, 3, 2, 4)

    def log_dirichlet_multinomial(counts, concentration):
        total = gammaln(concentration * len(counts))
        total -= gammaln(concentration * len(counts) + counts.sum())
        return total + np.sum(gammaln(concentration + counts) - gammaln(concentration))

    assignments = np.array(list(itertools.product([0, 1], repeat=6))).reshape(-1, 2, 3)
    scores = [
        sum(log_dirichlet_multinomial(np.bincount(row, minlength=2), 1.0) for row in topic)
        + sum(
            log_dirichlet_multinomial(np.bincount(WORDS[topic == k], minlength=4), 0.5)
            for k in (0, 1)
        )
        for topic in assignments
    ]
    weights = softmax(scores)

    def same(topic):
        topic = topic.reshape(*topic.shape[:-2], 6)
        return topic[..., :, None] == topic[..., None, :]

    draws = np.asarray(result.draws["topic"])
    check_means(same(draws), np.tensordot(weights, same(assignments), 1))


@pytest.mark.slow
def test_topics_are_recovered_up_to_their_order():
    """Three topics of three terms each, 20 documents of 40 words."""
    truth = np.kron(np.eye(3), np.full(3, 1 / 3)).reshape(3, 9)
    args = 20, 40, 3, 9
    known = ppl.intervene(discrete.topics, {"terms": jnp.array(truth, jnp.float32)})
    words = jax.jit(lambda key: ppl.simulate(known)(key, *args)["word"])(jax.random.key(1))
    result = sample(discrete.topics, {"word": words}, *args, num_draws=500)
    matched = inference.relabel(result, {"terms": 0, "weights": 1}, ["topic"])
    found = np.asarray(matched.draws["terms"]).mean((0, 1))
    distances = 0.5 * np.abs(found[:, None] - truth).sum(-1)
    assert sorted(distances.argmin(1)) == [0, 1, 2]
    assert distances.min(1).max() < 0.2


def test_a_change_point_agrees_with_the_sum_over_years():
    """The rates integrated for each year of the change."""
    y = discrete.DISASTERS
    years = np.arange(len(y))
    result = sample(discrete.change_point, {"disasters": jnp.array(y)}, len(y), num_draws=4000)
    sums = np.array([y[:s].sum() for s in years]), np.array([y[s:].sum() for s in years])
    sizes = years, len(y) - years
    rates = [(2.0 + n) / (1.0 + size) for n, size in zip(sums, sizes, strict=True)]
    log_weights = sum(
        gammaln(2.0 + n) - (2.0 + n) * np.log(1.0 + size)
        for n, size in zip(sums, sizes, strict=True)
    )
    weights = softmax(log_weights)
    likely = np.flatnonzero(weights > 0.01)
    switch = np.asarray(result.draws["switch"])
    check_means(switch[..., None] == likely, weights[likely])
    check_means(result.draws["early"], weights @ rates[0])
    check_means(result.draws["late"], weights @ rates[1])


def edges_of(num_nodes):
    """Edges of a graph whose even and odd nodes are two blocks."""
    first, second = np.triu_indices(num_nodes, 1)
    probs = np.where((first + second) % 2 == 0, 0.75, 0.15)
    return np.random.default_rng(1).binomial(1, probs)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["auto", "one at a time"])
def test_blocks_of_a_graph_agree_with_enumeration(how):
    """All 2^8 assignments of eight nodes; the probabilities of edges are integrated."""
    edges = edges_of(8)
    kernel = None if how == "auto" else Gibbs.auto({"block": GibbsWithGradients(gradient=False)})
    result = sample(discrete.block_model, {"edge": jnp.array(edges)}, 8, kernel=kernel)
    blocks = np.array(list(itertools.product([0, 1], repeat=8)))
    first, second = np.triu_indices(8, 1)
    is_within = blocks[:, first] == blocks[:, second]
    scores = 0.0
    means = []
    for pairs, a, b in ((is_within, 2.0, 1.0), (~is_within, 1.0, 2.0)):
        hits = a + (pairs * edges).sum(1)
        misses = b + (pairs * (1 - edges)).sum(1)
        scores = scores + betaln(hits, misses)
        means.append(hits / (hits + misses))
    weights = softmax(scores)
    block = np.asarray(result.draws["block"])
    check_means(block[..., first] == block[..., second], weights @ is_within)
    check_means(result.draws["within"], weights @ means[0])
    check_means(result.draws["between"], weights @ means[1])


@pytest.mark.slow
def test_blocks_of_twenty_nodes_are_recovered():
    """By moves of one node at a time: the joint states are too many to sum."""
    result = sample(discrete.block_model, {"edge": jnp.array(edges_of(20))}, 20, num_draws=1000)
    block = np.asarray(result.draws["block"])
    together = (block[..., :, None] == block[..., None, :]).mean((0, 1))
    truth = np.add.outer(np.arange(20), np.arange(20)) % 2 == 0
    assert np.abs(together - truth).max() < 0.2
