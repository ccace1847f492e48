"""Chains on several devices and in several processes draw what they draw on one.

Each layout needs processes of its own, which run this file: `XLA_FLAGS` and `jax.distributed` count
from when JAX starts.
"""

import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import distributions as dist
import ppl
from inference import HMC, laplace, mcmc, optimize, pathfinder, svgd, svi
from inference.chains import sampling
from inference.runtime.devices import default_device, share_chains

NUM_CHAINS, MANY = 8, 32  # that learn each its own mass matrix, and one together
SETTINGS = {
    "num_warmup": 24,  # with one window, after which mass matrices are renewed
    "num_draws": 15,
    "mass_matrix": "dense",
}


def model(key, scale):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(3), scale), name="y")


def draws(mesh=None, y=(0.5, 1.0, 2.0), num_chains=NUM_CHAINS):
    posterior = ppl.condition(model, {"y": jnp.array(y)})
    return mcmc(jax.random.key(0), posterior, 2.0, mesh=mesh, num_chains=num_chains, **SETTINGS)


def report(mesh):
    """What a process has drawn, and what it says of a model without a start."""
    found = {}
    for num_chains in (NUM_CHAINS, MANY):
        result = draws(mesh, num_chains=num_chains)
        drawn = {"mu": result.draws["mu"].tolist(), "steps": result.stats["num_steps"].tolist()}
        found[str(num_chains)] = drawn
    if jax.process_count() > 1:
        try:
            draws(mesh, y=(np.inf if jax.process_index() else 0.0, 1.0, 2.0))
        except (ValueError, RuntimeError) as error:
            found["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


def start(*arguments, num_devices=1):
    flags = f"--xla_force_host_platform_device_count={num_devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.inference.test_devices", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def output(process):
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text
    return json.loads(text.splitlines()[-1])


def check_all(found):
    for num_chains in (NUM_CHAINS, MANY):
        check(found[str(num_chains)], draws(num_chains=num_chains))


def check(found, whole):
    np.testing.assert_allclose(found["mu"], whole.draws["mu"], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found["steps"], whole.stats["num_steps"])


@pytest.mark.slow
def test_eight_devices_draw_what_one_draws(x64):
    check_all(output(start(num_devices=8)))


@pytest.mark.slow
def test_two_processes_draw_what_one_draws_and_fail_together(x64):
    port = free_port()
    processes = [start(port, i, num_devices=2) for i in range(2)]
    found = [output(process) for process in processes]
    for one in found:
        check_all(one)
    assert (
        found[0]["error"] == "RuntimeError: chains of another process failed; its message says why"
    )
    assert re.search("ValueError: chain 4 found no starting point", found[1]["error"])


def mesh(*shape):
    return Mesh(np.array(jax.devices()[: np.prod(shape)]).reshape(shape), tuple("ab"[: len(shape)]))


@pytest.mark.quick_rows("shape2-8")
@pytest.mark.parametrize("num_chains", [NUM_CHAINS, MANY])
@pytest.mark.parametrize("shape", [(1,), (4,), (2, 2)])
def test_a_mesh_changes_no_draw(x64, shape, num_chains):
    result = draws(mesh(*shape), num_chains=num_chains)
    found = {"mu": result.draws["mu"], "steps": result.stats["num_steps"]}
    check(found, draws(num_chains=num_chains))


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 2])
def test_chains_mapped_over_as_on_accelerators_draw_the_same(x64, monkeypatch, num_devices):
    share = dataclasses.replace(share_chains(NUM_CHAINS, mesh(num_devices)), is_mapped=True)
    whole = draws()
    monkeypatch.setattr(sampling, "share_chains", lambda *_: share)
    # Other vector instructions round otherwise, and chaos makes that grow.
    mu = draws().draws["mu"][:, :5]
    np.testing.assert_allclose(mu, whole.draws["mu"][:, :5], rtol=1e-6, atol=1e-9)


def test_a_mesh_of_one_device_is_that_device():
    """On the default one there is a thread for each core; a program is compiled for another."""
    first, other = jax.devices()[0], jax.devices()[2]
    assert share_chains(8, Mesh(np.array([first]), ("a",))).mesh is None
    there = share_chains(8, Mesh(np.array([other]), ("a",))).mesh
    assert there is not None
    assert list(there.devices) == [other]
    with jax.default_device(other):
        assert share_chains(8, Mesh(np.array([other]), ("a",))).mesh is None
        assert share_chains(8, Mesh(np.array([first]), ("a",))).mesh is not None
        assert default_device() == other
    with jax.default_device("cpu"):  # pyright: ignore[reportArgumentType]
        assert default_device() == first


PLACES = {
    "one": lambda d: d[3],
    "copies": lambda d: NamedSharding(Mesh(np.array(d[:3]), ("a",)), PartitionSpec()),
}


@pytest.mark.quick_rows("False-copies", "True-copies")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_shared", [False, True])
def test_data_on_other_devices_are_copied_to_where_chains_run(x64, place, is_shared):
    y = jax.device_put(jnp.array([0.5, 1.0, 2.0]), PLACES[place](jax.devices()))
    scale = jax.device_put(2.0, jax.devices()[1])
    posterior = ppl.condition(model, {"y": y})
    devices = mesh(4) if is_shared else None
    result = mcmc(
        jax.random.key(0), posterior, scale, mesh=devices, num_chains=NUM_CHAINS, **SETTINGS
    )
    check({"mu": result.draws["mu"], "steps": result.stats["num_steps"]}, draws())


def test_a_kernel_on_another_device_is_copied_to_the_chains():
    there = partial(jax.device_put, device=jax.devices()[3])
    kernel = HMC(
        step_size=there(0.1),
        inverse_mass_matrix=there(jnp.ones(1)),
        step_size_jitter=there(0.2),
        num_steps=3,
    )
    posterior = ppl.condition(model, {"y": jnp.ones(3)})
    mcmc(jax.random.key(0), posterior, 2.0, kernel=kernel, num_warmup=5, num_draws=5)


OTHERS = [svi, laplace, pathfinder, optimize, partial(svgd, num_steps=2)]


@pytest.mark.quick_rows("infer4")
@pytest.mark.parametrize("infer", OTHERS)
def test_every_algorithm_takes_data_of_other_devices(infer):
    y = jax.device_put(jnp.array([0.5, 1.0, 2.0]), jax.devices()[3])
    infer(jax.random.key(0), ppl.condition(model, {"y": y}), jax.device_put(2.0, jax.devices()[1]))


SHORT = {"num_warmup": 10, "num_draws": 5}


@pytest.mark.quick_rows("infer2")
@pytest.mark.parametrize(
    "infer", [svi, optimize, partial(svgd, num_steps=2), partial(mcmc, **SHORT)]
)
def test_a_model_may_spread_data_that_were_spread(infer):
    """The devices of a `shard_map` are those of the data."""
    spread = NamedSharding(Mesh(np.array(jax.devices()[:4]), ("a",)), PartitionSpec("a"))

    def spreading(key, x):
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        total = lambda x, b: jax.lax.psum(-0.5 * jnp.sum((x - b) ** 2), "a")  # noqa: E731
        specs = {"in_specs": (PartitionSpec("a"), PartitionSpec()), "out_specs": PartitionSpec()}
        ppl.factor(jax.shard_map(total, mesh=spread.mesh, **specs)(x, b), name="data")

    infer(jax.random.key(0), spreading, jax.device_put(jnp.arange(8.0), spread))


def test_explicit_axes_are_told_and_batches_may_be_spread():
    mesh = jax.make_mesh((4,), ("a",), axis_types=(AxisType.Explicit,))
    over = NamedSharding(mesh, PartitionSpec("a"))
    x = np.arange(8.0, dtype="f4")

    def spreading(key, x):
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        each = jax.shard_map(lambda x: x, mesh=mesh, in_specs=over.spec, out_specs=over.spec)(x)
        ppl.factor(-jnp.sum((each - b) ** 2), name="data")

    with pytest.raises(ValueError, match=r"mesh with explicit axes.*AxisType\.Auto"):
        svi(jax.random.key(0), spreading, jax.device_put(x, over), num_steps=2)

    def observing(key, x):
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        ppl.factor(-jnp.sum((x - b) ** 2), name="data")

    of_batches = [
        svi(jax.random.key(0), observing, batches=[batch], num_steps=20, num_draws=5)
        for batch in (x, jax.device_put(x, over))
    ]
    np.testing.assert_allclose(*(fit.draws["b"] for fit in of_batches), rtol=1e-4)


def rows(key, over):
    """Two rows with a latent value each on every device, or `vmap` in the place of devices."""
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")

    def shard(keys):
        z = jax.vmap(lambda key: ppl.sample(key, dist.Normal(mu, 1.0), name="z"))(keys)
        return jax.vmap(lambda key, z: ppl.sample(key, dist.Normal(z, 0.5), name="y"))(keys, z)

    keys = jax.random.split(key, 8)
    if isinstance(over, int):
        return jax.vmap(shard)(keys.reshape(over, -1))
    specs = {"in_specs": PartitionSpec("a"), "out_specs": PartitionSpec("a")}
    return jax.shard_map(shard, mesh=over, **specs)(keys)


@pytest.mark.optimized
@pytest.mark.slow
@pytest.mark.parametrize("init", ["uniform", "prior"])
@pytest.mark.parametrize("num_chains", [3, MANY])
def test_all_devices_of_a_model_move_each_chain(x64, num_chains, init):
    posterior = ppl.condition(rows, {"y": jnp.arange(8.0).reshape(4, 2)})
    run = partial(mcmc, jax.random.key(0), posterior, num_chains=num_chains, **SETTINGS)
    whole, spread = run(4, init=init), run(mesh(4), init=init)
    check({"mu": spread.draws["mu"], "steps": spread.stats["num_steps"]}, whole)
    np.testing.assert_allclose(spread.draws["z"], whole.draws["z"], rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_the_devices_of_a_model_may_be_those_of_the_context(x64):
    posterior = ppl.condition(rows, {"y": jnp.arange(8.0).reshape(4, 2)})
    run = partial(mcmc, jax.random.key(0), posterior, num_chains=2, **SETTINGS)
    with jax.set_mesh(mesh(4)):
        spread = run(None)
    check({"mu": spread.draws["mu"], "steps": spread.stats["num_steps"]}, run(4))


def test_chains_and_the_model_cannot_both_be_spread():
    posterior = ppl.condition(rows, {"y": jnp.zeros((4, 2))})
    with pytest.raises(ValueError, match="a shard_map of its own, over Mesh"):
        mcmc(jax.random.key(0), posterior, mesh(4), mesh=mesh(2), num_chains=2, **SHORT)


def test_chains_that_cannot_be_shared_are_explained():
    with pytest.raises(ValueError, match="multiple of the 3 devices of the mesh, got 8"):
        share_chains(8, mesh(3))
    with pytest.raises(TypeError, match="mesh must be a mesh of devices"):
        share_chains(8, jax.devices())


@pytest.mark.slow
def test_a_failure_names_the_chain_on_a_mesh():
    with pytest.raises(ValueError, match="chain 0 found no starting point"):
        draws(mesh(4), y=(np.inf, 1.0, 2.0))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        port, index = sys.argv[1:]
        jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=int(index))
    report(Mesh(np.array(jax.devices()), ("device",)))
