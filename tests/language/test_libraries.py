"""Networks of equinox and flax, and solvers of diffrax, as parts of models: exact densities."""

from typing import Any

import diffrax
import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.random import key, split

import distributions as dist
import ppl

from .checks import assert_close
from .programs import real

# A library: its parameters as a pytree, how they are applied, and them by layer as (kernel, bias).


def with_equinox() -> Any:
    network = eqx.nn.MLP(2, 1, 3, 1, activation=jnp.tanh, key=key(0))
    params, rest = eqx.partition(network, eqx.is_array)
    apply = lambda p, x: jax.vmap(eqx.combine(p, rest))(x)  # noqa: E731
    return params, apply, lambda p: [(layer.weight.T, layer.bias) for layer in p.layers]


def with_linen() -> Any:
    dense = flax.linen.Dense
    network = flax.linen.Sequential([dense(3), jnp.tanh, dense(1)])
    params = network.init(key(0), jnp.zeros((1, 2)))
    layers = lambda p: [(d["kernel"], d["bias"]) for d in p["params"].values()]  # noqa: E731
    return params, network.apply, layers


def with_nnx() -> Any:
    dense = lambda n, m: nnx.Linear(n, m, rngs=nnx.Rngs(0))  # noqa: E731
    graph, params = nnx.split(nnx.Sequential(dense(2, 3), jnp.tanh, dense(3, 1)))
    apply = lambda p, x: nnx.merge(graph, p)(x)  # noqa: E731
    layer = lambda d: (d["kernel"][...], d["bias"][...])  # noqa: E731
    return params, apply, lambda p: [layer(p["layers"][i]) for i in (0, 2)]


def standard(x: Any) -> dist.Normal:
    return dist.Normal(jnp.zeros(x.shape), 2.0)


# A form: how the parameters are sampled, and the values that its sites have.


def one_site(key: Any, params: Any) -> Any:
    return ppl.sample(key, dist.Joint(jax.tree.map(standard, params)), name="network")


def one_site_for_each_array(key: Any, params: Any) -> Any:
    draw = lambda path, x: ppl.sample(key, standard(x), name=jax.tree_util.keystr(path))  # noqa: E731
    return jax.tree_util.tree_map_with_path(draw, params)


def one_vector(key: Any, params: Any) -> Any:
    flat, unravel = ravel_pytree(params)
    return unravel(ppl.sample(key, standard(flat), name="network"))


def by_path(params: Any) -> Any:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path): x for path, x in leaves}


FORMS = {
    "one-site": (one_site, lambda params: {"network": params}),
    "site-by-array": (one_site_for_each_array, by_path),
    "one-vector": (one_vector, lambda params: {"network": ravel_pytree(params)[0]}),
}
LIBRARIES = {"equinox": with_equinox, "flax-linen": with_linen, "flax-nnx": with_nnx}


def density_by_hand(params: Any, sigma: Any, layers: Any, x: Any, y: Any) -> Any:
    normal = jax.scipy.stats.norm.logpdf
    (first, first_bias), (last, last_bias) = layers(params)
    f = (jnp.tanh(x @ first + first_bias) @ last + last_bias)[:, 0]
    prior = sum(normal(p, 0.0, 2.0).sum() for p in (first, first_bias, last, last_bias))
    return prior + jnp.log(2) + normal(sigma) + normal(y, f, sigma).sum()


@pytest.mark.quick_rows("flax-nnx-one-vector", "flax-nnx-site-by-array", "flax-nnx-one-site")
@pytest.mark.parametrize(("form", "values_of"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_bayesian_network(library, form, values_of, x64):
    """Density and gradient; positions and the density over them are those of the pytree as well."""
    template, apply, layers = library()
    x, y = jnp.asarray(real(5, 2)), jnp.asarray(real(5))

    def model(key: Any, x: Any) -> Any:
        params = form(key, template)
        sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
        return ppl.sample(key, dist.Normal(apply(params, x)[:, 0], sigma), name="y")

    flat, unravel = ravel_pytree(template)
    params = unravel(jnp.asarray(real(flat.size)))
    posterior = ppl.condition(model, {"y": y})

    @jax.jit
    def ours(params: Any, sigma: Any) -> Any:
        values = {**values_of(params), "sigma": sigma}
        target = ppl.unconstrain(posterior, x)
        position = target.unconstrain(values)
        again = target.constrain(position)
        log_det = target.log_density(position) - ppl.log_density(posterior)(values, x)
        return ppl.log_density(posterior)(again, x), (values, again, log_det)

    (value, (values, again, log_det)), gradient = jax.value_and_grad(ours, (0, 1), has_aux=True)(
        params, 0.7
    )
    expected = jax.value_and_grad(density_by_hand, (0, 1))(params, 0.7, layers, x, y)
    assert_close((value, gradient), expected)
    assert_close(again, values)
    assert_close(log_det, jnp.log(0.7))  # sigma is the exponential of its position


def test_draws_of_a_network_are_networks():
    """With axes for `vmap` and the draws; each array has randomness of its own."""
    params, apply, _ = with_equinox()

    def model(key: Any, x: Any) -> Any:
        nets = jax.vmap(lambda key: one_site(key, params))(split(key, 3))
        return ppl.deterministic(jax.vmap(apply, (0, None))(nets, x), name="f")

    x = jnp.ones((4, 2))
    draws = jax.jit(jax.vmap(ppl.simulate(model), (0, None)))(split(key(0), 5), x)
    assert jax.tree.structure(draws["network"]) == jax.tree.structure(params)
    flat = ravel_pytree(draws["network"])[0]
    assert flat.size == 5 * 3 * ravel_pytree(params)[0].size == len(set(flat.tolist()))
    del draws["f"]
    f = jax.jit(ppl.predict(model, draws))(key(1), x)["f"]
    assert_close(f, jax.vmap(jax.vmap(apply, (0, None)), (0, None))(draws["network"], x), "float32")


# Solvers of differential equations: each model has a closed form.


def logistic(time: Any, y: Any, args: Any) -> Any:
    rate, capacity = args
    return rate * y * (1 - y / capacity)


def solve(y: Any, args: Any, adjoint: Any) -> Any:
    return diffrax.diffeqsolve(
        diffrax.ODETerm(logistic), diffrax.Dopri8(), 0.0, 1.0, 0.05, y, args,
        stepsize_controller=diffrax.PIDController(rtol=1e-12, atol=1e-13),
        adjoint=adjoint, max_steps=256,
    ).ys[0]  # fmt: skip


def growth(key: Any, adjoint: Any) -> Any:
    """Populations side by side, each solved from one observation to the next."""
    rate = ppl.sample(key, dist.LogNormal(0.0, 0.5), name="rate")

    def population(key: Any) -> Any:
        capacity = ppl.sample(key, dist.LogNormal(1.0, 0.5), name="capacity")

        def step(y: Any, key: Any) -> Any:
            y = ppl.sample(
                key, dist.LogNormal(jnp.log(solve(y, (rate, capacity), adjoint)), 0.1), name="y"
            )
            return y, None

        return lax.scan(step, 0.5 * jnp.ones_like(rate), split(key, 2))[0]

    return jax.vmap(population)(split(key, 2))


def log_normal(x: Any, loc: Any, scale: Any) -> Any:
    return jax.scipy.stats.norm.logpdf(jnp.log(x), loc, scale) - jnp.log(x)


def growth_density(v: Any) -> Any:
    total = log_normal(v["rate"], 0.0, 0.5)
    for i in range(2):
        y, capacity = 0.5, v["capacity"][i]
        total += log_normal(capacity, 1.0, 0.5)
        for t in range(2):
            y = capacity / (1 + (capacity / y - 1) * jnp.exp(-v["rate"]))
            total += log_normal(v["y"][i, t], jnp.log(y), 0.1)
            y = v["y"][i, t]
    return total


ADJOINTS = {
    "checkpointed": (diffrax.RecursiveCheckpointAdjoint(), jax.grad),
    "forward": (diffrax.ForwardMode(), jax.jacfwd),
}


@pytest.mark.slow
@pytest.mark.parametrize(("adjoint", "derivative"), ADJOINTS.values(), ids=ADJOINTS)
def test_solver_in_scan_in_vmap(adjoint, derivative, x64):
    """At 1e-10 as everywhere, since the solver is as exact as that."""
    values = {
        "rate": 0.8,
        "capacity": jnp.array([2.0, 4.0]),
        "y": jnp.array([[0.8, 1.1], [0.9, 1.5]]),
    }
    density = lambda values: ppl.log_density(growth)(values, adjoint)  # noqa: E731
    both = lambda f, d: jax.jit(lambda v: (f(v), d(f)(v)))(values)  # noqa: E731
    assert_close(both(density, derivative), both(growth_density, jax.grad))


def test_a_site_in_a_vector_field_is_an_error():
    """It would be drawn at each of the solver's steps, however many there are."""

    def model(key: Any) -> Any:
        noisy = lambda t, y, _: -y * ppl.sample(key, dist.Normal(0.0, 1.0), name="noise")  # noqa: E731
        return diffrax.diffeqsolve(diffrax.ODETerm(noisy), diffrax.Euler(), 0.0, 1.0, 0.1, 1.0).ys

    with pytest.raises(ValueError, match=r"(?s)'noise'.*while"):
        ppl.log_density(model)({"noise": 1.0})
