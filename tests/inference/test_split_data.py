"""Data that are split over the devices of a mesh stay there: results as of whole data.

The last test runs this file in two processes, each with half of the rows.
"""

import json
import math
import os
import re
import socket
import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding

import distributions as dist
import inference
import ppl
from inference.chains.run_control import Monitor, StopRun, finish_run
from inference.checkpoints.manifest import describe_array
from inference.runtime import compiled_program
from inference.runtime.devices import (
    LostProcessError,
    Share,
    mesh_of_data,
    put_on_common_devices,
    share_chains,
)

NUM_ROWS, NUM_COLUMNS = 1600, 3
SETTINGS: dict[str, Any] = {"num_warmup": 60, "num_draws": 10, "num_chains": 4}


def regression(key, x):
    w = ppl.sample(key, dist.Normal(jnp.zeros(x.shape[1]), 1.0), name="w")
    return ppl.sample(key, dist.Bernoulli(logits=x @ w), name="y")


def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_ROWS, NUM_COLUMNS))
    return x, (rng.uniform(size=NUM_ROWS) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int32)


def mesh_of(kind=AxisType.Auto, **axes):
    kinds = (kind,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=kinds)


def split(mesh, *arrays, axis="data"):
    return [jax.device_put(x, NamedSharding(mesh, P(axis))) for x in arrays]


def posterior_of(mesh=None) -> tuple[Any, Any]:
    """The conditioned model and its argument, whole or split over the mesh."""
    x, y = rows()
    x, y = (x, y) if mesh is None else split(mesh, x, y)
    return ppl.condition(regression, {"y": y}), x


@pytest.fixture
def programs(monkeypatch):
    """All programs that are compiled meanwhile, by name."""
    found = {}

    class Kept(compiled_program.CompiledProgram):
        def __init__(self, executable):
            super().__init__(executable)
            found[executable.as_text().split(",")[0].split()[1]] = executable

    compiled_program.compile_program.cache_clear()
    monkeypatch.setattr(compiled_program, "CompiledProgram", Kept)
    yield found
    compiled_program.compile_program.cache_clear()


def largest_moved(program):
    """Number of elements of the largest array that devices send each other whole."""
    moved = r"\[([\d,]*)\]\S* (?:all-gather|all-to-all|collective-permute|collective-broadcast)"
    shapes = re.findall(moved, program.as_text())
    return max((math.prod(map(int, filter(None, x.split(",")))) for x in shapes), default=0)


def check(programs, *names):
    """Devices send each other sums over their rows, and no rows."""
    assert set(names) <= programs.keys(), programs.keys()
    for name in names:
        assert " all-reduce(" in programs[name].as_text(), name
    for program in programs.values():
        assert largest_moved(program) < NUM_ROWS // 8


def test_the_check_of_programs_sees_what_moves(programs):
    (x,) = split(mesh_of(data=4), rows()[0])

    def collect(x):
        whole = jax.lax.with_sharding_constraint(x, NamedSharding(mesh_of(data=4), P()))
        return jnp.sum(jnp.sort(whole, 0)[::2] ** 2)

    compiled_program.compile_once(collect, x)
    assert largest_moved(programs["jit_collect"]) == x.size


def compare(split_up, whole, rtol=1e-8):
    np.testing.assert_array_equal(split_up.stats["num_steps"], whole.stats["num_steps"])
    np.testing.assert_allclose(split_up.draws["w"], whole.draws["w"], rtol=rtol, atol=1e-10)


KINDS = {"explicit": AxisType.Explicit, "auto": AxisType.Auto}  # the first is JAX's default


@pytest.mark.parametrize(
    ("has_mesh", "kind"), [(True, "explicit"), pytest.param(False, "auto", marks=pytest.mark.slow)]
)
def test_chains_of_split_data_draw_the_same(x64, programs, has_mesh, kind):
    mesh = mesh_of(KINDS[kind], chains=2, data=2)
    whole = inference.mcmc(jax.random.key(0), *posterior_of(), **SETTINGS)
    run = partial(inference.mcmc, jax.random.key(0), *posterior_of(mesh), **SETTINGS)
    compare(run(mesh=mesh) if has_mesh else run(), whole)
    check(programs, "jit_advance_chains")


def effects(key, group):
    u = ppl.sample(key, dist.Normal(jnp.zeros(5), 1.0), name="u")
    return ppl.sample(key, dist.Normal(u[group], 1.0), name="y")


def test_a_model_may_index_by_split_data(x64):
    y, group = np.random.default_rng(0).normal(size=40), np.arange(40) % 5
    rows, parts = split(mesh_of(AxisType.Explicit, data=4), y, group)
    at = {"u": np.linspace(-1.0, 1.0, 5)}
    squares = np.sum((y - at["u"][group]) ** 2) + np.sum(at["u"] ** 2)
    expected = -0.5 * (squares + 45 * np.log(2 * np.pi))
    posterior = ppl.condition(effects, {"y": rows})
    np.testing.assert_allclose(ppl.log_density(posterior)(at, parts), expected, rtol=1e-12)
    target = put_on_common_devices(ppl.unconstrain(posterior, parts))
    np.testing.assert_allclose(target.log_density(at), expected, rtol=1e-12)
    drawn = ppl.predict(effects, {"u": at["u"][None]})(jax.random.key(1), parts)["y"]
    assert drawn.addressable_data(0).shape == (1, 10)


def test_a_device_has_its_part_of_the_data_alone(x64, programs):
    posterior, x = posterior_of(mesh_of(data=4))
    target = put_on_common_devices(ppl.unconstrain(posterior, x))
    places = [part.data.unsafe_buffer_pointer() for part in x.addressable_shards]
    (kept,) = target.data
    assert places == [part.data.unsafe_buffer_pointer() for part in kept.addressable_shards]

    def slope(target, position):
        return jax.value_and_grad(target.log_density)(position)

    arguments = target, {"w": np.zeros(NUM_COLUMNS)}
    value, _ = compiled_program.compile_once(slope, *arguments)(*arguments)
    whole = ppl.log_density(posterior_of()[0])(arguments[1], rows()[0])
    np.testing.assert_allclose(value, whole, rtol=1e-12)
    check(programs, "jit_slope")
    memory = programs["jit_slope"].memory_analysis()
    part = sum(array.nbytes for array in rows()) / 4
    assert part <= memory.argument_size_in_bytes < 1.01 * part
    assert memory.temp_size_in_bytes < part


def test_svi_of_split_data_is_the_same(x64, programs):
    fit = partial(inference.svi, jax.random.key(0), num_steps=200, num_draws=20)
    whole, result = fit(*posterior_of()), fit(*posterior_of(mesh_of(data=4)))
    np.testing.assert_allclose(result.draws["w"], whole.draws["w"], rtol=1e-6, atol=1e-9)
    check(programs, "jit_advance_svi")


def test_predictions_stay_split_and_are_the_same(x64):
    (posterior, whole), (spread, x) = posterior_of(), posterior_of(mesh_of(data=4))
    draws = {"w": np.random.default_rng(1).normal(size=(2, 50, NUM_COLUMNS))}
    predict = ppl.predict(regression, draws)
    found, expected = predict(jax.random.key(0), x)["y"], predict(jax.random.key(0), whole)["y"]
    np.testing.assert_array_equal(found, expected)
    assert found.addressable_data(0).shape == (2, 50, NUM_ROWS // 4)
    at = {"w": draws["w"][0, 0]}
    found = ppl.log_probs(spread)(at, x)["y"]
    np.testing.assert_allclose(found, ppl.log_probs(posterior)(at, whole)["y"], rtol=1e-12)
    assert found.addressable_data(0).shape == (NUM_ROWS // 4,)


@pytest.mark.slow
def test_loo_of_split_data_is_the_same(x64, programs):
    settings: dict[str, Any] = SETTINGS | {"num_draws": 50}
    (posterior, x), (spread, parts) = posterior_of(), posterior_of(mesh_of(data=4))
    result = inference.mcmc(jax.random.key(0), posterior, x, **settings)
    found, expected = inference.loo(result, spread, parts), inference.loo(result, posterior, x)
    np.testing.assert_allclose(found.elpd, expected.elpd, rtol=1e-9)
    check(programs)


def test_a_checkpoint_knows_split_data_again(x64):
    x = np.arange(4.0 * 6 * 2).reshape(4, 6, 2)
    whole = describe_array(x)
    mesh = mesh_of(a=2, b=2)
    for spec in (P("a"), P(None, "b"), P("b", "a"), P(("a", "b")), P(None, None, "a")):
        assert describe_array(jax.device_put(x, NamedSharding(mesh, spec))) == whole
    assert describe_array(jax.device_put(x + 1, NamedSharding(mesh, P("a")))) != whole


def test_nan_in_split_data_is_counted():
    (y,) = split(mesh_of(data=4), np.where(np.arange(8) == 5, np.nan, 0.0))
    with pytest.raises(ValueError, match=r"1 of the 8 data of site 'y' are NaN"):
        ppl.condition(regression, {"y": y})


def test_what_cannot_be_split_is_explained():
    mesh = mesh_of(chains=2, data=2)
    posterior, x = posterior_of(mesh)
    run = partial(inference.mcmc, jax.random.key(0))
    with pytest.raises(ValueError, match=r"multiple of 2, .* along 'chains', .* got 3"):
        run(posterior, x, num_chains=3)
    with pytest.raises(ValueError, match=r"split over a mesh \('chains': 2, 'data': 2\)"):
        run(posterior, x, mesh=mesh_of(chains=4))
    (other,) = split(mesh_of(rows=4), rows()[0], axis="rows")
    with pytest.raises(ValueError, match=r"different meshes.*'rows': 4"):
        run(posterior, other)
    with pytest.raises(ValueError, match=r"shape \(1600, 3\), which is split .* closure"):
        run(ppl.condition(lambda key: regression(key, x), {"y": rows()[1]}))
    with pytest.raises(TypeError, match="mesh must be a mesh of devices"):
        run(posterior, x, mesh=jax.devices())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", KINDS)
def test_many_data_sets_are_not_gathered_in_silence(kind):
    x, y = split(mesh_of(KINDS[kind], data=4), *rows())
    each = partial(inference.mcmc_each, jax.random.key(0))
    posterior = ppl.condition(regression, {"y": y})
    calibrate = partial(inference.calibrate, jax.random.key(0), regression)
    words = r"shape \(1600, 3\) .* split over the devices \[0, 1, 2, 3\].* numpy\.asarray"
    with pytest.raises(ValueError, match=f"mcmc_each: an array of {words}"):
        each(regression, x)
    with pytest.raises(ValueError, match=f"mcmc_each: an array of {words}"):
        each(lambda key, y, x: posterior(key, x), np.ones(2), x, in_axes=(0, None))
    with pytest.raises(ValueError, match=r"mcmc_each: an array of shape \(1600,\)"):
        each(posterior, np.ones((2, NUM_ROWS, NUM_COLUMNS)))
    with pytest.raises(ValueError, match=f"calibrate: an array of {words}"):
        calibrate(x, observed=["y"])


@pytest.mark.slow
def test_cross_validation_of_split_data_is_the_same(x64, programs):
    settings: dict[str, Any] = {"folds": 2, "num_warmup": 20, "num_draws": 20, "num_chains": 2}
    run = partial(inference.cross_validate, jax.random.key(0), **settings)
    expected, found = run(*posterior_of()), run(*posterior_of(mesh_of(data=4)))
    np.testing.assert_allclose(found.elpd, expected.elpd, rtol=1e-9)
    check(programs, "jit_advance_chains")


def test_explicit_axes_are_taken_as_automatic(x64):
    explicit = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Explicit,))
    (x,) = split(explicit, rows()[0])
    moved = put_on_common_devices([x, jnp.zeros(2)])
    assert mesh_of_data(moved) == mesh_of(data=4)
    assert moved[1].devices() == moved[0].devices()
    found = ppl.log_density(regression)({"w": np.ones(3), "y": rows()[1]}, x)
    np.testing.assert_allclose(
        found, ppl.log_density(regression)({"w": np.ones(3), "y": rows()[1]}, rows()[0])
    )


def of_process(index, count, monkeypatch):
    """Lets this process take itself for another one than that of its devices."""
    monkeypatch.setattr(jax, "process_index", lambda: index)
    monkeypatch.setattr(jax, "process_count", lambda: count)


def test_data_over_a_part_of_the_processes_are_refused(monkeypatch):
    (x,) = split(mesh_of(data=4), rows()[0])
    of_process(1, 2, monkeypatch)
    with pytest.raises(ValueError, match=r"data are split must have as many devices of each of"):
        share_chains(4, None, x)


def test_a_folder_of_joint_data_is_refused_unopened(monkeypatch, tmp_path):
    posterior, x = posterior_of(mesh_of(data=4))
    of_process(1, 1, monkeypatch)
    with pytest.raises(NotImplementedError, match="checkpoint is for chains that one process"):
        inference.mcmc(jax.random.key(0), posterior, x, checkpoint=tmp_path / "run")
    assert not any(tmp_path.iterdir())


JOINT = Share(np.arange(2), 2, None, is_mapped=True, is_joint=True)


def test_a_failed_exchange_of_numbers_says_why(monkeypatch):
    def fail(*_, **__):
        raise TypeError("shapes differ\nand more")

    monkeypatch.setattr(multihost_utils, "process_allgather", fail)
    with pytest.raises(LostProcessError, match=r"with the others \(TypeError: shapes differ\): "):
        JOINT.agree(3)


def test_no_process_ends_a_joint_run_with_draws_of_its_own():
    stop = StopRun("progress failed")
    stop.__cause__ = ZeroDivisionError("in a callback")
    for reason, error in ((KeyboardInterrupt(), KeyboardInterrupt), (stop, ZeroDivisionError)):

        def fail(*_, reason=reason):
            raise reason

        run: Any = SimpleNamespace(share=JOINT, num_warmup=0, num_drawn=5, go_on=fail)
        with pytest.raises(error) as caught:
            finish_run(run, Monitor(), 10)
        assert "no draws to return" in caught.value.__notes__[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [inference.ChEES(), inference.Slice(), inference.MEADS()],
    ids=lambda x: type(x).__name__,
)
def test_every_driver_of_chains_takes_split_data(x64, programs, kernel):
    run = partial(
        inference.mcmc, jax.random.key(0), kernel=kernel, num_warmup=10, num_draws=5, num_chains=16
    )
    whole = run(*posterior_of())
    result = run(*posterior_of(mesh_of(chains=2, data=2)))
    np.testing.assert_allclose(result.draws["w"], whole.draws["w"], rtol=1e-5, atol=1e-7)
    check(programs)


@pytest.mark.slow
@pytest.mark.parametrize("infer", [inference.laplace, inference.pathfinder, inference.importance])
def test_every_fit_takes_split_data(x64, programs, infer):
    whole = infer(jax.random.key(0), *posterior_of())
    result = infer(jax.random.key(0), *posterior_of(mesh_of(data=4)))
    np.testing.assert_allclose(result.draws["w"], whole.draws["w"], rtol=1e-4, atol=1e-6)
    check(programs)


def start(*arguments):
    flags = "--xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.inference.test_split_data", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def report(index, folder):
    """Draws for rows of which this process has half, and what is refused of such data."""
    over = NamedSharding(mesh_of(chains=2, data=2), P(("chains", "data")))
    half = slice(index * NUM_ROWS // 2, (index + 1) * NUM_ROWS // 2)
    x, y = (jax.make_array_from_process_local_data(over, array[half]) for array in rows())
    posterior = ppl.condition(regression, {"y": y})
    run = partial(inference.mcmc, jax.random.key(0), posterior, x, **SETTINGS)
    result = run()
    with jax.enable_x64(False):
        x4 = jax.make_array_from_process_local_data(over, rows()[0][half].astype("f4"))
        settings: dict[str, Any] = SETTINGS | {"num_warmup": 10}
        short = inference.mcmc(jax.random.key(0), posterior, x4, **settings).draws["w"]
    errors = []
    whole = ppl.condition(regression, {"y": rows()[1]})
    (column,) = split(over.mesh, rows()[0])
    for refused in (
        lambda: inference.svi(jax.random.key(0), posterior, x),
        lambda: run(kernel=inference.Slice()),
        lambda: inference.mcmc(jax.random.key(0), whole, column, **SETTINGS),
        lambda: run(checkpoint=folder),
        lambda: inference.resume(folder, posterior, x),
        lambda: ppl.ignore(x),
        lambda: ppl.impute(x),
        lambda: inference.mcmc(jax.random.key(0), posterior, x.at[1, 0].set(np.nan), **SETTINGS),
    ):
        try:
            refused()
        except (ValueError, NotImplementedError) as error:
            errors.append(str(error))
    predicted = ppl.predict(regression, result.draws)(jax.random.key(0), x)["y"]
    shape = predicted.addressable_data(0).shape
    steps = result.stats["num_steps"].tolist()
    found = {"w": result.draws["w"].tolist(), "num_steps": steps, "errors": errors, "part": shape}
    found["short"] = [str(short.dtype), *short.shape]
    print(json.dumps(found))


@pytest.mark.slow
def test_two_processes_with_half_of_the_rows_draw_the_same(x64, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [start(port, i, tmp_path / "run") for i in range(2)]
    texts = [process.communicate(timeout=400)[0] for process in processes]
    whole = inference.mcmc(jax.random.key(0), *posterior_of(), **SETTINGS)
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text
        found = json.loads(text.splitlines()[-1])
        np.testing.assert_array_equal(found["num_steps"], whole.stats["num_steps"])
        np.testing.assert_allclose(found["w"], whole.draws["w"], rtol=1e-8, atol=1e-10)
        assert found["part"] == [4, 10, NUM_ROWS // 4]
        assert found["short"] == ["float32", 4, 10, NUM_COLUMNS]
        words = [
            "which only mcmc takes",
            "not Slice",
            r"spread over 'chains'.*'data', 'chains'",
            "leave it out",
            "leave it out",
            "ignore: data of .* several processes.* as an argument",
            "impute: data of .* several processes.* the whole",
            r"site 'y' has log probability nan at 1 of 1600 elements: at \[1\] its value is",
        ]
        assert len(words) == len(found["errors"])
        assert all(map(re.search, words, found["errors"])), found["errors"]
    assert not any(tmp_path.iterdir())


if __name__ == "__main__":
    port, index, folder = sys.argv[1:]
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=int(index))
    report(int(index), folder)
