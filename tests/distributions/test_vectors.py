"""Families of vectors and matrices: identities, limits, and what the table has no room for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.processes import FOUR, GRAPH

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")


def test_intrinsic_autoregression_is_normal_in_differences(x64):
    """The density of its zero-sum part, up to the determinant of the graph."""
    laplacian = np.diag(GRAPH.sum(0)) - GRAPH
    plane = st.multivariate_normal(
        np.zeros(4), 2.25 * np.linalg.pinv(laplacian, hermitian=True), allow_singular=True
    )
    d = dist.ICAR(scale=1.5, adj_matrix=GRAPH)
    centered = FOUR - FOUR.mean(1, keepdims=True)
    half_log_det = 0.5 * np.log(np.linalg.eigvalsh(laplacian)[1:]).sum()
    np.testing.assert_allclose(d.log_prob(centered), plane.logpdf(centered) - half_log_det)
    np.testing.assert_allclose(d.log_prob(FOUR + 1e3), d.log_prob(centered), rtol=1e-9)


def test_islands_of_an_intrinsic_autoregression_are_independent(x64):
    """Known on the host, in a batch with a whole graph, and traced; with derivatives."""
    path, pair = np.diag(np.ones(2), 1), np.diag(np.ones(1), 1)
    parts = [path + path.T, pair + pair.T]
    islands = np.zeros((5, 5))
    islands[np.ix_([0, 2, 4], [0, 2, 4])], islands[np.ix_([1, 3], [1, 3])] = parts
    x = jnp.array([1.0, 2.0, 4.0, 7.0, -3.0])

    def apart(scale):
        one, other = (
            dist.ICAR(scale=scale, adj_matrix=parts[0]),
            dist.ICAR(scale=scale, adj_matrix=parts[1]),
        )
        return one.log_prob(x[::2]) + other.log_prob(x[1::2])

    def together(scale, graph=islands):
        return dist.ICAR(scale=scale, adj_matrix=graph).log_prob(x)

    truth = jax.value_and_grad(apart)(1.5)
    np.testing.assert_allclose(jax.value_and_grad(together)(1.5), truth)
    np.testing.assert_allclose(jax.jit(jax.value_and_grad(together))(1.5, islands), truth)
    both = np.stack([islands, 1 - np.eye(5)])
    each = [together(1.5), together(1.5, both[1])]
    np.testing.assert_allclose(together(1.5, both), each)
    np.testing.assert_allclose(jax.jit(jax.vmap(together, (None, 0)))(1.5, both), each)


def test_matrices_without_entries_are_matrices():
    for name in ("symmetric", "adjacency", "positive_definite", "correlation"):
        constraint = getattr(dist.constraints, name)
        assert constraint.check(np.zeros((0, 0)))
        assert constraint.check(np.zeros((2, 0, 0))).shape == (2,)
    assert dist.ICAR(scale=1.5, adj_matrix=np.zeros((0, 0))).log_prob(np.zeros(0)) == 0


def test_an_intrinsic_autoregression_is_improper():
    d = dist.ICAR(scale=1.5, adj_matrix=GRAPH)
    for method in (lambda: d.sample(jax.random.key(0)), d.mean, d.variance, d.mode, d.entropy):
        with pytest.raises(NotImplementedError, match="ICAR is improper"):
            method()


def test_eigenvalues_of_a_known_graph_are_no_part_of_the_program():
    def program(graph):
        return str(
            jax.make_jaxpr(
                lambda c: dist.CAR(
                    0.0, correlation=c, conditional_precision=1.0, adj_matrix=graph
                ).log_prob(FOUR[0])
            )(0.5)
        )

    assert "eigh" not in program(GRAPH)
    assert "eigh" in str(
        jax.make_jaxpr(
            lambda g: dist.CAR(
                0.0, correlation=0.5, conditional_precision=1.0, adj_matrix=g
            ).log_prob(FOUR[0])
        )(GRAPH * 1.0)
    )


def kernel(x, y):
    return jnp.exp(-0.5 * jnp.square(x - y))


def test_a_process_from_functions_is_that_from_their_values(x64):
    points = jnp.array([0.0, 0.5, 2.0])
    d = dist.GaussianProcess(kernel, points, jnp.sin, 0.25)
    covariance = np.exp(-0.5 * np.subtract.outer(points, points) ** 2) + 0.25 * np.eye(3)
    truth = st.multivariate_normal(np.sin(points), covariance)
    np.testing.assert_allclose(d.log_prob(jnp.ones(3)), truth.logpdf(np.ones(3)), rtol=1e-12)
    with pytest.raises(ValueError, match="a function needs index_points"):
        dist.GaussianProcess(kernel)


def test_hyperparameters_of_a_process_have_gradients(x64):
    def score(width):
        d = dist.GaussianProcess(lambda x, y: kernel(x / width, y / width), jnp.arange(3.0), 0, 0.1)
        return d.log_prob(jnp.ones(3))

    numeric = (score(1.0 + 1e-6) - score(1.0 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jit(jax.grad(score))(1.0), numeric, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 5, 40])
@pytest.mark.parametrize("concentration", [1e-3, 1.0, 60.0, 1e4])
def test_normalizers_of_von_mises_fisher(n, concentration, x64):
    """Against scipy's Bessel function, as far as it is finite."""
    direction = np.eye(n)[0]
    order = n / 2 - 1
    log_bessel = np.log(sp.ive(order, concentration))
    if not np.isfinite(log_bessel):
        pytest.skip("scipy's Bessel function underflows")
    truth = order * np.log(concentration) - 0.5 * n * np.log(2 * np.pi) - log_bessel
    d = dist.VonMisesFisher(direction, concentration)
    np.testing.assert_allclose(d.log_prob(direction), truth, rtol=1e-10, atol=1e-10)
    resultant = sp.ive(order + 1, concentration) / sp.ive(order, concentration)
    np.testing.assert_allclose(d.mean()[0], resultant, rtol=1e-10)


EXTREMES = {
    "VonMisesFisher, uniform": (
        lambda: dist.VonMisesFisher(np.eye(3)[2], 0.0),
        np.eye(3)[0],
        -np.log(4 * np.pi),
    ),
    "VonMisesFisher, concentrated": (
        lambda: dist.VonMisesFisher(np.eye(3)[2], 1e30),
        np.eye(3)[2],
        np.log(1e30 / (2 * np.pi)),
    ),
    "PowerSpherical, opposite": (
        lambda: dist.PowerSpherical(np.eye(3)[2], 0.0),
        -np.eye(3)[2],
        -np.log(4 * np.pi),
    ),
    "PowerSpherical, concentrated": (
        lambda: dist.PowerSpherical(np.eye(3)[2], 1e30),
        np.eye(3)[2],
        np.log(1e30 / (4 * np.pi)),
    ),
    "ProjectedNormal, far": (
        lambda: dist.ProjectedNormal(np.array([0.0, 0.0, 1e8])),
        np.eye(3)[2],
        np.log(1e16 / (2 * np.pi)),
    ),
    "ProjectedNormal, opposite": (  # An integral over r of r^2 exp(-r^2 / 2 - s r).
        lambda: dist.ProjectedNormal(np.array([0.0, 0.0, 1e4])),
        -np.eye(3)[2],
        np.log(2 / 1e12) - 0.5e8 - 1.5 * np.log(2 * np.pi),
    ),
    "MultivariateStudentT, normal": (
        lambda: dist.MultivariateStudentT(1e30, 0.0, scale=np.eye(2)),
        np.array([3.0, 4.0]),
        -12.5 - np.log(2 * np.pi),
    ),
    "MultivariateStudentT, far out": (
        lambda: dist.MultivariateStudentT(1.0, 0.0, scale=np.eye(2)),
        np.array([1e100, 0.0]),
        -300 * np.log(10) - np.log(2 * np.pi),
    ),
    "MultivariateNormal, all but of low rank": (
        lambda: dist.MultivariateNormal(
            0.0, cov_factor=np.ones((2, 1)), cov_diag=np.full(2, 1e-12)
        ),
        np.ones(2),
        -0.5 - np.log(2 * np.pi) - 0.5 * np.log(2e-12),
    ),
    "Dirichlet, concentrated": (
        lambda: dist.Dirichlet(np.full(2, 1e8)),
        np.full(2, 0.5),
        0.5 * np.log(1e8 / np.pi) + np.log(2),
    ),
    "LKJCholesky, concentrated": (  # (n - 1) n / 2 nearly normal correlations.
        lambda: dist.LKJCholesky(3, 1e12),
        np.eye(3),
        1.5 * np.log(1e12 / np.pi),
    ),
}


@pytest.mark.slow_rows("MultivariateStudentT, normal", "LKJCholesky, concentrated")
@pytest.mark.parametrize("name", EXTREMES)
def test_limits(name, x64):
    make, value, truth = EXTREMES[name]
    d = make()
    score = jax.jit(jax.value_and_grad(lambda d, x: d.log_prob(x), (0, 1)))
    log_prob, gradients = score(jax.tree.map(jnp.asarray, d), jnp.asarray(value))
    np.testing.assert_allclose(log_prob, truth, rtol=1e-5, atol=1e-6)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradients))


MISTAKES = [
    (lambda: dist.LKJ(1, 1.0), "LKJ: dimension must be an integer, 2 or more; got 1"),
    (lambda: dist.LKJCholesky(2.0, 1.0), "LKJCholesky: dimension must be .* got 2.0"),
    (
        lambda: dist.Wishart(1.5, scale=np.eye(3)),
        "Wishart: df must be greater than .* less 1, 2; got",
    ),
    (lambda: dist.Wishart(4.0), "Wishart: give exactly one of scale, scale_tril"),
    (lambda: dist.GaussianRandomWalk(1.0, 0), "GaussianRandomWalk: num_steps must be a positive"),
    (
        lambda: dist.GaussianRandomWalk(1.0, 2, 3.0),
        "init must be a distribution of numbers; got 3.0",
    ),
    (lambda: dist.AutoRegressive(0.0, 1.0, 1.0, 3), "AutoRegressive: coefficient must be"),
    (lambda: dist.AutoRegressive(0.0, 0.5, 1.0, -3), "AutoRegressive: num_steps must be"),
    (lambda: dist.StickBreakingWeights(1.0, 0), "StickBreakingWeights: num_breaks must be"),
    (
        lambda: dist.CAR(0.0, correlation=0.5, conditional_precision=1.0, adj_matrix=np.eye(3)),
        "CAR: adj_matrix must be symmetric, .* zero diag",
    ),
    (lambda: dist.VonMisesFisher(np.ones(3), 1.0), "mean_direction must be a unit vector"),
    (
        lambda: dist.CirculantNormal(0.0, np.array([1.0, 0.5, 0.0])),
        "CirculantNormal: covariance_row must be symmetric around the circle",
    ),
    (lambda: dist.SphericalUniform(1), "SphericalUniform: dimension must be"),
    (lambda: dist.ZeroSumNormal(1.0, shape=3), "ZeroSumNormal: shape must be a tuple"),
    (
        lambda: dist.MatrixNormal(
            np.zeros((2, 3)), scale_tril_row=np.eye(3), scale_tril_column=np.eye(3)
        ),
        r"MatrixNormal: the shapes of the parameters do not broadcast: loc \(2, 3\)",
    ),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_shapes_are_hashable():
    d = dist.ZeroSumNormal(1.0, shape=[np.int64(2), 3])
    assert d.shape == (2, 3)
    assert hash(jax.tree.structure(d)) == hash(
        jax.tree.structure(dist.ZeroSumNormal(2.0, shape=(2, 3)))
    )


def test_modes_at_the_edge(x64):
    """Where a density has no greatest value inside: a limit of points of ever greater density."""
    for concentration in (0.25, 0.75):
        d = dist.LKJCholesky(3, concentration)
        mode = np.asarray(d.mode())
        assert mode[2, 2] == 0
        np.testing.assert_allclose((mode**2).sum(1), 1)
    np.testing.assert_array_equal(dist.Dirichlet(np.array([0.5, 1.0, 0.5])).mode(), [0, 1, 0])
    np.testing.assert_array_equal(dist.Wishart(3.0, scale=np.eye(3)).mode(), np.zeros((3, 3)))


@pytest.mark.slow
def test_derivatives_where_there_is_noise_on_a_grid():
    """Where eigenvalues are equal, too; second ones in the factors are an error."""

    def score(noise, scale=1.0):
        trils = scale * jnp.eye(2), jnp.eye(3)
        return dist.KroneckerNormal(0.0, scale_trils=trils, noise_scale=noise).log_prob(jnp.ones(6))

    by_scale = jax.grad(score, 1)
    np.testing.assert_allclose(jax.grad(score)(1.0), -1.5, rtol=1e-5)
    np.testing.assert_allclose(by_scale(1.0, 1.0), -1.5, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(jax.grad(score))(1.0), -1.5, rtol=1e-5)
    with pytest.raises(NotImplementedError, match=r"KroneckerNormal: .* first derivatives only"):
        jax.grad(by_scale, 1)(1.0, 1.0)
    with pytest.raises(ValueError, match="KroneckerNormal: noise_scale must be positive"):
        score(-1.0)


def test_the_mean_of_directions_in_the_plane(x64):
    """By modified Bessel functions (Mardia and Jupp 2000, equation 3.5.48)."""
    size = np.array([0.0, 1e-8, 0.5, 3.0, 50.0])
    mean = dist.ProjectedNormal(np.stack([0 * size, size], 1)).mean()
    square = size**2 / 4
    truth = np.sqrt(np.pi / 8) * size * (sp.ive(0, square) + sp.ive(1, square))
    np.testing.assert_allclose(mean[:, 1], truth, rtol=1e-12)
    slope = jax.grad(lambda x: dist.ProjectedNormal(x).mean()[1])(np.zeros(2))
    np.testing.assert_allclose(slope, [0, np.sqrt(np.pi / 8)], rtol=1e-12)
